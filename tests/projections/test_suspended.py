"""While a projection is suspended, nothing is answered or decided otherwise than without that: it is as right, or refused by
name."""

from __future__ import annotations

import functools
import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import probe
import pytest
from conftest import LONG
from full import full
from reads import NOON, READS, answers, prepared, put

from ledger import Ledger, LedgerError, SuspendedError
from ledger.core.reads import read_event
from ledger.types import SessionName
from projections.core.projector import Projector, projections
from projections.core.rows import Table
from projections.core.subjects import EVERYTHING

NAMES = [each.name for each in projections(bytes(32))]
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # of the time at which it was made
TODAY = {"maintenance.stats now", "digest"}  # they look at what there is, whatever it is worth
TOLD = TODAY | {"maintenance.stats then"}


def opened(path, seed=5):
    return Ledger.open(path, clock=lambda: NOON, random=random.Random(seed).randbytes)


def suspend(path, name):
    """From its first event on: nothing may rest on what then stands in its tables, so here nothing does."""
    (projection,) = (each for each in projections(bytes(32)) if each.name == name)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE projections SET suspended_at = 2, error = 'ValueError' WHERE name = ?", (name,))
        for table in projection.tables:
            if isinstance(table, Table):
                connection.execute(f"DELETE FROM {table.name}")
            else:
                connection.execute(f"INSERT INTO {table.name} ({table.name}) VALUES ('delete-all')")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_read_answers_as_if_nothing_were_suspended_or_names_what_is(tmp_path, name):
    path = put(tmp_path / "memory.db")
    suspend(path, name)
    wrong = []
    reads = list(READS) if LONG else list(READS)[NAMES.index(name) % 2 :: 2]  # each with every second projection
    with opened(path) as ledger:
        for read in reads:
            try:
                found = repr(READS[read](ledger, prepared()[1]))
            except SuspendedError as error:
                assert error.projection == name and read not in TODAY
                continue
            without = f"the projection {name!r} is suspended" in found.replace("\\'", "'")  # a warning: no observations
            if found != answers()[read] and read not in TOLD and not without:
                wrong.append(read)
    assert not wrong


