"""Whether a text is so plain that no scanner of this package can find anything in it: most short notes are.

It must never be true of a text in which one of them finds something; a test holds it against the corpus.
"""

from __future__ import annotations

import re

from ledger.domain.guards import secrets, threats
from ledger.domain.guards.folding import DECLARED

_UNUSUAL = re.compile(r"[][<>#@$*`%\\|{}~]")
_DIGIT = re.compile(r"\d")
_NUMBERED = re.compile(r"[A-Za-z_]\d|\d[A-Za-z_]|\d[\d -]{7}")
_WORD = re.compile("[a-z]+")
_LONGEST = 19  # letters; what is longer may be encoded
_MEAN_WORD = 3  # a text whose words are shorter on average is spaced out


def is_ordinary(text: str) -> bool:
    """True only where ``threats.scan`` and ``secrets.scan`` both find nothing."""
    if not text.isascii() or _UNUSUAL.search(text) is not None or "://" in text or DECLARED.search(text):
        return False
    if _DIGIT.search(text) is not None and _NUMBERED.search(text) is not None:
        return False
    words = _WORD.findall(text.lower())
    if not words:
        return True
    if max(map(len, words)) > _LONGEST or len(text) < _MEAN_WORD * len(words) or 3 * text.count(".") > len(text):
        return False
    if not threats.HEADS.isdisjoint([word[: threats.HEAD] for word in words]):
        return False
    return secrets.HEADS.isdisjoint([word[: secrets.HEAD] for word in words])
