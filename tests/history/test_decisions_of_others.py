"""A distrust leaves the decisions that others took, and lists those that fit no more what is left."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from conftest import Clock, folded_from_zero
from hypothesis import given, settings
from hypothesis import strategies as st
from least_set import ACTORS, VERBS, Hand, Step

from ledger import Ledger, LedgerError


@pytest.mark.parametrize("how", ["undo", "distrust"])
def test_a_decision_taken_again_holds_though_the_first_one_and_what_lay_between_are_void(
    ledger: Ledger, how: str
) -> None:
    ann, carl = ledger.bind(actor="ann"), ledger.bind(actor="carl")
    idea = ledger.propose("The user trains for a marathon.")
    first = ann.reject(idea.id)
    between = carl.restore(idea.id)
    ann.reject(idea.id)
    if how == "undo":
        assert ledger.undo(between.position).dependents == ()
    else:
        assert ledger.history.distrust("carl", kind="actor").dependents == ()
    assert ledger.memories.get(idea.id).status == "invalid"
    ledger.undo(first.position)
    assert ledger.memories.get(idea.id).status == "invalid"
    assert ledger.restore(idea.id).status == "candidate"
    assert ledger.proof.digest() == folded_from_zero(ledger)


def test_a_restored_memory_goes_back_to_the_status_before_two_equal_decisions(ledger: Ledger) -> None:
    fact = ledger.remember("The user has a dog.")
    ledger.bind(actor="ann").retract(fact.id)
    ledger.bind(actor="carl").restore(fact.id)
    ledger.bind(actor="bob").retract(fact.id)
    ledger.history.distrust("carl", kind="actor")
    assert ledger.restore(fact.id).status == "active"
    ledger.history.distrust("ann", kind="actor")
    assert ledger.memories.get(fact.id).status == "active"


def test_a_distrust_lists_decisions_of_others_that_fit_no_more(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", actor="ann") as ledger:
        vault = ledger.remember("The vault is in Geneva.")
        ledger.retract(vault.id)
        ledger.bind(actor="carl").restore(vault.id)
        moved = ledger.bind(actor="bob").supersede(vault.id, "The vault is in Zurich.")
        listed = ledger.history.distrust("carl", kind="actor", dry_run=True).dependents
        assert [(each.command, each.subject) for each in listed] == [("supersede", vault.id)]
        assert listed[0].why == "would be retracted there"
        assert ledger.history.distrust("carl", kind="actor").dependents == listed
        (found,) = ledger.memories.list()
        assert (found.id, found.supersedes) == (moved.id, vault.id)


DECISIONS = (
    *("MemoryPromoted", "MemoryRejected", "MemoryRetracted", "MemoryRestored", "MemorySuperseded", "MemoryRevised"),
    "RelationAdded",
)
ENDS = ("promote", "reject", "retract", "restore", "restore", "supersede")


def decisions(ledger: Ledger) -> dict[int, Any]:
    """The decisions in effect about single memories, by position."""
    entries = [entry for entry in ledger.history.audit(limit=1_000) if entry.in_effect]
    merges = {entry.command_id for entry in entries if entry.type == "MemoriesMerged"}
    return {e.position: e for e in entries if e.type in DECISIONS and e.command_id not in merges}


def put_back_by(ledger: Ledger, actor: str) -> set[int]:
    """The positions that an actor put back by a redo, which the distrust of the actor takes back."""
    redos = [entry for entry in ledger.history.audit(type="CommandRedone", limit=1_000) if entry.actor == actor]
    return {each for redo in redos for first, last in redo.data["ranges"] for each in range(first, last + 1)}


def assert_no_decision_falls_unlisted(ledger: Ledger, steps: list[Step]) -> None:
    hand = Hand(ledger)
    for actor, verb, one, other in steps:
        with suppress(LedgerError):
            if verb == "undo":
                ledger.bind(actor=actor).undo(2 + one % max(1, ledger.position - 1), cascade=other > 2)
            elif verb == "trust":
                ledger.history.trust(actor, kind="actor", cascade=other > 2)
            elif verb == "distrust":
                before = decisions(ledger)
                report = ledger.history.distrust(actor, kind="actor")
                known = {each.position for each in report.dependents}
                fell = [before[position] for position in before.keys() - decisions(ledger).keys()]
                known |= put_back_by(ledger, actor)
                unlisted = [e for e in fell if e.actor != actor and e.subject not in report.gone]
                assert [entry for entry in unlisted if entry.position not in known] == []
                ledger.proof.digest()
            else:
                hand.do((actor, verb, one, other))
    assert ledger.proof.digest() == folded_from_zero(ledger)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from(ACTORS),
            st.sampled_from((*VERBS, *ENDS, *ENDS, "undo", "distrust", "distrust", "trust")),
            st.integers(0, 4),
            st.integers(0, 5),
        ),
        min_size=8,
        max_size=40,
    )
)
@settings(deadline=None)
def test_no_decision_of_others_falls_with_a_distrust_unless_the_report_lists_it(steps: list[Step]) -> None:
    with TemporaryDirectory() as folder, Ledger.open(Path(folder, "memory.db"), clock=Clock()) as ledger:
        assert_no_decision_falls_unlisted(ledger, steps)