WRITES = {
    "remember": lambda g, the: g.remember("Ben lives in Bergen.", confidence=0.9),
    "remember new": lambda g, the: g.remember("A new thing.", entities=["Thing"], sources=(the["turn"],)),
    "remember of a chunk": lambda g, the: g.remember("A thing that was read.", sources=(the["chunk"],)),
    "remember in a project": lambda g, the: g.remember("The mast is down.", project="boat"),
    "remember in a session": lambda g, the: g.remember("The mast is down.", session="quay"),
    "propose": lambda g, the: g.propose("The user owns a boat."),
    "promote": lambda g, the: g.promote(the["candidate"]),
    "reject": lambda g, the: g.reject(the["candidate"]),
    "revise": lambda g, the: g.revise(the["free"], "Ben lives in Bergen, by the sea."),
    "revise of an observation": lambda g, the: g.revise(the["observation"], "They say so."),
    "supersede": lambda g, the: g.supersede(the["free"], "Ben lives in Rome."),
    "retract": lambda g, the: g.retract(the["free"]),
    "retract of an observation": lambda g, the: g.retract(the["observation"]),
    "invalidate": lambda g, the: g.invalidate(the["free"]),
    "retag": lambda g, the: g.memories.tag(the["free"], add=["home"]),
    "correct": lambda g, the: g.memories.correct(the["free"], kind="fact", project="boat", entities=["Ben"]),
    "set_validity": lambda g, the: g.memories.set_validity(the["free"], valid_to="2026-07-01"),
    "adjust": lambda g, the: g.memories.set_confidence(the["free"], 0.3),
    "reinforce": lambda g, the: g.reinforce(the["free"]),
    "reinforce by a turn": lambda g, the: g.reinforce(the["free"], source=the["turn"]),
    "relate": lambda g, the: g.graph.relate(the["free"], "Ben", "lives_in", "Bergen"),
    "capture": lambda g, the: g.capture("Where is Ben?", "In Bergen."),
    "capture in a session": lambda g, the: g.capture("Where is Ben?", "In Bergen.", session="quay", append=True),
    "capture with use": lambda g, the: g.capture(
        "Ben?", "Ben lives in Bergen.", memories_used=[the["free"]], reinforce=True
    ),
    "attach_response": lambda g, the: g.interactions.add_response(the["open"], "Ben lives in Bergen."),
    "extract": lambda g, the: g.extract(the["turn"]),
    "observe": lambda g, the: g.observations.add("Ben is at sea.", [the["free"], the["turn"], the["chunk"]]),
    "withdraw": lambda g, the: g.observations.withdraw([the["turn"]]),
    "consolidate": lambda g, the: g.consolidate(),
    "consolidate turns": lambda g, the: g.consolidate("interactions"),
    "register_project": lambda g, the: g.projects.add("Ship"),
    "add_alias": lambda g, the: g.projects.add_alias("boat", "the old one"),
    "set_state": lambda g, the: g.projects.set_state("boat", "status", "mast", "down"),
    "invalidate_state": lambda g, the: g.projects.remove_state("boat", "status", "mast"),
    "ingest": lambda g, the: g.documents.add("# Boats\n\nThe hull is of oak.\n", path="boats.md"),
    "remove_document": lambda g, the: g.documents.remove(the["document"]),
    "put a value": lambda g, the: g.values.put(("berths",), "north", "The dory."),
    "move a value": lambda g, the: g.values.move(("berths", "old"), "south", ("berths",), "south"),
    "remove a value": lambda g, the: g.values.remove(("berths",), "north"),
    "restore a value": lambda g, the: g.values.restore((), "flag"),
    "find_merges": lambda g, the: g.merges.find(threshold=0.5),
    "merge": lambda g, the: g.merges.combine(the["merge"]),
    "reject_merge": lambda g, the: g.merges.reject(the["merge"]),
    "find_conflicts": lambda g, the: g.conflicts.find(),
    "resolve": lambda g, the: g.conflicts.resolve(the["conflict"], keep=the["free"]),
    "resolve both": lambda g, the: g.conflicts.accept(the["conflict"]),
    "undo": lambda g, the: g.undo(the["given"], cascade=True),
    "redo": lambda g, the: g.redo(the["undone"]),
    "distrust": lambda g, the: g.history.distrust("sailor", kind="actor"),
    "distrust a document": lambda g, the: g.history.distrust(the["document"], kind="document"),
    "trust": lambda g, the: g.history.trust("mallory", kind="actor"),
    "erase": lambda g, the: g.erase(the["free"], derived="erase", sources="erase", quotes="erase").erased,
    "erase a session": lambda g, the: (
        g.erase(SessionName("quay"), derived="erase", sources="erase", quotes="erase").erased
    ),
    "erase a document": lambda g, the: g.erase(the["document"], derived="erase", quotes="erase").erased,
    "hold": lambda g, the: g.holds.add(the["free"]),
    "lift_hold": lambda g, the: g.holds.remove(g.holds.list()[0].id),
    "quarantine": lambda g, the: g.guards.quarantine(the["turn"]),
    "quarantine a memory": lambda g, the: g.guards.quarantine(the["free"]),
    "rescan": lambda g, the: g.guards.scan(),
    "adopt_policy": lambda g, the: g.policy.set(gain=0.1),
    "recall": lambda g, the: g.recall("tide", receipt=True).items,
    "append": lambda g, the: g.session("quay").append("user", "The tide turned again."),
    "append to a new one": lambda g, the: g.session("pier").append("user", "The tide turned again."),
    "truncate": lambda g, the: g.session("quay").truncate(3),
    "clear": lambda g, the: g.session("quay").clear(),
    "replace": lambda g, the: g.session("quay").replace([{"role": "user", "content": "All anew."}]),
    "reconcile": lambda g, the: g.session("quay").reconcile([{"role": "user", "content": "All anew."}]),
    "compact": lambda g, the: g.session("quay").compact(summarizer=lambda request: "They waited."),
    "set_summary": lambda g, the: g.session("quay").set_abstract("They wait."),
    "add_alias of a session": lambda g, the: g.session("quay").add_alias("wharf"),
    "assemble": lambda g, the: g.session("quay").window(2_000, receipt=True).items,
    "invalidate_summary": lambda g, the: g.session("quay").summaries.invalidate(the["summary"]),
    "extract of a session": lambda g, the: g.session("quay").extract(),
    "seed_extraction": lambda g, the: g.session("quay").skip_extraction(until=the["last"]),
    "expecting": lambda g, the: g.memories.tag(the["free"], add=["x"], expected=the["position"]),
}


