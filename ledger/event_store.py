"""The log: append under one writer's lock, read streams and the log, on the recorders of the eventsourcing library.

``EventStore`` is what a ledger uses. ``Factory`` makes this module a ``PERSISTENCE_MODULE`` of the library: the same
file, the same rows, the same chain, with the library's own mapper. Rows enter ``events`` in one place,
``ApplicationRecorder._insert_events``.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from threading import get_ident
from types import TracebackType
from typing import Any, Literal, Never, cast
from uuid import UUID
from weakref import WeakSet

from eventsourcing import persistence, sqlite
from eventsourcing.persistence import Notification, StoredEvent
from eventsourcing.utils import Environment, EnvType

from ledger.domain.errors import Conflict, LedgerError, Rejected, StorageError
from ledger.integrity import GENESIS, digest, link
from ledger.sqlite_files import LedgerFile, StrPath, forget_parent, typed

CONNECTIONS = 15  # of one store at the same time; none is closed before the store is

# position, stream, version, type, state, digest, head, key, erased_by
Row = tuple[int, str, int, str, str, bytes, bytes, bytes | None, int | None]

_COLUMNS = "position, stream, version, type, state, digest, head, key, erased_by"
_INSERT = f"INSERT INTO events ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)"
_TIP = "SELECT position, head FROM events ORDER BY position DESC LIMIT 1"


@dataclass(frozen=True, slots=True)
class LogRow:
    """One row of the log as it is stored."""

    position: int
    stream: str
    version: int
    type: str
    state: str
    digest: bytes
    head: bytes
    key: bytes | None
    erased_by: int | None


class EventStore:
    """One open log. Threads share it; every process, forked ones too, opens its own."""

    def __init__(self, file: LedgerFile) -> None:
        self.path, self.readonly, self.immutable, self.created = file.path, file.readonly, file.immutable, file.created
        self._file, self._closed = file, False
        self._recorder = ApplicationRecorder(Datastore(file, named_columns=False))
        self._pool = self._recorder.datastore.pool
        self._reading = threading.local()
        self._private: sqlite3.Connection | None = None
        self._private_lock = threading.RLock()
        self._lock, self._depth, self._owner = threading.RLock(), 0, 0
        self._cursor: sqlite3.Cursor | None = None
        self._transaction: Transaction
        self._data_version, self._position, self._head = -1, 0, GENESIS
        self._scope = _TransactionScope(self)

    @classmethod
    def open(
        cls, path: StrPath, *, readonly: bool = False, busy_timeout_seconds: float = 30.0, create: bool = True
    ) -> EventStore:
        """Opens the log, and makes it where there is none.

        ``NotFound`` where there is none and none may be made; ``Rejected`` where no ledger may lie or the file is none;
        ``StorageError`` when it cannot be read.
        """
        file = LedgerFile(path, readonly=readonly, busy_timeout_seconds=busy_timeout_seconds, create=create)
        return cls(file)

    # --- writing -----------------------------------------------------------------------------------------------------

    def transact(self) -> AbstractContextManager[Transaction]:
        """The writer's lock and one transaction; inside this thread's own it is the same, and the outermost commits."""
        return self._scope

    def _enter(self) -> Transaction:
        if self._closed or self._pool.foreign or self.readonly:
            self._refuse_writing()
        if not self._lock.acquire(timeout=self._file.busy_timeout_seconds):
            raise StorageError("another thread kept the ledger locked for longer than the timeout")
        if self._depth:
            self._depth += 1
            return self._transaction
        try:
            transaction = self._transaction = self._begin()
            self._depth, self._owner = 1, get_ident()
            return transaction
        except BaseException as error:
            self._roll_back()
            self._lock.release()
            _raise_typed(error)

    def _begin(self) -> Transaction:
        cursor = self._cursor or self._open_writer()
        cursor.execute("BEGIN IMMEDIATE")
        changed = self._look(cursor)
        return Transaction(self, cursor, changed, self._position, self._head)

    def _look(self, cursor: sqlite3.Cursor) -> bool:
        """Whether another connection committed since; then what was kept of the log is read again."""
        data_version = cursor.execute("PRAGMA data_version").fetchone()[0]
        if data_version == self._data_version:
            return False
        self._position, self._head = _read_tip(cursor)
        self._data_version = data_version
        return True

    def _open_writer(self) -> sqlite3.Cursor:
        if self._closed:
            self._refuse_writing()
        self._cursor = self._pool.get_connection().raw.cursor()
        return self._cursor

    def _leave(self, error: BaseException | None) -> None:
        if self._pool.foreign:
            self._transaction.over = True
            if error is None:
                self._check_open()
        elif self._depth > 1:
            self._depth -= 1
            self._lock.release()
        else:
            try:
                if error is None:
                    self._commit()
                else:
                    self._roll_back()
            finally:
                self._transaction.over = True
                self._depth = self._owner = 0
                self._lock.release()
        if error is not None and (translated := _typed(error)):
            raise translated from error

    def _commit(self) -> None:
        transaction = self._transaction
        try:
            transaction._finish()
            self._position, self._head = transaction.position, transaction.head
        except BaseException as error:
            self._roll_back()
            _raise_typed(error)
        self._file.after_commit(transaction.connection)

    def _renew(self, transaction: Transaction) -> None:
        self._commit()
        cursor = self._cursor or self._open_writer()
        cursor.execute("BEGIN IMMEDIATE")
        transaction.changed = self._look(cursor)
        transaction.position, transaction.head = self._position, self._head

    def _roll_back(self) -> None:
        self._data_version = -1
        with suppress(sqlite3.Error):
            if self._cursor is not None and self._cursor.connection.in_transaction:
                self._cursor.execute("ROLLBACK")

    def _refuse_writing(self) -> Never:
        self._check_open()
        raise Rejected("this ledger was opened for reading (readonly=True) and takes no command", rule="readonly")

    def _check_open(self) -> None:
        if self._pool.foreign:
            raise Conflict("this ledger was opened by another process, from which this one was forked")
        if self._closed:
            raise Rejected("this ledger is closed; open it again", rule="closed")

    # --- reading -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> AbstractContextManager[sqlite3.Connection]:
        """One moment of the log, however long it is read; inside this thread's transaction, what that one sees."""
        return _Snapshot(self)

    @contextmanager
    def private(self) -> Iterator[sqlite3.Connection]:
        """A connection whose TEMP tables stand before the file's. Every later snapshot is of it, and of this moment."""
        self._check_open()
        with self._private_lock:
            connection = None
            try:
                connection = self._pool.get_connection(is_writer=False)
                connection.raw.execute("PRAGMA temp_store = MEMORY")  # no text on another disk
                connection.raw.execute("BEGIN")
                _read_tip(connection.raw.cursor())  # from here it sees this moment
                self._private = connection.raw
                yield connection.raw
            except BaseException as error:
                self._private = None
                if connection is not None:
                    with suppress(sqlite3.Error):
                        connection.raw.execute("ROLLBACK")
                    self._pool.put_connection(connection)
                _raise_typed(error)

    def _enter_snapshot(self) -> sqlite3.Connection:
        self._check_open()
        if self._private is not None:
            self._private_lock.acquire()
            return self._private
        local = self._reading
        if getattr(local, "depth", 0):
            local.depth += 1
        else:
            connection = None
            try:
                connection = self._pool.get_connection(is_writer=False)
                connection.raw.execute("BEGIN")
            except BaseException as error:
                if connection is not None:
                    self._pool.put_connection(connection)
                _raise_typed(error)
            local.connection, local.depth = connection, 1
        raw: sqlite3.Connection = local.connection.raw
        return raw

    def _leave_snapshot(self) -> None:
        if self._private is not None:
            self._private_lock.release()
            return
        local = self._reading
        local.depth -= 1
        if not local.depth and not self._pool.foreign:
            connection, local.connection = local.connection, None
            with suppress(sqlite3.Error):
                if connection.raw.in_transaction:
                    connection.raw.execute("ROLLBACK")
            with suppress(persistence.ConnectionPoolClosedError):
                self._pool.put_connection(connection)

    def stream(self, stream_id: str, after_version: int = 0, up_to_position: int | None = None) -> list[LogRow]:
        """The events of one stream in order, of those up to a position."""
        where, values = "stream = ? AND version > ?", [stream_id, after_version]
        if up_to_position is not None:
            where, values = where + " AND position <= ?", [*values, up_to_position]
        return self._select(f"{where} ORDER BY version", values)

    def rows(self, start: int = 1, stop: int | None = None, limit: int = 1000) -> list[LogRow]:
        """The log from one position to another, both included, at most ``limit`` rows."""
        where, values = "position >= ?", [start]
        if stop is not None:
            where, values = where + " AND position <= ?", [start, stop]
        return self._select(f"{where} ORDER BY position LIMIT ?", [*values, limit])

    def row(self, position: int) -> LogRow | None:
        found = self._select("position = ?", [position])
        return found[0] if found else None

    def head(self) -> tuple[int, bytes]:
        """The last position and the head after it; 0 and ``GENESIS`` when the log is empty."""
        with self.snapshot() as connection:
            return _read_tip(connection.cursor())

    def blob(self, blob_id: str) -> bytes | None:
        """The bytes; None when there is no such blob or it was erased."""
        with self.snapshot() as connection:
            found = connection.execute("SELECT data FROM blobs WHERE id = ?", (blob_id,)).fetchone()
        return found[0] if found else None

    def _select(self, where: str, values: Sequence[Any]) -> list[LogRow]:
        with self.snapshot() as connection:
            return [LogRow(*row) for row in connection.execute(f"SELECT {_COLUMNS} FROM events WHERE {where}", values)]

    @staticmethod
    def raise_typed(error: BaseException) -> Never:
        """Raises an error again, as the typed one where it came from SQLite or the library."""
        _raise_typed(error)

    # --- care --------------------------------------------------------------------------------------------------------

    @contextmanager
    def file_lock(self) -> Iterator[None]:
        """The lock that excludes every checkpoint and close of this file, in this and other processes."""
        self._check_open()
        with self._file.hold():
            yield

    def checkpoint(self) -> bool:
        """Everything from the -wal into the file, and the -wal emptied; False when a reader or a writer is busy."""
        if self._closed or self._pool.foreign or self.readonly:
            self._refuse_writing()
        if self._owner == get_ident():
            return False
        with self._file.hold(), self._exclusively():
            return self._truncate()

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        """No transaction of another thread. The file lock is always taken first."""
        if not self._lock.acquire(timeout=self._file.busy_timeout_seconds):
            raise StorageError("another thread kept the ledger locked for longer than the timeout")
        try:
            yield
        finally:
            self._lock.release()

    def _truncate(self) -> bool:
        try:
            return self._file.truncate((self._cursor or self._open_writer()).connection)
        except (sqlite3.Error, persistence.PersistenceError) as error:
            _raise_typed(error)

    def close(self) -> None:
        """Closes the log, after a checkpoint when nobody is busy. A second call, or a forked child's, does nothing."""
        if self._closed or self._pool.foreign:
            return
        if self._owner == get_ident():
            raise Rejected("this ledger has a transaction under way in this thread; close it after that", rule="closed")
        with self._file.hold(), self._exclusively():
            if self._closed:
                return
            try:
                if self._cursor is not None:
                    with suppress(LedgerError):
                        self._truncate()
            finally:
                self._closed = True
                self._close_pool()

    def _close_pool(self) -> None:
        """The connections that the store keeps are closed with it, and those of readers under way as they end."""
        own, self._cursor = [self._cursor.connection] if self._cursor else [], None
        quiet = self._private_lock.acquire(timeout=self._file.busy_timeout_seconds)
        try:
            self._pool.close(unused=[*own, self._private] if quiet and self._private else own)
        finally:
            if quiet:
                self._private_lock.release()


