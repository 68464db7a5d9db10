"""Nothing that is believed goes away by idleness, unless a policy says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ledger import Ledger, RejectedError

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Days:
    """A clock that stands so many days after the start."""

    days = 0.0

    def __call__(self) -> datetime:
        return START + timedelta(days=self.days)


@pytest.fixture
def clock() -> Days:
    return Days()


@pytest.fixture
def ledger(tmp_path: Path, clock: Days):
    with Ledger.open(tmp_path / "memory.db", user="ada", clock=clock) as opened:
        yield opened


def test_by_default_no_active_memory_expires_or_loses_confidence(ledger: Ledger, clock: Days) -> None:
    allergy = ledger.remember("Ada is seriously allergic to hazelnuts.", kind="identity")
    trip = ledger.remember("Ada was in Porto for the weekend.", kind="episodic")
    for week in range(1, 105):
        clock.days = 7 * week
        assert ledger.jobs.run().expired == 0
    assert [memory.status for memory in ledger.memories.list()] == ["active", "active"]
    for memory in ledger.memories.list():
        assert memory.effective_confidence(clock()) == 1.0
    assert {item.id for item in ledger.recall("allergic to hazelnuts, Porto weekend").items} == {allergy.id, trip.id}


def test_decay_of_episodic_memories_leaves_every_other_kind_alone(ledger: Ledger, clock: Days) -> None:
    ledger.policy.set(decay="episodic", expire=True)
    allergy = ledger.remember("Ada is seriously allergic to hazelnuts.", kind="identity")
    trip = ledger.remember("Ada was in Porto for the weekend.", kind="episodic")
    clock.days = 31
    assert ledger.memories.get(trip.id).effective_confidence(clock()) == 0.97
    assert ledger.memories.get(allergy.id).effective_confidence(clock()) == 1.0
    clock.days = 400
    assert ledger.jobs.run(jobs=["expiry"]).expired == 1
    assert ledger.memories.get(trip.id).status == "superseded"
    assert ledger.memories.get(allergy.id).status == "active"


def test_an_answer_follows_the_policy_of_its_moment(ledger: Ledger, clock: Days) -> None:
    fact = ledger.remember("Ada rows on Sundays.")
    before = ledger.position
    ledger.policy.set(decay="all")
    assert fact.effective_confidence(START + timedelta(days=31)) == 1.0
    assert ledger.memories.get(fact.id).effective_confidence(START + timedelta(days=31)) == 0.97
    assert ledger.at(before).memories.get(fact.id).effective_confidence(START + timedelta(days=31)) == 1.0


def test_an_expiry_without_decay_is_refused_for_it_would_take_nothing(ledger: Ledger) -> None:
    with pytest.raises(RejectedError, match="decay='all'"):
        ledger.policy.set(expire=True)
    ledger.policy.set(decay="all", expire=True)
    with pytest.raises(RejectedError, match="expire=False"):
        ledger.policy.set(decay="off")
    ledger.policy.set(decay="off", expire=False)


def test_a_parameter_that_was_set_is_recorded_also_where_it_equals_the_default(ledger: Ledger) -> None:
    assert ledger.policy.get().explicit == ()
    assert ledger.policy.set(expire=False, gain=0.02).explicit == ("expire", "gain")
    position = ledger.position
    ledger.policy.set(expire=False)
    assert ledger.position == position, "what is set already is not recorded again"
    ledger.undo(position)
    assert ledger.policy.get().explicit == ()


def test_a_dry_run_of_the_expiry_shows_what_it_would_take_and_takes_nothing(ledger: Ledger, clock: Days) -> None:
    ledger.policy.set(decay="all", expire=True)
    fact = ledger.remember("Ada rows on Sundays.")
    idea = ledger.propose("Ada might like sailing.")
    clock.days = 100
    position = ledger.position
    report = ledger.jobs.run(jobs=["expiry"], dry_run=True)
    assert (report.dry_run, report.expired) == (True, 2)
    assert {memory.id for memory in report.expiring} == {fact.id, idea.id}
    assert ledger.position == position
    assert ledger.jobs.run(jobs=["expiry"]).expired == 2
    assert ledger.memories.get(idea.id).status == "invalid"
    assert ledger.restore(idea.id).status == "candidate"


def test_only_the_expiry_has_a_dry_run(ledger: Ledger) -> None:
    with pytest.raises(RejectedError, match=r"jobs=\['expiry'\]"):
        ledger.jobs.run(dry_run=True)
