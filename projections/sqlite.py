"""The rows in SQLite: tables made and emptied, and a buffer that writes what the folds put, a statement at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count
from typing import Any

from projections.rows import Key, Table, TextIndex, Values

TOKENIZER = "porter unicode61 remove_diacritics 2"


class SQLiteRows:
    """Rows of one set of tables (``prefix`` tells live ones from those of a rebuild), buffered until ``flush``."""

    def __init__(self, connection: sqlite3.Connection, prefix: str = "") -> None:
        self.connection, self.prefix = connection, prefix
        self._put: dict[Table, dict[Key, Values | None]] = {}
        self._appended: dict[Table, list[Values]] = {}
        self._texts: dict[TextIndex, dict[int, tuple[Values | None, Values | None]]] = {}

    def get(self, table: Table, key: Key) -> Values | None:
        buffered = self._put.get(table)
        if buffered is not None and key in buffered:
            return buffered[key]
        found: Values | None = self.connection.execute(_select(table, self.prefix), key).fetchone()
        return found

    def put(self, table: Table, key: Key, values: Values) -> None:
        self._put.setdefault(table, {})[key] = values

    def remove(self, table: Table, key: Key) -> None:
        self._put.setdefault(table, {})[key] = None

    def append(self, table: Table, values: Values) -> None:
        self._appended.setdefault(table, []).append(values)

    def index(self, index: TextIndex, row: int, old: Values | None, new: Values | None) -> None:
        texts = self._texts.setdefault(index, {})
        texts[row] = (texts[row][0] if row in texts else old, new)

    def find(self, table: Table, columns: tuple[str, ...], key: Key) -> list[Values]:
        self._flush_table(table)
        return [tuple(row) for row in self.connection.execute(_find(table, columns, self.prefix), key)]

    def within(self, table: Table, column: str, ranges: Sequence[tuple[int, int]]) -> list[Values]:
        self._flush_table(table)
        sql = f"SELECT * FROM {self.prefix}{table.name} WHERE {column} BETWEEN ? AND ?"
        return [tuple(row) for each in ranges for row in self.connection.execute(sql, each)]

    def flush(self) -> None:
        for table in (*self._put, *self._appended):
            self._flush_table(table)
        for index, texts in self._texts.items():
            gone = [("delete", row, *old) for row, (old, _) in texts.items() if old is not None]
            _write(self.connection, _unindex(index, self.prefix), gone)
            added = [(row, *new) for row, (_, new) in texts.items() if new is not None]
            _write(self.connection, _index(index, self.prefix), added)
        self.discard()

    def _flush_table(self, table: Table) -> None:
        if puts := self._put.get(table):
            _write(self.connection, _insert(table, self.prefix), [row for row in puts.values() if row is not None])
            _write(self.connection, _delete(table, self.prefix), [key for key, row in puts.items() if row is None])
            puts.clear()
        if appended := self._appended.get(table):
            _write(self.connection, _insert(table, self.prefix), appended)
            appended.clear()

    def discard(self) -> None:
        self._put, self._appended, self._texts = {}, {}, {}

    @property
    def size(self) -> int:
        """How many rows wait for ``flush``."""
        return sum(map(len, self._put.values())) + sum(map(len, self._appended.values()))


def _write(connection: sqlite3.Connection, sql: str, rows: list[Any]) -> None:
    if len(rows) == 1:
        connection.execute(sql, rows[0])
    elif rows:
        connection.executemany(sql, rows)


@cache
def _select(table: Table, prefix: str) -> str:
    where = " AND ".join(f"{name} = ?" for name in table.key)
    return f"SELECT * FROM {prefix}{table.name} WHERE {where}"


@cache
def _find(table: Table, columns: tuple[str, ...], prefix: str) -> str:
    where = " AND ".join(f"{name} IS ?" for name in columns)
    return f"SELECT * FROM {prefix}{table.name} WHERE {where} ORDER BY {', '.join(table.key)}"


@cache
def _insert(table: Table, prefix: str) -> str:
    marks = ", ".join("?" * len(table.columns))
    verb = "INSERT" if table.appended else "INSERT OR REPLACE"
    return f"{verb} INTO {prefix}{table.name} VALUES ({marks})"


@cache
def _delete(table: Table, prefix: str) -> str:
    where = " AND ".join(f"{name} = ?" for name in table.key)
    return f"DELETE FROM {prefix}{table.name} WHERE {where}"


@cache
def _index(index: TextIndex, prefix: str) -> str:
    marks = ", ".join("?" * len(index.columns))
    return f"INSERT INTO {prefix}{index.name} (rowid, {', '.join(index.columns)}) VALUES (?, {marks})"


@cache
def _unindex(index: TextIndex, prefix: str) -> str:
    name, marks = prefix + index.name, ", ".join("?" * len(index.columns))
    return f"INSERT INTO {name} ({name}, rowid, {', '.join(index.columns)}) VALUES (?, ?, {marks})"


# --- tables: made, switched, emptied ---------------------------------------------------------------------------------


def create(connection: sqlite3.Connection, table: Table | TextIndex, prefix: str = "", *, indexes: bool = True) -> None:
    """Makes one empty table. Index names carry a number so that the tables of a rebuild can stand beside the live ones."""
    if isinstance(table, TextIndex):
        columns = ", ".join(table.columns)
        connection.execute(
            f"CREATE VIRTUAL TABLE {prefix}{table.name} USING fts5({columns}, content='', tokenize='{TOKENIZER}')"
        )
        return
    parts = list(table.columns)
    if not table.appended and "PRIMARY KEY" not in table.columns[0]:
        parts.append(f"PRIMARY KEY ({', '.join(table.key)})")
    ending = "" if table.rowid else " WITHOUT ROWID"
    connection.execute(f"CREATE TABLE {prefix}{table.name} ({', '.join(parts)}){ending}")
    if indexes:
        create_indexes(connection, table, prefix)


def create_indexes(connection: sqlite3.Connection, table: Table, prefix: str = "") -> None:
    schema, _, mark = prefix.rpartition(".")
    catalogue = f"{schema or 'main'}.sqlite_master"
    taken = {name for (name,) in connection.execute(f"SELECT name FROM {catalogue} WHERE type = 'index'")}
    for number, (columns, condition) in enumerate(table.indexes, 1):
        where = f" WHERE {condition}" if condition else ""
        name = next(name for name in _index_names(table, number) if name not in taken)
        place = f"{schema}.{name}" if schema else name
        connection.execute(f"CREATE INDEX {place} ON {mark}{table.name} ({columns}){where}")


def _index_names(table: Table, number: int) -> Iterator[str]:
    """The tables of a rebuild stand beside the live ones, so their indexes need names of their own."""
    return (f"{table.name}_{number}_{turn}" for turn in count(1))


def exists(connection: sqlite3.Connection, name: str) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone()
    return found is not None


def rename(connection: sqlite3.Connection, old: str, new: str) -> None:
    connection.execute(f"ALTER TABLE {old} RENAME TO {new}")


def drop(connection: sqlite3.Connection, name: str) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {name}")


def delete_some(connection: sqlite3.Connection, name: str, limit: int) -> int:
    """Deletes up to ``limit`` rows of a table that is on its way out, so that no transaction grows with it."""
    keys = [column for _, column, _, _, _, place in connection.execute(f"PRAGMA table_info({name})") if place]
    (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    key = ", ".join(keys) if "WITHOUT ROWID" in sql else "rowid"
    chosen = f"({key}) IN (SELECT {key} FROM {name} LIMIT {limit})"
    return connection.execute(f"DELETE FROM {name} WHERE {chosen}").rowcount
