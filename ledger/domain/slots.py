"""Slots: places in the world that hold one value at a time, and what a memory says is in them ("slots/1").

"Ana lives in Lisbon" fills the slot (ana, lives_in) with lisbon, and "Ana lives in Rome" with rome: both cannot be so at one
time. A slot comes from an edge whose relation holds one value, or from a sentence of a few plain English forms. The forms
are few on purpose: a conflict that is none costs a person's time. Whatever is denied, asked, conditional or
merely possible fills nothing, and so does a word that could name several things at once ("Ana's friend is …").
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct

from ledger.domain.entities import name_form
from ledger.domain.late import late
from ledger.domain.memory import Edge
from ledger.domain.passages import MONTHS
from ledger.domain.text import normalise, words

RULE = "slots/1"
"""What is here, numbers, words and forms. A released rule never changes; another is another version."""

READ_CHARS = 2_000  # of a memory; a longer one is a text, and no fact
SENTENCE_CHARS = 240
VALUE_WORDS = 8

SINGLE = frozenset(
    (
        *("works_at", "lives_in", "born_on", "born_in", "died_on", "married_to", "native_language"),
        *("located_in", "headquartered_in", "reports_to", "capital_of", "version_of"),
    )
)
"""Relations in which a name stands to one other at a time."""

OF_TARGET = frozenset(("capital_of", "version_of"))
"""... and that one has one such name: a country one capital, a product one current version."""

BOTH_WAYS = frozenset(("married_to",))

_HEADS = """
    address age birthday birthplace branch budget capital ceo city color colour company country cto currency
    database deadline diet editor email employer extension firstname framework gender height hometown host hostname
    job language lastname limit location maiden manager mascot motto name nationality nickname occupation owner
    password phone pin plan population port price profession quota region rent repository residence salary seat shell
    size slogan spouse state status surname theme timeout timezone title url username version weight zip
"""
HEADS = frozenset(_HEADS.split())
"""Nouns of which somebody or something has one: an attribute that ends in one of them is a slot."""

_ONLY = frozenset(("favourite", "favorite", "preferred", "default", "main", "primary", "current"))
_VAGUE_WORDS = """
    unknown tbd todo unclear undecided open different same important wrong right correct incorrect fine ok okay good bad
    high low great big small large late early new old too very so quite rather more less most least changing growing
    being going getting a an the what where who which that this these those it
"""
_VAGUE = frozenset(_VAGUE_WORDS.split())
_PRONOUN_WORDS = """
    he she it they this that there these those who which what someone somebody everyone everybody nobody anyone anybody
    one none each all some
