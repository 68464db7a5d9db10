"""A user's wish that something is forgotten, without a model: it leaves the prompt, and a person decides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger import Ledger

ASKED = "what am I allergic to, walnuts?"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        yield ledger


def told(ledger: Ledger, *texts: str, session: str = "s") -> str:
    """Add a chat of the user's texts with answers, and return the id of the last memory."""
    added = None
    for text in texts:
        chat = [{"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}]
        added = ledger.add(chat, session=session)
    assert added is not None
    return added.learned[-1].id


def shown(ledger: Ledger) -> str:
    return " ".join(item.content or "" for item in ledger.context(ASKED, budget=400).items)


def test_a_wish_is_named_and_what_it_speaks_of_leaves_the_prompt(ledger: Ledger) -> None:
    memory = told(ledger, "I live in Oslo.", "im allergic to walnuts")
    added = ledger.add("Forget that.", session="s")
    (reason,) = (reason for reason in added.reasons if "forgotten" in reason)
    assert "retract(id)" in reason and "erase(id)" in reason
    assert [each.id for each in added.contradicted] == [memory]
    assert "walnuts" not in shown(ledger) and "Forget" not in shown(ledger) and "Oslo" in shown(ledger)
    assert [(each.id, each.wish) for each in ledger.review()] == [(memory, True)]


def test_a_person_decides_about_a_wish(ledger: Ledger) -> None:
    memory = told(ledger, "im allergic to walnuts")
    ledger.add("Forget that.", session="s")
    ledger.guards.release(memory)
    assert "walnuts" in shown(ledger) and not ledger.review()
    ledger.retract(memory)
    assert not ledger.review()


def test_an_undo_of_the_call_takes_the_wish_back(ledger: Ledger) -> None:
    told(ledger, "im allergic to walnuts")
    added = ledger.add("Forget that.", session="s")
    assert added.correlation_id is not None
    ledger.history.undo_all(correlation_id=added.correlation_id)
    assert "walnuts" in shown(ledger) and not ledger.review()


@pytest.mark.parametrize(
    "text",
    [
        "never forget that",
        "don't forget that",
        "how do I delete this file?",
        "remove that line",
        "forget it",
        "> Forget that.",
    ],
)
def test_what_is_no_wish_takes_nothing_out(ledger: Ledger, text: str) -> None:
    told(ledger, "im allergic to walnuts")
    added = ledger.add(text, session="s")
    assert not any("forgotten" in reason for reason in added.reasons) and "walnuts" in shown(ledger)


def test_a_wish_speaks_of_no_other_session_and_no_other_user(ledger: Ledger) -> None:
    told(ledger, "im allergic to walnuts")
    ledger.add("Forget that.", session="other")
    ledger.bind(user="ben").add("Forget that.", session="s")
    assert "walnuts" in shown(ledger)
