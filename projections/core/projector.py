"""Folds events into the rows of every projection: in the command's own transaction, and from zero in a rebuild.

One event is folded once into the state of its subject, and every projection gets the same change. Undo and redo are no
special case of any projection: the subjects concerned are folded again from their streams without the events that are out
of force, and what comes out is one more change.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from ledger.domain.errors import DamagedError
from ledger.domain.events import WAYS_BACK, AnyEvent, ProjectionResumed, ProjectionSuspended, Unknown
from projections.core import sql_views, sqlite
from projections.core.rows import Log, Rows, Table, TextIndex, parted
from projections.core.subjects import EVERYTHING, Change, Family, Projection
from projections.search import memory_hits as search
from projections.search import passages, restatable
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
)

FAMILIES: dict[str, Family[Any]] = {
    family.kind: family
    for family in (
        *(memories.FAMILY, interactions.FAMILY, projects.FAMILY, sessions.FAMILY, documents.FAMILY),
        *(merges.FAMILY, conflicts.FAMILY, observations.FAMILY),
    )
}
OWNERS = {"m": "memories", "i": "interactions", "p": "projects", "s": "sessions", "d": "documents"}
OWNERS |= {"g": "merges", "k": "conflicts", "o": "observations"}
_SHORT = frozenset("migko")  # of such streams many are read at once
_BESIDES = {"documents": ("passages",)}  # rows that a projection reads of another, and are no state of a subject
ESSENTIAL = ("in_effect", "keys", "memories")  # without one of these nothing can be decided

Poisoned = Sequence[tuple[str, int, str]]  # (projection, position of the event, kind of error)


def projections(secret: bytes, log: Log | None = None) -> tuple[Projection, ...]:
    """All projections, in the order in which they fold; only to fold do they need the log."""
    return (
        control.InEffect(),
        memories.Memories(),
        confidence.Confidence(),
        duplicates.Duplicates(secret),
        graph.Graph(),
        interactions.Interactions(),
        projects.Projects(),
        documents.Documents(secret),
        sessions.Sessions(),
        summaries.Summaries(),
        merges.Merges(),
        conflicts.Conflicts(),
        observations.Observations(secret),
        observations.Consolidations(),
        control.Sources(),
        control.Keys(),
        control.Refusals(),
        erasures.Erasures(),
        audit.Audit(),
        search.Search(),
        restatable.Restatable(secret),
        passages.Passages(log),
        delivered.Delivered(),
        calls.Calls(),
        quarantine.Quarantine(),
    )


_ALL = projections(b"")  # once, to be asked what they are
_READERS = {  # what reads the states of each kind of subject
    kind: tuple(each.name for each in _ALL if kind in each.follows) for kind in FAMILIES
}


def names() -> tuple[str, ...]:
    """The name of every projection."""
    return tuple(each.name for each in _ALL)


def versions() -> dict[str, int]:
    """The name of every projection, with its version."""
    return {each.name: each.version for each in _ALL}


def read_by(name: str) -> frozenset[str]:
    """A projection with all whose rows rest on its rows: what it says wrong, they may have taken over."""
    if name == "in_effect":  # which events count is asked for whatever is folded again
        return frozenset(names())
    found, waiting = set[str](), [name]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            kinds = (kind for kind, owner in OWNERS.items() if owner == each)
            waiting += [*_BESIDES.get(each, ()), *(reader for kind in kinds for reader in _READERS[kind])]
    return frozenset(found)


def tables_of(names: Collection[str]) -> dict[str, str]:
    """Each table of these projections, with its projection."""
    found: dict[str, str] = {}
    for each in _ALL:
        if each.name in names:
            found |= {table.name: each.name for table in each.tables}
            found |= {f"{table.name}_data": each.name for table in each.tables if isinstance(table, TextIndex)}
    return found


def text_indexes() -> list[tuple[str, TextIndex]]:
    """Every text index, with the name of its projection."""
    return [(each.name, table) for each in _ALL for table in each.tables if isinstance(table, TextIndex)]


class Projector:
    """The fold of one set of tables. ``suspended`` projections are left as they are; ``poisoned`` collects new failures."""

    def __init__(self, secret: bytes, log: Log, suspended: Iterable[str] = ()) -> None:
        self.all = projections(secret, log)
        self._routes: dict[tuple[str, str], tuple[Projection, ...]] = {}
        self.suspended = frozenset(suspended)
        self.poisoned: list[tuple[str, int, str]] = []
        self._log = log
        self._owners = {table: each.name for each in self.all for table in each.tables}
        self._unwritten = 0  # the first event folded since the last flush
        self._ahead: dict[
            str, list[tuple[AnyEvent, bool]]
        ] = {}  # streams that the refold under way is about to ask for
        self.states: dict[str, Any] = {}  # the subjects of the transaction under way, as they stand in it
        self._last_version = 0

    def leave_out(self, names: Iterable[str]) -> None:
        """Leaves these projections as they are from here on, and no other."""
        if self.suspended != (suspended := frozenset(names)):
            self.suspended = suspended
            self._routes.clear()

    def forget(self) -> None:
        """Drops the states kept since the last call: after a commit of somebody else, or a rollback."""
        self.states.clear()
        self._ahead = {}
        self._unwritten = 0

    def state(self, stream: str, first: int, rows: Rows, position: int) -> Any:
        """The state of a subject as it stands in these rows, just before ``position``."""
        if stream in self.states:
            return self.states[stream]
        family = FAMILIES[stream[0]]
        if OWNERS[family.kind] in self.suspended:
            return self._refolded(stream, first, rows, position - 1)[0]
        row = rows.get(family.live, (first,))
        return family.from_row(row) if row is not None else None

    def fold(self, event: AnyEvent, rows: Rows) -> Sequence[Change]:
        """What it made of its subject; the subjects that an act has folded again are not in it."""
        self._unwritten = self._unwritten or event.position
        try:
            changes = self._changes(event, rows)
        except Exception as error:
            self._poison_readers_of(event, error)
            self.states.pop(event.stream, None)
            changes = []
        for projection in self._routes.get((event.stream[:2], event.type)) or self._route(event):
            try:  # as in _fold_into, without the call
                projection.fold(event, changes, rows)
            except Exception as error:
                self._poison(projection.name, event.position, error)
        if isinstance(event.data, WAYS_BACK):
            self._refold(event, rows)
        return changes

    def _fold_into(self, projection: Projection, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        if projection.name not in self.suspended:
            try:
                projection.fold(event, changes, rows)
            except Exception as error:
                self._poison(projection.name, event.position, error)

    def flush(self, rows: Rows) -> None:
        """Writes what the folds kept; a projection whose rows the database does not take is suspended like one that failed."""
        rows.flush()
        self._unwritten = 0

    def refused(self, table: Table | TextIndex, error: Exception) -> None:
        """The rows of a table were not taken: its projection stops before the first event that was not written yet."""
        self._poison(self._owners[table], self._unwritten, error)

    def _route(self, event: AnyEvent) -> tuple[Projection, ...]:
        """The projections that a type of event concerns on such a stream, by what they say of themselves: no suspended one."""
        kind = event.stream[0] if event.stream[1:2] == "_" else "ledger"
        folding = (each for each in self.all if each.name not in self.suspended)
        concerned = (each for each in folding if each.follows is EVERYTHING or {kind, event.type} & each.follows)
        route = self._routes[(event.stream[:2], event.type)] = tuple(concerned)
        return route

    def _poison(self, name: str, position: int, error: Exception) -> None:
        if isinstance(error, DamagedError) or not sqlite.asked_wrong(error):
            raise error
        if name not in self.suspended:
            self.leave_out({*self.suspended, name})
            self.poisoned.append((name, position, type(error).__name__))

    def _poison_readers_of(self, event: AnyEvent, error: Exception) -> None:
        """The subject itself cannot be folded: every projection that reads such subjects stops here."""
        for name in _READERS.get(event.stream[0], ("in_effect",)):
            self._poison(name, event.position, error)

    def _changes(self, event: AnyEvent, rows: Rows) -> list[Change]:
        family = FAMILIES.get(event.stream[0]) if event.stream[1:2] == "_" else None
        if family is None or isinstance(event.data, Unknown):
            return []
        old = None if event.version == 1 else self.state(event.stream, event.first, rows, event.position)
        new = self.states[event.stream] = family.evolve(old, event)
        return [Change(family.kind, event.first, old, new, event)]

    # --- void and back -------------------------------------------------------------------------------------------

    def _refold(self, event: AnyEvent, rows: Rows) -> None:
        found = self._log.streams_within(event.data.ranges)
        subjects = [(stream, first) for stream, first in found if stream[1:2] == "_" and stream[0] in FAMILIES]
        following = {kind: [each for each in self.all if kind in each.follows] for kind in FAMILIES}
        for some in parted(subjects):
            with suppress(Exception):  # it comes again where one subject is read alone, whose readers then stop there
                self._read_ahead([each for each in some if each[0][0] in _SHORT], rows, event.position)
            for stream, first in some:
                try:
                    change = self._refolding(FAMILIES[stream[0]], stream, first, event, rows)
                except Exception as error:
                    self._poison_readers_of(replace(event, stream=stream), error)
                    continue
                for projection in following[stream[0]]:
                    self._fold_into(projection, event, [change], rows)

    def _read_ahead(self, subjects: Sequence[tuple[str, int]], rows: Rows, position: int) -> None:
        """What a refold of some subjects asks first, in few questions."""
        self._ahead = {}
        self._ahead = self._streams([stream for stream, _ in subjects], rows, position)
        for kind in {stream[0] for stream, _ in subjects}:
            for each in self.all:
                for table in each.tables if kind in each.follows and each.name not in self.suspended else ():
                    if isinstance(table, Table) and table.ahead:
                        rows.read_ahead(table, [first for stream, first in subjects if stream[0] == kind])
            if OWNERS[kind] in self.suspended:
                continue
            asked = {first: stream for stream, first in subjects if stream[0] == kind and stream not in self.states}
            live = dict.fromkeys(asked.values())
            for row in rows.within(FAMILIES[kind].live, "row", [(first, first) for first in asked]):
                live[asked[row[0]]] = FAMILIES[kind].from_row(row)
            self.states |= live

    def _refolding(self, family: Family[Any], stream: str, first: int, event: AnyEvent, rows: Rows) -> Change:
        old = self.state(stream, first, rows, event.position)
        new, events = self._refolded(stream, first, rows, event.position)
        if new is not None:
            new = replace(new, position=event.position, version=self._last_version)
        self.states[stream] = new
        return Change(family.kind, first, old, new, event, refold=True, stream=events)

    def _refolded(self, stream: str, first: int, rows: Rows, up_to: int) -> tuple[Any, Sequence[tuple[AnyEvent, bool]]]:
        """A subject folded again from its stream, without the events that are void."""
        family, state, everything = FAMILIES[stream[0]], None, self._ahead.pop(stream, None)
        if everything is None:
            everything = self._streams([stream], rows, up_to)[stream]
        self._last_version = len(everything)
        events = [each for each in everything if not isinstance(each[0].data, Unknown)]  # this version knows no others
        for event, counts in events:
            state = family.evolve(state, event) if counts else family.without(state, event)
        return state, events

    def _streams(self, streams: Sequence[str], rows: Rows, up_to: int) -> dict[str, list[tuple[AnyEvent, bool]]]:
        """The events of some streams, each with whether it is in effect."""
        found = self._log.streams(streams, up_to)
        positions = [event.position for events in found.values() for event in events]
        out = {row[0] for row in rows.within(control.VOIDED, "position", [(each, each) for each in positions])}
        return {each: [(event, event.position not in out) for event in events] for each, events in found.items()}


# --- the checkpoint tables -------------------------------------------------------------------------------------------

# Every projection that is not suspended stands at the one position in "checkpoint" with the id 1; a suspended one stands before
# "suspended_at". The other rows are where projections of a user's own stand: each commit writes that page anyway.
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
_LISTED = (  # by a look at the last row of each
    "SELECT max(position), count(*), last FROM main.audit,"
    " (SELECT coalesce(max(position), 0) AS last FROM main.events) WHERE position >= last"
)


def cut_off(connection: sqlite3.Connection) -> tuple[int, int] | None:
    """(the last position, how far it was folded once) of a log whose end was cut off; None of one that is whole.

    The checkpoint says how far; one that has the head of the log's end with another position was itself hit. And so does the
    audit trail, where it lists what is missing without a gap. Who sets both back is found against a checkpoint kept elsewhere.
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
    """What is said of the first position that a log lacks."""
    return f"is missing: {folded:,} events were folded of this log, which ends at {last:,}, so its end was cut off"


