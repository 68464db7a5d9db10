"""What the pattern of a grep asks of the text index, and where a text has what the pattern says."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import accumulate

from ledger.domain.grep_pattern import AND, OR, WORD, All, Either, Literal, Not, Tree, Word, plain, wanted
from ledger.domain.question import indexed, quoted, unspaced
from ledger.domain.spans import merged

MAX_NARROWING_WORDS = 32
"""Of a quoted text the index is asked for so many words at most; more would not tell more."""

Stem = Callable[[str], str]
"""The stem of a folded word as the index makes it: ``projections.search.stems.stem``."""

Span = tuple[int, int]

_ASCII_WORD = re.compile(r"[a-z0-9]+")


# --- what the index is asked -----------------------------------------------------------------------------------------


def expression(tree: Tree) -> str | None:
    """An FTS5 MATCH expression that finds every text that ``matches``, and maybe more; nothing in it is syntax that was
    typed. None where the index cannot tell, and every text has to be looked at.

    For an index of whole texts as ``indexed`` gives them: of a text that lies in several rows see ``in_any_row``.
    """
    match tree:
        case Word(text):
            return quoted(text) if _is_known(text) else None
        case Literal(text):
            return _narrowing(text)
        case Not():
            return None  # the index finds more than what is excluded
        case All(of):
            found = [each for each in map(expression, of) if each is not None]
            return _joined(found, AND) if found else None
        case Either(of):
            some = [expression(each) for each in of]
            known = [each for each in some if each is not None]
            return _joined(known, OR) if len(known) == len(some) else None


def in_any_row(tree: Tree) -> str | None:
    """The same for texts that lie in several rows: an expression that finds at least one row of every text that ``matches``,
    by one word that it must have, a long one. Equal to ``expression`` where that finds such texts too."""
    match tree:
        case Literal(text):
            words = [word for word in (_narrowing(text) or "").strip('"').split() if _is_known(word)]
            return f'"{max(words, key=len)}"' if words else None
        case All(of):
            found = [each for each in map(in_any_row, of) if each is not None]
            return max(found, key=lambda each: (-each.count(f" {OR} "), len(each))) if found else None
        case Either(of):
            some = [in_any_row(each) for each in of]
            known = [each for each in some if each is not None]
            return _joined(known, OR) if len(known) == len(some) else None
        case _:
            return expression(tree)


def is_exact(tree: Tree) -> bool:
    """Whether ``expression`` finds no text that does not match, so that the index alone can count: bare words of ASCII
    letters under AND and OR. (But for a word with letters younger than FTS5's Unicode next to them.)"""
    match tree:
        case Word(text):
            return text.isascii()
        case All(of) | Either(of):
            return all(map(is_exact, of))
        case _:
            return False


def _joined(found: list[str], operator: str) -> str:
    different = list(dict.fromkeys(found))
    return different[0] if len(different) == 1 else "(" + f" {operator} ".join(different) + ")"


def _narrowing(text: str) -> str | None:
    """A phrase of the words of a text."""
    words = indexed(text).split() if not text.isascii() else WORD.findall(text)
    words = words[:MAX_NARROWING_WORDS]
    if not any(map(_is_known, words)):
        return None
    return '"' + " ".join(words) + '"'


def _may_go_on(character: str) -> bool:
    """Whether a word can go on beyond this character of it."""
    return character.isalnum() and not unspaced(character)


def _is_known(word: str) -> bool:
    """Whether FTS5, whose Unicode is 6.1, is sure to take every character of a word for one: where 3.2 did, it does."""
    return word.isascii() or all(unicodedata.ucd_3_2_0.category(each)[0] in "LN" for each in word)


# --- what a text has -------------------------------------------------------------------------------------------------


def matches(tree: Tree, text: str, stem: Stem) -> bool:
    """Whether a text has what the pattern asks for: the truth, where the index only narrows down."""
    return _holds(tree, plain(text), stem)


def _holds(tree: Tree, text: str, stem: Stem) -> bool:
    match tree:
        case Not(of):
            return not _holds(of, text, stem)
        case All(of):
            return all(_holds(each, text, stem) for each in of)
        case Either(of):
            return any(_holds(each, text, stem) for each in of)
        case _:
            return next(_places(tree, text, stem), None) is not None


def spans(tree: Tree, text: str, stem: Stem) -> list[Span]:
    """Where the wanted terms stand in a text, in characters of it as it is, in order; those that touch are one."""
    prepared = _Folded(text)
    found = [place for term in wanted(tree) for place in _places(term, prepared.text, stem)]
    return list(merged(map(prepared.raw, found)))


def _places(term: Word | Literal, text: str, stem: Stem) -> Iterator[Span]:
    if isinstance(term, Word):
        return _places_of_word(term.text, text, stem)
    return _places_of_literal(term.text, text)


def _places_of_literal(text: str, within: str) -> Iterator[Span]:
    """Only where it begins and ends with whole words: so the index, which knows no others, finds all of them."""
    spelled, at = _spelled(text), 0
    while found := spelled.search(within, at):
        start, at = found.span()
        if _is_cut(within, start) or _is_cut(within, at):
            at = start + 1
        else:
            yield start, at


def _is_cut(text: str, at: int) -> bool:
    """Whether one word stands on both sides of a place."""
    return 0 < at < len(text) and _may_go_on(text[at - 1]) and _may_go_on(text[at])


@lru_cache(maxsize=256)
def _spelled(text: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, text.split(" "))))


