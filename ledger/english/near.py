"""Texts that say nearly the same: their sets of words overlap. They are found without comparing every two.

The similarity is Jaccard's: the words in common over the words of both, in millionths. All words have one order, rare words
first. Two sets that are similar enough have a word in common among the first few of each (the prefix filter), similar
sizes, and, from their first common word on, enough words left in both (the positional filter of PPJoin, Xiao et al. 2008).
So a text is looked up only by its few rarest words, under the sizes and places that a partner can have, and the candidates
are compared exactly. Equal sets are stored once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from ledger.english.words import NEGATIONS, words

K = TypeVar("K", bound=Hashable)
WordSet = frozenset[str]

ONE = 1_000_000

THRESHOLD = 850_000
"""From this similarity on two texts are near duplicates, as in rubino."""

MOST = 50
"""The most members of a cluster (our choice; ATOCore works on batches of 50)."""

PATIENCE = 256
"""``clusters`` gives up on a text after this many comparisons in vain, and counts the text (our choice). Among notes that
share nearly all of their words no filter helps, and the time would grow with the square of their number."""

NEIGHBORS = 32
"""``clusters`` looks for at most this many neighbors of a text (our choice): each member of a cluster finds it."""

FEW = 16  # sets with a word up to which they are searched by their sizes alone


def word_set(text: str) -> WordSet:
    """Return the words of a text, each once. An empty set is near nothing."""
    return frozenset(words(text))


def similarity(left: WordSet, right: WordSet) -> int:
    """Return the words in common over the words of both, in millionths, rounded down; 0 if no word is in common."""
    common = len(left & right)
    return common * ONE // (len(left) + len(right) - common) if common else 0


def opposed(left: WordSet, right: WordSet) -> bool:
    """Return True if two near texts say different things: only one denies, or each has a figure that the other lacks."""
    if bool(left & NEGATIONS) != bool(right & NEGATIONS):
        return True
    only_left, only_right = left - right, right - left
    return any(_figure(word) for word in only_left) and any(_figure(word) for word in only_right)


def _figure(word: str) -> bool:
    return any(character.isdigit() for character in word)


# --- looking up ------------------------------------------------------------------------------------------------------


class NearIndex:
    """An index of word sets, numbered from 0 as they are added, that finds the sets near another.

    ``order`` is the order of words, the rarest first; a new word comes before all of them. The first ``alone`` words are known
    to be in one set each, now and later, so no set is found by them. With ``growing`` each set must be at least as large as
    those before it, which halves the stored entries and the work.
    """

    def __init__(
        self, threshold: int = THRESHOLD, order: Iterable[str] = (), *, alone: int = 0, growing: bool = False
    ) -> None:
        if not 0 < threshold <= ONE:
            raise ValueError(f"a threshold must be above 0 and at most {ONE:,} millionths, but {threshold} was given")
        self.threshold = threshold
        self.growing = growing
        self._alone = range(alone)
        self.sets: list[WordSet] = []
        self.cut_short: int = 0  # look-ups that ran out of patience
        self._places = {word: place for place, word in enumerate(order)}
        self._last: tuple[WordSet | None, list[int]] = (None, [])
        self._next = -1  # the place of the next word that is not in the order
        self._few: dict[int, list[int]] = {}  # word -> sets, while there are few
        self._many: dict[int, dict[tuple[int, int], list[int]]] = {}  # word -> (size of the set, place in it) -> sets

    def add(self, own: WordSet) -> int:
        """Add a set, and return its number."""
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
                for set_number in (*self._few.pop(word), number):
                    own = self.sets[set_number]
                    key = (len(own), sorted(self._places[set_word] for set_word in own).index(word))
                    self._many[word].setdefault(key, []).append(set_number)
        return number

    def near(self, own: WordSet, *, most: int | None = None, patience: int | None = None) -> list[tuple[int, int]]:
        """Return (number, similarity) of the sets near a set, the latest of equally similar ones first.

        The search ends after ``most`` results, or after ``patience`` comparisons in vain; None is no bound.
        """
        results, seen, vain = [], set(), 0
        for number in self._candidates(own):
            if number in seen:
                continue
            seen.add(number)
            likeness = self._compare(own, self.sets[number])
            if likeness is None:
                vain += 1
                if patience is not None and vain >= patience:
                    self.cut_short += 1
                    break
            else:
                results.append((number, likeness))
                if most is not None and len(results) >= most:
                    break
        return sorted(results, key=lambda result: (-result[1], -result[0]))

    def _compare(self, left: WordSet, right: WordSet) -> int | None:
        common = len(left & right)
        both = len(left) + len(right) - common
        return common * ONE // both if common * ONE >= self.threshold * both else None

    def _candidates(self, own: WordSet) -> Iterator[int]:
        size = len(own)
        least, greatest = self._least(size), size * ONE // self.threshold
        for place, word in enumerate(self._sorted(own)[: size - least + 1]):
            if (few := self._few.get(word)) is not None:
                yield from (number for number in reversed(few) if least <= len(self.sets[number]) <= greatest)
                continue
            for (other_size, at), numbers in self._many[word].items() if word in self._many else ():
                # If this is the first common word, the words from here on are the most that can be in common.
                if least <= other_size <= greatest and min(size - place, other_size - at) >= self._common(
                    size, other_size
                ):
                    yield from reversed(numbers)

    def _sorted(self, own: WordSet) -> list[int]:
        if self._last[0] is own:  # just looked up, and now added
            return self._last[1]
        places = self._places
        try:
            places_of_own = sorted([places[word] for word in own])
        except KeyError:
            for word in sorted(own.difference(places)):
                places[word] = self._next
                self._next -= 1
            places_of_own = sorted([places[word] for word in own])
        self._last = (own, places_of_own)
        return places_of_own

    def _least(self, size: int) -> int:
        """Return the least size of a partner, for which all its words are in a set of this size."""
        return -(-self.threshold * size // ONE)

    def _common(self, size: int, other_size: int) -> int:
        """Return the least number of common words of sets of two sizes: similarity ≥ t is common ≥ t / (1 + t) of their sum."""
        return -(-self.threshold * (size + other_size) // (ONE + self.threshold))


def rarest_first(sets: Iterable[Collection[str]]) -> list[str]:
    """Return the words of all sets by the number of sets that have them, then by the alphabet, so that the order is stable."""
    return _rarest_first(sets)[0]


def _rarest_first(sets: Iterable[Collection[str]]) -> tuple[list[str], int]:
    """Return the same order, and the number of words that are in one set only."""
    counts: Counter[str] = Counter()
    for members in sets:
        counts.update(members)
    return sorted(counts, key=lambda word: (counts[word], word)), sum(count == 1 for count in counts.values())


# --- distinct sets ---------------------------------------------------------------------------------------------------


class _Distinct(Generic[K]):
    """The distinct word sets of items, the smaller first. ``items`` has the places of the items of each set."""

    def __init__(self, items: Iterable[tuple[K, WordSet]]) -> None:
        by_set: dict[WordSet, list[int]] = {}
        self.keys: list[K] = []
        for key, own in items:
            if own:
                by_set.setdefault(own, []).append(len(self.keys))
            self.keys.append(key)
        self.sets = sorted(by_set, key=lambda own: (len(own), by_set[own][0]))
        self.items = [by_set[own] for own in self.sets]

    def index(self, threshold: int) -> NearIndex:
        """Return an index for these sets only, which must be added in their order."""
        order, alone = _rarest_first(self.sets)
        return NearIndex(threshold, order, alone=alone, growing=True)


# --- clusters --------------------------------------------------------------------------------------------------------


class Cluster(Struct, Generic[K], frozen=True):
    """Items that are all near each other, in the order given. ``similarity`` is that of the least similar two."""

    ids: tuple[K, ...]
    similarity: int


class Clusters(Struct, Generic[K], frozen=True):
    """All clusters of some items. ``cut_short`` counts the items whose neighbors were not all looked for (see PATIENCE)."""

    found: tuple[Cluster[K], ...]
    cut_short: int = 0


class _Growing:
    """A cluster under construction: the places of its items, their sets (each once), the least similarity of two of them."""

    __slots__ = ("items", "least", "sets")

    def __init__(self, item: int, own: WordSet) -> None:
        self.items, self.sets, self.least = [item], [own], ONE

    def would_be(self, own: WordSet, threshold: int) -> int | None:
        """Return the least similarity with one more set, or None if the set is not near all sets of the cluster."""
        least = self.least
        for member in reversed(self.sets):
            common = len(member & own)
            both = len(member) + len(own) - common
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
    """Return groups of two to ``most`` items that are all near each other (complete linkage). No item is in two groups.

    From the smallest set to the largest, an item joins the cluster of its nearest neighbor if it is near all members, or begins
    a cluster of its own. So a chain of small differences joins nothing. ``together`` may refuse two items of one cluster. The
    same items give the same clusters.
    """
    kept = _Distinct(items)
    index = kept.index(threshold)
    of_set: list[list[_Growing]] = []  # the clusters with an item of each set that have room left
    everything: list[_Growing] = []

    def takes(cluster: _Growing, item: int) -> bool:
        members = (kept.keys[place] for place in cluster.items)
        return together is None or all(together(member, kept.keys[item]) for member in members)

    for number, own in enumerate(kept.sets):
        of_set.append([])
        near = index.near(own, most=NEIGHBORS, patience=PATIENCE)
        index.add(own)
        for item in kept.items[number]:
            joined = _join(
                item, own, threshold, _open(of_set, [number, *(neighbor for neighbor, _ in near)], most), takes
            )
            if joined is None:
                everything.append(joined := _Growing(item, own))
            if joined not in of_set[number]:
                of_set[number].append(joined)
    grown = (cluster for cluster in everything if len(cluster.items) > 1)
    ordered = sorted((sorted(cluster.items), cluster.least) for cluster in grown)
    return Clusters(
        tuple(Cluster(tuple(kept.keys[item] for item in group), least) for group, least in ordered), index.cut_short
    )


def _open(of_set: list[list[_Growing]], numbers: Iterable[int], most: int) -> Iterator[_Growing]:
    """Yield the clusters of some sets that are not full, the nearest first. Full clusters are removed on the way."""
    tried: list[_Growing] = []
    for number in numbers:
        of_set[number] = [cluster_of_set for cluster_of_set in of_set[number] if len(cluster_of_set.items) < most]
        for cluster in of_set[number]:
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
