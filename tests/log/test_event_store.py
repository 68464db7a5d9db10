"""The log in its file: what it takes and refuses, who waits for whom, and the library's own cases on our recorders."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import types
import unittest
from contextlib import closing, contextmanager
from pathlib import Path
from unittest import mock
from uuid import UUID, uuid4

import needs
import pytest
from eventsourcing import persistence
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from eventsourcing.persistence import StoredEvent
from probe import inside

from ledger import Ledger
from ledger.domain.errors import BusyError, ConflictError, LedgerError, NotFoundError, RejectedError, StorageError
from ledger.log import event_store, sqlite_files
from ledger.log.envelope import GENESIS, digest, link
from ledger.log.event_store import EventStore, LogRow
from ledger.log.integrity import check_chain
from ledger.log.sqlite_files import LedgerFile

try:
    from eventsourcing.tests import persistence as cases
except ImportError:  # it imports a cipher that needs a package of its own, for cases that are not ours
    cipher = types.ModuleType("eventsourcing.cipher")
    cipher.AESCipher = None
    with mock.patch.dict(sys.modules, {cipher.__name__: cipher}):
        from eventsourcing.tests import persistence as cases

ROOT = str(Path(event_store.__file__).parents[2])


@pytest.fixture
def store(tmp_path):
    store = EventStore.open(tmp_path / "memory.db")
    yield store
    store.close()


def happened(stream="m_1", version=1, type_="MemoryCaptured", state=b"{}"):
    return StoredEvent(stream, version, type_, state)


def append(store, *events, keys=()):
    with store.transact() as transaction:
        return transaction.append(events, keys)


def sound(store):
    rows = store.rows(limit=100_000)
    problems = check_chain(
        (r.position, r.stream, r.version, r.type, r.state, r.digest, r.head, r.erased_by) for r in rows
    )
    return list(problems) == [] and [r.position for r in rows] == list(range(1, len(rows) + 1))


def python(code, *arguments):
    """A program of its own, started while this one goes on."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *map(str, arguments)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, cwd=ROOT, text=True, **pipes)


def answers(program):
    out, errors = program.communicate()
    assert program.returncode == 0, errors
    assert errors == ""
    return out.split()


# --- appending and reading -------------------------------------------------------------------------------------------


def test_an_append_is_chained_and_read_back_as_it_was(store):
    positions = append(store, happened(), happened("m_2", 1, state='{"ü":"\x00"}'.encode()), keys=[b"k", None])

    first, second = store.rows()
    assert positions == [1, 2]
    one = digest(b"{}")
    head = link(GENESIS, 1, "m_1", 1, "MemoryCaptured", one)
    assert first == LogRow(1, "m_1", 1, "MemoryCaptured", "{}", one, head, b"k", None)
    assert second.state == '{"ü":"\x00"}'
    assert store.head() == (2, second.head)
    assert sound(store)


def test_an_empty_log_has_the_position_0_and_the_genesis_head(store):
    assert store.created
    assert store.head() == (0, GENESIS)
    assert store.rows() == []
    assert store.row(1) is None
    assert store.stream("m_1") == []


def test_reads_are_bounded_as_asked(store):
    append(store, *(happened("m_1", n) for n in range(1, 6)), happened("m_2", 1))

    assert [r.version for r in store.stream("m_1", 2, 4)] == [3, 4]
    assert [r.version for r in store.stream("m_1", 3)] == [4, 5]
    assert [r.position for r in store.rows(2, 4)] == [2, 3, 4]
    assert [r.position for r in store.rows(2, limit=2)] == [2, 3]
    assert store.row(6).stream == "m_2"


def test_a_uuid_stream_is_stored_in_hex(store):
    uuid = uuid4()
    append(store, happened(uuid))
    assert store.row(1).stream == uuid.hex


def test_nothing_to_append_is_fine(store):
    assert append(store) == []


def test_an_exception_leaves_nothing_behind(store):
    append(store, happened())
    with pytest.raises(RuntimeError), store.transact() as transaction:
        transaction.append([happened("m_1", 2)])
        transaction.put_blob("b_1", b"data")
        raise RuntimeError
    assert store.head()[0] == 1
    assert store.blob("b_1") is None
    append(store, happened("m_1", 2))
    assert sound(store)


def test_an_inner_transaction_is_the_outer_one(store):
    with store.transact() as outer:
        with store.transact() as inner:
            assert inner is outer
            inner.append([happened()])
        assert outer.position == 1
        assert outer.connection.in_transaction
    assert store.head()[0] == 1


def test_an_exception_that_leaves_only_the_inner_transaction_rolls_nothing_back(store):
    with store.transact() as outer:
        with pytest.raises(RuntimeError), store.transact() as inner:
            inner.append([happened()])
            raise RuntimeError
        outer.append([happened("m_1", 2)])
    assert store.head()[0] == 2


def test_a_close_after_a_commit_that_is_not_durable_leaves_the_file_alone(tmp_path):
    store = EventStore.open(tmp_path / "memory.db")
    with store.transact(durable=False) as transaction:
        transaction.append([happened()])
    store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory.db", "memory.db.lock"]


