"""A rebuild gives the same rows as the commands did, beside the live tables, whatever happens to it or meanwhile."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import needs
import probe
import pytest
from life import life
from soundness import assert_sound, contents, problems, tables, types
from tampering import TABLES, raw

from ledger import ConflictError, Ledger, RejectedError
from ledger.core.reads import FoldReading
from ledger.log.event_store import EventStore
from ledger.log.inspection import APPLICATION_ID
from ledger.log.sqlite_files import FORMAT, SCHEMA, no_tables
from projections.core import projector, rebuild
from projections.core.projector import projections
from projections.core.sqlite import SQLiteRows
from projections.core.subjects import EVERYTHING
from projections.views import memories


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


class Watched:
    """A projection, and in ``seen`` the tables that it looks into while it folds."""

    def __init__(self, inner, seen):
        self.name, self.follows, self.tables = inner.name, inner.follows, inner.tables
        self._inner, self._seen = inner, seen

    def fold(self, event, changes, rows):
        def watched(name):
            def look(table, *more):
                self._seen.add((self.name, table))
                return getattr(rows, name)(table, *more)

            return look

        looks = {name: watched(name) for name in ("get", "find", "within")}
        others = {name: getattr(rows, name) for name in ("put", "append", "remove", "index")}
        self._inner.fold(event, changes, SimpleNamespace(**looks, **others))


def test_no_projection_reads_another_that_does_not_take_it_along(path):
    """Which would be left with what the other one had said wrong, when that is made again by its name."""
    seen = set()
    with Ledger.open(path) as ledger:
        life(ledger)
        document = ledger.documents.add("# Kiln\n\nIt fires at 1,200 degrees.", idempotency_key="k9")
        ledger.documents.remove(document.id)
        ledger.session("chat").append("user", "The kiln is hot.", idempotency_key="k8")
        ledger.observations.add("The kiln is hot.", [ledger.remember("The kiln fires.").id])
        ledger.history.distrust("chat", kind="session")
        ledger.undo(ledger.position, cascade=True)
        with probe.store(ledger).snapshot() as connection, closing(sqlite3.connect(":memory:")) as copy:
            projector.create_all(copy, ledger.id)
            log = FoldReading(lambda: connection)
            fold = projector.Projector(probe.writer(ledger).secret, log)
            fold.all = tuple(Watched(each, seen) for each in fold.all)
            rows = SQLiteRows(copy)
            for event in log.events(1, ledger.position):
                fold.fold(event, rows)
            assert fold.poisoned == []
    owners = {table: each.name for each in projections(b"") for table in each.tables}
    owners = {table.name: name for table, name in owners.items()}
    read = {(reader, owners[table.name]) for reader, table in seen if owners[table.name] != reader}
    assert ("passages", "documents") in read and ("keys", "in_effect") in read
    assert read <= {(each.name, other) for each in projections(b"") for other in each.reads}
    assert [(reader, other) for reader, other in sorted(read) if reader not in projector.read_by(other)] == []
    for kind, owner in projector.OWNERS.items():
        follow = {each.name for each in projections(b"") if each.follows is not EVERYTHING and kind in each.follows}
        assert follow <= projector.read_by(owner), kind


def open_and_digest(path):
    with Ledger.open(path) as ledger:
        return ledger.proof.digest()


def in_a_child(work):
    """Runs work in a forked process, which opens the ledger itself; its exit code."""
    needs.fork()
    child = os.fork()
    if not child:
        code = 99
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(step, path):
    """A rebuild that dies on entering its n-th transaction or snapshot; whether it got that far."""

    def work():
        ledger, left = Ledger.open(path), [step]

        def counting(enter):
            def call(**how):
                left[0] -= 1
                if not left[0]:
                    os._exit(9)
                return enter(**how)

            return call

        probe.store(ledger).transact, probe.store(ledger).snapshot = (
            counting(probe.store(ledger).transact),
            counting(probe.store(ledger).snapshot),
        )
        probe.rebuild(ledger)

    code = in_a_child(work)
    assert code in (0, 9), f"the child ended with {code}"
    return code == 9


# --- the same rows ---------------------------------------------------------------------------------------------------


def test_a_rebuild_gives_the_rows_that_the_commands_gave_however_often(path):
    with Ledger.open(path) as ledger:
        life(ledger)
        digest = ledger.proof.digest()
        assert {probe.rebuild(ledger).digest for _ in range(3)} == {digest}
        assert_sound(ledger)


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "tail"), [(1, 0), (1, 1_000), (2, 3), (7, 0), (1_000, 0), (1_000, 1_000)])
def test_the_size_of_its_steps_changes_nothing(path, monkeypatch, batch, tail):
    with Ledger.open(path) as ledger:
        life(ledger)
        folded, found = ledger.proof.digest(), [hit.memory.id for hit in ledger.recall("coffee tea marathon").items]
        monkeypatch.setattr(rebuild, "BATCH", batch)
        monkeypatch.setattr(rebuild, "TAIL", tail)
        monkeypatch.setattr(rebuild, "EMPTYING", 2)
        assert probe.rebuild(ledger).digest == folded
        assert [hit.memory.id for hit in ledger.recall("coffee tea marathon").items] == found


@pytest.mark.slow
def test_progress_is_told_and_ends_with_everything(path, monkeypatch):
    monkeypatch.setattr(rebuild, "BATCH", 5)
    monkeypatch.setattr(rebuild, "TAIL", 2)
    with Ledger.open(path) as ledger:
        life(ledger)
        told = []
        report = probe.rebuild(ledger, progress=lambda done, of: told.append((done, of)))
        assert told[-1] == (ledger.position, ledger.position) == (report.events, report.events)
        assert len(told) > 3 and told == sorted(told)
        assert report.seconds > 0


@pytest.mark.slow
def test_a_progress_that_raises_stops_the_rebuild_and_harms_nothing(path, monkeypatch):
    monkeypatch.setattr(rebuild, "BATCH", 5)
    monkeypatch.setattr(rebuild, "TAIL", 2)
    with Ledger.open(path) as ledger:
        life(ledger)
        digest = ledger.proof.digest()

        def interrupt(done, of):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            probe.rebuild(ledger, progress=interrupt)
        assert ledger.proof.digest() == digest
        assert probe.rebuild(ledger).digest == digest, "the lease was given back"


# --- damage ----------------------------------------------------------------------------------------------------------


@cache
def lived():
    """The file of such a ledger, with its digest and all that its tables hold."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with Ledger.open(path) as ledger:
            life(ledger)
            digest, found = ledger.proof.digest(), contents(ledger)
        return path.read_bytes(), digest, found


