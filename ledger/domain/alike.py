"""Short statements that say nearly the same, of which the newer is likely the one that holds.

The rule knows no language and no attribute: two statements share at least half of the stems of the shorter statement. If
both have vectors, recall asks for their cosine too (``ledger/recall/ordering.py``).
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from ledger.domain.question import indexed_words
from ledger.domain.text import STOP_WORDS, stem

ALIKE_CHARS = 200
"""A longer text is more than a statement, and is like no other."""

SHARED = 0.5
"""The least share of common stems, of the shorter statement's. Chosen on the seen half of ``tests/corpus/update_pairs.jsonl``."""


def telling_stems(text: str) -> frozenset[str]:
    """Return the stems of a short statement without stop words; none of a longer text."""
    if len(text) > ALIKE_CHARS:
        return frozenset()
    return frozenset(stem(word) for word in indexed_words(text) if word not in STOP_WORDS)


def share_stems(left: AbstractSet[str], right: AbstractSet[str]) -> bool:
    """Return True if two statements have at least half of the stems of the shorter one in common."""
    common = len(left & right)
    return common > 0 and common >= SHARED * min(len(left), len(right))
