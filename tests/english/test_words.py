"""The words of a text as the rules read them, and as the index counts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.english.question import ASKED
from ledger.english.words import NEGATIONS, STOP_WORDS, indexed_words, split, stems, words


def test_words_are_runs_of_letters_and_digits_without_accents() -> None:
    assert words("Use snake_case, v3.11 & GF-PTFE!") == ["use", "snake", "case", "v3", "11", "gf", "ptfe"]
    assert words("日本語 и O\u0308l, Öl") == ["日本語", "и", "ol", "ol"]


@pytest.mark.parametrize("apostrophe", ["'", "\u2019", "\u02bc"])
def test_an_apostrophe_inside_a_word_is_dropped_for_the_rules(apostrophe: str) -> None:
    assert words(f"{apostrophe}Don{apostrophe}t{apostrophe} é") == ["dont", "e"]


@pytest.mark.parametrize("apostrophe", ["'", "\u2019"])
def test_the_index_and_questions_split_at_an_apostrophe(apostrophe: str) -> None:
    assert split(f"Don{apostrophe}t") == indexed_words(f"Don{apostrophe}t") == ["don", "t"]


def test_only_the_index_takes_the_characters_of_an_unspaced_script_apart() -> None:
    assert words("我喝茶x") == split("我喝茶x") == ["我喝茶", "x"]
    assert indexed_words("我喝茶x") == ["我", "喝", "茶", "x"]


@given(st.text())
def test_the_rules_read_the_words_of_a_question_where_there_is_no_apostrophe(text: str) -> None:
    plain = text.translate(dict.fromkeys(map(ord, "'\u2019\u02bc\u0149")))
    assert words(plain) == split(plain)


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_the_fast_path_for_ascii_gives_the_words_of_the_general_path(text: str) -> None:
    assert words(text + " ф") == [*words(text), "ф"]


def test_stems_leave_stop_words_out_and_keep_negations() -> None:
    assert stems("The user does NOT use tabs, and don't ask") == {"user", "not", "us", "tab", "dont", "ask"}
    assert stems("and the of") == stems("?!") == frozenset()


def test_stop_words_are_in_the_form_words_have() -> None:
    assert all(words(word) == split(word) == [word] for word in STOP_WORDS | NEGATIONS)
    assert not STOP_WORDS & NEGATIONS


def test_a_question_looks_for_some_stop_words_of_the_rules() -> None:
    assert ASKED < STOP_WORDS
