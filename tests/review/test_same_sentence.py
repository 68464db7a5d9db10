"""The same sentence with another number or date is a conflict, in which the newer memory is offered as the one to keep."""

from __future__ import annotations

from pathlib import Path

import probe
import pytest
from conftest import Clock, folded_from_zero

from ledger.answers import Memory
from ledger.api import Ledger
from ledger.review.answers import Conflict

OLD, NEW = (f"The user's library has {count} sources." for count in (45, 52))
MEETING = [f"The meeting is on {day} May." for day in (3, 5, 9)]


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock):
    with Ledger.open(tmp_path / "memory.db", clock=clock) as opened:
        yield opened
        assert opened.proof.digest() == folded_from_zero(opened)


@pytest.fixture
def pair(ledger: Ledger) -> tuple[Memory, Memory]:
    return ledger.remember(OLD), ledger.remember(NEW)


def found(ledger: Ledger) -> Conflict:
    (conflict,) = ledger.conflicts.find().found
    return conflict


def contents(ledger: Ledger) -> list[str | None]:
    return [each.content for each in ledger.memories.list()]


def test_it_is_found_by_a_rule_of_its_own_and_decides_nothing(ledger: Ledger, pair: tuple[Memory, Memory]) -> None:
    conflict = found(ledger)
    assert (conflict.rule, conflict.attribute) == ("place/2", "the user's library has … sources")
    assert conflict.values == {pair[0].id: "45", pair[1].id: "52"}
    assert (conflict.status, conflict.newest) == ("open", pair[1].id)
    assert contents(ledger) == [NEW, OLD], "nothing is superseded by itself"
    position = ledger.position
    assert ledger.conflicts.find().found == () and ledger.jobs.run(jobs=["conflicts"]).conflicts == 0
    assert ledger.position == position


def test_to_keep_the_newest_supersedes_the_older(ledger: Ledger, pair: tuple[Memory, Memory]) -> None:
    conflict = found(ledger)
    done = ledger.conflicts.resolve(conflict.id, keep=conflict.newest or "")
    assert (done.status, done.winner, done.newest) == ("resolved", pair[1].id, None)
    old = ledger.memories.get(pair[0].id)
    assert (old.status, old.superseded_by) == ("superseded", pair[1].id)
    ledger.undo(done.position)
    assert ledger.conflicts.get(conflict.id).newest == pair[1].id and contents(ledger) == [NEW, OLD]


def test_the_newest_is_the_one_that_holds_since_last(ledger: Ledger) -> None:
    later = ledger.remember(MEETING[1], valid_from="2025-12-01")
    ledger.remember(MEETING[0], valid_from="2025-11-01")
    assert found(ledger).newest == later.id


def test_the_newest_of_any_conflict_is_named(ledger: Ledger) -> None:
    ledger.remember("Ana lives in Lisbon.")
    rome = ledger.remember("Ana lives in Rome.")
    conflict = found(ledger)
    assert (conflict.rule, conflict.newest) == ("place/2", rome.id)
    ledger.retract(rome.id)
    assert ledger.conflicts.get(conflict.id).newest is None


def test_the_policies_look_for_it(ledger: Ledger, pair: tuple[Memory, Memory]) -> None:
    assert ledger.jobs.run(jobs=["conflicts"]).conflicts == 1
    (conflict,) = ledger.conflicts.list()
    assert ledger.recall("how many sources has the library?").items[0].conflicts == (conflict.id,)
    assert ledger.merges.find(threshold=0.5).proposed == ()


def test_a_third_value_joins_and_both_can_be_accepted(ledger: Ledger) -> None:
    for text in MEETING[:2]:
        ledger.remember(text)
    conflict = found(ledger)
    third = ledger.remember(MEETING[2])
    assert (found(ledger).id, ledger.conflicts.get(conflict.id).newest) == (conflict.id, third.id)
    assert ledger.conflicts.accept(conflict.id).status == "resolved"
    assert ledger.conflicts.find().found == () and len(ledger.memories.list()) == 3


