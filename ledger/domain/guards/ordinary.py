"""Whether a text is so plain that no scanner of this package can find anything in it: most short notes are.

It must never be true of a text in which one of them finds something; a test holds it against the corpus.
"""

from __future__ import annotations

import re

from ledger.domain.guards import secrets, threats

_UNUSUAL = re.compile(r'[][<>#"!@$*`%\\|&_{}0-9:=~/]')
_WORD = re.compile("[a-z]+")
_LONGEST = 19  # letters; what is longer may be encoded
_MEAN_WORD = 3  # a text whose words are shorter on average is spaced out

# The beginnings, at one length, of whatever word makes a text worth a look.
_HEAD = min(threats.HEAD, secrets.HEAD)
_HEADS = frozenset(each[:_HEAD] for each in (*threats.HEADS, *secrets.HEADS))


def is_ordinary(text: str) -> bool:
    """True only where ``threats.scan`` and ``secrets.scan`` both find nothing."""
    if not text.isascii() or _UNUSUAL.search(text) is not None:
        return False
    words = _WORD.findall(text.lower())
    if not words:
        return True
    if max(map(len, words)) > _LONGEST or len(text) < _MEAN_WORD * len(words) or 3 * text.count(".") > len(text):
        return False
    return _HEADS.isdisjoint([word[:_HEAD] for word in words])