def test_the_product_registers_no_adapter_for_the_whole_process():
    program = """
        import sqlite3
        before = dict(sqlite3.adapters)
        import ledger, ledger.log.event_store, ledger.cli
        ledger.Ledger
        assert dict(sqlite3.adapters) == before, dict(sqlite3.adapters)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, cwd=ROOT)


def test_a_transaction_that_is_over_takes_nothing(store):
    with store.transact() as transaction:
        pass
    with pytest.raises(RejectedError):
        transaction.append([happened()])
    with store.transact(), pytest.raises(RejectedError):
        transaction.append([happened()])
    assert store.head()[0] == 0


def test_a_version_is_taken_once(store):
    append(store, happened())
    with pytest.raises(ConflictError, match="version"):
        append(store, happened())
    assert store.head()[0] == 1


def test_an_append_that_failed_half_way_is_never_committed(store):
    with pytest.raises(ConflictError), store.transact() as transaction, pytest.raises(ConflictError):
        transaction.append([happened(), happened("m_2"), happened()])
    assert store.head()[0] == 0


def test_after_a_single_refused_append_the_transaction_goes_on(store):
    append(store, happened())
    with store.transact() as transaction:
        with pytest.raises(ConflictError):
            transaction.append([happened()])
        transaction.append([happened("m_1", 2)])
    assert sound(store)
    assert store.head()[0] == 2


@pytest.mark.parametrize(
    "broken", [happened(state=b"\xff"), happened("m_\ud800"), happened(version=2**63), happened(type_="\udfff")]
)
def test_what_sqlite_cannot_store_is_rejected(store, broken):
    with pytest.raises(RejectedError):
        append(store, broken)
    assert store.head()[0] == 0


def test_keys_must_be_as_many_as_events(store):
    with pytest.raises(RejectedError):
        append(store, happened(), keys=[b"a", b"b"])


def test_blobs_are_kept_beside_the_log(store):
    with store.transact() as transaction:
        transaction.put_blob("b_1", b"\x00data")
        with pytest.raises(ConflictError):
            transaction.put_blob("b_1", b"other")
    assert store.blob("b_1") == b"\x00data"
    assert store.blob("b_2") is None


def test_a_log_can_be_copied_row_by_row(store, tmp_path):
    append(store, happened(), happened("m_1", 2))
    copy = EventStore.open(tmp_path / "copy.db")
    with copy.transact() as transaction:
        transaction.append_rows(iter(store.rows()))
        assert (transaction.position, transaction.head) == store.head()
        transaction.append([happened("m_1", 3)])
    assert copy.rows()[:2] == store.rows()
    assert sound(copy)
    with pytest.raises(ConflictError), copy.transact() as transaction:
        transaction.append_rows(store.rows())
    copy.close()


# --- deferring, savepoints, renewing ---------------------------------------------------------------------------------


def count(connection):
    return connection.execute("SELECT count(*) FROM events").fetchone()[0]


def test_deferred_rows_are_written_by_the_flush_and_by_the_commit(store):
    with store.transact() as transaction:
        transaction.deferred = True
        assert transaction.append([happened()]) == [1]
        assert transaction.version("m_1") == 1
        assert count(transaction.connection) == 0
        transaction.flush()
        assert count(transaction.connection) == 1
        assert transaction.version("m_1") == 1
        transaction.append([happened("m_1", 2)])
        assert transaction.version("m_1") == 2
        transaction.deferred = False
        transaction.append([happened("m_1", 3)])
        transaction.deferred = True
        transaction.append([happened("m_1", 4)])
    assert sound(store)
    assert store.head()[0] == 4


def test_a_read_inside_the_transaction_sees_deferred_rows(store):
    with store.transact() as transaction:
        transaction.deferred = True
        transaction.append([happened()])
        assert [r.position for r in store.rows()] == [1]


def test_a_deferred_row_that_is_refused_later_fails_the_commit(store):
    with pytest.raises(ConflictError), store.transact() as transaction:
        transaction.deferred = True
        transaction.append([happened()])
        transaction.append([happened()])
    assert store.head()[0] == 0
    with pytest.raises(ConflictError), store.transact() as transaction:
        append(store, happened())
        transaction.deferred = True
        transaction.append([happened()])
        with pytest.raises(ConflictError):
            transaction.flush()
    assert store.head()[0] == 0


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("flushed", [False, True])
def test_a_savepoint_undoes_what_happened_inside_and_nothing_else(store, deferred, flushed):
    with store.transact() as transaction:
        transaction.deferred = deferred
        transaction.append([happened("m_1", 1)])
        before, changes = (transaction.position, transaction.head), transaction.changes
        with pytest.raises(RuntimeError), transaction.savepoint():
            transaction.append([happened("m_1", 2)])
            with transaction.savepoint():
                transaction.append([happened("m_2", 1)])
            with pytest.raises(ValueError), transaction.savepoint():
                transaction.append([happened("m_2", 2)])
                if flushed:
                    transaction.flush()
                raise ValueError
            assert transaction.version("m_2") == 1
            raise RuntimeError
        assert (transaction.position, transaction.head) == before
        assert transaction.changes > changes
        changes = transaction.changes
        assert (transaction.version("m_1"), transaction.version("m_2")) == (1, 0)
        with transaction.savepoint():
            transaction.append([happened("m_1", 2)])
    assert [(r.stream, r.version) for r in store.rows()] == [("m_1", 1), ("m_1", 2)]
    assert sound(store)
    with store.transact() as transaction:
        assert transaction.changes > changes


def test_a_half_way_append_is_mended_by_its_savepoint(store):
    with store.transact() as transaction:
        with pytest.raises(ConflictError), transaction.savepoint():
            transaction.append([happened(), happened()])
        transaction.append([happened()])
    assert sound(store)


@pytest.mark.parametrize("deferred", [False, True])
def test_savepoints_of_a_renewed_transaction_take_back_only_what_came_after(store, tmp_path, deferred):
    with closing(EventStore.open(tmp_path / "memory.db")) as other, store.transact() as transaction:
        transaction.deferred = deferred
        transaction.append([happened()])
        with pytest.raises(RuntimeError), transaction.savepoint():
            transaction.append([happened("m_1", 2)])
            with transaction.savepoint():
                transaction.append([happened("m_1", 3)])
                transaction.renew()
                assert other.head()[0] == 3
                transaction.append([happened("m_1", 4)])
            with pytest.raises(ValueError), transaction.savepoint():
                transaction.append([happened("m_1", 5)])
                raise ValueError
            transaction.append([happened("m_1", 5)])
            raise RuntimeError
        assert (transaction.position, transaction.head) == other.head()
        transaction.append([happened("m_1", 4)])
    assert [r.version for r in store.rows()] == [1, 2, 3, 4]
    assert sound(store)


def test_a_renewed_transaction_has_committed_and_goes_on(store, tmp_path):
    other = EventStore.open(tmp_path / "memory.db")
    with pytest.raises(RuntimeError), store.transact() as transaction:
        transaction.deferred = True
        transaction.append([happened()])
        changes = transaction.changes
        transaction.renew()
        assert transaction.changes == changes
        assert other.head()[0] == 1
        transaction.append([happened("m_1", 2)])
        raise RuntimeError
    assert store.head()[0] == 1
    append(store, happened("m_1", 2))
    assert sound(store)
    other.close()


# --- who changed what ------------------------------------------------------------------------------------------------


def test_a_transaction_knows_whether_others_committed(store, tmp_path):
    other = EventStore.open(tmp_path / "memory.db")
    assert not other.created
    seen, known = [], {store: 0, other: 0}
    for writer in (store, store, other, store, store):
        with writer.transact() as transaction:
            seen.append(transaction.changes != known[writer])
            known[writer] = transaction.changes
            transaction.append([happened("m_1", transaction.version("m_1") + 1)])
    assert seen == [True, False, True, True, False]
    with pytest.raises(RuntimeError), store.transact():
        raise RuntimeError
    with store.transact() as transaction:
        assert transaction.changes > known[store]
    assert sound(store)
    other.close()


def test_a_snapshot_is_one_moment(store):
    append(store, happened())
    with store.snapshot() as connection:
        assert count(connection) == 1
        thread = threading.Thread(target=append, args=(store, happened("m_1", 2)))
        thread.start()
        thread.join()
        with store.snapshot() as again:
            assert again is connection
        assert count(connection) == 1
        with store.transact(), store.snapshot() as writer:
            assert writer is not connection
            assert count(writer) == 2
        assert store.head()[0] == 1
    assert store.head()[0] == 2


def test_a_snapshot_inside_a_transaction_is_its_connection(store):
    with store.transact() as transaction, store.snapshot() as connection:
        assert connection is transaction.connection


def test_threads_share_a_store(store):
    errors = []

    def write(name):
        try:
            for version in range(1, 26):
                with store.transact() as transaction:
                    assert transaction.version(name) == version - 1
                    transaction.append([happened(name, version)])
                store.head()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(f"m_{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert store.head()[0] == 200
    assert sound(store)


def test_two_stores_of_one_process_write_one_file(store, tmp_path):
    other = EventStore.open(tmp_path / "memory.db")
    threads = [
        threading.Thread(target=lambda s, n: [append(s, happened(n, v)) for v in range(1, 51)], args=(s, n))
        for s, n in ((store, "m_1"), (other, "m_2"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert store.head()[0] == 100
    assert sound(store)


WRITER = """
    import sys
    from eventsourcing.persistence import StoredEvent
    from ledger.log.event_store import EventStore
    store = EventStore.open(sys.argv[1])
    for version in range(1, int(sys.argv[3]) + 1):
        with store.transact() as transaction:
            transaction.append([StoredEvent(sys.argv[2], version, "T", b"{}")])
    print(int(store.created))
    store.close()
