"""No stored outcome is believed when the event that made it so is out of force: what it says is folded."""

from __future__ import annotations

from typing import Any

import probe
import pytest
from absence import absent, perhaps
from conftest import folded_from_zero
from turns import Scripted, say

from ledger import ConflictError, Ledger
from ledger.core.reads import load
from ledger.events import ObservationRetracted
from ledger.extraction import rule_findings

BOAT, SHIP = "Ana owns a boat.", "Ana owns a ship."


def status(ledger: Ledger, id: str) -> str:
    found = perhaps(ledger.memories.get, id)
    return found.status if found is not None else "none"


def out(ledger: Ledger, way: str, actor: str, position: int) -> Any:
    """An act of ``actor`` at ``position`` out of force: its command undone, or whoever did it distrusted."""
    return ledger.undo(position) if way == "undo" else ledger.history.distrust(actor, kind="actor")


def back(ledger: Ledger, way: str, actor: str, position: int) -> None:
    if way == "undo":
        ledger.redo(position)
    else:
        ledger.history.trust(actor, kind="actor")


WAYS = pytest.mark.parametrize("way", ["undo", "distrust"])


# --- the status that a restored memory goes back to ------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("content", [None, SHIP])
def test_restoring_makes_nothing_active_whose_promotion_is_out_of_force(
    ledger: Ledger, way: str, content: str | None
) -> None:
    idea = ledger.bind(actor="ann").propose(BOAT)
    promoted = ledger.bind(actor="amy").promote(idea.id, content=content)
    ledger.bind(actor="bob").retract(idea.id)
    assert ledger.bind(actor="bob").restore(idea.id).status == "active"
    out(ledger, way, "amy", promoted.position)
    found = ledger.memories.get(idea.id)
    assert (found.status, found.content) == ("candidate", BOAT)
    assert ledger.recall("boat ship").items == ()
    assert ledger.proof.digest() == folded_from_zero(ledger)
    back(ledger, way, "amy", promoted.position)
    found = ledger.memories.get(idea.id)
    assert (found.status, found.content) == ("active", content or BOAT)


@WAYS
def test_restoring_leaves_active_what_was_promoted_once_the_promotion_counts_again(ledger: Ledger, way: str) -> None:
    idea = ledger.bind(actor="ann").propose(BOAT)
    promoted = ledger.bind(actor="amy").promote(idea.id)
    out(ledger, way, "amy", promoted.position)
    ledger.bind(actor="bob").retract(idea.id)
    assert ledger.bind(actor="bob").restore(idea.id).status == "candidate"
    back(ledger, way, "amy", promoted.position)
    assert status(ledger, idea.id) == "active"


@WAYS
@pytest.mark.parametrize("hide", ["retract", "invalidate", "supersede"])
def test_what_is_hidden_again_after_its_restoration_keeps_to_the_rule(ledger: Ledger, way: str, hide: str) -> None:
    """Of several ways out of use and back, each goes back to what there was before it."""
    idea = ledger.bind(actor="ann").propose(BOAT)
    promoted = ledger.bind(actor="amy").promote(idea.id)
    ledger.bind(actor="bob").retract(idea.id)
    ledger.bind(actor="bob").restore(idea.id)
    hidden = {
        "retract": lambda: ledger.bind(actor="bob").retract(idea.id),
        "invalidate": lambda: ledger.bind(actor="bob").invalidate(idea.id),
        "supersede": lambda: ledger.bind(actor="bob").supersede(idea.id, SHIP),
    }[hide]()
    ledger.bind(actor="bob").restore(idea.id)
    if hide != "retract" and way == "undo":  # only of what is active can anybody say so
        planned = ledger.undo(promoted.position, cascade=True)
        entry = next(each for each in ledger.history.audit(limit=100) if each.position == hidden.position)
        assert entry.command_id in planned.commands
    else:
        out(ledger, way, "amy", promoted.position)
    assert status(ledger, idea.id) == "candidate"
    assert ledger.proof.digest() == folded_from_zero(ledger)


