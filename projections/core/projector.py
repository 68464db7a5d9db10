"""The projector: it folds events into the rows of every projection, in the command's transaction or in a rebuild.

To fold an event is to compute the rows that follow from the event and the rows before it. Each event is folded once into the
state of its subject, and every projection receives the same change. After an undo or a redo the subjects concerned are folded
again from their streams without the void events, and each projection receives the result as one more change. Rows that follow
from the state or from ``SubjectChange.events`` need no more code for that; a projection that has such code says why.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from ledger.domain.errors import DamagedError
from ledger.events import WAYS_BACK, AnyEvent, ProjectionResumed, ProjectionSuspended, Unknown
from projections.core import sql_views, sqlite
from projections.core.rows import FoldLog, ProjectionRows, Table, TextIndex, parted
from projections.core.subjects import EVERYTHING, BuiltinProjection, Family, SubjectChange, void_since
from projections.search import memory_hits as search
from projections.search import passages
from projections.views import (
    audit,
    calls,
    confidence,
    conflicts,
    control,
    delivered,
    documents,
    duplicates,
    erasures,
    graph,
    interactions,
    memories,
    merges,
    observations,
    projects,
    quarantine,
    sessions,
    summaries,
    values,
)

FAMILIES: dict[str, Family[Any]] = {
    family.kind: family
    for family in (
        *(memories.FAMILY, interactions.FAMILY, projects.FAMILY, sessions.FAMILY, documents.FAMILY),
        *(merges.FAMILY, conflicts.FAMILY, observations.FAMILY, values.FAMILY),
    )
}
OWNERS = {"m": "memories", "i": "interactions", "p": "projects", "s": "sessions", "d": "documents"}
OWNERS |= {"g": "merges", "k": "conflicts", "o": "observations", "v": "values"}
_SHORT = frozenset("migko")  # kinds whose streams are short, so that many are read at once
ESSENTIAL = ("in_effect", "keys", "memories")  # no command can be decided while one of these is suspended

Poisoned = Sequence[tuple[str, int, str]]  # (projection, position of the event, kind of error)


def projections(secret: bytes, log: FoldLog | None = None) -> tuple[BuiltinProjection, ...]:
    """Return all projections, in the order in which they fold; they need the log only to fold.

    A projection stands after those that it ``reads``. Any other order gives the same rows.
    """
    return (
        control.InEffect(),
        memories.MemoriesProjection(),
        confidence.Confidence(),
        duplicates.Duplicates(secret),
        graph.GraphProjection(),
        interactions.InteractionsProjection(),
        projects.ProjectsProjection(),
        documents.DocumentsProjection(secret),
        values.ValuesProjection(),
        sessions.SessionsProjection(),
        summaries.SummariesProjection(),
        merges.MergesProjection(),
        conflicts.ConflictsProjection(),
        observations.ObservationsProjection(secret),
        observations.Consolidations(),
        control.SourcesProjection(),
        control.Keys(),
        control.RefusalsProjection(),
        erasures.ErasuresProjection(),
        audit.Audit(),
        search.MemorySearchProjection(),
        search.Restatable(secret),
        passages.Passages(log),
        delivered.DeliveredProjection(),
        calls.Calls(),
        quarantine.QuarantineProjection(),
    )


ALL = projections(b"")  # for their names, versions and tables; without the secret and the log they cannot fold
_READERS = {  # the names of the projections that read the states of each kind of subject
    kind: tuple(projection.name for projection in ALL if kind in projection.follows) for kind in FAMILIES
}


def names() -> tuple[str, ...]:
    """Return the names of all projections."""
    return tuple(projection.name for projection in ALL)


def versions() -> dict[str, int]:
    """Return the version of each projection, by name."""
    return {projection.name: projection.version for projection in ALL}


def read_by(name: str) -> frozenset[str]:
    """Return the names of a projection and of all projections that read its rows, directly or through others."""
    if name == "in_effect":  # every refold asks this projection which events are void
        return frozenset(names())
    readers, waiting = set[str](), [name]
    while waiting:
        projection = waiting.pop()
        if projection not in readers:
            readers.add(projection)
            kinds = (kind for kind, owner in OWNERS.items() if owner == projection)
            waiting += [other.name for other in ALL if projection in other.reads]
            waiting += [reader for kind in kinds for reader in _READERS[kind]]
    return frozenset(readers)


def tables_of(names: Collection[str]) -> dict[str, str]:
    """Return each table of the named projections, with the name of its projection."""
    owners: dict[str, str] = {}
    for projection in ALL:
        if projection.name in names:
            owners |= {table.name: projection.name for table in projection.tables}
            owners |= {
                f"{table.name}_data": projection.name for table in projection.tables if isinstance(table, TextIndex)
            }
    return owners


def text_indexes() -> list[tuple[str, TextIndex]]:
    """Return every text index, with the name of its projection."""
    return [
        (projection.name, table) for projection in ALL for table in projection.tables if isinstance(table, TextIndex)
    ]


class Projector:
    """The fold of one set of tables.

    ``suspended`` names the projections whose tables are left as they are, because an earlier event could not be folded.
    ``poisoned`` collects (projection, position, error) of the projections that fail from here on.
    """

    def __init__(self, secret: bytes, log: FoldLog, suspended: Iterable[str] = ()) -> None:
        self.all = projections(secret, log)
        self._routes: dict[tuple[str, str], tuple[BuiltinProjection, ...]] = {}
        self.suspended = frozenset(suspended)
        self.poisoned: list[tuple[str, int, str]] = []
        self._log = log
        self._owners = {table: projection.name for projection in self.all for table in projection.tables}
        self._unwritten = 0  # the first event folded since the last flush
        self._ahead: dict[str, list[tuple[AnyEvent, int | None]]] = {}  # streams read ahead for the current refold
        self.states: dict[str, Any] = {}  # the states of subjects in the current transaction
        self._last_version = 0

    def leave_out(self, names: Iterable[str]) -> None:
        """Suspend these projections from here on, and no others."""
        if self.suspended != (suspended := frozenset(names)):
            self.suspended = suspended
            self._routes.clear()

    def forget(self) -> None:
        """Drop the kept states after a commit of another writer or a rollback."""
        self.states.clear()
        self._ahead = {}
        self._unwritten = 0

    def state(self, stream: str, first: int, rows: ProjectionRows, position: int) -> Any:
        """Return the state of a subject in these rows, just before ``position``."""
        if stream in self.states:
            return self.states[stream]
        family = FAMILIES[stream[0]]
        if OWNERS[family.kind] in self.suspended:
            return self._refolded(stream, first, rows, position - 1)[0]
        row = rows.get(family.live, (first,))
        return family.from_row(row) if row is not None else None

    def fold(self, event: AnyEvent, rows: ProjectionRows) -> Sequence[SubjectChange]:
        """Fold an event and return the change of its subject.

        The changes of subjects that an undo or a redo folds again are not returned.
        """
        self._unwritten = self._unwritten or event.position
        try:
            changes = self._changes(event, rows)
        except Exception as error:
            self._poison_readers_of(event, error)
            self.states.pop(event.stream, None)
            changes = []
        for projection in self._routes.get((event.stream[:2], event.type)) or self._route(event):
            if self.suspended and projection.name in self.suspended:
                continue  # a projection before it in this route suspended it
            try:  # _fold_into, inlined because every event of every command comes here
                projection.fold(event, changes, rows)
            except Exception as error:
                self._poison(projection.name, event.position, error)
        if isinstance(event.data, WAYS_BACK):
            self._refold(event, rows)
        return changes

    def _fold_into(
        self, projection: BuiltinProjection, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows
    ) -> None:
        if projection.name not in self.suspended:
            try:
                projection.fold(event, changes, rows)
            except Exception as error:
                self._poison(projection.name, event.position, error)

    def flush(self, rows: ProjectionRows, *, together: bool = True) -> None:
        """Write the rows that the folds kept; a projection whose rows the database refuses is suspended.

        If not ``together``, long texts wait for their index, so that others do not wait for it.
        """
        rows.flush(together=together)
        self._unwritten = 0

    def refused(self, table: Table | TextIndex, error: Exception) -> None:
        """Suspend the projection of a table that refused rows, before the first event that was not written yet."""
        self._poison(self._owners[table], self._unwritten, error)

    def _route(self, event: AnyEvent) -> tuple[BuiltinProjection, ...]:
        """Return the projections, without the suspended ones, that follow this type of event on this kind of stream."""
        kind = event.stream[0] if event.stream[1:2] == "_" else "ledger"
        route = self._routes[(event.stream[:2], event.type)] = tuple(
            projection
            for projection in self.all
            if projection.name not in self.suspended
            and (projection.follows is EVERYTHING or {kind, event.type} & projection.follows)
        )
        return route

    def _poison(self, name: str, position: int, error: Exception) -> None:
        if isinstance(error, DamagedError) or not sqlite.asked_wrong(error):
            raise error
        if name not in self.suspended:
            self.leave_out({*self.suspended, name})
            self.poisoned.append((name, position, type(error).__name__))

    def _poison_readers_of(self, event: AnyEvent, error: Exception) -> None:
        """Suspend every projection that reads this kind of subject, because the subject cannot be folded."""
        for name in _READERS.get(event.stream[0], ("in_effect",)):
            self._poison(name, event.position, error)

    def _changes(self, event: AnyEvent, rows: ProjectionRows) -> list[SubjectChange]:
        family = FAMILIES.get(event.stream[0]) if event.stream[1:2] == "_" else None
        if family is None or isinstance(event.data, Unknown):
            return []
        old = None if event.version == 1 else self.state(event.stream, event.first, rows, event.position)
        new = self.states[event.stream] = family.evolve(old, event)
        return [SubjectChange(family.kind, event.first, old, new, event)]

    # --- undo and redo -------------------------------------------------------------------------------------------

    def _refold(self, event: AnyEvent, rows: ProjectionRows) -> None:
        streams = self._log.streams_within(event.data.ranges)
        subjects = [(stream, first) for stream, first in streams if stream[1:2] == "_" and stream[0] in FAMILIES]
        following = {kind: [projection for projection in self.all if kind in projection.follows] for kind in FAMILIES}
        for batch in parted(subjects):
            # If this fails, the subjects are read one by one below, and an error suspends only the readers of its subject.
            with suppress(Exception):
                self._read_ahead([subject for subject in batch if subject[0][0] in _SHORT], rows, event.position)
            for stream, first in batch:
                try:
                    change = self._refolding(FAMILIES[stream[0]], stream, first, event, rows)
                except Exception as error:
                    self._poison_readers_of(replace(event, stream=stream), error)
                    continue
                for projection in following[stream[0]]:
                    self._fold_into(projection, event, [change], rows)

    def _read_ahead(self, subjects: Sequence[tuple[str, int]], rows: ProjectionRows, position: int) -> None:
        """Read, in few queries, the streams, rows and states that the refold of these subjects needs first."""
        self._ahead = {}
        self._ahead = self._streams([stream for stream, _ in subjects], rows, position)
        for kind in {stream[0] for stream, _ in subjects}:
            following = (projection for projection in self.all if kind in projection.follows)
            for projection in following:
                for table in projection.tables if projection.name not in self.suspended else ():
                    if isinstance(table, Table) and table.ahead:
                        rows.read_ahead(table, [first for stream, first in subjects if stream[0] == kind])
            if OWNERS[kind] in self.suspended:
                continue
            missing = {first: stream for stream, first in subjects if stream[0] == kind and stream not in self.states}
            live = dict.fromkeys(missing.values())
            for row in rows.within(FAMILIES[kind].live, "row", [(first, first) for first in missing]):
                live[missing[row[0]]] = FAMILIES[kind].from_row(row)
            self.states |= live

    def _refolding(
        self, family: Family[Any], stream: str, first: int, event: AnyEvent, rows: ProjectionRows
    ) -> SubjectChange:
        old = self.state(stream, first, rows, event.position)
        new, events = self._refolded(stream, first, rows, event.position)
        if new is not None:
            new = replace(new, position=event.position, version=self._last_version)
        self.states[stream] = new
        return SubjectChange(family.kind, first, old, new, event, refold=True, stream=events)

    def _refolded(
        self, stream: str, first: int, rows: ProjectionRows, up_to: int
    ) -> tuple[Any, Sequence[tuple[AnyEvent, int | None]]]:
        """Return the state of a subject folded again from its stream without the void events, and the events."""
        family, state, whole = FAMILIES[stream[0]], None, self._ahead.pop(stream, None)
        if whole is None:
            whole = self._streams([stream], rows, up_to)[stream]
        self._last_version = len(whole)
        events = [(event, void) for event, void in whole if not isinstance(event.data, Unknown)]
        for event, void in events:
            state = family.evolve(state, event) if void is None else family.without(state, event)
        return state, events

    def _streams(
        self, streams: Sequence[str], rows: ProjectionRows, up_to: int
    ) -> dict[str, list[tuple[AnyEvent, int | None]]]:
        """Return the events of each stream, each event with the position since which it is void, or None."""
        events_of = self._log.streams(streams, up_to)
        void = void_since(rows, (event.position for events in events_of.values() for event in events))
        return {stream: [(event, void.get(event.position)) for event in events] for stream, events in events_of.items()}


# --- the checkpoint tables -------------------------------------------------------------------------------------------

# The row of "checkpoint" with the id 1 has the position up to which all projections are folded. A suspended projection is
# folded up to the event before its "suspended_at". The other rows have the positions of the users' own projections: they are
# in this table because each commit writes its page anyway.
CHECKPOINTS = (
    "CREATE TABLE IF NOT EXISTS projections (name TEXT PRIMARY KEY, version INTEGER NOT NULL, suspended_at INTEGER,"
    " error TEXT) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS checkpoint (id INTEGER PRIMARY KEY, ledger TEXT NOT NULL, generation INTEGER NOT NULL,"
    " position INTEGER NOT NULL, head BLOB NOT NULL)",
)


_ENDS = (
    "SELECT c.position, c.head, coalesce(e.position, 0), e.head FROM main.checkpoint c"
    " LEFT JOIN (SELECT position, head FROM main.events ORDER BY position DESC LIMIT 1) e"
    " WHERE c.id = 1"
)
_LISTED = (  # reads the last row of each table only
    "SELECT max(position), count(*), last FROM main.audit,"
    " (SELECT coalesce(max(position), 0) AS last FROM main.events) WHERE position >= last"
)


def cut_off(connection: sqlite3.Connection) -> tuple[int, int] | None:
    """Return (the last position, the last position once folded) of a log that was cut off, or None for a whole log.

    Two tables prove that the log was longer: a checkpoint with a position after the end of the log, or an audit trail that
    lists the missing events without a gap. A checkpoint that has the head of the log's end but another position is itself
    damaged and proves nothing. If somebody sets back both tables too, only a checkpoint kept elsewhere reveals the loss.
    """
    with suppress(sqlite3.Error, TypeError):
        folded, head, last, end = connection.execute(_ENDS).fetchone()
        if folded > last and head != end:
            return last, folded
    with suppress(sqlite3.Error, TypeError):
        listed, rows, last = connection.execute(_LISTED).fetchone()
        if listed > last and rows + (not last) == listed - last + 1:
            return last, listed
    return None


def missing(last: int, folded: int) -> str:
    """Return the part of the error message about the first position that the log lacks."""
    return f"is missing: {folded:,} events were folded of this log, which ends at {last:,}, so its end was cut off"


def check_end(connection: sqlite3.Connection) -> None:
    """Raise ``DamagedError`` for a log whose end was cut off, before new events or a new fold hide the loss."""
    if (ends := cut_off(connection)) is not None:
        raise DamagedError("events", ends[0] + 1, missing(*ends))


def checkpoint(connection: sqlite3.Connection, position: int, head: bytes) -> None:
    """Record that all projections that are not suspended have folded the log up to this position."""
    connection.execute("UPDATE checkpoint SET position = ?, head = ? WHERE id = 1", (position, head))


def write_checkpoints(
    connection: sqlite3.Connection, ledger_id: str, position: int, head: bytes, poisoned: Poisoned = ()
) -> None:
    """Write the checkpoints anew with the next generation, after the tables were replaced."""
    suspended = {name: (at, error) for name, at, error in poisoned}
    (generation,) = connection.execute("SELECT coalesce(max(generation), 0) + 1 FROM checkpoint").fetchone()
    connection.execute("DELETE FROM projections")
    rows = [_checkpoint_row(projection, suspended) for projection in ALL]
    connection.executemany("INSERT INTO projections VALUES (?, ?, ?, ?)", rows)
    shared = (ledger_id, generation, position, head)
    connection.execute("INSERT OR REPLACE INTO checkpoint VALUES (1, ?, ?, ?, ?)", shared)


def write_checkpoints_of(connection: sqlite3.Connection, names: Collection[str], poisoned: Poisoned) -> None:
    """Write the checkpoints of these projections, after only their tables were replaced.

    The other projections must stand at the same position.
    """
    suspended = {name: (at, error) for name, at, error in poisoned}
    rows = [_checkpoint_row(projection, suspended) for projection in ALL if projection.name in names]
    connection.executemany("INSERT OR REPLACE INTO projections VALUES (?, ?, ?, ?)", rows)
    connection.execute("UPDATE checkpoint SET generation = generation + 1 WHERE id = 1")


def _checkpoint_row(projection: BuiltinProjection, suspended: Mapping[str, tuple[int, str]]) -> tuple[object, ...]:
    return projection.name, projection.version, *suspended.get(projection.name, (None, None))


def suspend(connection: sqlite3.Connection, name: str, at: int, error: str) -> ProjectionSuspended:
    connection.execute("UPDATE projections SET suspended_at = ?, error = ? WHERE name = ?", (at, error, name))
    return ProjectionSuspended(name, at, error)


def resumed(name: str) -> ProjectionResumed:
    return ProjectionResumed(name)


def create_checkpoints(connection: sqlite3.Connection, *, temporary: bool = False) -> None:
    for sql in CHECKPOINTS:
        connection.execute(sql.replace("TABLE IF NOT EXISTS", "TEMP TABLE") if temporary else sql)


def create_tables(connection: sqlite3.Connection, *, temporary: bool = False) -> None:
    create_checkpoints(connection, temporary=temporary)
    for projection in ALL:
        for table in projection.tables:
            sqlite.create(connection, table, "temp." if temporary else "", fresh=True)
    if not temporary:
        sql_views.create_views(connection)


def create_all(connection: sqlite3.Connection, ledger_id: str, *, temporary: bool = False) -> None:
    """Create all tables, empty, and the checkpoints; temporary tables hide those of the file on this connection."""
    create_tables(connection, temporary=temporary)
    write_checkpoints(connection, ledger_id, 0, bytes(32))


def belongs_to(connection: sqlite3.Connection, ledger_id: str) -> None:
    """Record the id of the ledger whose log was folded, for a branch, which has a new id."""
    connection.execute("UPDATE checkpoint SET ledger = ? WHERE id = 1", (ledger_id,))