def changed_tables(connection):
    projector.create_tables(connection)
    for statement in ("DROP TABLE memories", "CREATE TABLE memories (x)", "DROP TABLE keys"):
        connection.execute(statement)


@pytest.mark.parametrize("tables", [no_tables, projector.create_tables, changed_tables])
def test_a_file_that_was_made_and_never_begun_becomes_a_ledger(path, tables):
    """Whoever made it was killed before the first event, and may have been of another version."""
    EventStore.open(path, tables=tables).close()
    with Ledger.open(path) as ledger:
        ledger.remember("The user drinks tea.")
        assert_sound(ledger)


def test_a_new_ledger_is_what_its_statements_make(path):
    """Written as the bytes of a file, and SQLite finds nothing wrong with it."""
    Ledger.open(path).close()
    with closing(sqlite3.connect(path)) as made, closing(sqlite3.connect(":memory:")) as stated:
        stated.executescript(SCHEMA)
        projector.create_tables(stated)
        assert schema(made) == schema(stated)
        facts = {
            "application_id": APPLICATION_ID,
            "user_version": FORMAT,
            "journal_mode": "wal",
            "integrity_check": "ok",
        }
        assert {name: made.execute(f"PRAGMA {name}").fetchone()[0] for name in facts} == facts


def schema(connection):
    return connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()


