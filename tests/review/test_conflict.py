"""Contradictions are recorded, shown, and never settled silently."""

from __future__ import annotations

import threading
from pathlib import Path

import probe
import pytest
from absence import absent

from ledger import ConflictError, Ledger, NotFoundError, RejectedError

LISBON, ROME, ATHENS = (f"Ana lives in {city}." for city in ("Lisbon", "Rome", "Athens"))


@pytest.fixture
def pair(ledger: Ledger) -> tuple[str, str]:
    return ledger.remember(LISBON).id, ledger.remember(ROME).id


def found(ledger: Ledger) -> str:
    (conflict,) = ledger.conflicts.find().found
    return conflict.id


def members(ledger: Ledger, id: str) -> set[str]:
    conflict = ledger.conflicts.get(id)
    return {each.id for each in conflict.memories}


# --- finding ---------------------------------------------------------------------------------------------------------


def test_two_active_facts_of_one_slot_with_other_values_are_a_conflict(ledger: Ledger, pair: tuple[str, str]) -> None:
    ledger.remember("Ana plays tennis.")
    (told,) = ledger.conflicts.find().found
    assert (told.status, told.attribute, told.rule) == ("open", "ana lives in …", "place/2")
    assert told.values == dict(zip(pair, ("lisbon", "rome"), strict=True))
    assert [each.status for each in told.memories] == ["active", "active"]
    assert [each.id for each in ledger.conflicts.list()] == [told.id]


def test_looking_again_appends_nothing(ledger: Ledger, pair: tuple[str, str]) -> None:
    ledger.conflicts.find()
    position = ledger.position
    assert ledger.conflicts.find().found == ()
    assert ledger.jobs.run(jobs=("conflicts",)).conflicts == 0
    assert ledger.position == position


def test_the_policies_look_and_can_be_told_not_to(ledger: Ledger, pair: tuple[str, str]) -> None:
    ledger.policy.set(conflicts=False)
    assert ledger.jobs.run().conflicts == 0
    ledger.policy.set(conflicts=True)
    assert ledger.jobs.run().conflicts == 1
    ledger.remember("The deadline is Friday.")
    assert ledger.jobs.run().conflicts == 0
    ledger.remember("The deadline is Monday.")
    assert ledger.jobs.run().conflicts == 1  # with what was there before


def test_edges_of_a_relation_that_holds_one_value_conflict(ledger: Ledger) -> None:
    ledger.remember("Ana changed her job.", relations=[("Ana", "works_at", "Acme")])
    ledger.remember("Ana has a new office.", relations=[("Ana", "works_at", "Globex")])
    ledger.remember("Ana knows people.", relations=[("Ana", "knows", "Bob")])
    ledger.remember("Ana knows more people.", relations=[("Ana", "knows", "Eve")])
    (told,) = ledger.conflicts.find().found
    assert told.attribute == "ana: works_at" and set(told.values.values()) == {"acme", "globex"}


def test_two_memories_are_in_no_second_conflict_by_their_words(ledger: Ledger) -> None:
    for firm in ("Acme", "Globex"):
        ledger.remember(f"Ana works at {firm}.", relations=[("Ana", "works_at", firm)])
    (told,) = ledger.conflicts.find().found
    assert (told.attribute, told.rule) == ("ana: works_at", "edges/1")
    assert ledger.conflicts.find().found == ()


def test_different_kinds_may_conflict(ledger: Ledger) -> None:
    ledger.remember("The user indents with tabs.", kind="preference")
    ledger.remember("The user indents with spaces.", kind="knowledge")
    assert len(ledger.conflicts.find().found) == 1


def test_candidates_other_projects_other_users_and_the_quarantined_do_not_conflict(ledger: Ledger) -> None:
    ledger.remember(LISBON)
    ledger.propose(ROME)
    ledger.remember(ROME, project="novel")  # a project's own word is no contradiction of the general one
    ledger.bind(user="bob").remember(ROME)
    ledger.guards.quarantine(ledger.remember(ATHENS).id)
    assert ledger.conflicts.find().found == () and ledger.bind(user="bob").conflicts.find().found == ()


def test_what_was_so_at_other_times_does_not_conflict(ledger: Ledger) -> None:
    ledger.remember(LISBON, valid_from="2020-01-01T00:00:00Z", valid_to="2022-01-01T00:00:00Z")
    ledger.remember(ROME, valid_from="2022-01-01T00:00:00Z")
    assert ledger.conflicts.find().found == ()
    ledger.remember(ATHENS, valid_from="2021-12-31T00:00:00Z", valid_to="2022-01-01T00:00:00Z")
    assert [set(each.values.values()) for each in ledger.conflicts.find().found] == [{"lisbon", "athens"}]


