"""Patterns that are tried only where they may match: what a text must have, and where a match may begin, is read off them.

Nothing is written down twice, so nothing can come apart: of ``\\b(?:send|mail)\\b.{0,60}(?:token|secret)`` it follows that a text
without "send" and "mail", or without "token" and "secret", has no match, and that one begins with "send" or "mail". What a
pattern does not tell for certain is taken as anything. Patterns are compiled when they are first tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from typing import Any

from ledger.domain.guards.words import GRAM

try:  # how Python reads a pattern is its own affair: where that has changed, every pattern is tried everywhere
    from re import _constants as _c  # type: ignore[attr-defined]
    from re import _parser  # type: ignore[attr-defined]
except ImportError:  # pragma: no cover
    _c = _parser = None

MANY = 320  # different beginnings, more of which tell nothing
FEW = 24  # words in a row that are looked up as one
_LETTERS = re.compile("[a-z]+")
WIDE = 1_000  # characters of a match, above which it is not asked what is near
ANYWHERE = 256  # places where a match may begin, above which all of the text is searched

Words = frozenset[str]
Need = tuple[
    bool, tuple[Any, ...]
]  # (True, needs that must all hold) or (False, of which one must); a need may be a text


class Gated:
    """A pattern in lower case letters or not, without flags for its letters; ``finditer`` and ``search`` as in ``re``."""

    __slots__ = ("_asked", "_compiled", "_need", "_starts", "_width", "flags", "pattern")

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern, self.flags = pattern, flags
        self._compiled: re.Pattern[str] | None = None
        self._asked: Asked | None = None
        self._need: Need = (True, ())
        self._starts: tuple[str, ...] | None = None
        self._width = (
            0  # characters in which all of a match lies, and what it looks ahead to; 0 for more than is worth it
        )

    @property
    def asked(self) -> Asked:
        """What a text must have, by pieces of words where it may be; read once."""
        if self._asked is None:
            if _parser is not None:
                tree = _parser.parse(self.pattern, self.flags)
                if not tree.state.flags & (re.IGNORECASE | re.MULTILINE):
                    self._need, self._starts, self._width = _all(_needs(tree)), _shortest(_starts(tree)), _width(tree)
            self._asked = _asked(self._need)
        return self._asked

    @property
    def compiled(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self.pattern, self.flags)
        return self._compiled

    def search(self, text: str, pieces: Set[str] | None = None) -> re.Match[str] | None:
        """The first match; ``pieces`` are those of ``asked`` that are in the text."""
        asked = self._asked or self.asked
        if not (_holds(self._need, text) if pieces is None else asked.holds(text, pieces)):
            return None
        compiled = self._compiled or self.compiled
        if (places := self._places(text)) is None:
            return compiled.search(text)
        for place in places:
            if self._near(text, place) and (hit := compiled.match(text, place)) is not None:
                return hit
        return None

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        if not (self._asked or self.asked) or not _holds(self._need, text):
            return
        compiled = self._compiled or self.compiled
        if (places := self._places(text)) is None:
            yield from compiled.finditer(text)
            return
        end = 0
        for place in places:
            if place >= end and self._near(text, place) and (hit := compiled.match(text, place)) is not None:
                yield hit
                end = hit.end()

    def _near(self, text: str, place: int) -> bool:
        """Whether what a match must have is where one that begins here would have it."""
        return not self._width or _holds(self._need, text[place : place + self._width])

    def _places(self, text: str) -> list[int] | None:
        """Where a match may begin, in their order; None for anywhere."""
        if self._starts is None:
            return None
        places: set[int] = set()
        for start in self._starts:
            if not start:
                places.add(0)
                continue
            at = text.find(start)
            while at >= 0:
                places.add(at)
                at = text.find(start, at + 1)
                if len(places) > ANYWHERE:
                    return None
        return sorted(places)


class Asked:
    """A need, with what is a piece of one word apart: that needs no look at the text where its pieces are known."""

    __slots__ = ("every", "inner", "parts", "phrased", "phrases", "pieces")

    def __init__(self, every: bool, parts: tuple[Any, ...]) -> None:
        texts = [each for each in parts if isinstance(each, str)]
        self.every = every
        self.pieces = frozenset(each for each in texts if _piece(each) == each)
        self.phrases = tuple((piece, each) for each in texts if (piece := _piece(each)) and piece != each)
        self.phrased = frozenset(piece for piece, _ in self.phrases)
        self.parts = tuple(each for each in texts if not _piece(each))
        self.inner = tuple(_asked(each) for each in parts if not isinstance(each, str))

    def holds(self, text: str, pieces: Set[str]) -> bool:
        """Whether it holds of a text with these pieces. Plain loops: this is what most of the time of a scan goes into."""
        if self.every:
            for each in self.inner:  # noqa: SIM110
                if not each.holds(text, pieces):
                    return False
            return True
        if not self.pieces.isdisjoint(pieces):
            return True
        if self.phrases and not self.phrased.isdisjoint(pieces):
            for piece, phrase in self.phrases:
                if piece in pieces and phrase in text:
                    return True
        for part in self.parts:
            if part in text:
                return True
        for each in self.inner:  # noqa: SIM110
            if each.holds(text, pieces):
                return True
        return False

    def all_pieces(self) -> Iterator[str]:
        yield from self.pieces
        yield from (piece for piece, _ in self.phrases)
        for each in self.inner:
            yield from each.all_pieces()


def _asked(need: Need) -> Asked:
    return Asked(*need)


def _piece(text: str) -> str:
    """The longest run of Latin letters in it, if it is long enough to be asked for."""
    longest = max(_LETTERS.findall(text), key=len, default="")
    return longest if len(longest) >= GRAM else ""


def _holds(need: Need, text: str) -> bool:
    every, parts = need
    for part in parts:
        if (part in text if type(part) is str else _holds(part, text)) is not every:
            return not every
    return every


# --- reading a pattern -----------------------------------------------------------------------------------------------
# A tree is a sequence of (what, of what), as Python's own parser gives it.


def _all(needs: list[Need]) -> Need:
    """Those first that are soonest looked up, and tell most."""
    return needs[0] if len(needs) == 1 else (True, tuple(sorted(needs, key=_cost)))


def _cost(need: Any) -> float:
    return 1 / len(need) if isinstance(need, str) else sum(map(_cost, need[1]))


def _one_of(words: Iterable[str]) -> Need:
    """Without those that have another one in them."""
    kept: list[str] = []
    for word in sorted(set(words), key=len):
        if not any(each in word for each in kept):
            kept.append(word)
    return False, tuple(kept)


def _needs(tree: Any) -> list[Need]:
    """What must all hold of a text that has a match."""
    found, run = list[Need](), frozenset({""})
    for what, of in tree:
        words = _words(what, of, FEW)
        joined = _joined(run, words, FEW)
        if joined is not None:
            run = joined
        else:
            if "" not in run:
                found.append(_one_of(run))
            run = words or frozenset({""})
        if words is None or what is _c.ASSERT:
            found += _within(what, of)
    if "" not in run:
        found.append(_one_of(run))
    return found


def _within(what: Any, of: Any) -> list[Need]:
    if what is _c.BRANCH:
        each = [_needs(branch) for branch in of[1]]
        if not all(each):
            return []
        if all(len(needs) == 1 and not needs[0][0] and isinstance(needs[0][1][0], str) for needs in each):
            words = [word for needs in each for word in needs[0][1]]
            if all(isinstance(word, str) for word in words):
                return [_one_of(words)]
        return [(False, tuple(sorted(map(_all, each), key=_cost)))]
    inner = _inside(what, of)
    return [] if inner is None else _needs(inner)


def _inside(what: Any, of: Any) -> Any:
    """The tree within a group or an assertion, or within a repetition that comes at least once."""
    if what is _c.SUBPATTERN:
        return None if of[1] & re.IGNORECASE else of[3]
    if (what is _c.ASSERT and of[0] > 0) or (what in _REPEATS and of[0] > 0):
        return of[-1]
    return None


def _words(what: Any, of: Any, many: int = MANY) -> Words | None:
    """All that a part can match, or None for more than can be told."""
    if what is _c.LITERAL:
        return frozenset({chr(of)})
    if what is _c.IN:
        return _characters(of)
    if what is _c.BRANCH:
        every = [_words_of(branch, many) for branch in of[1]]
        known = [words for words in every if words is not None]
        joined = frozenset[str]().union(*known)
        return joined if len(known) == len(every) and len(joined) <= many else None
    if what is _c.SUBPATTERN:
        return None if of[1] & re.IGNORECASE else _words_of(of[3], many)
    if what in _REPEATS:
        words = _words_of(of[2], many) if of[1] == 1 else None
        return words if words is None or of[0] else words | {""}
    if what is _c.ASSERT or what is _c.ASSERT_NOT or (what is _c.AT and of not in _BEGINNINGS):
        return frozenset({""})
    return None


def shortest_of(pattern: str) -> tuple[str, ...]:
    """All that a pattern can match, without those that begin with another one: for a pattern that is a list of words."""
    known = None if _parser is None else _words_of(_parser.parse(pattern), MANY)
    return _shortest(known) or ("",)


def _words_of(tree: Any, many: int) -> Words | None:
    run: Words | None = frozenset({""})
    for what, of in tree:
        run = _joined(run, _words(what, of, many), many)
        if run is None:
            return None
    return run


def _joined(before: Words | None, after: Words | None, many: int = MANY) -> Words | None:
    if before is None or after is None or len(before) * len(after) > many:
        return None
    return frozenset(one + other for one in before for other in after)


def _characters(of: Any) -> Words | None:
    found: set[str] = set()
    for what, which in of:
        if what is _c.LITERAL:
            found.add(chr(which))
        elif what is _c.RANGE and which[1] - which[0] < 8:
            found.update(map(chr, range(which[0], which[1] + 1)))
        else:
            return None
    return frozenset(found) if len(found) <= 8 else None


def _starts(tree: Any) -> Words | None:
    """What each match begins with; the empty text stands for the beginning of the text."""
    run, more = frozenset({""}), frozenset[str]()
    for what, of in tree:
        joined = _joined(run, _words(what, of))
        if joined is not None:
            run = joined
            continue
        if "" not in run:
            break
        inner = _beginnings(what, of)
        if inner is None:
            return None
        run, more = run - {""}, inner
        break
    else:
        if "" in run:
            return None
    return run | more


def _width(tree: Any) -> int:
    """Characters of the longest match with what it looks ahead to, or 0 if there are too many."""
    longest: int = tree.getwidth()[1] + sum(ahead.getwidth()[1] for ahead in _looked_at(tree))
    return longest if longest <= WIDE else 0


def _looked_at(tree: Any) -> Iterator[Any]:
    for what, of in tree:
        if what is _c.ASSERT:
            yield of[1]
        for inner in of[1] if what is _c.BRANCH else (_inside(what, of) or (of[-1] if what in _REPEATS else ()),):
            if inner:
                yield from _looked_at(inner)


def _shortest(starts: Words | None) -> tuple[str, ...] | None:
    """Without those that begin with another one."""
    if starts is None:
        return None
    return tuple(
        each
        for each in sorted(starts)
        if not any(other and other != each and each.startswith(other) for other in starts)
    )


def _beginnings(what: Any, of: Any) -> Words | None:
    if what is _c.AT:
        return frozenset({""}) if of in _BEGINNINGS else None
    if what is _c.BRANCH:
        every = [_starts(branch) for branch in of[1]]
        known = [starts for starts in every if starts is not None]
        return frozenset[str]().union(*known) if len(known) == len(every) else None
    inner = None if what is _c.ASSERT else _inside(what, of)
    return None if inner is None else _starts(inner)


_REPEATS = () if _c is None else (_c.MAX_REPEAT, _c.MIN_REPEAT, _c.POSSESSIVE_REPEAT)
_BEGINNINGS = () if _c is None else (_c.AT_BEGINNING, _c.AT_BEGINNING_STRING)
