"""Rows that no fold wrote: values of a type that their column does not take, as a damaged page may hold them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from projections.projector import projections
from projections.rows import Table

_STORED = {"TEXT": "text", "INTEGER": "integer", "BLOB": "blob", "REAL": "real"}
_BEHIND = {  # the tables behind a text index that a read decodes by itself: their columns, as FTS5 makes them
    "data": ("id INTEGER NOT NULL", "block BLOB NOT NULL"),
    "docsize": ("id INTEGER NOT NULL", "sz BLOB NOT NULL"),
}


def ill_typed(connection: sqlite3.Connection) -> str:
    """The first table with such a row, or one that cannot be read through; "" where there is none. Reads every row."""
    for name, columns in _tables():
        wrong = " OR ".join(map(_wrong, columns))
        try:
            if connection.execute(f"SELECT 1 FROM main.{name} WHERE {wrong} LIMIT 1").fetchone() is not None:
                return name
        except sqlite3.Error:
            return name
    return ""


def _tables() -> Iterator[tuple[str, tuple[str, ...]]]:
    for table in (table for each in projections(b"") for table in each.tables):
        if isinstance(table, Table):
            yield table.name, table.columns
        else:
            yield from ((f"{table.name}_{part}", columns) for part, columns in _BEHIND.items())


def _wrong(column: str) -> str:
    name, type_, *more = column.split()
    wrong = f"typeof({name}) != '{_STORED[type_]}'"
    return wrong if more else f"({name} IS NOT NULL AND {wrong})"  # NOT NULL, or a key
