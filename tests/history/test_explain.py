"""What a command did, why, and what it led to, in sentences that are made of the trail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import run

from ledger import Ledger, NotFoundError


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ada", actor="ada") as opened:
        yield opened


def test_a_capture_led_to_what_reacted_to_it(ledger: Ledger) -> None:
    ledger.remember("The user prefers dark roast coffee.", kind="preference")
    turn = ledger.capture("Coffee?", "You prefer dark roast coffee, so here it is.")
    captured = ledger.history.events(turn.id)[0].position
    found = ledger.history.explain(captured)
    assert (
        f"It recorded InteractionCaptured of {turn.id} “Coffee?”." in found.text and "ada called capture" in found.text
    )
    assert "It led to interactions.reinforce at position" in found.text
    (reinforced,) = [each.position for each in found.led_to if each.type == "MemoryReinforced"]
    back = ledger.history.explain(reinforced)
    assert back.cause is not None and back.cause.position == captured
    assert f"It reacted to InteractionCaptured at position {captured}, which ada recorded by capture." in back.text


def test_a_reason_a_text_and_an_undo_are_told(ledger: Ledger) -> None:
    old = ledger.remember("The user lives in Lisbon.")
    ledger.supersede(old.id, "The user lives in Porto.", reason="She moved in May")
    position = ledger.position
    ledger.bind(actor="ben").undo(position, reason="wrong Ada")
    found = ledger.history.explain(position)
    assert [each.type for each in found.events] == ["MemoryCaptured", "MemorySuperseded"]
    assert "“The user lives in Porto.”" in found.text and "The reason given is “She moved in May”." in found.text
    assert f"It is not in effect since position {position + 1}: ben called undo “wrong Ada”." in found.text
    assert found.voided_by[0].actor == "ben"


def test_explain_names_only_a_few_of_many_events(ledger: Ledger) -> None:
    with ledger.batch():
        turns = [ledger.capture(f"Question {number}?", "Yes.") for number in range(3)]
    ledger.undo(ledger.history.events(turns[0].id)[0].position, cascade=True)
    assert ledger.history.explain(ledger.position).text.startswith("ada called undo")


def test_an_event_of_nobody_or_of_another_user_is_not_there(ledger: Ledger) -> None:
    ledger.bind(user="ben").remember("The sea is salty.")
    for position in (1, 2, 99, 2**63 - 1):
        with pytest.raises(NotFoundError, match="no event of this user"):
            ledger.history.explain(position)


def test_the_shell_prints_explain_as_sentences_or_entries(tmp_path: Path) -> None:
    db = tmp_path / "memory.db"
    run("remember", "The sea is salty.", "--actor", "ann", db=db)
    shown = run("history", "explain", "2", db=db).stdout
    assert shown.startswith("ann called remember through cli on 2") and "What it recorded" in shown