def _places_of_word(word: str, text: str, stem: Stem) -> Iterator[Span]:
    is_known = _is_known(word)
    root = stem(word) if is_known else word
    beginning = root[:-1]  # a stem differs from the beginning of its word in its last letter at the most
    for start, found in _words(text, beginning):
        if found == word or (is_known and _is_known(found) and stem(found) == root):
            yield start, start + len(found)


def _words(text: str, beginning: str) -> Iterator[tuple[int, str]]:
    """The words of a folded text that begin like this, as ``split`` has them, and where."""
    at = text.find(beginning)
    while 0 <= at < len(text):
        end = at
        if _may_go_on(text[at]) and not (at and _may_go_on(text[at - 1])):
            end = _end_of_word(text, at)
            yield at, text[at:end]
        at = text.find(beginning, max(end, at + 1))


def _end_of_word(text: str, start: int) -> int:
    found = _ASCII_WORD.match(text, start)
    end = found.end() if found else start
    while end < len(text) and _may_go_on(text[end]):
        end += 1
    return end


# --- places in the text as it is -------------------------------------------------------------------------------------

_STRETCH = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+|[\x00-\x7f]+(?![^\x00-\x7f])")
"""A text in pieces that fold each by itself: ASCII, which stays in place, and the rest with the character it may build on."""


class _Folded:
    """A text as it is looked through, that knows what its places are in the text as it is."""

    def __init__(self, text: str) -> None:
        self._raw = text
        self._pieces = [(0, len(text))] if text.isascii() else [found.span() for found in _STRETCH.finditer(text)]
        forms = [plain(text[first:last]) for first, last in self._pieces]
        self._starts = list(accumulate(map(len, forms), initial=0))
        self._apart: dict[int, tuple[list[int], list[Span]]] = {}
        self.text = "".join(forms)

    def raw(self, span: Span) -> Span:
        return self._at(span[0])[0], self._at(span[1] - 1)[1]

    def _at(self, place: int) -> Span:
        """The characters behind one folded character."""
        number = bisect_right(self._starts, place) - 1
        first, last = self._pieces[number]
        within = place - self._starts[number]
        if self._raw[first:last].isascii():
            return first + within, first + within + 1
        if number not in self._apart:
            self._apart[number] = self._letters(first, last)
        ends, letters = self._apart[number]
        return letters[bisect_right(ends, within)]

    def _letters(self, first: int, last: int) -> tuple[list[int], list[Span]]:
        """The letters of a piece, each with its marks, and where they end in the folded piece; all of it as one letter where
        they do not fold one by one."""
        letters, at = list[Span](), first
        while at < last:
            end = at + 1
            while end < last and _belongs(self._raw[end]):
                end += 1
            letters.append((at, end))
            at = end
        forms = [plain(self._raw[start:end]) for start, end in letters]
        whole = plain(self._raw[first:last])
        if "".join(forms) != whole:
            return [len(whole)], [(first, last)]
        return list(accumulate(map(len, forms))), letters


def _belongs(character: str) -> bool:
    """Whether it makes one letter with what stands before it: a combining mark, a Hangul vowel or final consonant."""
    return unicodedata.combining(character) != 0 or "\u1160" <= character <= "\u11ff"