def check_end(connection: sqlite3.Connection) -> None:
    """``DamagedError`` for a log whose end was cut off: what is written or folded after that would hide it."""
    if (found := cut_off(connection)) is not None:
        raise DamagedError("events", found[0] + 1, missing(*found))


def checkpoint(connection: sqlite3.Connection, position: int, head: bytes) -> None:
    """Everything that is not suspended has folded the log up to here."""
    connection.execute("UPDATE checkpoint SET position = ?, head = ? WHERE id = 1", (position, head))


def write_checkpoints(
    connection: sqlite3.Connection, secret: bytes, ledger_id: str, position: int, head: bytes, poisoned: Poisoned = ()
) -> None:
    """Starts the checkpoints afresh, one generation on: the tables are other tables now."""
    suspended = {name: (at, error) for name, at, error in poisoned}
    (generation,) = connection.execute("SELECT coalesce(max(generation), 0) + 1 FROM checkpoint").fetchone()
    connection.execute("DELETE FROM projections")
    rows = [(each.name, each.version, *suspended.get(each.name, (None, None))) for each in projections(secret)]
    connection.executemany("INSERT INTO projections VALUES (?, ?, ?, ?)", rows)
    shared = (ledger_id, generation, position, head)
    connection.execute("INSERT OR REPLACE INTO checkpoint VALUES (1, ?, ?, ?, ?)", shared)


