"""``expected`` is compare-and-set: a write is refused where what it changes was changed after the position it names."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import probe
import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # where the product is installed without its tools
    sys.path.insert(0, str(ROOT))

from ledger import ConflictError, RejectedError  # noqa: E402
from ledger.answers import AuditEntry  # noqa: E402
from ledger.api import Ledger  # noqa: E402
from ledger.types import EVERYTHING, Event, Project  # noqa: E402
from tools.public_surface import writes  # noqa: E402

LEDGER = "ledger"


def opened(path: Path) -> Ledger:
    return Ledger.open(path, user="ada", actor="planner")


def fill(ledger: Ledger) -> dict[str, Any]:
    """One subject of each kind to command, by name."""
    the: dict[str, Any] = {"fact": ledger.remember("The user prefers dark roast coffee.", tags=["drinks"]).id}
    the["other"] = ledger.remember("The user has a red bicycle.").id
    the["idea"] = ledger.propose("The user is training for a marathon.").id
    the["gone"] = ledger.remember("The user lives in Oslo.").id
    ledger.retract(the["gone"])
    the["odd"] = ledger.remember("The user is a lighthouse.").id
    ledger.guards.quarantine(the["odd"])
    ledger.projects.add("atlas")
    ledger.projects.set_state("atlas", "status", "phase", "one")
    the["turn"] = ledger.capture("What do I drink?", session="talk").id
    the["said"] = ledger.capture("And?", "Decision: the user prefers dark roast coffee.", reinforce=False).id
    undone = ledger.remember("The user owns a boat.")
    ledger.undo(undone.position)
    the["undone"], the["to undo"] = undone.position, ledger.remember("The user owns a kite.").position
    the["paper"] = ledger.documents.add("# Porto\n\nThe bridge is high.\n", title="Porto").id
    the["removed"] = ledger.documents.add("# Oslo\n\nThe fjord is deep.\n", title="Oslo").id
    ledger.documents.remove(the["removed"])
    for origin in ("eve", "mallory"):
        ledger.bind(actor=origin).remember(f"The moon is of cheese, says {origin}.")
    ledger.history.distrust("mallory", kind="actor")
    ledger.remember("The user sold a car.", correlation_id="run-1")
    the["hold"] = ledger.holds.add(Project("atlas")).id
    ledger.policy.set(gain=0.03)
    ledger.erase(ledger.remember("Something of yesterday.").id)
    chat = ledger.session("chat")
    for half in range(2):
        with ledger.batch():
            for number in range(half * 80, half * 80 + 80):
                said = chat.append("user" if number % 2 == 0 else "assistant", f"Message {number} about the sea. " * 20)
        chat.compact(force=True, summarizer=short)
    the["lisbon"], the["porto"] = (ledger.remember(f"Ana lives in {city}.").id for city in ("Lisbon", "Porto"))
    (conflict,) = ledger.conflicts.find().found
    alike = "The big red barn stands behind the old mill near the small river"
    the["barn"] = ledger.remember(f"{alike} bank.").id
    ledger.remember(f"{alike} bend.")
    (merge,) = ledger.merges.find(threshold=0.5).proposed
    the["conflict"], the["merge"], the["pair"] = conflict.id, merge.id, [each.id for each in merge.memories]
    ledger.graph.relate(the["fact"], "Ada", "drinks", "coffee")
    ledger.observations.add("The user likes things.", [the["fact"]])
    the["said last"] = said.position
    last, first = [each.id for each in chat.summaries.list()][:2]
    the["summary"], the["invalid"] = first, last
    chat.summaries.invalidate(last)
    for city in ("Oslo", "Bergen"):  # what conflicts.find, and merges.find, have not seen yet
        ledger.remember(f"Ben lives in {city}.", confidence=0.9)
    for often in ("", " often"):
        ledger.remember(f"Before noon the user{often} varnishes the long oars of the old ketch.")
    return the


def short(request: Any) -> str:
    """What stands in for a model."""
    return "They talked about the sea."


def again(text: str) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": "Message 0 about the sea. " * 20},
        {"role": "user", "content": text},
    ]


CALLS: dict[str, Callable[[Ledger, dict[str, Any], Any], Any]] = {
    "capture": lambda g, the, by: g.capture("Hello?", "Good day.", session="talk", append=True, **by),
    "remember": lambda g, the, by: g.remember("Tea is in the tin.", project="new", **by),
    "propose": lambda g, the, by: g.propose("Tea is in the tin.", **by),
    "promote": lambda g, the, by: g.promote(the["idea"], **by),
    "reject": lambda g, the, by: g.reject(the["idea"], **by),
    "revise": lambda g, the, by: g.revise(the["fact"], "The user prefers a dark roast.", **by),
    "supersede": lambda g, the, by: g.supersede(the["fact"], "The user prefers tea.", **by),
    "invalidate": lambda g, the, by: g.invalidate(the["fact"], **by),
    "retract": lambda g, the, by: g.retract(the["fact"], **by),
    "restore": lambda g, the, by: g.restore(the["gone"], **by),
    "reinforce": lambda g, the, by: g.reinforce(the["fact"], amount=0.01, **by),
    "undo": lambda g, the, by: g.undo(the["to undo"], **by),
    "redo": lambda g, the, by: g.redo(the["undone"], **by),
    "erase": lambda g, the, by: g.erase(the["other"], **by),
    "extract": lambda g, the, by: g.extract(the["said"], method="rules", **by),
    "conflicts.resolve": lambda g, the, by: g.conflicts.resolve(the["conflict"], keep=the["porto"], **by),
    "conflicts.accept": lambda g, the, by: g.conflicts.accept(the["conflict"], **by),
    "merges.apply": lambda g, the, by: g.merges.apply(the["merge"], **by),
    "merges.combine": lambda g, the, by: g.merges.combine(the["pair"], **by),
    "merges.reject": lambda g, the, by: g.merges.reject(the["merge"], **by),
    "graph.relate": lambda g, the, by: g.graph.relate(the["fact"], "Ada", "likes", "tea", **by),
    "graph.unrelate": lambda g, the, by: g.graph.unrelate(the["fact"], "Ada", "drinks", "coffee", **by),
    "observations.add": lambda g, the, by: g.observations.add("The user drinks.", [the["fact"]], **by),
    "documents.add": lambda g, the, by: g.documents.add("# Rome\n\nThe hills are seven.\n", title="Rome", **by),
    "documents.remove": lambda g, the, by: g.documents.remove(the["paper"], **by),
    "documents.restore": lambda g, the, by: g.documents.restore(the["removed"], **by),
    "guards.quarantine": lambda g, the, by: g.guards.quarantine(the["fact"], **by),
    "guards.release": lambda g, the, by: g.guards.release(the["odd"], **by),
    "history.distrust": lambda g, the, by: g.history.distrust("eve", kind="actor", **by),
    "history.trust": lambda g, the, by: g.history.trust("mallory", kind="actor", **by),
    "history.undo_all": lambda g, the, by: g.history.undo_all(correlation_id="run-1", **by),
    "holds.add": lambda g, the, by: g.holds.add(the["fact"], **by),
    "holds.remove": lambda g, the, by: g.holds.remove(the["hold"], **by),
    "interactions.add_response": lambda g, the, by: g.interactions.add_response(the["turn"], "Dark roast.", **by),
    "interactions.reinforce": lambda g, the, by: g.interactions.reinforce(the["said"], **by),
    "memories.set_confidence": lambda g, the, by: g.memories.set_confidence(the["fact"], 0.3, **by),
    "memories.set_validity": lambda g, the, by: g.memories.set_validity(the["fact"], valid_to="2030-01-01", **by),
    "memories.tag": lambda g, the, by: g.memories.tag(the["fact"], add=["roast"], **by),
    "observations.withdraw": lambda g, the, by: g.observations.withdraw([the["fact"]], **by),
    "conflicts.find": lambda g, the, by: g.conflicts.find(**by),
    "consolidate": lambda g, the, by: g.consolidate(method="grouping", **by),
    "merges.find": lambda g, the, by: g.merges.find(**by),
    "policy.set": lambda g, the, by: g.policy.set(gain=0.05, **by),
    "projects.add": lambda g, the, by: g.projects.add("boats", **by),
    "projects.add_alias": lambda g, the, by: g.projects.add_alias("atlas", "helper", **by),
    "projects.remove_state": lambda g, the, by: g.projects.remove_state("atlas", "status", "phase", **by),
    "projects.set_state": lambda g, the, by: g.projects.set_state("atlas", "status", "phase", "two", **by),
    "session.append": lambda g, the, by: g.session("chat").append("user", "One more.", **by),
    "session.set_abstract": lambda g, the, by: g.session("chat").set_abstract("About the sea.", **by),
    "session.compact": lambda g, the, by: g.session("chat").compact(1_000, until_under=True, summarizer=short, **by),
    "session.extract": lambda g, the, by: g.session("chat").extract(method="rules", **by),
    "session.skip_extraction": lambda g, the, by: g.session("chat").skip_extraction(until=the["said last"], **by),
    "session.reconcile": lambda g, the, by: g.session("chat").reconcile(again("Something else."), **by),
    "session.replace": lambda g, the, by: g.session("chat").replace(again("Something new."), **by),
    "session.truncate": lambda g, the, by: g.session("chat").truncate(3, **by),
    "session.clear": lambda g, the, by: g.session("chat").clear(**by),
    "session.add_alias": lambda g, the, by: g.session("chat").add_alias("talk of the sea", **by),
    "session.summaries.invalidate": lambda g, the, by: g.session("chat").summaries.invalidate(the["summary"], **by),
    "session.summaries.restore": lambda g, the, by: g.session("chat").summaries.restore(the["invalid"], **by),
    "session.summaries.rewrite": lambda g, the, by: g.session("chat").summaries.rewrite(
        the["summary"], summarizer=short, **by
    ),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    path = tmp_path_factory.mktemp("expected") / "memory.db"
    with opened(path) as ledger:
        the = fill(ledger)
    return path, the


@pytest.fixture
def ledger(filled: tuple[Path, dict[str, Any]], tmp_path: Path) -> Iterator[Ledger]:
    with opened(Path(shutil.copy(filled[0], tmp_path / "memory.db"))) as copy:
        yield copy


@pytest.fixture
def the(filled: tuple[Path, dict[str, Any]]) -> dict[str, Any]:
    return filled[1]


def recorded(ledger: Ledger) -> dict[int, AuditEntry]:
    return {each.position: each for each in ledger.history.audit(limit=1_000)}


def changed_last(ledger: Ledger, path: Path, call: Callable[[Ledger], Any]) -> int:
    """Where what a call changes first was changed last; 0 where it begins something. Tried on a copy."""
    ledger.maintenance.backup(path)
    with opened(path) as twin:
        known = recorded(twin)
        log = (call(twin), recorded(twin))[1]
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
    ledger: Ledger, the: dict[str, Any], tmp_path: Path, name: str
) -> None:
    call = CALLS[name]
    last = changed_last(ledger, tmp_path / "twin.db", lambda g: call(g, the, {}))
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
