"""What the projections say of some events, said again after these events lost their texts.

The subjects concerned are folded twice, apart from everything else, in memory: as they were and as they are now, each with the
acts that made events of theirs void and back, in the order of the log. What the two folds have different is changed in
the tables, and so they are what a rebuild would make of the log. It is the projector's own fold, so no projection has code
for this; each row must be of one subject, or of one event, for another's is not looked at.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

from ledger.domain.events import LEDGER_STREAM, AnyEvent
from projections.core.projector import Projector, create_all, projections
from projections.core.rows import Index, Rows, Table, TextIndex, Values
from projections.core.sqlite import SQLiteRows, create, drop

Texts = dict[tuple[Index, int], Values]


class _Apart(SQLiteRows):
    """Rows in a database of their own, which remembers the texts that it would index."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self.texts: Texts = {}

    def index(self, index: Index, row: int, old: Values | None, new: Values | None) -> None:
        self.texts.pop((index, row), None)
        if new is not None:
            self.texts[index, row] = new


class _Excerpt:
    """A few streams, as a fold reads the log."""

    def __init__(self, events: Iterable[AnyEvent], blob: Callable[[str], str | None]) -> None:
        self._blob = blob
        self._streams: dict[str, list[AnyEvent]] = {}
        for event in events:
            if event.stream != LEDGER_STREAM:
                self._streams.setdefault(event.stream, []).append(event)

    def blob(self, blob: str) -> str | None:
        return self._blob(blob)

    def streams(self, streams: Sequence[str], up_to: int) -> dict[str, list[AnyEvent]]:
        return {each: [event for event in self._streams.get(each, ()) if event.position <= up_to] for each in streams}

    def streams_within(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[str, int]]:
        found = [
            (events[0].stream, events[0].first)
            for events in self._streams.values()
            if any(first <= event.position <= last for event in events for first, last in ranges)
        ]
        return sorted(found, key=lambda each: each[1])


class Fold:
    """One fold apart from the others: the rows of each table, and the texts of each index."""

    def __init__(
        self,
        secret: bytes,
        events: Iterable[AnyEvent],
        suspended: Iterable[str],
        blob: Callable[[str], str | None],
    ) -> None:
        inorder = sorted(events, key=lambda event: event.position)
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            create_all(connection, secret, "")
            fold, rows = Projector(secret, _Excerpt(inorder, blob), suspended), _Apart(connection)
            for event in inorder:
                fold.fold(event, rows)
            rows.flush()
            if fold.poisoned:
                name, at, error = fold.poisoned[0]
                raise RuntimeError(f"the projection {name!r} cannot fold position {at} again ({error})")
            self.texts = rows.texts
            self.rows: dict[Table, Counter[Values]] = {
                table: Counter(map(tuple, connection.execute(f"SELECT * FROM {table.name}")))
                for projection in projections(secret)
                for table in projection.tables
                if isinstance(table, Table) and not table.derived
            }


def replace(connection: sqlite3.Connection, rows: Rows, old: Fold, new: Fold) -> None:
    """Makes the tables say what the new fold says where the old one said something else."""
    for table in old.rows:
        gone, come = old.rows[table] - new.rows[table], new.rows[table] - old.rows[table]
        if table.appended:
            _append_again(connection, rows, table, gone, come, new.rows[table])
        else:
            _put_again(rows, table, gone, come, {row[: len(table.key)] for row in old.rows[table]})
    for index, row in {**old.texts, **new.texts}:
        before, after = old.texts.get((index, row)), new.texts.get((index, row))
        if before != after:
            rows.index(index, row, before, after)


def _put_again(rows: Rows, table: Table, gone: Iterable[Values], come: Iterable[Values], had: set[Values]) -> None:
    """A row that another subject has taken meanwhile, as a name or a key that was free again, stays as it is."""
    width, free = len(table.key), set()
    for row in gone:
        if rows.get(table, row[:width]) == row:
            rows.remove(table, row[:width])
            free.add(row[:width])
    for row in come:
        if row[:width] in free or (row[:width] not in had and rows.get(table, row[:width]) is None):
            rows.put(table, row[:width], row)


def _append_again(
    connection: sqlite3.Connection,
    rows: Rows,
    table: Table,
    gone: Iterable[Values],
    come: Counter[Values],
    now: Counter[Values],
) -> None:
    where = " AND ".join(f"{name} = ?" for name in table.key) + "".join(f" AND {name} IS ?" for name in table.names)
    for row in gone:
        place = [row[table.names.index(name)] for name in table.key]
        connection.execute(f"DELETE FROM {table.name} WHERE {where}", (*place, *row))
        come.update({row: now[row]})  # of several that are alike all were deleted
    for row in come.elements():
        rows.append(table, row)


def empty(connection: sqlite3.Connection, secret: bytes, suspended: Iterable[str]) -> None:
    """A suspended projection stands where it was, with texts that nobody may read any more: nothing of it is kept."""
    for projection in projections(secret):
        if projection.name in suspended:
            for table in projection.tables:
                if isinstance(table, TextIndex):
                    drop(connection, table.name)
                    create(connection, table)
                else:
                    connection.execute(f"DELETE FROM {table.name}")


def acts_on(connection: sqlite3.Connection, positions: Iterable[int]) -> set[int]:
    """The positions that made any of these events void or put it back."""
    found: set[int] = set()
    out = "SELECT from_position, from_position FROM voided WHERE position = ?"
    was = "SELECT from_position, to_position FROM were_voided WHERE position = ?"
    for position in positions:
        for sql in (out, was):
            for ends in connection.execute(sql, (position,)):
                found.update(ends)
    return found


def ends_of_distrust(connection: sqlite3.Connection, act: str) -> set[int]:
    """Where a source that this act distrusted was trusted again."""
    sql = "SELECT to_position FROM no_longer_distrusted WHERE act = ?"
    return {position for (position,) in connection.execute(sql, (act,))}
