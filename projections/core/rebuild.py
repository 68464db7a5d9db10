"""A rebuild of the projections from the log, in tables next to the live ones, with a switch at the end.

The rebuild folds the log in short transactions, so commands can write meanwhile; they fold into the live tables only. The
last transaction folds the remaining events and switches the tables. All projections are folded together, because some use
the states of subjects that others hold. If a rebuild is asked for some projections only, only their tables are switched.

A log that is not longer than ``TAIL`` is folded in the last transaction alone, into tables created in place of the live ones.
This is faster than a switch: SQLite reads the whole schema again for each table that it renames.

One rebuild runs at a time; it holds a lease. A rebuild that is killed or stopped leaves the live tables whole. The next
rebuild drops the tables that a killed one left.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from ledger.domain.errors import ConflictError, LedgerError
from ledger.events import AnyEvent
from ledger.log import lease
from ledger.log.event_store import EventStore, Transaction
from ledger.log.sqlite_files import PARTS, REPLICA
from projections.core import digests, projector, sqlite
from projections.core import own_registry as registry
from projections.core.projector import (
    ALL,
    Projector,
    create_checkpoints,
    write_checkpoints,
    write_checkpoints_of,
)
from projections.core.rows import Connection, Table, TextIndex
from projections.core.rows import FoldLog as FoldLog
from projections.core.sql_views import create_views, drop_views, is_own
from projections.core.sqlite import SQLiteRows
from projections.search import vectors

BATCH = 4_000  # events folded and written in one transaction
TAIL = 1_000  # the most events that are left for the transaction that switches the tables
# The most events of a log whose indexes are created after the rows. For a longer log that would hold the writer's lock for many
# seconds.
INDEXED = 4_000_000
EMPTYING = 20_000  # the most rows that are deleted from the old tables in one transaction
TABLE = 1_000  # dropping a table takes as long as deleting this many rows
WORK, LEASE_SECONDS = "rebuild", 60.0
FRESH, OLD = "fresh_", "old_"
# The tables of the product that belong neither to the log nor to a projection.
OTHERS = {"checkpoint", "projections", vectors.NAME, registry.NAME, REPLICA}
_SHADOWS = ("data", "idx", "content", "docsize", "config")  # endings of the tables that FTS5 keeps for an index

Progress = Callable[[int, int], None]  # (events folded, events in the log)


class RebuildUnderWay(ConflictError):
    """The error of a rebuild while another rebuild, or an erasure, holds the lease."""


class RebuildStopped(Exception):
    """The error of a rebuild that was stopped before the switch, with the number of events it had folded."""

    def __init__(self, events: int) -> None:
        super().__init__()
        self.events = events


class ConnectionReading(FoldLog, Protocol):
    """The log as read through one connection."""

    def events(self, first: int, last: int) -> Iterator[AnyEvent]: ...

    def known(self, first: int, last: int) -> Iterator[AnyEvent]: ...


class Rebuild:
    """A rebuild of the projections; ``names`` are the projections whose tables are switched."""

    def __init__(
        self,
        log: EventStore,
        secret: bytes,
        ledger_id: str,
        reading: Callable[[Callable[[], Connection]], ConnectionReading],
        progress: Progress | None,
        only: frozenset[str] = frozenset(),
        stop: Callable[[], object] = lambda: False,
    ) -> None:
        """Prepare a rebuild.

        Args:
            log: The event store.
            secret: The ledger's secret.
            ledger_id: The ledger's id.
            reading: Makes a reader of the log from a function that returns the current connection.
            progress: Called with (events folded, events in the log) after each batch.
            only: Projections together with all that read them (``projector.read_by``); empty for all projections.
            stop: Called between two transactions; a true result ends the rebuild.
        """
        self.names = only or frozenset(projector.names())
        self._log, self._secret, self._ledger_id = log, secret, ledger_id
        self._progress, self._stop, self._done = progress, stop, 0
        self._holder = lease.new_holder()
        self._connection: Connection
        self._reading = reading(lambda: self._connection)
        self._projector = Projector(secret, self._reading)
        self._late: list[Table] = []  # tables whose indexes are created after their rows
        self._began = 0  # the position of the log when the lease was taken
        self._apart = True  # fresh tables are made next to the live ones, which they replace at the end

    def run(self, switched: Callable[[Transaction, Projector], None], *, digest: bool = True) -> tuple[int, str]:
        """Rebuild the projections and return the number of events folded and the digest of the tables.

        Args:
            switched: Called in the last transaction, with the projector, after the tables are switched.
            digest: False to return "" in place of the digest, which reads every row once more.

        Raises:
            RebuildStopped: ``stop`` ended the rebuild before the switch. The live tables are unchanged, the fresh ones dropped.
        """
        with self._leased():
            try:
                self._start()
                position = self._catch_up(0)
                self._make_late_indexes()
                position = self._catch_up(position)
                self._check_stop()
            except RebuildStopped:
                self._empty(FRESH)
                raise
            position = self._switch(position, switched)
            self._empty(OLD)
            self._empty(FRESH)
            if not digest:
                return position, ""
            with self._log.snapshot() as connection:
                return position, digests.digest(connection)

    def drop_remains(self) -> None:
        """Drop the tables that killed rebuilds left, so that an erased text stays in none of them."""
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
            with suppress(LedgerError), self._log.transact() as transaction:  # the disk may still fail
                lease.give_back(transaction.connection, WORK, self._holder)

    @contextmanager
    def _writing(self, *, durable: bool = False) -> Iterator[Transaction]:
        """Open a transaction and renew the lease in it, or raise if the lease was lost."""
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
        """Drop the tables that a killed rebuild left, and create fresh tables if the log is too long to be folded at the end."""
        self._empty(OLD)
        self._empty(FRESH)
        with self._writing(durable=True) as transaction:
            create_checkpoints(transaction.connection)
            self._apart = transaction.position > TAIL or not self._is_whole
            late = [table for table in self._tables() if isinstance(table, Table) and table.late]
            self._late = late if transaction.position <= INDEXED else []
            for table in self._tables() if self._apart else ():
                sqlite.create(
                    transaction.connection, table, FRESH, indexes=table.name not in {t.name for t in self._late}
                )

    @property
    def _is_whole(self) -> bool:
        return len(self.names) == len(projector.names())

    def _tables(self) -> list[Table | TextIndex]:
        return [table for projection in ALL for table in projection.tables]

    def _switching(self) -> list[Table | TextIndex]:
        return [table for projection in ALL if projection.name in self.names for table in projection.tables]

    def _catch_up(self, position: int) -> int:
        """Fold batches until at most a tail of the log is left; no lock is held while a batch is folded."""
        while self._apart and self._log_head() - position > TAIL:
            self._check_stop()
            position = self._done = self._fold_batch(position)
        return position

    def _fold_batch(self, position: int) -> int:
        with self._log.snapshot() as connection:
            self._connection = connection
            rows, head = self._rows(connection, apart=True), _head(connection)
            last = min(head, position + BATCH)
            for event in self._reading.known(position + 1, last):
                self._projector.fold(event, rows)
        with self._writing() as transaction:
            rows.connection = transaction.connection
            self._projector.flush(rows)
        self._projector.forget()
        self._tell(last, head)
        return last

    def _check_stop(self) -> None:
        if self._stop():
            raise RebuildStopped(self._done)

    def _make_late_indexes(self) -> None:
        """Create the late indexes, one table a transaction.

        An index created over sorted rows is written once. An index that exists earlier is written page by page with every batch.
        """
        for table in self._late if self._apart else ():
            self._check_stop()
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
                # The other tables do not stand at the end of the log, so they are switched too.
                self.names = frozenset(projector.names())
            drop_views(connection)
            if self._apart:  # the empty tables first: SQLite reads the schema again for each renamed table
                for table in sorted(self._switching(), key=lambda table: not _stays_empty(connection, table)):
                    _swap(connection, table)
            if self._is_whole:
                for name in self._left_by_another_version(connection):
                    sqlite.rename(connection, name, OLD + name)
                connection.execute("DROP TABLE projections")  # an older version may have created it with other columns
                create_checkpoints(connection)
                write_checkpoints(connection, self._ledger_id, *at, self._projector.poisoned)
            else:
                write_checkpoints_of(connection, self.names, self._projector.poisoned)
            create_views(connection)
            position = int(transaction.position)
            switched(transaction, self._projector)
        self._tell(position, position)
        return position

    # --- old tables ---------------------------------------------------------------------------------------

    def _left_by_another_version(self, connection: Connection) -> list[str]:
        """Return the projection tables of another version of the product, which have to go: no erasure reaches their texts."""
        versions: set[tuple[str, int]] = set()
        with suppress(sqlite3.OperationalError):  # the other version's table may have other columns
            versions = set(connection.execute("SELECT name, version FROM projections"))
        if versions == {*projector.versions().items()}:
            return []
        known = {table.name for table in self._tables()} | PARTS | OTHERS
        names = (name for name, _ in prefixed(connection, "") if name not in known and name.isidentifier())
        return [name for name in names if not name.startswith((FRESH, OLD, "sqlite_")) and not is_own(name)]

    def _empty(self, prefix: str) -> None:
        """Delete the tables with this prefix, a few thousand rows a transaction."""
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
    """Put the fresh table in the place of the live one.

    An empty fresh table is created anew and not renamed, because SQLite reads the whole schema again for each renamed table.
    """
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
    """Return (name, True if virtual) of the tables with a prefix, without the shadow tables of text indexes."""
    sql = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name LIKE ? || '%'"
    tables = [(name, sql.upper().startswith("CREATE VIRTUAL")) for name, sql in connection.execute(sql, (prefix,))]
    shadows = {f"{name}_{part}" for name, is_virtual in tables if is_virtual for part in _SHADOWS}
    return [(name, is_virtual) for name, is_virtual in tables if name not in shadows]