class _TransactionScope:
    """What ``transact()`` gives; it has no state of its own, so one serves every call."""

    __slots__ = ("_store",)

    def __init__(self, store: EventStore) -> None:
        self._store = store

    def __enter__(self) -> Transaction:
        return self._store._enter()

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        self._store._leave(error)


class _Snapshot:
    """What ``snapshot()`` gives."""

    __slots__ = ("_of_pool", "_store")

    def __init__(self, store: EventStore) -> None:
        self._store = store

    def __enter__(self) -> sqlite3.Connection:
        store = self._store
        self._of_pool = store._owner != get_ident()
        if self._of_pool:
            return store._enter_snapshot()
        store._transaction.flush()
        return store._transaction.connection

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._of_pool:
            self._store._leave_snapshot()
        if error is not None and (translated := _typed(error)):
            raise translated from error


class Transaction:
    """One write transaction under way. It is of use to its own thread only, and only until it ends."""

    __slots__ = (
        *("_broken", "_cursor", "_pending", "_savepoints", "_store", "_versions"),
        *("changed", "connection", "deferred", "head", "over", "position"),
    )

    def __init__(self, store: EventStore, cursor: sqlite3.Cursor, changed: bool, position: int, head: bytes) -> None:
        self.connection = cursor.connection
        self.changed = changed  # another connection committed, or something was rolled back: drop what was kept
        self.position, self.head = position, head  # of the last event, including those appended here
        self.deferred = False  # settable: append() then keeps the rows until flush() or the commit
        self.over = self._broken = False
        self._store, self._cursor, self._savepoints = store, cursor, 0
        self._pending: list[Row] = []
        self._versions: dict[str, int] = {}

    def append(self, events: Sequence[StoredEvent], keys: Sequence[bytes | None] = ()) -> list[int]:
        """Appends events, whose ``originator_id`` is the stream, and gives their positions; all or none."""
        self._check()
        try:
            rows = chained(events, keys, self.position, self.head)
        except persistence.DataError as error:
            raise Rejected(str(error), rule="encoding") from error
        if not rows:
            return []
        if self.deferred:
            self._pending += rows
            self._versions |= {row[1]: row[2] for row in rows}
        else:
            if self._pending:
                self.flush()
            self._insert(rows)
        self.position, self.head = rows[-1][0], rows[-1][6]
        return [row[0] for row in rows]

    def append_rows(self, rows: Iterable[LogRow]) -> None:
        """Writes the rows of another log as they are; they must begin at the position after the last."""
        self.flush()
        columns: list[Row] = [
            (r.position, r.stream, r.version, r.type, r.state, r.digest, r.head, r.key, r.erased_by) for r in rows
        ]
        if columns:
            self._insert(columns)
            self.position, self.head = columns[-1][0], columns[-1][6]

    def flush(self) -> None:
        """Writes the rows kept back, so that SQL sees them."""
        self._check()
        if self._pending:
            rows, self._pending, self._versions = self._pending, [], {}
            self._insert(rows, counted=True)

    def _insert(self, rows: Sequence[Row], *, counted: bool = False) -> None:
        try:
            self._store._recorder._insert_events(cast("sqlite.SQLiteCursor", self._cursor), (), rows=rows)
        except BaseException as error:
            # Some of the rows may be written. One row is written or not, and harmless unless its position was counted.
            self._broken = self._broken or counted or len(rows) > 1
            _raise_typed(error)

    def _check(self) -> None:
        if self._store._pool.foreign:
            self._store._check_open()
        if self.over:
            raise Rejected("this transaction is over", rule="closed")
        if not self.connection.in_transaction:
            raise StorageError("SQLite gave the transaction up after an error; nothing of it was written")

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """What happens inside is undone when an exception leaves it, and the transaction may go on."""
        self._check()
        kept, mark, position, head, broken = self._pending, len(self._pending), self.position, self.head, self._broken
        self._cursor.execute("SAVEPOINT inside")
        self._savepoints += 1
        try:
            yield
        except BaseException as error:
            if self.connection.in_transaction and not self._store._pool.foreign:
                self._cursor.execute("ROLLBACK TO inside")
                self._cursor.execute("RELEASE inside")
            # Rows that were kept back before the savepoint and written inside of it are kept back again.
            self._pending = kept[:mark]
            self._versions = {row[1]: row[2] for row in self._pending}
            self.position, self.head, self._broken, self.changed = position, head, broken, True
            self._store._data_version = -1
            _raise_typed(error)
        else:
            self._check()
            self._cursor.execute("RELEASE inside")
        finally:
            self._savepoints -= 1

    def renew(self) -> None:
        """Commits what there is and goes on in a new transaction, still under the thread's lock."""
        if self._savepoints:
            raise Rejected("a transaction with a savepoint open cannot be renewed", rule="savepoint")
        self._check()
        try:
            self._store._renew(self)
        except BaseException as error:
            _raise_typed(error)

    def spoil(self) -> None:
        """What belongs together was done in part, so nothing of this transaction may be committed."""
        self._broken = True

    def _finish(self) -> None:
        if self._pending:
            self.flush()
        if self._broken:
            raise Conflict("an append in this transaction failed half-way, so that it cannot be committed")
        self._check()
        self._cursor.execute("COMMIT")

    def version(self, stream: str) -> int:
        """The last version in the stream, 0 when there is none."""
        self._check()
        if stream in self._versions:
            return self._versions[stream]
        found = self._cursor.execute("SELECT max(version) FROM events WHERE stream = ?", (stream,)).fetchone()[0]
        return found or 0

    def put_blob(self, blob_id: str, data: bytes) -> None:
        self._check()
        try:
            self._cursor.execute("INSERT INTO blobs (id, data) VALUES (?, ?)", (blob_id, data))
        except sqlite3.Error as error:
            _raise_typed(error)


