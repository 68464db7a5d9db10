"""What happened in the past counts from then: validity, idle time, references, and restatements."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ledger import Ledger

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