@pytest.mark.parametrize("name", [*TABLES, "projections", "checkpoint"])
def test_a_dropped_table_comes_back_on_open(path, name):
    file, digest, found = lived()
    path.touch(mode=0o600)
    path.write_bytes(file)
    with raw(path) as connection:
        connection.execute(f"DROP TABLE {name}")
    with Ledger.open(path) as ledger:
        assert (ledger.proof.digest(), contents(ledger)) == (digest, found)
        assert ledger.recall("marathon").items


def test_every_table_dropped_comes_back_on_open(path):
    with Ledger.open(path) as ledger:
        life(ledger)
        digest = ledger.proof.digest()
    with raw(path) as connection:
        for name in (*TABLES, "projections", "checkpoint"):
            connection.execute(f"DROP TABLE {name}")
    assert open_and_digest(path) == digest


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM memories",
        "UPDATE memories SET content = 'forged', confidence = 1",
        "DELETE FROM keys",
        "UPDATE confidence_steps SET delta = delta + 1",
        "INSERT INTO voided VALUES (2, 3, 'x', 'CommandUndone')",
        "INSERT INTO search (search) VALUES ('delete-all')",
        "DELETE FROM leases",
    ],
)
def test_damaged_rows_come_back_by_a_rebuild(path, damage):
    with Ledger.open(path) as ledger:
        life(ledger)
        digest, found = ledger.proof.digest(), [hit.memory.id for hit in ledger.recall("marathon").items]
        assert found
    with raw(path) as connection:
        connection.execute(damage)
    with Ledger.open(path) as ledger:
        assert probe.rebuild(ledger).digest == digest
        assert [hit.memory.id for hit in ledger.recall("marathon").items] == found
        assert problems(ledger) == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE checkpoint SET position = position - 1",
        "UPDATE checkpoint SET position = position + 1",
        "UPDATE checkpoint SET position = 'here'",
        "UPDATE checkpoint SET head = zeroblob(32)",
        "UPDATE checkpoint SET ledger = 'another'",
        "DELETE FROM checkpoint",
        "DELETE FROM projections",
        "DELETE FROM projections WHERE name = 'memories'",
        "UPDATE projections SET version = 99 WHERE name = 'audit'",
        "UPDATE projections SET name = 'nobody' WHERE name = 'audit'",
        "INSERT INTO projections (name, version) VALUES ('more', 1)",
        "ALTER TABLE projections RENAME COLUMN suspended_at TO stopped_at",
    ],
)
def test_a_checkpoint_that_does_not_fit_the_log_means_a_rebuild_on_open(path, damage):
    with Ledger.open(path) as ledger:
        life(ledger)
        digest = ledger.proof.digest()
    with raw(path) as connection:
        connection.execute("DELETE FROM memories")
        connection.execute(damage)
    with Ledger.open(path) as ledger:
        assert ledger.proof.digest() == digest
        ledger.remember("and on")


def test_a_checkpoint_that_fits_means_no_rebuild_on_open(path, monkeypatch):
    with Ledger.open(path) as ledger:
        life(ledger)
    monkeypatch.setattr("ledger.care.rebuilding.rebuild", None)
    with Ledger.open(path) as ledger:
        assert contents(ledger)


# --- one at a time ---------------------------------------------------------------------------------------------------


def test_a_second_rebuild_at_the_same_time_is_a_conflict(path):
    with Ledger.open(path) as ledger, Ledger.open(path) as other:
        life(ledger)
        seen = []

        def meanwhile(done, of):
            for each in (ledger, other):
                with pytest.raises(ConflictError, match="another rebuild"):
                    probe.rebuild(each)
                seen.append(each)

        probe.rebuild(ledger, progress=meanwhile)
        assert seen
        assert probe.rebuild(other).digest == ledger.proof.digest()


def test_the_lease_of_a_dead_process_is_taken_over(path):
    with Ledger.open(path) as ledger:
        life(ledger)
        digest = ledger.proof.digest()
    assert killed_at(6, path)
    with raw(path) as connection:
        assert connection.execute("SELECT count(*) FROM leases").fetchone() == (1,)
    with Ledger.open(path) as ledger:
        assert probe.rebuild(ledger).digest == digest


