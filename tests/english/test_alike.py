"""Statements that say nearly the same, and words that are nearly another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.english.alike import (
    are_of_one_form,
    are_of_other_keys,
    content_stems,
    replaced_places,
    share_stems,
    stems_in_order,
)
from ledger.english.words import MOST, is_nearly, nearest


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


def test_the_mark_of_a_possessive_is_no_word_in_common() -> None:
    assert content_stems("Gus's locker is 14.") == {"gu", "locker", "14"}
    assert not share_stems(content_stems("Gus's locker is 14."), content_stems("Gus's birthday is in May."))


def test_statements_of_one_form_that_differ_in_two_places_have_keys_of_their_own() -> None:
    gus, hana = stems_in_order("Gus's locker is 14."), stems_in_order("Hana's locker is 15.")
    assert are_of_one_form(gus, hana)
    assert not are_of_one_form(gus, stems_in_order("Gus's locker is 15."))  # the value alone: an update
    assert not are_of_one_form(gus, stems_in_order("Ana plays the violin."))


@pytest.mark.parametrize(
    ("older", "newer", "have_keys"),
    [
        ("I gave Gus locker 14.", "I gave Hana locker 14.", True),
        ("I gave Gus locker number 14 today.", "I gave Hana locker number 14 today.", True),
        ("I gave Gus locker 14.", "I gave Gus locker 15.", False),
        ("On floor 3 I met Gus.", "On floor 3 I met Hana.", False),
        ("I pay 4 euros for bus 12.", "I pay 5 euros for bus 12.", False),
        ("My dentist is Dr Behrens now.", "My dentist is Dr Achterberg now.", False),
        ("I gave Gus locker 14.", "I gave Gus locker 14.", False),
    ],
)
def test_one_place_before_a_common_figure_is_a_key(older: str, newer: str, have_keys: bool) -> None:
    assert are_of_one_form(stems_in_order(older), stems_in_order(newer)) is have_keys


@pytest.mark.parametrize(
    ("older", "newer", "places"),
    [
        ("Gus's locker is 14.", "Hana's locker is 15.", [("gu", "hana"), ("14", "15")]),
        (
            "The code of the kitchen is 4.",
            "The code of the guest bathroom is 9.",
            [("kitchen", "guest bathroom"), ("4", "9")],
        ),
        ("The tea is the amber basalt one.", "The tea is the basalt larch one.", [("amber basalt", "basalt larch")]),
        ("The key hangs behind the door.", "The key hangs in the hall.", [("behind", "in"), ("door", "hall")]),
        ("The site is on Heroku.", "The site moved from Heroku to Fly.io.", []),  # a part has no counterpart
        ("Ana plays the violin.", "Rent is 40 euros.", []),  # too few words in common
        ("The same.", "The same.", []),
    ],
)
def test_statements_of_one_form_differ_in_places(older: str, newer: str, places: list[tuple[str, str]]) -> None:
    found = replaced_places(stems_in_order(older), stems_in_order(newer))
    assert [(" ".join(was), " ".join(now)) for was, now in found] == places


@pytest.mark.parametrize(
    ("question", "of_other_keys"),
    [("which locker gus", True), ("gus locker", True), ("which locker", False), ("", False)],
)
def test_a_question_tells_the_key_of_a_statement(question: str, of_other_keys: bool) -> None:
    asked = [frozenset([stem]) for stem in stems_in_order(question)]
    statements = stems_in_order("Gus's locker is 14."), stems_in_order("Hana's locker is 15.")
    assert are_of_other_keys(asked, *statements) is of_other_keys


@given(st.lists(st.sampled_from("abc"), max_size=9), st.lists(st.sampled_from("abc"), max_size=9))
def test_the_places_of_two_statements_hold_all_words_that_differ(older: list[str], newer: list[str]) -> None:
    places = replaced_places(older, newer)
    assert all(was and now and was != now for was, now in places)
    if places:
        assert len(older) - sum(len(was) for was, _ in places) == len(newer) - sum(len(now) for _, now in places)
    assert replaced_places(older, older) == []


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
