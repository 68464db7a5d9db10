"""Whether a text is so plain that no scanner of this package can find anything in it: most short notes are.

It must never be true of a text in which one of them finds something; a test holds it against the corpus.
"""

from __future__ import annotations

import re
from string import ascii_letters

from ledger.domain.guards import secrets, threats, words
from ledger.domain.guards.folding import classes, is_declared

_UNUSUAL = b"][<>#@$*`%\\|{}~"
_DIGIT = re.compile(r"\d")
_NUMBERED = re.compile(r"[A-Za-z_]\d|\d[A-Za-z_]|\d[\d -]{7}")
_LETTERS = classes(x=ascii_letters)
_LONGEST = 19  # letters; what is longer may be encoded
_MEAN_WORD = 3  # a text whose words are shorter on average is spaced out


def is_ordinary(text: str) -> bool:
    """True only where ``threats.scan`` and ``secrets.scan`` both find nothing."""
    if not text.isascii():
        return False
    raw, lowered = text.encode(), text.lower()
    if len(raw.translate(None, _UNUSUAL)) != len(raw) or "://" in text or is_declared(text, lowered):
        return False
    if _DIGIT.search(text) is not None and _NUMBERED.search(text) is not None:
        return False
    letters = b" " + raw.translate(_LETTERS)
    if (
        b"x" * (_LONGEST + 1) in letters
        or len(raw) < _MEAN_WORD * letters.count(b" x")
        or 3 * raw.count(b".") > len(raw)
    ):
        return False
    telling = words.of(lowered)
    return not telling or not any(
        word[: threats.HEAD] in threats.HEADS or word[: secrets.HEAD] in secrets.HEADS for word in telling
    )