"""


def test_a_new_ledger_is_opened_with_a_connection_that_writes_and_one_that_reads(tmp_path, monkeypatch):
    Ledger.open(tmp_path / "first.db").close()  # makes the blank file that the others of a process begin with
    connect, opened = sqlite3.connect, []
    monkeypatch.setattr(sqlite3, "connect", lambda name, **how: (opened.append(name), connect(name, **how))[1])
    Ledger.open(tmp_path / "memory.db").close()
    assert [name.partition("?")[2] for name in opened] == ["mode=rw"] * 2


@pytest.mark.slow
def test_processes_that_open_the_same_new_file_all_succeed(tmp_path):
    opener = """
        import sys
        from ledger.log.event_store import EventStore
        for number in range(10):
            sys.stdin.readline()
            store = EventStore.open(f"{sys.argv[1]}/{number}.db")
            print(int(store.created), flush=True)
            store.close()
    """
    programs = [python(opener, tmp_path) for _ in range(4)]
    created = []
    for _ in range(10):
        for program in programs:
            program.stdin.write("\n")
            program.stdin.flush()
        created.append(sum(int(program.stdout.readline()) for program in programs))
    assert [answers(program) for program in programs] == [[]] * 4
    assert created == [1] * 10


@pytest.mark.slow
def test_processes_write_one_dense_chain(tmp_path):
    programs = [python(WRITER, tmp_path / "memory.db", f"m_{n}", 100) for n in range(4)]
    assert sorted(answer for program in programs for answer in answers(program)) == ["0", "0", "0", "1"]
    store = EventStore.open(tmp_path / "memory.db")
    assert store.head()[0] == 400
    assert sound(store)
    store.close()


def test_a_writer_that_finds_the_log_locked_waits_and_then_says_so(store, tmp_path):
    hasty = EventStore.open(tmp_path / "memory.db", busy_timeout_seconds=0.1)
    with store.transact():
        with pytest.raises(BusyError, match="longer than the timeout"):
            append(hasty, happened())
        with hasty.snapshot() as connection:
            assert count(connection) == 0
    append(hasty, happened())
    hasty.close()


def test_a_thread_that_waits_too_long_is_told(tmp_path):
    store = EventStore.open(tmp_path / "memory.db", busy_timeout_seconds=0.1)
    errors = []

    def write():
        try:
            append(store, happened())
        except LedgerError as error:
            errors.append(error)

    with store.transact():
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert [type(error) for error in errors] == [BusyError]
    store.close()


# --- what the triggers refuse ----------------------------------------------------------------------------------------

ANY = "zeroblob(32), zeroblob(32), NULL, NULL"


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM events",
        "DELETE FROM events WHERE position = 3",
        f"INSERT INTO events VALUES (5, 's', 1, 'T', '', {ANY})",
        f"INSERT INTO events VALUES (NULL, 's', 1, 'T', '', {ANY})",
        f"INSERT INTO events VALUES (0, 's', 1, 'T', '', {ANY})",
        f"INSERT INTO events VALUES (3, 's', 1, 'T', '', {ANY})",
        f"INSERT INTO events VALUES (4, 'm_1', 1, 'T', '', {ANY})",
        f"INSERT OR REPLACE INTO events VALUES (3, 's', 1, 'T', '', {ANY})",
        f"INSERT OR REPLACE INTO events VALUES (4, 'm_1', 1, 'T', '', {ANY})",
        f"REPLACE INTO events VALUES (1, 'm_1', 1, 'T', '', {ANY})",
        f"INSERT INTO events VALUES (3, 's', 1, 'T', '', {ANY}) ON CONFLICT DO UPDATE SET state = ''",
        "UPDATE events SET state = ''",
        "UPDATE events SET state = '', erased_by = NULL WHERE position = 1",
        "UPDATE events SET state = '', erased_by = 2 WHERE position = 1",
        "UPDATE events SET state = '', erased_by = 9 WHERE position = 1",
        *[
            f"UPDATE OR REPLACE events SET state = '', erased_by = 3, {column} WHERE position = 1"
            for column in ("position = 2", "position = 9", "stream = 's'", "version = 2", "type = 'T'")
        ],
        *[
            f"UPDATE events SET state = '', erased_by = 3, {column} WHERE position = 1"
            for column in ("digest = x'00'", "head = x'00'", "key = x'00'", "key = NULL")
        ],
        "DELETE FROM blobs",
        "INSERT INTO blobs VALUES ('b_1', x'00', NULL)",
        "INSERT OR REPLACE INTO blobs VALUES ('b_1', x'00', NULL)",
        "INSERT OR REPLACE INTO blobs (rowid, id, data) VALUES (1, 'b_2', x'00')",
        "UPDATE blobs SET data = x'00'",
        "UPDATE blobs SET data = NULL",
        "UPDATE blobs SET data = NULL, erased_by = 2",
        "UPDATE blobs SET data = x'00', erased_by = 3",
        "UPDATE OR REPLACE blobs SET data = NULL, erased_by = 3, id = 'b_2'",
    ],
)
def test_the_log_refuses(store, statement):
    append(store, happened(), happened("m_1", 2), happened("m_2", 1, "ContentErased"), keys=[b"key", None, None])
    with store.transact() as transaction:
        transaction.put_blob("b_1", b"data")
    before = store.rows()

    with pytest.raises(ConflictError), store.transact() as transaction:
        transaction.connection.execute(statement)

    assert store.rows() == before
    assert store.blob("b_1") == b"data"


def test_an_erasure_that_is_named_may_change_a_state_and_empty_a_blob(store):
    append(store, happened(), happened("m_1", 2, "ContentErased"), keys=[b"key", None])
    with store.transact() as transaction:
        transaction.put_blob("b_1", b"data")
        transaction.connection.execute("""UPDATE events SET state = '{"a":null}', erased_by = 2 WHERE position = 1""")
        transaction.connection.execute("UPDATE blobs SET data = NULL, erased_by = 2 WHERE id = 'b_1'")
    assert store.row(1).state == '{"a":null}'
    assert store.row(1).erased_by == 2
    assert store.blob("b_1") is None
    assert sound(store)


# --- where a ledger may lie ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "mode=memory",
        "file:x",
        "file:x?mode=memory",
        "a%20b",
        "%",
        "a?b=c",
        "a#b",
        "a b",
        "ü",
        "'\";--",
        "x:memory:",
        "-",
    ],
)
def test_a_name_is_only_a_name(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = EventStore.open(name)
    append(store, happened())
    assert store.path == str(tmp_path / name)
    assert (tmp_path / f"{name}-wal").exists()
    store.close()
    assert sorted(os.listdir(tmp_path)) == sorted([name, f"{name}.lock"])
    with EventStore.open(name, readonly=True).snapshot() as connection:
        assert count(connection) == 1


@pytest.mark.parametrize("name", [":memory:", "", "a\x00b"])
def test_a_name_of_no_file_is_rejected(name):
    with pytest.raises(RejectedError):
        EventStore.open(name)


def test_a_name_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(RejectedError, match="too long"):
        EventStore.open(tmp_path / ("x" * 300))


@needs.modes
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o277])
def test_the_files_belong_to_their_owner_alone(tmp_path, mask):
    before = os.umask(mask)
    try:
        store = EventStore.open(tmp_path / "memory.db")
        append(store, happened())
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    names = ("memory.db", "memory.db-shm", "memory.db-wal", "memory.db.lock")
    assert modes == dict.fromkeys(names, 0o600)


def refused(path, kind, **options):
    """Opening it is refused, and not a byte of it changes."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(kind) as caught:
        EventStore.open(path, **options)
    assert before is None or path.read_bytes() == before
    return str(caught.value)


