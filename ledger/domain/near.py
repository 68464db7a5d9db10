"""Texts that say nearly the same: those whose sets of words overlap, found without comparing each with each.

Similarity is that of Jaccard: the words in common over the words of both, in millionths. All words are brought into one
order, rare ones first. Two sets that are similar enough have a word in common among the first few of each (the prefix
filter), sizes that are not far apart, and, from their first common word on, enough words left in both (the positional filter of
PPJoin, Xiao et al. 2008). So a text is looked up by its few rarest words only, under the sizes and places where a
partner can be; what is found there is compared exactly. Equal sets are one set throughout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from ledger.domain.text import words

K = TypeVar("K", bound=Hashable)
WordSet = frozenset[str]

ONE = 1_000_000

THRESHOLD = 850_000
"""From here two texts are near duplicates (rubino, SEEDS 2b)."""

MOST = 50
"""A cluster has at most this many members (ours; ATOCore looks at batches of 50)."""

PATIENCE = 256
"""``clusters`` gives up on a text after this many comparisons that came to nothing, and counts it (ours). Among notes that share
nearly all of their words no filter helps, and without this the time would grow with the square of their number."""

NEIGHBORS = 32
"""``clusters`` looks for no more neighbors of a text than this (ours): a cluster is found by each of its members."""

FEW = 16  # sets with a word that are looked at by their sizes alone

_NEGATIONS = """
    no not never none nobody nothing nor neither without cannot cant dont doesnt didnt wont wouldnt shouldnt isnt arent
    wasnt werent hasnt havent hadnt couldnt mustnt
