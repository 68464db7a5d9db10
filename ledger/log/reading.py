"""Snapshots of the log: a connection lent to a thread for one moment, or one connection with private tables for all."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from eventsourcing import persistence

from ledger.log.failures import raise_typed
from ledger.log.integrity import GENESIS
from ledger.log.pool import Connection, ConnectionPool

_TIP = "SELECT position, head FROM events ORDER BY position DESC LIMIT 1"


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
