"""The writer of the log: one at a time in this process and over all, with a transaction that owns its connection."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Never, Protocol
from uuid import UUID

from eventsourcing import persistence, sqlite
from eventsourcing.persistence import StoredEvent

from ledger.domain.errors import (
    BusyError,
    ConflictError,
    LedgerError,
    RejectedError,
    StorageError,
    UnknownOutcomeError,
)
from ledger.log.envelope import COLUMNS, GENESIS, LogRow, Row, Stored, digest, link
from ledger.log.inspection import COPY_REFUSES
from ledger.log.reading import ConnectionPool, raise_typed, read_tip, typed
from ledger.log.sqlite_files import CHECKPOINT_BYTES, LATE_CHECKPOINT_BYTES, REPLICA, LedgerFile

if TYPE_CHECKING:
    from ledger.log.shared.port import SharedLog, Tail


import sys
from contextvars import ContextVar

_INSERT = f"INSERT INTO events ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)"
_IS_REPLICA = f"SELECT 1 FROM main.sqlite_master WHERE name = '{REPLICA}'"


class OutdatedError(ConflictError):
    """A command was decided without the lock of the shared log, and the log has to be asked; nothing was written."""

    def __init__(self) -> None:
        super().__init__("another machine wrote to the shared log meanwhile; nothing was written: repeat the command")


class SharedWriting(Protocol):
    """The way of a transaction into a log that machines share (``Joining``, which is loaded only if there is such a log)."""

    log: SharedLog
    is_hoping: bool  # the transaction has no lock of the shared log, whose end is expected to be the file's
    asked_at: float | None  # while an answer of the shared log is waited for
    fold: Callable[[Transaction], None] | None

    def join(self, transaction: Transaction, *, hopes: bool = False) -> None: ...
    def publish(self, transaction: Transaction) -> bool: ...
    def let_go(self, cursor: sqlite3.Cursor) -> None: ...
    def take_in(self, transaction: Transaction, tail: Tail) -> None: ...


class Writing:
    """The writer of an open log: its lock among threads, its connection, and the end of the log."""

    def __init__(self, file: LedgerFile, pool: ConnectionPool) -> None:
        self.file = file
        self.pool = pool
        self.closed = False
        self.cursor: sqlite3.Cursor | None = None
        self.transaction: Transaction  # the running or the last transaction
        self.position: int = 0
        self.head: bytes = GENESIS
        self.data_version: int = -1
        self.changes: int = 0  # how often a transaction began after another writer's commit, or after a rollback
        self.shared: SharedWriting | None = None  # settable: the log that other machines write to as well
        self.durable: _Scope = _Scope(self, durable=True)
        self.repeatable: _Scope = _Scope(self, durable=False)
        self.commands: _Scope = _Scope(self, durable=True, joins=True)
        self.hopeful_commands: _Scope = _Scope(self, durable=True, joins=True, hopes=True)
        self._lock, self._depth, self._owner = threading.RLock(), 0, 0
        self._awaits_disk = True

    @property
    def is_own(self) -> bool:
        """Return True inside a transaction of this thread; if the transaction has a token, only for the token's owner."""
        return self.is_of_thread and ((token := self.transaction.token) is None or token.is_here)

    @property
    def is_of_thread(self) -> bool:
        """Return True while a transaction of this thread is open, for any of the thread's tasks."""
        return self._owner == get_ident()

    @property
    def is_busy(self) -> bool:
        """Return True while a transaction of another thread is open."""
        if is_free := self._lock.acquire(blocking=False):
            self._lock.release()
        return not is_free

    def check_open(self) -> None:
        if self.pool.foreign:
            raise ConflictError(
                "this ledger was opened by the process that this one was forked from: "
                "start a fresh process ('spawn'), or fork before the ledger is opened"
            )
        if self.closed:
            raise RejectedError("this ledger is closed; open it again", rule="closed")

    def refuse(self) -> Never:
        self.check_open()
        why = "this ledger was opened for reading (readonly=True) and accepts no command"
        if self.file.is_replica and not self.file.is_opened_to_read:
            why = (
                "this file holds a copy of a log that machines share, so without the log it is only read: name the log to"
                " give commands, by log=…, LEDGER_LOG_URL or log_url in the settings"
            )
        raise RejectedError(COPY_REFUSES if self.file.is_copy else why, rule="readonly")

    def open_cursor(self) -> sqlite3.Cursor:
        """Return the writer's own cursor, on a connection that it keeps."""
        if self.cursor is None:
            if self.closed:
                self.refuse()
            self.cursor = self.pool.get_connection().raw.cursor()
        return self.cursor

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Keep transactions of other threads out. The caller has taken the file lock first."""
        self._acquire()
        try:
            yield
        finally:
            self._lock.release()

    def now_or_never(self, work: Callable[[Transaction], None], *, durable: bool = True) -> bool:
        """Run the work in a transaction and return True; return False without waiting while another writer is active."""
        self.check_open()
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if not (self.is_own if self._depth else self._is_free()):
                return False
            with self.durable if durable else self.repeatable as transaction:
                work(transaction)
            return True
        finally:
            self._lock.release()

    def _is_free(self) -> bool:
        """Return True if the writer's lock of the file is free."""
        connection = self.open_cursor().connection
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        finally:
            connection.execute(f"PRAGMA busy_timeout = {round(self.file.busy_timeout_seconds * 1000)}")
        return True

    def _acquire(self) -> None:
        if not self._lock.acquire(timeout=self.file.busy_timeout_seconds):
            asked_at = self.shared.asked_at if self.shared is not None else None
            if asked_at is not None:
                seconds = time.monotonic() - asked_at
                raise BusyError(
                    f"the shared log has not answered another command of this ledger for {seconds:.0f} seconds, and this"
                    " command waited behind it for longer than the timeout"
                )
            raise BusyError("another thread kept the ledger locked for longer than the timeout")

    # --- a transaction, from its beginning to its end ------------------------------------------------------------

    def enter(self, durable: bool, joins: bool = False, hopes: bool = False) -> Transaction:
        """Begin a transaction, or enter the one that this thread has open.

        A transaction that ``joins`` also has the lock of the shared log, if there is one, and may append. One that ``hopes``
        may do without the lock, and then ends with ``OutdatedError`` if another machine wrote meanwhile.
        """
        if self.closed or self.pool.foreign or self.file.readonly:
            self.refuse()
        self._acquire()
        if self._depth:
            if not self.is_own:
                self._lock.release()
                raise ConflictError(
                    "another task or context of this thread has a batch open, and a batch belongs to the task that opened it:"
                    " await its end first"
                )
            if joins and self.shared is not None and self.transaction.outgoing is None:
                self._lock.release()
                raise ConflictError(
                    "a command takes the lock of the shared log, and a transaction of this file alone is open: end that first"
                )
            self._depth += 1
            return self.transaction
        try:
            # The shared log has each command that is committed here, so nothing is lost with this file's last commits.
            self._await_disk(durable and not (joins and self.shared is not None))
            transaction = self.transaction = self._begin()
            self._depth, self._owner = 1, get_ident()
            if joins and self.shared is not None:
                self.shared.join(transaction, hopes=hopes)
            return transaction
        except BaseException as error:
            self._roll_back()
            self._depth = self._owner = 0
            self._lock.release()
            raise_typed(error)

    def leave(self, error: BaseException | None) -> None:
        """Leave a transaction; the outermost leave commits it, or rolls it back after an error."""
        if self.pool.foreign:
            self.transaction.over = True
            if error is None:
                self.check_open()
        elif self._depth > 1:
            self._depth -= 1
            self._lock.release()
        else:
            try:
                if error is None:
                    self.commit()
                else:
                    was_hoping = self.shared is not None and self.shared.is_hoping
                    self._roll_back()
                    if was_hoping and isinstance(error, LedgerError):
                        raise OutdatedError from error  # what another machine wrote may change the answer
            finally:
                self.transaction.over = True
                self._depth = self._owner = 0
                if self.shared is None:
                    with suppress(sqlite3.Error):  # the next transaction tries again
                        self._await_disk(True)
                self._lock.release()
        if error is not None and (translated := typed(error)):
            raise translated from error

    def _await_disk(self, durable: bool) -> None:
        """Make commits wait for the disk, or not; SQLite accepts the change only between two transactions."""
        if durable is not self._awaits_disk:
            cursor = self.open_cursor()
            cursor.execute("PRAGMA synchronous = " + ("FULL" if durable else "NORMAL"))
            limit = CHECKPOINT_BYTES if durable else LATE_CHECKPOINT_BYTES
            # A row that is not fetched keeps the statement open, and an open statement keeps a close from its checkpoint.
            cursor.execute(f"PRAGMA journal_size_limit = {limit}").fetchone()
            self._awaits_disk = durable

    def _begin(self) -> Transaction:
        cursor = self.open_cursor()
        try:
            cursor.execute("BEGIN IMMEDIATE")
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            # After a failure of the disk SQLite has dropped its cache by now, so the second attempt may succeed.
            cursor.execute("BEGIN IMMEDIATE")
        self.look(cursor)
        return Transaction(self, cursor)

    def look(self, cursor: sqlite3.Cursor) -> None:
        """Read the end of the log again if another connection has committed."""
        data_version = cursor.execute("PRAGMA data_version").fetchone()[0]
        if data_version != self.data_version:
            self.position, self.head = read_tip(cursor)
            self.data_version = data_version
            self.changes += 1
            if self.shared is None and cursor.execute(_IS_REPLICA).fetchone() is not None:
                raise ConflictError(
                    "this file has become a machine's copy of a shared log since it was opened here: open it again, and"
                    " name the log by log=…, LEDGER_LOG_URL or log_url in the settings"
                )
        if self.file.place.first is None and self.position:
            (self.file.place.first,) = cursor.execute("SELECT head FROM events WHERE position = 1").fetchone()

    def commit(self) -> None:
        transaction, is_published = self.transaction, False
        try:
            self.file.check()
            transaction.complete()
            if transaction.outgoing is not None:
                assert self.shared is not None
                is_published = self.shared.publish(transaction)
            transaction.finish()
            self.file.place.check()  # a commit to a file that was moved away must not be answered as a success
            self.position, self.head = transaction.position, transaction.head
        except BaseException as error:
            self._roll_back()
            if is_published and isinstance(error, Exception):
                raise UnknownOutcomeError(
                    f"the shared log has this command, but this machine's file could not be written ({typed(error) or error});"
                    " repeat the command with the same key"
                ) from error
            raise_typed(error)
        self._checkpoint(transaction)

    def _checkpoint(self, transaction: Transaction) -> None:
        soon = self._awaits_disk or self.shared is not None
        self.file.after_commit(transaction.connection, wrote=transaction.wrote or None, soon=soon)
        transaction.wrote = 0

    def renew(self, transaction: Transaction) -> None:
        """Commit a transaction and begin it anew, with the lock of the shared log again if it had that lock."""
        joins = transaction.outgoing is not None
        self.commit()
        transaction.outgoing = None
        self._begin_anew(transaction)
        if joins and self.shared is not None:
            try:
                self.shared.join(transaction)
            except BaseException:
                self._roll_back()
                raise

    def keep(self, transaction: Transaction) -> None:
        """Commit the events of other machines alone, and begin the transaction anew."""
        transaction.complete()
        transaction.finish()
        self.position, self.head = transaction.position, transaction.head
        self._checkpoint(transaction)
        self._begin_anew(transaction)

    def _begin_anew(self, transaction: Transaction) -> None:
        (cursor := self.open_cursor()).execute("BEGIN IMMEDIATE")
        self.look(cursor)
        transaction.position, transaction.head, transaction.changes = self.position, self.head, self.changes

    def _roll_back(self) -> None:
        """Take back the transaction, except for the events of other machines, which are folded."""
        self.data_version = -1
        if self.shared is not None and self.cursor is not None:
            with suppress(sqlite3.Error):
                self.shared.let_go(self.cursor)
        with suppress(sqlite3.Error):
            if self.cursor is not None and self.cursor.connection.in_transaction:
                self.cursor.execute("ROLLBACK")


