"""A memory covers words of a turn: the rest of the turn stays in the prompt, and no part of a clause does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger import Ledger
from ledger.recall.context import _stated_span


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        yield ledger


def lines(ledger: Ledger, question: str) -> list[str | None]:
    return [item.content for item in ledger.context(question, budget=300).items]


def test_the_words_beside_a_memory_are_shown(ledger: Ledger) -> None:
    text = "joined the library! my new boss is called Rita."
    assert ledger.add(text, session="s").learned
    assert lines(ledger, "where do I work?") == ["The user's new boss is Rita", text]


def test_a_turn_of_which_all_words_were_learned_is_not_repeated(ledger: Ledger) -> None:
    ledger.add("I'm allergic to peanuts. Ok then.", session="s")
    assert lines(ledger, "where do I work?") == ["The user is allergic to peanuts"]


def test_the_rest_leaves_the_prompt_with_a_memory_that_was_taken_back(ledger: Ledger) -> None:
    added = ledger.add("joined the library! my new boss is called Rita.", session="s")
    ledger.retract(added.learned[0].id)
    assert lines(ledger, "where do I work?") == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("translate 'Where is the sea?' into Greek", "translate 'Where is the sea?' into Greek"),
        ("what is this? I live in Rome", "I live in Rome"),
    ],
)
def test_no_fragment_of_less_than_a_clause_is_shown(text: str, shown: str) -> None:
    start, end = _stated_span(text)
    assert text[start:end] == shown
