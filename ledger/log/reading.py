"""The connections to one ledger file, and the snapshots of its log that are read on them.

The connections are a pool of the eventsourcing library that stays safe after a fork. A snapshot is a connection lent to a
thread for one moment, or one connection with private tables for all threads. A connection for reading the past is prepared
once and stays open until the store closes. A caller sees errors of the product instead of those of SQLite and of the library.
"""

from __future__ import annotations

import atexit
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Never
from weakref import WeakSet

from eventsourcing import persistence, sqlite

from ledger.domain.errors import LedgerError, RejectedError, StorageError, SuspendedError
from ledger.log import platform, sqlite_files
from ledger.log.envelope import GENESIS
from ledger.log.file_lock import forget_parent
from ledger.log.sqlite_files import LedgerFile

_TIP = "SELECT position, head FROM events ORDER BY position DESC LIMIT 1"


CONNECTIONS = 15  # of one store at a time; none is closed before the store is


class Connection(sqlite.SQLiteConnection):
    """A connection of the pool, which is closed under the file lock.

    The connection stays open if another file lies in the place of ours, because SQLite would delete that file's -wal.
    """

    def __init__(self, file: LedgerFile, *, named_columns: bool) -> None:
        self.raw: sqlite3.Connection = file.connect()
        self.file = file
        self.temporary = 0  # the version of its TEMP schema at the end of its last snapshot
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
        with self.file.closing_one() as may_close:
            if may_close:
                super()._close()
            else:
                _never_close(self.raw)


class _LibraryTransaction(sqlite.SQLiteTransaction):
    """The library's transaction, except that a writer waits for its turn at the beginning and no transaction is left open."""

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
    """The library's pool on one ledger file; a forked child neither uses nor closes the connections that it inherits.

    The library closes connections that other threads are using, and then CPython's sqlite3 reads freed memory. Here the
    thread that uses a connection closes it when it gives the connection back.
    """

    def __init__(self, file: LedgerFile, *, named_columns: bool) -> None:
        self.file = file
        self.named_columns = named_columns
        self.foreign: bool = False
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
                used = self._in_use.pop(id(conn), None)
            if used is not None:
                conn.close()
                if is_writer:
                    self._writer_lock.release()

    def close(self, *, unused: Sequence[sqlite3.Connection] = ()) -> None:
        """Close the idle connections of the pool, and the ``unused`` connections that were taken out of it."""
        if self.foreign or self.closed:
            return
        with self.file.closing_one():
            with self._put_condition:
                self._closed = True
                closable = [c for c in self._in_use.values() if any(c._sqlite_conn is raw for raw in unused)]
                closable += self._pool
                self._pool.clear()
                for connection in closable:
                    self._in_use.pop(id(connection), None)
            for connection in closable:
                connection.close()

    def __del__(self) -> None:
        if not self.foreign:
            self.close(unused=[connection._sqlite_conn for connection in self._in_use.values()])

    def leave_open(self) -> bool:
        """Leave every connection open, in a forked child or over a foreign file; return True if there are any."""
        self.foreign = True
        connections = [*self._in_use.values(), *self._pool]
        for connection in connections:
            _never_close(connection._sqlite_conn)
        return bool(connections)


def _never_close(connection: sqlite3.Connection) -> None:
    """Keep a reference to a connection for good, so that nothing closes it."""
    import ctypes  # slow to load and rarely needed

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


_pools: WeakSet[ConnectionPool] = WeakSet()


def _after_fork_in_child() -> None:
    forget_parent({pool.file.path for pool in _pools if pool.leave_open()})


def _before_exit() -> None:
    """Leave connections to a replaced file open, because after this point the garbage collector would close them."""
    for pool in list(_pools):
        if not (pool.foreign or pool.closed) and pool.file.place.is_replaced:
            pool.leave_open()


atexit.register(_before_exit)
platform.run_after_fork(_after_fork_in_child)