def test_other_names_projects_and_times_are_no_conflict(ledger: Ledger) -> None:
    for text in ("Ana has 2 cats.", "Ben has 3 cats.", "Ana likes tea.", "Ben likes tea."):
        ledger.remember(text)
    ledger.remember(MEETING[0], project="novel")
    ledger.remember(MEETING[1])
    ledger.remember(OLD, valid_from="2025-01-01", valid_to="2025-05-31")
    ledger.remember(NEW, valid_from="2025-06-01")
    ledger.propose(MEETING[2])
    assert ledger.conflicts.find().found == ()


def test_an_earlier_moment_shows_a_conflict_as_it_was_then(ledger: Ledger, pair: tuple[Memory, Memory]) -> None:
    before = ledger.position
    conflict = found(ledger)
    then = ledger.position
    ledger.conflicts.resolve(conflict.id, keep=pair[1].id)
    assert ledger.at(before).conflicts.list(statuses=[]) == []
    assert [(each.status, each.newest) for each in ledger.at(then).conflicts.list()] == [("open", pair[1].id)]


def test_a_member_that_says_the_same_by_now_ends_it(ledger: Ledger, pair: tuple[Memory, Memory]) -> None:
    conflict = found(ledger)
    ledger.revise(pair[0].id, "The user's library has 52 sources, all read.")
    assert ledger.conflicts.get(conflict.id).status == "lapsed"


def test_its_words_are_erased_with_a_member(ledger: Ledger, pair: tuple[Memory, Memory]) -> None:
    conflict = found(ledger)
    ledger.erase(pair[0].id)
    told = ledger.conflicts.get(conflict.id)
    assert (told.attribute, told.values, told.status, told.newest) == (None, {}, "lapsed", None)
    with probe.store(ledger).snapshot() as connection:
        states = [state for (state,) in connection.execute("SELECT state FROM events WHERE type = 'ConflictFound'")]
    assert states and not any("library" in state or '"45"' in state for state in states)
    assert ledger.proof.verify().ok


# --- what was undone -------------------------------------------------------------------------------------------------


def test_an_undone_conflict_does_not_come_back_with_the_next_run(
    ledger: Ledger, pair: tuple[Memory, Memory], clock: Clock
) -> None:
    assert ledger.jobs.run(jobs=["conflicts"]).conflicts == 1
    (conflict,) = ledger.conflicts.list()
    undone = ledger.undo(conflict.position)
    with Ledger.open(ledger.path, clock=clock) as other:  # which has looked at nothing yet
        assert other.jobs.run(jobs=["conflicts"]).conflicts == 0
    assert ledger.conflicts.find().found == () and ledger.conflicts.list(statuses=[]) == []
    ledger.redo(undone.command_id)
    assert [each.id for each in ledger.conflicts.list()] == [conflict.id]


def test_a_third_value_whose_find_was_undone_is_not_found_again(ledger: Ledger, pair: tuple[Memory, Memory]) -> None:
    conflict = found(ledger)
    third = ledger.remember("The user's library has 60 sources.")
    ledger.undo(found(ledger).position)
    assert {each.id for each in ledger.conflicts.get(conflict.id).memories} == {each.id for each in pair}
    assert ledger.conflicts.find().found == ()
    ledger.retract(third.id)
    assert ledger.conflicts.get(conflict.id).status == "open"


def test_what_a_distrusted_actor_found_is_found_again(ledger: Ledger, pair: tuple[Memory, Memory]) -> None:
    ledger.bind(actor="mallory").conflicts.find()
    ledger.history.distrust("mallory", kind="actor")
    assert ledger.conflicts.list(statuses=[]) == []
    assert found(ledger).newest == pair[1].id


def test_another_value_after_an_undo_is_found(ledger: Ledger, pair: tuple[Memory, Memory]) -> None:
    ledger.undo(found(ledger).position)
    third = ledger.remember("The user's library has 60 sources.")
    assert found(ledger).newest == third.id
