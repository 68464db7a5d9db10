"""Names of things in texts: the form under which two names are one, and the search for names in a sentence."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from msgspec import Struct

from ledger.domain.late import late
from ledger.domain.text import normalise
from ledger.english.dates import MONTHS, WEEKDAYS
from ledger.english.words import STOP_WORDS

MAX_FOUND = 12
"""The most names that are looked for in one text, as in rubino."""

SEARCHED_CHARS = 10_000
"""The most characters of a text that are searched (our choice): the search runs under the writer's lock."""

RUN_WORDS = 6
"""A longer run of capitalised words is a heading, not a name (our choice); a query is searched in windows of this size."""

BEFORE_CHARS, AFTER_CHARS = 8, 80  # read before a word, for the beginning of a sentence, and after it, for a verb
MAX_PARTICLES = 2  # "van der" between two words of one name

MIN_CHARS, MAX_CHARS = 3, 64  # of a word that its capital makes a name; a longer one is a blob


def _split(words: str) -> list[str]:
    return words.split()


_KEPT_AT_EDGES = frozenset("#@&%")  # C#, @ana, R&D
_DROPPED_AT_EDGES = frozenset("`█ ")
# A word with a capital, a hyphen or an underscore, or with a letter beyond ASCII, whose case no class of characters tells.
_ANNOUNCING = late(r"\b(?:[^\W\d_a-z]|[a-z0-9_]+(?:[^\W\da-z]|-(?=\w)))\w*(?:[-'’]\w+)*")
_AFTER = late(r"\w+")
_INNER = late(r"[A-Z_-]|[^\x00-\x7f]")
_BEGINS = r".!?:;\n\r\"“”„«»•…。！？|"
_BEGINNING = late(rf"[{_BEGINS}][^\w{_BEGINS}]*+$|(?:^|\s)[-*>#]++\s++$")
_ABBREVIATION = late(r"\b(\w{1,4})\. $")
_CONTRACTION = late(r"['’](?:s|m|re|ve|ll|d)$", re.IGNORECASE)
_TITLES = frozenset(_split("dr mr mrs ms prof st sr jr vs no"))
_PARTICLES = frozenset(_split("de da do dos das del della di du la le van von der den ter ten al el bin ibn of y"))
_SHOUTED = frozenset(_split("OK TODO FYI ASAP AM PM NB PS VS ETC IMO LOL AKA TBD WIP BTW ID NOT NO YES NEVER ALWAYS"))
_COMMON = frozenset(MONTHS + WEEKDAYS).union(
    _split("""
    user users team people someone everyone nobody everything nothing something today tomorrow yesterday now yes no not
    never always often sometimes maybe please thanks hello hi hey okay sure well also however therefore finally
    decision constraint requirement fact note notes todo summary question answer
    use using uses used prefer prefers visit call ask see meet send buy make take give add remove run keep put set try
    let go come tell remember remind check fix deploy write read open close start stop avoid ensure consider two three
    wow yeah yep nope aww awesome congrats bye hmm haha ugh woohoo gotcha must tues thurs fri
    one many several every another new old first last next since although because even like just according despite
    """)
)
_ORDINARY_PARTS = frozenset(
    _split("""
    well long short high low follow check self non pre post re co e x real full half part year day month week hand up
    to in on out off of and or the by so do be all one two three term known time date built based like ish friendly
    free only wide level end side step
    """)
)
_DONE_BY_SOMEBODY = frozenset(
    _split("""
    works worked lives lived likes liked loves loved hates hated prefers preferred says said tells told asks asked wants
    wanted knows knew thinks thought went goes moved moves joined joins met meets married called bought buys plays
    played plans planned studies studied drinks drank eats ate owns owned leads led manages managed visited visits wrote
    writes speaks spoke enjoys enjoyed hopes hoped became lost feels felt decided decides agreed promised painted teaches
    taught travels travelled traveled runs ran founded invited invites paid pays sold sells sent sings reads drives
    """)
)


# --- the form of a name ----------------------------------------------------------------------------------------------


def name_form(name: str) -> str:
    """Return the form under which two names are one; "" if nothing is left.

    The form is NFC, case folded, with each run of white space as one space, without invisible characters and without the
    punctuation around the name.
    """
    if not name.isprintable():
        name = "".join(
            character
            for character in name
            if character.isspace() or unicodedata.category(character) not in ("Cc", "Cf")
        )
    form = normalise(name)
    first, last = 0, len(form)
    while first < last and _is_edge(form[first]):
        first += 1
    while first < last and _is_edge(form[last - 1]):
        last -= 1
    return form[first:last]


def _is_edge(character: str) -> bool:
    if character.isalnum() or character in _KEPT_AT_EDGES:
        return False
    return character in _DROPPED_AT_EDGES or unicodedata.category(character)[0] == "P"


# --- what looks like a name ------------------------------------------------------------------------------------------


