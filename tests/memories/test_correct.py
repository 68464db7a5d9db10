"""``memories.correct``: the kind, the project and the entities of a memory, with everything that follows from them."""

from __future__ import annotations

import pytest

from ledger import ConflictError, Ledger, NotFoundError, RejectedError
from ledger.types import Project

MAST = "The mast of the Aurora is down."


def test_kind_project_and_entities_are_corrected_by_one_call(ledger: Ledger) -> None:
    mast = ledger.remember(MAST, kind="fact", project="house", entities=["Aurora"])
    fixed = ledger.memories.correct(
        mast.id, kind="project", project="boat", entities=["Aurora", "mast"], reason="a slip"
    )
    assert (fixed.id, fixed.kind, fixed.project, fixed.entities) == (mast.id, "project", "boat", ("Aurora", "mast"))
    assert (fixed.content, fixed.confidence, fixed.recorded_at) == (mast.content, mast.confidence, mast.recorded_at)
    assert [memory.id for memory in ledger.memories.list(project="boat", kinds=["project"])] == [mast.id]
    assert ledger.memories.list(project="house") == []
    ledger.maintenance.rebuild()
    assert ledger.memories.get(mast.id).to_dict() == fixed.to_dict()


def test_a_correction_leaves_alone_what_it_does_not_name(ledger: Ledger) -> None:
    mast = ledger.remember(MAST, kind="fact", project="boat", entities=["Aurora"])
    assert ledger.memories.correct(mast.id, kind="project").project == "boat"
    assert ledger.memories.correct(mast.id, project="").project is None
    fixed = ledger.memories.correct(mast.id, entities=())
    assert (fixed.kind, fixed.project, fixed.entities) == ("project", None, ())
    before = ledger.position
    again = ledger.memories.correct(mast.id, kind="project", project="", entities=[])
    assert again.absorbed and ledger.position == before


def test_a_correction_can_be_undone_and_read_at_a_moment(ledger: Ledger) -> None:
    mast = ledger.remember(MAST, kind="fact", project="house", entities=["Aurora"])
    then = ledger.position
    fixed = ledger.memories.correct(mast.id, kind="project", project="boat", entities=["mast"])
    before = ledger.at(then).memories.get(mast.id)
    assert (before.kind, before.project, before.entities) == ("fact", "house", ("Aurora",))
    assert [pair.id for pair in ledger.history.diff(then).revised] == [mast.id]
    undone = ledger.undo(fixed.position)
    back = ledger.memories.get(mast.id)
    assert (back.kind, back.project, back.entities) == ("fact", "house", ("Aurora",))
    ledger.redo(undone.position)
    assert ledger.memories.get(mast.id).project == "boat"


def test_a_correction_is_in_the_audit_trail_and_in_why_with_its_reason(ledger: Ledger) -> None:
    mast = ledger.remember(MAST, project="house")
    ledger.memories.correct(mast.id, project="boat", reason="the Aurora is a boat")
    (entry,) = ledger.history.audit(subject=mast.id, command="memories.correct")
    assert (entry.type, entry.project, entry.reason) == ("MemoryCorrected", "boat", "the Aurora is a boat")
    assert "MemoryCorrected" in [event.type for event in ledger.history.events(mast.id)]
    assert "MemoryCorrected" in str(ledger.why(mast.id).to_dict())


def test_recall_and_the_graph_follow_a_correction(ledger: Ledger) -> None:
    mast = ledger.remember(MAST, kind="fact", project="house", entities=["Aurora"])
    ledger.remember("Ben paints.", entities=["Ben", "Ketch"])
    ledger.memories.correct(mast.id, project="boat", entities=["Ben"])
    assert mast.id in ledger.recall("mast", project="boat").memory_ids
    assert mast.id not in ledger.recall("mast", project="house").memory_ids
    assert mast.id in ledger.recall("Ben", project="boat").memory_ids
    assert {neighbor.name for neighbor in ledger.graph.neighbors("Ben").neighbors} == {"Ketch", "Aurora"}


def test_a_response_reinforces_in_the_corrected_project_alone(ledger: Ledger) -> None:
    taste = ledger.remember("The user prefers dark roast coffee.", kind="fact", project="house")
    ledger.memories.correct(taste.id, project="shop")
    ledger.capture("Coffee?", "The user prefers dark roast coffee.", project="house")
    assert ledger.memories.get(taste.id).reference_count == 0
    ledger.capture("Coffee?", "The user prefers dark roast coffee.", project="shop")
    assert ledger.memories.get(taste.id).reference_count == 1