class LogSnapshots:
    """The snapshots of one open log. Nested snapshots of a thread share one moment."""

    def __init__(self, pool: ConnectionPool, check_open: Callable[[], None]) -> None:
        self._pool, self._check_open = pool, check_open
        self._local = threading.local()
        self._private: sqlite3.Connection | None = None
        self._private_lock, self._private_depth = threading.RLock(), 0
        self._fold: Callable[[sqlite3.Connection], None] = lambda connection: None

    def enter(self) -> sqlite3.Connection:
        self._check_open()
        if self._private is not None:
            return self._enter_private(self._private)
        local = self._local
        if getattr(local, "depth", 0):
            local.depth += 1
        else:
            local.connection, local.depth = self._begun(), 1
        raw: sqlite3.Connection = local.connection.raw
        return raw

    def leave(self) -> None:
        if self._private is not None:
            self._leave_private(self._private)
            return
        local = self._local
        local.depth -= 1
        if not local.depth and not self._pool.foreign:
            connection, local.connection = local.connection, None
            with suppress(sqlite3.Error):
                if connection.raw.in_transaction:
                    _end(connection)
            with suppress(persistence.ConnectionPoolClosedError):
                self._pool.put_connection(connection)

    def _begun(self) -> Connection:
        connection = None
        try:
            connection = self._pool.get_connection(is_writer=False)
            connection.raw.execute("BEGIN")
            return connection
        except BaseException as error:
            if connection is not None:
                self._pool.put_connection(connection)
            raise_typed(error)

    @property
    def is_private(self) -> bool:
        """Return True if every snapshot has tables of this process alone, which come before the file's tables."""
        return self._private is not None

    def keep_private(self, fold: Callable[[sqlite3.Connection], None]) -> None:
        """Serve every later snapshot from one connection, whose TEMP tables ``fold`` makes and brings to the moment."""
        self._check_open()
        connection = None
        try:
            connection = self._pool.get_connection(is_writer=False)
            connection.raw.execute("PRAGMA temp_store = MEMORY")  # writes no text to another disk
            self._fold = fold
            self._enter_private(connection.raw)
            self._private = connection.raw
            self.leave()
        except BaseException as error:
            if connection is not None:
                self._pool.put_connection(connection)
            raise_typed(error)

    def _enter_private(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """Begin a new moment of the log unless this thread reads one already; other threads wait until the moment ends."""
        self._private_lock.acquire()
        try:
            if not self._private_depth:
                self._check_open()  # again, because a close takes this lock
                connection.execute("BEGIN")
                self._fold(connection)
        except BaseException as error:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            self._private_lock.release()
            raise_typed(error)
        self._private_depth += 1
        return connection

    def _leave_private(self, connection: sqlite3.Connection) -> None:
        self._private_depth -= 1
        if not self._private_depth and not self._pool.foreign:
            with suppress(sqlite3.Error):
                connection.execute("COMMIT")  # of the TEMP tables, which stay
        self._private_lock.release()

    @contextmanager
    def no_longer(self, patience: float) -> Iterator[list[sqlite3.Connection]]:
        """Yield the connections to close with the log; the private connection only if its readers end in time."""
        quiet = self._private_lock.acquire(timeout=patience)
        try:
            yield [self._private] if quiet and self._private else []
        finally:
            if quiet:
                self._private_lock.release()


def _end(connection: Connection) -> None:
    """End a snapshot and keep its new TEMP tables, because a rollback would make SQLite forget the schema of every table."""
    raw = connection.raw
    (version,) = raw.execute("PRAGMA temp.schema_version").fetchone()
    if version != connection.temporary:
        with suppress(sqlite3.Error):  # there may be no room for TEMP tables
            raw.execute("COMMIT")
    if raw.in_transaction:
        raw.execute("ROLLBACK")
    connection.temporary = version


def read_tip(cursor: Any) -> tuple[int, bytes]:
    """Return the last position and the head after it; 0 and ``GENESIS`` if the log is empty."""
    cursor.execute(_TIP)
    row = cursor.fetchone()
    return (row[0], row[1]) if row else (0, GENESIS)


_OURS = ("ledger.", "projections.")


def let_go(error: BaseException | None) -> None:
    """Clear the frames of an error, so that a caller who keeps the error keeps no rows and thereby no snapshot open."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if frame.f_globals.get("__name__", "").startswith(_OURS):
                with suppress(RuntimeError):  # the frame is still running
                    frame.clear()
        error = error.__context__


# --- reading of the past ---------------------------------------------------------------------------------------------


PAST_VIEWS = 4  # of the pool's connections; a fifth reader waits

Prepare = Callable[[sqlite3.Connection], None]


class PastViews:
    """Connections taken out of a pool for good, because their preparation changes the answer of every read on them."""

    def __init__(self, pool: ConnectionPool, timeout_seconds: float) -> None:
        self._pool, self._timeout_seconds = pool, timeout_seconds
        self._changed = threading.Condition()
        self._idle: list[Connection] = []
        self._count, self._closed = 0, False

    @contextmanager
    def lend(self, prepare: Prepare) -> Iterator[sqlite3.Connection]:
        """Lend a prepared connection in a read transaction, which ends before the connection is lent again."""
        connection = self._take(prepare)
        ending = "ROLLBACK"
        try:
            connection.raw.execute("BEGIN")
            yield connection.raw
            ending = "COMMIT"  # writes nothing to the file, and keeps the rows in TEMP tables
        finally:
            if not self._pool.foreign:
                with suppress(sqlite3.Error):
                    if connection.raw.in_transaction:
                        connection.raw.execute(ending)
                self._give_back(connection)

    def _take(self, prepare: Prepare) -> Connection:
        deadline = time.monotonic() + self._timeout_seconds
        with self._changed:
            while not self._idle and self._count >= PAST_VIEWS and not self._closed:
                if not self._changed.wait(deadline - time.monotonic()):
                    raise StorageError(
                        f"{PAST_VIEWS} readers of the past, the most at a time, kept their connections for longer than"
                        " the timeout"
                    )
            if self._closed:
                raise RejectedError("this ledger is closed; open it again", rule="closed")
            if self._idle:
                return self._idle.pop()
            self._count += 1
        return self._new(prepare)

    def _new(self, prepare: Prepare) -> Connection:
        connection = None
        try:
            connection = self._pool.get_connection(is_writer=False)
            prepare(connection.raw)
            return connection
        except BaseException:
            with self._changed:
                self._count -= 1
                self._changed.notify()
            if connection is not None and not self._pool.foreign:
                connection.close()  # a half prepared connection is useless
                with suppress(persistence.ConnectionPoolClosedError):
                    self._pool.put_connection(connection)
            raise

    def _give_back(self, connection: Connection) -> None:
        with self._changed:
            if not self._closed:
                self._idle.append(connection)
                self._changed.notify()
                return
        with suppress(persistence.ConnectionPoolClosedError):
            self._pool.put_connection(connection)

    def close(self) -> list[sqlite3.Connection]:
        """Stop lending and return the idle connections for the caller to close; lent ones return to the pool as they end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            idle, self._idle = self._idle, []
            return [connection.raw for connection in idle]


# --- errors ----------------------------------------------------------------------------------------------------------


def typed(error: BaseException) -> LedgerError | None:
    """Return the error that replaces an error of SQLite or of the library; None for every other error."""
    if isinstance(error, sqlite3.Error):
        return denied(error) or sqlite_files.typed(error)
    if isinstance(error, persistence.DataError):
        return RejectedError(str(error), rule="encoding")
    if isinstance(error, persistence.ConnectionPoolClosedError):
        return RejectedError("this ledger is closed; open it again", rule="closed")
    if isinstance(error, persistence.PersistenceError):
        return StorageError(
            "the ledger had no free connection within the timeout; close readers or give a longer timeout"
        )
    return None


def raise_typed(error: BaseException) -> Never:
    translated = typed(error)
    if translated is None:
        raise error
    raise translated from error


Closed = Mapping[str, str]  # name of a table -> name of its suspended projection

_closed: dict[int, Closed] = {}  # the id of a connection -> its closed tables, while it has any
_refused = threading.local()  # .projection: the projection whose table this thread was refused last


@contextmanager
def tables_closed(connection: sqlite3.Connection, closed: Closed) -> Iterator[None]:
    """Refuse every statement of this connection that reads a closed table, until the block ends."""
    before = _closed.get(id(connection), {})
    if closed == before:
        yield
        return
    _close(connection, closed)
    try:
        yield
    finally:
        with suppress(sqlite3.ProgrammingError):  # the connection was closed inside the block
            _close(connection, before)


def _close(connection: sqlite3.Connection, closed: Closed) -> None:
    """Install or remove the authorizer of a connection.

    A new authorizer makes SQLite prepare again the statements that Python keeps, so they are checked too.
    """
    if not closed:
        _closed.pop(id(connection), None)
        connection.set_authorizer(None)
        return
    _closed[id(connection)] = closed

    def authorize(action: int, table: str | None, *_: str | None) -> int:
        owner = closed.get(table or "") if action == sqlite3.SQLITE_READ else None
        if owner is None:
            return sqlite3.SQLITE_OK
        _refused.projection = owner
        return sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)


def is_denied(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_AUTH


def denied(error: sqlite3.Error) -> SuspendedError | None:
    """Return the error for a statement that would have read a closed table; None for any other error."""
    if not is_denied(error) or not hasattr(_refused, "projection"):
        return None
    return SuspendedError(
        f"the projection {_refused.projection!r} is suspended, so its tables cannot be read;"
        " maintenance.rebuild() makes it again",
        projection=_refused.projection,
    )
