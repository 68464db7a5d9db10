"""Whatever meets damaged projections has them mended and is done again: every read, and every command that recorded nothing."""

from __future__ import annotations

import functools
import inspect
import json
import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import msgspec
import pytest
from soundness import assert_sound, problems, types
from test_evolution import log_of
from test_rebuild import raw
from turns import adds

from ledger import Ledger, LedgerError, Session, StorageError
from ledger.moments import Moment
from ledger.rescue.doing_again import Unmended, is_done_again, mends
from ledger.sessions.session import PastSession
from projections.projector import projections
from projections.rows import Table

PAGE = 4_096
WRONG = {"TEXT": "x'80ff'", "INTEGER": "'none'", "BLOB": "'text'", "REAL": "'none'"}
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
IN_THEIR_OWN_WAY = {"backup", "doctor", "rebuild", "verify", "batch", "close"}  # test_doctor.py has more of them


def opened(path, **given):
    return Ledger.open(path, clock=lambda: NOON, **given)


@functools.cache
def prepared():
    """The bytes of a ledger with a bit of everything, and the names that it is asked by."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "memory.db")
        Ledger.import_log(log_of("1_conversations"), path)
        with opened(path) as ledger:
            names = _fill(ledger)
        return path.read_bytes(), names


def _fill(ledger):
    ledger.register_project("Boat")
    ledger.set_state("boat", "status", "mast", "up")
    for often in ("", " often"):
        ledger.remember(f"Before noon the user{often} varnishes the long oars of the old boat.", project="boat")
    ledger.find_merges()
    homes = [ledger.remember(f"Ben lives in {city}.", confidence=0.9) for city in ("Oslo", "Bergen")]
    ledger.find_conflicts()
    ledger.hold(homes[0].id, reason="case 12")
    ledger.distrust("mallory", kind="actor")
    ledger.erase(ledger.remember("The cellar floods.").id)
    ledger.propose("The user owns a boat.", source=ledger.interactions()[0].id)
    chat = ledger.session("quay")
    for number in range(60):
        chat.append("user", f"The tide turned {number} times, and I prefer to wait for it.")
    made = chat.compact(summariser=lambda request: "They waited for the tide.").created
    chat.set_summary("They sail.")
    assert made and ledger.merges() and ledger.conflicts() and ledger.review() and ledger.interactions()
    return {
        "memory": homes[0].id,
        "free": homes[1].id,
        "given": homes[0].position,
        "turn": ledger.interactions()[0].id,
        "document": ledger.documents()[0].id,
        "chunk": ledger.document(ledger.documents()[0].id).chunks[0].id,
        "observation": ledger.observations()[0].id,
        "conflict": ledger.conflicts()[0].id,
        "summary": made[0].id,
        "message": chat.messages()[0].position,
        "last": chat.messages()[-1].position,
        "recall": ledger.recall("tide", receipt=True).receipt,
        "assembly": chat.assemble(2_000, record=True).receipt,
        "position": ledger.position,
    }


@pytest.fixture
def path(tmp_path):
    return put(tmp_path / "memory.db")


def put(path):
    for suffix, said in (("", prepared()[0]), (".lock", b"")):
        each = Path(f"{path}{suffix}")
        each.touch(mode=0o600)
        each.write_bytes(said)
    return path


def roots(path):
    """The root page of every table of the projections, and of every index of one, by name."""
    names = {table.name for projection in projections(bytes(32)) for table in projection.tables}
    names |= {f"{name}_data" for name in names}
    with raw(path) as connection:
        found = connection.execute("SELECT name, tbl_name, rootpage FROM sqlite_master WHERE rootpage > 0").fetchall()
    return {name: page for name, table, page in found if table in names}


def spoil(path, pages):
    """Each page begins as none does, as a failing disk would leave it while no process has the file open."""
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(b"\xff" * 64)


@functools.cache
def unseen_by_open():
    """The pages that opening a ledger does not read, so that whoever asks first is the first to meet them."""
    with tempfile.TemporaryDirectory() as folder:
        path = put(Path(folder, "memory.db"))
        pages = dict(roots(path))
        for name, page in list(pages.items()):
            spoil(put(path), [page])
            with opened(path) as ledger:
                if ledger._mended:
                    del pages[name]
    return pages


@pytest.fixture
def damaged(path):
    """A ledger of which no table can be read that opening it does not read."""
    spoil(path, unseen_by_open().values())
    return path


def test_opening_reads_few_tables_and_mends_those(path):
    assert {"messages", "memories", "summaries", "edges", "holds", "quarantine"} <= unseen_by_open().keys()
    assert sorted(roots(path).keys() - unseen_by_open().keys()) == ["erasures"]


# --- reads -----------------------------------------------------------------------------------------------------------


OF_A_LEDGER = {  # of a moment too
    "audit": lambda g, the: g.audit(limit=500),
    "chunk": lambda g, the: g.chunk(the["chunk"]),
    "confidence": lambda g, the: g.confidence(the["memory"]),
    "conflict": lambda g, the: g.conflict(the["conflict"]),
    "conflicts": lambda g, the: g.conflicts(status="all"),
    "digest": lambda g, the: g.digest(beliefs=True),
    "distrusted": lambda g, the: g.distrusted(),
    "document": lambda g, the: g.document(the["document"], text=True),
    "documents": lambda g, the: g.documents(status="all"),
    "graph": lambda g, the: g.graph("ketch"),
    "history": lambda g, the: (g.history(the["memory"]), g.history(the["summary"]), g.history(the["observation"])),
    "interaction": lambda g, the: g.interaction(the["turn"]),
    "interactions": lambda g, the: g.interactions(),
    "memories": lambda g, the: g.memories(status="all"),
    "memory": lambda g, the: g.memory(the["memory"]),
    "merges": lambda g, the: g.merges(status="all"),
    "model_calls": lambda g, the: g.model_calls(),
    "observation": lambda g, the: g.observation(the["observation"]),
    "observations": lambda g, the: g.observations(),
    "policy": lambda g, the: g.policy(),
    "position": lambda g, the: g.position,
    "project": lambda g, the: g.project("boat"),
    "project_context": lambda g, the: g.project_context("boat"),
    "projects": lambda g, the: g.projects(),
    "quarantined": lambda g, the: g.quarantined(),
    "recall": lambda g, the: [each.id for each in g.recall("tide masts sea oars", among=("memories", "chunks")).items],
    "refusals": lambda g, the: g.refusals(),
    "review": lambda g, the: g.review(),
    "session": lambda g, the: g.session("quay").name,
    "sessions": lambda g, the: g.sessions(),
    "state": lambda g, the: g.state("boat", history=True),
    "stats": lambda g, the: msgspec.structs.replace(g.stats(), size_bytes=0, wal_bytes=0),
    "user_profile": lambda g, the: g.user_profile(),
    "valid": lambda g, the: getattr(g, "valid", None),
    "why": lambda g, the: (g.why(the["memory"]), g.why(the["observation"])),
}
OF_A_SESSION = {  # of one of the past too
    "assemble": lambda s, the: s.assemble(2_000, query="tide oars sea"),
    "dag": lambda s, the: s.dag(everything=True),
    "expand": lambda s, the: s.expand(the["summary"]),
    "grep": lambda s, the: (s.grep("tide turned"), s.grep("waited", everywhere=True)),
    "id": lambda s, the: s.id,
    "info": lambda s, the: s.info(),
    "message": lambda s, the: s.message(the["message"]),
    "messages": lambda s, the: s.messages(hidden=True),
    "name": lambda s, the: s.name,
    "summaries": lambda s, the: s.summaries(),
    "summary": lambda s, the: s.summary,
    "user": lambda s, the: s.user,
    "window": lambda s, the: s.window(),
}
OF_TODAY = {
    "at": lambda g, the: g.at(the["position"]).as_of,
    "diff": lambda g, the: g.diff(the["position"] - 60),
    "digest": lambda g, the: g.digest(),
    "erase": lambda g, the: [g.erase(each, dry_run=True) for each in (the["memory"], the["message"], the["document"])],
    "erasures": lambda g, the: g.erasures(),
    "holds": lambda g, the: g.holds(),
    "id": lambda g, the: g.id,
    "path": lambda g, the: Path(g.path).name,
    "receipts": lambda g, the: g.receipts(),
    "redactions": lambda g, the: g.redactions,
    "reopen": lambda g, the: g.reopen(the["recall"]),
    "session.reopen": lambda g, the: g.session("quay").reopen(the["assembly"]),
    "what_if": lambda g, the: g.what_if(without=the["given"]),
}
READS = {
    **OF_TODAY,
    **{f"{name} now": ask for name, ask in OF_A_LEDGER.items()},
    **{f"{name} then": lambda g, the, ask=ask: ask(g.at(the["position"]), the) for name, ask in OF_A_LEDGER.items()},
    **{
        f"session.{name} now": lambda g, the, ask=ask: ask(g.session("quay"), the) for name, ask in OF_A_SESSION.items()
    },
    **{
        f"session.{name} then": lambda g, the, ask=ask: ask(g.at(the["position"]).session("quay"), the)
        for name, ask in OF_A_SESSION.items()
    },
}


def test_every_read_is_looked_at_here():
    assert {name for name in dir(Moment) if not name.startswith("_")} - OF_A_LEDGER.keys() == set()
    assert {name for name in dir(PastSession) if not name.startswith("_")} - OF_A_SESSION.keys() == set()


@functools.cache
def answers():
    """What each read answers where nothing is damaged."""
    with tempfile.TemporaryDirectory() as folder, opened(put(Path(folder, "memory.db"))) as ledger:
        return {name: repr(ask(ledger, prepared()[1])) for name, ask in READS.items()}


@pytest.mark.parametrize("name", READS)
def test_a_read_that_meets_damaged_tables_answers_as_if_they_were_whole(damaged, name):
    with opened(damaged) as ledger:
        assert repr(READS[name](ledger, prepared()[1])) == answers()[name]
        assert ledger._mended <= 1
    with opened(damaged) as ledger:
        ledger.memories(), ledger.sessions(), ledger.at(1).position
        assert_sound(ledger)


def test_what_is_asked_of_a_damaged_session_is_mended_for_whoever_comes_next(path):
    spoil(path, [roots(path)["messages"]])
    with opened(path) as ledger:
        said = ledger.session("quay").messages()
        assert ledger._mended == 1
    with opened(path) as ledger:
        assert ledger.session("quay").messages() == said
        assert ledger._mended == 0


def test_a_read_that_is_given_what_can_be_gone_through_once_asks_to_be_called_again(path):
    spoil(path, [roots(path)["memories"]])
    with opened(path) as ledger:
        with pytest.raises(Unmended, match="call it again"):
            ledger.memories(status=iter(["active"]))
        assert ledger.memories(status=iter(["active"])) == ledger.memories()


def columns():
    """(table, column, its type) of every column of the projections that a row of the prepared ledger has something in."""
    found = []
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(sqlite3.connect(put(Path(folder, "memory.db")))) as connection,
    ):
        for table in (table for each in projections(b"") for table in each.tables):
            for column in getattr(table, "columns", ()) if isinstance(table, Table) else ():
                name, type_ = column.split()[:2]
                some = f"SELECT 1 FROM {table.name} WHERE {name} IS NOT NULL LIMIT 1"
                if not column.endswith("PRIMARY KEY") and connection.execute(some).fetchone():
                    found.append((table.name, name, type_))
    return found


EVERY = os.environ.get("HYPOTHESIS_PROFILE") == "long"


@pytest.mark.parametrize("part", range(8 if EVERY else 1))
def test_a_row_with_a_value_of_a_wrong_type_is_damage_and_no_mystery(tmp_path, part):
    """A damaged page may hold a number where a text was: a read mends it or says so, and ends with no TypeError."""
    chosen = columns()[part::8] if EVERY else Random(7).sample(columns(), 4)
    for number, (table, column, type_) in enumerate(chosen):
        (tmp_path / str(number)).mkdir(mode=0o700)
        path = put(tmp_path / str(number) / "memory.db")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(f"UPDATE OR REPLACE {table} SET {column} = {WRONG[type_]}")
        for read in READS.values():
            with suppress(LedgerError), opened(path, readonly=True) as ledger:
                read(ledger, prepared()[1])
        for name, read in READS.items():
            with suppress(LedgerError), opened(path) as ledger:
                found = repr(read(ledger, prepared()[1]))
                assert not ledger._mended or found == answers()[name], (table, column, name)
                if ledger._mended:
                    break


# --- commands --------------------------------------------------------------------------------------------------------


def _model(request):
    if request.purpose == "extraction":
        return json.dumps(adds("The user waits for the tide.", kind="fact"))
    return json.dumps({"actions": []})


def _summary(request):
    return "They waited for the tide, and sailed."


class _Vectors:
    name = "lengths"

    def embed(self, texts):
        return [[float(len(each)), 1.0] for each in texts]


ALL = {"derived": "erase", "sources": "erase", "quotes": "erase"}
TALK = [{"role": "user", "content": "I row now."}, {"role": "assistant", "content": "Good."}]
COMMANDS = {
    "append": lambda g, s, the: s.append("user", "And on."),
    "set_summary": lambda g, s, the: s.set_summary("They wait."),
    "truncate": lambda g, s, the: s.truncate(3),
    "clear": lambda g, s, the: s.clear(),
    "replace": lambda g, s, the: s.replace(TALK),
    "reconcile": lambda g, s, the: s.reconcile(TALK),
    "session.add_alias": lambda g, s, the: s.add_alias("pier"),
    "compact": lambda g, s, the: s.compact(summariser=_summary, force=True),
    "compact_until_under": lambda g, s, the: s.compact_until_under(200, summariser=_summary),
    "rebuild_summary": lambda g, s, the: s.rebuild_summary(the["summary"], summariser=_summary),
    "invalidate_summary": lambda g, s, the: s.invalidate_summary(the["summary"]),
    "seed_extraction": lambda g, s, the: s.seed_extraction(up_to=the["last"]),
    "extract by rules": lambda g, s, the: s.extract(),
    "extract by a model": lambda g, s, the: s.extract(model=_model),
    "extract a turn": lambda g, s, the: g.extract(the["turn"], model=_model),
    "assemble": lambda g, s, the: s.assemble(2_000, query="tide", record=True),
    "erase a memory": lambda g, s, the: g.erase(the["free"], **ALL),
    "erase a message": lambda g, s, the: g.erase(the["message"], **ALL),
    "erase a document": lambda g, s, the: g.erase(the["document"], **ALL),
    "erase a session": lambda g, s, the: g.erase(session="branch", **ALL),
    "consolidate": lambda g, s, the: g.consolidate(),
    "consolidate by a model": lambda g, s, the: g.consolidate(using="model"),
    "run_policies": lambda g, s, the: g.run_policies(),
    "run_policies with a model": lambda g, s, the: g.run_policies(),
    "work": lambda g, s, the: list(g.work()),
    "find_merges": lambda g, s, the: g.find_merges(),
    "merge": lambda g, s, the: g.merge(g.merges()[0].id),
    "resolve": lambda g, s, the: g.resolve(the["conflict"], keep=the["memory"]),
    "lift_hold": lambda g, s, the: g.lift_hold(the["memory"]),
    "distrust": lambda g, s, the: g.distrust("eve", kind="actor"),
    "undo": lambda g, s, the: g.undo(the["given"]),
    "remember": lambda g, s, the: g.remember("The rudder is new."),
    "capture": lambda g, s, the: g.capture("The rudder?", "It is new, said Ben.", session_id="quay"),
    "ingest": lambda g, s, the: g.ingest("# Sails\n\nA jib is a sail.\n", title="Sails"),
    "remove_document": lambda g, s, the: g.remove_document(the["document"]),
    "recall": lambda g, s, the: g.recall("tide", receipt=True),
    "rescan": lambda g, s, the: g.rescan(),
    "embed": lambda g, s, the: g.embed(model=_Vectors()),
    "checkpoint": lambda g, s, the: g.checkpoint(),
}


def _recorded_by(path, name):
    """What a command records, and how often the ledger was mended for it."""
    the = prepared()[1]
    with opened(path, model=_model if "model" in name else None) as ledger:
        COMMANDS[name](ledger, ledger.session("quay"), the)
        mended, recorded = ledger._mended, types(ledger)
        assert problems(ledger) == []
    return recorded, mended


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_meets_damaged_tables_records_what_it_would_have_recorded(damaged, tmp_path, name):
    (tmp_path / "whole").mkdir(mode=0o700)
    recorded, mended = _recorded_by(damaged, name)
    assert mended == 1
    assert recorded == _recorded_by(put(tmp_path / "whole" / "memory.db"), name)[0]


def _unreadable():
    error = StorageError("the ledger could not be read or written: the file is damaged")
    error.__cause__ = sqlite3.DatabaseError("database disk image is malformed")
    error.__cause__.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


@mends
class Forgetful(Ledger):
    """A door with a command that records something and only then meets damage, as often as it is told to."""

    times = 1
    calls = 0

    def tie_up(self, *, first=True):
        self.calls += 1
        if first:
            self.remember("The boat is tied up.")
        if self.times:
            self.times -= 1
            raise _unreadable()
        return "tied"


def test_a_command_that_recorded_something_is_not_done_again_and_says_so(path):
    with Forgetful.open(path) as ledger:
        before = ledger.position
        with pytest.raises(Unmended, match=r"tie_up met damaged projections half-way; .* call it again for the rest"):
            ledger.tie_up()
        assert (ledger.calls, ledger._mended, types(ledger)[before:]) == (1, 1, ["MemoryCaptured"])
        assert ledger.tie_up(first=False) == "tied"


def test_what_meets_damage_again_after_the_mending_is_not_mended_for_ever(path):
    with Forgetful.open(path) as ledger:
        ledger.times = 10
        with pytest.raises(Unmended, match="the disk may be failing"):
            ledger.tie_up(first=False)
        assert (ledger.calls, ledger._mended) == (2, 1)


# --- where nothing is mended -----------------------------------------------------------------------------------------


def test_a_damaged_log_is_told_by_every_read_and_left_alone(path):
    the = prepared()[1]
    with raw(path) as connection:
        state = connection.execute("SELECT state FROM events WHERE position = ?", (the["message"],)).fetchone()[0]
    page = path.read_bytes().index(state if isinstance(state, bytes) else state.encode()) // PAGE + 1
    spoil(path, [page])
    before = path.read_bytes()
    with opened(path) as ledger:
        for session in (ledger.session("quay"), ledger.at(the["position"]).session("quay")):
            with pytest.raises(StorageError, match="log is damaged"):
                session.messages()
        assert ledger._mended == 0
    assert path.read_bytes() == before


def test_a_reader_and_a_batch_are_told_who_can_mend_what_they_meet(path):
    spoil(path, [roots(path)["messages"]])
    before = path.read_bytes()
    with opened(path, readonly=True) as ledger:
        for session in (ledger.session("quay"), ledger.at(prepared()[1]["position"]).session("quay")):
            with pytest.raises(StorageError, match="in a ledger opened for reading nothing can be mended"):
                session.messages()
    assert path.read_bytes() == before
    with opened(path) as ledger:
        with pytest.raises(StorageError, match="inside of a batch nothing can be mended"), ledger.batch():
            ledger.session("quay").messages()
        assert ledger.session("quay").messages()


def test_a_check_of_everything_tells_of_damage_and_takes_none_away(path):
    spoil(path, [roots(path)["messages"]])
    before = path.read_bytes()
    with opened(path) as ledger:
        assert not ledger.verify().ok
    assert path.read_bytes() == before


# --- the house -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", [Ledger, Session, Moment, PastSession])
def test_everything_public_of_a_door_mends_what_it_meets(door):
    found = {name: inspect.getattr_static(door, name) for name in dir(door) if not name.startswith("_")}
    acts = {name for name, each in found.items() if inspect.isfunction(each) or isinstance(each, property)}
    assert {name for name in acts if not is_done_again(found[name])} == acts & IN_THEIR_OWN_WAY


def test_a_read_added_to_a_part_of_a_door_is_done_again_by_itself():
    class Part:
        def asked(self):
            return "public"

        def _looks(self):
            with self._read() as connection:
                return connection

        def _counts(self):
            return 1

    @mends
    class Door(Part):
        @property
        def stands(self):
            return "a property"

    mended = {
        name for name in ("asked", "_looks", "_counts", "stands") if is_done_again(inspect.getattr_static(Door, name))
    }
    assert mended == {"asked", "_looks", "stands"}
