"""A question finds the words of its family: "allergies" finds "allergic"."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from ledger import Ledger
from ledger.english.words import are_kin, kin_of, root, stem
from tools.evaluate.evaluate_stems import main

PAIRS = ROOT / "tests/corpus/word_families.jsonl"

KIWI, PREGNANT, MARRIED = "Lea is allergic to kiwi.", "Tara is pregnant.", "Ana and Ben got married in May."
OTHERS = ("The university is closed.", "Ben met a policeman.", "The keys hang behind the door.")


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ana") as ledger:
        for text in (KIWI, PREGNANT, MARRIED, *OTHERS):
            ledger.remember(text)
        yield ledger


def contents(ledger: Ledger, question: str) -> list[str | None]:
    return [item.content for item in ledger.recall(question).items]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("allergies", KIWI),
        ("allergy", KIWI),
        ("who has an allergy?", KIWI),
        ("pregnancy", PREGNANT),
        ("Is there a pregnancy in the family?", PREGNANT),
        ("marriage", MARRIED),
        ("When was the marriage?", MARRIED),
    ],
)
def test_a_question_finds_what_is_said_with_a_word_of_the_same_family(book: Ledger, question: str, text: str) -> None:
    assert contents(book, question) == [text] == contents(book.at(book.position), question)
    assert text in [item.content for item in book.context(question).items]


def test_it_works_the_other_way_round_and_in_turns(book: Ledger) -> None:
    book.remember("The allergy of Omar is new.")
    book.capture("My pregnancies were easy.", session="s")
    assert contents(book, "allergic Omar")[0] == "The allergy of Omar is new."
    found = book.recall("Was she ever pregnant with an easy birth?", among=["turns"]).items
    assert [item.content for item in found] == ["My pregnancies were easy."]


def test_a_word_of_the_family_counts_less_than_the_word_itself(book: Ledger) -> None:
    book.remember("Omar asked about allergies.")
    matches = {item.content: item.match for item in book.recall("allergies").items}
    assert list(matches.values()) == [1.0, 0.5] and list(matches) == ["Omar asked about allergies.", KIWI]


def test_where_enough_texts_have_the_words_no_family_is_asked_for(book: Ledger) -> None:
    for number in range(3):
        book.remember(f"Allergy number {number} is on the list.")
    assert KIWI in contents(book, "allergies")
    assert KIWI not in [item.content for item in book.recall("allergies", limit=3).items]


def test_a_question_of_words_that_only_begin_alike_finds_nothing(book: Ledger) -> None:
    for question in ("policies", "marrow", "doorman", "allegory"):
        assert contents(book, question) == []


def test_the_words_of_another_user_bring_nothing(book: Ledger) -> None:
    assert contents(book.bind(user="bob"), "allergies") == []


def test_two_stems_are_of_one_family_if_the_same_root_is_left() -> None:
    for left, right in (
        ("allergic", "allergies"),
        ("asthmatic", "asthma"),
        ("decided", "decision"),
        ("owner", "ownership"),
        ("writer", "write"),
    ):
        assert are_kin(left, right) and are_kin(right, left)
    for left, right in (("career", "carer"), ("planet", "planning"), ("internship", "internet"), ("2024", "2025")):
        assert not are_kin(left, right)


@given(st.text("abcdefilmnoprstuy", min_size=1, max_size=12))
def test_a_root_keeps_at_least_the_four_letters_by_which_the_index_is_asked(word: str) -> None:
    assert root(stem(word))[:4] == stem(word)[:4]


@given(
    st.lists(
        st.sampled_from(["allerg", "allergi", "allergist", "univers", "increas", "increasingli", "marri", "marriag"])
    )
)
def test_the_words_of_a_family_lead_to_its_stems(stored: list[str]) -> None:
    for word in ("allergy", "increase", "marriage"):
        found = kin_of(word, stored)
        assert {stem(form) for form in found} == {kin for kin in stored if kin != stem(word) and are_kin(kin, word)}


def test_the_pairs_that_were_written_without_the_rule_are_mostly_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    taken = Counter((pair["same"], are_kin(pair["a"], pair["b"])) for pair in pairs)
    assert taken[True, True] >= 20 and taken[False, True] <= 7
    assert main(["--families", str(PAIRS), "--list"]) == 0
    printed = capsys.readouterr().out
    assert f"found {taken[True, True]} of 30" in printed and f"wrong {taken[False, True]} of 30" in printed
    assert "  missed: born, birth" in printed and "  wrong: police, policy" in printed
