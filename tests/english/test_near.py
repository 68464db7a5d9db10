"""Near-duplicate search finds what comparing each with each would find, and clusters in which each is near each."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.english import near

WORDS = [f"w{n}" for n in range(12)]
SETS = st.lists(st.frozensets(st.sampled_from(WORDS), max_size=12), max_size=24)
THRESHOLDS = st.sampled_from([500_000, 700_000, 850_000, 999_999, near.ONE])


def brute(sets: list[frozenset[str]], threshold: int) -> set[tuple[int, int, int]]:
    return {
        (a, b, near.similarity(one, other))
        for (a, one), (b, other) in itertools.combinations(enumerate(sets), 2)
        if (one or other) and len(one & other) * near.ONE >= threshold * len(one | other)
    }


def pairs(sets: list[frozenset[str]], threshold: int) -> Iterator[tuple[int, int, int]]:
    """What the index of clusters finds, each set by its number; equal ones are near each other."""
    kept = near._Distinct(enumerate(sets))
    index = kept.index(threshold)
    for members, own in zip(kept.items, kept.sets, strict=True):
        yield from ((one, other, near.ONE) for one, other in itertools.combinations(members, 2))
        for number, how in index.near(own):
            yield from ((min(each), max(each), how) for each in itertools.product(members, kept.items[number]))
        index.add(own)


@given(SETS, THRESHOLDS, st.sampled_from([0, 2, near.FEW]))
def test_the_pairs_found_are_those_that_comparing_all_finds(
    sets: list[frozenset[str]], threshold: int, few: int
) -> None:
    with mock.patch.object(near, "FEW", few):
        found = list(pairs(sets, threshold))
    assert set(found) == brute(sets, threshold)
    assert len(found) == len(set(found))


@given(SETS, SETS, THRESHOLDS, st.sampled_from([0, 2, near.FEW]))
def test_new_texts_are_looked_up_among_many_whatever_words_they_have(
    known: list[frozenset[str]], new: list[frozenset[str]], threshold: int, few: int
) -> None:
    index = near.NearIndex(threshold, near.rarest_first(known[::2]))
    with mock.patch.object(near, "FEW", few):
        for each in known:
            index.add(each)
    for own in new:
        expected = {
            (number, near.similarity(own, each))
            for number, each in enumerate(known)
            if own and len(own & each) * near.ONE >= threshold * len(own | each)
        }
        assert set(index.near(own)) == expected


@given(SETS, THRESHOLDS, st.integers(2, 5))
def test_each_member_of_a_cluster_is_near_each_and_in_no_other(
    sets: list[frozenset[str]], threshold: int, most: int
) -> None:
    found = near.clusters(list(enumerate(sets)), threshold, most=most).found
    members = [each for cluster in found for each in cluster.ids]
    assert len(members) == len(set(members))
    for cluster in found:
        how = [near.similarity(sets[a], sets[b]) for a, b in itertools.combinations(cluster.ids, 2)]
        assert 2 <= len(cluster.ids) <= most
        assert cluster.similarity == min(how)
        assert cluster.similarity >= threshold - 1  # rounded down
        assert list(cluster.ids) == sorted(cluster.ids)


@given(SETS, THRESHOLDS)
def test_of_two_that_are_near_at_least_one_is_in_a_cluster(sets: list[frozenset[str]], threshold: int) -> None:
    clustered = {each for cluster in near.clusters(list(enumerate(sets)), threshold).found for each in cluster.ids}
    assert all(a in clustered or b in clustered for a, b, _ in brute(sets, threshold))


@given(SETS, st.sets(st.tuples(st.integers(0, 23), st.integers(0, 23))))
def test_two_that_may_not_stand_together_never_do(sets: list[frozenset[str]], apart: set[tuple[int, int]]) -> None:
    def together(one: int, other: int) -> bool:
        return (one, other) not in apart and (other, one) not in apart

    for cluster in near.clusters(list(enumerate(sets)), 500_000, together=together).found:
        assert all(together(a, b) for a, b in itertools.combinations(cluster.ids, 2))


def test_a_chain_of_small_differences_is_not_one_cluster() -> None:
    words = [f"w{n}" for n in range(40)]
    chain = [(n, frozenset(words[n : n + 20])) for n in range(6)]  # neighbours share 19 of 21, the ends 15 of 25
    found = near.clusters(chain).found
    assert found and all(cluster.similarity >= near.THRESHOLD for cluster in found)
    assert max(len(cluster.ids) for cluster in found) == 2


def test_texts_without_words_are_near_nothing() -> None:
    items = [(text, near.word_set(text)) for text in ("!!!", "???", "!!!")]
    assert near.clusters(items).found == ()


def test_case_punctuation_and_order_of_words_make_no_difference() -> None:
    assert near.similarity(near.word_set("Ana's tea, GREEN!"), near.word_set("green: anas Tea")) == near.ONE


def test_texts_that_deny_or_count_differently_are_opposed() -> None:
    def opposed(one: str, other: str) -> bool:
        found = near.opposed(near.word_set(one), near.word_set(other))
        assert found == near.opposed(near.word_set(other), near.word_set(one))
        return found

    assert opposed("Ana likes tea", "Ana doesn't like tea")
    assert opposed("The door code is 1234", "The door code is 4321")
    assert not opposed("Ana was born in May", "Ana was born in May 1990")
    assert not opposed("Ana likes tea", "Ana likes coffee")


def notes(shape: str, count: int) -> list[tuple[int, frozenset[str]]]:
    """Notes of a shape that is hard for one of the filters."""
    pick = random.Random(7)
    if shape == "prose":  # words as often as in real text
        words = [f"w{n}" for n in range(20_000)]
        weights = list(itertools.accumulate(1 / (n + 5) for n in range(20_000)))
        return [(n, frozenset(pick.choices(words, cum_weights=weights, k=14))) for n in range(count)]
    if shape == "one template":  # all alike, each with a number of its own
        return [(n, frozenset({*(f"t{k}" for k in range(20)), str(n)})) for n in range(count)]
    if shape == "nearly alike":  # one core, and too many words of their own to be near
        return [(n, frozenset({*(f"t{k}" for k in range(20)), f"a{n}", f"b{n}", f"c{n}"})) for n in range(count)]
    if shape == "few words":  # no word is rare
        return [(n, frozenset(pick.sample([f"t{k}" for k in range(30)], 20))) for n in range(count)]
    return [(n, frozenset({f"t{k}" for k in range(12)} - {f"t{n % 3}"})) for n in range(count)]  # copies


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["prose", "one template", "nearly alike", "few words", "copies"])
def test_ten_times_the_notes_take_at_most_fourteen_times_the_comparisons(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = [0]
    compare, would_be = near.NearIndex._compare, near._Growing.would_be

    def one_more(self: near.NearIndex, one: near.WordSet, other: near.WordSet) -> int | None:
        counted[0] += 1
        return compare(self, one, other)

    def some_more(self: near._Growing, own: near.WordSet, threshold: int) -> int | None:
        counted[0] += len(self.sets)
        return would_be(self, own, threshold)

    monkeypatch.setattr(near.NearIndex, "_compare", one_more)
    monkeypatch.setattr(near._Growing, "would_be", some_more)

    def comparisons(count: int) -> int:
        counted[0] = 0
        near.clusters(notes(shape, count))
        return counted[0]

    assert comparisons(6_000) <= 14 * comparisons(600) + 6_000