def chained(events: Sequence[StoredEvent], keys: Sequence[bytes | None], position: int, head: bytes) -> list[Row]:
    """The rows of events that follow a position and a head; the library's ``DataError`` where a state is no text."""
    if keys and len(keys) != len(events):
        raise Rejected(f"{len(events)} events cannot have {len(keys)} keys", rule="keys")
    rows: list[Row] = []
    for index, event in enumerate(events):
        position += 1
        stream, version, type_ = event.originator_id, event.originator_version, event.topic
        if type(stream) is not str:
            stream = stream.hex if isinstance(stream, UUID) else str(stream)
        mark = digest(event.state)
        head = link(head, position, stream, version, type_, mark)
        try:
            state = event.state.decode()
        except UnicodeDecodeError:
            raise persistence.DataError(f"the state of a {type_[:60]} is not UTF-8 text") from None
        rows.append((position, stream, version, type_, state, mark, head, keys[index] if keys else None, None))
    return rows


def _read_tip(cursor: Any) -> tuple[int, bytes]:
    cursor.execute(_TIP)
    found = cursor.fetchone()
    return (found[0], found[1]) if found else (0, GENESIS)


def _typed(error: BaseException) -> LedgerError | None:
    """What a caller of the store sees instead of an error of SQLite or of the library."""
    if isinstance(error, sqlite3.Error):
        return typed(error)
    if isinstance(error, persistence.DataError):
        return Rejected(str(error), rule="encoding")
    if isinstance(error, persistence.ConnectionPoolClosedError):
        return Rejected("this ledger is closed; open it again", rule="closed")
    if isinstance(error, persistence.PersistenceError):
        return StorageError("no connection to the ledger could be had within the timeout")
    return None