"""
PRONOUNS = frozenset(_PRONOUN_WORDS.split())
_UNSURE = late(
    r"\b(?:if|when|unless|would|might|could|should|maybe|perhaps|possibly|probably|used to|formerly|previously|until"
    r"|may (?:be|have|live|work|also|soon|get|become|use|prefer)|or|either|not|no|never|nor|neither|nobody|without|cannot"
    r"|wants?|hopes?|plans?|wishes|thinks?|believes?|says?|said|claims?|asked|pretends?|dreams?)\b|n't\b|\?",
    re.IGNORECASE,
)
_NEVER_SINGLE = frozenset(("note", "notes", "todo", "fact", "idea", "question", "example", "reminder", "warning"))
_CLASS = late(r"an? ", re.IGNORECASE)  # "works at a bank", "is married to a doctor": of a sort, and not which
_NOBODY = frozenset(("home", "night", "nights", "weekend", "weekends", "noon", "midnight", "sea", "scale", "speed"))
_NO_PROSE = late(r"[\\$`{}<>|^]")  # formulas and code

_SENTENCE = late(r"(?<=[.!?;])\s++|\n++")
_SUBJECT = r"(?P<subject>[^\W\d_][\w'’.&-]{0,60}(?: [\w'’.&-]{1,60}){0,3}?)"
_NOW = r"(?: (?:now|currently|still|already|presently))?"
_VALUE = r"(?P<value>\S.*)"
_VERBS = {
    "lives_in": r"(?:lives?|resides?) in",
    "works_at": r"works? (?:at|for)",
    "born_in": r"was born in",
    "born_on": r"was born on",
    "married_to": r"is married to",
    "reports_to": r"reports? to",
    "located_in": r"is (?:located|based|headquartered) in",
    "name": r"(?:is called|is named)",
}
_STATED = tuple(
    (relation, late(rf"{_SUBJECT}{_NOW} {verb}{_NOW} {_VALUE}", re.IGNORECASE)) for relation, verb in _VERBS.items()
)
_OWNED = late(
    rf"(?P<subject>(?:[^\W\d_][\w.&-]{{0,60}}(?: [\w.&-]{{1,60}}){{0,3}}?)['’]s|my|our)"
    rf" (?P<attribute>[\w-]{{1,60}}(?: [\w-]{{1,60}}){{0,3}}?)"
    rf" is{_NOW} {_VALUE}",
    re.IGNORECASE,
)
_OF = late(
    rf"the (?P<attribute>[\w-]{{1,60}}(?: [\w-]{{1,60}}){{0,2}}?)"
    rf"(?: of (?P<subject>[\w'’.&-]{{1,60}}(?: [\w'’.&-]{{1,60}}){{0,3}}?))?"
    rf" is{_NOW} {_VALUE}",
    re.IGNORECASE,
)
_USES = late(
    rf"{_SUBJECT}{_NOW} uses? (?>(?P<value>\S.*?) as (?:its|their|his|her|the|a|an|my|our) )(?P<attribute>\S.*)",
    re.IGNORECASE,
)
_PREFERS = late(rf"{_SUBJECT}{_NOW} prefers? (?>(?P<value>\S.*?) (?:over|to) )(?P<other>\S.*)", re.IGNORECASE)
_PAIR = late(
    r"(?P<key>[A-Za-z][\w .-]{1,60}?)\s*(?P<sign>[:=])\s+(?P<value>\S.*)|(?P<token>[A-Za-z][\w.-]+)=(?P<set>\S+)"
)
_WRITTEN = late(r"[A-Za-z]\w*+(?:[.-]\w++)+|[A-Za-z][^\W_]*+_\w+|[A-Z][A-Z0-9_]+")  # as programs write their keys

_MONTHS = {name: number for number, month in enumerate(MONTHS, 1) for name in (month, month[:3])}
_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve"
NUMBERS = {name: str(number) for number, name in enumerate(_NUMBER_WORDS.split(" "))}
_DAY_FIRST = late(r"(?P<day>\d{1,2})(?:st|nd|rd|th)?(?: of)? (?P<month>[a-z]+)\.?(?:,? (?P<year>\d{4}))?")
_MONTH_FIRST = late(r"(?P<month>[a-z]+)\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,? (?P<year>\d{4}))?")
_ISO = late(r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})(?:t.*)?")
_GROUPED = late(r"(?<=\d),(?=\d{3}\b)")
_ARTICLE = late(r"^(?:the|an?|his|her|its|their|my|our) ")
_MEASURE = late(r"[\d.]+ ?(?P<unit>[^\W\d_]+)")
_UNIT_WORDS = """
    ms s sec secs second seconds min mins minute minutes h hour hours day days week weeks month months year years
    mm cm m km kilometer kilometers kilometre kilometres
    meter meters metre metres inch inches foot feet yard yards mile miles g kg gram grams kilo kilos kilogram
    kilograms ton tons tonne tonnes lb lbs pound pounds stone ounce ounces c f celsius fahrenheit degrees k
    cent cents euro euros eur dollar dollars usd gbp chf franc francs yen kb mb gb tb kib mib gib tib bytes
