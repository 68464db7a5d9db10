"""Whether a newer statement takes the place of an older one in an answer: both are about one attribute, which has changed.

It decides an order and nothing else, so it reads more than a conflict does: what fills one slot ("slots/1"), the same
sentence but for a number, a date or a name ("the gym costs 45 euros"), and what says itself that something has changed ("moved
to Porto", "extended to May 20"), which is also read as what holds since then ("the rent is 900" of "the rent rose to 900").
What can be true several times stays: what is past, one of several, a name for another. The words are English.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice, takewhile

from ledger.domain.late import late, once
from ledger.domain.passages import MONTHS, WEEKDAYS
from ledger.domain.slots import HEADS, Statement, incompatible, of_edges, of_text
from ledger.domain.text import STOP_WORDS, stem, words

SHARED, SHARED_FIGURE, SHARED_CLAUSE = 0.15, 0.2, 0.4
"""The stems in common, of those of the shorter one: at the least, in clauses with a figure that changed, in other clauses."""

READ_CHARS, SHORT_CHARS = 800, 120
"""A longer statement is a text. A change without a figure is read in short statements only: in talk much is "new" (measured)."""

_GAP_WORDS, _DATE_WORDS = 4, 6  # a name, a figure; a date with its time


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_CHANGED = _set(
    """now anymore new recently meanwhile instead longer switched switch changed change replaced replace moved move moving
    upgraded downgraded postponed rescheduled reschedule delayed extended increased reduced raised lowered cut down grew shrank
    rose fell dropped adjusted updated revised reached joined left quit cancelled canceled closed opened got stopped started
    already added"""
)
_MOVED = _set("moved relocated")
_MEANT = {
    stem(word): frozenset(map(stem, _set(others)))
    for word, others in (
        *((each, "") for each in _MOVED),  # by where to (``_MOVES``)
        *((each, "works work job employed employer") for each in ("left", "quit", "hired", "retired")),
        *((each, "single dating married engaged") for each in ("engaged", "married", "divorced", "separated")),
    )
}  # what has changed where a verb says so by itself
_HOME = frozenset(map(stem, _set("lives live resides home")))
_PAST = _set(
    """was were had did went ran bought got made saw met took gave flew paid ate spoke drove drank sold sent spent wrote won
    lost came taught swam rode"""
)
_ONE = _set("is are lives live works work reports rehearses")  # whoever does this does it with one at a time
_ONE_NOW = _ONE | _set(
    "drives drive rents rent banks studies study attends belongs runs run uses use sits bank host hosts"
)
_WITH_SEVERAL = frozenset(
    map(stem, _set("speak speaks teach teaches have has own eat like love enjoy hate know visit support"))
)
_CHANGED_TO = _CHANGED | {"to"}
_OWNERS = _set("my our your his her its their")  # with them, and after 's, the next word says who it is about
_SHORT = late("['’](?:ve|m|re|d|ll)$")  # of "I've" and "we're"
_HOMES = "flat|house|apartment|home|studio|place|cottage|dorm|village|town|city|suburbs?|country(?:side)?|coast|street"
_MOVED_TO = (  # a home or a name: no "to the night shift", no "to Friday", no "to Python 3.12"
    r"(?:(?:has|have|was|were|is|are|am) )?(?:moved|relocated)(?: back)?"
    rf"(?= (?:in)?to (?:(?:an?|the|my|our|his|her|their) (?:[\w-]+ ){{0,2}}(?:{_HOMES})\b"
    r"|\d+ (?-i:[A-Z])|(?-i:[A-Z](?!\w*day\b)[\w'’-]*+)(?! \d)))(?!.{0,200} for (?:an?|one|two|\d+) )"
)
_MOVES = re.compile(rf"{_MOVED_TO}|(?:moved|relocated) (?:in with|out|back|away|home|from)\b", re.IGNORECASE)
_NEWS = tuple(
    (re.compile(rf"\b(?:{change})(?= )", re.IGNORECASE), state)
    for change, state in (
        (_MOVED_TO + " (?:in)?to", "lives in"),
        (
            r"(?:joined(?= (?-i:[A-Z]))|started at|(?:got|took|has|have|started|accepted) an? (?:new )?job (?:at|with|for))",
            "works at",
        ),
        (r"(?:got )?married(?: to)?", "is married to"),
        (r"turned(?= \d)", "is"),
        (
            r"(?:(?:has|have|was|were|is|are)(?: been)? )?(?:(?:gone|went|come|came)(?: up| down)?|up|down|rose|risen|raised"
            r"|climbed|increased|grew|fell|fallen|dropped|sank|decreased|lowered|reduced|cut|changed|switched|set|moved|pushed"
            r"|postponed|rescheduled|delayed|extended)(?: back)? (?:to|until)",
            "is",
        ),
    )
)  # what changed, in the words of what holds since then
_NEW_WORDS = _CHANGED | _set(
    "currently days since job pushed married relocated turned up gone went come came risen climbed fallen sank decreased set"
)  # without one of them there is nothing new
_TO = re.compile(r"\b(?:in)?to ")
_SINCE = rf"since (?:(?:last|this) \w+|(?:{'|'.join(MONTHS)})(?: \d{{4}})?|\d{{4}}|then)"
_NOW = re.compile(rf",? {{0,4}}\b(?:now|currently|from now on|{_SINCE}|these days)\b,?|\bnew (?=\w)", re.IGNORECASE)
_SEVERAL = _set("bus train tram ferry shuttle another other also too")
_BETWEEN = _set("the a an called named about at on in with by of for as to")
_HOW = _set("at on in with by for to from")  # what is done with something is done so
_MEANT_SO = _set("set planned scheduled fixed booked expected")  # for a date, which is what it says then
_WITHIN = _set("at on of the")  # stand in a date with its time
_DATED = _set("is are starts begins ends opens closes expires leaves departs arrives falls meets every")  # at one time
_NEXT = _set(
    "is are has have can costs takes lasts goes stops runs starts begins ends opens closes leaves belongs needs holds uses"
)  # what stands before one of them says which: "room 3 has …", "invoice 4711 is …"
_MANY = _set(
    """sister brother sibling son daughter child kid cousin aunt uncle niece nephew grandson granddaughter friend colleague
    neighbor neighbour pet dog cat car bike hobby"""
)  # of which there may be several
_WEEKDAYS = frozenset((*WEEKDAYS, *(f"{each}s" for each in WEEKDAYS)))
_FIGURES = _set(
    """am pm noon midnight one two three four five six seven eight nine ten eleven twelve once twice first second third
    fourth fifth sixth"""
)
_DATES = _WEEKDAYS | _FIGURES | {*MONTHS}
_ATTRIBUTES = frozenset(
    map(stem, HEADS | _set("lives works resides born married reports located based called prefers uses"))
)
_TOKEN = re.compile(r"[$€£]?\d+(?:[.,:/-]\d+)*(?:%|st|nd|rd|th|[ap]m)?|[^\W\d_]+(?:['’-][^\W_]+)*|%")
_SIGN = re.compile(r"[$€£%]")
_DIGIT = re.compile(r"\d")
_FIGURE = re.compile(r"[\d$€£%]")
_STATES = re.compile(r" (?:is|was|lives?|resides?|works?|reports?|uses?|prefers?)\b|[:=]", re.IGNORECASE)
_CLAUSE = re.compile(r"[.!?;]\s+|,\s+|\s[-–—]\s|\n+")


class Clause:
    """A clause of a statement as it is compared, each part read once."""

    def __init__(self, text: str) -> None:
        self.text = text

    @once
    def words(self) -> list[str]:
        return words(self.text)

    @once
    def stems(self) -> frozenset[str]:
        return frozenset(map(stem, set(self.words) - STOP_WORDS))

    @once
    def tokens(self) -> list[str]:
        return [each.lower() for each in _TOKEN.findall(self.text)]

    @once
    def subject(self) -> str:
        """The first stem, which mostly is who it is about."""
        return next((each for each in map(stem, self.words) if each in self.stems), "")

    @once
    def who(self) -> tuple[str, ...]:
        """Its first word that says something, and the next where that is another's: "Ana's sister"."""
        found = [_SHORT.sub("", each) for each in self.tokens if each not in _BETWEEN][:2]
        return tuple(found[: 2 if found and (found[0] in _OWNERS or found[0].endswith(("'s", "’s"))) else 1])

    @once
    def meant(self) -> frozenset[str]:
        """What it says to have changed by a verb alone."""
        found = frozenset(each for verb in self.tokens for each in _MEANT.get(stem(verb), ()))
        return found | _HOME if _MOVES.search(self.text) else found

    @once
    def place(self) -> frozenset[str]:
        """Where it says that something was moved to."""
        if _MOVED.isdisjoint(self.words) or len(found := _TO.split(" ".join(self.words))) < 2:
            return frozenset()
        return frozenset(map(stem, set(found[-1].split()) - STOP_WORDS))

    @once
    def figures(self) -> dict[str, set[str]]:
        """Its figures by what they count: their sign, a date, or the next word."""
        found: dict[str, set[str]] = {}
        if self.text.isascii() and not _DIGIT.search(self.text):
            return found
        for at, each in enumerate(self.tokens):
            if any(map(str.isdigit, each)):
                sign, near = _SIGN.search(each), self.tokens[max(0, at - 1) : at + 2]
                kind = sign[0] if sign else "date" if not {*near}.isdisjoint(MONTHS) else stem(near[-1])
                if kind != each and kind not in STOP_WORDS:
                    found.setdefault(kind, set()).add(each)
        return found


