"""The log: append events under the lock of one writer, and read streams and the log.

``EventStore`` is for a ledger. ``Factory`` makes this module a ``PERSISTENCE_MODULE`` of the eventsourcing library: the
same file, rows and chain, with the library's own mapper.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from types import TracebackType
from typing import Never

from eventsourcing import persistence

from ledger.domain.errors import DamagedError, LedgerError, RejectedError, StorageError
from ledger.log.envelope import COLUMNS, LogRow
from ledger.log.integrity import find_in_log, may_be_damage
from ledger.log.paths import StrPath
from ledger.log.reading import ConnectionPool, LogSnapshots, PastViews, Prepare, let_go, raise_typed, read_tip, typed
from ledger.log.recorders import (
    AggregateRecorder,
    ApplicationRecorder,
    Datastore,
    Factory,
    ProcessRecorder,
    Subscription,
    TrackingRecorder,
)
from ledger.log.sqlite_files import LedgerFile, Tables, no_tables
from ledger.log.writing import SharedWriting, Transaction, Writing

_log = logging.getLogger(__name__)


class Misuse(RejectedError):
    """A call that a fold may not make; the message names no value of the event."""


class _OwnFold(threading.local):
    """The switch that makes every ledger refuse a thread that runs a user's own fold, a function of what it receives alone."""

    is_on: bool = False


own_fold: _OwnFold = _OwnFold()


def refuse_fold() -> Never:
    raise Misuse("a fold called a ledger; it may read only the event, the change and the rows that it receives")


