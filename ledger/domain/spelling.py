"""Words that are nearly another: one is the beginning of the other, or a slip of the hand lies between them."""

from __future__ import annotations

from collections.abc import Iterable

LEAST_CHARS = 5
"""A shorter word is the beginning of too many, and one letter makes another word of it."""

HEAD_CHARS = 3
"""Nearly equal words have these first letters in common, so that an index can be asked for them."""

MOST = 8
"""So many stored words stand for a word of a question at the most."""


def is_nearly(one: str, other: str) -> bool:
    """Return True if two words of at least five letters begin alike to the end of the shorter one, or are one edit apart."""
    if min(len(one), len(other)) < LEAST_CHARS or one[:HEAD_CHARS] != other[:HEAD_CHARS]:
        return False
    return one.startswith(other) or other.startswith(one) or is_one_edit(one, other)


def is_one_edit(one: str, other: str) -> bool:
    """Return True if one letter is missing, added or another, or two neighbors are exchanged."""
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(one), len(other)) - start and one[-1 - end] == other[-1 - end]:
        end += 1
    left, right = one[start : len(one) - end], other[start : len(other) - end]
    return max(len(left), len(right)) == 1 or (len(left) == 2 and left == right[::-1])


def nearest(word: str, stored: Iterable[str]) -> tuple[str, ...]:
    """Return the stored words that are nearly this one: those of nearly its length first, then by the alphabet."""
    near = {each for each in stored if each != word and is_nearly(word, each)}
    return tuple(sorted(near, key=lambda each: (abs(len(each) - len(word)), each))[:MOST])