@pytest.mark.slow
def test_a_lease_that_ran_out_is_taken_over_and_the_slow_one_stops(path, monkeypatch):
    monkeypatch.setattr(rebuild, "BATCH", 5)
    monkeypatch.setattr(rebuild, "TAIL", 2)
    with Ledger.open(path) as ledger, Ledger.open(path) as other:
        life(ledger)
        digest = ledger.proof.digest()
        rebuilt = []

        def stall(done, of):
            if not rebuilt:
                with probe.store(ledger).transact() as transaction:
                    transaction.connection.execute("UPDATE leases SET until = 0")
                rebuilt.append(probe.rebuild(other).digest)

        with pytest.raises(ConflictError, match="took over"):
            probe.rebuild(ledger, progress=stall)
        assert rebuilt == [digest] == [ledger.proof.digest()]
        assert_sound(ledger)


# --- killed ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_rebuild_killed_at_any_step_leaves_the_live_tables_whole_and_the_next_one_cleans_up(path, monkeypatch):
    monkeypatch.setattr(rebuild, "BATCH", 9)
    monkeypatch.setattr(rebuild, "TAIL", 5)
    monkeypatch.setattr(rebuild, "EMPTYING", 4)
    with Ledger.open(path) as ledger:
        life(ledger)
        digest, expected = ledger.proof.digest(), tables(ledger)
    step, left_something = 1, 0
    while killed_at(step, path):
        with Ledger.open(path) as ledger:
            assert ledger.proof.digest() == digest, f"killed at step {step}"
            left_something += tables(ledger) != expected
        step += 1 if step < 12 else 23
    assert step > 60 and left_something > 5, "the kills did not reach into the rebuild"
    with Ledger.open(path) as ledger:
        assert probe.rebuild(ledger).digest == digest
        assert tables(ledger) == expected
        ledger.remember("and on")
        assert_sound(ledger)