@WAYS
def test_a_rejected_candidate_that_was_restored_is_active_where_it_was_promoted_before(
    ledger: Ledger, way: str
) -> None:
    idea = ledger.bind(actor="ann").propose(BOAT)
    rejected = ledger.bind(actor="eve").reject(idea.id)
    ledger.bind(actor="bob").restore(idea.id)
    ledger.bind(actor="amy").promote(idea.id)
    if way == "undo":
        ledger.undo(rejected.position, cascade=True)
    else:
        ledger.history.distrust("eve", kind="actor")
    assert status(ledger, idea.id) == "active"


@WAYS
def test_what_was_done_to_a_restored_memory_as_an_active_one_goes_with_its_promotion(ledger: Ledger, way: str) -> None:
    idea = ledger.bind(actor="ann").propose(BOAT)
    promoted = ledger.bind(actor="amy").promote(idea.id)
    ledger.bind(actor="bob").retract(idea.id)
    ledger.bind(actor="bob").restore(idea.id)
    ledger.bind(actor="bob").reinforce(idea.id)
    if way == "undo":
        ledger.undo(promoted.position, cascade=True)
    else:
        ledger.history.distrust("amy", kind="actor")
    found = ledger.memories.get(idea.id)
    assert (found.status, found.reference_count) == ("candidate", 0)


@WAYS
def test_a_quarantine_stays_beside_the_status_that_is_folded(ledger: Ledger, way: str) -> None:
    idea = ledger.bind(actor="ann").propose(BOAT)
    promoted = ledger.bind(actor="amy").promote(idea.id)
    ledger.bind(actor="bob").guards.quarantine(idea.id)
    ledger.bind(actor="bob").retract(idea.id)
    ledger.bind(actor="bob").restore(idea.id)
    out(ledger, way, "amy", promoted.position)
    found = ledger.memories.get(idea.id)
    assert (found.status, found.quarantined) == ("candidate", True)


# --- a reinforcement counts while its evidence does ------------------------------------------------------------------


def counted(ledger: Ledger, id: str) -> int:
    found = perhaps(ledger.memories.get, id)
    return found.reference_count if found is not None else -1


@pytest.mark.parametrize("act", ["undo", "distrust", "distrust the turn", "undo, then distrust", "distrust, then undo"])
def test_a_persons_reinforcement_falls_with_the_turn_that_it_cites(ledger: Ledger, act: str) -> None:
    fact = ledger.bind(actor="ann").remember(BOAT)
    turn = ledger.bind(actor="eve").capture("Whose boat?", "Nobody's.", reinforce=False)
    ledger.bind(actor="ann").reinforce(fact.id, source=turn.id)
    ledger.bind(actor="ann").reinforce(fact.id)
    assert counted(ledger, fact.id) == 2
    if act.startswith("undo"):
        with pytest.raises(ConflictError, match="1 later command built"):
            ledger.undo(turn.position)
        (belief,) = ledger.history.what_if(without=turn.position).changed
        ledger.undo(turn.position, cascade=True)
    else:
        source = {"origin": turn.id} if act == "distrust the turn" else {"origin": "eve", "kind": "actor"}
        (belief,) = ledger.history.what_if(without=turn.id if len(source) == 1 else {"actor": "eve"}).changed
        ledger.history.distrust(**source)
    assert belief.would_be is not None and belief.would_be.reference_count == 1
    assert counted(ledger, fact.id) == 1
    if act.endswith("then distrust"):
        ledger.history.distrust("eve", kind="actor")
    elif act.endswith("then undo"):
        ledger.undo(turn.position, cascade=True)
    assert counted(ledger, fact.id) == 1


def test_a_reinforcement_is_not_back_without_its_evidence(ledger: Ledger) -> None:
    fact = ledger.remember(BOAT)
    turn = ledger.capture("Whose boat?", "Nobody's.", reinforce=False)
    given = ledger.reinforce(fact.id, source=turn.id)
    ledger.undo(given.position)
    ledger.undo(turn.position)
    with pytest.raises(ConflictError, match="put that back first"):
        ledger.redo(given.position)
    ledger.redo(turn.position)
    ledger.redo(given.position)
    assert counted(ledger, fact.id) == 1


