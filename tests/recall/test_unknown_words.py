"""Words that are not stored bring stored words that are nearly equal, and a word that says little is not found by its stem."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger import Ledger

TEXTS = ("The team deploys with Kubernetes.", "The dentist is Dr. Okafor.", "L'utente fuma dieci sigarette.")


def contents(ledger: Ledger, question: str) -> list[str | None]:
    return [item.content for item in ledger.recall(question).items]


@pytest.fixture
def book(tmp_path: Path):
    with Ledger.open(tmp_path / "memory.db", user="ana") as ledger:
        for text in TEXTS:
            ledger.remember(text)
        yield ledger


@pytest.mark.parametrize(
    ("question", "text"),
    [("kuber", TEXTS[0]), ("Kuberentes", TEXTS[0]), ("dentits", TEXTS[1]), ("sigaretta", TEXTS[2])],
)
def test_an_unknown_word_finds_what_is_nearly_called_so(book: Ledger, question: str, text: str) -> None:
    assert contents(book, question) == [text] == contents(book.at(book.position), question)


def test_a_word_that_is_stored_brings_no_others(book: Ledger) -> None:
    book.remember("A kuber is a thing of its own.")
    assert contents(book, "kuber") == ["A kuber is a thing of its own."]
    assert contents(book, "zebra") == []


def test_the_words_of_another_user_bring_nothing_and_take_nothing(book: Ledger) -> None:
    other = book.bind(user="bob")
    assert contents(other, "kuber") == []
    other.remember("A kuber is a thing of its own.")
    other.remember("Kubernotes are another.")
    assert contents(book, "kuber") == [TEXTS[0]]


@pytest.mark.parametrize(
    ("question", "finds", "not_found"),
    [
        ("one", "That is the red one.", "The keys are on the shelf."),
        ("What do I use?", "Ana uses Vim.", "Gus told us a joke."),
        ("Who ate?", "Leo ate a pear.", "Mina is at school."),
    ],
)
def test_a_word_that_says_little_is_not_found_by_its_stem(
    tmp_path: Path, question: str, finds: str, not_found: str
) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        for text in (finds, not_found):
            ledger.remember(text)
        assert contents(ledger, question) == [finds]
