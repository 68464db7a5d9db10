"""A quick look at the letters of a text: most texts have nothing in them that a pattern begins with or that could hide another.

A text becomes bytes in which one letter stands for each class of characters, so that a run of a class is looked for as a
text is, which is what a processor is best at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import ascii_letters, ascii_lowercase, digits, hexdigits
from typing import Generic, TypeVar

from ledger.domain.late import late

T = TypeVar("T")
HEAD = 5  # letters of a word that are looked up
KEPT, KEPT_LETTERS = 20_000, 32  # words that a sieve keeps, and the letters of one
_MEAN_WORD = 3  # a text whose words are shorter on average is spaced out


def classes(rest: str = " ", **of: str) -> bytes:
    """A table for ``bytes.translate``: the characters of each class become its name, all others ``rest``."""
    table = bytearray(rest.encode() * 256)
    for name, characters in of.items():
        for each in characters.encode():
            table[each] = ord(name)
    return bytes(table)


_LATIN = classes(**{each: each + each.upper() for each in ascii_lowercase})
_NOT_BLANK = classes("x", **{" ": " \t\n\v\f\r\x1c\x1d\x1e\x1f"})
_DIGITS = classes(x=digits)
_RUNS = classes(x=ascii_letters + digits + "+/_-")
_HEXES = classes(x=hexdigits)
_LEET = classes(x=ascii_letters, n="01345789@$")
_WORDS = classes(x=ascii_letters + digits + "_")
_WORD_BEYOND = late("[^\\W\x00-\x7f]")
_DECLARED = late("[Rr][Oo][Tt]-?13|[Cc]aesar|[Bb]ackwards?|[Rr]eversed?:")  # what says itself that it is turned


def as_bytes(text: str) -> bytes:
    """One byte for each character; those beyond ASCII as a question mark."""
    return text.encode("ascii", "replace")


def classed(text: str) -> bytes | None:
    """A text as bytes, unless there are letters beyond ASCII in it."""
    return as_bytes(text) if text.isascii() or _WORD_BEYOND.search(text) is None else None


def words(raw: bytes) -> set[bytes]:
    """The words of a text in Latin letters, in lower case."""
    return set(raw.translate(_LATIN).split())


class Sieve(Generic[T]):
    """Keeps back the words that are dull: that no pattern asks for. Most texts are made of a few thousand of them, and each is
    judged once in a process. ``judge`` gives what those of some words call for that are not dull."""

    def __init__(self, judge: Callable[[set[bytes]], Mapping[bytes, T]]) -> None:
        self._judge = judge
        self._dull = set[bytes]()
        self._called = dict[bytes, T]()

    def __call__(self, words: set[bytes]) -> list[T]:
        """What the words of a text call for."""
        if not (rest := words - self._dull):
            return []
        called = self._called
        found = [called[each] for each in rest if each in called]
        if len(found) < len(rest):
            new = rest.difference(called)
            judged = self._judge(new)
            self._keep(new, judged)
            found += judged.values()
        return found

    def _keep(self, words: set[bytes], judged: Mapping[bytes, T]) -> None:
        if len(self._dull) + len(self._called) > KEPT:
            self._dull, self._called = set(), {}
        if len(max(words, key=len)) > KEPT_LETTERS:
            words = {each for each in words if len(each) <= KEPT_LETTERS}
        self._dull |= words.difference(judged)
        self._called |= {each: what for each, what in judged.items() if each in words}


def is_odd(text: str, raw: bytes, lowered: str) -> bool:
    """Whether an ASCII text may hide another: long runs, digits within words, letters set apart, or it says so."""
    words = b" " + raw.translate(_NOT_BLANK)
    number = words.count(b" x")
    if not number:
        return False
    return (
        b"*" in raw
        or b"`" in raw
        or b"x" * 20 in words
        or len(raw) < _MEAN_WORD * number
        or 3 * raw.count(b".") > len(raw)
        or (
            ("rot" in lowered or "caesar" in lowered or "backward" in lowered or "reverse" in lowered)
            and _DECLARED.search(text) is not None
        )
        or leeted(raw) > 0
    )


def leeted(raw: bytes) -> int:
    """How often digits stand between letters, as in "b2b"."""
    known = raw.translate(_LEET)
    if b"xn" not in known:
        return 0
    while b"nn" in known:
        known = known.replace(b"nn", b"n")
    return known.count(b"xnx")


def may_be_spaced(raw: bytes) -> bool:
    """False only where no letters are set apart. An underscore is a word and may part two as well."""
    known = b" " + raw.translate(_WORDS) + b" "
    return b" x x x " in known or (b"_" in raw and b" xxx x " in known)


def has_long_run(raw: bytes, length: int = 20) -> bool:
    """Whether so many letters, digits and signs of base64 stand side by side."""
    return b"x" * length in raw.translate(_RUNS)


def has_hexes(raw: bytes) -> bool:
    """Whether there may be 16 bytes written in hexadecimal digits, blanks and colons left aside."""
    return b"x" * 32 in raw.translate(_HEXES, b" :")


def has_digits(raw: bytes) -> bool:
    """Whether there may be a card number: thirteen digits in a row, blanks and hyphens left aside."""
    return b"x" * 13 in raw.translate(_DIGITS, b" -")