# --- a project stands while others use it ----------------------------------------------------------------------------


def registered(ledger: Ledger) -> str:
    """A project that eve registered, named and described, and that ann uses."""
    project = ledger.bind(actor="eve").projects.add("kitchen")
    ledger.bind(actor="eve").projects.add_alias("kitchen", "galley")
    ledger.bind(actor="eve").projects.set_state("kitchen", "status", "phase", "over")
    ledger.bind(actor="eve").remember("The stove is off.", project="kitchen")
    return project.id


def test_a_project_stands_without_its_registrar_where_others_use_it(ledger: Ledger) -> None:
    project = registered(ledger)
    fact = ledger.bind(actor="ann").remember(BOAT, project="galley")
    ledger.bind(actor="ann").projects.set_state("kitchen", "contact", "cook", "Ann")
    without = ledger.history.what_if(without={"actor": "eve"})
    assert fact.id not in {each.id for each in (*without.lost, *without.changed)}
    report = ledger.history.distrust("eve", kind="actor")
    assert project not in report.gone and fact.id not in report.memories
    (stands,) = ledger.projects.list()
    assert (stands.id, stands.name, stands.aliases) == (project, "kitchen", ())
    assert [each.name for each in stands.state] == ["cook"]
    found = ledger.memories.get(fact.id)
    assert found.project == "kitchen"
    assert [each.id for each in ledger.memories.list(project="kitchen")] == [fact.id]
    assert (
        ledger.bind(actor="ann").remember(SHIP, project="Kitchen").project == "kitchen"
        and len(ledger.projects.list()) == 1
    )
    assert absent(ledger.projects.get, "galley")
    ledger.history.trust("eve", kind="actor")
    (stands,) = ledger.projects.list()
    assert stands.aliases == ("galley",) and len(stands.state) == 2
    assert ledger.proof.digest() == folded_from_zero(ledger)


def test_a_project_that_nobody_else_ever_used_goes_with_its_registrar(ledger: Ledger) -> None:
    project = registered(ledger)
    report = ledger.history.distrust("eve", kind="actor")
    assert project in report.gone and ledger.projects.list() == []
    act = ledger.history.trust("eve", kind="actor")
    assert [each.id for each in ledger.projects.list()] == [project] and act.trusted
    ledger.history.distrust("eve", kind="actor")
    fact = ledger.bind(actor="ann").remember(BOAT, project="kitchen")
    assert fact.project == "kitchen" and ledger.projects.list()[0].id != project


@pytest.mark.parametrize("first", ["undo", "distrust"])
def test_a_use_that_was_undone_finds_its_project_when_it_is_redone(ledger: Ledger, first: str) -> None:
    registered(ledger)
    fact = ledger.bind(actor="ann").remember(BOAT, project="kitchen")
    acts = [lambda: ledger.undo(fact.position), lambda: ledger.history.distrust("eve", kind="actor")]
    for act in acts if first == "undo" else reversed(acts):
        act()
    ledger.redo(fact.position)
    found = ledger.memories.get(fact.id)
    assert found.project == "kitchen"
    assert [each.name for each in ledger.projects.list()] == ["kitchen"]


def test_a_project_stands_where_only_distrusted_ones_use_it(ledger: Ledger) -> None:
    """By whichever of the two is distrusted first, and trusted first again."""
    registered(ledger)
    ledger.bind(actor="ann").remember(BOAT, project="kitchen")
    for actor in ("ann", "eve"):
        ledger.history.distrust(actor, kind="actor")
    for actor in ("ann", "eve"):
        ledger.history.trust(actor, kind="actor")
        assert {each.project for each in ledger.memories.list()} == {"kitchen"}


def test_a_trust_undoes_no_project_again_that_others_use_by_now(ledger: Ledger) -> None:
    project = ledger.bind(actor="ann").projects.add("kitchen")
    ledger.bind(actor="eve").undo(project.position)
    ledger.history.distrust("eve", kind="actor")
    fact = ledger.bind(actor="bob").remember(BOAT, project="kitchen")
    with pytest.raises(ConflictError, match="stands while others use it"):
        ledger.history.trust("eve", kind="actor", cascade=True)
    ledger.undo(fact.position)
    ledger.history.trust("eve", kind="actor")
    assert ledger.projects.list() == []


