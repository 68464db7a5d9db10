"""Candidates that nobody decides about are rejected after 90 idle days: recorded, restorable, and no verdict about the text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ledger import RejectedError
from ledger.api import Ledger

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Days:
    """A clock that says so many days after the start."""

    def __init__(self) -> None:
        self.days = 0.0

    def __call__(self) -> datetime:
        return START + timedelta(days=self.days)


@pytest.fixture
def now() -> Days:
    return Days()


@pytest.fixture
def ledger(tmp_path: Path, now: Days):
    with Ledger.open(tmp_path / "memory.db", user="ada", actor="planner", clock=now) as opened:
        yield opened


def _expired(ledger: Ledger) -> int:
    return ledger.jobs.run(jobs=["expiry"]).expired


def test_after_ninety_idle_days_once_with_its_reason(ledger: Ledger, now: Days) -> None:
    idea = ledger.propose("The user owns a boat.", project="harbour")
    now.days = 89.9
    assert _expired(ledger) == 0
    now.days = 90
    assert (_expired(ledger), _expired(ledger)) == (1, 0)
    assert ledger.memories.get(idea.id).status == "invalid" and ledger.review() == []
    (entry,) = ledger.history.audit(type="MemoryRejected")
    assert (entry.actor, entry.project, entry.data["rule"]) == ("policy:expiry", "harbour", "idle/1")
    assert entry.data["reason"] == "nobody decided about it for 90 days, by 2026-04-01"
    ledger.maintenance.rebuild()
    assert ledger.memories.get(idea.id).status == "invalid" and ledger.proof.verify().ok


def test_a_restored_one_waits_as_long_again_and_the_expiry_is_undone_like_a_command(ledger: Ledger, now: Days) -> None:
    idea = ledger.propose("The user owns a boat.")
    now.days = 100
    assert _expired(ledger) == 1
    undone = ledger.undo(ledger.position)
    assert [each.id for each in ledger.review()] == [idea.id]
    assert _expired(ledger) == 0, "somebody has looked at it"
    ledger.redo(undone.position)
    assert ledger.restore(idea.id).status == "candidate"
    now.days = 189
    assert _expired(ledger) == 0
    now.days = 190
    assert _expired(ledger) == 1
    assert ledger.promote(ledger.restore(idea.id).id).status == "active"


def test_a_candidate_in_quarantine_expires_as_soon_as_any_other(ledger: Ledger, now: Days) -> None:
    idea = ledger.propose("The user owns a boat.")
    ledger.guards.quarantine(idea.id)
    now.days = 90
    assert _expired(ledger) == 1 and ledger.memories.get(idea.id).status == "invalid"


def test_a_change_or_the_same_proposal_again_starts_the_count_again(ledger: Ledger, now: Days) -> None:
    ids = [ledger.propose(text).id for text in ("The tea is green.", "The boat is red.", "The kite is blue.")]
    now.days = 50
    ledger.revise(ids[0], "The tea is white.")
    assert ledger.bind(actor="other").propose("The boat is red.").absorbed
    now.days = 100
    assert _expired(ledger) == 1
    assert {each.id for each in ledger.review()} == set(ids[:2])


def test_the_days_are_a_parameter_of_each_user(ledger: Ledger, now: Days) -> None:
    ben = ledger.bind(user="ben")
    ledger.policy.set(candidate_days=7)
    ben.policy.set(candidate_days=0)
    assert (ledger.policy.get().candidate_days, ledger.bind(user="cleo").policy.get().candidate_days) == (7, 90)
    for each in (ledger, ben):
        each.propose("The user owns a boat.")
    now.days = 7
    assert _expired(ledger) == 1 and ledger.review() == []
    now.days = 5_000
    assert _expired(ledger) == 0 and len(ben.review()) == 1
    for wrong in (-1, 1.5, True, "7"):
        with pytest.raises(RejectedError):
            ledger.policy.set(candidate_days=wrong)  # type: ignore[arg-type]


def test_what_expired_was_not_turned_down_so_it_may_be_proposed_again(ledger: Ledger, now: Days) -> None:
    model = ledger.bind(actor="extractor", channel="agent")
    first, no = model.propose("The user owns a boat."), model.propose("The user owns a car.")
    now.days = 90
    ledger.reject(no.id)
    assert _expired(ledger) == 1
    again = model.propose("The user owns a boat.")
    assert again.status == "candidate" and again.id != first.id
    with pytest.raises(RejectedError, match="rejected"):
        model.propose("The user owns a car.")
    with pytest.raises(RejectedError, match="says the same"):
        ledger.restore(first.id)


def test_a_decision_between_search_and_lock_prevents_the_expiry(ledger: Ledger, now: Days, monkeypatch: Any) -> None:
    from ledger.memories import expiry

    idea, search = ledger.propose("The user owns a boat."), expiry.undecided

    def meanwhile(*asked: Any) -> Any:
        found = list(search(*asked))
        ledger.promote(idea.id)
        return found

    monkeypatch.setattr(expiry, "undecided", meanwhile)
    now.days = 90
    assert _expired(ledger) == 0 and ledger.memories.get(idea.id).status == "active"
