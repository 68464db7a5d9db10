"""What the gate before a model passes over is lost to nobody: a caller may have it looked at all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from turns import NOTHING, Scripted, adds

from ledger import Ledger

VEGAN = "The user is a vegan who never eats honey."


@pytest.fixture
def opened(tmp_path: Path):
    with Ledger.open(tmp_path / "m.db", user="ana") as found:
        yield found


def test_a_session_is_looked_at_without_the_gate_where_somebody_asks(opened: Ledger) -> None:
    chat = opened.session("s1")
    chat.append("user", "Vegan.")
    model = Scripted(adds(VEGAN))
    report = chat.extract(model=model, gate=False)
    assert (model.calls, report.skipped, [each.content for each in report.kept]) == (1, 0, [VEGAN])


def test_what_the_gate_passed_over_in_a_session_can_be_gone_back_to(opened: Ledger) -> None:
    chat = opened.session("s1")
    chat.append("user", "Vegan.")
    assert chat.extract(model=Scripted(adds(VEGAN))).skipped == 1
    report = chat.extract(model=Scripted(adds(VEGAN)), since=0, gate=False)
    assert [each.content for each in report.kept] == [VEGAN]


def test_a_dry_run_of_a_session_passes_the_gate_too(opened: Ledger) -> None:
    chat = opened.session("s1")
    chat.append("user", "Vegan.")
    model = Scripted(adds(VEGAN))
    assert chat.extract(model=model, dry_run=True).dropped == () and model.calls == 0
    assert [each["content"] for each in chat.extract(model=model, dry_run=True, gate=False).dropped] == [VEGAN]


def test_a_turn_is_looked_at_without_the_gate_where_somebody_asks(opened: Ledger) -> None:
    turn, model = opened.capture("Vegan.", "Noted."), Scripted(adds(VEGAN))
    assert opened.extract(turn.id, model=model, dry_run=True).dropped == ()
    assert [each["content"] for each in opened.extract(turn.id, model=model, dry_run=True, gate=False).dropped] == [
        VEGAN
    ]
    report = opened.extract(turn.id, model=model, gate=False)
    assert ([each.content for each in report.kept], report.extractor, report.skipped) == ([VEGAN], "extract/3", 0)


def test_a_turn_that_the_gate_passed_over_is_looked_at_once_where_somebody_asks(opened: Ledger) -> None:
    turn, model = opened.capture("Vegan.", "Noted."), Scripted(adds(VEGAN))
    assert opened.extract(turn.id, model=model).extractor == "salience/3"
    assert opened.extract(turn.id, model=model).kept == () and model.calls == 0, "what was decided stays so"
    kept = opened.extract(turn.id, model=model, gate=False).kept
    assert [each.content for each in kept] == [VEGAN]
    assert opened.extract(turn.id, model=model, gate=False).kept == kept and model.calls == 1, "and then it is done"


def test_a_message_of_a_turn_that_the_gate_passed_over_is_looked_at_in_its_session(opened: Ledger) -> None:
    chat = opened.session("s1")
    turn = opened.capture("Vegan.", "Noted.", session="s1", append=True)
    assert [each.interaction for each in chat.messages()] == [turn.id, turn.id]
    model = Scripted(adds(VEGAN))
    opened.extract(turn.id, model=model)
    report = chat.extract(model=model, gate=False)
    assert [each.content for each in report.kept] == [VEGAN]
    assert opened.interactions.get(turn.id).extraction == "done"


def test_undoing_the_second_look_leaves_the_turn_as_the_gate_did(opened: Ledger) -> None:
    turn = opened.capture("Vegan.", "Noted.")
    opened.extract(turn.id, model=Scripted(NOTHING))
    kept = opened.extract(turn.id, model=Scripted(adds(VEGAN)), gate=False).kept
    opened.undo(opened.history.audit(subject=kept[0].id)[0].position, cascade=True)
    assert list(opened.review()) == [] and opened.interactions.get(turn.id).extraction == "done"
    assert opened.proof.verify().ok