def _raise_typed(error: BaseException) -> Never:
    translated = _typed(error)
    if translated is None:
        raise error
    raise translated from error


# --- the recorders of the library ------------------------------------------------------------------------------------


class Connection(sqlite.SQLiteConnection):
    """A connection of the pool; it is closed under the file lock."""

    def __init__(self, file: LedgerFile, *, named_columns: bool) -> None:
        self.raw, self.file = file.connect(), file
        if named_columns:
            self.raw.row_factory = sqlite3.Row
        super().__init__(sqlite_conn=self.raw, max_age=None)

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[sqlite.SQLiteCursor]:
        with _LibraryTransaction(self, commit=commit) as cursor, cursor:
            yield cursor
        if commit:
            self.file.after_commit(self.raw)

    def _close(self) -> None:
        with self.file.hold():
            super()._close()


class _LibraryTransaction(sqlite.SQLiteTransaction):
    """The library's, except that a writer waits for its turn at the beginning, and no transaction is left behind."""

    connection: Connection

    def __enter__(self) -> sqlite.SQLiteCursor:
        cursor = self.connection.cursor()
        try:
            cursor.execute("BEGIN IMMEDIATE" if self.commit else "BEGIN")
        except sqlite3.Error as error:
            kind = getattr(persistence, type(error).__name__, persistence.PersistenceError)
            raise kind(error) from error
        return cursor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        except BaseException:
            with suppress(sqlite3.Error):
                self.connection.rollback()
            raise


