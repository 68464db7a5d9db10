"""The correction of the projections after events lost their texts in an erasure.

The subjects concerned are folded twice in memory, apart from all other subjects: with the events before the erasure, and with
the events after it. Undos and the like are part of both folds. The rows in which the two folds differ are written to the
tables, which then equal those of a rebuild. The projector does both folds, so no projection has code for erasure. Each row must
belong to one subject or one event, because rows of other subjects are not compared.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing

from ledger.events import LEDGER_STREAM, AnyEvent
from projections.core.projector import ALL, Projector, create_all
from projections.core.rows import Index, ProjectionRows, Table, TextIndex, Values
from projections.core.sqlite import SQLiteRows, create, drop

Texts = dict[tuple[Index, int], Values]


class _Apart(SQLiteRows):
    """The rows of a fold in a database of their own, with the texts that the text indexes would hold."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self.texts: Texts = {}

    def index(self, index: Index, row: int, old: Values | None, new: Values | None) -> None:
        self.texts.pop((index, row), None)
        if new is not None:
            self.texts[index, row] = new


class _Excerpt:
    """A log that has only a few streams."""

    def __init__(self, events: Iterable[AnyEvent], blob: Callable[[str], str | None]) -> None:
        self._blob = blob
        self._streams: dict[str, list[AnyEvent]] = {}
        for event in events:
            if event.stream != LEDGER_STREAM:
                self._streams.setdefault(event.stream, []).append(event)

    def blob(self, blob: str) -> str | None:
        return self._blob(blob)

    def streams(self, streams: Sequence[str], up_to: int) -> dict[str, list[AnyEvent]]:
        return {
            stream: [event for event in self._streams.get(stream, ()) if event.position <= up_to] for stream in streams
        }

    def streams_within(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[str, int]]:
        matches = [
            (events[0].stream, events[0].first)
            for events in self._streams.values()
            if any(first <= event.position <= last for event in events for first, last in ranges)
        ]
        return sorted(matches, key=lambda match: match[1])


class Fold:
    """A fold apart from the live tables: the rows of each table, and the texts of each index."""

    def __init__(
        self,
        secret: bytes,
        events: Iterable[AnyEvent],
        suspended: Iterable[str],
        blob: Callable[[str], str | None],
    ) -> None:
        ordered = sorted(events, key=lambda event: event.position)
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            create_all(connection, "")
            fold, rows = Projector(secret, _Excerpt(ordered, blob), suspended), _Apart(connection)
            for event in ordered:
                fold.fold(event, rows)
            rows.flush()
            if fold.poisoned:
                name, at, error = fold.poisoned[0]
                raise RuntimeError(f"the projection {name!r} cannot fold position {at} again ({error})")
            self.texts = rows.texts
            self.rows: dict[Table, Counter[Values]] = {
                table: Counter(map(tuple, connection.execute(f"SELECT * FROM {table.name}")))
                for projection in ALL
                for table in projection.tables
                if isinstance(table, Table) and not table.derived
            }


def replace(connection: sqlite3.Connection, rows: ProjectionRows, old: Fold, new: Fold) -> None:
    """Change the live tables where the new fold differs from the old one."""
    for table in old.rows:
        removed, added = old.rows[table] - new.rows[table], new.rows[table] - old.rows[table]
        if table.appended:
            _append_again(connection, rows, table, removed, added, new.rows[table])
        else:
            _put_again(rows, table, removed, added, {row[: len(table.key)] for row in old.rows[table]})
    for index, row in {**old.texts, **new.texts}:
        before, after = old.texts.get((index, row)), new.texts.get((index, row))
        if before != after:
            rows.index(index, row, before, after)


def _put_again(
    rows: ProjectionRows, table: Table, removed: Iterable[Values], added: Iterable[Values], old_keys: set[Values]
) -> None:
    """Replace rows by key.

    A row stays as it is if another subject has taken its key meanwhile, such as a name that was free again.
    """
    width, free = len(table.key), set()
    for row in removed:
        if rows.get(table, row[:width]) == row:
            rows.remove(table, row[:width])
            free.add(row[:width])
    for row in added:
        if row[:width] in free or (row[:width] not in old_keys and rows.get(table, row[:width]) is None):
            rows.put(table, row[:width], row)


def _append_again(
    connection: sqlite3.Connection,
    rows: ProjectionRows,
    table: Table,
    removed: Iterable[Values],
    added: Counter[Values],
    now: Counter[Values],
) -> None:
    where = " AND ".join(f"{name} = ?" for name in table.key) + "".join(f" AND {name} IS ?" for name in table.names)
    for row in removed:
        place = [row[table.names.index(name)] for name in table.key]
        connection.execute(f"DELETE FROM {table.name} WHERE {where}", (*place, *row))
        added.update({row: now[row]})  # the statement deleted every equal row
    for row in added.elements():
        rows.append(table, row)


def empty(connection: sqlite3.Connection, suspended: Iterable[str]) -> None:
    """Empty the tables of the suspended projections, whose rows may still hold erased texts."""
    for projection in ALL:
        if projection.name in suspended:
            for table in projection.tables:
                if isinstance(table, TextIndex):
                    drop(connection, table.name)
                    create(connection, table)
                else:
                    connection.execute(f"DELETE FROM {table.name}")


def acts_on(connection: sqlite3.Connection, positions: Iterable[int]) -> set[int]:
    """Return the positions of the acts that made any of these events void or put it back."""
    acts: set[int] = set()
    voided = "SELECT from_position, from_position FROM voided WHERE position = ?"
    were_voided = "SELECT from_position, to_position FROM were_voided WHERE position = ?"
    for position in positions:
        for sql in (voided, were_voided):
            for ends in connection.execute(sql, (position,)):
                acts.update(ends)
    return acts


def ends_of_distrust(connection: sqlite3.Connection, act: str) -> set[int]:
    """Return the positions at which a source that this act distrusted was trusted again."""
    sql = "SELECT to_position FROM no_longer_distrusted WHERE act = ?"
    return {position for (position,) in connection.execute(sql, (act,))}