def test_a_correction_that_would_make_a_duplicate_is_refused(ledger: Ledger) -> None:
    ledger.remember(MAST, project="boat")
    other = ledger.remember(MAST, project="house")
    with pytest.raises(RejectedError, match="says the same") as refusal:
        ledger.memories.correct(other.id, project="boat")
    assert refusal.value.rule == "duplicate"


def test_a_conflict_lapses_when_one_memory_goes_to_another_project(ledger: Ledger) -> None:
    porto, lisbon = ledger.remember("Ana lives in Porto."), ledger.remember("Ana lives in Lisbon.")
    assert ledger.conflicts.find().found
    assert len(ledger.conflicts.list(statuses=["open"])) == 1
    moved = ledger.memories.correct(lisbon.id, project="novel")
    (conflict,) = ledger.conflicts.list(statuses=["lapsed"])
    resolved = ledger.conflicts.resolve(conflict.id, keep=porto.id)
    assert ledger.memories.get(lisbon.id).status == "active"
    ledger.undo(resolved.position)
    ledger.undo(moved.position)
    assert len(ledger.conflicts.list(statuses=["open"])) == 1
    ledger.memories.correct(porto.id, project="novel")
    ledger.memories.correct(lisbon.id, project="novel")
    assert len(ledger.conflicts.list(statuses=["open"])) == 1


def test_a_conflict_is_found_in_the_project_to_which_a_memory_goes(ledger: Ledger) -> None:
    ledger.remember("Ana lives in Porto.", project="novel")
    lisbon = ledger.remember("Ana lives in Lisbon.")
    ledger.conflicts.find()
    assert ledger.conflicts.list() == []
    ledger.memories.correct(lisbon.id, project="novel")
    ledger.conflicts.find()
    assert len(ledger.conflicts.list(statuses=["open"], project="novel")) == 1


def test_a_proposed_merge_is_obsolete_after_a_correction(ledger: Ledger) -> None:
    ids = [
        ledger.remember(f"The big red barn stands behind the old mill near the small river {place}.").id
        for place in ("bank", "bend")
    ]
    assert ledger.merges.find(threshold=0.5).proposed
    ledger.memories.correct(ids[0], kind="episodic")
    assert [merge.status for merge in ledger.merges.list(statuses=["obsolete"])] == ["obsolete"]


def test_the_erasure_of_a_project_takes_the_memories_that_belong_to_it_now(ledger: Ledger) -> None:
    came = ledger.remember(MAST, project="house", entities=["Aurora"])
    went = ledger.remember("The kitchen is blue.", project="boat")
    ledger.memories.correct(came.id, project="boat", entities=["Aurora", "mast"])
    ledger.memories.correct(went.id, project="house", entities=["kitchen"])
    ledger.erase(Project("boat"), derived="erase", sources="erase", quotes="erase")
    assert ledger.memories.get(came.id).status == "erased"
    assert ledger.memories.get(went.id).content == "The kitchen is blue."
    assert ledger.memories.get(went.id).entities == ("kitchen",)


def test_the_hold_of_a_project_keeps_a_memory_that_came_to_it(ledger: Ledger) -> None:
    came = ledger.remember(MAST, project="house")
    ledger.memories.correct(came.id, project="boat")
    ledger.holds.add(Project("boat"))
    with pytest.raises(RejectedError, match="on hold"):
        ledger.erase(came.id)


def test_the_project_of_a_corrected_memory_cannot_be_undone_alone(ledger: Ledger) -> None:
    boat = ledger.projects.add("boat")
    mast = ledger.remember(MAST)
    ledger.memories.correct(mast.id, project="boat")
    with pytest.raises(ConflictError, match="stands while others use it"):
        ledger.undo(boat.position)


def test_a_hidden_memory_and_anothers_cannot_be_corrected(ledger: Ledger) -> None:
    mast = ledger.remember(MAST)
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").memories.correct(mast.id, kind="fact")
    ledger.retract(mast.id)
    with pytest.raises(RejectedError, match="cannot correct"):
        ledger.memories.correct(mast.id, kind="fact")


def test_an_unknown_kind_is_kept_with_a_warning_and_erasure_takes_the_entities(ledger: Ledger) -> None:
    mast = ledger.remember(MAST)
    assert "recipe" in str(ledger.memories.correct(mast.id, kind="recipe").warnings)
    ledger.memories.correct(mast.id, entities=["Zanzibar"])
    ledger.erase(mast.id)
    assert "Zanzibar" not in str([event.data for event in ledger.history.log()])
