"""Short statements that say nearly the same, of which the newer is likely the one that holds.

The rule knows no language and no attribute: two statements share two stems, and half of those of the shorter one. Where
both have vectors, recall asks for their cosine too (``ledger/recall/ordering.py``).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from ledger.english.porter import stem
from ledger.english.words import STOP_WORDS, indexed_words

ALIKE_CHARS = 200
"""A longer text is more than a statement, and is like no other."""

SHARED = 0.5
"""The least part of the shorter statement's stems that both have.

Chosen on the seen half of ``tests/corpus/update_pairs.jsonl``.
"""

COMMON = 2
"""The least stems in common: of two words a shared topic is one ("the vault is in Geneva", "the coins are in the vault")."""


def content_stems(text: str) -> frozenset[str]:
    """Return the stems of a short statement without stop words; none of a longer text."""
    if len(text) > ALIKE_CHARS:
        return frozenset()
    return frozenset(stem(word) for word in indexed_words(text) if word not in STOP_WORDS)


def share_stems(left: AbstractSet[str], right: AbstractSet[str]) -> bool:
    """Return True if two statements have two stems in common, and half of those of the shorter one."""
    common = len(left & right)
    return common >= COMMON and common >= SHARED * min(len(left), len(right))
