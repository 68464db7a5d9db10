"""Rebuilds every projection from the log beside the live tables, in short transactions, and switches at the end.

A log that is no longer than the tail is folded in that last transaction alone, into tables that are made anew in their
place: to rename a table SQLite reads the whole schema again, which takes longer than such a fold.
Commands meanwhile fold into the live tables only. One rebuild runs at a time (a lease). Killed at any point it leaves the
live tables whole; what it left behind is dropped by the next one.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any, Protocol

from ledger.domain.errors import Conflict
from ledger.domain.events import AnyEvent
from projections import digests, projector, sqlite
from projections.ahead import Folded, HandedRows, Scattered
from projections.projector import Projector, create_checkpoints, projections, write_checkpoints
from projections.rows import Table, TextIndex
from projections.sqlite import SQLiteRows

BATCH = 4_000  # events folded and written in one transaction
AHEAD = 5  # batches asked for at a time
LONG = 20_000  # events that are worth a second process
TAIL = 1_000  # at most so many events are left for the transaction that switches
INDEXED = 4_000_000  # events; of a longer log an index of all rows would keep the writer's lock for many seconds
SCATTERED = 50_000  # rows with keys in no order that are written together
FAR = ("memories", "sessions")  # hashed by the second process: about half of all
EMPTYING = 20_000  # rows deleted from the old tables in one transaction
TABLE = 1_000  # to drop a table takes as long as to delete so many rows
LEASE_SECONDS = 60.0
FRESH, OLD = "fresh_", "old_"
_SHADOWS = ("data", "idx", "content", "docsize", "config")  # what FTS5 calls the tables behind its own

Progress = Callable[[int, int], None]  # (events folded, events in the log)


class RebuildUnderWay(Conflict):
    """Another one has the lease."""


class Log(Protocol):
    """What a rebuild needs of the event store."""

    def transact(self, *, durable: bool = True) -> Any: ...
    def snapshot(self) -> Any: ...


class Reading(projector.Log, Protocol):
    """The log through one connection."""

    def events(self, first: int, last: int) -> Iterator[AnyEvent]: ...


class Faltered(Exception):
    """The second process did not fold a batch, for whatever reason: the first one can."""


class Ahead(Protocol):
    """A second process that folds batches while those before them are written."""

    def ask(self, first: int, last: int, written: int) -> None:
        """Have these events folded; the rows of those up to ``written`` are in the file."""
        ...

    def receive(self) -> Folded:
        """The oldest batch that was asked for and not received yet; ``Faltered`` where it cannot be had."""
        ...

    def ask_digests(self, position: int, names: Sequence[str]) -> None:
        """Have the rows of these projections hashed, as they stand at a position."""
        ...

    def receive_digests(self) -> dict[str, str]:
        """As many as could be had."""
        ...


class Rebuild:
    """One rebuild; ``run`` returns the number of events folded, what is parked after it, and the digest."""

    def __init__(
        self,
        log: Log,
        secret: bytes,
        ledger_id: str,
        reading: Callable[[Callable[[], Any]], Reading],
        progress: Progress | None,
        ahead: Callable[[], AbstractContextManager[Ahead]] | None = None,
    ) -> None:
        self._log, self._secret, self._ledger_id = log, secret, ledger_id
        self._ahead = ahead
        self._progress = progress
        self._holder = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._connection: Any = None
        self._reading = reading(lambda: self._connection)
        self._projector = Projector(secret, self._reading)
        self._scattered = Scattered(None, FRESH)
        self._scattered.refused = self._projector.refused
        self._late: list[Table] = []  # tables whose indexes are made when their rows are there
        self._beside = True  # fresh tables stand beside the live ones, and will change places with them

    def run(self, switched: Callable[[Any, Projector], None]) -> tuple[int, tuple[str, ...], str]:
        """``switched`` is called in the last transaction, with the projector, after the tables have changed places."""
        self._take_lease()
        try:
            self._start()
            with self._second_process() as ahead:
                position = self._catch_up(0, ahead)
                self._make_late_indexes()
                position = self._switch(self._catch_up(position), switched)
                self._empty(OLD)
                digest = self._digest(ahead)
        finally:
            self._release_lease()
        return position, tuple(sorted(self._projector.parked)), digest

    def drop_remains(self) -> None:
        """Drops what killed rebuilds left, for an erasure leaves no text in them."""
        with self._log.snapshot() as connection:
            if not prefixed(connection, OLD) and not prefixed(connection, FRESH):
                return
        self._take_lease()
        try:
            self._empty(OLD)
            self._empty(FRESH)
        finally:
            self._release_lease()

    # --- the lease -----------------------------------------------------------------------------------------------

    def _take_lease(self) -> None:
        with self._log.transact() as transaction:
            sql = "SELECT holder, until FROM leases WHERE work = 'rebuild'"
            row = transaction.connection.execute(sql).fetchone()
            if row is not None and row[1] > time.time() and is_alive(row[0]):
                raise RebuildUnderWay("another rebuild of this ledger is running; wait for it, or try again later")
            self._hold(transaction.connection)

    def _hold(self, connection: Any) -> None:
        until = time.time() + LEASE_SECONDS
        connection.execute("INSERT OR REPLACE INTO leases VALUES ('rebuild', ?, ?)", (self._holder, until))

    def _check_lease(self, connection: Any) -> None:
        row = connection.execute("SELECT holder FROM leases WHERE work = 'rebuild'").fetchone()
        if row is None or row[0] != self._holder:
            raise RebuildUnderWay("another rebuild took over from this one, which was too slow to renew its lease")
        self._hold(connection)

    def _release_lease(self) -> None:
        with self._log.transact() as transaction:
            sql = "DELETE FROM leases WHERE work = 'rebuild' AND holder = ?"
            transaction.connection.execute(sql, (self._holder,))

    # --- folding beside the live tables --------------------------------------------------------------------------

    def _start(self) -> None:
        """Drops what a killed rebuild left, and makes the fresh tables, if there will be anything in them."""
        self._empty(OLD)
        self._empty(FRESH)
        with self._log.transact() as transaction:
            self._check_lease(transaction.connection)
            create_checkpoints(transaction.connection)
            self._beside = transaction.position > TAIL
            self._late = [each for each in self._tables() if isinstance(each, Table) and each.late]
            self._late = self._late if transaction.position <= INDEXED else []
            for table in self._tables() if self._beside else ():
                sqlite.create(
                    transaction.connection, table, FRESH, indexes=table.name not in {t.name for t in self._late}
                )

    def _tables(self) -> list[Table | TextIndex]:
        return [table for projection in projections(self._secret) for table in projection.tables]

    @contextmanager
    def _second_process(self) -> Iterator[Ahead | None]:
        """For a long log, and if there can be one."""
        with ExitStack() as stack:
            ahead = None
            if self._ahead is not None and self._beside and self._log_head() >= LONG:
                with suppress(Faltered):
                    ahead = stack.enter_context(self._ahead())
            yield ahead

    def _catch_up(self, done: int, ahead: Ahead | None = None) -> int:
        """Folds batch after batch until at most a tail is left; the folding itself holds no lock."""
        if ahead is not None:  # which takes as long to start as one batch
            done = self._with_help(ahead, self._fold_batch(done))
        while self._beside and self._log_head() - done > TAIL:
            done = self._fold_batch(done)
        self._write_scattered(1)
        return done

    def _fold_batch(self, done: int) -> int:
        with self._log.snapshot() as connection:
            self._connection = connection
            rows, head = self._rows(connection, beside=True), _head(connection)
            last = min(head, done + BATCH)
            for event in self._reading.events(done + 1, last):
                self._projector.fold(event, rows)
        self._write(rows, done + 1)
        self._tell(last, head)
        return last

    def _with_help(self, ahead: Ahead, done: int) -> int:
        """The same with a second process, until that falters or something has to be parked: up to where it came.

        It folds some batches ahead of the one that is written, for neither takes the same time for each.
        """
        last, asked = done, deque[int]()
        with suppress(Faltered):
            while not self._projector.parked:
                head = self._log_head()
                while len(asked) < AHEAD and head - last > TAIL:
                    first, last = last + 1, min(head, last + BATCH)
                    ahead.ask(first, last, done)
                    asked.append(last)
                if not asked:
                    break
                self._write(self._handed(ahead.receive()), done + 1)
                done = asked.popleft()
                self._tell(done, head)
        return done

    def _write(self, rows: SQLiteRows, first: int) -> None:
        self._scattered.take_from(rows, first)
        with self._log.transact(durable=False) as transaction:
            self._check_lease(transaction.connection)
            rows.connection = transaction.connection
            self._projector.flush(rows, first=first)
        self._projector.forget()
        self._write_scattered(SCATTERED)

    def _write_scattered(self, least: int) -> None:
        """Those rows, if there are so many of them."""
        if len(self._scattered) >= least:
            with self._log.transact(durable=False) as transaction:
                self._check_lease(transaction.connection)
                self._scattered.connection = transaction.connection
                self._projector.flush(self._scattered, first=self._scattered.first)

    def _make_late_indexes(self) -> None:
        """Of sorted rows an index is written once, and not page by page with every batch; one table a transaction."""
        for table in self._late if self._beside else ():
            with self._log.transact(durable=False) as transaction:
                self._check_lease(transaction.connection)
                sqlite.create_indexes(transaction.connection, table, FRESH)

    def _log_head(self) -> int:
        with self._log.snapshot() as connection:
            return _head(connection)

    def _tell(self, done: int, head: int) -> None:
        if self._progress is not None:
            self._progress(done, head)

    def _rows(self, connection: Any, *, beside: bool = False) -> SQLiteRows:
        rows = SQLiteRows(connection, FRESH if self._beside else "", beside=beside)
        rows.refused = self._projector.refused
        return rows

    def _handed(self, folded: Folded) -> SQLiteRows:
        tables = {each.name: each for each in self._tables() if isinstance(each, Table)}
        indexes = {each.name: each for each in self._tables() if isinstance(each, TextIndex)}
        rows = HandedRows(self._connection, FRESH, folded, tables, indexes)
        rows.refused = self._projector.refused
        return rows

    def _switch(self, done: int, switched: Callable[[Any, Projector], None]) -> int:
        with self._log.transact() as transaction:
            self._check_lease(transaction.connection)
            connection = self._connection = transaction.connection
            for table in self._tables() if not self._beside else ():
                sqlite.drop(connection, table.name)
                sqlite.create(connection, table)
            rows = self._rows(connection)
            for event in self._reading.events(done + 1, transaction.position):
                self._projector.fold(event, rows)
            self._projector.flush(rows)
            for table in self._tables() if self._beside else ():
                _swap(connection, table)
            at = (transaction.position, transaction.head)
            write_checkpoints(connection, self._secret, self._ledger_id, *at, self._projector.poisoned)
            position = int(transaction.position)
            switched(transaction, self._projector)
        self._tell(position, position)
        return position

    def _digest(self, ahead: Ahead | None) -> str:
        """Over all rows, of which the second process reads about half."""
        tables = {each.name: each.tables for each in projections(self._secret)}
        with self._log.snapshot() as connection:
            told = dict[str, str]()
            with suppress(Faltered):
                if ahead is not None:
                    (position,) = connection.execute("SELECT position FROM checkpoint").fetchone()
                    ahead.ask_digests(position, FAR)
                    near = [name for name in tables if name not in FAR]
                    told |= {name: digests.projection_digest(connection, tables[name]) for name in near}
                    told |= ahead.receive_digests()
            for name in tables.keys() - told.keys():
                told[name] = digests.projection_digest(connection, tables[name])
            return digests.digest_of(told)

    # --- what is left over ---------------------------------------------------------------------------------------

    def _empty(self, prefix: str) -> None:
        """Empties and drops tables that are on their way out, a few thousand rows a transaction."""
        with self._log.snapshot() as connection:
            names = prefixed(connection, prefix)
        while names:
            with self._log.transact(durable=False) as transaction:
                self._check_lease(transaction.connection)
                left = EMPTYING
                while names and left > 0:
                    name, virtual = names[-1]
                    deleted = 0 if virtual else sqlite.delete_some(transaction.connection, name, left)
                    if deleted < left:
                        sqlite.drop(transaction.connection, name)
                        names.pop()
                    left -= deleted + TABLE


def _head(connection: Any) -> int:
    return int(connection.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()[0])


def _swap(connection: sqlite3.Connection, table: Table | TextIndex) -> None:
    """The fresh table in the place of the live one. An empty one is made anew: after each renaming SQLite reads the schema."""
    name, fresh = table.name, FRESH + table.name
    if sqlite.exists(connection, name):
        if sqlite.is_empty(connection, table, name):
            sqlite.drop(connection, name)
        else:
            sqlite.rename(connection, name, OLD + name)
    if sqlite.is_empty(connection, table, fresh):
        sqlite.drop(connection, fresh)
        sqlite.create(connection, table)
    else:
        sqlite.rename(connection, fresh, name)


def prefixed(connection: sqlite3.Connection, prefix: str) -> list[tuple[str, bool]]:
    """(name, whether it is virtual) of the tables with a prefix; the shadow tables of a text index go with it."""
    sql = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name LIKE ? || '%'"
    found = [(name, sql.upper().startswith("CREATE VIRTUAL")) for name, sql in connection.execute(sql, (prefix,))]
    shadows = {f"{name}_{part}" for name, is_virtual in found if is_virtual for part in _SHADOWS}
    return [each for each in found if each[0] not in shadows]


def is_alive(holder: str) -> bool:
    """Whether the process that holds a lease still runs on this machine."""
    try:
        os.kill(int(holder.split("-")[0]), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True
