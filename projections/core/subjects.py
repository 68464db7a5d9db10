"""The change that an event makes to its subject, the families of subjects, and the form of a projection.

A subject is a thing with a stream of its own, such as a memory or a session. Each projection receives the state of the
subject before and after the event.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol

from msgspec import Struct

from ledger.events import AnyEvent, EventData
from projections.core.rows import NEWEST, AsOf, Conditions, ProjectionRows, S, Start, Table, TextIndex, Values, codec
from projections.core.rows import columns as columns_of


class SubjectChange(Struct, frozen=True, gc=False):
    """The change of a subject from the state ``old`` to the state ``new`` by ``event``.

    In a refold (after an undo or a redo), ``stream`` holds the events of the subject's stream, each with the position since which
    the event is void, or None if the event is in effect.
    """

    kind: str
    first: int
    old: Any
    new: Any
    event: AnyEvent
    refold: bool = False
    stream: Sequence[tuple[AnyEvent, int | None]] = ()

    @property
    def events(self) -> Sequence[AnyEvent]:
        """The events whose rows the subject now has: in a refold all that are in effect, else one more event."""
        if self.new is None:
            return ()
        return [event for event, void in self.stream if void is None] if self.refold else (self.event,)


class Family(Struct, Generic[S], frozen=True, eq=False):
    """The rules and tables of one kind of subject: how it folds, and how its state is stored in a row.

    ``without`` returns the state after an event that is void. ``live`` holds the current rows, ``closed`` the earlier rows.
    """

    kind: str
    evolve: Callable[[S | None, AnyEvent], S | None]
    without: Callable[[S | None, AnyEvent], S | None]
    admits: Callable[[S | None, EventData], bool]
    live: Table
    closed: Table
    to_row: Callable[[S], Values]
    from_row: Callable[[Sequence[object]], S]

    def get(self, connection: sqlite3.Connection, row: int) -> S | None:
        """Return the current state of the subject whose row is ``row``, or None if there is no such row."""
        values = connection.execute(f"SELECT * FROM {self.live.name} WHERE row = ?", (row,)).fetchone()
        return self.from_row(values) if values else None

    def listed(
        self, connection: sqlite3.Connection, where: Conditions, limit: int, start: Start = NEWEST, *, time: str = ""
    ) -> list[S]:
        """Return the subjects that meet the conditions, in the order of ``start`` and from there on.

        With ``time`` they are in the order of that column.
        """
        if time:
            where.begin_in_time(time, start)
        else:
            where.begin("row", start)
        order = f"{time} {start.order}, row {start.order}" if time else f"row {start.order}"
        sql = f"SELECT * FROM {self.live.name} WHERE {where} ORDER BY {order} LIMIT ?"
        return [self.from_row(row) for row in connection.execute(sql, (*where.values, limit))]


EVERYTHING: frozenset[str] = frozenset()


class BuiltinProjection(Protocol):
    """A named and versioned set of tables that are a function of the log.

    ``follows`` lists the kinds of subjects ("m") and the names of events that the projection receives, or is ``EVERYTHING`` for
    each event once. After an undo, it also receives the changes of the listed kinds. ``reads`` names the projections whose rows
    a fold reads besides its own; they come first in the order of all projections. Each row must belong to one subject or to one
    event. A total over several subjects is not allowed: an erasure folds the touched subjects again, apart from all others
    (``refolding``), and would count them twice.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def follows(self) -> frozenset[str]: ...
    @property
    def reads(self) -> tuple[str, ...]: ...
    @property
    def tables(self) -> tuple[Table | TextIndex, ...]: ...

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None: ...


def _unchanged(state: S | None, event: AnyEvent) -> S | None:
    return state


def family(
    kind: str,
    state: type[S],
    evolve: Callable[[S | None, AnyEvent], S | None],
    admits: Callable[[S | None, EventData], bool],
    names: tuple[str, str],
    *,
    indexes: tuple[tuple[str, str], ...],
    among: tuple[tuple[str, tuple[str, ...]], ...] = (),
    always: Sequence[str] = (),
    without: Callable[[S | None, AnyEvent], S | None] = _unchanged,
) -> Family[S]:
    """Return a family with one table for the current rows of its subjects and one for their earlier rows.

    Args:
        kind: The letter of the kind.
        state: The struct of the state; its fields are the columns.
        evolve: Returns the state after an event.
        admits: Returns True if the state allows an event.
        names: The names of the two tables.
        indexes: The indexes of the table of current rows, as (columns, condition).
        among: (column, all values that it may hold).
        always: Passed on to ``codec.columns``.
        without: Returns the state after an event that is void.
    """
    # The last field of a state is its position, which is stored as ``from_position``.
    columns = (*columns_of(state, always)[:-1], "from_position INTEGER NOT NULL")
    then, was = AsOf("from_position", closed=names[1]), AsOf("to_position")
    live = Table(names[0], columns, ("row",), indexes, late=True, then=then, among=among)
    ended = (columns[0].replace(" PRIMARY KEY", " NOT NULL"), *columns[1:], "to_position INTEGER NOT NULL")
    key, by_row = ("row", "from_position"), (("row, to_position, from_position", ""),)
    closed = Table(names[1], ended, key, by_row, appended=True, late=True, then=was, among=among)
    return Family(kind, evolve, without, admits, live, closed, *codec(state, live))