"""
NEGATIONS = frozenset(_NEGATIONS.split())


def word_set(text: str) -> WordSet:
    """The words of a text, each once; an empty set is near nothing."""
    return frozenset(words(text))


def similarity(one: WordSet, other: WordSet) -> int:
    """Words in common over words of both, in millionths, rounded down; 0 where there are none."""
    common = len(one & other)
    return common * ONE // (len(one) + len(other) - common) if common else 0


def opposed(one: WordSet, other: WordSet) -> bool:
    """Whether two near texts say different things: one denies, and the other does not; or each has a number of its own."""
    if bool(one & NEGATIONS) != bool(other & NEGATIONS):
        return True
    ours, theirs = one - other, other - one
    return any(_figure(word) for word in ours) and any(_figure(word) for word in theirs)


def _figure(word: str) -> bool:
    return any(each.isdigit() for each in word)


# --- looking up ------------------------------------------------------------------------------------------------------


class Index:
    """Word sets, numbered from 0 as they are added, and the numbers of those that are near another one.

    ``order`` puts words in their place, the rarest first; a word that is not in it comes before all that are. The first
    ``alone`` of them are known to be in one set each, now and later, so that nothing is found by them. With ``growing``
    each set must be at least as large as those before it, which halves what is kept and looked at.
    """

    def __init__(
        self, threshold: int = THRESHOLD, order: Iterable[str] = (), *, alone: int = 0, growing: bool = False
    ) -> None:
        if not 0 < threshold <= ONE:
            raise ValueError(f"a threshold lies above 0 and is at most {ONE:,} millionths, and {threshold} does not")
        self.threshold, self.growing, self._alone = threshold, growing, range(alone)
        self.sets: list[WordSet] = []
        self.cut_short = 0  # look-ups that ended for want of patience
        self._places = {word: place for place, word in enumerate(order)}
        self._last: tuple[WordSet | None, list[int]] = (None, [])
        self._next = -1  # the place of the next word that is not in the order
        self._few: dict[int, list[int]] = {}  # word -> sets, while there are few
        self._many: dict[int, dict[tuple[int, int], list[int]]] = {}  # word -> (size of the set, place in it) -> sets

    def add(self, own: WordSet) -> int:
        """Takes a set in; its number."""
        number, size = len(self.sets), len(own)
        self.sets.append(own)
        least = self._common(size, size) if self.growing else self._least(size)
        for place, word in enumerate(self._sorted(own)[: size - least + 1]):
            if word in self._alone:
                continue
            if word in self._many:
                self._many[word].setdefault((size, place), []).append(number)
            elif len(known := self._few.setdefault(word, [])) < FEW:
                known.append(number)
            else:
                self._many[word] = {}
                for each in (*self._few.pop(word), number):
                    own = self.sets[each]
                    key = (len(own), sorted(self._places[other] for other in own).index(word))
                    self._many[word].setdefault(key, []).append(each)
        return number

    def near(self, own: WordSet, *, most: int | None = None, patience: int | None = None) -> list[tuple[int, int]]:
        """(number, similarity) of the sets near this one, the latest of equal ones first.

        No more than ``most``, and no further than ``patience`` comparisons in vain; None for all there are.
        """
        found, seen, vain = [], set(), 0
        for number in self._candidates(own):
            if number in seen:
                continue
            seen.add(number)
            how = self._compare(own, self.sets[number])
            if how is None:
                vain += 1
                if patience is not None and vain >= patience:
                    self.cut_short += 1
                    break
            else:
                found.append((number, how))
                if most is not None and len(found) >= most:
                    break
        return sorted(found, key=lambda each: (-each[1], -each[0]))

    def _compare(self, one: WordSet, other: WordSet) -> int | None:
        common = len(one & other)
        both = len(one) + len(other) - common
        return common * ONE // both if common * ONE >= self.threshold * both else None

    def _candidates(self, own: WordSet) -> Iterator[int]:
        size = len(own)
        least, greatest = self._least(size), size * ONE // self.threshold
        for place, word in enumerate(self._sorted(own)[: size - least + 1]):
            if (few := self._few.get(word)) is not None:
                yield from (number for number in reversed(few) if least <= len(self.sets[number]) <= greatest)
                continue
            for (other, at), numbers in self._many[word].items() if word in self._many else ():
                # if this is the first word in common, no more than those from here on can be
                if least <= other <= greatest and min(size - place, other - at) >= self._common(size, other):
                    yield from reversed(numbers)

    def _sorted(self, own: WordSet) -> list[int]:
        if self._last[0] is own:  # looked up, and now added
            return self._last[1]
        places = self._places
        try:
            found = sorted([places[word] for word in own])
        except KeyError:
            for word in sorted(own.difference(places)):
                places[word] = self._next
                self._next -= 1
            found = sorted([places[word] for word in own])
        self._last = (own, found)
        return found

    def _least(self, size: int) -> int:
        """How many words a partner needs: the whole of it in common with a set of this size."""
        return -(-self.threshold * size // ONE)

    def _common(self, size: int, other: int) -> int:
        """How many words sets of two sizes must have in common: similarity ≥ t is common ≥ t / (1 + t) of their sum."""
        return -(-self.threshold * (size + other) // (ONE + self.threshold))


def rarest_first(sets: Iterable[Collection[str]]) -> list[str]:
    """The words of all sets by how many have them, and by the alphabet, so that nothing depends on the order of sets."""
    return _rarest_first(sets)[0]


def _rarest_first(sets: Iterable[Collection[str]]) -> tuple[list[str], int]:
    """... and how many of them are in one set only."""
    counts: Counter[str] = Counter()
    for each in sets:
        counts.update(each)
    return sorted(counts, key=lambda word: (counts[word], word)), sum(count == 1 for count in counts.values())


# --- each with each --------------------------------------------------------------------------------------------------


class _Distinct(Generic[K]):
    """Items by their sets: each set once, the smaller ones first; ``items`` has the places of those that share it."""

    def __init__(self, given: Iterable[tuple[K, WordSet]]) -> None:
        by_set: dict[WordSet, list[int]] = {}
        self.keys: list[K] = []
        for key, own in given:
            if own:
                by_set.setdefault(own, []).append(len(self.keys))
            self.keys.append(key)
        self.sets = sorted(by_set, key=lambda own: (len(own), by_set[own][0]))
        self.items = [by_set[own] for own in self.sets]

    def index(self, threshold: int) -> Index:
        """An index to add these sets to, in their order, and no others."""
        order, alone = _rarest_first(self.sets)
        return Index(threshold, order, alone=alone, growing=True)


# --- clusters --------------------------------------------------------------------------------------------------------


class Cluster(Struct, Generic[K], frozen=True):
    """Items of which each is near each, in the order given; ``similarity`` is that of the two that are least alike."""

    ids: tuple[K, ...]
    similarity: int


class Clusters(Struct, Generic[K], frozen=True):
    """``cut_short`` counts the items whose neighbors were not all looked for (see PATIENCE)."""

    found: tuple[Cluster[K], ...]
    cut_short: int = 0


class _Growing:
    """A cluster under way: the places of its items, their sets (each once), the least similarity of two of them."""

    __slots__ = ("items", "least", "sets")

    def __init__(self, item: int, own: WordSet) -> None:
        self.items, self.sets, self.least = [item], [own], ONE

    def would_be(self, own: WordSet, threshold: int) -> int | None:
        """The least similarity with one more set; None where it is not near each."""
        least = self.least
        for each in reversed(self.sets):
            common = len(each & own)
            both = len(each) + len(own) - common
            if common * ONE < threshold * both:
                return None
            least = min(least, common * ONE // both)
        return least

    def take(self, item: int, own: WordSet, least: int) -> None:
        self.items.append(item)
        self.least = least
        if own != self.sets[-1]:
            self.sets.append(own)


def clusters(
    items: Sequence[tuple[K, WordSet]],
    threshold: int = THRESHOLD,
    *,
    most: int = MOST,
    together: Callable[[K, K], bool] | None = None,
) -> Clusters[K]:
    """Groups of two to ``most`` items in which each is near each (complete linkage), every item in one at the most.

    From the smallest set to the largest, an item joins the cluster of its nearest neighbor that it is near all of, or begins
    one of its own. So what is like a member, but not like all, stays apart: a chain of small differences joins nothing.
    ``together`` may refuse two items that would come to stand in one. The same items give the same clusters.
    """
    kept = _Distinct(items)
    index = kept.index(threshold)
    of: list[list[_Growing]] = []  # the clusters with an item of each set that may still take one
    everything: list[_Growing] = []

    def takes(cluster: _Growing, item: int) -> bool:
        others = (kept.keys[each] for each in cluster.items)
        return together is None or all(together(other, kept.keys[item]) for other in others)

    for number, own in enumerate(kept.sets):
        of.append([])
        near = index.near(own, most=NEIGHBORS, patience=PATIENCE)
        index.add(own)
        for item in kept.items[number]:
            joined = _join(item, own, threshold, _open(of, [number, *(each for each, _ in near)], most), takes)
            if joined is None:
                everything.append(joined := _Growing(item, own))
            if joined not in of[number]:
                of[number].append(joined)
    found = (each for each in everything if len(each.items) > 1)
    ordered = sorted((sorted(each.items), each.least) for each in found)
    return Clusters(
        tuple(Cluster(tuple(kept.keys[item] for item in group), least) for group, least in ordered), index.cut_short
    )


def _open(of: list[list[_Growing]], numbers: Iterable[int], most: int) -> Iterator[_Growing]:
    """The clusters of these sets that are not full, the nearest first; full ones are forgotten on the way."""
    tried: list[_Growing] = []
    for number in numbers:
        of[number] = [each for each in of[number] if len(each.items) < most]
        for cluster in of[number]:
            if len(tried) >= NEIGHBORS:
                return
            if cluster not in tried:
                tried.append(cluster)
                yield cluster


def _join(
    item: int,
    own: WordSet,
    threshold: int,
    candidates: Iterable[_Growing],
    takes: Callable[[_Growing, int], bool],
) -> _Growing | None:
    for cluster in candidates:
        least = cluster.would_be(own, threshold)
        if least is not None and takes(cluster, item):
            cluster.take(item, own, least)
            return cluster
    return None