def write_checkpoints_of(
    connection: sqlite3.Connection, secret: bytes, names: Collection[str], poisoned: Poisoned
) -> None:
    """The same where only these projections have other tables now, and the others stand at the same position."""
    suspended = {name: (at, error) for name, at, error in poisoned}
    some = (each for each in projections(secret) if each.name in names)
    rows = [(each.name, each.version, *suspended.get(each.name, (None, None))) for each in some]
    connection.executemany("INSERT OR REPLACE INTO projections VALUES (?, ?, ?, ?)", rows)
    connection.execute("UPDATE checkpoint SET generation = generation + 1 WHERE id = 1")


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
    for projection in projections(b""):
        for table in projection.tables:
            sqlite.create(connection, table, "temp." if temporary else "", fresh=True)
    if not temporary:
        sql_views.create_views(connection)


def create_all(connection: sqlite3.Connection, secret: bytes, ledger_id: str, *, temporary: bool = False) -> None:
    """Makes every table, empty, and the checkpoints; temporary ones stand before those in the file, for one connection."""
    create_tables(connection, temporary=temporary)
    write_checkpoints(connection, secret, ledger_id, 0, bytes(32))


def belongs_to(connection: sqlite3.Connection, ledger_id: str) -> None:
    """Says whose log was folded, where that has another id from here."""
    connection.execute("UPDATE checkpoint SET ledger = ? WHERE id = 1", (ledger_id,))