"""
_UNITS = frozenset(_UNIT_WORDS.split())
_EDGE_MARKS = " \t\"'`´’“”‘.,;:!()[]*_"


class Filled(Struct, frozen=True):
    """One slot and what is in it, normalised, as a rule reads it; ``valid_from`` and ``valid_to`` only where an edge has bounds
    of its own."""

    slot: str
    value: str
    valid_from: str | None = None
    valid_to: str | None = None
    rule: str = RULE


class Statement(Protocol):
    """What of a memory is looked at."""

    @property
    def content(self) -> str | None: ...
    @property
    def edges(self) -> tuple[Edge, ...]: ...
    @property
    def valid_from(self) -> str: ...
    @property
    def valid_to(self) -> str | None: ...


def slots(memory: Statement) -> tuple[Filled, ...]:
    """What a memory puts into slots: each slot once, what is said by edges first."""
    found: dict[str, Filled] = {}
    for each in (*of_edges(memory.edges), *of_text(memory.content or "")):
        found.setdefault(each.slot, each)
    return tuple(found.values())


def of_edges(edges: tuple[Edge, ...]) -> Iterator[Filled]:
    for edge in edges:
        source, relation, target = edge.form
        relation = relation.replace(" ", "_").replace("-", "_")
        if relation not in SINGLE or not source or not target:
            continue
        if relation not in OF_TARGET:
            yield Filled(_slot(source, relation), target, edge.valid_from, edge.valid_to)
        if relation in OF_TARGET | BOTH_WAYS:
            yield Filled(_slot(target, relation), source, edge.valid_from, edge.valid_to)


def of_text(content: str) -> Iterator[Filled]:
    """What the sentences of a text put into slots."""
    for sentence in statements(content):
        yield from of_sentence(sentence)


def statements(content: str, no_prose: re.Pattern[str] = _NO_PROSE) -> Iterator[str]:
    """The sentences of a text that state something: no questions, no formulas, no code; nothing of a long text."""
    if len(content) > READ_CHARS:
        return
    for sentence in _SENTENCE.split(content):
        plain = " ".join(sentence.split()).rstrip(" .!;")
        if plain and len(plain) <= SENTENCE_CHARS and not plain.endswith("?") and not no_prose.search(plain):
            yield plain


def of_sentence(sentence: str) -> Iterator[Filled]:
    if (pair := _PAIR.fullmatch(sentence)) is not None:
        yield from _assigned(pair)
        return
    if _UNSURE.search(sentence):
        return
    if (found := _PREFERS.fullmatch(sentence)) is not None:
        yield from _preferred(found)
        return
    if (found := _USES.fullmatch(sentence)) is not None:
        role = value_form(found["attribute"])
        yield from _filled(_person(found["subject"]), f"uses as {role}" if role else "", found["value"])
        return
    for relation, form in _STATED:
        if (found := form.fullmatch(sentence)) is not None:
            yield from _stated(relation, found)
            return
    for form in (_OWNED, _OF):
        if (found := form.fullmatch(sentence)) is not None:
            attribute = _attribute(found["attribute"])
            subject = _person(found["subject"] or "") if found["subject"] else ""
            if attribute and subject is not None:
                yield from _filled(subject, attribute, found["value"])
            return


def _stated(relation: str, found: re.Match[str]) -> Iterator[Filled]:
    subject = _person(found["subject"])
    if _CLASS.match(found["value"]) or (relation == "works_at" and value_form(found["value"]) in _NOBODY):
        return
    yield from _filled(subject, relation, found["value"])
    other = _person(found["value"]) if relation in BOTH_WAYS else None
    if other and subject:
        yield from _filled(other, relation, subject)


def _assigned(pair: re.Match[str]) -> Iterator[Filled]:
    """``key = value`` sets a key; ``Key: value`` only where the key is a noun of which there is one, or written like a key."""
    key, value = pair["token"] or pair["key"], pair["set"] or pair["value"]
    is_set = pair["token"] is not None or pair["sign"] == "="
    key = key.strip()
    is_written = _WRITTEN.fullmatch(key) is not None
    if len(key) < 2 or _UNSURE.search(value) or normalise(key) in _NEVER_SINGLE:
        return
    if (is_set and " " not in key) or is_written:
        yield from _filled("", normalise(key), value)
    elif (attribute := _attribute(key)) is not None:
        yield from _filled("", attribute, value)


def _preferred(found: re.Match[str]) -> Iterator[Filled]:
    subject, taken, left = _person(found["subject"]), value_form(found["value"]), value_form(found["other"])
    if subject is not None and taken and left and taken != left:
        yield Filled(_slot(subject, "prefers " + " / ".join(sorted((taken, left)))), taken)


def _filled(subject: str | None, attribute: str, value: str) -> Iterator[Filled]:
    thing = value_form(value)
    if subject is None or not attribute or not thing:
        return
    spoken = thing.split()
    if len(spoken) <= VALUE_WORDS and spoken[0] not in _VAGUE and (subject, thing) != ("", attribute):
        yield Filled(_slot(subject, attribute), thing)


def _slot(subject: str, attribute: str) -> str:
    return f"{subject}: {attribute}" if subject else attribute


def _attribute(given: str) -> str | None:
    """The attribute where it is one of which there is one: "deadline", "favourite colour", never "friend"."""
    thing = value_form(given).replace("favorite", "favourite").replace("color", "colour")
    parts = thing.split()
    if not parts or len(parts) > 4:
        return None
    single = parts[-1] in HEADS or (len(parts) > 1 and parts[0] in _ONLY)
    return thing if single else None


def _person(given: str) -> str | None:
    """Who or what a sentence is about; None where a pronoun stands for it."""
    name = normalise(given).removesuffix("'s").removesuffix("’s")
    name = _ARTICLE.sub("", name)
    if name in ("i", "my", "me", "user", "the user"):
        return "user"
    if name in ("we", "our", "us"):
        return "we"
    form = name_form(name)
    return None if not form or form.split()[0] in PRONOUNS else form


def value_form(given: str) -> str:
    """A value in the form in which two of them are compared."""
    thing = normalise(given).strip(_EDGE_MARKS)
    thing = _GROUPED.sub("", _ARTICLE.sub("", thing)).strip(_EDGE_MARKS)
    return _date(thing) or " ".join(NUMBERS.get(word, word) for word in thing.split())


def _date(text: str) -> str | None:
    found = _ISO.fullmatch(text) or _DAY_FIRST.fullmatch(text) or _MONTH_FIRST.fullmatch(text)
    if found is None:
        return None
    month = (
        int(found["month"]) if found["month"].isascii() and found["month"].isdigit() else _MONTHS.get(found["month"])
    )
    return f"{found['year'] or '-'}-{month:02}-{int(found['day']):02}" if month else None


# --- what cannot both be so ------------------------------------------------------------------------------------------


def incompatible(one: str, other: str) -> bool:
    """Whether two values of one slot cannot both be so: they differ, neither is more of the other, and they are of one sort.

    "berlin" and "berlin, germany" can both be so; "high" and "40" are no two values; "--05-03" is any year's third of May.
    """
    if one == other:
        return False
    if _is_date(one) and _is_date(other):
        return one[-5:] != other[-5:] or "--" not in (one[:2], other[:2])
    ours, theirs = set(words(one)), set(words(other))
    if not ours or not theirs or ours <= theirs or theirs <= ours:
        return False
    if _begins(_squeezed(one), _squeezed(other)) or _begins(_squeezed(other), _squeezed(one)):
        return False
    if (unit := _unit(one)) and (theirs_too := _unit(other)) and unit != theirs_too:
        return False
    if _initials(one) == _squeezed(other) or _initials(other) == _squeezed(one):
        return False
    figures, their_figures = _figures(ours), _figures(theirs)
    return bool(figures) == bool(their_figures) and (not figures or figures != their_figures)


def _is_date(value: str) -> bool:
    return re.fullmatch(r"(?:\d{4}|-)-\d{2}-\d{2}", value) is not None


def _figures(parts: set[str]) -> set[str]:
    return {part for part in parts if any(each.isdigit() for each in part)}


def _squeezed(value: str) -> str:
    return "".join(words(value))


def _begins(one: str, other: str) -> bool:
    """Whether one is the beginning of the other, and not of a number in it: "30s" of "30seconds", never "80" of "8080"."""
    return other.startswith(one) and not (one[-1:].isdigit() and other[len(one) : len(one) + 1].isdigit())


def _unit(value: str) -> str:
    """The unit of a measure: "seconds" of "60 seconds"; measures in two units are not compared, for 1 minute is as long."""
    found = _MEASURE.fullmatch(value)
    return found["unit"] if found is not None and found["unit"] in _UNITS else ""


def _initials(value: str) -> str:
    parts = words(value)
    return "".join(part[0] for part in parts) if len(parts) > 1 else ""


def overlap(one: tuple[str, str | None], other: tuple[str, str | None]) -> bool:
    """Whether two half-open times have a moment in common; None is open."""
    return (one[1] is None or other[0] < one[1]) and (other[1] is None or one[0] < other[1])


def during(memory: Statement, filled: Filled) -> tuple[str, str | None]:
    """When a memory says so: while it holds, and within the bounds of the edge."""
    ends = [each for each in (memory.valid_to, filled.valid_to) if each is not None]
    return max(memory.valid_from, filled.valid_from or memory.valid_from), min(ends, default=None)
