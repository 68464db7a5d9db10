"""Names of things in texts: the form under which two names are one, and what looks like a name in a sentence."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from msgspec import Struct

from ledger.domain.late import late
from ledger.domain.text import STOP_WORDS, normalise

MAX_FOUND = 12
"""So many names are looked for in one text (SEEDS 2b)."""

SEARCHED_CHARS = 10_000
"""Only so much of a text is looked at (ours): names are looked for under the writer's lock."""

RUN_WORDS = 6
"""A longer run of capitalised words is a heading and no name (ours); a query is looked through in windows of as many."""

BEFORE_CHARS, AFTER_CHARS = 8, 80  # looked at around a word, for what it begins and who does what follows
MAX_PARTICLES = 2  # "van der" between two words of one name

MIN_CHARS, MAX_CHARS = 3, 64  # of one word that can be a name by its capital; a longer one is a blob


def _split(words: str) -> list[str]:
    return words.split()


_KEPT_AT_EDGES = frozenset("#@&%")  # C#, @ana, R&D
_DROPPED_AT_EDGES = frozenset("`█ ")
# A word with a capital, a hyphen or an underscore; of those in other letters than ASCII each, for their case is no class.
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
_COMMON = frozenset(
    _split("""
    user users team people someone everyone nobody everything nothing something today tomorrow yesterday now yes no not
    never always often sometimes maybe please thanks hello hi hey okay sure well also however therefore finally
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december decision constraint requirement fact note notes todo summary question answer
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
    """The form under which two names are one: NFC, case folded, each run of white space one space, without what cannot be
    seen and the punctuation around it. "" where nothing is left: that names nothing."""
    if not name.isprintable():
        name = "".join(each for each in name if each.isspace() or unicodedata.category(each) not in ("Cc", "Cf"))
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
    """What the text seems to name, as written there, in its order, at most 12, each once.

    Words with an underscore or hyphen (``billing-service``), with capitals inside (PostgreSQL), of capitals alone (AWS), and
    capitalised ones of three letters or more; several of these in a row are one name (New York, Ana de Souza). A word that
    only begins a sentence is none, unless what follows is done by somebody ("Ana works …"), another name is next to it ("Ana
    and Bob"), or it owns something ("Ana's").
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
    """A word that may be part of a name: what it is, where it stands, and whether it begins a sentence or owns something."""

    text: str
    start: int
    kind: str
    owns: bool
    begins: bool

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _named(text: str) -> Iterator[str]:
    """Every run of words that is a name."""
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
    """Whether a sentence, a line, a quotation or the like begins here."""
    before = text[max(0, start - BEFORE_CHARS) : start]
    if start and before[-1] == " " and before[-2:-1].isalnum():
        return False
    if not before.strip() or _BEGINNING.search(before) is not None:
        return not _abbreviates(before)
    return False


def _abbreviates(before: str) -> bool:
    """Whether the full stop before belongs to an initial or a title."""
    found = _ABBREVIATION.search(before)
    return found is not None and (len(found[1]) == 1 or found[1].lower() in _TITLES)


def _goes_on(gap: str, last: _Word, word: _Word) -> bool:
    """Whether a word is one more of the same name: behind nothing but a space, or the particles of a name."""
    if last.owns or not word.kind or word.begins:
        return False
    if gap == " " or (gap == ". " and last.kind == "initial"):
        return True
    between = gap.split()
    if len(between) > MAX_PARTICLES or not gap[:1].isspace() or not gap[-1:].isspace() or "\n" in gap:
        return False
    return word.kind != "initial" and _PARTICLES.issuperset(between)


def _kind(word: str, shouted: bool) -> str:
    """What a word is as part of a name: "sure" by its looks, a "capital" only, an "initial", or "" for nothing of it."""
    if len(word) > MAX_CHARS or word[0].isdigit():
        return ""
    if word.istitle() and word.isalpha() and len(word) >= MIN_CHARS:  # as most are
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
    """Whether a lower-case word looks like the id of something: ``user_id``, ``billing-service``, and not "well-known"."""
    if "_" in word.strip("_"):
        return any(map(str.isalpha, word))
    parts = word.lower().split("-")
    return len(parts) > 1 and not any(each in _ORDINARY_PARTS or len(each) < 2 for each in parts)


def _as_name(text: str, run: list[_Word]) -> Iterator[str]:
    """The name that a run is, if it is one: not a heading, and not the mere beginning of a sentence."""
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