# --- what else an event would copy from the state it met -------------------------------------------------------------


@WAYS
def test_taking_back_a_valid_from_restores_the_old_one_and_keeps_a_later_valid_to(ledger: Ledger, way: str) -> None:
    fact = ledger.bind(actor="ann").remember(BOAT, valid_from="2020-01-01")
    moved = ledger.bind(actor="eve").memories.set_validity(fact.id, valid_from="2023-01-01")
    ledger.bind(actor="bob").memories.set_validity(fact.id, valid_to="2024-12-31")
    out(ledger, way, "eve", moved.position)
    found = ledger.memories.get(fact.id)
    assert (found.valid_from[:10], (found.valid_to or "")[:10]) == ("2020-01-01", "2025-01-01")


@pytest.mark.parametrize("way", ["undo", "distrust"])
def test_an_end_that_would_come_before_the_beginning_goes_with_what_moved_that(ledger: Ledger, way: str) -> None:
    fact = ledger.bind(actor="ann").remember(BOAT, valid_from="2024-01-01")
    moved = ledger.bind(actor="eve").memories.set_validity(fact.id, valid_from="2020-01-01")
    ledger.bind(actor="bob").memories.set_validity(fact.id, valid_to="2021-12-31")
    if way == "undo":
        with pytest.raises(ConflictError, match="1 later command"):
            ledger.undo(moved.position)
        ledger.undo(moved.position, cascade=True)
    else:
        ledger.history.distrust("eve", kind="actor")
    found = ledger.memories.get(fact.id)
    assert (found.valid_from[:10], found.valid_to) == ("2024-01-01", None)


@WAYS
def test_a_supersession_ends_a_memory_where_it_says_once_its_beginning_is_back(ledger: Ledger, way: str) -> None:
    fact = ledger.bind(actor="ann").remember(BOAT, valid_from="2020-01-01")
    moved = ledger.bind(actor="eve").memories.set_validity(fact.id, valid_from="2024-01-01")
    ledger.bind(actor="bob").supersede(fact.id, SHIP, valid_from="2022-01-01")
    found = ledger.memories.get(fact.id)
    assert found.valid_from == found.valid_to, "it holds at no time"
    out(ledger, way, "eve", moved.position)
    found = ledger.memories.get(fact.id)
    assert (found.valid_from[:10], (found.valid_to or "")[:10]) == ("2020-01-01", "2022-01-01")


@WAYS
def test_a_policy_takes_over_nothing_of_the_one_before_it(ledger: Ledger, way: str) -> None:
    ledger.bind(actor="eve").policy.set(gain=0.5, user_chars=200)
    position = ledger.position
    ledger.bind(actor="ann").policy.set(max_matches=3, user_chars=300)
    out(ledger, way, "eve", position)
    policy = ledger.policy.get().to_dict()
    assert (policy["gain"], policy["max_matches"], policy["user_chars"]) == (0.02, 3, 300)
    back(ledger, way, "eve", position)
    assert (ledger.policy.get().gain, ledger.policy.get().user_chars) == (0.5, 300)


