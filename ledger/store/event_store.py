"""The log: append under one writer's lock, read streams and the log, on the recorders of the eventsourcing library.

``EventStore`` is what a ledger uses. ``Factory`` makes this module a ``PERSISTENCE_MODULE`` of the library: the same
file, the same rows, the same chain, with the library's own mapper.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from threading import get_ident
from types import TracebackType
from typing import Any, Never, cast

from eventsourcing import persistence, sqlite
from eventsourcing.persistence import StoredEvent
from msgspec import MsgspecError

from ledger.domain.errors import ConflictError, DamagedError, LedgerError, RejectedError, StorageError
from ledger.store.integrity import GENESIS
from ledger.store.recorders import (
    COLUMNS,
    AggregateRecorder,
    ApplicationRecorder,
    Datastore,
    Factory,
    ProcessRecorder,
    Row,
    Subscription,
    TrackingRecorder,
    chained,
    read_tip,
)
from ledger.store.sqlite_files import CHECKPOINT_BYTES, LATE_CHECKPOINT_BYTES, LedgerFile, StrPath, typed
from ledger.store.travellers import Prepare, Travellers


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


# What a row that cannot be leads to, sooner or later; of SQLite's codes: a page, a table or a text that cannot be read.
_log = logging.getLogger(__name__)
_MAY_BE_DAMAGE = (TypeError, AttributeError, ValueError, LookupError, AssertionError, ArithmeticError, MsgspecError)
_MAY_BE_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR)


class EventStore:
    """One open log. Threads share it; every process, forked ones too, opens its own."""

    def __init__(self, file: LedgerFile) -> None:
        self.path, self.readonly, self.immutable, self.created = file.path, file.readonly, file.immutable, file.created
        self._file, self._closed = file, False
        self._recorder = ApplicationRecorder(Datastore(file, named_columns=False))
        self._pool = self._recorder.datastore.pool
        self._travellers = Travellers(self._pool, file.busy_timeout_seconds)
        self._reading = threading.local()
        self._private: sqlite3.Connection | None = None
        self._private_lock = threading.RLock()
        self._lock, self._depth, self._owner = threading.RLock(), 0, 0
        self._cursor: sqlite3.Cursor | None = None
        self._awaits_disk = True
        self._transaction: Transaction
        self._data_version, self._position, self._head = -1, 0, GENESIS
        self.find_damage = _no_damage  # settable: names the row of a projection that cannot be
        self.changes = 0  # how often a transaction began after somebody else's commit, or a rollback
        self._scope, self._repeatable = _TransactionScope(self, durable=True), _TransactionScope(self, durable=False)

    @classmethod
    def open(
        cls, path: StrPath, *, readonly: bool = False, busy_timeout_seconds: float = 30.0, create: bool = True
    ) -> EventStore:
        """Opens the log, and makes it where there is none.

        ``NotFoundError`` where there is none and none may be made; ``RejectedError`` where no ledger may lie or the file is none;
        ``StorageError`` when it cannot be read.
        """
        file = LedgerFile(path, readonly=readonly, busy_timeout_seconds=busy_timeout_seconds, create=create)
        return cls(file)

    # --- writing -----------------------------------------------------------------------------------------------------

    def transact(self, *, durable: bool = True) -> AbstractContextManager[Transaction]:
        """The writer's lock and one transaction; inside this thread's own it is the same, and the outermost commits.

        What is not ``durable`` may be gone after a power cut, and never without all that came after it: for what can be done
        again. The next durable commit, by whomever, makes it durable too.
        """
        return self._scope if durable else self._repeatable

    @property
    def is_mine(self) -> bool:
        """Whether this thread is inside a transaction."""
        return bool(self._depth) and self._owner == get_ident()

    def write_now(self, work: Callable[[Transaction], None]) -> bool:
        """Runs work in a transaction unless somebody else is writing at this moment: False then, without waiting."""
        self._check_open()
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if not self._depth and not self._is_free():
                return False
            with self.transact() as transaction:
                work(transaction)
            return True
        finally:
            self._lock.release()

    def _is_free(self) -> bool:
        """Whether the writer's lock of the file can be had at once."""
        connection = (self._cursor or self._open_writer()).connection
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        finally:
            connection.execute(f"PRAGMA busy_timeout = {round(self._file.busy_timeout_seconds * 1000)}")
        return True

    def _enter(self, durable: bool) -> Transaction:
        if self._closed or self._pool.foreign or self.readonly:
            self.refuse_writing()
        if not self._lock.acquire(timeout=self._file.busy_timeout_seconds):
            raise ConflictError("another thread kept the ledger locked for longer than the timeout")
        if self._depth:
            self._depth += 1
            return self._transaction
        try:
            self._await_disk(durable)
            transaction = self._transaction = self._begin()
            self._depth, self._owner = 1, get_ident()
            return transaction
        except BaseException as error:
            self._roll_back()
            self._lock.release()
            _raise_typed(error)

    def _await_disk(self, wanted: bool) -> None:
        """Whether a commit waits until it is on the disk; SQLite takes that between two transactions only."""
        if wanted is not self._awaits_disk:
            cursor = self._cursor or self._open_writer()
            cursor.execute("PRAGMA synchronous = " + ("FULL" if wanted else "NORMAL"))
            cursor.execute(f"PRAGMA journal_size_limit = {CHECKPOINT_BYTES if wanted else LATE_CHECKPOINT_BYTES}")
            self._awaits_disk = wanted

    def _begin(self) -> Transaction:
        cursor = self._cursor or self._open_writer()
        try:
            cursor.execute("BEGIN IMMEDIATE")
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            cursor.execute("BEGIN IMMEDIATE")  # of a disk that failed and works again, SQLite has now dropped its cache
        changed = self._look(cursor)
        return Transaction(self, cursor, changed, self._position, self._head)

    def _look(self, cursor: sqlite3.Cursor) -> bool:
        """Whether another connection committed since; then what was kept of the log is read again."""
        data_version = cursor.execute("PRAGMA data_version").fetchone()[0]
        if data_version == self._data_version:
            return False
        self._position, self._head = read_tip(cursor)
        self._data_version = data_version
        self.changes += 1
        return True

    def _open_writer(self) -> sqlite3.Cursor:
        if self._closed:
            self.refuse_writing()
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
                with suppress(sqlite3.Error):  # then the next transaction sees to it
                    self._await_disk(True)
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
        self._file.after_commit(transaction.connection, wrote=transaction.wrote or None, soon=self._awaits_disk)
        transaction.wrote = 0

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

    def refuse_writing(self) -> Never:
        self._check_open()
        raise RejectedError(
            "this ledger was opened for reading (readonly=True) and accepts no command", rule="readonly"
        )

    def _check_open(self) -> None:
        if self._pool.foreign:
            raise ConflictError("this ledger was opened by another process, from which this one was forked")
        if self._closed:
            raise RejectedError("this ledger is closed; open it again", rule="closed")

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
                read_tip(connection.raw.cursor())  # from here it sees this moment
                self._private = connection.raw
                yield connection.raw
            except BaseException as error:
                self._private = None
                if connection is not None:
                    with suppress(sqlite3.Error):
                        connection.raw.execute("ROLLBACK")
                    self._pool.put_connection(connection)
                _raise_typed(error)

    @property
    def folded_privately(self) -> bool:
        """Whether the file's own projections are none that this product can read."""
        return self._private is not None

    @contextmanager
    def travelling(self, prepare: Prepare) -> Iterator[sqlite3.Connection]:
        """A connection of its own, on which ``prepare`` was run once, in a snapshot of what is committed.

        There are few, and each is kept until the store closes, so every call must name the same preparation.
        """
        self._check_open()
        try:
            with self._travellers.lend(prepare) as connection:
                try:
                    yield connection
                except BaseException as error:
                    if (explained := self.explained(error, connection)) is not None:
                        raise explained from error
                    raise
        except BaseException as error:
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
            return read_tip(connection.cursor())

    def blob(self, blob_id: str) -> bytes | None:
        """The bytes; None when there is no such blob or it was erased."""
        with self.snapshot() as connection:
            found = connection.execute("SELECT data FROM blobs WHERE id = ?", (blob_id,)).fetchone()
        return found[0] if found else None

    def _select(self, where: str, values: Sequence[Any]) -> list[LogRow]:
        with self.snapshot() as connection:
            return [LogRow(*row) for row in connection.execute(f"SELECT {COLUMNS} FROM events WHERE {where}", values)]

    def explained(self, error: BaseException, connection: Any) -> LedgerError | None:
        """What a caller sees instead of an error: ``DamagedError`` where a row of the projections explains it."""
        if self._private is None and not self._pool.foreign and _may_be_damage(error):
            if (damaged := self.find_damage(connection)) is not None:
                _warn(damaged)
                return damaged
            vars(error)["searched"] = True  # by whatever surrounds this one it need not be
        _warn(error)
        return _typed(error)

    # --- care --------------------------------------------------------------------------------------------------------

    @contextmanager
    def lent(self) -> Iterator[sqlite3.Connection]:
        """A connection outside of any transaction, for SQLite's own ways of copying a whole file."""
        self._check_open()
        try:
            connection = self._pool.get_connection(is_writer=False)
        except persistence.PersistenceError as error:
            _raise_typed(error)
        try:
            yield connection.raw
        finally:
            with suppress(persistence.ConnectionPoolClosedError):
                self._pool.put_connection(connection)

    def checkpoint(self) -> bool:
        """Everything from the -wal into the file, and the -wal emptied; False when a reader or a writer is busy."""
        if self._closed or self._pool.foreign or self.readonly:
            self.refuse_writing()
        if self._owner == get_ident():
            return False
        with self._file.hold(), self._exclusively():
            return self._truncate()

    @contextmanager
    def _exclusively(self) -> Iterator[None]:
        """No transaction of another thread. The file lock is always taken first."""
        if not self._lock.acquire(timeout=self._file.busy_timeout_seconds):
            raise ConflictError("another thread kept the ledger locked for longer than the timeout")
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
            raise RejectedError(
                "this ledger has a transaction under way in this thread; close it after that", rule="closed"
            )
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
        own += self._travellers.close()
        quiet = self._private_lock.acquire(timeout=self._file.busy_timeout_seconds)
        try:
            self._pool.close(unused=[*own, self._private] if quiet and self._private else own)
        finally:
            if quiet:
                self._private_lock.release()


