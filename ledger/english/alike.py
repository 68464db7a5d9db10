"""Short statements that say nearly the same, of which the newer is likely the one that holds.

The rule knows no language and no attribute: two statements share two stems, and half of those of the shorter one. Where
both have vectors, recall asks for their cosine too, and takes two that are nearest to each other without a stem in common
(``ledger/recall/ordering.py``).

Facts of one form say nearly the same too, and each holds: "Gus's locker is 14.", "Hana's locker is 15." Only a question tells
that the name is the key, and the number the value that an update replaces. ``are_of_other_keys`` compares their places;
without a question ``are_of_one_form`` counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import takewhile

from ledger.domain.late import late
from ledger.english.words import STOP_WORDS, indexed_words, stem

ALIKE_CHARS = 200
"""A longer text is more than a statement, and is like no other."""

SHARED = 0.5
"""The least part of the shorter statement's stems that both have.

Chosen on the seen half of ``tests/corpus/update_pairs.jsonl``.
"""

COMMON = 2
"""The least stems in common: of two words a shared topic is one ("the vault is in Geneva", "the coins are in the vault")."""

ONE_FORM = 0.4
"""The least part of the shorter statement's words that two statements of one form have in the same order (our choice)."""

KEY_WORDS = 2
"""The most words of a key: a longer place is another way to say it ("I live in Lisbon.", "I have moved to Porto.")."""

_STEPS = ((1, 1), (2, 2), (1, 2), (2, 1))
"""The numbers of words that a place has in two statements, the first that fits; the last place may have any numbers."""

_POSSESSIVE = late(r"['’]s\b")  # two statements have no word in common by it


def content_stems(text: str) -> frozenset[str]:
    """Return the stems of a short statement without stop words; none of a longer text."""
    if len(text) > ALIKE_CHARS:
        return frozenset()
    return frozenset(map(stem, set(indexed_words(_POSSESSIVE.sub("", text))) - STOP_WORDS))


def stems_in_order(text: str) -> list[str]:
    """Return the stems of all words of a statement."""
    return list(map(stem, indexed_words(_POSSESSIVE.sub("", text))))


def share_stems(left: AbstractSet[str], right: AbstractSet[str]) -> bool:
    """Return True if two statements have two stems in common, and half of those of the shorter one."""
    common = len(left & right)
    return common >= COMMON and common >= SHARED * min(len(left), len(right))


def are_of_other_keys(asked: Iterable[AbstractSet[str]], older: Sequence[str], newer: Sequence[str]) -> bool:
    """Return True if two statements of one form differ in a place where the older has a word of an open question.

    An open question names the key, and not the value for which it asks. A key has at most ``KEY_WORDS`` words.

    Args:
        asked: The stems of each telling word of the question, with its other forms.
        older: The stems of the older statement, in order.
        newer: The stems of the newer statement, in order.
    """
    places = [place for place in replaced_places(older, newer) if max(map(len, place)) <= KEY_WORDS]
    return any(not word.isdisjoint(was) and word.isdisjoint(now) for was, now in places for word in asked)


def are_of_one_form(older: Sequence[str], newer: Sequence[str]) -> bool:
    """Return True if two statements of one form have two keys: they differ in two places, the key and the value.

    In one place alone mostly nothing tells whether it is the key or the value, so the newer statement may be an update. It is a
    key if it has no figure and a figure follows in both, their value: "I gave Gus locker 14.", "I gave Hana locker 14."
    """
    places = replaced_places(older, newer)
    if len(places) != 1:
        return len(places) > 1
    pairs = zip(reversed(older), reversed(newer), strict=False)
    after = [word for word, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return _has_figure(after) and not any(map(_has_figure, places[0]))


def _has_figure(words: Iterable[str]) -> bool:
    return any(character.isdigit() for word in words for character in word)


def replaced_places(older: Sequence[str], newer: Sequence[str]) -> list[tuple[Sequence[str], Sequence[str]]]:
    """Return the places in which two statements of one form differ, with the words of both; none if the form is not one."""
    places: list[tuple[Sequence[str], Sequence[str]]] = []
    at = to = same = 0
    end, newer_end = len(older), len(newer)
    while at < end and to < newer_end:
        if older[at] == newer[to]:
            at, to, same = at + 1, to + 1, same + 1
            continue
        for size, newer_size in _STEPS:
            after, newer_after = at + size, to + newer_size
            if after < end and newer_after < newer_end and older[after] == newer[newer_after]:
                break
        else:
            after, newer_after = end, newer_end
        places.append((older[at:after], newer[to:newer_after]))
        at, to = after, newer_after
    is_one_form = at == end and to == newer_end and same >= ONE_FORM * min(end, newer_end)
    return places if is_one_form else []
