"""The connections for reading the past: each is prepared once and stays open until the store closes."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from eventsourcing import persistence

from ledger.domain.errors import RejectedError, StorageError
from ledger.log.reading import Connection, ConnectionPool

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
