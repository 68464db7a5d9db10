"""Rows that are not written when they are folded: by one process for another, and those that wait for more of them.

The one that folds is some batches ahead: it reads the tables as they are in the file, and over them what it has handed over
and what it keeps. Whether the other one has written the former yet makes no difference, for the values are the same.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec import Raw

from projections.rows import Key, Table, TextIndex, Values
from projections.sqlite import SQLiteRows, add_texts

Texts = dict[int, tuple[Values | None, Values | None]]
Put = dict[Table, dict[Key, Values | None]]
Groups = dict[Table, dict[Key, list[Key]]]


class Folded(NamedTuple):
    """What the folds of one batch put, appended and said, by the names of tables; each table packed by itself, so that the
    one that writes has the rows of one at a time."""

    put: dict[str, Raw]  # (rows, keys of the rows that are no more)
    appended: dict[str, Raw]
    texts: dict[str, Texts]
    expanded: dict[str, list[Values]]  # new texts, as their index takes them


_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Folded).decode
_rows_of = msgspec.msgpack.Decoder(list[tuple]).decode  # type: ignore[type-arg]
_put_of = msgspec.msgpack.Decoder(tuple[list[tuple], list[tuple]]).decode  # type: ignore[type-arg]


def unpacked(data: bytes | bytearray) -> Folded:
    """What ``hand_over`` gave."""
    return _unpack(data)


class _Handed(NamedTuple):
    """A batch that was handed over and need not be in the file yet."""

    last: int  # its last event
    put: Put
    groups: Groups


class RowsAhead(SQLiteRows):
    """The end that folds."""

    def __init__(self, connection: sqlite3.Connection, prefix: str) -> None:
        super().__init__(connection, prefix, beside=True)
        self._handed: deque[_Handed] = deque()  # the newest first

    def hand_over(self, last: int, *, expand: bool = True) -> bytes:
        """What was folded since the last call, up to the event ``last``; ``expand`` takes new texts apart here."""
        expanded = {index.name: taken_apart(index, texts) for index, texts in self._texts.items()} if expand else {}
        packed = _pack(
            (
                {table.name: _standing_and_gone(rows) for table, rows in self._put.items()},
                {table.name: rows for table, rows in self._appended.items()},
                {index.name: texts for index, texts in self._texts.items()},
                expanded,
            )
        )
        read = {table: rows for table, rows in self._put.items() if not table.unread}
        self._handed.appendleft(_Handed(last, read, self._groups))
        self._clear()
        return packed

    def written(self, position: int) -> None:
        """Everything handed over up to there is in the file."""
        while self._handed and self._handed[-1].last <= position:
            self._handed.pop()

    def get(self, table: Table, key: Key) -> Values | None:
        if key not in self._put.get(table, ()):
            for batch in self._handed:
                if (handed := batch.put.get(table)) is not None and key in handed:
                    return handed[key]
        return super().get(table, key)

    def _kept(self, table: Table) -> Mapping[Key, Values | None]:
        kept = [rows for batch in reversed(self._handed) if (rows := batch.put.get(table))]
        kept += [rows] if (rows := self._put.get(table)) else []
        return kept[0] if len(kept) == 1 else {key: row for rows in kept for key, row in rows.items()}

    def _kept_group(self, table: Table, key: Key) -> list[Key]:
        handed = (batch.groups.get(table, {}).get(key, ()) for batch in self._handed)
        return [*(each for keys in handed for each in keys), *super()._kept_group(table, key)]

    def flush(self) -> None:
        raise TypeError("what is folded ahead is written by another process: hand_over() it")


def _standing_and_gone(rows: dict[Key, Values | None]) -> tuple[list[Values], list[Key]]:
    standing = [row for row in rows.values() if row is not None]
    return standing, [key for key, row in rows.items() if row is None] if len(standing) < len(rows) else []


def taken_apart(index: TextIndex, texts: Texts) -> list[Values]:
    """Takes the new texts out of ``texts`` where they are so many that the index takes them at once."""
    new = [(row, text) for row, (old, text) in texts.items() if old is None and text is not None]
    if len(new) < index.together:
        return []
    expanded = [(row, *index.expand(text)) for row, text in new]
    for row, _ in new:
        del texts[row]
    return expanded


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
        self._packed = {tables[name]: packed for name, packed in folded.put.items()}
        self._packed_new = {tables[name]: packed for name, packed in folded.appended.items()}
        self._texts = {indexes[name]: texts for name, texts in folded.texts.items()}
        self._expanded = {indexes[name]: rows for name, rows in folded.expanded.items()}
        for index, texts in self._texts.items():
            with suppress(Exception):  # else flush meets it again, and parks the projection
                if rows := taken_apart(index, texts):
                    self._expanded[index] = rows

    def scattered(self) -> Iterator[tuple[Table, dict[Key, Values | None]]]:
        for table in [each for each in self._packed if each.scattered]:
            (rows, gone), width = _put_of(self._packed.pop(table)), len(table.key)
            yield table, {**{row[:width]: row for row in rows}, **dict.fromkeys(gone)}

    def flush(self) -> None:
        for table in self._packed | self._packed_new:
            self._flush_table(table)
        super().flush()
        for index, rows in self._expanded.items():
            try:
                add_texts(self.connection, index, self.prefix, rows)
            except Exception as error:
                self._refuse(index, error)
        self._packed, self._packed_new, self._expanded = {}, {}, {}

    def _flush_table(self, table: Table) -> None:
        packed, new = self._packed.get(table), self._packed_new.get(table)
        rows, gone = _put_of(packed) if packed is not None else ((), ())
        self._write_rows(table, rows, gone, _rows_of(new) if new is not None else ())


class Scattered(SQLiteRows):
    """Rows of tables with keys in no order: so many at once, sorted, that a page is written for more than one of them."""

    first = 0  # the first event whose rows wait; 0 when none do

    def take_from(self, rows: SQLiteRows, first: int) -> None:
        """Takes such rows out of ``rows``, which were folded from ``first`` on."""
        for table, taken in rows.scattered():
            self._put.setdefault(table, {}).update(taken)
            self.first = self.first or first

    def __len__(self) -> int:
        return sum(map(len, self._put.values()))

    def flush(self) -> None:
        self._put = {table: {key: rows[key] for key in sorted(rows)} for table, rows in self._put.items()}
        super().flush()
        self.first = 0
