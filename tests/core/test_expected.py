"""``expected`` is compare-and-set: a write is refused where what it changes was changed after the position it names."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import probe
import pytest
from writes import CALLS, fill, opened

from ledger import ConflictError, RejectedError
from ledger.answers import AuditEntry
from ledger.api import Ledger
from ledger.types import EVERYTHING, Event
from tools.pages.public_surface import writes

LEDGER = "ledger"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    path = tmp_path_factory.mktemp("expected") / "memory.db"
    with opened(path) as ledger:
        the = fill(ledger)
    return path, the


@pytest.fixture(scope="module")
def known(filled: tuple[Path, dict[str, Any]]) -> dict[int, AuditEntry]:
    """What the filled ledger recorded."""
    with opened(filled[0]) as ledger:
        return recorded(ledger, 1_000)


@pytest.fixture
def ledger(filled: tuple[Path, dict[str, Any]], tmp_path: Path) -> Iterator[Ledger]:
    with opened(Path(shutil.copy(filled[0], tmp_path / "memory.db"))) as copy:
        yield copy


@pytest.fixture
def the(filled: tuple[Path, dict[str, Any]]) -> dict[str, Any]:
    return filled[1]


def recorded(ledger: Ledger, limit: int) -> dict[int, AuditEntry]:
    return {each.position: each for each in ledger.history.audit(limit=limit)}


def changed_last(path: Path, known: dict[int, AuditEntry], call: Callable[[Ledger], Any]) -> int:
    """Where what a call changes first was changed last; 0 where it begins something. Tried on the file of a twin."""
    with opened(path) as twin:
        begin = twin.position
        log = (call(twin), known | recorded(twin, twin.position - begin))[1]
        new = [each for position, each in sorted(log.items()) if position not in known]
        things = {thing for each in new if each.command_id == new[0].command_id for thing in changed(each, log)}
    return max((position for position, each in known.items() if things & changed(each, known)), default=0)


def changed(entry: AuditEntry, log: dict[int, AuditEntry]) -> set[tuple[str, str]]:
    """What an event changes: its subject, or on the ledger's own stream what is of its type; an act what it names."""
    erased = entry.data.get("targets", ()) if entry.type == "ContentErased" else ()
    spans = [(each["position"],) * 2 for each in erased] or entry.data.get("ranges", ())
    named = [position for first, last in spans for position in range(first, last + 1)]
    of = [log[each] for each in named] or [entry]
    return {(each.subject, each.type if each.subject == LEDGER else "") for each in of}