def found(text: str) -> tuple[str, ...]:
    """Return the names in a text as written there, in order, each once, at most 12.

    Names are words with an underscore or hyphen (``billing-service``), with capitals inside (PostgreSQL), of capitals alone
    (AWS), and capitalised words of three letters or more; several in a row are one name (New York, Ana de Souza). The first word
    of a sentence is a name only if a verb of a person follows ("Ana works …"), another name is next to it ("Ana and Bob"), or it
    owns something ("Ana's").
    """
    text = text[:SEARCHED_CHARS]
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    elif _INNER.search(text, 1) is None and (text[:1].islower() or text.partition(" ")[0].lower() in STOP_WORDS):
        return ()
    names: dict[str, str] = {}
    for name in _named(text):
        names.setdefault(name_form(name), name)
        if len(names) > MAX_FOUND:
            break
    names.pop("", None)
    return tuple(names.values())[:MAX_FOUND]


class _Word(Struct, gc=False):
    """A word that may be part of a name: its kind and place, whether it begins a sentence, and whether it owns something."""

    text: str
    start: int
    kind: str
    owns: bool
    begins: bool

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _named(text: str) -> Iterator[str]:
    """Yield every run of words that is a name."""
    shouted = text.upper() == text
    run: list[_Word] = []
    for match in _ANNOUNCING.finditer(text):
        word = _word(text, match[0], match.start(), shouted)
        if run and _goes_on(text[run[-1].end : word.start], run[-1], word):
            run.append(word)
            continue
        if run:
            yield from _as_name(text, run)
        run = [word] if word.kind in ("sure", "capital") else []
    if run:
        yield from _as_name(text, run)


def _word(text: str, raw: str, start: int, shouted: bool) -> _Word:
    bare = _CONTRACTION.sub("", raw) if "'" in raw or "’" in raw else raw
    return _Word(bare, start, _kind(bare, shouted), bare != raw, _begins(text, start))


def _begins(text: str, start: int) -> bool:
    """Return True if a sentence, a line, a quotation or the like begins at a place."""
    before = text[max(0, start - BEFORE_CHARS) : start]
    if start and before[-1] == " " and before[-2:-1].isalnum():
        return False
    if not before.strip() or _BEGINNING.search(before) is not None:
        return not _abbreviates(before)
    return False


def _abbreviates(before: str) -> bool:
    """Return True if the full stop before a place belongs to an initial or a title."""
    abbreviation = _ABBREVIATION.search(before)
    return abbreviation is not None and (len(abbreviation[1]) == 1 or abbreviation[1].lower() in _TITLES)


def _goes_on(gap: str, last: _Word, word: _Word) -> bool:
    """Return True if a word continues a name: after only a space, or the particles of a name."""
    if last.owns or not word.kind or word.begins:
        return False
    if gap == " " or (gap == ". " and last.kind == "initial"):
        return True
    between = gap.split()
    if len(between) > MAX_PARTICLES or not gap[:1].isspace() or not gap[-1:].isspace() or "\n" in gap:
        return False
    return word.kind != "initial" and _PARTICLES.issuperset(between)


def _kind(word: str, shouted: bool) -> str:
    """Return the kind of a word in a name: "sure" by its looks, a "capital", an "initial", or "" for no part of a name."""
    if len(word) > MAX_CHARS or word[0].isdigit():
        return ""
    if word.istitle() and word.isalpha() and len(word) >= MIN_CHARS:  # the most frequent case first
        return "" if word.lower() in STOP_WORDS else "capital"
    if shouted or word == word.lower():
        return "sure" if _is_id(word) else ""
    if len(word) == 1:
        return "initial"
    low = word.lower()
    if low in STOP_WORDS or low.endswith(("n't", "n’t")):
        return ""
    if word.upper() == word:
        return "" if word in _SHOUTED else "sure"
    if "_" in word.strip("_") or word.partition("-")[0][1:] != low.partition("-")[0][1:]:
        return "sure"
    return "capital" if word[0].isupper() and len(word) >= MIN_CHARS else ""


def _is_id(word: str) -> bool:
    """Return True if a lower-case word looks like an id, such as ``user_id`` or ``billing-service``, unlike "well-known"."""
    if "_" in word.strip("_"):
        return any(map(str.isalpha, word))
    parts = word.lower().split("-")
    return len(parts) > 1 and not any(part in _ORDINARY_PARTS or len(part) < 2 for part in parts)


def _as_name(text: str, run: list[_Word]) -> Iterator[str]:
    """Yield the name that a run of words is, unless it is a heading or merely begins a sentence."""
    while run and run[-1].kind == "initial":
        run = run[:-1]
    if run and run[0].begins and run[0].kind == "capital" and _is_common(run[0]):
        run = run[1:]
        while run and run[0].kind == "initial":
            run = run[1:]
    if not run or len(run) > RUN_WORDS:
        return
    if len(run) > 1 or run[0].kind == "sure" or _counts_alone(run[0], text):
        yield text[run[0].start : run[-1].end]


def _counts_alone(word: _Word, text: str) -> bool:
    if _is_common(word):
        return False
    if not word.begins or word.owns:
        return True
    after, beyond = (*_AFTER.findall(text[word.end : word.end + AFTER_CHARS]), "", "")[:2]
    return after in _DONE_BY_SOMEBODY or (after == "and" and beyond[:1].isupper())


def _is_common(word: _Word) -> bool:
    low = word.text.lower()
    return low in _COMMON or low.removesuffix("s") in _COMMON
