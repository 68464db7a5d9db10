"""What happened in the past counts from then: validity, idle time, references, and restatements."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from ledger import Ledger, RejectedError

THEN, LATER = "2020-01-10T10:00:00+02:00", "2021-01-10T10:00:00-05:00"
THEN_UTC, LATER_UTC = "2020-01-10T08:00:00.000000Z", "2021-01-10T15:00:00.000000Z"
PORTO = "Ada lives in Porto."
COFFEE = "The user prefers dark roast coffee."


@pytest.mark.parametrize("verb", ["remember", "propose"])
def test_a_statement_of_the_past_holds_and_idles_from_then_in_utc(ledger: Ledger, verb: str) -> None:
    memory = getattr(ledger, verb)(PORTO, occurred_at=THEN)
    assert (memory.valid_from, memory.active_at) == (THEN_UTC, THEN_UTC)
    assert memory.recorded_at > THEN_UTC


def test_a_supersession_of_the_past_ends_the_old_memory_in_utc(ledger: Ledger) -> None:
    porto = ledger.remember(PORTO, occurred_at=THEN)
    rome = ledger.supersede(porto.id, "Ada lives in Rome.", occurred_at=LATER)
    assert (rome.valid_from, rome.active_at) == (LATER_UTC, LATER_UTC)
    assert ledger.memories.get(porto.id).valid_to == LATER_UTC


def test_a_restatement_of_the_past_counts_from_then(ledger: Ledger) -> None:
    first = ledger.remember(PORTO, occurred_at=THEN)
    again = ledger.bind(actor="bob").remember(PORTO, occurred_at=LATER)
    assert (again.id, again.stated_at) == (first.id, LATER_UTC)
    ledger.bind(actor="eve").remember(PORTO, occurred_at=THEN)
    assert ledger.memories.get(first.id).stated_at == LATER_UTC
    ledger.bind(actor="joe").remember(PORTO)
    assert (ledger.memories.get(first.id).stated_at or "") > LATER_UTC


def test_the_newer_of_two_statements_is_the_one_that_was_made_last_in_the_world(ledger: Ledger) -> None:
    new = ledger.remember("The user drinks black tea every single morning.", occurred_at=LATER)
    old = ledger.remember("The user drinks green tea every single morning.", occurred_at=THEN)
    ledger.bind(actor="bob").remember(old.content or "", occurred_at="2020-06-01")
    assert ledger.recall("What does the user drink every single morning?").memory_ids == (new.id, old.id)


def test_a_memory_of_the_past_decays_from_then_if_a_policy_says_so(ledger: Ledger) -> None:
    ledger.policy.set(decay="all")
    memory = ledger.remember(PORTO, occurred_at="2026-01-01")
    assert memory.effective_confidence(datetime(2026, 1, 31, tzinfo=UTC)) == 1.0
    assert memory.effective_confidence(datetime(2026, 2, 2, tzinfo=UTC)) == pytest.approx(0.97**2)


def test_a_response_of_the_past_references_a_memory_then(ledger: Ledger) -> None:
    memory = ledger.remember(COFFEE, kind="preference", occurred_at=THEN)
    ledger.capture("Coffee?", COFFEE, occurred_at=LATER)
    assert ledger.memories.get(memory.id).last_referenced_at == LATER_UTC
    ledger.capture("Coffee again?", COFFEE, occurred_at="2020-02-02")
    now = ledger.memories.get(memory.id)
    assert (now.reference_count, now.last_referenced_at) == (2, LATER_UTC)
    ledger.maintenance.rebuild()
    assert ledger.memories.get(memory.id).last_referenced_at == LATER_UTC


def test_a_decision_of_the_past_ends_the_idle_time_then(ledger: Ledger) -> None:
    idea = ledger.propose(PORTO, occurred_at=THEN)
    assert ledger.promote(idea.id, occurred_at=LATER).active_at == LATER_UTC
    assert ledger.revise(idea.id, "Ada lives in old Porto.", occurred_at="2020-02-02").active_at == LATER_UTC


def test_idle_days_of_a_future_statement_start_at_its_recording(ledger: Ledger) -> None:
    memory = ledger.remember(PORTO, occurred_at="2999-01-01")
    assert memory.valid_from == memory.active_at == memory.recorded_at


# --- found in texts of the past ------------------------------------------------------------------------------

SAID, SAID_UTC = "2024-03-01T09:30:00+01:00", "2024-03-01T08:30:00.000000Z"
TEA = "I prefer green tea over coffee."


def _stating(request: object) -> str:
    """Return a model's answer that states one fact of the first line."""
    fact = {"content": "The user prefers green tea.", "kind": "preference", "said_by": "user", "messages": [1]}
    return json.dumps({"add": [fact], "supersede": [], "retract": [], "relations": []})