class Reading:
    """A statement as it is compared, each part read once."""

    def __init__(self, statement: Statement, news: str = "") -> None:
        text = news or statement.content or ""
        self.statement, self.text, self.is_news = statement, text.replace("any more", "anymore"), bool(news)
        self.words = words(self.text) if len(self.text) <= READ_CHARS else []
        self.stems = frozenset(map(stem, set(self.words) - STOP_WORDS))
        self.size, self.is_short, self.is_more = len(self.stems), len(self.text) <= SHORT_CHARS, "also" in self.words
        self.attributes = self.stems & _ATTRIBUTES
        self.is_plain = _NEW_WORDS.isdisjoint(self.words) and _MEANT.keys().isdisjoint(self.stems)
        """Whether no word of it says that something is new or has changed."""
        found = _TOKEN.search(self.text)
        self.first = found[0].lower() if found else ""

    @once
    def changed(self) -> list[Clause]:
        """The clauses that say themselves that something has changed."""
        if _CHANGED.isdisjoint(self.words) and _MEANT.keys().isdisjoint(self.stems):
            return []
        return [each for each in self.clauses if _CHANGED & {*each.words} or _MEANT.keys() & each.stems]

    @once
    def is_new(self) -> bool:
        """Whether a short statement says what holds since then, or by a verb alone what has changed."""
        return self.is_short and (self.news is not None or bool(self.meant))

    @once
    def meant(self) -> list[Clause]:
        """The clauses that say by a verb alone what has changed."""
        if _MEANT.keys().isdisjoint(self.stems):
            return []
        return [each for each in self.clauses if each.meant]

    @once
    def clauses(self) -> list[Clause]:
        return list(map(Clause, _CLAUSE.split(self.text)))

    @once
    def counting(self) -> list[Clause]:
        """The clauses with a figure: by nothing else a longer statement changes."""
        return [each for each in self.clauses if each.figures]

    @once
    def figured(self) -> list[Clause]:
        """Of the changed clauses those with a figure."""
        return [each for each in self.changed if each.figures]

    @once
    def opening(self) -> list[str]:
        """Its first words, one more than may differ in a sentence that begins alike."""
        if self.is_short:
            return self.lowered[: _DATE_WORDS + 2]
        return " ".join([found[0] for found in islice(_TOKEN.finditer(self.text), _DATE_WORDS + 2)]).lower().split(" ")

    @once
    def ending(self) -> str:
        """The last sign of its last word or figure."""
        return next((each.casefold() for each in reversed(self.text) if each.isalnum() or each == "%"), "")

    @once
    def written(self) -> list[str]:
        """Its words and figures as they are written."""
        return _TOKEN.findall(self.text)

    @once
    def lowered(self) -> list[str]:
        return " ".join(self.written).lower().split(" ")

    @once
    def news(self) -> Reading | None:
        """What it says to be new, as a statement of what holds since then: "The rent is 900" of "The rent rose to 900"."""
        if _NEW_WORDS.isdisjoint(self.words):
            return None
        text = _NOW.sub("", self.text).strip()
        for change, state in _NEWS:
            text = change.sub(state, text)
        return Reading(self.statement, text) if text and text != self.text else None

    @once
    def slots(self) -> dict[str, str]:
        """What it puts into slots; nothing without a verb or sign that all forms of a slot have one of."""
        if not self.statement.edges and not _STATES.search(self.text):
            return {}
        filled = (*of_edges(self.statement.edges), *of_text(self.text))
        return {each.slot: each.value for each in reversed(filled)}


