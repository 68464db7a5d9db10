"""Templates: sentences that are the same but for a number or a date ("sentence/1").

"The user's library has 45 sources" fills "user's library has … sources" with 45, and a later memory fills it with 52:
the same said again, most likely because it has changed. Only a number or a date behind the verb is filled in, one at a time.
Whatever else differs makes another sentence, names too: most of what takes a name takes several ("speaks French").

It is strict on purpose, as a conflict that is none costs a person's time. What can be so several times fills nothing: what is
past ("ran 5 km"), one of several ("a meeting on 3 May"), the dates of what is done again and again ("plays on Monday").
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.domain.late import late
from ledger.domain.passages import MONTHS
from ledger.domain.slots import HEADS, NUMBERS, PRONOUNS, Filled, Statement, of_sentence, slots, statements
from ledger.domain.slots import incompatible as incompatible_in_slot

RULE = "sentence/1"
"""What is here, words and forms. A released rule never changes; another is another version."""

GAP = "…"
MOST = 3  # numbers and dates of a sentence; of more it is a list

_TOKEN = late(r"[$€£]|\d+(?:[.,:/-]\d+)*|[^\W\d_]+(?:['’-][^\W\d_]+)*|%")
_NO_PROSE = late(r"[\\`{}<>|^*#=]|\$(?!\d)|\d\$")  # formulas, code and lists


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_UNSURE = _set(
    """if when unless would might could should maybe perhaps possibly probably used formerly previously either or not no never nor
    neither nobody without cannot say says said claim claims think thinks believe believes asked pretend pretends suppose
    was were had did ago yesterday last this today tonight tomorrow next so then thus therefore hence here example"""
)
_DATED = _set(
    """is are will starts start begins begin ends end expires expire launches launch ships ship lands land leaves leave
    departs depart arrives arrive"""
)  # verbs of what has one date at a time
_VERBS = _DATED | _set(
    """has have must can costs cost takes take lasts last weighs weigh earns earn pays pay owns own holds hold contains contain
    includes include needs need requires require works work lives live allows allow expects expect uses use reads read
    writes write runs run walks walk sleeps sleep drinks drink eats eat saves save spends spend owes owe plans plan wants
    want aims aim targets target measures measure covers cover supports support listens listen serves serve keeps keep
    gets get"""
)
_ONE = HEADS | _set(
    "accuracy average balance capacity distance duration goal income length rate rating score target total"
)
_PER = _set("second minute hour day night week month quarter year")
_SEVERAL = _set("a an another one some any each every both several many most other")
_UPDATED = _set(
    """now currently presently still already recently just new current latest updated revised adjusted increased reduced
    extended the its"""
)  # come and go when a thing is said again
_SMALL = _UPDATED | _set("a an of to in on at for by with from and user user's i my we our be been per i've")

_DAYS = _set("monday tuesday wednesday thursday friday saturday sunday")
_MONTHS = {form: name for name in MONTHS for form in (name, name[:3])} | {"sept": "september"}
_COUNTS = {name: count for name, count in NUMBERS.items() if int(count) > 1}
_HALVES = {"am": 0, "pm": 12}
_ORDINALS = frozenset(("st", "nd", "rd", "th"))
_BEFORE_YEAR = frozenset(("in", "since", "until", "till", "by", "of"))
_JOINS = frozenset(("at", "on", "of", "the"))
_YEAR = late(r"(?:19|20)\d\d")
_CLOCK = late(r"([01]?\d|2[0-3]):([0-5]\d)")
_ISO = late(r"(\d{4})-(0[1-9]|1[0-2])-(\d\d)")
_PLAIN = late(r"\d+(?:\.\d+)?")
_GROUPED = late(r"(?<=\d),(?=\d{3}(?!\d))")
_Part = tuple[str, str]  # a kind ("" for a word, "number", "date") and what stands there


def filled(memory: Statement) -> tuple[Filled, ...]:
    """What a memory puts into slots, by every rule: each slot once, and a sentence that ``slots/1`` reads is left to it."""
    found = {each.slot: each for each in slots(memory)}
    content = memory.content or ""
    for sentence in statements(content, _NO_PROSE):
        read = tuple(of_template(sentence))
        if read and not (sentence in statements(content) and next(of_sentence(sentence), None)):
            found |= {each.slot: each for each in read if each.slot not in found}
    return tuple(found.values())


def of_template(sentence: str) -> Iterator[Filled]:
    """The templates of a sentence: for each of its numbers and dates the one with a gap in its place."""
    tokens = _TOKEN.findall(sentence)
    lowered = [each.lower() for each in tokens]
    if not sentence[0].isalpha() or any(each in _UNSURE or each.endswith(("n't", "n’t")) for each in lowered):
        return
    verb = next((at for at, each in enumerate(lowered) if at and each in _VERBS), None)
    if verb is None or lowered[0] in PRONOUNS or _is_of_several(lowered):
        return
    parts = [("", each) for each in lowered[: verb + 1]] + _read(tokens, verb + 1)
    gaps = [at for at, (kind, _) in enumerate(parts) if kind]
    if len(gaps) > MOST or all(kind or at == verb or text in _SMALL for at, (kind, text) in enumerate(parts)):
        return
    for gap in gaps:
        kind, value = parts[gap]
        if kind == "number" or lowered[verb] in _DATED:
            yield Filled(_template(parts, gap), value, rule=RULE)


def _template(parts: list[_Part], gap: int) -> str:
    return " ".join(GAP if at == gap else text for at, (kind, text) in enumerate(parts) if kind or text not in _UPDATED)


def _is_of_several(words: list[str]) -> bool:
    """Whether it is about one of several things: "a meeting", but not "a budget" nor "a night"."""
    return any(
        each in _SEVERAL and _ONE.isdisjoint(words[at + 1 : at + 4]) and _PER.isdisjoint(words[at + 1 : at + 2])
        for at, each in enumerate(words)
    )


def _read(tokens: list[str], start: int) -> list[_Part]:
    """The parts behind the verb; a date is one with its time, and the number of a name ("Python 3") is a word of it."""
    parts: list[_Part] = []
    at = start
    while at < len(tokens):
        if (end := _date_end(tokens, at)) > at:
            parts.append(("date", " ".join(_date_words(tokens[at:end]))))
        else:
            word, end = tokens[at].lower(), at + 1
            number = _GROUPED.sub("", _COUNTS.get(word, word))
            is_number = _PLAIN.fullmatch(number) is not None and not tokens[at - 1][:1].isupper()
            parts.append(("number", number) if is_number else ("", word))
        at = end
    return parts


def _date_words(tokens: list[str]) -> Iterator[str]:
    for each in tokens:
        word = each.lower()
        if (iso := _ISO.fullmatch(word)) is not None:
            yield f"{int(iso[3])} {MONTHS[int(iso[2]) - 1]} {iso[1]}"
        elif word not in _ORDINALS:
            yield _MONTHS.get(word, word)


def _date_end(tokens: list[str], start: int) -> int:
    """Behind the last token of the date that begins here; ``start`` where none does."""
    end = at = start
    while at < len(tokens):
        if _is_of_date(tokens, at):
            at = end = at + 1
        elif end > start and tokens[at].lower() in _JOINS:
            at += 1
        else:
            break
    return end


def _is_of_date(tokens: list[str], at: int) -> bool:
    word, before = tokens[at].lower(), tokens[at - 1].lower()
    if word in _MONTHS:
        return tokens[at][0].isupper()
    if not word[0].isdigit():
        return word in _DAYS or word in _HALVES or (word in _ORDINALS and before[0].isdigit())
    if _CLOCK.fullmatch(word) or _ISO.fullmatch(word) or before in _MONTHS:
        return True
    if _YEAR.fullmatch(word) and (before in _BEFORE_YEAR or before[0].isdigit() or before in _ORDINALS):
        return True
    following = [each for each in map(str.lower, tokens[at + 1 : at + 4]) if each not in _ORDINALS | {"of"}]
    return bool(following) and (following[0] in _MONTHS or following[0] in _HALVES)


# --- what cannot both be so ------------------------------------------------------------------------------------------


def exclusive(rule: str, one: str, other: str) -> bool:
    """Whether two values that a rule read into one slot cannot both be so."""
    return incompatible(one, other) if rule == RULE else incompatible_in_slot(one, other)


def incompatible(one: str, other: str) -> bool:
    """Whether two values of one template cannot both be so: two numbers, or two dates that differ in what both name.

    "21 april" and "21 april at 3 pm" can both be so, and so can "friday" and "21 april".
    """
    if _PLAIN.fullmatch(one) and _PLAIN.fullmatch(other):
        return float(one) != float(other)
    ours, theirs = _named(one), _named(other)
    return any(ours[each] != theirs[each] for each in ours.keys() & theirs.keys())


def _named(date: str) -> dict[str, str | int]:
    """What a date names: weekday, day, month, year, and the minute of the day."""
    found: dict[str, str | int] = {}
    words = date.split()
    for at, word in enumerate(words):
        half = _HALVES.get(words[at + 1]) if at + 1 < len(words) else None
        clock = _CLOCK.fullmatch(word)
        if word in _DAYS:
            found["weekday"] = word
        elif word in MONTHS:
            found["month"] = word
        elif clock is not None or (half is not None and word.isdecimal()):
            hour, minute = (int(clock[1]), int(clock[2])) if clock is not None else (int(word), 0)
            found["minute"] = 60 * (hour if half is None else hour % 12 + half) + minute
        elif word.isdecimal():
            found["year" if _YEAR.fullmatch(word) else "day"] = int(word)
    return found