def test_a_third_value_joins_the_open_conflict(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = found(ledger)
    third = ledger.remember(ATHENS).id
    assert found(ledger) == first
    assert members(ledger, first) == {*pair, third}
    assert len(ledger.conflicts.list(statuses=())) == 1


def test_a_slot_with_more_than_eight_memories_is_no_conflict(ledger: Ledger) -> None:
    with ledger.batch():
        for number in range(9):
            ledger.remember(f"The status is step {number}.")
    assert ledger.conflicts.find().found == ()


def test_several_ledgers_looking_at_once_record_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        ledger.remember(LISBON)
        ledger.remember(ROME)
    ledgers = [Ledger.open(path) for _ in range(4)]
    barrier = threading.Barrier(len(ledgers))
    failed: list[BaseException] = []

    def look(one: Ledger) -> None:
        try:
            barrier.wait()
            one.conflicts.find()
            one.jobs.run()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=look, args=(each,)) for each in ledgers]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failed
    assert len(ledgers[0].history.audit(type="ConflictFound")) == 1
    for each in ledgers:
        each.close()


# --- resolving -------------------------------------------------------------------------------------------------------


def test_what_is_kept_supersedes_the_others_in_one_append(ledger: Ledger, pair: tuple[str, str]) -> None:
    third = ledger.remember(ATHENS).id
    first = found(ledger)
    told = ledger.conflicts.resolve(first, keep=pair[1], reason="she moved")
    assert (told.status, told.action, told.winner, told.reason) == ("resolved", "keep", pair[1], "she moved")
    for loser in (pair[0], third):
        was = ledger.memories.get(loser)
        assert (was.status, was.superseded_by) == ("superseded", pair[1])
    assert [each.content for each in ledger.memories.list()] == [ROME]
    assert len({each.command_id for each in ledger.history.audit(command="conflicts.resolve")}) == 1
    assert ledger.conflicts.list() == []
    position = ledger.position
    assert ledger.conflicts.resolve(first, keep=pair[1]).status == "resolved"
    assert ledger.conflicts.find().found == () and ledger.position == position


def test_a_member_that_can_be_so_beside_the_winner_stays(ledger: Ledger, pair: tuple[str, str]) -> None:
    more = ledger.remember("Ana lives in Rome, Italy.").id
    ledger.conflicts.resolve(found(ledger), keep=pair[1])
    assert {each.id for each in ledger.memories.list()} == {pair[1], more}