@needs.named_pipes
def test_a_link_a_directory_and_a_pipe_are_rejected(tmp_path):
    EventStore.open(tmp_path / "memory.db").close()
    (tmp_path / "link.db").symlink_to(tmp_path / "memory.db")
    (tmp_path / "dangling.db").symlink_to(tmp_path / "nothing.db")
    os.mkfifo(tmp_path / "pipe.db")
    for name in ("link.db", "dangling.db", "pipe.db", ""):
        refused(tmp_path / name, RejectedError)
    assert not (tmp_path / "nothing.db").exists()


@needs.links
def test_a_linked_directory_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = EventStore.open(tmp_path / "link" / "memory.db")
    assert store.path == str(tmp_path / "real" / "memory.db")
    store.close()


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"dear diary " * 1000)
    for readonly in (False, True):
        assert refused(path, StorageError, readonly=readonly).startswith(f"{path} is not a ledger")
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_a_refused_file_keeps_the_lock_that_was_there(tmp_path):
    path, lock = tmp_path / "notes.txt", tmp_path / "notes.txt.lock"
    path.write_bytes(b"dear diary " * 1000)
    lock.touch()
    refused(path, StorageError)
    assert lock.exists()


def test_an_empty_file_is_told_as_such_to_who_reads_and_filled_by_who_writes(tmp_path):
    path = tmp_path / "memory.db"
    path.touch()
    assert "is an empty file, not a ledger" in refused(path, RejectedError, readonly=True)
    with Ledger.open(path) as ledger:
        assert ledger.remember("The lamp is green.").id


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
@pytest.mark.parametrize("statement", ["CREATE TABLE events (x)", "PRAGMA application_id = 7", "VACUUM"])
def test_a_database_of_another_program_is_rejected(tmp_path, mode, statement):
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute(f"PRAGMA journal_mode = {mode}")
    other.execute(statement)
    for readonly in (False, True):
        if path.stat().st_size:
            assert "another program" in refused(path, RejectedError, readonly=readonly)
            assert not (tmp_path / "other.db.lock").exists()
    other.close()
    if path.stat().st_size:
        refused(path, RejectedError)


def test_a_ledger_without_a_trigger_is_damaged(tmp_path):
    EventStore.open(tmp_path / "memory.db").close()
    connection = sqlite3.connect(tmp_path / "memory.db")
    connection.execute("DROP TRIGGER events_stay")
    connection.close()
    refused(tmp_path / "memory.db", StorageError)


@needs.modes
@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777, 0o770, 0o700])
def test_a_directory_that_others_may_write_is_rejected(tmp_path, mode):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(mode)
    if mode in (0o777, 0o757):
        refused(tmp_path / "shared" / "memory.db", RejectedError)
        assert os.listdir(tmp_path / "shared") == []
    else:
        EventStore.open(tmp_path / "shared" / "memory.db").close()


@needs.modes
def test_a_directory_of_another_group_is_rejected(tmp_path, monkeypatch):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o770)
    monkeypatch.setattr(os, "getegid", lambda: (tmp_path / "shared").stat().st_gid + 1)
    refused(tmp_path / "shared" / "memory.db", RejectedError)