def indexes(ledger):
    """What every index is on: its table, its columns and condition, without the number in its name."""
    with probe.store(ledger).snapshot() as connection:
        told = connection.execute("SELECT tbl_name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
        return sorted((table, sql.split(" ON ", 1)[1].strip('"').replace('"', "")) for table, sql in told)


@pytest.mark.slow
@pytest.mark.parametrize("indexed", [1, 4_000_000])
def test_a_rebuild_makes_every_index_again_at_once_or_with_the_rows(path, monkeypatch, indexed):
    monkeypatch.setattr(rebuild, "BATCH", 9)
    monkeypatch.setattr(rebuild, "TAIL", 5)
    monkeypatch.setattr(rebuild, "INDEXED", indexed)
    with Ledger.open(path) as ledger:
        life(ledger)
        before, late = indexes(ledger), []
        make = rebuild.sqlite.create_indexes

        def made(connection, table, prefix="", **given):
            rows = connection.execute(f"SELECT count(*) FROM {prefix}{table.name}").fetchone()[0]
            late.append((table.name, rows)) if rows else None
            make(connection, table, prefix, **given)

        monkeypatch.setattr(rebuild.sqlite, "create_indexes", made)
        probe.rebuild(ledger)
        assert indexes(ledger) == before and len(before) > 20
        assert (dict(late).get("memories", 0) > 0) is (indexed > 1)
        assert_sound(ledger)


# --- meanwhile -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_commands_during_a_rebuild_are_in_its_result(path, monkeypatch):
    monkeypatch.setattr(rebuild, "BATCH", 5)
    monkeypatch.setattr(rebuild, "TAIL", 2)
    with Ledger.open(path) as ledger, Ledger.open(path) as other:
        life(ledger)
        count = []

        def meanwhile(done, of):
            if len(count) < 10:
                count.append(ledger.remember(f"meanwhile {len(count)}").id)
                other.projects.set_state("galley", "status", "door", str(len(count)))
                other.memories.set_confidence(count[0], len(count) / 10)
                if len(count) == 5:
                    other.undo(other.position)

        report = probe.rebuild(ledger, progress=meanwhile)
        assert len(count) > 5
        assert report.events >= ledger.position - 3, "the last call comes after the switch"
        assert {f"meanwhile {number}" for number in range(len(count))} <= contents(other)
        assert ledger.proof.digest() == other.proof.digest()
        assert_sound(ledger)


@pytest.mark.slow
def test_what_is_written_while_the_indexes_are_made_is_in_the_result(path, monkeypatch):
    monkeypatch.setattr(rebuild, "BATCH", 9)
    monkeypatch.setattr(rebuild, "TAIL", 5)
    make, made = rebuild.Rebuild._make_late_indexes, []
    with Ledger.open(path) as ledger, Ledger.open(path) as other:
        life(ledger)

        def meanwhile(self):
            make(self)
            made.extend(other.remember(f"meanwhile {number}").id for number in range(30))

        monkeypatch.setattr(rebuild.Rebuild, "_make_late_indexes", meanwhile)
        report = probe.rebuild(ledger)
        assert len(made) == 30 and report.events == ledger.position
        assert {each.id for each in ledger.memories.list()} >= set(made)
        monkeypatch.undo()
        assert_sound(ledger)


@pytest.mark.slow
def test_a_command_during_a_rebuild_waits_for_the_disk_and_the_rebuild_does_not(path, monkeypatch):
    monkeypatch.setattr(rebuild, "BATCH", 9)
    monkeypatch.setattr(rebuild, "TAIL", 5)
    waits = {"batch": set(), "between": set()}
    fold, flush = rebuild.Rebuild._fold_batch, rebuild.SQLiteRows.flush

    def asked(connection):
        return connection.execute("PRAGMA synchronous").fetchone()[0]

    def flushed(self, **options):
        if self.prefix == rebuild.FRESH and self.connection.in_transaction:
            waits["batch"].add(asked(self.connection))
        flush(self, **options)

    def folded(self, done):
        last = fold(self, done)
        with probe.store(ledger).transact() as transaction:
            waits["between"].add(asked(transaction.connection))
        with pytest.raises(RuntimeError), probe.store(ledger).transact(durable=False):
            raise RuntimeError
        with probe.store(ledger).transact() as transaction, probe.store(ledger).transact(durable=False):
            waits["between"].add(asked(transaction.connection))
        return last

    monkeypatch.setattr(rebuild.SQLiteRows, "flush", flushed)
    monkeypatch.setattr(rebuild.Rebuild, "_fold_batch", folded)
    full, normal = 2, 1
    with Ledger.open(path) as ledger:
        life(ledger)
        probe.rebuild(ledger)
        assert waits["between"] == {full}
        assert waits["batch"] == {normal, full}, "the switch itself waits"
        with probe.store(ledger).transact() as transaction:
            assert asked(transaction.connection) == full


@pytest.mark.slow
def test_a_thread_that_writes_all_the_time_does_not_keep_a_rebuild_from_ending(path, monkeypatch):
    monkeypatch.setattr(rebuild, "BATCH", 50)
    monkeypatch.setattr(rebuild, "TAIL", 10)
    stop, written = threading.Event(), []
    with Ledger.open(path) as ledger:

        def write():
            while not stop.is_set():
                written.append(ledger.remember(f"fact {len(written)}").id)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(3):
                before = len(written)
                while len(written) < before + 20:
                    time.sleep(0.001)
                probe.rebuild(ledger)
        finally:
            stop.set()
            thread.join()
        assert [memory.id for memory in ledger.memories.list(limit=1_000).all()] == written[::-1]
        assert_sound(ledger)


# --- versions --------------------------------------------------------------------------------------------------------


def test_a_changed_version_rebuilds_by_itself_on_open(path, monkeypatch):
    with Ledger.open(path) as ledger:
        life(ledger)
        before, rows = ledger.proof.digest(), contents(ledger, statuses=())
    with raw(path) as connection:
        connection.execute("DELETE FROM memories")
    monkeypatch.setattr(memories.MemoriesProjection, "version", 2)
    with Ledger.open(path) as ledger:
        assert contents(ledger, statuses=()) == rows
        assert ledger.proof.digest() != before, "the digest names the version"
        assert {each.version for each in ledger.maintenance.stats().projections if each.name == "memories"} == {2}
        assert_sound(ledger)


def test_a_process_with_older_tables_is_told_to_reopen(path, monkeypatch):
    with Ledger.open(path) as old:
        fact = old.remember("fact")
        with monkeypatch.context() as patch:
            patch.setattr(memories.MemoriesProjection, "version", 2)
            with Ledger.open(path) as new:
                new.remember("of the new version")
        position = old.position
        for call in (
            lambda: old.remember("more"),
            lambda: old.capture("prompt"),
            lambda: old.memories.get(fact.id),
            lambda: old.recall("fact"),
            lambda: old.history.audit(),
            lambda: old.proof.digest(),
        ):
            with pytest.raises(ConflictError, match="reopen"):
                call()
        assert old.position == position
    with Ledger.open(path) as again:
        assert contents(again) == {"fact", "of the new version"}
        assert_sound(again)


@needs.forks
@pytest.mark.slow
def test_processes_that_open_with_a_changed_version_at_once_all_succeed(path, monkeypatch):
    with Ledger.open(path) as ledger:
        life(ledger)
    monkeypatch.setattr(memories.MemoriesProjection, "version", 3)
    monkeypatch.setattr(rebuild, "BATCH", 3)
    monkeypatch.setattr(rebuild, "TAIL", 1)
    children = []
    for number in range(3):
        if not (child := os.fork()):
            code = 99
            try:
                with Ledger.open(path) as each:
                    each.remember(f"of {number}")
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    with Ledger.open(path) as ledger:
        assert {f"of {number}" for number in range(3)} <= contents(ledger)
        assert_sound(ledger)


def test_rebuilding_appends_nothing(path):
    with Ledger.open(path) as ledger:
        life(ledger)
        before = types(ledger)
        probe.rebuild(ledger)
        assert types(ledger) == before


def test_an_alias_is_not_put_back_when_its_name_stands_for_another_project_since(path):
    with Ledger.open(path) as ledger:
        ledger.projects.add("Kitchen")
        ledger.projects.add_alias("Kitchen", "galley")
        position = ledger.position
        ledger.undo(position)
        ledger.remember("x", project="galley")
        with pytest.raises(ConflictError, match="another project"):
            ledger.redo(position)
        assert contents(ledger, project="galley") == {"x"}
        assert_sound(ledger)


def test_a_rebuild_that_somebody_asks_for_is_recorded_and_one_on_opening_is_not(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with Ledger.open(path, actor="ann") as ledger:
        ledger.remember("Tea is in the tin.")
        position = ledger.position
        report = ledger.maintenance.rebuild()
        (entry,) = ledger.history.audit(type="ProjectionsRebuilt")
        assert (entry.data, entry.actor, entry.command) == ({"to": position}, "ann", "maintenance.rebuild")
        assert (ledger.position, report.digest) == (position + 1, ledger.proof.digest())
        with pytest.raises(RejectedError, match="cannot be undone"):
            ledger.undo(entry.position)
        with probe.store(ledger).transact() as transaction:
            transaction.connection.execute("UPDATE projections SET version = version - 1 WHERE name = 'memories'")
    with Ledger.open(path) as ledger:
        assert len(ledger.history.audit(type="ProjectionsRebuilt")) == 1 and [
            each.content for each in ledger.memories.list()
        ]


def test_the_digest_of_the_rows_is_equal_after_any_rebuild(ledger: Ledger) -> None:
    ledger.remember("The user likes tea.")
    digest = ledger.proof.digest()
    for name in (None, "memories", "audit"):
        report = ledger.maintenance.rebuild(name)
        assert ledger.proof.digest() == report.digest == digest
    assert [event.type for event in ledger.history.audit(command="maintenance.rebuild")] == ["ProjectionsRebuilt"] * 3
    ledger.remember("The user likes rye bread.")
    assert ledger.proof.digest() != digest == report.digest