def takes_place(new: Reading, old: Reading) -> bool:
    """Whether the newer statement takes the place of the older one."""
    if new.is_more:  # so the older one still holds
        return False
    if not new.is_plain and new.is_new and _is_new(new, old):
        return True
    common = new.stems & old.stems
    if not common or len(common) < SHARED * min(new.size, old.size) or new.words == old.words:
        return False
    return (not new.is_plain and _says_changed(new, old)) or _is_another(new, old)


def _says_changed(new: Reading, old: Reading) -> bool:
    short = new.is_short and old.is_short
    if not (changed := new.changed if short else new.figured):
        return False
    return any(_is_changed(one, other, short) for one in changed for other in (old.clauses if short else old.counting))


def _is_new(new: Reading, old: Reading) -> bool:
    """Whether what has changed by a verb alone, or holds since then, is of what a short statement is about."""
    if not old.is_short:
        return False
    meant = [each for each in new.meant if not each.meant.isdisjoint(old.stems)]
    if any(one.who == other.who and not one.meant.isdisjoint(other.stems) for one in meant for other in old.clauses):
        return True
    return new.news is not None and _is_another(new.news, old)


def _is_another(new: Reading, old: Reading) -> bool:
    """Whether both say one thing, with two values."""
    if new.first == old.first and new.first and _is_same_but_one(new, old):
        return True
    are_edges = bool(new.statement.edges and old.statement.edges)
    return (are_edges or not new.attributes.isdisjoint(old.attributes)) and _clash(new, old)