class _Scope:
    """The context that ``transact()`` and ``command()`` return; it has no state of its own, so one object serves every call."""

    __slots__ = ("_durable", "_hopes", "_joins", "writing")

    def __init__(self, writing: Writing, *, durable: bool, joins: bool = False, hopes: bool = False) -> None:
        self.writing: Writing = writing
        self._durable = durable
        self._joins = joins
        self._hopes = hopes

    def __enter__(self) -> Transaction:
        return self.writing.enter(self._durable, self._joins, self._hopes)

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        self.writing.leave(error)


class Transaction:
    """A write transaction that is open. Only its own thread may use it, and only until it ends."""

    __slots__ = (
        *("_broken", "_cursor", "_marks", "_pending", "_versions"),
        *("changes", "connection", "deferred", "head", "outgoing", "over", "position", "token", "writing", "wrote"),
    )

    def __init__(self, writing: Writing, cursor: sqlite3.Cursor) -> None:
        self.connection: sqlite3.Connection = cursor.connection
        self.changes: int = writing.changes  # a changed number means: drop what was cached of the file
        self.position: int = writing.position
        self.head: bytes = writing.head  # of the last event, including those appended here
        self.deferred = False  # settable: append() then keeps the rows until flush() or the commit
        self.token: Token | None = None  # settable: the owner within the thread
        self.over = self._broken = False
        self.wrote: int = 0  # bytes of states and blobs
        self.outgoing: Outgoing | None = None  # what the commit adds to the shared log, while its lock is held
        self.writing = writing
        self._cursor = cursor
        self._marks: list[Mark] = []  # of the open savepoints
        self._pending: list[Row] = []
        self._versions: dict[str, int] = {}

    @property
    def committed(self) -> int:
        """Return the position of the last event that is committed."""
        return self.writing.position

    def append(self, events: Sequence[StoredEvent | Stored], keys: Sequence[bytes | None] = ()) -> list[int]:
        """Append events, whose ``originator_id`` is the stream, and return their positions; append all or none."""
        self._check()
        if self.outgoing is None and self.writing.shared is not None:
            raise ConflictError(
                "this transaction is of this machine's file alone and appends nothing to the shared log: append in command()"
            )
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
        if self.outgoing is not None:
            self.outgoing.rows += rows
        self.position, self.head = rows[-1][0], rows[-1][6]
        return [row[0] for row in rows]

    def append_rows(self, rows: Iterable[LogRow]) -> None:
        """Write the rows of another log unchanged; they must begin at the position after the last."""
        self.flush()
        columns: list[Row] = [
            (r.position, r.stream, r.version, r.type, r.state, r.digest, r.head, r.key, r.erased_by) for r in rows
        ]
        if columns:
            self._insert(columns)
            self.position, self.head = columns[-1][0], columns[-1][6]

    def flush(self) -> None:
        """Write the rows that are kept back, so that SQL sees them."""
        self._check()
        if self._pending:
            rows, self._pending, self._versions = self._pending, [], {}
            self._insert(rows, counted=True)

    def _insert(self, rows: Sequence[Row], *, counted: bool = False) -> None:
        self.wrote += sum(len(row[4]) for row in rows)
        try:
            insert(self._cursor, rows)
        except BaseException as error:
            # Some of the rows may be written. A single row is written or not, which does no harm unless its position counted.
            self._broken = self._broken or counted or len(rows) > 1
            raise_typed(error)

    def _check(self) -> None:
        if self.writing.pool.foreign:
            self.writing.check_open()
        if self.over:
            raise RejectedError("this transaction has ended; begin another", rule="closed")
        if not self.connection.in_transaction:
            raise StorageError("SQLite rolled this transaction back after an error; nothing of it was written")

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo everything inside if an exception leaves the block; the transaction may go on."""
        self._check()
        sent = self.outgoing.sizes() if self.outgoing is not None else None
        mark = Mark(self._pending.copy(), self.position, self.head, self._broken, sent)
        self._cursor.execute("SAVEPOINT inside")
        self._marks.append(mark)
        try:
            yield
        except BaseException as error:
            if self.connection.in_transaction and not self.writing.pool.foreign:
                self._cursor.execute("ROLLBACK TO inside")
                self._cursor.execute("RELEASE inside")
            # Rows that were kept back before the savepoint and written inside it are kept back again.
            self._pending = mark.pending
            self._versions = {row[1]: row[2] for row in self._pending}
            self.position, self.head, self._broken = mark.position, mark.head, mark.broken
            if self.outgoing is not None and mark.sent is not None:
                self.outgoing.trim(mark.sent)
            self.writing.data_version = -1
            self.outdate()
            raise_typed(error)
        else:
            self._check()
            self._cursor.execute("RELEASE inside")
        finally:
            self._marks.pop()

    def renew(self) -> None:
        """Commit the transaction and go on in a new one, still under the thread's lock.

        The open savepoints begin again here, because what is committed cannot be undone.
        """
        self._check()
        try:
            self.writing.renew(self)
            for mark in self._marks:
                self._cursor.execute("SAVEPOINT inside")
                mark.pending, mark.position, mark.head, mark.sent = [], self.position, self.head, (0, 0, 0, 0)
        except BaseException as error:
            raise_typed(error)

    def outdate(self) -> None:
        """Make everything that was cached of the file outdated, in this transaction already."""
        self.writing.changes += 1
        self.changes = self.writing.changes

    def spoil(self) -> None:
        """Refuse the commit of this transaction, because work that belongs together was done in part."""
        self._broken = True

    def complete(self) -> None:
        """Write the rows that are kept back before the commit; refuse the commit if an append was incomplete."""
        if self._pending:
            self.flush()
        if self._broken:
            raise ConflictError("an append in this transaction failed half-way, so the transaction cannot be committed")
        self._check()

    def finish(self) -> None:
        self._cursor.execute("COMMIT")  # by the writer's own cursor, so that a statement that it has open ends too

    def version(self, stream: str) -> int:
        """Return the last version in a stream; 0 if there is none."""
        self._check()
        if stream in self._versions:
            return self._versions[stream]
        version = self._cursor.execute("SELECT max(version) FROM events WHERE stream = ?", (stream,)).fetchone()[0]
        return version or 0

    def put_blob(self, blob_id: str, data: bytes | None, erased_by: int | None = None) -> None:
        self._check()
        self.wrote += len(data or b"")
        self._execute("INSERT INTO blobs VALUES (?, ?, ?)", (blob_id, data, erased_by))
        if self.outgoing is not None:
            self.outgoing.blobs.append((blob_id, self.position + 1, data, erased_by))

    def redact(self, position: int, state: str, by: int) -> None:
        """Replace the state of an event by the state that the ContentErased at position ``by`` left."""
        self.flush()
        self._execute("UPDATE events SET state = ?, erased_by = ? WHERE position = ?", (state, by, position))
        if self.outgoing is not None:
            self.outgoing.redactions.append((position, state, by))

    def erase_blob(self, blob_id: str, by: int) -> None:
        """Take out the bytes of a blob, unless an earlier erasure did."""
        self._check()
        self._execute("UPDATE blobs SET data = NULL, erased_by = ? WHERE id = ? AND data IS NOT NULL", (by, blob_id))
        if self.outgoing is not None:
            self.outgoing.erased_blobs.append((blob_id, by))

    def _execute(self, sql: str, values: Sequence[object]) -> None:
        try:
            self._cursor.execute(sql, values)
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            raise_typed(error if isinstance(error, sqlite3.Error) else unfit(error))


# --- rows and savepoints of a transaction -----------------------------------------------------------------------------


@dataclass(slots=True)
class Mark:
    """The state of a transaction at the beginning of a savepoint."""

    pending: list[Row]
    position: int
    head: bytes
    broken: bool
    sent: tuple[int, int, int, int] | None  # the sizes of what goes to the shared log


class Outgoing:
    """The part of an open transaction that its commit adds to the shared log."""

    __slots__ = ("blobs", "erased_blobs", "redactions", "rows")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.blobs: list[tuple[str, int, bytes | None, int | None]] = []
        self.redactions: list[tuple[int, str, int]] = []
        self.erased_blobs: list[tuple[str, int]] = []

    def sizes(self) -> tuple[int, int, int, int]:
        return len(self.rows), len(self.blobs), len(self.redactions), len(self.erased_blobs)

    def trim(self, sizes: tuple[int, int, int, int]) -> None:
        """Drop everything that was added after a savepoint."""
        for part, size in zip((self.rows, self.blobs, self.redactions, self.erased_blobs), sizes, strict=True):
            del part[size:]  # type: ignore[attr-defined]

    @property
    def is_empty(self) -> bool:
        return not any(self.sizes())


def chained(
    events: Sequence[StoredEvent | Stored], keys: Sequence[bytes | None], position: int, head: bytes
) -> list[Row]:
    """Return the rows of events that follow a position and a head; raise ``DataError`` for a state that is not text."""
    if keys and len(keys) != len(events):
        raise RejectedError(
            f"{len(keys)} keys were given for {len(events)} events; give one key for each event", rule="keys"
        )
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


def insert(cursor: sqlite3.Cursor | sqlite.SQLiteCursor, rows: Sequence[Row]) -> None:
    """Insert rows into the log; no other function does."""
    try:
        if len(rows) == 1:
            cursor.execute(_INSERT, rows[0])
        else:
            cursor.executemany(_INSERT, rows)
    except (UnicodeError, OverflowError) as error:
        raise unfit(error) from error


def unfit(error: Exception) -> persistence.DataError:
    return persistence.DataError(f"SQLite cannot store a value: {error}")


class Token:
    """A mark of ownership, from its creation until ``end``. Child tasks and threads inherit the mark and cannot use it."""

    __slots__ = ("_around", "_is_over", "_task", "_thread")

    def __init__(self) -> None:
        self._thread, self._task, self._is_over = get_ident(), _task(), False
        self._around = _held.get()
        _held.set(self)

    @property
    def is_here(self) -> bool:
        """Return True if the caller is the owner."""
        held = _held.get()
        while held is not self and held is not None:  # a token of another file may have been made since
            held = held._around
        return held is self and not self._is_over and self._thread == get_ident() and self._task is _task()

    def end(self) -> None:
        self._is_over, self._task = True, None
        held = _held.get()
        while held is not None and held._is_over:
            held = held._around
        _held.set(held)


_held: ContextVar[Token | None] = ContextVar("ledger_token", default=None)


def _task() -> object:
    """Return the running task; None outside of any task."""
    asyncio = sys.modules.get("asyncio")  # a program that has not loaded asyncio has no tasks
    if asyncio is None:
        return None
    try:
        return asyncio.current_task()
    except (RuntimeError, AttributeError):  # no loop runs in this thread, or asyncio is still loading
        return None