def test_nothing_is_made_where_nothing_may_be(tmp_path):
    for options in ({"readonly": True}, {"create": False}):
        refused(tmp_path / "memory.db", NotFoundError, **options)
    refused(tmp_path / "nowhere" / "memory.db", NotFoundError)
    assert os.listdir(tmp_path) == []


@needs.modes
def test_an_empty_file_becomes_a_ledger(tmp_path):
    (tmp_path / "memory.db").touch()
    refused(tmp_path / "memory.db", LedgerError, readonly=True)
    store = EventStore.open(tmp_path / "memory.db")
    assert store.created
    assert stat.S_IMODE(os.stat(store.path).st_mode) == 0o600
    store.close()


def test_the_remains_of_a_killed_creation_are_cleared(tmp_path):
    for suffix in ("", "-journal", "-wal"):
        (tmp_path / f"memory.db.new.part{suffix}").write_bytes(b"half")
    EventStore.open(tmp_path / "memory.db").close()
    assert sorted(os.listdir(tmp_path)) == ["memory.db", "memory.db.lock"]


def test_a_wal_without_its_file_is_not_buried(tmp_path):
    store = EventStore.open(tmp_path / "memory.db")
    append(store, happened())
    wal = (tmp_path / "memory.db-wal").read_bytes()
    store.close()
    (tmp_path / "memory.db").unlink()
    (tmp_path / "memory.db-wal").write_bytes(wal)
    with pytest.raises(RejectedError, match="last commits"):
        EventStore.open(tmp_path / "memory.db")
    assert (tmp_path / "memory.db-wal").read_bytes() == wal


# --- reading only ----------------------------------------------------------------------------------------------------


def test_a_reader_reads_and_writes_nothing(store):
    append(store, happened())
    reader = EventStore.open(store.path, readonly=True)
    assert not reader.immutable
    assert reader.head() == store.head()
    append(store, happened("m_1", 2))
    assert reader.head()[0] == 2
    for write in (reader.transact().__enter__, reader.checkpoint):
        with pytest.raises(RejectedError, match="readonly"):
            write()
    with pytest.raises(StorageError), reader.snapshot() as connection:
        connection.execute("DELETE FROM leases")
    reader.close()


@contextmanager
def without_privileges(directory):
    """The directory can be written by nobody, and this process is nobody's superuser."""
    directory.chmod(0o555)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)
        directory.chmod(0o755)


@pytest.fixture
def media():
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@needs.modes
def test_a_ledger_on_media_that_cannot_be_written_is_read(media):
    store = EventStore.open(media / "memory.db")
    append(store, happened())
    store.close()
    (media / "memory.db").chmod(0o444)
    with without_privileges(media):
        reader = EventStore.open(media / "memory.db", readonly=True)
        assert reader.immutable
        assert reader.head()[0] == 1
        reader.close()
    assert sorted(os.listdir(media)) == ["memory.db", "memory.db.lock"]


@needs.modes
def test_commits_in_a_wal_that_cannot_be_read_are_not_missed(media):
    (media / "live").mkdir()
    (media / "copy").mkdir()
    store = EventStore.open(media / "live" / "memory.db")
    append(store, happened())
    for name in ("memory.db", "memory.db-wal"):
        (media / "copy" / name).write_bytes(subprocess.check_output(["cat", media / "live" / name]))
        (media / "copy" / name).chmod(0o444)
    store.close()
    with without_privileges(media / "copy"), pytest.raises(RejectedError, match="-wal"):
        EventStore.open(media / "copy" / "memory.db", readonly=True)


def test_a_newer_format_may_be_read_and_not_written(tmp_path):
    store = EventStore.open(tmp_path / "memory.db")
    append(store, happened())
    store.close()
    connection = sqlite3.connect(store.path)
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    assert "newer" in refused(tmp_path / "memory.db", RejectedError)
    reader = EventStore.open(store.path, readonly=True)
    assert reader.head()[0] == 1
    reader.close()


# --- settings, checkpoints, closing ----------------------------------------------------------------------------------


def test_every_connection_has_the_settings(store):
    expected = sqlite_files.SETTINGS | {"journal_mode": "wal", "busy_timeout": 30_000}
    assert expected["synchronous"] == 2
    with store.transact() as transaction:
        writer = {name: transaction.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in expected}
    with store.snapshot() as connection:
        reader = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in expected}
    assert writer == reader == expected


def test_a_setting_that_sqlite_ignores_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sqlite_files.SETTINGS, "cell_size_check", 7)
    with pytest.raises(StorageError, match="cell_size_check"):
        EventStore.open(tmp_path / "memory.db").head()


def test_a_ledger_that_left_wal_mode_returns_to_it(tmp_path):
    EventStore.open(tmp_path / "memory.db").close()
    connection = sqlite3.connect(tmp_path / "memory.db")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    store = EventStore.open(tmp_path / "memory.db")
    with store.snapshot() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_a_checkpoint_empties_the_wal_unless_a_reader_is_busy(store):
    append(store, happened())
    wal = Path(store.path + "-wal")
    with store.snapshot() as connection:
        count(connection)
        append(store, happened("m_1", 2))
        statements: list[str] = []
        store.writing.cursor.connection.set_trace_callback(statements.append)
        assert not store.checkpoint()
        assert [each for each in statements if "PRAGMA" in each][:2] == [
            "PRAGMA busy_timeout = 0",
            "PRAGMA wal_checkpoint(TRUNCATE)",
        ], "it waits for nobody"
        store.writing.cursor.connection.set_trace_callback(None)
    assert wal.stat().st_size > 0
    with store.transact():
        assert not store.checkpoint()
    assert store.checkpoint()
    assert wal.stat().st_size == 0


def test_a_grown_wal_is_checkpointed_after_a_commit_but_not_beside_another_checkpoint(store, monkeypatch):
    file, big = Path(store.path), b'"' + b"x" * sqlite_files.CHECKPOINT_BYTES + b'"'
    holder = python(
        """
        import sys
        from ledger.log.file_lock import lock_of
        lock_of(sys.argv[1]).acquire(9)
        print("held", flush=True)
        sys.stdin.readline()
        """,
        store.path,
    )
    assert holder.stdout.readline() == "held\n"
    waits, acquire = [], store._file.lock.acquire
    monkeypatch.setattr(store._file.lock, "acquire", lambda seconds: waits.append(seconds) or acquire(seconds))
    append(store, happened(state=big))
    assert waits == [0]
    assert file.stat().st_size < len(big)
    answers(holder)
    append(store, happened("m_1", 2))
    assert file.stat().st_size > len(big)