def test_every_write_is_tried() -> None:
    assert sorted(set(writes()) - set(CALLS)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_a_write_is_refused_where_somebody_came_first(
    ledger: Ledger, filled: tuple[Path, dict[str, Any]], known: dict[int, AuditEntry], tmp_path: Path, name: str
) -> None:
    call, the = CALLS[name], filled[1]
    last = changed_last(Path(shutil.copy(filled[0], tmp_path / "twin.db")), known, lambda g: call(g, the, {}))
    before = ledger.position
    if last:
        with pytest.raises(ConflictError, match=f"position {last}|after the expected"):
            call(ledger, the, {"expected": last - 1})
        assert ledger.position == before and len(ledger.guards.refusals()) == 0
    call(ledger, the, {"expected": last})
    assert ledger.position > before


@pytest.mark.parametrize("name", ["revise", "policy.set", "projects.set_state"])
def test_it_holds_in_a_batch_too(ledger: Ledger, the: dict[str, Any], name: str) -> None:
    seen = ledger.position
    with ledger.batch():
        CALLS[name](ledger, the, {"expected": seen})
        now = ledger.position
        with pytest.raises(ConflictError):
            ledger.revise(the["fact"], "A third wording.", expected=1)
        if name == "revise":
            with pytest.raises(ConflictError):
                ledger.revise(the["fact"], "A third wording.", expected=seen)
        if name == "policy.set":
            with pytest.raises(ConflictError):
                ledger.policy.set(gain=0.07, expected=seen)
        assert ledger.position == now


def test_another_user_and_another_type_do_not_count(ledger: Ledger) -> None:
    seen = ledger.position
    ledger.bind(user="bob").policy.set(gain=0.5)
    ledger.holds.add()
    assert ledger.policy.set(gain=0.4, expected=seen).gain == 0.4


def test_a_repeated_command_is_answered_and_not_compared(ledger: Ledger, the: dict[str, Any]) -> None:
    seen = ledger.position
    ledger.revise(the["fact"], "Another wording.", expected=seen, idempotency_key="k")
    assert ledger.revise(the["fact"], "Another wording.", expected=seen, idempotency_key="k").replayed


def test_what_changes_nothing_conflicts_with_nothing(ledger: Ledger, the: dict[str, Any]) -> None:
    assert ledger.memories.tag(the["fact"], add=["drinks"], expected=1).id == the["fact"]
    assert ledger.revise(the["fact"], "The user prefers dark roast coffee.", expected=1).id == the["fact"]


@pytest.mark.parametrize("wrong", [True, -1, 1.5, "3", 2**63, 10**400, 10**6, b"1", [1]])
def test_what_is_no_position_of_the_log_is_rejected(ledger: Ledger, the: dict[str, Any], wrong: Any) -> None:
    before = ledger.position
    with pytest.raises(RejectedError):
        ledger.revise(the["fact"], "Another wording.", expected=wrong)
    assert ledger.position == before


ACTS: dict[str, Callable[[Ledger, dict[str, Any], Any], Any]] = {
    "undo": lambda g, the, by: g.undo(the["revised"], cascade=True, **by),
    "redo": lambda g, the, by: g.redo(the["revised"], **by),
    "distrust": lambda g, the, by: g.history.distrust("eve", kind="actor", **by),
    "trust": lambda g, the, by: g.history.trust("eve", kind="actor", cascade=True, **by),
    "erase": lambda g, the, by: g.erase(Event(the["revised"], ["data.reason"]), **by),
}


def revised(ledger: Ledger, act: str) -> dict[str, Any]:
    """A memory that eve reworded, as it stands just before the act."""
    fact = ledger.remember("Ana drinks tea.")
    the = {"fact": fact.id, "other": ledger.remember("Ben drinks milk.").id}
    the["revised"] = ledger.bind(actor="eve").revise(fact.id, "Ana drinks coffee.", reason="Heard so.").position
    if act == "redo":
        ledger.undo(the["revised"])
    if act == "trust":
        ledger.history.distrust("eve", kind="actor")
    return the


@pytest.mark.parametrize("act", ACTS)
def test_an_act_on_what_was_recorded_is_a_change_of_its_subject_and_of_no_other(tmp_path: Path, act: str) -> None:
    with opened(tmp_path / "memory.db") as ledger:
        the = revised(ledger, act)
        seen = ledger.position
        ACTS[act](ledger, the, {})
        before = ledger.position
        with pytest.raises(ConflictError, match=f"a change of {the['fact']} was recorded at position {seen + 1}"):
            ledger.memories.tag(the["fact"], add=["drinks"], expected=seen)
        assert ledger.position == before
        ledger.memories.tag(the["other"], add=["drinks"], expected=seen)
        ledger.memories.tag(the["fact"], add=["drinks"], expected=before)


def test_an_undo_that_leaves_nothing_and_its_redo_are_changes_too(ledger: Ledger) -> None:
    fact = ledger.remember("Ana drinks tea.")
    ledger.undo(fact.position)
    ledger.redo(fact.position)
    with pytest.raises(ConflictError):
        ledger.memories.tag(fact.id, add=["drinks"], expected=fact.position)


def test_a_policy_that_was_undone_meanwhile_is_another_policy(ledger: Ledger) -> None:
    ledger.policy.set(gain=0.06)
    seen = ledger.position
    ledger.bind(user="bob").policy.set(gain=0.5)
    ledger.bind(user="bob").undo(ledger.position)
    assert ledger.policy.set(gain=0.07, expected=seen).gain == 0.07
    seen = ledger.position
    ledger.undo(seen)
    with pytest.raises(ConflictError, match=f"position {seen + 1}"):
        ledger.policy.set(gain=0.08, expected=seen)


def test_what_expected_asks_is_found_by_an_index(ledger: Ledger, the: dict[str, Any]) -> None:
    asked: list[str] = []
    seen = ledger.position
    ledger.erase(the["other"])
    connection = probe.writing(ledger).cursor.connection
    connection.set_trace_callback(asked.append)
    ledger.revise(the["fact"], "Another wording.", expected=seen)
    connection.set_trace_callback(None)
    questions = [each for each in asked if re.search(rf"(position|erased_by) > {seen}$", each)]
    assert len(questions) == 4  # its events, the versions it had, the one it has, what was erased of it
    for each in questions:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {each}").fetchall()
        assert [line for *_, line in plan if line.startswith("SCAN")] == [], each


@pytest.mark.parametrize("act", ACTS)
def test_an_act_is_refused_where_what_it_changes_was_changed_meanwhile(tmp_path: Path, act: str) -> None:
    with opened(tmp_path / "memory.db") as ledger:
        the = revised(ledger, act)
        seen = ledger.position
        ledger.memories.tag(the["fact"], add=["drinks"])
        with pytest.raises(ConflictError, match=f"a change of {the['fact']} was recorded at position {seen + 1}"):
            ACTS[act](ledger, the, {"expected": seen})
        assert ledger.position == seen + 1
        ACTS[act](ledger, the, {"expected": seen + 1})
        assert ledger.position > seen + 1


@pytest.mark.parametrize("act", ACTS)
def test_an_act_is_not_refused_for_what_it_does_not_change(tmp_path: Path, act: str) -> None:
    with opened(tmp_path / "memory.db") as ledger:
        the = revised(ledger, act)
        seen = ledger.position
        ledger.memories.tag(the["other"], add=["drinks"])
        ledger.undo(ledger.remember("Cleo drinks water.").position)
        ledger.erase(the["other"])
        before = ledger.position
        ACTS[act](ledger, the, {"expected": seen})
        assert ledger.position > before


def test_an_erasure_is_refused_where_its_memory_was_revised_meanwhile(ledger: Ledger, the: dict[str, Any]) -> None:
    seen = ledger.position
    ledger.revise(the["fact"], "The user prefers a dark roast.")
    with pytest.raises(ConflictError, match=f"a change of {the['fact']} was recorded at position {seen + 1}"):
        ledger.erase(the["fact"], derived="erase", sources="cut", quotes="cut", expected=seen)
    assert ledger.memories.get(the["fact"]).content == "The user prefers a dark roast."


def test_undoing_a_policy_is_refused_where_another_was_adopted_meanwhile(ledger: Ledger) -> None:
    ledger.policy.set(gain=0.06)
    seen = ledger.position
    ledger.policy.set(gain=0.07)
    with pytest.raises(ConflictError, match=f"another PolicyAdopted was recorded at position {seen + 1}"):
        ledger.undo(seen, expected=seen)
    assert ledger.undo(seen, expected=seen + 1).events == 1


def test_a_whole_user_is_erased_in_parts_that_are_no_conflict_of_each_other(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.erasure.erasing.USER_EVENTS", 3)
    bob = ledger.bind(user="bob")
    fact = bob.remember("Bob drinks tea.").id
    for word in ("coffee", "milk", "water"):
        bob.revise(fact, f"Bob drinks {word}.")
    assert bob.erase(EVERYTHING, expected=ledger.position).earlier
