"""The connections to one ledger file, as a pool of the eventsourcing library that stays safe after a fork."""

from __future__ import annotations

import atexit
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from weakref import WeakSet

from eventsourcing import persistence, sqlite

from ledger.log import platform
from ledger.log.file_lock import forget_parent
from ledger.log.sqlite_files import LedgerFile

CONNECTIONS = 15  # of one store at a time; none is closed before the store is


class Connection(sqlite.SQLiteConnection):
    """A connection of the pool, which is closed under the file lock.

    The connection stays open if another file lies in the place of ours, because SQLite would delete that file's -wal.
    """

    def __init__(self, file: LedgerFile, *, named_columns: bool) -> None:
        self.raw, self.file = file.connect(), file
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
