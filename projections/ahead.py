"""Rows that are not written when they are folded: by one process for another, and those that wait for more of them.

The one that folds is a batch ahead: it reads the tables as they are in the file, and over them what it has handed over and
what it keeps. Whether the other one has written the former yet makes no difference, for the values are the same.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from projections.rows import Key, Table, TextIndex, Values
from projections.sqlite import SQLiteRows, add_texts

Texts = dict[int, tuple[Values | None, Values | None]]


class Folded(NamedTuple):
    """What the folds of one batch put, appended and said, by the names of tables, in values that any process can be told."""

    put: dict[str, dict[Key, Values | None]]
    appended: dict[str, list[Values]]
    texts: dict[str, Texts]
    expanded: dict[str, list[Values]]  # new texts, as their index takes them


class RowsAhead(SQLiteRows):
    """The end that folds. What was handed over before the last time must have been written."""

    def __init__(self, connection: sqlite3.Connection, prefix: str) -> None:
        super().__init__(connection, prefix, beside=True)
        self._handed: dict[Table, dict[Key, Values | None]] = {}
        self._handed_groups: dict[Table, dict[Key, list[Key]]] = {}

    def hand_over(self) -> Folded:
        """What was folded since the last call."""
        expanded = {index.name: _expanded(index, texts) for index, texts in self._texts.items()}
        folded = Folded(
            {table.name: rows for table, rows in self._put.items()},
            {table.name: rows for table, rows in self._appended.items()},
            {index.name: texts for index, texts in self._texts.items()},
            expanded,
        )
        self._handed, self._handed_groups = self._put, self._groups
        self._clear()
        return folded

    def get(self, table: Table, key: Key) -> Values | None:
        handed = self._handed.get(table)
        if handed is not None and key in handed and key not in self._put.get(table, ()):
            return handed[key]
        return super().get(table, key)

    def _kept(self, table: Table) -> dict[Key, Values | None]:
        put, handed = self._put.get(table), self._handed.get(table)
        return {**handed, **put} if put and handed else put or handed or {}

    def _kept_group(self, table: Table, key: Key) -> list[Key]:
        return [*self._handed_groups.get(table, {}).get(key, ()), *super()._kept_group(table, key)]

    def flush(self) -> None:
        raise TypeError("what is folded ahead is written by another process: hand_over() it")


def _expanded(index: TextIndex, texts: Texts) -> list[Values]:
    """Takes the new texts out of ``texts`` where they are so many that the index takes them at once."""
    new = [(row, text) for row, (old, text) in texts.items() if old is None and text is not None]
    if len(new) < index.together:
        return []
    for row, _ in new:
        del texts[row]
    return [(row, *index.expand(text)) for row, text in new]


class HandedRows(SQLiteRows):
    """The end that writes: nothing is folded here, ``flush`` writes what was handed over."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        prefix: str,
        folded: Folded,
        tables: dict[str, Table],
        indexes: dict[str, TextIndex],
    ) -> None:
        super().__init__(connection, prefix, beside=True)
        self._put = {tables[name]: rows for name, rows in folded.put.items()}
        self._appended = {tables[name]: rows for name, rows in folded.appended.items()}
        self._texts = {indexes[name]: texts for name, texts in folded.texts.items()}
        self._expanded = {indexes[name]: rows for name, rows in folded.expanded.items()}

    def flush(self) -> None:
        expanded, self._expanded = self._expanded, {}
        super().flush()
        for index, rows in expanded.items():
            try:
                add_texts(self.connection, index, self.prefix, rows)
            except Exception as error:
                self._refuse(index, error)


class Scattered(SQLiteRows):
    """Rows of tables with keys in no order: so many at once, sorted, that a page is written for more than one of them."""

    first = 0  # the first event whose rows wait; 0 when none do

    def take_from(self, rows: SQLiteRows, first: int) -> None:
        """Takes such rows out of ``rows``, which were folded from ``first`` on."""
        for table in [each for each in rows._put if each.scattered]:
            self._put.setdefault(table, {}).update(rows._put.pop(table))
            rows._groups.pop(table, None)
            self.first = self.first or first

    def __len__(self) -> int:
        return sum(map(len, self._put.values()))

    def flush(self) -> None:
        self._put = {table: dict(sorted(rows.items())) for table, rows in self._put.items()}
        super().flush()
        self.first = 0
