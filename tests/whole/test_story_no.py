"""A person's no, through a day: what was rejected or retracted does not come back because its turn was undone and said again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import folded_from_zero
from turns import Scripted, adds

from ledger import Ledger, NotFoundError, RejectedError

DECIDED, KETTLE = "Decision: keep the kettle on the upper shelf.", "keep the kettle on the upper shelf"


def said(ledger: Ledger, session: str | None = None) -> Any:
    """The turn is captured, the jobs read it, and what they kept waits."""
    turn = ledger.capture(
        "Please remember where the kettle goes.", DECIDED, session=session, append=session is not None
    )
    return turn, ledger.jobs.run(jobs=["extraction"])


def newest(ledger: Ledger, type_: str, subject: str | None = None) -> int:
    return ledger.history.audit(type=type_, subject=subject, limit=1)[0].position


def waiting(ledger: Ledger) -> list[str]:
    return [each.content or "" for each in ledger.review()]


def turned_down_and_gone(ledger: Ledger, how: str = "reject") -> tuple[str, Any]:
    """A candidate that ann turned down, whose turn was undone after that: its id, and the undo."""
    turn, _ = said(ledger)
    (found,) = ledger.review()
    getattr(ledger, how)(found.id, reason="not there")
    undone = ledger.undo(newest(ledger, "InteractionCaptured", turn.id), cascade=True)
    with pytest.raises(NotFoundError):
        ledger.memories.get(found.id)
    return found.id, undone


@pytest.mark.parametrize("how", ["reject", "retract"])
@pytest.mark.parametrize("by", ["rules", "model"])
@pytest.mark.parametrize("session", [None, "monday"])
def test_a_no_outlives_the_undo_of_its_turn_until_a_person_says_yes(
    tmp_path: Path, how: str, by: str, session: str | None
) -> None:
    path, reason = tmp_path / "memory.db", f"{how}ed"
    model = Scripted(adds(KETTLE, kind="adaptation")) if by == "model" else None
    with Ledger.open(path, actor="ann", model=model) as ledger:
        ledger.policy.set(admit="review")
        turn, first = said(ledger, session)
        assert first.candidates == 1
        (found,) = ledger.review()
        getattr(ledger, how)(found.id, reason="not there")
        plan = ledger.undo(newest(ledger, "InteractionCaptured", turn.id), cascade=True, dry_run=True)
        (no,) = plan.turned_down
        assert (no.subject, no.command) == (found.id, how) and KETTLE in no.why
        ledger.undo(newest(ledger, "InteractionCaptured", turn.id), cascade=True)
        again, second = said(ledger, session)
        assert second.candidates == 0 and waiting(ledger) == []
        if session is None and by == "rules":
            (dropped,) = ledger.extract(again.id).dropped
            assert (dropped["reason"], dropped["memory"]) == (reason, found.id), "the report says why"
        assert ledger.proof.digest() == folded_from_zero(ledger)
        assert said(ledger, session)[1].candidates == 0
        own = ledger.remember(KETTLE, kind="adaptation")
        assert ledger.memories.get(own.id).status == "active"
        ledger.supersede(own.id, "keep the kettle in the cellar from now on")
        assert said(ledger, session)[1].candidates == 1, "a person said it since"


def test_a_no_does_not_block_the_undo_of_what_it_was_said_to(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", actor="ann") as ledger:
        said(ledger)
        (found,) = ledger.review()
        ledger.reject(found.id)
        report = ledger.undo(newest(ledger, "CandidatesExtracted"))
        assert report.dependents == () and [each.subject for each in report.turned_down] == [found.id]
        assert said(ledger)[1].candidates == 0


def test_a_no_is_lifted_by_its_own_undo_and_stands_again_by_the_redo_of_that(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", actor="ann") as ledger:
        id, _ = turned_down_and_gone(ledger)
        lifted = ledger.undo(newest(ledger, "MemoryRejected", id))
        assert lifted.events == 1
        assert ledger.proof.digest() == folded_from_zero(ledger)
        ledger.redo(lifted.command_id or "")
        assert said(ledger)[1].candidates == 0
        ledger.undo(newest(ledger, "MemoryRejected", id))
        assert said(ledger)[1].candidates == 1


def test_a_no_that_was_undone_before_its_turn_is_no_no(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", actor="ann") as ledger:
        turn, _ = said(ledger)
        (found,) = ledger.review()
        ledger.reject(found.id)
        ledger.undo(newest(ledger, "MemoryRejected"))
        assert ledger.undo(newest(ledger, "InteractionCaptured", turn.id), cascade=True).turned_down == ()
        assert said(ledger)[1].candidates == 1


def test_a_no_that_was_restored_before_its_turn_was_undone_is_no_no(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", actor="ann") as ledger:
        turn, _ = said(ledger)
        (found,) = ledger.review()
        ledger.reject(found.id)
        ledger.restore(found.id)
        assert ledger.undo(newest(ledger, "InteractionCaptured", turn.id), cascade=True).turned_down == ()
        assert said(ledger)[1].candidates == 1


def test_the_redo_of_the_turn_brings_the_memory_back_as_it_was_turned_down(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", actor="ann") as ledger:
        id, undone = turned_down_and_gone(ledger)
        plan = ledger.redo(undone.command_id or "", dry_run=True)
        assert [(each.now, each.would_be and each.would_be.status) for each in plan.memories] == [(None, "invalid")]
        ledger.redo(undone.command_id or "")
        assert ledger.memories.get(id).status == "invalid"
        ledger.restore(id)
        assert waiting(ledger) == [KETTLE]


def test_a_tool_does_not_propose_what_a_person_turned_down_and_a_person_may(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", actor="ann") as ledger:
        id, _ = turned_down_and_gone(ledger)
        with pytest.raises(RejectedError, match="was rejected as") as refused:
            ledger.bind(channel="agent").propose(KETTLE, kind="adaptation")
        assert (refused.value.rule, refused.value.subject) == ("turned_down", id)
        assert ledger.propose(KETTLE, kind="adaptation").status == "candidate"


def test_a_no_holds_for_its_text_in_its_scope_only(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", actor="ann") as ledger:
        turned_down_and_gone(ledger)
        ledger.capture("Where does it go?", DECIDED, project="garden")
        ledger.bind(user="bob").capture("Where does it go?", DECIDED)
        assert ledger.jobs.run(jobs=["extraction"]).candidates == 2


def test_a_no_of_a_tool_goes_with_its_memory(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", actor="ann") as ledger:
        turn, _ = said(ledger)
        (found,) = ledger.review()
        ledger.bind(channel="tool").reject(found.id)
        ledger.undo(newest(ledger, "InteractionCaptured", turn.id), cascade=True)
        assert said(ledger)[1].candidates == 1


def test_the_no_of_who_is_distrusted_counts_no_more(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", actor="ann") as ledger:
        turn, _ = said(ledger)
        (found,) = ledger.review()
        ledger.bind(actor="eve").reject(found.id)
        ledger.undo(newest(ledger, "InteractionCaptured", turn.id), cascade=True)
        ledger.history.distrust("eve", kind="actor")
        assert said(ledger)[1].candidates == 1
        ledger.history.trust("eve", kind="actor")
        ledger.reject(ledger.review()[0].id)


def test_a_no_outlives_the_distrust_of_who_said_the_text(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", actor="ann") as ledger:
        ledger.bind(actor="eve").capture("Where does it go?", DECIDED)
        ledger.jobs.run(jobs=["extraction"])
        (found,) = ledger.review()
        ledger.reject(found.id)
        ledger.history.distrust("eve", kind="actor")
        assert said(ledger)[1].candidates == 0


def test_an_erasure_of_the_text_erases_the_no(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", user="ann") as ledger:
        turned_down_and_gone(ledger)
        turn = ledger.history.audit(type="InteractionCaptured", limit=1)[0].subject
        ledger.erase(turn, derived="erase", sources="erase", quotes="erase")
        assert said(ledger)[1].candidates == 1
        assert ledger.proof.digest() == folded_from_zero(ledger)


def test_a_moment_before_the_undo_still_shows_what_was_turned_down(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", actor="ann") as ledger:
        turn, _ = said(ledger)
        (found,) = ledger.review()
        ledger.reject(found.id)
        then = ledger.position
        ledger.undo(newest(ledger, "InteractionCaptured", turn.id), cascade=True)
        assert ledger.at(then).memories.get(found.id).status == "invalid"
        assert list(ledger.at(ledger.position).memories.list(statuses=())) == []


def test_a_dry_run_of_an_undo_shows_each_memory_with_its_text_status_and_confidence(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", actor="ann") as ledger:
        roast = ledger.remember("The user prefers dark roast coffee.", kind="preference", confidence=0.5)
        ledger.capture("Coffee?", "The user prefers dark roast coffee, as always.")
        plan = ledger.undo(newest(ledger, "ReinforcementEvaluated"), dry_run=True)
        (belief,) = plan.memories
        assert belief.now is not None and belief.would_be is not None
        assert (belief.id, belief.now.content, belief.would_be.status) == (roast.id, roast.content, "active")
        assert belief.now.confidence > belief.would_be.confidence == 0.5
        assert ledger.undo(newest(ledger, "ReinforcementEvaluated")).memories == ()
