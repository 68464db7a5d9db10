"""Statements that say nearly the same, and words that are nearly another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.english.alike import content_stems, share_stems
from ledger.english.spelling import MOST, is_nearly, nearest


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("The gym costs 40 euros a month.", "The gym costs 45 euros a month.", True),
        ("Der Nutzer wohnt in der Lindenstraße.", "Der Nutzer wohnt in der Kastanienallee.", True),
        ("Ana plays the violin.", "The deadline is Friday.", False),
        ("It is so.", "It was so.", False),  # nothing but stop words
        ("Ana lives in Rome. " + "x" * 200, "Ana lives in Rome. " + "x" * 200, False),
    ],
)
def test_two_short_statements_are_alike_that_share_half_of_the_stems(one: str, other: str, alike: bool) -> None:
    assert share_stems(content_stems(one), content_stems(other)) is alike
    assert share_stems(content_stems(other), content_stems(one)) is alike


@pytest.mark.parametrize(
    ("word", "stored", "nearly"),
    [
        ("kuber", "kubernetes", True),
        ("kuberentes", "kubernetes", True),
        ("dentits", "dentist", True),
        ("sigaretta", "sigarette", True),
        ("musicians", "music", True),
        ("ever", "everyone", False),  # too short to begin a word
        ("train", "brain", False),  # another beginning
        ("wonderful", "wonderland", False),
    ],
)
def test_a_word_is_nearly_another_that_begins_alike_or_is_one_edit_away(word: str, stored: str, nearly: bool) -> None:
    assert is_nearly(word, stored) is is_nearly(stored, word) is nearly


@given(st.text("abc", min_size=5, max_size=8), st.sets(st.text("abc", max_size=9), max_size=30))
def test_the_nearest_words_are_the_same_whatever_the_order_and_few(word: str, stored: set[str]) -> None:
    found = nearest(word, sorted(stored))
    assert found == nearest(word, sorted(stored, reverse=True))
    assert len(found) <= MOST and word not in found and all(is_nearly(word, each) for each in found)