class _TransactionScope:
    """What ``transact()`` gives; it has no state of its own, so one serves every call."""

    __slots__ = ("_durable", "_store")

    def __init__(self, store: EventStore, *, durable: bool) -> None:
        self._store, self._durable = store, durable

    def __enter__(self) -> Transaction:
        return self._store._enter(self._durable)

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        self._store._leave(error)


class _Snapshot:
    """What ``snapshot()`` gives."""

    __slots__ = ("_connection", "_of_pool", "_store")

    def __init__(self, store: EventStore) -> None:
        self._store = store

    def __enter__(self) -> sqlite3.Connection:
        store = self._store
        self._of_pool = store._owner != get_ident()
        if not self._of_pool:
            store._transaction.flush()
        self._connection = store._enter_snapshot() if self._of_pool else store._transaction.connection
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        explained = self._store.explained(error, self._connection) if error is not None else None
        if self._of_pool:
            self._store._leave_snapshot()
        if explained is not None:
            raise explained from error


class Transaction:
    """One write transaction under way. It is of use to its own thread only, and only until it ends."""

    __slots__ = (
        *("_broken", "_cursor", "_pending", "_savepoints", "_store", "_versions"),
        *("changed", "connection", "deferred", "head", "over", "position", "wrote"),
    )

    def __init__(self, store: EventStore, cursor: sqlite3.Cursor, changed: bool, position: int, head: bytes) -> None:
        self.connection = cursor.connection
        self.changed = changed  # another connection committed, or something was rolled back: drop what was kept
        self.position, self.head = position, head  # of the last event, including those appended here
        self.deferred = False  # settable: append() then keeps the rows until flush() or the commit
        self.over = self._broken = False
        self.wrote = 0  # bytes of states and blobs
        self._store, self._cursor, self._savepoints = store, cursor, 0
        self._pending: list[Row] = []
        self._versions: dict[str, int] = {}

    def append(self, events: Sequence[StoredEvent], keys: Sequence[bytes | None] = ()) -> list[int]:
        """Appends events, whose ``originator_id`` is the stream, and gives their positions; all or none."""
        self._check()
        try:
            rows = chained(events, keys, self.position, self.head)
        except persistence.DataError as error:
            raise RejectedError(str(error), rule="encoding") from error
        if not rows:
            return []
        if self.deferred:
            self._pending += rows
            for row in rows:
                self._versions[row[1]] = row[2]
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
        self.wrote += sum([len(row[4]) for row in rows])
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
            raise RejectedError("this transaction is over", rule="closed")
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
            raise RejectedError("a transaction with a savepoint open cannot be renewed", rule="savepoint")
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
            raise ConflictError("an append in this transaction failed half-way, so that it cannot be committed")
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
        self.wrote += len(data)
        try:
            self._cursor.execute("INSERT INTO blobs (id, data) VALUES (?, ?)", (blob_id, data))
        except sqlite3.Error as error:
            _raise_typed(error)