def test_a_wal_that_a_reader_holds_is_not_checkpointed_at_every_commit(store, monkeypatch):
    tried = []
    monkeypatch.setattr(sqlite_files, "CHECKPOINT_BYTES", 100_000)
    store._file._checkpoint_above = {True: 100_000}
    acquire = store._file.lock.acquire
    monkeypatch.setattr(store._file.lock, "acquire", lambda *a, **k: tried.append(1) or acquire(*a, **k))
    append(store, happened())
    with store.snapshot() as connection:
        count(connection)
        append(store, happened("m_1", 2, state=b'"' + b"x" * 200_000 + b'"'))
        for version in range(3, 23):
            append(store, happened("m_1", version))
    assert len(tried) == 1


def test_the_wal_stays_bounded(store):
    for version in range(1, 41):
        append(store, happened("m_1", version, state=b'"' + b"x" * 500_000 + b'"'))
    assert os.stat(store.path).st_size > 15_000_000
    assert os.stat(store.path + "-wal").st_size < 6_000_000


def test_a_close_checkpoints_and_a_second_close_does_nothing(tmp_path):
    store = EventStore.open(tmp_path / "memory.db")
    append(store, happened())
    store.close()
    store.close()
    assert sorted(os.listdir(tmp_path)) == ["memory.db", "memory.db.lock"]
    for use in (store.head, store.checkpoint, store.transact().__enter__):
        with pytest.raises(RejectedError, match="closed"):
            use()


def test_a_close_waits_for_the_file_lock(store, tmp_path):
    other = EventStore.open(tmp_path / "memory.db")
    append(other, happened())
    closing = threading.Thread(target=other.close)
    with store._file.hold(), store._file.hold():
        closing.start()
        closing.join(0.1)
        assert closing.is_alive()
    closing.join()
    assert sound(store)


CLOSED_WHILE_READ = """
    import sys, threading
    from eventsourcing.persistence import StoredEvent
    from ledger.log.event_store import ApplicationRecorder, Datastore, EventStore
    from ledger.log.sqlite_files import LedgerFile

    SLOW = "SELECT count(*) FROM events, events AS other"
    ended = []

    def read(moment):
        try:
            while True:
                with moment() as connection:
                    connection.execute(SLOW)
                    reading.set()
        except Exception as error:
            ended.append(type(error).__name__)

    for number in range(20):
        path, reading = f"{sys.argv[1]}/{number}.db", threading.Event()
        store = EventStore.open(path)
        with store.transact() as transaction:
            transaction.append([StoredEvent("m_1", version, "T", b"{}") for version in range(1, 200)])
        datastore = Datastore(LedgerFile(path))
        moments = [store.snapshot, lambda: datastore.transaction(commit=False)] * 2
        threads = [threading.Thread(target=read, args=(moment,)) for moment in moments]
        for thread in threads:
            thread.start()
        reading.wait()
        store.close()
        datastore.close()
        for thread in threads:
            thread.join()
    print(*sorted(set(ended)), len(ended))
"""


@pytest.mark.slow
def test_a_store_may_be_closed_while_other_threads_read(tmp_path):
    assert answers(python(CLOSED_WHILE_READ, tmp_path)) == ["ConnectionPoolClosedError", "RejectedError", "80"]
    assert {name.rsplit(".db")[1] for name in os.listdir(tmp_path)} == {"", ".lock"}


def test_a_reader_under_way_outlives_the_close_and_ends_with_its_connection(tmp_path):
    store = EventStore.open(tmp_path / "memory.db")
    append(store, happened())
    with store.snapshot() as connection:
        store.close()
        assert count(connection) == 1
        assert (tmp_path / "memory.db-wal").exists()
    assert sorted(os.listdir(tmp_path)) == ["memory.db", "memory.db.lock"]
    with pytest.raises(RejectedError, match="closed"):
        store.head()


def test_a_private_connection_is_closed_with_the_store(store, tmp_path):
    append(store, happened())
    reader = EventStore.open(store.path, readonly=True)
    reader.fold_privately(lambda connection: connection.execute("CREATE TEMP TABLE IF NOT EXISTS mine (x)"))
    with reader.snapshot() as private:
        assert private.execute("SELECT count(*) FROM mine").fetchone() == (0,)
    assert reader.head()[0] == 1
    reader.close()
    with pytest.raises(sqlite3.ProgrammingError):
        private.execute("SELECT 1")


@pytest.mark.parametrize("way", ["snapshot", "private", "lent", "past_view"])
def test_a_reader_whose_store_is_closed_after_the_look_at_it_is_told_that_it_is_closed(store, way):
    append(store, happened())
    reader = EventStore.open(store.path, readonly=way == "private")
    if way == "private":
        reader.fold_privately(lambda connection: None)
    read = {"lent": reader.lent, "past_view": lambda: reader.past_view(lambda connection: None)}
    check = reader.writing.check_open

    def check_and_close():
        check()
        reader.close()

    with (
        mock.patch.object(reader.writing, "check_open", check_and_close),
        mock.patch.object(reader._reading, "_check_open", check_and_close),
        pytest.raises(RejectedError, match="closed"),
        read.get(way, reader.snapshot)(),
    ):
        pass


def test_the_file_lock_excludes_other_processes(store):
    code = """
        import sys
        from ledger.log.file_lock import lock_of
        print(lock_of(sys.argv[1]).acquire(0.05))
    """
    with store._file.hold():
        assert answers(python(code, store.path)) == ["False"]
    assert answers(python(code, store.path)) == ["True"]


def test_a_store_with_a_transaction_under_way_is_not_closed(store):
    with store.transact() as transaction:
        with pytest.raises(RejectedError):
            store.close()
        transaction.append([happened()])
    assert store.head()[0] == 1


def test_a_process_may_end_without_closing(tmp_path):
    code = WRITER.replace("store.close()", "")
    assert answers(python(code, tmp_path / "memory.db", "m_1", 3)) == ["1"]
    store = EventStore.open(tmp_path / "memory.db")
    assert store.head()[0] == 3
    store.close()


@pytest.mark.slow
def test_a_store_that_is_dropped_closes_its_connections(tmp_path):
    """In a program of its own: Python 3.13 warns of what is dropped and not closed, as it should."""
    code = f"from ledger import Ledger; Ledger.open({str(tmp_path / 'memory.db')!r}).remember('tea')"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    assert not (tmp_path / "memory.db-wal").exists()