@pytest.mark.parametrize("model", [None, _stating])
def test_a_memory_found_in_an_old_message_holds_and_idles_from_then(ledger: Ledger, model: object) -> None:
    session = ledger.session("old")
    session.append("user", TEA, occurred_at=SAID)
    session.append("assistant", "Noted.", occurred_at=SAID)
    (found,) = session.extract(model=model).kept  # type: ignore[arg-type]
    assert (found.valid_from, found.active_at) == (SAID_UTC, SAID_UTC)
    assert found.recorded_at > SAID_UTC
    before = ledger.memories.get(found.id)
    ledger.maintenance.rebuild()
    assert ledger.memories.get(found.id) == before
    ledger.undo(found.position)
    ledger.redo(found.position)
    assert ledger.memories.get(found.id).active_at == SAID_UTC


@pytest.mark.parametrize("model", [None, _stating])
def test_a_memory_found_in_an_old_turn_holds_and_idles_from_then(ledger: Ledger, model: object) -> None:
    turn = ledger.capture(TEA, "Noted.", occurred_at=SAID)
    (found,) = ledger.extract(turn.id, model=model).kept  # type: ignore[arg-type]
    assert (found.valid_from, found.active_at) == (SAID_UTC, SAID_UTC)


def test_a_memory_that_an_old_message_states_again_was_stated_then(ledger: Ledger) -> None:
    for day in ("2024-03-01", "2024-05-01", "2024-04-01"):
        ledger.session(day).append("user", TEA, occurred_at=day)
        ledger.session(day).extract()
    (memory,) = ledger.memories.list()
    assert (memory.active_at[:10], (memory.stated_at or "")[:10]) == ("2024-03-01", "2024-05-01")


def test_a_memory_found_in_a_message_of_the_future_idles_from_its_record(ledger: Ledger) -> None:
    ledger.session("s").append("user", TEA, occurred_at="2999-01-01")
    (found,) = ledger.session("s").extract().kept
    assert found.valid_from == found.active_at == found.recorded_at


# --- ends of the past ----------------------------------------------------------------------------------------


def test_a_memory_that_ended_without_a_successor_held_until_then(ledger: Ledger) -> None:
    porto = ledger.remember(PORTO, occurred_at=THEN)
    over = ledger.memories.end(porto.id, occurred_at=LATER, reason="moved away")
    assert (over.status, over.superseded_by, over.valid_from, over.valid_to) == (
        "superseded",
        None,
        THEN_UTC,
        LATER_UTC,
    )
    assert ledger.recall("Where does Ada live?").memory_ids == ()
    assert ledger.at(ledger.position, valid_at="2020-06-01").recall("Where does Ada live?").memory_ids == (porto.id,)
    again = ledger.remember(PORTO, occurred_at="2024-01-01")
    assert again.id != porto.id and ledger.recall("Where does Ada live?").memory_ids == (again.id,)


