"""Rebuilds every projection from the log next to the live tables, in short transactions, and switches at the end.

A log that is no longer than the tail is folded in that last transaction alone, into tables that are made again in their
place: to rename a table SQLite reads the whole schema again, which takes longer than such a fold.
All projections are folded together, for each takes over the states of subjects that others hold. Where only some are asked
for, only their tables change places at the end.

Commands meanwhile fold into the live tables only. One rebuild runs at a time (a lease). Killed or stopped at any point it
leaves the live tables whole; what a killed one left behind is dropped by the next one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from ledger.domain.errors import ConflictError, LedgerError
from ledger.domain.events import AnyEvent
from ledger.store import lease
from ledger.store.event_store import EventStore, Transaction
from ledger.store.sqlite_files import PARTS
from projections.core import digests, projector, sqlite
from projections.core import own_registry as registry
from projections.core.projector import (
    Projector,
    create_checkpoints,
    projections,
    write_checkpoints,
    write_checkpoints_of,
)
from projections.core.rows import Connection, Table, TextIndex
from projections.core.rows import Log as FoldLog
from projections.core.sql_views import create_views, drop_views, is_own
from projections.core.sqlite import SQLiteRows
from projections.search import vectors

BATCH = 4_000  # events folded and written in one transaction
TAIL = 1_000  # at most so many events are left for the transaction that switches
INDEXED = 4_000_000  # events; of a longer log an index of all rows would keep the writer's lock for many seconds
EMPTYING = 20_000  # rows deleted from the old tables in one transaction
TABLE = 1_000  # to drop a table takes as long as to delete so many rows
WORK, LEASE_SECONDS = "rebuild", 60.0
FRESH, OLD = "fresh_", "old_"
OTHERS = {
    "checkpoint",
    "projections",
    vectors.NAME,
    registry.NAME,
}  # tables besides those of the log and of projections
_SHADOWS = ("data", "idx", "content", "docsize", "config")  # what FTS5 calls the tables behind its own

Progress = Callable[[int, int], None]  # (events folded, events in the log)


class RebuildUnderWay(ConflictError):
    """Another one has the lease."""


class RebuildStopped(Exception):
    """It had to end before the switch; how many events it had folded."""

    def __init__(self, events: int) -> None:
        super().__init__()
        self.events = events


class Reading(FoldLog, Protocol):
    """The log through one connection."""

    def events(self, first: int, last: int) -> Iterator[AnyEvent]: ...

    def known(self, first: int, last: int) -> Iterator[AnyEvent]: ...


class Rebuild:
    """One rebuild; ``run`` returns the number of events folded and the digest, ``names`` are the projections that it is of."""

    def __init__(
        self,
        log: EventStore,
        secret: bytes,
        ledger_id: str,
        reading: Callable[[Callable[[], Connection]], Reading],
        progress: Progress | None,
        only: frozenset[str] = frozenset(),
        stop: Callable[[], object] = lambda: False,
    ) -> None:
        """``only`` are projections with all that read them (``projector.read_by``); none for every projection. ``stop`` is
        asked between two transactions whether it has to end."""
        self.names = only or frozenset(projector.names())
        self._log, self._secret, self._ledger_id = log, secret, ledger_id
        self._progress, self._stop, self._done = progress, stop, 0
        self._holder = lease.new_holder()
        self._connection: Connection
        self._reading = reading(lambda: self._connection)
        self._projector = Projector(secret, self._reading)
        self._late: list[Table] = []  # tables whose indexes are made when their rows are there
        self._began = 0  # the position at which it took its lease
        self._apart = True  # fresh tables stand next to the live ones, and will change places with them

    def run(self, switched: Callable[[Transaction, Projector], None], *, digest: bool = True) -> tuple[int, str]:
        """``switched`` is called in the last transaction, with the projector, after the tables have changed places. Without
        ``digest`` none is made: it reads every row once more. ``RebuildStopped`` when it had to end before the switch: the live
        tables are as they were, and the fresh ones gone."""
        with self._leased():
            try:
                self._start()
                position = self._catch_up(0)
                self._make_late_indexes()
                position = self._catch_up(position)
                self._go_on()
            except RebuildStopped:
                self._empty(FRESH)
                raise
            position = self._switch(position, switched)
            self._empty(OLD)
            self._empty(FRESH)
            if not digest:
                return position, ""
            with self._log.snapshot() as connection:
                return position, digests.digest(connection, self._secret)

    def drop_remains(self) -> None:
        """Drops what killed rebuilds left, for an erasure leaves no text in them."""
        with self._log.snapshot() as connection:
            if not prefixed(connection, OLD) and not prefixed(connection, FRESH):
                return
        with self._leased():
            self._empty(OLD)
            self._empty(FRESH)

    # --- the lease -----------------------------------------------------------------------------------------------

    @contextmanager
    def _leased(self) -> Iterator[None]:
        with self._log.transact() as transaction:
            if lease.holder_of(transaction.connection, WORK) is not None:
                raise RebuildUnderWay("another rebuild of this ledger is running; wait for it, or try again later")
            lease.hold(transaction.connection, WORK, self._holder, LEASE_SECONDS)
            self._began = transaction.position
        try:
            yield
        finally:
            lease.end(self._holder)
            with suppress(LedgerError), self._log.transact() as transaction:  # the disk may fail still
                lease.give_back(transaction.connection, WORK, self._holder)

    @contextmanager
    def _writing(self, *, durable: bool = False) -> Iterator[Transaction]:
        """A transaction that still holds the lease."""
        with self._log.transact(durable=durable) as transaction:
            if not lease.renew(transaction.connection, WORK, self._holder, LEASE_SECONDS):
                erased = "SELECT 1 FROM events WHERE position > ? AND type = 'ContentErased'"
                if transaction.connection.execute(erased, (self._began,)).fetchone():
                    raise RebuildUnderWay(
                        "an erasure ended this rebuild, which had read the text before: start it again"
                    )
                raise RebuildUnderWay("another rebuild took over from this one, which was too slow to renew its lease")
            yield transaction

    # --- folding next to the live tables --------------------------------------------------------------------------

    def _start(self) -> None:
        """Drops what a killed rebuild left, and makes the fresh tables, if there will be anything in them."""
        self._empty(OLD)
        self._empty(FRESH)
        with self._writing(durable=True) as transaction:
            create_checkpoints(transaction.connection)
            self._apart = transaction.position > TAIL or not self._is_whole
            self._late = [each for each in self._tables() if isinstance(each, Table) and each.late]
            self._late = self._late if transaction.position <= INDEXED else []
            for table in self._tables() if self._apart else ():
                sqlite.create(
                    transaction.connection, table, FRESH, indexes=table.name not in {t.name for t in self._late}
                )

    @property
    def _is_whole(self) -> bool:
        return len(self.names) == len(projector.names())

    def _tables(self) -> list[Table | TextIndex]:
        return [table for projection in projections(self._secret) for table in projection.tables]

    def _switching(self) -> list[Table | TextIndex]:
        return [table for each in projections(self._secret) if each.name in self.names for table in each.tables]

    def _catch_up(self, done: int) -> int:
        """Folds batch after batch until at most a tail is left; the folding itself holds no lock."""
        while self._apart and self._log_head() - done > TAIL:
            self._go_on()
            done = self._done = self._fold_batch(done)
        return done

    def _fold_batch(self, done: int) -> int:
        with self._log.snapshot() as connection:
            self._connection = connection
            rows, head = self._rows(connection, apart=True), _head(connection)
            last = min(head, done + BATCH)
            for event in self._reading.known(done + 1, last):
                self._projector.fold(event, rows)
        with self._writing() as transaction:
            rows.connection = transaction.connection
            self._projector.flush(rows)
        self._projector.forget()
        self._tell(last, head)
        return last

    def _go_on(self) -> None:
        if self._stop():
            raise RebuildStopped(self._done)

    def _make_late_indexes(self) -> None:
        """Of sorted rows an index is written once, and not page by page with every batch; one table a transaction."""
        for table in self._late if self._apart else ():
            self._go_on()
            with self._writing() as transaction:
                sqlite.create_indexes(transaction.connection, table, FRESH)

    def _log_head(self) -> int:
        with self._log.snapshot() as connection:
            return _head(connection)

    def _tell(self, done: int, head: int) -> None:
        if self._progress is not None:
            self._progress(done, head)

    def _rows(self, connection: sqlite3.Connection, *, apart: bool = False) -> SQLiteRows:
        rows = SQLiteRows(connection, FRESH if self._apart else "", apart=apart)
        rows.refused = self._projector.refused
        return rows

    def _switch(self, done: int, switched: Callable[[Transaction, Projector], None]) -> int:
        with self._writing(durable=True) as transaction:
            connection = self._connection = transaction.connection
            for table in self._tables() if not self._apart else ():
                sqlite.drop(connection, table.name)
                sqlite.create(connection, table)
            rows = self._rows(connection)
            for event in self._reading.known(done + 1, transaction.position):
                self._projector.fold(event, rows)
            self._projector.flush(rows)
            at = (transaction.position, transaction.head)
            folded = "SELECT position, head FROM checkpoint WHERE id = 1"
            if not self._is_whole and connection.execute(folded).fetchall() != [at]:
                self.names = frozenset(projector.names())  # the others have not folded all of the log: they go with it
            drop_views(connection)
            if self._apart:  # those that stay empty first: with each renaming SQLite reads what there is by then
                for table in sorted(self._switching(), key=lambda table: not _stays_empty(connection, table)):
                    _swap(connection, table)
            if self._is_whole:
                for name in self._left_by_another_version(connection):
                    sqlite.rename(connection, name, OLD + name)
                connection.execute("DROP TABLE projections")  # an older product may have made it with other columns
                create_checkpoints(connection)
                write_checkpoints(connection, self._secret, self._ledger_id, *at, self._projector.poisoned)
            else:
                write_checkpoints_of(connection, self._secret, self.names, self._projector.poisoned)
            create_views(connection)
            position = int(transaction.position)
            switched(transaction, self._projector)
        self._tell(position, position)
        return position

    # --- what is left over ---------------------------------------------------------------------------------------

    def _left_by_another_version(self, connection: Connection) -> list[str]:
        """Tables that another version of the product made of its projections: nobody would follow an erasure in them."""
        found: set[tuple[str, int]] = set()
        with suppress(sqlite3.OperationalError):  # it may have other columns there
            found = set(connection.execute("SELECT name, version FROM projections"))
        if found == {(each.name, each.version) for each in projections(self._secret)}:
            return []
        known = {each.name for each in self._tables()} | PARTS | OTHERS
        names = (name for name, _ in prefixed(connection, "") if name not in known and name.isidentifier())
        return [name for name in names if not name.startswith((FRESH, OLD, "sqlite_")) and not is_own(name)]

    def _empty(self, prefix: str) -> None:
        """Empties and drops tables that are on their way out, a few thousand rows a transaction."""
        with self._log.snapshot() as connection:
            names = prefixed(connection, prefix)
        while names:
            with self._writing() as transaction:
                left = EMPTYING
                while names and left > 0:
                    name, virtual = names[-1]
                    deleted = 0 if virtual else sqlite.delete_some(transaction.connection, name, left)
                    if deleted < left:
                        sqlite.drop(transaction.connection, name)
                        names.pop()
                    left -= deleted + TABLE


def _head(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()[0])


def _stays_empty(connection: sqlite3.Connection, table: Table | TextIndex) -> bool:
    return sqlite.is_empty(connection, table, FRESH + table.name)


def _swap(connection: sqlite3.Connection, table: Table | TextIndex) -> None:
    """The fresh table in the place of the live one. An empty one is made again: after each renaming SQLite reads the schema."""
    name, fresh = table.name, FRESH + table.name
    if sqlite.exists(connection, name):
        if sqlite.is_empty(connection, table, name):
            sqlite.drop(connection, name)
        else:
            sqlite.rename(connection, name, OLD + name)
    if _stays_empty(connection, table):
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