def _no_damage(connection: Any, names: Collection[str] = ()) -> StorageError | None:
    return None


def _warn(error: BaseException) -> None:
    """Tell of damage, by the table: the key of a row may be a name."""
    if isinstance(error, DamagedError):
        _log.warning("damaged: a row of the table %s", error.table)


def _may_be_damage(error: BaseException) -> bool:
    """Whether a damaged row may be behind an error that nobody has looked into yet."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _MAY_BE_DAMAGED
    known = isinstance(error, LedgerError) or hasattr(error, "searched")
    return isinstance(error, _MAY_BE_DAMAGE) and not known


def _typed(error: BaseException) -> LedgerError | None:
    """What a caller of the store sees instead of an error of SQLite or of the library."""
    if isinstance(error, sqlite3.Error):
        return typed(error)
    if isinstance(error, persistence.DataError):
        return RejectedError(str(error), rule="encoding")
    if isinstance(error, persistence.ConnectionPoolClosedError):
        return RejectedError("this ledger is closed; open it again", rule="closed")
    if isinstance(error, persistence.PersistenceError):
        return StorageError("no connection to the ledger could be had within the timeout")
    return None


def _raise_typed(error: BaseException) -> Never:
    translated = _typed(error)
    if translated is None:
        raise error
    raise translated from error


__all__ = [  # what the library finds here
    "AggregateRecorder",
    "ApplicationRecorder",
    "Datastore",
    "EventStore",
    "Factory",
    "LogRow",
    "ProcessRecorder",
    "Subscription",
    "TrackingRecorder",
    "Transaction",
]
