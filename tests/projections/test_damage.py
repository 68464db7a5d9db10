"""Damage is told: a row that cannot be is named with its table, nothing is repaired but by a rebuild, and that from the log."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from random import Random

import probe
import pytest
from command_line import run
from reads import OTHERS, PUBLIC, READS, answers, methods, opened, prepared, put
from soundness import problems, types
from tampering import raw

from ledger import LedgerError, StorageError
from ledger.domain.errors import DamagedError
from ledger.types import Event
from projections.core.projector import projections
from projections.core.rows import Table

PAGE = 4_096
WRONG = {"TEXT": "x'80ff'", "INTEGER": "'none'", "BLOB": "'text'", "REAL": "'none'"}
EVERY = os.environ.get("HYPOTHESIS_PROFILE") == "long"


@pytest.fixture
def path(tmp_path):
    return put(tmp_path / "memory.db")


def test_every_read_of_the_public_surface_is_asked():
    found = {name for name, _ in methods()}
    assert found - OTHERS - PUBLIC.keys() == set(), "a new read has a line in PUBLIC of tests/reads.py"
    assert (OTHERS | PUBLIC.keys()) - found == set(), "what is gone has no line in tests/reads.py"


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


def log(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT position, state, head FROM events ORDER BY position").fetchall()


def change(path, sql, *values):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute(sql, values).rowcount > 0


def rebuilt(path, reads=tuple(READS)):
    """What reads answer after a rebuild, which touches the log no more than the damage did."""
    with opened(path) as ledger:
        probe.rebuild(ledger)
        assert problems(ledger) == []
        return {name: repr(READS[name](ledger, prepared()[1])) for name in reads}


# --- rows that cannot be ---------------------------------------------------------------------------------------------


NAMED = {  # what is wrong with which row, and who reads it
    "memories: of another type": ("UPDATE memories SET content = x'80ff' WHERE row = {memory}", "memories.get now"),
    "memories: no list": ("UPDATE memories SET entities = '[\"a' WHERE row = {memory}", "memories.list now"),
    "memories: no such status": ("UPDATE memories SET status = 'activf' WHERE row = {memory}", "memories.get now"),
    "memories: no text at all": (
        "UPDATE memories SET content = CAST(x'80ff' AS TEXT) WHERE row = {memory}",
        "memories.get now",
    ),
    "memories: another subject": ("UPDATE memories SET id = 'm_0000' WHERE row = {memory}", "why now"),
    "interactions: no number": ("UPDATE interactions SET prompt_at = 'x'", "interactions.list now"),
    "interactions: no such event": ("UPDATE interactions SET prompt_at = 1", "interactions.list now"),
    "projects: no list": ("UPDATE projects SET state = '{{}}'", "projects.get now"),
    "sessions: of another type": ("UPDATE sessions SET recorded_at = x'05'", "sessions.list now"),
    "sessions: no such event": ("UPDATE sessions SET summary_at = 2 WHERE summary_at", "session.abstract now"),
    "messages: no list": ("UPDATE messages SET tools = '[' WHERE row = {message}", "session.messages now"),
    "summaries: no list": ("UPDATE summaries SET ranges = ''", "session.summaries.graph now"),
    "keyed_values: of another type": ("UPDATE keyed_values SET name = x'05'", "values.list now"),
    "keyed_values: an event that is none": ("UPDATE keyed_values SET content_at = 1", "values.list now"),
    "documents: of another type": ("UPDATE documents SET title = x'05'", "documents.list now"),
    "chunks: no list": ("UPDATE chunks SET heading_path = '5'", "documents.get now"),
    "merges: no list": ("UPDATE merges SET memories = 'x'", "merges.list now"),
    "conflicts: no list": ("UPDATE conflicts SET members = '[1]'", "conflicts.list now"),
    "observations: of another type": ("UPDATE observations SET confidence = 'much'", "observations.list now"),
    "audit: of another type": ("UPDATE audit SET recorded_at = x'00'", "at"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_a_read_names_the_table_of_a_row_that_cannot_be(path, name):
    """And goes on doing so, however often the file is opened, until a rebuild makes the row again."""
    sql, read = NAMED[name]
    the, table = prepared()[1], name.partition(":")[0]
    change(path, sql.format(memory=row_of(path, the["memory"]), message=the["message"]))
    before = log(path)
    for readonly in (True, False, False):
        with (
            opened(path, readonly=readonly) as ledger,
            pytest.raises(DamagedError, match=r"rebuild\(\) makes") as refused,
        ):
            READS[read](ledger, the)
        assert refused.value.table == table
    assert log(path) == before
    assert rebuilt(path, [read]) == {read: answers()[read]}
    assert log(path) == before


def row_of(path, id):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT row FROM memories WHERE id = ?", (id,)).fetchone()[0]


def other(column, type_, draw):
    """SQL for a value of another type, or for one flipped bit."""
    place, bit = draw.randrange(1, 9), 1 << draw.randrange(7)
    if type_ == "INTEGER" and draw.random() < 0.5:
        return f"{column} + {bit}"
    if type_ != "TEXT" or draw.random() < 0.5:
        return WRONG[type_]
    byte, after = f"char(unicode(substr({column}, {place}, 1)) | {bit})", f"substr({column}, {place} + 1)"
    return f"coalesce(substr({column}, 1, {place} - 1) || {byte} || {after}, {column} || '?')"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8 if EVERY else 1))
def test_whatever_is_wrong_with_a_row_no_other_error_reaches_the_caller(tmp_path, part):
    chosen, draw = columns(), Random(part)
    for number, (table, column, type_) in enumerate(chosen[part::8] if EVERY else draw.sample(chosen, 4)):
        path = folder_of(tmp_path, number)
        change(path, f"UPDATE OR REPLACE {table} SET {column} = {other(column, type_, draw)}")
        before = log(path)
        with opened(path, readonly=True) as ledger:
            for read in READS.values():
                try:
                    read(ledger, prepared()[1])
                except LedgerError:
                    continue
        assert log(path) == before
        assert rebuilt(path) == answers(), (table, column)


def folder_of(tmp_path, number):
    folder = tmp_path / str(number)
    folder.mkdir(mode=0o700)
    return put(folder / "memory.db")


# --- beside them -----------------------------------------------------------------------------------------------------


TALK = [{"role": "user", "content": "I row now."}, {"role": "assistant", "content": "Good."}]
COMMANDS = {
    "append": lambda g, s, the: s.append("user", "And on."),
    "replace": lambda g, s, the: s.replace(TALK),
    "compact": lambda g, s, the: s.compact(summarizer=lambda request: "They sailed.", force=True),
    "erase": lambda g, s, the: g.erase(Event(the["message"]), derived="erase", sources="erase", quotes="erase"),
    "consolidate": lambda g, s, the: g.consolidate(),
    "reinforce": lambda g, s, the: g.reinforce(the["free"], source=the["turn"]),
    "undo": lambda g, s, the: g.undo(the["given"], cascade=True),
    "remember": lambda g, s, the: g.remember("The rudder is new.", project="boat", idempotency_key="k"),
    "capture": lambda g, s, the: g.capture("The rudder?", "It is new, said Ben.", session="quay"),
    "put": lambda g, s, the: g.values.put(("berths",), "north", "The dory."),
    "ingest": lambda g, s, the: g.documents.add("# Sails\n\nA jib is a sail.\n", title="Sails"),
    "recall": lambda g, s, the: g.recall("tide", receipt=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_next_to_a_damaged_row_works_or_appends_nothing(tmp_path, name):
    the, draw = prepared()[1], Random(name)
    for number, (table, column, type_) in enumerate(columns() if EVERY else draw.sample(columns(), 3)):
        path = folder_of(tmp_path, number)
        change(path, f"UPDATE OR REPLACE {table} SET {column} = {WRONG[type_]}")
        with opened(path) as ledger:
            before, told = probe.store(ledger).head(), types(ledger)
            try:
                COMMANDS[name](ledger, ledger.session("quay"), the)
            except DamagedError:
                assert name == "erase" or probe.store(ledger).head() == before, (table, column)
            except LedgerError:
                continue
            assert "ProjectionSuspended" not in types(ledger)[len(told) :], (table, column)
            probe.rebuild(ledger)
            assert problems(ledger) == [], (table, column)


def test_a_damaged_row_is_told_inside_a_batch_and_nothing_of_the_batch_is_kept(path):
    change(path, "UPDATE sessions SET messages = 'many'")
    before = log(path)
    with opened(path) as ledger, pytest.raises(DamagedError), ledger.batch():
        ledger.remember("The rudder is new.")
        ledger.session("quay").append("user", "And on.")
    assert log(path) == before


# --- pages -----------------------------------------------------------------------------------------------------------


def roots(path):
    """The root page of every table of the projections."""
    names = {table.name for each in projections(bytes(32)) for table in each.tables if isinstance(table, Table)}
    with raw(path) as connection:
        found = connection.execute("SELECT name, rootpage FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name: page for name, page in found if name in names}


def spoil(path, pages):
    """Each page begins as none does, as a failing disk would leave it while no process has the file open."""
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(b"\xff" * 64)


@pytest.mark.slow
def test_with_every_table_unreadable_the_ledger_opens_says_so_and_is_rebuilt(path):
    spoil(path, roots(path).values())
    the, before = prepared()[1], log(path)
    with opened(path) as ledger:
        for read in (
            "memories.get now",
            "session.messages now",
            "history.audit now",
            "documents.list now",
            "recall then",
        ):
            with pytest.raises(DamagedError):
                READS[read](ledger, the)
        for command in COMMANDS.values():
            with pytest.raises(StorageError):
                command(ledger, ledger.session("quay"), the)
    assert log(path) == before
    assert rebuilt(path) == answers()


@pytest.mark.parametrize("value", ["x'80ff'", "CAST(x'80ff' AS TEXT)", "'none'", "NULL"])
@pytest.mark.parametrize("column", ["ledger", "position", "head", "generation"])
def test_with_a_damaged_checkpoint_the_tables_do_not_fit_and_are_made_again(path, column, value):
    with raw(path) as connection:
        try:
            connection.execute(f"UPDATE checkpoint SET {column} = {value}")
        except sqlite3.IntegrityError:
            return
    with opened(path) as ledger:
        assert ledger.memories.list() and ledger.remember("The oars dry in the sun.").position == ledger.position


@pytest.mark.parametrize("command", ["history audit", "memories list", "why memory", "memories confidence memory"])
def test_the_command_line_says_that_a_time_is_damaged(path, command):
    the = prepared()[1]
    with raw(path) as connection:
        for table, columns in {"audit": ["recorded_at"], "memories": ["recorded_at", "valid_from"]}.items():
            connection.execute(f"UPDATE {table} SET " + ", ".join(f"{each} = 'none'" for each in columns))
        connection.execute("UPDATE confidence_steps SET recorded_at = 'none'")
    told = run(*(the.get(each, each) for each in command.split()), db=path)
    assert told.exit_code in (0, 4), told.output
    assert told.exit_code == 0 or "damaged" in told.output


def test_a_damaged_log_is_no_damaged_row_and_stays_as_it_is(path):
    the = prepared()[1]
    with raw(path) as connection:
        state = connection.execute("SELECT state FROM events WHERE position = ?", (the["message"],)).fetchone()[0]
    spoil(path, [path.read_bytes().index(state if isinstance(state, bytes) else state.encode()) // PAGE + 1])
    before = path.read_bytes()
    with opened(path) as ledger:
        for session in (ledger.session("quay"), ledger.at(the["position"]).session("quay")):
            with pytest.raises(StorageError, match=r"the file is damaged: proof.verify\(\) says where") as refused:
                session.messages(limit=1_000)
            assert not isinstance(refused.value, DamagedError)
    assert path.read_bytes() == before


def test_an_erasure_that_the_log_does_not_have_is_a_damaged_row(path):
    with opened(path) as ledger:
        ledger.erase(ledger.remember("A secret.").id)
    change(path, "UPDATE erasures SET act = ? WHERE position = (SELECT max(position) FROM erasures)", "01a20388")
    with opened(path) as ledger:
        with pytest.raises(DamagedError) as caught:
            ledger.erasures.list()
        assert caught.value.table == "erasures"
        probe.rebuild(ledger)
        assert all(each.state == "completed" for each in ledger.erasures.list())


@pytest.mark.slow
@pytest.mark.parametrize("text", [b"generation INTEGER", b"(ABORT, 'an event is never deleted"])
def test_a_schema_that_nobody_can_decode_is_made_again_from_the_sound_log(path, text):
    """A rebuild of the tables alone would leave it as it was, and the next look would call for another, for ever."""
    data, before = path.read_bytes(), log(path)
    assert text in data
    path.write_bytes(data.replace(text, text[:17] + b"\xd4" + text[18:], 1))
    assert rebuilt(path) == answers()
    assert log(path) == before


def test_a_name_in_the_schema_that_became_bytes_is_made_again_from_the_sound_log(path):
    """One bit of a record's header makes bytes of a text."""
    before = log(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET name = CAST(name AS BLOB) WHERE name = 'keys'")
    assert rebuilt(path) == answers()
    assert log(path) == before


def test_what_completed_an_erasure_and_cannot_be_read_is_no_error_of_python(path):
    with opened(path) as ledger:
        ledger.erase(ledger.remember("A secret.").id)
    change(path, "UPDATE erasures SET completed_at = 1")
    with opened(path) as ledger, pytest.raises(DamagedError):
        ledger.erasures.list()
    change(path, "UPDATE erasures SET completed_at = 1000000")
    with opened(path) as ledger, pytest.raises(DamagedError):
        ledger.erasures.list()


@pytest.mark.parametrize("parameters", ["'\x01\"gain\": 1}'", "'[]'", '\'{"gain": "much"}\''])
def test_a_policy_that_cannot_be_read_is_a_damaged_row(path, parameters):
    with opened(path) as ledger:
        ledger.policy.set(gain=0.05)
    with raw(path) as connection:
        connection.execute(f"UPDATE policies SET parameters = {parameters}")
    with opened(path) as ledger, pytest.raises(DamagedError) as told:
        ledger.policy.get().to_dict()
    assert told.value.table == "policies"