class EventStore:
    """An open log. Threads share it; every process, forked processes too, opens its own."""

    def __init__(self, file: LedgerFile) -> None:
        self.path: str = file.path
        self.readonly: bool = file.readonly
        self.immutable: bool = file.immutable
        self.created: bool = file.created
        self.is_copy: bool = file.is_copy  # of a log up to a position
        self.find_damage = _no_damage  # settable: finds a damaged row of the projections
        self._file, self._pool = file, ConnectionPool(file, named_columns=False)
        self.writing: Writing = Writing(file, self._pool)
        self._reading = LogSnapshots(self._pool, self.writing.check_open)
        self._past_views = defaultdict[Prepare, PastViews](lambda: PastViews(self._pool, file.busy_timeout_seconds))

    @classmethod
    def open(
        cls,
        path: StrPath,
        *,
        readonly: bool = False,
        busy_timeout_seconds: float = 30.0,
        create: bool = True,
        tables: Tables = no_tables,
        shared: bool = False,
    ) -> EventStore:
        """Open the log of a file.

        Args:
            path: The path of the file.
            readonly: True to refuse every command.
            busy_timeout_seconds: The longest wait for a lock or a connection.
            create: True to make the file if there is none.
            tables: Makes the tables that a new file has besides the log's own.
            shared: True if the log of other machines will be attached; without it a machine's copy of such a log is only read.

        Raises:
            NotFoundError: There is no file, and ``create`` is false or ``readonly`` is true.
            RejectedError: A ledger may not lie at this path, or the file is not a ledger.
            StorageError: The file cannot be read.
        """
        return cls(
            LedgerFile(
                path,
                readonly=readonly,
                busy_timeout_seconds=busy_timeout_seconds,
                create=create,
                tables=tables,
                shared=shared,
            )
        )

    # --- writing -----------------------------------------------------------------------------------------------------

    def transact(self, *, durable: bool = True) -> AbstractContextManager[Transaction]:
        """Return a context with the writer's lock and one transaction; a nested context is the same transaction.

        The outermost context commits. While machines share the log, only ``command()`` may append to it. A commit that is not
        ``durable`` may be lost in a power cut, together with all that came after it, until the next durable commit of any
        process. It is for work that can be done again.
        """
        if own_fold.is_on:
            refuse_fold()
        return self.writing.durable if durable else self.writing.repeatable

    def command(self, *, hopes: bool = False) -> AbstractContextManager[Transaction]:
        """Return the context of a command, which may append: ``transact()`` with the lock of the shared log, if there is one.

        A command that ``hopes`` does without the lock of the shared log while nobody else writes.

        Raises:
            ConflictError: The log is shared, and this thread has a ``transact()`` open, which has not taken that lock.
            OutdatedError: The command hoped, and another machine wrote or the command has nothing to write: give it again
                without hope.
        """
        if own_fold.is_on:
            refuse_fold()
        return self.writing.hopeful_commands if hopes else self.writing.commands

    @property
    def shared(self) -> SharedWriting | None:
        """Return the way into the log that other machines write to as well; None for a log of this file alone."""
        return self.writing.shared

    @shared.setter
    def shared(self, joining: SharedWriting) -> None:
        self.writing.shared = joining

    @property
    def is_replica(self) -> bool:
        """Return True if the file was a machine's copy of a shared log when it was opened."""
        return self._file.is_replica

    @property
    def is_own(self) -> bool:
        """Return True inside a transaction of the calling thread; of a batch, inside the task that opened the batch."""
        return self.writing.is_own

    @property
    def is_of_thread(self) -> bool:
        """Return True inside a transaction of the calling thread, whichever of its tasks opened it."""
        return self.writing.is_of_thread

    @property
    def is_busy(self) -> bool:
        """Return True while a transaction of another thread of this process is open."""
        return self.writing.is_busy

    def write_now(self, work: Callable[[Transaction], None], *, durable: bool = True) -> bool:
        """Run the work in a transaction and return True; return False without waiting while another writer is active."""
        return self.writing.now_or_never(work, durable=durable)

    def check_open(self) -> None:
        """Raise an error if the log is closed, or was opened by the process that this process was forked from."""
        self.writing.check_open()

    def check_closable(self) -> None:
        """Raise ``RejectedError`` inside a transaction of this thread."""
        if self.writing.is_of_thread and not self._pool.foreign:
            raise RejectedError(
                "this ledger has a transaction under way in this thread; close it after that", rule="closed"
            )

    def refuse_writing(self) -> Never:
        self.writing.refuse()

    # --- reading -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> AbstractContextManager[sqlite3.Connection]:
        """Return a context with one moment of the log; inside the thread's own transaction, with the transaction's state."""
        if own_fold.is_on:
            refuse_fold()
        return _Snapshot(self.writing, self._reading, self.explained)

    def fold_privately(self, fold: Callable[[sqlite3.Connection], None]) -> None:
        """Serve every later snapshot from one connection whose TEMP tables come before the file's tables.

        ``fold`` makes those tables and brings them to the moment of each snapshot.
        """
        self._reading.keep_private(fold)

    @property
    def folded_privately(self) -> bool:
        """Return True if this version cannot read the file's own projections."""
        return self._reading.is_private

    @contextmanager
    def past_view(self, prepare: Prepare) -> Iterator[sqlite3.Connection]:
        """Lend a connection on which ``prepare`` was run once, in a snapshot of the committed log.

        Each ``prepare`` has a few connections, which stay open until the store closes.
        """
        if own_fold.is_on:
            refuse_fold()
        self.writing.check_open()
        try:
            with self._past_views[prepare].lend(prepare) as connection:
                try:
                    yield connection
                except BaseException as error:
                    explained = self.explained(error, connection)
                    let_go(error)
                    if explained is not None:
                        raise explained from error
                    raise
        except BaseException as error:
            raise_typed(error)

    def stream(self, stream_id: str, after_version: int = 0, up_to_position: int | None = None) -> list[LogRow]:
        """Return the events of one stream in their order, those up to a position if a position is given."""
        where, values = "stream = ? AND version > ?", [stream_id, after_version]
        if up_to_position is not None:
            where, values = where + " AND position <= ?", [*values, up_to_position]
        return self._select(f"{where} ORDER BY version", values)

    def rows(self, start: int = 1, stop: int | None = None, limit: int = 1000) -> list[LogRow]:
        """Return the rows of the log from one position to another, both included, at most ``limit`` rows."""
        where, values = "position >= ?", [start]
        if stop is not None:
            where, values = where + " AND position <= ?", [start, stop]
        return self._select(f"{where} ORDER BY position LIMIT ?", [*values, limit])

    def row(self, position: int) -> LogRow | None:
        rows = self._select("position = ?", [position])
        return rows[0] if rows else None

    def head(self) -> tuple[int, bytes]:
        """Return the last position and the head after it; 0 and ``GENESIS`` if the log is empty."""
        with self.snapshot() as connection:
            return read_tip(connection.cursor())

    def blob(self, blob_id: str) -> bytes | None:
        """Return the bytes of a blob; None if there is no such blob or an erasure took it."""
        with self.snapshot() as connection:
            row = connection.execute("SELECT data FROM blobs WHERE id = ?", (blob_id,)).fetchone()
        return row[0] if row else None

    def _select(self, where: str, values: Sequence[object]) -> list[LogRow]:
        with self.snapshot() as connection:
            return [LogRow(*row) for row in connection.execute(f"SELECT {COLUMNS} FROM events WHERE {where}", values)]

    def explained(self, error: BaseException, connection: sqlite3.Connection) -> LedgerError | None:
        """Return the error that the caller is to see instead of this error; None if this error is to be raised as it is.

        It is a ``DamagedError`` if a row of the projections or of the log explains the error. In a machine's copy of a shared
        log, the error says that the log can be copied again.
        """
        shown = self._explained(error, connection)
        damaged = error if shown is None else shown
        if isinstance(damaged, DamagedError) and damaged.table == "events" and not damaged.is_copy:
            is_copy = self.is_replica or self.shared is not None
            return DamagedError("events", damaged.row, damaged.why, is_copy=True) if is_copy else shown
        return shown

    def _explained(self, error: BaseException, connection: sqlite3.Connection) -> LedgerError | None:
        if (displaced := self._not_ours(error)) is not None:
            return displaced
        if not self._pool.foreign and may_be_damage(error):
            damaged = self.find_damage(connection) if not self._reading.is_private else None
            if (damaged := damaged or find_in_log(connection)) is not None:
                _warn(damaged)
                return damaged
            vars(error)["searched"] = True  # the contexts around this context need not search again
        _warn(error)
        return typed(error)

    def _not_ours(self, error: BaseException) -> StorageError | None:
        """Return an error if another file took the place of this file or was copied over it, which can look like damage."""
        of_tables = isinstance(error, DamagedError) and error.table != "events"
        if self.readonly or self._pool.foreign or not (may_be_damage(error) or of_tables):
            return None
        try:
            self._file.check()
        except StorageError as displaced:
            return displaced
        return None

    # --- care --------------------------------------------------------------------------------------------------------

    @contextmanager
    def lent(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection outside of any transaction, for SQLite's own ways to copy a whole file."""
        self.writing.check_open()
        try:
            connection = self._pool.get_connection(is_writer=False)
        except Exception as error:
            raise_typed(error)
        try:
            yield connection.raw
        finally:
            with suppress(persistence.ConnectionPoolClosedError):
                self._pool.put_connection(connection)

    def displaced(self) -> str:
        """Return a sentence about a change that somebody made to the open file; empty while there was none."""
        return self._file.place.displaced()

    def bound_wal(self, size_bytes: int) -> None:
        """Set the size of the -wal above which writers wait a moment for readers, so that the -wal can be emptied."""
        self._file.wal_bytes = size_bytes

    def checkpoint(self) -> bool:
        """Write the whole -wal into the file and empty the -wal; return False if a reader or a writer is busy."""
        if self.writing.closed or self._pool.foreign or self.readonly:
            self.writing.refuse()
        if self.writing.is_of_thread:
            return False
        with self._file.hold(), self.writing.exclusively():
            return self._truncate()

    def _truncate(self) -> bool:
        if self._file.place.is_replaced:
            raise StorageError(self.displaced())
        try:
            return self._file.truncate(self.writing.open_cursor().connection)
        except (sqlite3.Error, persistence.PersistenceError) as error:
            raise_typed(error)

    def remove_unused(self) -> None:
        """Remove the file of a closed log that this object began, if nothing was recorded and nobody else has the file open."""
        self._file.remove_unused()

    def close(self) -> None:
        """Close the log, after a checkpoint if nobody is busy. A second call and a call in a forked child do nothing."""
        writing = self.writing
        if writing.closed or self._pool.foreign:
            return
        self.check_closable()
        with self._file.hold(), writing.exclusively():
            if writing.closed:
                return
            try:
                if writing.cursor is not None:
                    with suppress(LedgerError):
                        self._truncate()
            finally:
                writing.closed = True
                self._close_pool()

    def _close_pool(self) -> None:
        """Close the connections that the store keeps; those of readers under way are closed when their readers end."""
        own, self.writing.cursor = [self.writing.cursor.connection] if self.writing.cursor else [], None
        own += [connection for views in self._past_views.values() for connection in views.close()]
        with self._reading.no_longer(self._file.busy_timeout_seconds) as private:
            self._pool.close(unused=[*own, *private])


class _Snapshot:
    """The context that ``snapshot()`` returns."""

    __slots__ = ("_connection", "_explained", "_of_pool", "_reading", "_writing")

    def __init__(
        self,
        writing: Writing,
        reading: LogSnapshots,
        explained: Callable[[BaseException, sqlite3.Connection], LedgerError | None],
    ) -> None:
        self._writing, self._reading, self._explained = writing, reading, explained

    def __enter__(self) -> sqlite3.Connection:
        self._of_pool = not self._writing.is_own
        if not self._of_pool:
            self._writing.transaction.flush()
        self._connection = self._reading.enter() if self._of_pool else self._writing.transaction.connection
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        explained = self._explained(error, self._connection) if error is not None else None
        let_go(error)
        if self._of_pool:
            self._reading.leave()
        if explained is not None:
            raise explained from error


def _no_damage(connection: sqlite3.Connection, names: Collection[str] = ()) -> StorageError | None:
    return None


def _warn(error: BaseException) -> None:
    """Log a warning about damage with the table only, because the key of a row may be a person's name."""
    if isinstance(error, DamagedError):
        _log.warning("damaged: a row of the table %s", error.table)


__all__ = [  # the eventsourcing library looks these names up in this module
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