def ended(live: Table, name: str, *indexes: tuple[str, str]) -> Table:
    """Return the table for the ended rows of a table with ``from_position``, each with the position that ended it.

    Args:
        live: The table of current rows.
        name: The name of the table.
        indexes: Indexes besides the index on the key.
    """
    columns = tuple(column.replace(" PRIMARY KEY", "") for column in live.columns)
    return Table(
        name,
        (*columns, "to_position INTEGER NOT NULL"),
        (*live.key, *(("from_position",) if "from_position" not in live.key else ())),
        ((", ".join(live.key), ""), *indexes),
        appended=True,
        then=AsOf("to_position"),
    )


def end(rows: ProjectionRows, live: Table, closed: Table, row: Values, position: int) -> None:
    """Remove a row from its table and add it to the table of ended rows."""
    rows.remove(live, row[: len(live.key)])
    rows.append(closed, (*row, position))


# An event is void while it has a row here. An undo and a distrust of the same event make two rows.
VOIDED = Table(
    "voided",
    ("position INTEGER NOT NULL", "from_position INTEGER NOT NULL", "act TEXT NOT NULL", "type TEXT NOT NULL"),
    ("position", "from_position"),
    (("act", ""),),
    rowid=False,
    then=AsOf("from_position", closed="were_voided"),
)
WERE_VOIDED = ended(VOIDED, "were_voided")


def void_since(rows: ProjectionRows, positions: Iterable[int]) -> dict[int, int]:
    """Return the void events among these positions, each with the position of the first act that keeps it void."""
    void = dict[int, int]()
    for row in rows.within(VOIDED, "position", [(position, position) for position in positions]):
        void[row[0]] = min(row[1], void.get(row[0], row[1]))
    return void


def mark_void(rows: ProjectionRows, table: Table, ranges: Sequence[tuple[int, int]]) -> None:
    """Write since when the events of some rows are void, after an act on the events in these ranges.

    The last key column of the table is the position of the event, and its last column the position since which it is void.
    """
    place = len(table.key) - 1
    found = rows.within(table, table.key[place], ranges)
    void = void_since(rows, [row[place] for row in found])
    for row in found:
        rows.put(table, row[: place + 1], (*row[:-1], void.get(row[place])))


def standing(rows: ProjectionRows, live: Table, column: str, subject: int) -> dict[Values, Values]:
    """Return the current rows of a subject as ``by_key`` does."""
    return by_key(live, rows.find(live, (column,), (subject,)))


def by_key(live: Table, rows: Iterable[Values]) -> dict[Values, Values]:
    """Return the values of rows after the key and before ``from_position``, by key."""
    width = len(live.key)
    return {row[:width]: row[width:-1] for row in rows}


def replace_rows(
    change: SubjectChange,
    rows: ProjectionRows,
    tables: tuple[Table, Table],
    before: Mapping[Values, Values],
    after: Mapping[Values, Values],
) -> None:
    """Write the rows that a subject has after a change in place of those it had before; an equal row stays as it is.

    Args:
        change: The change, whose position is the ``from_position`` of the new rows.
        rows: The rows of the fold.
        tables: The table of current rows, whose last column is ``from_position``, and the table of ended rows.
        before: The values between the key and ``from_position``, by key.
        after: The same, of the rows after the change.
    """
    live, closed = tables
    for key, values in before.items():
        if after.get(key) != values and (row := rows.get(live, key)) is not None:
            end(rows, live, closed, row, change.event.position)
    for key, values in after.items():
        if before.get(key) != values:
            rows.put(live, key, (*key, *values, change.event.position))


def keep(change: SubjectChange, rows: ProjectionRows, family: Family[S]) -> None:
    """Write the new state as the current row, and the old row with the position that ended it into the closed table."""
    if change.old is not None:
        rows.append(family.closed, (*family.to_row(change.old), change.event.position))
    if change.new is None:
        rows.remove(family.live, (change.first,))
    else:
        rows.put(family.live, (change.first,), family.to_row(change.new))


def first_rows(
    connection: sqlite3.Connection,
    table: str,
    of: tuple[str, object],
    statuses: Sequence[str],
    start: Start,
    limit: int,
) -> list[Values]:
    """Return the first rows of a user or session with these statuses, in the order of ``start`` and from there on.

    For each status SQLite walks the index of (owner, status), and the results are merged. So no more rows are read than are
    returned.

    Args:
        connection: The connection.
        table: The name of the table.
        of: The column of the owner (user or session), and the owner's id.
        statuses: The statuses; none gives no rows.
        start: The place at which the rows begin, and their order.
        limit: The largest number of rows; -1 for all.
    """
    if not statuses:
        return []
    column, key = of
    of_status = f"SELECT * FROM {table} WHERE {column} = ? AND status = ? AND row {start.behind} ?"
    sql = " UNION ALL ".join([of_status] * len(statuses)) + f" ORDER BY row {start.order} LIMIT ?"
    values = [value for status in statuses for value in (key, status, start.bound)]
    return connection.execute(sql, (*values, limit)).fetchall()
