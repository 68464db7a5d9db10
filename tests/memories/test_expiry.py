"""Fading and expiry: exact numbers at exact boundaries, and a sweep that supersedes once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import pytest
from conftest import Clock

from ledger import Ledger
from ledger.memories import expiry


@pytest.fixture
def ledger(ledger: Ledger) -> Ledger:
    """A ledger whose policy lets every kind of memory decay and expire."""
    ledger.policy.set(decay="all", expire=True)
    return ledger


def at_day(number: int, second: int = 0) -> str:
    return (datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=number, seconds=second)).isoformat()


@pytest.mark.parametrize(
    ("day", "second", "confidence"),
    [
        (0, 0, 1.0), (-400, 0, 1.0), (30, 0, 1.0), (30, 86_399, 1.0), (31, 0, 0.97), (31, 86_399, 0.97), (32, 0, 0.9409),
        (33, 0, 0.912673), (69, 0, 0.304858), (70, 0, 0.295712), (130, 0, 0.047553), (100_000, 0, 0.0),
    ],
)  # fmt: skip
def test_thirty_days_cost_nothing_and_each_one_after_three_percent(
    ledger: Ledger, day: int, second: int, confidence: float
) -> None:
    fact = ledger.remember("Tea is in the tin.")
    assert fact.effective_confidence(at_day(day, second)) == confidence
    exact = (Decimal("0.97") ** max(0, min(day, 1_000) - 30)).quantize(Decimal("0.000001"), ROUND_HALF_EVEN)
    assert Decimal(str(confidence)) == exact
    assert fact.confidence == 1.0


def test_what_was_referenced_or_is_not_active_does_not_fade(ledger: Ledger) -> None:
    referenced = ledger.reinforce(ledger.remember("one").id, amount=0)
    idea = ledger.propose("two")
    gone = ledger.retract(ledger.remember("three").id)
    for memory in (referenced, idea, gone):
        assert memory.effective_confidence(at_day(500)) == memory.confidence  # type: ignore[union-attr]


@pytest.mark.parametrize("verb", ["revise", "adjust", "promote", "restore"])
def test_a_command_on_a_memory_restarts_its_idle_days(ledger: Ledger, clock: Clock, verb: str) -> None:
    fact = (
        ledger.propose("Tea is in the tin.", confidence=0.9)
        if verb == "promote"
        else ledger.remember("Tea is in the tin.")
    )
    if verb == "restore":
        ledger.retract(fact.id)
    clock.advance(days=20)
    again = {
        "revise": lambda: ledger.revise(fact.id, "Tea is in the jar."),
        "adjust": lambda: ledger.memories.set_confidence(fact.id, 0.8),
        "promote": lambda: ledger.promote(fact.id),
        "restore": lambda: ledger.restore(fact.id),
    }[verb]()
    assert again.effective_confidence(at_day(50)) == again.confidence
    assert again.effective_confidence(at_day(51)) < again.confidence


def test_the_sweep_supersedes_below_three_tenths_once_with_its_reason(ledger: Ledger, clock: Clock) -> None:
    fact = ledger.remember("Tea is in the tin.", project="kitchen")
    clock.advance(days=69)
    assert ledger.jobs.run().expired == 0
    clock.advance(days=1)
    assert ledger.jobs.run().expired == 1
    position = ledger.position
    assert ledger.jobs.run().expired == 0 and ledger.position == position
    now = ledger.memories.get(fact.id)
    assert (now.status, now.superseded_by, now.valid_to) == (
        "superseded",
        None,
        "2026-03-12T12:00:00.000000Z",
    )
    entry = ledger.history.audit(type="MemorySuperseded", limit=1)[0]
    assert (entry.type, entry.actor, entry.project) == ("MemorySuperseded", "confidence-decay", "kitchen")
    assert entry.data["rule"] == "decay/1"
    assert entry.data["reason"] == "effective confidence 0.30 at 2026-03-12, below 0.30"


def test_a_restored_one_gets_a_new_start(ledger: Ledger, clock: Clock) -> None:
    fact = ledger.remember("Tea is in the tin.")
    clock.advance(days=70)
    ledger.jobs.run()
    back = ledger.restore(fact.id)
    assert (back.status, back.valid_to, back.effective_confidence(at_day(70))) == ("active", None, 1.0)
    clock.advance(days=69)
    assert ledger.jobs.run().expired == 0
    clock.advance(days=1)
    assert ledger.jobs.run().expired == 1


@pytest.mark.parametrize(
    ("confidence", "day", "expired"), [(0.3, 30, 0), (0.3, 31, 1), (0.29, 29, 0), (0.31, 31, 0), (0.31, 32, 1)]
)
def test_a_memory_expires_on_the_day_that_its_confidence_falls_below_the_bound(
    ledger: Ledger, confidence: float, day: int, expired: int
) -> None:
    ledger.remember("Tea is in the tin.", confidence=confidence)
    assert ledger.jobs.run(now=at_day(day)).expired == expired


def test_who_was_referenced_is_exempt_and_so_is_a_user_whose_policy_says_so(ledger: Ledger) -> None:
    kept = ledger.remember("one", confidence=0.2)
    ledger.reinforce(kept.id, amount=0)
    ledger.remember("two", confidence=0.2)
    ledger.bind(user="ada").remember("three", confidence=0.2)
    ledger.bind(user="ada").policy.set(decay="all")
    assert ledger.jobs.run(now=at_day(500)).expired == 1
    assert [each.status for each in ledger.memories.list(statuses=())] == ["superseded", "active"]
    assert [each.status for each in ledger.bind(user="ada").memories.list()] == ["active"]


def test_a_reference_between_search_and_lock_saves_it(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    fact, search = ledger.remember("one", confidence=0.2), expiry.faded

    def meanwhile(*asked: Any) -> Any:
        found = list(search(*asked))
        ledger.reinforce(fact.id, amount=0)
        return found

    monkeypatch.setattr(expiry, "faded", meanwhile)
    assert ledger.jobs.run(now=at_day(500)).expired == 0
    assert [each.status for each in ledger.memories.list()] == ["active"]


def test_a_moment_before_all_time_fades_nothing(ledger: Ledger) -> None:
    ledger.remember("one", confidence=0.1)
    assert ledger.jobs.run(now="0001-01-01").expired == 0


def test_the_expiry_goes_through_many_pages(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "PAGE", 2)
    for number in range(5):
        ledger.remember(f"memory number {number}", confidence=0.2)
    assert ledger.jobs.run(now=at_day(31)).expired == 5


def test_an_undone_expiry_does_not_come_back_with_the_next_run(ledger: Ledger, clock: Clock) -> None:
    fact = ledger.remember("Tea is in the tin.")
    clock.advance(days=100)
    assert ledger.jobs.run(jobs=["expiry"]).expired == 1
    ledger.undo(ledger.position)
    assert ledger.jobs.run(jobs=["expiry"]).expired == 0, "somebody has looked at it"
    assert ledger.memories.list(statuses=["active"])[0].id == fact.id
    clock.advance(days=30)
    assert ledger.jobs.run(jobs=["expiry"]).expired == 1