def test_no_error_of_sqlite_reaches_the_caller(store):
    with pytest.raises(StorageError), store.transact() as transaction:
        transaction.connection.execute("SELECT * FROM nothing")
    with pytest.raises(StorageError), store.snapshot() as connection:
        connection.execute("nonsense")
    with store.transact() as transaction, pytest.raises(StorageError), transaction.savepoint():
        transaction.connection.execute("nonsense")
    with store.transact() as transaction:
        pages = transaction.connection.execute("PRAGMA page_count").fetchone()[0]
        transaction.connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageError, match="full"):
        append(store, happened(state=b'"' + b"x" * 100_000 + b'"'))
    with store.transact() as transaction:
        transaction.connection.execute("PRAGMA max_page_count = 4294967294")
        transaction.append([happened()])
    assert sound(store)


DEFERRED_CONSTRAINT = """
    CREATE TABLE parent (id INTEGER PRIMARY KEY);
    CREATE TABLE child (id REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
    INSERT INTO child VALUES (1)
"""


def test_after_a_commit_that_failed_the_next_one_works(store, recorder):
    with pytest.raises(ConflictError), store.transact() as transaction:
        for statement in DEFERRED_CONSTRAINT.split(";"):
            transaction.connection.execute(statement)
    append(store, happened())
    with pytest.raises(persistence.IntegrityError), recorder.datastore.transaction(commit=True) as cursor:
        for statement in DEFERRED_CONSTRAINT.split(";"):
            cursor.execute(statement)
    recorder.insert_events([happened(uuid4())])
    assert store.head()[0] == 2


@needs.open_files_that_move
def test_a_store_whose_directory_is_gone_can_be_closed(tmp_path):
    (tmp_path / "gone").mkdir()
    store = EventStore.open(tmp_path / "gone" / "memory.db")
    append(store, happened())
    shutil.rmtree(tmp_path / "gone")
    store.close()


def test_what_sqlite_gave_up_is_not_continued_outside_a_transaction(store):
    with pytest.raises(StorageError, match="rolled this transaction back"), store.transact() as transaction:
        transaction.connection.execute("ROLLBACK")
        transaction.append([happened()])
    assert store.head()[0] == 0


# --- forks -----------------------------------------------------------------------------------------------------------

FORK = """
    import gc, os, sys
    from eventsourcing.persistence import StoredEvent
    from ledger.domain.errors import ConflictError
    from ledger.log.event_store import EventStore

    def files():
        links = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if n not in gone()]
        return sorted(link for link in links if link.startswith(sys.argv[1]))

    def gone():
        return [n for n in os.listdir("/proc/self/fd") if not os.path.lexists(f"/proc/self/fd/{n}")]

    def refused(use):
        try:
            use()
        except ConflictError as error:
            return "forked from" in str(error)

    def commit():
        with transact as transaction:
            transaction.append([StoredEvent("m_1", 3, "T", b"{}")])

    store = EventStore.open(sys.argv[1])
    with store.transact() as transaction:
        transaction.append([StoredEvent("m_1", 1, "T", b"{}")])
    store.head()
    transact = store.transact()
    with transact as transaction:
        transaction.append([StoredEvent("m_1", 2, "T", b"{}")])
        open_files = files()
        child = os.fork()
        if not child:
            uses = [commit, store.head, store.checkpoint, lambda: EventStore.open(sys.argv[1])]
            uses += [lambda: transaction.append([]), transaction.flush]
            uses += [lambda: transaction.version("m_1"), lambda: transact.__exit__(None, None, None)]
            told = [refused(use) for use in uses]
            store.close()
            transact.__exit__(ValueError, ValueError(), None)
            print(all(told), transaction.connection.in_transaction, flush=True)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
    print(store.head()[0], flush=True)
    del transact, transaction
    child = os.fork()
    if not child:
        del store
        gc.collect()
        print(files() == open_files and len(open_files) >= 3)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    store.close()
"""


@needs.forks
@needs.list_of_open_files
def test_a_forked_child_neither_uses_nor_closes_what_its_parent_opened(tmp_path):
    assert answers(python(FORK, tmp_path / "memory.db")) == ["True", "True", "2", "True"]
    store = EventStore.open(tmp_path / "memory.db")
    assert store.head()[0] == 2
    assert sound(store)
    store.close()


@needs.forks
def test_a_child_that_was_forked_before_may_open_the_file(tmp_path):
    EventStore.open(tmp_path / "memory.db").close()
    child = os.fork()
    if not child:
        try:
            store = EventStore.open(tmp_path / "memory.db")
            append(store, happened())
            store.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    store = EventStore.open(tmp_path / "memory.db")
    assert store.head()[0] == 1
    store.close()


# --- the library's own cases -----------------------------------------------------------------------------------------