def _clash(new: Reading, old: Reading) -> bool:
    """Whether they fill one slot with values that cannot both be so."""
    if not (new.slots and old.slots):
        return False
    return any(
        incompatible(new.slots[slot], old.slots[slot]) and _state(new.slots[slot]) == _state(old.slots[slot])
        for slot in new.slots.keys() & old.slots.keys()
        if not slot.endswith(": name") or _MANY.isdisjoint(words(slot))
    )


def _state(value: str) -> str:
    """What is done with it, where a value says no more than that: "due" of "due on the 5th"; no name and no figure."""
    one, then, *_ = *value.split(), "", ""
    return one if then in _HOW and one not in _HOW | _MEANT_SO | _CHANGED else ""


def _is_same_but_one(new: Reading, old: Reading) -> bool:
    """Whether it is one sentence but for a number, a date or a name."""
    long = max(len(new.opening), len(old.opening)) > _DATE_WORDS + 1
    if long and new.opening[:2] != old.opening[:2] and new.ending != old.ending:
        return False  # of a longer one the second word or the last is the same
    ours, theirs, start, end = new.lowered, old.lowered, 0, 0
    least = min(len(ours), len(theirs))
    while start < least and ours[start] == theirs[start]:
        start += 1
    while end < least - start and ours[-1 - end] == theirs[-1 - end]:
        end += 1
    if not 0 < least - start - end <= max(len(ours), len(theirs)) - start - end <= _DATE_WORDS:
        return False
    gaps = [each.written[start : len(each.written) - end] for each in (new, old)]
    are_figures = all(map(_is_figure, gaps))
    if not are_figures and not (max(map(len, gaps)) <= _GAP_WORDS and all(map(_is_name, gaps))):
        return False
    if not (_PAST | _SEVERAL).isdisjoint(ours[:start] + ours[len(ours) - end :]):
        return False
    if any(each.endswith("ed") for each in ours[1:start]):
        return False
    before = [word for word, written in zip(ours[:start], new.written, strict=False) if word == written]
    before_it = [word for word in before if word not in _BETWEEN]
    if are_figures:
        weekly = any(each.lower() in _WEEKDAYS for gap in gaps for each in gap)  # "plays on Monday" is done again
        return not _DATED.isdisjoint(before_it[-1:]) if weekly else _NEXT.isdisjoint(ours[len(ours) - end :][:1])
    one = _ONE_NOW if new.is_news else _ONE
    return not one.isdisjoint(before_it[-1:]) and _MANY.isdisjoint(before_it[-2:-1])


def _is_figure(gap: Sequence[str]) -> bool:
    found = [_FIGURE.search(each) is not None or each.lower() in _DATES for each in gap]
    return any(found) and all(is_one or each in _WITHIN for is_one, each in zip(found, gap, strict=True))


def _is_name(gap: Sequence[str]) -> bool:
    return all(each[0].isupper() or each[0].isdigit() or each in _BETWEEN for each in gap)


def _is_changed(new: Clause, old: Clause, short: bool) -> bool:
    """Whether a clause that says that something changed is about what another one is about: a figure of the same thing, or,
    in short statements, more than who it is about."""
    common, least = new.stems & old.stems, min(len(new.stems), len(old.stems))
    if not common or (new.place and new.place <= old.stems):
        return False
    about, kinds = len(common - {old.subject}), new.figures.keys() & old.figures.keys()
    differ = {kind for kind in kinds if new.figures[kind].isdisjoint(old.figures[kind])}
    if differ and about >= 2 + (differ == {"date"}) and len(common) >= SHARED_FIGURE * least:
        return True
    return short and about >= 1 and len(common) >= SHARED_CLAUSE * least and not _is_one_more(new, old)


def _is_one_more(new: Clause, old: Clause) -> bool:
    """Whether they share nothing but who does something that is done with several: "Mia now speaks Spanish"."""
    ours, theirs = ([stem(each) for each in clause.tokens if each not in _CHANGED_TO] for clause in (new, old))
    shared = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False))]
    verb = [each for each in shared if each not in _BETWEEN | _OWNERS][-1:]
    return new.stems & old.stems <= {*shared} and not _WITH_SEVERAL.isdisjoint(verb)
