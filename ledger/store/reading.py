"""Reading the log: connections lent for one moment of it, one to a thread, and one that may hold tables of its own."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from eventsourcing import persistence

from ledger.store.failures import raise_typed
from ledger.store.integrity import GENESIS
from ledger.store.pool import Connection, ConnectionPool

_TIP = "SELECT position, head FROM events ORDER BY position DESC LIMIT 1"


class Reading:
    """The snapshots of one open log. Inside one, a thread's further snapshots are the same."""

    def __init__(self, pool: ConnectionPool, check_open: Callable[[], None]) -> None:
        self._pool, self._check_open = pool, check_open
        self._local = threading.local()
        self._private: sqlite3.Connection | None = None
        self._private_lock = threading.RLock()

    def enter(self) -> sqlite3.Connection:
        self._check_open()
        if self._private is not None:
            self._private_lock.acquire()
            return self._private
        local = self._local
        if getattr(local, "depth", 0):
            local.depth += 1
        else:
            local.connection, local.depth = self._begun(), 1
        raw: sqlite3.Connection = local.connection.raw
        return raw

    def leave(self) -> None:
        if self._private is not None:
            self._private_lock.release()
            return
        local = self._local
        local.depth -= 1
        if not local.depth and not self._pool.foreign:
            connection, local.connection = local.connection, None
            with suppress(sqlite3.Error):
                if connection.raw.in_transaction:
                    connection.raw.execute("ROLLBACK")
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
        """Whether every snapshot is of one moment, with tables that stand before the file's."""
        return self._private is not None

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
                raise_typed(error)

    @contextmanager
    def no_longer(self, patience: float) -> Iterator[list[sqlite3.Connection]]:
        """The connections to be closed with the log, where those who read on the private one are done in time."""
        quiet = self._private_lock.acquire(timeout=patience)
        try:
            yield [self._private] if quiet and self._private else []
        finally:
            if quiet:
                self._private_lock.release()


def read_tip(cursor: Any) -> tuple[int, bytes]:
    """The last position and the head after it; 0 and ``GENESIS`` when the log is empty."""
    cursor.execute(_TIP)
    found = cursor.fetchone()
    return (found[0], found[1]) if found else (0, GENESIS)