class OnAFile(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.datastore = event_store.Datastore(LedgerFile(os.path.join(self.directory.name, "memory.db")))
        self.addCleanup(self.datastore.close)

    def made(self, recorder):
        recorder.create_table()
        return recorder


class TestAggregateRecorder(OnAFile, cases.AggregateRecorderTestCase):
    def create_recorder(self):
        return self.made(event_store.AggregateRecorder(self.datastore))


class TestSnapshotRecorder(cases.AggregateRecorderTestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.factory = event_store.Factory({"SQLITE_DBNAME": os.path.join(directory.name, "app.db")})
        self.addCleanup(self.factory.close)

    def create_recorder(self):
        return self.factory.aggregate_recorder("snapshots")


class TestApplicationRecorder(OnAFile, cases.ApplicationRecorderTestCase):
    def create_recorder(self):
        return self.made(event_store.ApplicationRecorder(self.datastore))

    def test_insert_subscribe(self):
        self.optional_test_insert_subscribe()
        assert self.datastore.pool.num_in_use == 0


class TestTrackingRecorder(OnAFile, cases.TrackingRecorderTestCase):
    def create_recorder(self):
        return self.made(event_store.TrackingRecorder(self.datastore))


class TestProcessRecorder(OnAFile, cases.ProcessRecorderTestCase):
    def create_recorder(self):
        return self.made(event_store.ProcessRecorder(self.datastore))


class TestNonInterleavingNotificationIDs(OnAFile, cases.NonInterleavingNotificationIDsBaseCase):
    def create_recorder(self):
        return self.made(event_store.ApplicationRecorder(self.datastore))


def test_the_events_of_a_factorys_aggregate_recorder_lie_in_the_log(tmp_path):
    factory = event_store.Factory({"SQLITE_DBNAME": str(tmp_path / "app.db")})
    one = StoredEvent(uuid4(), 1, "test:Dog.Registered", b"{}")
    factory.aggregate_recorder().insert_events([one])
    assert [(n.id, n.topic) for n in factory.application_recorder().select_notifications(1, 10)] == [(1, one.topic)]
    factory.close()


@pytest.fixture
def recorder(tmp_path):
    datastore = event_store.Datastore(LedgerFile(tmp_path / "memory.db", busy_timeout_seconds=5))
    yield event_store.ApplicationRecorder(datastore)
    datastore.close()


def test_the_recorders_write_the_same_chain(recorder, store):
    recorder.insert_events([happened(uuid4()), happened(uuid4())])
    append(store, happened())
    recorder.insert_events([happened(uuid4())])
    assert sound(store)
    assert store.head()[0] == 4


def test_a_recorder_raises_the_errors_of_the_library(recorder, store, tmp_path):
    for broken in (happened(state=b"\xff"), happened("m_\ud800"), happened(version=2**63)):
        with pytest.raises(persistence.DataError):
            recorder.insert_events([broken])
    hasty = event_store.Datastore(LedgerFile(tmp_path / "memory.db", busy_timeout_seconds=0.05))
    with store.transact(), pytest.raises(persistence.OperationalError, match="locked"):
        event_store.ApplicationRecorder(hasty).insert_events([happened(uuid4())])
    hasty.close()


def test_many_writers_that_read_first_all_succeed(recorder, tmp_path):
    errors = []

    def write(name):
        mine = event_store.Datastore(LedgerFile(tmp_path / "memory.db"))
        try:
            for version in range(1, 26):
                event_store.ApplicationRecorder(mine).insert_events([happened(name, version)])
        except Exception as error:
            errors.append(error)
        finally:
            mine.close()

    threads = [threading.Thread(target=write, args=(uuid4().hex,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert recorder.max_notification_id() == 100


def test_a_subscription_hears_of_another_store_and_ends_from_another_thread(recorder, store):
    heard, subscription = [], recorder.subscribe(gt=0)

    def listen():
        with subscription:
            heard.extend(notification.id for notification in subscription)

    thread = threading.Thread(target=listen)
    thread.start()
    for number in range(1, 4):
        append(store, happened(uuid4()))
        while len(heard) < number:
            time.sleep(0.002)
    subscription.stop()
    thread.join()
    assert heard == [1, 2, 3]
    assert recorder.datastore.pool.num_in_use == 0


def test_a_subscription_ends_when_its_store_is_closed(recorder):
    recorder.insert_events([happened(uuid4())])
    ended = []

    def listen():
        with recorder.subscribe(gt=0) as subscription:
            try:
                for _ in subscription:
                    heard.set()
            except persistence.ConnectionPoolClosedError:
                ended.append(True)

    heard, thread = threading.Event(), threading.Thread(target=listen, daemon=True)
    thread.start()
    heard.wait()
    time.sleep(0.1)  # until it has found nothing more and only waits
    recorder.datastore.close()
    thread.join()
    assert ended == [True]
    assert recorder.datastore.pool.num_in_use == 0


class Dog(Aggregate):
    @event("Registered")
    def __init__(self, name: str) -> None:
        self.name, self.tricks = name, []

    @event("TrickAdded")
    def add_trick(self, trick: str) -> None:
        self.tricks.append(trick)


class School(Application[UUID]):
    is_snapshotting_enabled = True


def environment(tmp_path, **more):
    return {"PERSISTENCE_MODULE": "ledger.log.event_store", "SQLITE_DBNAME": str(tmp_path / "memory.db"), **more}


def test_an_application_of_the_library_keeps_its_events_in_a_ledger(tmp_path):
    dog = Dog("Fido")
    with School(env=environment(tmp_path)) as school:
        dog.add_trick("roll over")
        school.save(dog)
        school.take_snapshot(dog.id)
        dog.add_trick("play dead")
        school.save(dog)

    with School(env=environment(tmp_path)) as school:
        assert school.repository.get(dog.id).tricks == ["roll over", "play dead"]
        assert [n.id for n in school.notification_log.select(start=1, limit=10)] == [1, 2, 3]

    store = EventStore.open(tmp_path / "memory.db")
    assert sound(store)
    assert {row.stream for row in store.rows()} == {dog.id.hex}
    store.close()


@pytest.mark.parametrize("name", ["COMPRESSOR_TOPIC", "CIPHER_TOPIC", "CIPHER_KEY"])
def test_a_compressor_or_a_cipher_is_refused_by_name(tmp_path, name):
    for key in (name, f"SCHOOL_{name}"):
        with pytest.raises(RejectedError, match=name):
            School(env=environment(tmp_path, **{key: "zlib"}))
    assert os.listdir(tmp_path) == []


def test_the_module_holds_one_factory(tmp_path):
    factory = persistence.InfrastructureFactory.construct(environment(tmp_path))
    assert type(factory) is event_store.Factory
    factory.close()


@pytest.mark.parametrize("times", [1, 2])
def test_a_disk_that_works_again_is_written_again_and_a_damaged_file_is_not(store, times):
    """What SQLite cached while reads failed looks like damage to the next transaction, and to no later one."""
    append(store, happened())
    real, left = (
        store.writing.cursor,
        [sqlite3.DatabaseError("database disk image is malformed") for _ in range(times)],
    )

    class Failing:
        def execute(self, sql, *rest):
            if sql == "BEGIN IMMEDIATE" and left:
                error = left.pop()
                error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise error
            return real.execute(sql, *rest)

        def __getattr__(self, name):
            return getattr(real, name)

    store.writing.cursor = Failing()
    if times == 1:
        append(store, happened(version=2))
    else:
        with pytest.raises(StorageError, match="damaged"):
            append(store, happened(version=2))
    store.writing.cursor = real
    assert sound(store)


def test_a_snapshot_ends_also_where_there_is_no_room_for_what_it_made(tmp_path: Path) -> None:
    """Its connection goes back to the others, and who reads on it next sees what was written since."""
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.remember("Ada drinks tea.")
        with inside(ledger).snapshot() as snapshot:
            raw = snapshot.connection
            raw.execute("CREATE TEMP TABLE scratch (number INTEGER)")
            raw.set_authorizer(lambda code, what, *_: int(code == sqlite3.SQLITE_TRANSACTION and what == "COMMIT"))
        assert not raw.in_transaction
        raw.set_authorizer(None)
        ledger.remember("Ada lives in Lisbon.")
        assert len(ledger.memories.list()) == 2
