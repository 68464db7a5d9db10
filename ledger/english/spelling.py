"""Words that are nearly equal: a word is the beginning of the other, or a slip of the hand lies between them."""

from __future__ import annotations

from collections.abc import Iterable

LEAST_CHARS = 5
"""A shorter word is the beginning of too many words, and one letter makes it another word."""

HEAD_CHARS = 3
"""Nearly equal words have these first letters in common, so that an index can be asked for them."""

MOST = 8
"""The most stored words that stand for a word of a question."""


def is_nearly(left: str, right: str) -> bool:
    """Return True if two words of at least five letters begin alike to the end of the shorter one, or are one edit apart."""
    if min(len(left), len(right)) < LEAST_CHARS or left[:HEAD_CHARS] != right[:HEAD_CHARS]:
        return False
    return left.startswith(right) or right.startswith(left) or is_one_edit(left, right)


def is_one_edit(word: str, other_word: str) -> bool:
    """Return True if one letter is missing, added or changed, or two neighboring letters are exchanged."""
    start = 0
    while start < min(len(word), len(other_word)) and word[start] == other_word[start]:
        start += 1
    end = 0
    while end < min(len(word), len(other_word)) - start and word[-1 - end] == other_word[-1 - end]:
        end += 1
    left, right = word[start : len(word) - end], other_word[start : len(other_word) - end]
    return max(len(left), len(right)) == 1 or (len(left) == 2 and left == right[::-1])


def nearest(word: str, stored: Iterable[str]) -> tuple[str, ...]:
    """Return the stored words that are nearly equal to a word: those of a similar length first, then by the alphabet."""
    near = {candidate for candidate in stored if candidate != word and is_nearly(word, candidate)}
    return tuple(sorted(near, key=lambda candidate: (abs(len(candidate) - len(word)), candidate))[:MOST])