class ConnectionPool(sqlite.SQLiteConnectionPool):
    """The library's pool on one ledger file. A forked child neither uses nor closes what it inherits.

    The library closes connections that other threads are using, and CPython's sqlite3 then reads freed memory. Here a
    connection in use is closed by the thread that uses it, when it gives it back.
    """

    def __init__(self, file: LedgerFile, *, named_columns: bool) -> None:
        self.file, self.named_columns, self.foreign = file, named_columns, False
        super().__init__(
            db_name=file.path, pool_size=CONNECTIONS, max_overflow=0, pool_timeout=file.busy_timeout_seconds
        )
        _pools.add(self)

    @staticmethod
    def detect_memory_mode(db_name: str) -> bool:
        return False

    def _create_connection(self) -> Connection:
        if self.closed:
            raise persistence.ConnectionPoolClosedError
        try:
            return Connection(self.file, named_columns=self.named_columns)
        except sqlite3.Error as error:
            raise persistence.InterfaceError(error) from error

    def get_connection(self, timeout: float | None = None, *, is_writer: bool | None = None) -> Connection:
        if self.foreign:
            raise persistence.InterfaceError("this ledger was opened by the process that this one was forked from")
        connection = super().get_connection(timeout, is_writer=is_writer)
        assert isinstance(connection, Connection)
        return connection

    def put_connection(self, conn: sqlite.SQLiteConnection) -> None:
        if self.foreign:
            return
        is_writer = conn.is_writer
        try:
            super().put_connection(conn)
        except persistence.ConnectionPoolClosedError:
            with self._put_condition:
                known = self._in_use.pop(id(conn), None)
            if known is not None:
                conn.close()
                if is_writer:
                    self._writer_lock.release()

    def close(self, *, unused: Sequence[sqlite3.Connection] = ()) -> None:
        """Closes what nobody uses: what is in the pool, and what is ``unused`` though it was taken out."""
        if self.foreign or self.closed:
            return
        with self.file.hold():
            with self._put_condition:
                self._closed = True
                ended = [c for c in self._in_use.values() if any(c._sqlite_conn is raw for raw in unused)]
                ended += self._pool
                self._pool.clear()
                for connection in ended:
                    self._in_use.pop(id(connection), None)
            for connection in ended:
                connection.close()

    def __del__(self) -> None:
        if not self.foreign:
            self.close(unused=[connection._sqlite_conn for connection in self._in_use.values()])

    def leave_to_parent(self) -> bool:
        """In a forked child: one reference more to each connection, so that nothing closes it. True if there are."""
        import ctypes  # slow to load, and few processes fork

        self.foreign = True
        connections = [*self._in_use.values(), *self._pool]
        for connection in connections:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection._sqlite_conn))
        return bool(connections)