def test_an_end_is_undone_restored_and_kept_by_a_rebuild(ledger: Ledger) -> None:
    porto = ledger.remember(PORTO, occurred_at=THEN)
    over = ledger.memories.end(porto.id)
    assert over.valid_to is not None and over.valid_to >= porto.recorded_at
    ledger.maintenance.rebuild()
    assert ledger.memories.get(porto.id) == over
    ledger.undo(over.position)
    assert ledger.memories.get(porto.id).status == "active"
    ledger.redo(over.position)
    assert ledger.restore(porto.id).valid_to is None
    with pytest.raises(RejectedError, match="is invalid"):
        ledger.memories.end(ledger.invalidate(porto.id).id)


def test_an_existing_memory_takes_the_place_of_another_from_then(ledger: Ledger) -> None:
    acme = ledger.remember("Ada works at Acme.", occurred_at=THEN)
    globex = ledger.remember("Ada works at Globex.", occurred_at="2020-06-01")
    successor = ledger.supersede(acme.id, "Ada works at Globex.", occurred_at=LATER)
    old = ledger.memories.get(acme.id)
    assert (successor.id, old.status, old.superseded_by, old.valid_to) == (
        globex.id,
        "superseded",
        globex.id,
        LATER_UTC,
    )
    assert (successor.valid_from[:10], successor.stated_at) == ("2020-06-01", LATER_UTC)


# --- references of an import ---------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["remember", "propose"])
def test_an_import_brings_the_references_of_a_memory_in_one_event(ledger: Ledger, verb: str) -> None:
    before = ledger.position
    options = {"reference_count": 40, "last_referenced_at": LATER, "confidence": 0.7, "occurred_at": THEN}
    memory = getattr(ledger, verb)(PORTO, **options)
    assert ledger.position == before + 1
    assert (memory.reference_count, memory.last_referenced_at, memory.confidence) == (40, LATER_UTC, 0.7)
    ledger.maintenance.rebuild()
    assert ledger.memories.get(memory.id) == memory
    ledger.undo(memory.position)
    ledger.redo(memory.position)
    assert ledger.memories.get(memory.id).reference_count == 40


def test_a_reference_after_an_import_counts_on(ledger: Ledger) -> None:
    memory = ledger.remember(PORTO, reference_count=40, last_referenced_at=LATER, confidence=0.7)
    again = ledger.reinforce(memory.id)
    assert (again.reference_count, again.confidence) == (41, 0.72)
    assert (again.last_referenced_at or "") > LATER_UTC


def test_an_imported_reference_keeps_a_memory_from_decay_as_any_other(ledger: Ledger) -> None:
    ledger.policy.set(decay="all")
    memory = ledger.remember(PORTO, occurred_at="2020-01-01", reference_count=1)
    assert (memory.last_referenced_at, memory.effective_confidence("2026-02-02")) == (None, 1.0)


def test_a_memory_that_is_there_keeps_its_own_references(ledger: Ledger) -> None:
    memory = ledger.remember(PORTO, reference_count=2)
    again = ledger.bind(actor="importer").remember(PORTO, reference_count=40)
    assert (again.id, again.absorbed, again.reference_count) == (memory.id, True, 2)


def test_a_last_reference_in_the_future_is_of_now(ledger: Ledger) -> None:
    memory = ledger.remember(PORTO, reference_count=1, last_referenced_at="2999-01-01")
    assert memory.last_referenced_at == memory.recorded_at


@pytest.mark.parametrize("options", [{"reference_count": -1}, {"reference_count": True}, {"last_referenced_at": THEN}])
def test_references_that_cannot_be_are_refused(ledger: Ledger, options: dict[str, Any]) -> None:
    with pytest.raises(RejectedError, match="reference"):
        ledger.remember(PORTO, **options)
    with pytest.raises(RejectedError, match="reference_count is a whole number from 0 to 1,000,000,000"):
        ledger.propose(PORTO, reference_count=10**9 + 1)