def written(path, write):
    """(The answer or the refusal, what was appended) by a command; of errors only what a caller goes by."""
    with opened(path) as ledger:
        before = probe.store(ledger).head()[0]
        try:
            answer = full(WRITES[write](ledger, names()))
        except SuspendedError as error:
            answer = error
        except LedgerError as error:
            answer = repr(error)
        except Exception as error:
            answer = f"{type(error)}"
    with closing(sqlite3.connect(path)) as connection:
        sql = "SELECT stream, type, state FROM events WHERE position > ? ORDER BY position"
        appended = [
            row for row in connection.execute(sql, (before,)) if row[1] != "ErasureCompleted"
        ]  # of the file's size
    if isinstance(answer, str):
        answer = UUID.sub("-", answer)
    return answer, [(stream, type, UUID.sub("-", state)) for stream, type, state in appended]


@functools.cache
def more():
    """The bytes of that ledger with more in it to act on, and the names."""
    with TemporaryDirectory() as folder:
        path = put(Path(folder, "memory.db"))
        with opened(path, seed=6) as ledger:
            turn = ledger.bind(actor="sailor").capture("Where is Ben?", "He is at sea, as I said.", session="quay")
            undone = ledger.bind(actor="sailor").remember("The tide is out.")
            ledger.undo(undone.position)
            for city in ("Rome", "Oslo"):
                ledger.remember(f"Ana lives in {city}.", sources=(turn.id,))
            others = {
                "candidate": ledger.review()[0].id,
                "undone": undone.position,
                "turn": turn.id,
                "open": ledger.capture("Is Ana at sea?", session="quay", append=True).id,
            }
        return path.read_bytes(), prepared()[1] | others


def names():
    return more()[1]


def put_more(path):
    put(path).write_bytes(more()[0])
    return path


@functools.cache
def unsuspended(write):
    """What a command answers and appends where nothing is suspended."""
    with TemporaryDirectory() as folder:
        return written(put_more(Path(folder, "memory.db")), write)


def is_told(name, write, answer, appended):
    """Whether what is otherwise says so itself."""
    if any(type == "ReinforcementFailed" for _, type, _ in appended):
        return True  # the turn is captured, and that nobody could look for what it restates is recorded
    if name == "restatable" and "'reinforcement': 'pending'" in answer:
        return True  # the turn is written, and waits for the rebuild
    if any(f"the projection {name!r} is suspended" in state for _, _, state in appended):
        return True  # a pack without observations
    return (name, write) == ("projects", "merge") and "project='p_" in answer  # an id, where a name cannot be read


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_command_does_as_if_nothing_were_suspended_or_names_what_is_and_appends_nothing(tmp_path, name):
    wrong = []
    writes = list(WRITES) if LONG else list(WRITES)[NAMES.index(name) % 12 :: 12]  # each with every twelfth projection
    for number, write in enumerate(writes):
        path = put_more(tmp_path / f"{number}.db")
        suspend(path, name)
        answer, appended = written(path, write)
        if isinstance(answer, SuspendedError):
            if appended or answer.projection != name:
                wrong.append((write, answer.projection, [type for _, type, _ in appended]))
        elif (answer, appended) != unsuspended(write) and not is_told(name, write, answer, appended):
            wrong.append((write, answer, [type for _, type, _ in appended]))
    assert not wrong


def test_a_projection_suspended_earlier_in_an_event_is_not_folded_with_it(tmp_path):
    folded = []

    class Spy:
        name, version, follows, tables = "spy", 1, EVERYTHING, ()

        def fold(self, event, changes, rows):
            folded.append(event.type)

    class Wrong(Spy):
        name = "wrong"

        def fold(self, event, changes, rows):
            projector.leave_out({"spy"})
            raise KeyError("a defect")

    with Ledger.open(tmp_path / "memory.db") as ledger, probe.read(ledger) as connection:
        event = read_event(connection, 1)
    projector = Projector(bytes(32), log=None)
    projector.all = (Spy(), Wrong(), Spy())
    projector.fold(event, None)
    assert folded == ["LedgerCreated"] and projector.suspended == {"spy", "wrong"}
