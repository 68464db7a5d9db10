"""Stored words that stand for a word of a question: words of the same family, or words that are nearly equal.

Of two words that are nearly equal one is the beginning of the other, or a slip of the hand lies between them.

Words of one family (*allergic* and *allergy*, *pregnant* and *pregnancy*) are made of one root by more endings than the stemmer
takes off. Two stems are of one family if the same root is left of both. The rule knows no word, and takes some pairs that only
begin alike for a family (*mother*, *moth*). So recall asks for a family where few texts have the word itself. The endings were
chosen on the words of two public sets of conversations, with the derivations of MorphyNet as the truth
(``ledger/docs/measured.md``).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

from ledger.english.porter import stem

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


# --- families --------------------------------------------------------------------------------------------------------

ROOT_CHARS = 4
"""The least letters of a root. All stems of a family have their first four letters in common."""

_SHORT = ["e", "er", "ist", "ship", "ment", "less", "hood", "dom", "li", "ful", "ism", "abl", "ou", "eti"]
"""Endings, of stems, that leave a root of at least four letters. Every other ending leaves one of at least five."""

_LONG = ["i", "a", "al", "ic", "an", "at", "ion", "or", "ari", "iv", "ag", "ur", "ifi"]
_ENDINGS = sorted([*_SHORT, *_LONG], key=lambda ending: (-len(ending), ending))
_SOUNDS = (("anc", "ant"), ("enc", "ent"), ("ac", "at"), ("ipt", "ib"), ("orpt", "orb"), ("f", "v"), ("s", "d"))
"""Ends of roots that are one sound: preg*nanc*y, subs*cript*ion, beli*ef*, deci*s*ion."""

_AGAIN = ("", "e", "s", "ed")  # endings that make a word of a stem again


def are_kin(left: str, right: str) -> bool:
    """Return True if two words, or their stems, are of one family."""
    return root(stem(left)) == root(stem(right))


def kin_of(word: str, stored: Iterable[str]) -> list[str]:
    """Return a word for each of the stored stems that is of the family of a word and has another stem.

    The index is asked for words, and a stem can have another stem (*increas*): then an ending is added.
    """
    own = stem(word)
    family = root(own)
    stems = sorted(stored_stem for stored_stem in stored if stored_stem != own and root(stored_stem) == family)
    forms = ((form for ending in _AGAIN if stem(form := kin + ending) == kin) for kin in stems)
    return [form for each in forms for form in islice(each, 1)]


@lru_cache(maxsize=16_384)
def root(stemmed: str) -> str:
    """Return the root of a stem. A stem of another script, of few letters or with digits is its own root."""
    left, before = stemmed, ""
    while left != before:
        before = left
        for ending in _ENDINGS:
            least = ROOT_CHARS if ending in _SHORT else ROOT_CHARS + 1
            if left.endswith(ending) and len(left) - len(ending) >= least:
                left = left[: -len(ending)]
                break
        if len(left) > ROOT_CHARS and left[-1] == left[-2] and left[-1] not in "sl":
            left = left[:-1]  # swim(m)er
    for end, same in _SOUNDS:
        if left.endswith(end) and len(left) > max(ROOT_CHARS, len(end) + 2):
            return left[: -len(end)] + same
    return left
