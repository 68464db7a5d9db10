"""What a person undid of a turn does not come back by itself: the jobs leave it alone, and who asks reads it again."""

from __future__ import annotations

from pathlib import Path

import pytest
from turns import Scripted, adds

from ledger import Ledger

SAID = "Please remember where the kettle goes."
DECIDED = "Decision: keep the kettle on the upper shelf."


def waiting(ledger: Ledger) -> list[str]:
    return [each.content or "" for each in ledger.review()]


def newest(ledger: Ledger, type_: str) -> int:
    return ledger.history.audit(type=type_, limit=1)[0].position


@pytest.mark.parametrize("by", ["rules", "model"])
@pytest.mark.parametrize("session", [None, "monday"])
def test_what_a_person_undid_of_a_turn_is_not_proposed_again_by_itself(
    tmp_path: Path, by: str, session: str | None
) -> None:
    model = Scripted(adds("keep the kettle on the upper shelf")) if by == "model" else None
    with Ledger.open(tmp_path / "memory.db", model=model) as ledger:
        turn = ledger.capture(SAID, DECIDED, session=session, append=session is not None)
        assert ledger.jobs.run(jobs=["extraction"]).candidates >= 1
        proposed = waiting(ledger)
        undone = ledger.undo(newest(ledger, "CandidatesExtracted"), reason="none of that")
        assert waiting(ledger) == [] and ledger.interactions.get(turn.id).extraction == "undone"
        before = ledger.position
        assert ledger.jobs.run(jobs=["extraction"]).candidates == 0
        assert (waiting(ledger), ledger.position) == ([], before)
        ledger.maintenance.rebuild()
        assert ledger.jobs.run(jobs=["extraction"]).candidates == 0 and waiting(ledger) == []
        ledger.redo(undone.command_id or "")
        assert waiting(ledger) == proposed and ledger.interactions.get(turn.id).extraction == "done"


@pytest.mark.parametrize("by", ["rules", "model"])
def test_who_asks_reads_a_turn_again_whose_extraction_was_undone(tmp_path: Path, by: str) -> None:
    model = Scripted(adds("keep the kettle on the upper shelf")) if by == "model" else None
    with Ledger.open(tmp_path / "memory.db", model=model) as ledger:
        ledger.policy.set(admit="review")
        turn = ledger.capture(SAID, DECIDED)
        ledger.jobs.run(jobs=["extraction"])
        ledger.undo(newest(ledger, "CandidatesExtracted"))
        assert len(ledger.extract(turn.id).kept) == len(waiting(ledger)) == 1
        assert ledger.interactions.get(turn.id).extraction == "done"


def test_a_session_does_not_read_by_itself_what_was_undone_of_one_of_its_turns(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        turn = ledger.capture(SAID, DECIDED, session="monday", append=True)
        ledger.extract(turn.id)
        ledger.undo(newest(ledger, "CandidatesExtracted"))
        assert ledger.jobs.run(jobs=["extraction"]).candidates == 0 and waiting(ledger) == []
        assert len(ledger.extract(turn.id).kept) == 1


def test_an_answer_that_came_after_an_undone_extraction_is_read(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        turn = ledger.capture("Where does the kettle go?")
        ledger.interactions.add_response(turn.id, "Decision: keep the kettle in the garden.")
        ledger.jobs.run(jobs=["extraction"])
        ledger.undo(newest(ledger, "ResponseAttached"), cascade=True)
        assert ledger.interactions.get(turn.id).extraction == "waiting"
        ledger.interactions.add_response(turn.id, DECIDED)
        assert ledger.jobs.run(jobs=["extraction"]).candidates == 1


def test_what_a_person_undid_of_a_reinforcement_is_not_counted_again_by_itself(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        roast = ledger.remember("The user prefers dark roast coffee.", kind="preference", confidence=0.5)
        turn = ledger.capture("Coffee?", "The user prefers dark roast coffee, as always.")
        raised = ledger.memories.get(roast.id).confidence
        assert raised > 0.5
        ledger.undo(newest(ledger, "ReinforcementEvaluated"))
        ledger.jobs.run(jobs=["reinforcement"])
        assert ledger.memories.get(roast.id).confidence == 0.5
        assert ledger.interactions.get(turn.id).reinforcement == "undone"
        ledger.interactions.reinforce(turn.id)
        assert ledger.memories.get(roast.id).confidence == raised


def test_an_undo_moves_no_memory_that_was_only_reinforced_by_the_same_turn(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        roast = ledger.remember("The user prefers dark roast coffee.", kind="preference", confidence=0.7, project="p")
        ledger.capture("Tea?", DECIDED, project="p")
        ledger.jobs.run()
        (found,) = ledger.review()
        ledger.promote(found.id)
        restated = "The user prefers dark roast coffee. Keep the kettle on the upper shelf."
        ledger.capture("And?", restated, project="p")
        raised = ledger.memories.get(roast.id).confidence
        assert raised > 0.7 and ledger.memories.get(found.id).reference_count == 1
        position = newest(ledger, "CandidatesExtracted")
        plan = ledger.undo(position, cascade=True, dry_run=True)
        assert roast.id not in plan.subjects and found.id in plan.subjects
        undone = ledger.undo(position, cascade=True)
        assert ledger.memories.get(roast.id).confidence == raised
        before = ledger.position
        ledger.jobs.run(jobs=["reinforcement"])
        assert ledger.position == before
        ledger.redo(undone.command_id or "")
        assert ledger.memories.get(found.id).reference_count == 1
        assert ledger.memories.get(roast.id).confidence == raised
