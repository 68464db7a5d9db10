"""The words of a text that tell something: those that begin as what one of the scanners looks for, or have it in them.

What was found to tell nothing is kept, so that of most texts no word needs a second look: most texts are made of few words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from string import ascii_lowercase

from ledger.domain.guards.folding import as_bytes, classes

KEPT, LONGEST = 20_000, 19  # words that are kept, and letters of each
ASKED_AGAIN = 16_384  # characters of a text whose words are kept until the next
GRAM = 4  # letters of the shortest piece that is asked for

_LETTERS = classes(**{each: each + each.upper() for each in ascii_lowercase})
_NOTHING: frozenset[str] = frozenset()


class Vocabulary:
    """Words by what they tell. ``heads`` are beginnings of a word of so many letters, or shorter words; ``pieces`` are in it."""

    def __init__(self, heads: dict[int, frozenset[str]], pieces: Iterable[str]) -> None:
        self._heads = tuple(heads.items())
        self._pieces: dict[str, tuple[str, ...]] = {}
        for piece in pieces:
            self._pieces[piece[:GRAM]] = (*self._pieces.get(piece[:GRAM], ()), piece)
        self._dull: set[str] = set()
        self._telling: dict[str, frozenset[str]] = {}

    def of(self, text: str) -> dict[str, frozenset[str]]:
        """Each telling word in Latin letters, in lower case, with the pieces that are in it."""
        words = set(as_bytes(text).translate(_LETTERS).decode().split())
        words -= self._dull
        telling, known = dict[str, frozenset[str]](), self._telling
        for word in words:
            pieces = known.get(word)
            if pieces is None and (pieces := self._learned(word)) is None:
                continue
            telling[word] = pieces
        return telling

    def _learned(self, word: str) -> frozenset[str] | None:
        """What a new word tells, or None for nothing."""
        pieces = _NOTHING
        if len(word) >= GRAM:
            for gram in self._pieces.keys() & {word[at : at + GRAM] for at in range(len(word) - GRAM + 1)}:
                pieces |= {piece for piece in self._pieces[gram] if piece in word}
        tells = bool(pieces) or any(word[:length] in heads for length, heads in self._heads)
        if len(word) <= LONGEST:
            if tells:
                self._telling[word] = pieces
            else:
                self._dull.add(word)
            if len(self._dull) + len(self._telling) > KEPT:
                self._dull, self._telling = set(), {}
        return pieces if tells else None


_ASKED: list[tuple[int, frozenset[str], Callable[[], Iterable[str]]]] = []
_MADE: list[Vocabulary] = []
_last: tuple[str, dict[str, frozenset[str]]] = ("", {})  # several scanners ask for the same text in turn


def ask(length: int, heads: frozenset[str], pieces: Callable[[], Iterable[str]] = tuple) -> None:
    """Has words told by their first letters, and by pieces that are given when the first text is looked at."""
    global _last
    _ASKED.append((length, heads, pieces))
    _MADE.clear()
    _last = ("", {})


def of(text: str) -> dict[str, frozenset[str]]:
    """Each word of a text that tells something to one of those that asked, with the pieces that are in it."""
    if not _MADE:
        heads = {
            length: frozenset[str]().union(*(each[1] for each in _ASKED if each[0] == length)) for length, *_ in _ASKED
        }
        _MADE.append(Vocabulary(heads, {piece for *_, pieces in _ASKED for piece in pieces()}))
    global _last
    last = _last
    if last[0] == text:
        return last[1]
    found = _MADE[-1].of(text)
    if len(text) <= ASKED_AGAIN:
        _last = (text, found)
    return found
