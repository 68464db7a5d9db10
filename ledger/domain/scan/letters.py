"""Quick tests of the letters of a text, so that the expensive patterns run only on a text in which they could match.

The characters of a text are first replaced by the letters of their classes, for example all digits by "x". A run of 13 digits is
then found by a search for 13 times "x". A plain search for bytes is the fastest search that Python has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import ascii_letters, ascii_lowercase, digits, hexdigits
from typing import Generic, TypeVar

from ledger.domain.late import late

T = TypeVar("T")
HEAD = 5  # the letters at the beginning of a word by which patterns are looked up
KEPT, KEPT_LETTERS = 20_000, 32  # the most words that a sieve remembers, and the most letters of a remembered word
_MEAN_WORD = 3  # in a text with blanks between the letters, words and blanks are shorter than this on average


def classes(rest: str = " ", **characters_of: str) -> bytes:
    """Return a table for ``bytes.translate``: the characters of each class become its name, all others ``rest``."""
    table = bytearray(rest.encode() * 256)
    for name, characters in characters_of.items():
        for code in characters.encode():
            table[code] = ord(name)
    return bytes(table)


_LATIN = classes(**{letter: letter + letter.upper() for letter in ascii_lowercase})
_NOT_BLANK = classes("x", **{" ": " \t\n\v\f\r\x1c\x1d\x1e\x1f"})
_DIGITS = classes(x=digits)
_RUNS = classes(x=ascii_letters + digits + "+/_-")
_HEXES = classes(x=hexdigits)
_LEET = classes(x=ascii_letters, n="01345789@$")
_WORDS = classes(x=ascii_letters + digits + "_")
_WORD_BEYOND = late("[^\\W\x00-\x7f]")
# Words by which a text says that it is encoded or reversed.
_DECLARED = late("[Rr][Oo][Tt]-?13|[Cc]aesar|[Bb]ackwards?|[Rr]eversed?:")


def as_bytes(text: str) -> bytes:
    """Return a byte for each character. A character beyond ASCII becomes a question mark."""
    return text.encode("ascii", "replace")


def classed(text: str) -> bytes | None:
    """Return a text as bytes, or None if it contains letters beyond ASCII."""
    return as_bytes(text) if text.isascii() or _WORD_BEYOND.search(text) is None else None


def words(raw: bytes) -> set[bytes]:
    """Return the words of a text in Latin letters, in lower case."""
    return set(raw.translate(_LATIN).split())


class Sieve(Generic[T]):
    """A filter that passes only words which can be part of a pattern's match.

    Most texts are made of a few thousand words that no pattern needs, the dull words. Each word is judged once in a process and
    then remembered. ``judge`` returns a value for each word that is not dull.
    """

    def __init__(self, judge: Callable[[set[bytes]], Mapping[bytes, T]]) -> None:
        self._judge = judge
        self._dull = set[bytes]()
        self._telling = dict[bytes, T]()

    def __call__(self, words: set[bytes]) -> list[T]:
        """Return the values of the words that are not dull."""
        if not (rest := words - self._dull):
            return []
        telling = self._telling
        values = [telling[word] for word in rest if word in telling]
        if len(values) < len(rest):
            new = rest.difference(telling)
            judged = self._judge(new)
            self._keep(new, judged)
            values += judged.values()
        return values

    def _keep(self, words: set[bytes], judged: Mapping[bytes, T]) -> None:
        if len(self._dull) + len(self._telling) > KEPT:
            self._dull, self._telling = set(), {}
        if len(max(words, key=len)) > KEPT_LETTERS:
            words = {word for word in words if len(word) <= KEPT_LETTERS}
        self._dull |= words.difference(judged)
        self._telling |= {word: value for word, value in judged.items() if word in words}


def is_odd(text: str, raw: bytes, lowered: str) -> bool:
    """Return True if an ASCII text may hide another text.

    The signs are long runs of letters and digits, digits within words, blanks between letters, or a word such as "rot13".
    """
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
    """Return the number of places where digits stand between letters, as in "b2b"."""
    known = raw.translate(_LEET)
    if b"xn" not in known:
        return 0
    while b"nn" in known:
        known = known.replace(b"nn", b"n")
    return known.count(b"xnx")


def may_be_spaced(raw: bytes) -> bool:
    """Return False if a text surely has no letters with signs between them; an underscore counts as a letter and as a sign."""
    known = b" " + raw.translate(_WORDS) + b" "
    return b" x x x " in known or (b"_" in raw and b" xxx x " in known)


def has_long_run(raw: bytes, length: int = 20) -> bool:
    """Return True if ``length`` letters, digits or signs of base64 stand side by side."""
    return b"x" * length in raw.translate(_RUNS)


def has_hexes(raw: bytes) -> bool:
    """Return True if a text may contain 16 bytes in hexadecimal digits, blanks and colons not counted."""
    return b"x" * 32 in raw.translate(_HEXES, b" :")


def has_digits(raw: bytes) -> bool:
    """Return True if a text may contain a card number: thirteen digits in a row, blanks and hyphens not counted."""
    return b"x" * 13 in raw.translate(_DIGITS, b" -")
