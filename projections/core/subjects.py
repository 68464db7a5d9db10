"""What happened to one subject at one position: its state before and after, as every projection receives it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol

from msgspec import Struct

from ledger.domain.events import AnyEvent, Event
from projections.core.codec import S, codec
from projections.core.codec import columns as columns_of
from projections.core.conditions import Conditions
from projections.core.rows import AsOf, Rows, Table, TextIndex, Values


class Change(Struct, frozen=True, gc=False):
    """``old`` became ``new`` by ``event``. In a refold (undo, redo) ``stream`` has the events of the stream, each with whether
    it counts."""

    kind: str
    first: int
    old: Any
    new: Any
    event: AnyEvent
    refold: bool = False
    stream: Sequence[tuple[AnyEvent, bool]] = ()

    @property
    def in_effect(self) -> list[AnyEvent]:
        return [event for event, counts in self.stream if counts]


class Family(Struct, Generic[S], frozen=True, eq=False):
    """How one kind of subject folds, and how its state lies in a row; ``closed`` keeps the rows that were.

    ``without`` is what an event that is void leaves of it.
    """

    kind: str
    evolve: Callable[[S | None, AnyEvent], S | None]
    without: Callable[[S | None, AnyEvent], S | None]
    admits: Callable[[S | None, Event], bool]
    live: Table
    closed: Table
    to_row: Callable[[S], Values]
    from_row: Callable[[Sequence[object]], S]

    def get(self, connection: sqlite3.Connection, row: int) -> S | None:
        """A subject as it stands, by its row."""
        found = connection.execute(f"SELECT * FROM {self.live.name} WHERE row = ?", (row,)).fetchone()
        return self.from_row(found) if found else None

    def listed(
        self, connection: sqlite3.Connection, where: Conditions, limit: int, *, oldest_first: bool = False
    ) -> list[S]:
        """The subjects that meet the conditions, newest first."""
        sql = f"SELECT * FROM {self.live.name} WHERE {where} ORDER BY row {'ASC' if oldest_first else 'DESC'} LIMIT ?"
        return [self.from_row(row) for row in connection.execute(sql, (*where.values, limit))]


EVERYTHING: frozenset[str] = frozenset()


class Projection(Protocol):
    """A named, versioned set of tables that are a function of the log.

    ``follows`` says what concerns it: kinds of subjects ("m"), whose changes it gets after an undo too, and names of
    events; or ``EVERYTHING``, each event once. Each row is of one subject or of one event, never a total over several: an erasure
    folds the subjects that it touched again, apart from all others (``refolding``), and would count them twice.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def follows(self) -> frozenset[str]: ...
    @property
    def tables(self) -> tuple[Table | TextIndex, ...]: ...

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None: ...


def _unchanged(state: S | None, event: AnyEvent) -> S | None:
    return state


def family(
    kind: str,
    state: type[S],
    evolve: Callable[[S | None, AnyEvent], S | None],
    admits: Callable[[S | None, Event], bool],
    names: tuple[str, str],
    *,
    indexes: tuple[tuple[str, str], ...],
    among: tuple[tuple[str, tuple[str, ...]], ...] = (),
    always: Sequence[str] = (),
    without: Callable[[S | None, AnyEvent], S | None] = _unchanged,
) -> Family[S]:
    """The family whose state lies in a table of its current rows, and one of the rows they were with the position that ended
    them. ``names`` are theirs; the columns are the fields of the state, and ``always`` goes to ``codec.columns``."""
    columns = (
        *columns_of(state, always)[:-1],
        "from_position INTEGER NOT NULL",
    )  # as which the position of a state is kept
    then, was = AsOf("from_position", closed=names[1]), AsOf("to_position")
    live = Table(names[0], columns, ("row",), indexes, late=True, then=then, among=among)
    ended = (columns[0].replace(" PRIMARY KEY", " NOT NULL"), *columns[1:], "to_position INTEGER NOT NULL")
    key, by_row = ("row", "from_position"), (("row, to_position, from_position", ""),)
    closed = Table(names[1], ended, key, by_row, appended=True, late=True, then=was, among=among)
    return Family(kind, evolve, without, admits, live, closed, *codec(state, live))


def ended(live: Table, name: str, *indexes: tuple[str, str]) -> Table:
    """The rows that a table with ``from_position`` no longer has, each with the position that ended it; ``indexes`` besides
    that of the key."""
    columns = tuple(each.replace(" PRIMARY KEY", "") for each in live.columns)
    return Table(
        name,
        (*columns, "to_position INTEGER NOT NULL"),
        (*live.key, *(("from_position",) if "from_position" not in live.key else ())),
        ((", ".join(live.key), ""), *indexes),
        appended=True,
        then=AsOf("to_position"),
    )


def end(rows: Rows, live: Table, closed: Table, row: Values, position: int) -> None:
    """Takes a row out of its table, and keeps it among those that were."""
    rows.remove(live, row[: len(live.key)])
    rows.append(closed, (*row, position))


def keep(change: Change, rows: Rows, family: Family[S]) -> None:
    """Writes the new current row, and the old one with the position that ended it."""
    if change.old is not None:
        rows.append(family.closed, (*family.to_row(change.old), change.event.position))
    if change.new is None:
        rows.remove(family.live, (change.first,))
    else:
        rows.put(family.live, (change.first,), family.to_row(change.new))


def newest(
    connection: sqlite3.Connection,
    table: str,
    of: tuple[str, object],
    statuses: Sequence[str],
    before: int | None,
    limit: int,
) -> list[Values]:
    """The newest rows of a user or session in some statuses, behind a row; -1 for all of them.

    Each status is walked by the index of (whose, status), and what they give is merged: no more rows are read than are shown.
    """
    if not statuses:
        return []
    column, key = of
    one = f"SELECT * FROM {table} WHERE {column} = ? AND status = ? AND row < ?"
    sql = " UNION ALL ".join([one] * len(statuses)) + " ORDER BY row DESC LIMIT ?"
    values = [each for status in statuses for each in (key, status, 2**62 if before is None else before)]
    return connection.execute(sql, (*values, limit)).fetchall()