_pools: WeakSet[ConnectionPool] = WeakSet()


def _after_fork_in_child() -> None:
    forget_parent({pool.file.path for pool in _pools if pool.leave_to_parent()})


os.register_at_fork(after_in_child=_after_fork_in_child)


class Datastore(sqlite.SQLiteDatastore):
    def __init__(
        self,
        file: LedgerFile,
        *,
        named_columns: bool = True,
        single_row_tracking: bool = True,
        originator_id_type: Literal["uuid", "text"] = "uuid",
    ) -> None:
        self.pool: ConnectionPool = ConnectionPool(file, named_columns=named_columns)
        self.single_row_tracking, self.originator_id_type = single_row_tracking, originator_id_type


class AggregateRecorder(sqlite.SQLiteAggregateRecorder):
    """Keeps snapshots, in a table of the library's."""


class ApplicationRecorder(sqlite.SQLiteApplicationRecorder):
    """Keeps events in the log, chained."""

    datastore: Datastore

    def __init__(self, datastore: sqlite.SQLiteDatastore, events_table_name: str = "events") -> None:
        assert isinstance(datastore, Datastore)
        super().__init__(datastore, "events")
        self.select_max_notification_id_statement = "SELECT max(position) FROM events"

    def construct_create_table_statements(self) -> list[str]:
        return []  # the file is made with its tables

    def _insert_events(
        self, c: sqlite.SQLiteCursor, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        """The one place where rows enter the log; ``rows`` are chained already."""
        rows: Sequence[Row] | None = kwargs.get("rows")
        if rows is None:
            rows = chained(stored_events, (), *_read_tip(c))
        try:
            if len(rows) == 1:
                c.execute(_INSERT, rows[0])
            else:
                c.executemany(_INSERT, rows)
        except (UnicodeError, OverflowError) as error:
            raise persistence.DataError(f"a value that SQLite cannot store: {error}") from error
        return [row[0] for row in rows]

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        where = {"stream = ?": originator_id.hex if isinstance(originator_id, UUID) else originator_id}
        rows = self._rows(
            where | {"version > ?": gt, "version <= ?": lte}, f"version {'DESC' if desc else 'ASC'}", limit
        )
        convert = self.convert_originator_id
        return [StoredEvent(convert(stream), version, type_, state) for _, stream, version, type_, state in rows]

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        where = {f"position {'>=' if inclusive_of_start else '>'} ?": start, "position <= ?": stop}
        rows = self._rows(where, "position", limit, topics)
        convert = self.convert_originator_id
        return [
            Notification(convert(stream), version, type_, state, position)
            for position, stream, version, type_, state in rows
        ]

    def _rows(
        self, where: dict[str, Any], order: str, limit: int | None, topics: Sequence[str] = ()
    ) -> list[tuple[int, str, int, str, bytes]]:
        """Rows that meet every condition whose value is given."""
        conditions = [condition for condition, value in where.items() if value is not None]
        if topics:
            conditions.append(f"type IN ({','.join('?' * len(topics))})")
        values = [*(value for value in where.values() if value is not None), *topics, -1 if limit is None else limit]
        sql = "SELECT position, stream, version, type, state FROM events "
        sql += f"WHERE {' AND '.join(conditions)} " if conditions else ""
        with self.datastore.transaction(commit=False) as c:
            c.execute(f"{sql} ORDER BY {order} LIMIT ?", values)
            return [(at, stream, version, type_, state.encode()) for at, stream, version, type_, state in c.fetchall()]

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription:
        return Subscription(self, gt, topics)


class Subscription(persistence.Subscription[ApplicationRecorder]):
    """Events as they come: polls ``PRAGMA data_version`` on a connection of its own, every 1 to 50 milliseconds."""

    def __init__(self, recorder: ApplicationRecorder, gt: int | None = None, topics: Sequence[str] = ()) -> None:
        super().__init__(recorder, gt, topics)
        self._stopped, self._polling = threading.Event(), threading.Lock()
        self._connection: Connection | None = None
        self._waiting: list[Notification] = []  # the next one last

    def stop(self) -> None:
        """Ends the iteration, from whatever thread, and gives the connection back."""
        super().stop()
        self._stopped.set()
        with self._polling:
            if self._connection is not None:
                with suppress(persistence.ConnectionPoolClosedError):
                    self._recorder.datastore.pool.put_connection(self._connection)
                self._connection = None

    def __next__(self) -> Notification:
        with self._polling:
            if not self._waiting:
                self._waiting = self._poll()
            if not self._stopped.is_set():
                notification = self._waiting.pop()
                self._last_notification_id = notification.id
                return notification
        raise StopIteration

    def _poll(self) -> list[Notification]:
        """Waits for events; none when the subscription was stopped meanwhile."""
        seen, pause = None, 0.001
        while not self._stopped.is_set():
            if seen != (seen := self._data_version()):
                found = self._recorder.select_notifications(
                    self._last_notification_id, 500, topics=self._topics, inclusive_of_start=False
                )
                if found:
                    return list(reversed(found))
                pause = 0.001
            else:
                self._stopped.wait(pause)
                pause = min(pause * 1.5, 0.05)
        return []

    def _data_version(self) -> int:
        """Changes whenever another connection commits; asked before the events are, so that none is missed."""
        pool = self._recorder.datastore.pool
        if pool.closed:
            raise persistence.ConnectionPoolClosedError
        if self._connection is None:
            self._connection = pool.get_connection(is_writer=False)
        try:
            version: int = self._connection.raw.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error as error:
            raise persistence.OperationalError(error) from error
        return version


class TrackingRecorder(sqlite.SQLiteTrackingRecorder):
    """Keeps how far other applications' events were followed."""


class ProcessRecorder(sqlite.SQLiteProcessRecorder, ApplicationRecorder):
    """Keeps events in the log, and what they were made from, in one transaction."""


class Factory(sqlite.SQLiteFactory):
    """Makes this module a ``PERSISTENCE_MODULE``; ``SQLITE_DBNAME`` is the path of the ledger file."""

    aggregate_recorder_class = AggregateRecorder
    application_recorder_class = ApplicationRecorder
    tracking_recorder_class = TrackingRecorder
    process_recorder_class = ProcessRecorder

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        for name in (self.COMPRESSOR_TOPIC, self.CIPHER_TOPIC, "CIPHER_KEY"):
            if self.env.get(name):
                raise Rejected(f"{name} is set, and a ledger keeps states as readable text; unset it", rule=name)
        library = self.datastore  # it has opened nothing
        self.datastore = Datastore(
            LedgerFile(library.pool.db_name, busy_timeout_seconds=float(library.pool.lock_timeout or 30)),
            single_row_tracking=library.single_row_tracking,
            originator_id_type=library.originator_id_type,
        )