def test_both_can_be_so_and_are_not_raised_again(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = found(ledger)
    assert ledger.conflicts.accept(first, reason="half the year each").status == "resolved"
    position = ledger.position
    ledger.conflicts.accept(first)
    assert ledger.conflicts.find().found == () and ledger.position == position
    assert len(ledger.memories.list()) == 2


def test_a_third_value_after_both_is_a_conflict_of_its_own(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = found(ledger)
    ledger.conflicts.accept(first)
    third = ledger.remember(ATHENS).id
    second = found(ledger)
    assert second != first and members(ledger, second) == {*pair, third}
    ledger.retract(third)
    assert ledger.conflicts.get(second).status == "lapsed"


def test_other_values_after_both_are_raised(ledger: Ledger, pair: tuple[str, str]) -> None:
    ledger.conflicts.accept(found(ledger))
    ledger.revise(pair[0], ATHENS)
    assert len(ledger.conflicts.find().found) == 1


def test_a_conflict_whose_member_leaves_is_settled_and_open_again_when_it_is_back(
    ledger: Ledger, pair: tuple[str, str]
) -> None:
    first = found(ledger)
    ledger.retract(pair[0])
    position = ledger.position
    assert [each.status for each in ledger.conflicts.list(statuses=())] == ["lapsed"]
    assert ledger.conflicts.list() == [] and [each.id for each in ledger.conflicts.list(statuses=("lapsed",))] == [
        first
    ]
    assert ledger.conflicts.find().found == () and ledger.position == position
    ledger.restore(pair[0])
    assert [each.id for each in ledger.conflicts.list()] == [first]
    ledger.revise(pair[0], "Ana lives in Rome, Italy.")
    assert ledger.conflicts.list() == []


def test_a_loser_that_is_restored_opens_the_conflict_again(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = found(ledger)
    ledger.conflicts.resolve(first, keep=pair[1])
    ledger.restore(pair[0])
    assert [each.id for each in ledger.conflicts.list()] == [first]
    assert ledger.conflicts.find().found == ()
    assert ledger.conflicts.resolve(first, keep=pair[0]).winner == pair[0]
    assert [each.id for each in ledger.memories.list()] == [pair[0]]


def test_what_cannot_be_kept_is_refused_with_what_can(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = found(ledger)
    other = ledger.remember("Ana plays tennis.")
    with pytest.raises(RejectedError, match="is not a member"):
        ledger.conflicts.resolve(first, keep=other.id)
    ledger.retract(pair[0])
    with pytest.raises(RejectedError, match="not active"):
        ledger.conflicts.resolve(first, keep=pair[0])
    with pytest.raises(NotFoundError):
        ledger.conflicts.accept("k_0123456789abcdef")
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").conflicts.accept(first)
    theirs = ledger.bind(user="bob").remember(LISBON)
    with pytest.raises(NotFoundError, match="of this user"):
        ledger.conflicts.resolve(first, keep=theirs.id)


def test_members_of_a_conflict_are_never_proposed_as_one(ledger: Ledger) -> None:
    words = "with her two dogs, her old piano, a garden full of roses and very many books"
    for city in ("Lisbon", "Rome"):
        ledger.remember(f"Ana lives in {city} {words}.", relations=[("Ana", "lives_in", city)])
    assert ledger.jobs.run().conflicts == 1
    assert ledger.merges.find(threshold=0.8).proposed == ()


# --- what is shown ---------------------------------------------------------------------------------------------------


def test_recall_and_why_show_an_open_conflict(ledger: Ledger, pair: tuple[str, str]) -> None:
    calm = ledger.remember("Ana likes living in a warm city.").id
    first = found(ledger)
    shown = {item.id: item.conflicts for item in ledger.recall("where does Ana live?").items}
    assert shown == {pair[0]: (first,), pair[1]: (first,), calm: ()}
    assert ledger.why(pair[0]).conflicts == (first,)
    given = ledger.recall("where does Ana live?", receipt=True)
    ledger.conflicts.resolve(first, keep=pair[0])
    again = ledger.reopen(given.receipt or "")
    assert again.items == given.items
    assert all(item.conflicts == () for item in ledger.recall("where does Ana live?").items)
    assert ledger.why(pair[0]).conflicts == ()


def test_an_earlier_moment_knows_the_conflict_as_it_was(ledger: Ledger, pair: tuple[str, str]) -> None:
    before = ledger.position
    first = found(ledger)
    then = ledger.position
    ledger.conflicts.resolve(first, keep=pair[1])
    assert ledger.at(before).conflicts.list(statuses=()) == []
    assert [each.status for each in ledger.at(then).conflicts.list()] == ["open"]
    assert ledger.at(then).conflicts.get(first).action == ""
    assert {item.conflicts for item in ledger.at(then).recall("where does Ana live?").items} == {(first,)}


# --- trust -----------------------------------------------------------------------------------------------------------


def test_an_undo_of_a_resolution_brings_everything_back(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = found(ledger)
    ledger.undo(ledger.conflicts.resolve(first, keep=pair[1]).position)
    assert [each.id for each in ledger.conflicts.list()] == [first] and len(ledger.memories.list()) == 2


def test_an_undo_of_the_find_takes_the_resolution_along(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = found(ledger)
    ledger.conflicts.resolve(first, keep=pair[1])
    found_at = ledger.history.audit(subject=first, type="ConflictFound")[0].position
    with pytest.raises(ConflictError, match="1 later command"):
        ledger.undo(found_at)
    ledger.undo(found_at, cascade=True)
    assert absent(ledger.conflicts.get, first) and len(ledger.memories.list()) == 2


def test_a_winner_that_is_undone_or_distrusted_gives_the_others_back(ledger: Ledger) -> None:
    loser = ledger.remember(LISBON)
    winner = ledger.bind(actor="mallory").remember(ROME)
    first = found(ledger)
    ledger.bind(actor="ana").conflicts.resolve(first, keep=winner.id)
    ledger.history.distrust("mallory", kind="actor")
    assert [each.id for each in ledger.memories.list()] == [loser.id]
    ledger.history.trust(ledger.history.distrusted()[0].command_id)
    assert [each.id for each in ledger.memories.list()] == [winner.id]
    ledger.undo(winner.position, cascade=True)
    assert [each.id for each in ledger.memories.list()] == [loser.id]


def test_the_words_of_an_erased_member_go_from_the_conflict_too(ledger: Ledger, pair: tuple[str, str]) -> None:
    first = found(ledger)
    report = ledger.erase(pair[0], derived="erase", sources="erase", quotes="erase")
    assert report.state == "completed"
    told = ledger.conflicts.get(first)
    assert (told.attribute, told.values, told.status) == (None, {}, "lapsed")
    with probe.store(ledger).snapshot() as connection:
        states = [state for (state,) in connection.execute("SELECT state FROM events")]
    assert not any("lisbon" in state.lower() for state in states)
    assert any("Rome" in state for state in states)
    assert ledger.proof.verify().ok