def test_an_attempt_that_was_undone_is_not_among_those_that_failed(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn is left alone after three of them, and so is a session."""

    def breaks(*_: object) -> None:
        raise ValueError

    with monkeypatch.context() as patched:
        patched.setattr(rule_findings, "by_rules", breaks)
        ledger.capture("Whose boat?", "Decision: sell the boat.", reinforce=False)
        assert [ledger.jobs.run().failures for _ in range(4)] == [1, 1, 1, 0]
        ledger.undo(ledger.history.audit(type="ExtractionFailed")[-1].position)
        assert [ledger.jobs.run().failures for _ in range(2)] == [1, 0]
    session = say(ledger, "I own a boat.")
    for _ in range(2):
        session.extract(model=Scripted("no JSON"))
    ledger.undo(ledger.history.audit(command="session.extract")[-1].command_id)
    session.extract(model=Scripted("no JSON"))
    with probe.read(ledger) as connection:
        assert load(connection, ledger.history.audit(type="ExtractionFailed")[0].subject, "s", "").failures == 2


# --- an observation that was retracted for want of evidence ------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("act", ["withdraw", "retract", "quarantine", "supersede"])
def test_an_observation_whose_source_counts_again_is_retired_no_more(ledger: Ledger, way: str, act: str) -> None:
    first, second = (ledger.bind(actor="ann").remember(each).id for each in (BOAT, "Ana sails."))
    seen = ledger.bind(actor="ann").observations.add("Ana likes the sea.", [first, second])
    taken = {
        "withdraw": lambda: ledger.bind(actor="eve").observations.withdraw((first,)),
        "retract": lambda: ledger.bind(actor="eve").retract(first),
        "quarantine": lambda: ledger.bind(actor="eve").guards.quarantine(first),
        "supersede": lambda: ledger.bind(actor="eve").supersede(first, SHIP),
    }[act]()
    ledger.bind(actor="bob").observations.withdraw((second,))
    standing(ledger, seen.id, "retracted", 0)
    ((now, then),) = [
        (each.now, each.would_be)
        for each in ledger.history.what_if(without=taken.position if way == "undo" else {"actor": "eve"}).observations
    ]
    assert now is not None and then is not None and (now.status, then.status) == ("retracted", "active")
    out(ledger, way, "eve", taken.position)
    standing(ledger, seen.id, "active", 1)
    found = ledger.observations.get(seen.id)
    assert [each.withdrawn for each in found.sources if each.id == second] == ["asked"]
    back(ledger, way, "eve", taken.position)
    standing(ledger, seen.id, "retracted", 0)
    assert ledger.proof.digest() == folded_from_zero(ledger)


def standing(ledger: Ledger, id: str, status: str, proofs: int) -> None:
    found = ledger.observations.get(id)
    assert (found.status, found.proof_count) == (status, proofs)


@WAYS
def test_a_retirement_for_want_of_evidence_that_was_restored_goes_with_what_it_was_for(
    ledger: Ledger, way: str
) -> None:
    first, second = (ledger.bind(actor="ann").remember(each).id for each in (BOAT, "Ana sails."))
    seen = ledger.bind(actor="ann").observations.add("Ana likes the sea.", [first, second])
    retracted = ledger.bind(actor="eve").retract(first)
    ledger.bind(actor="bob").observations.withdraw((second,))
    ledger.bind(actor="bob").restore(first)
    standing(ledger, seen.id, "active", 1)
    if way == "undo":
        ledger.undo(retracted.position, cascade=True)
    else:
        ledger.history.distrust("eve", kind="actor")
    standing(ledger, seen.id, "active", 1)


@WAYS
def test_an_observation_retired_by_hand_stays_retired(ledger: Ledger, way: str) -> None:
    source = ledger.bind(actor="ann").remember(BOAT).id
    seen = ledger.bind(actor="ann").observations.add("Ana likes the sea.", (source,))
    withdrawn = ledger.bind(actor="eve").retract(source)
    ledger.bind(actor="bob").retract(seen.id)
    out(ledger, way, "eve", withdrawn.position)
    standing(ledger, seen.id, "retracted", 1)


@WAYS
def test_an_observation_retired_into_an_undone_observation_is_active_again(ledger: Ledger, way: str) -> None:
    """The policy retires into one that is there when another source makes two of them say the same."""
    source = ledger.bind(actor="ann").remember(BOAT).id
    into = ledger.bind(actor="eve").observations.add("Ana is at sea.", (source,))
    seen = ledger.bind(actor="ann").observations.add("Ana likes the sea.", (source,))

    def merge(work: Any) -> str:
        work.emit(seen.id, ObservationRetracted("merged", by=into.id), first=seen.position)
        return seen.id

    probe.writer(ledger).run("consolidate", probe.who(actor="policy:consolidation"), merge)
    standing(ledger, seen.id, "retracted", 1)
    out(ledger, way, "eve", into.position)
    standing(ledger, seen.id, "active", 1)
    back(ledger, way, "eve", into.position)
    standing(ledger, seen.id, "retracted", 1)
