"""The rows of the projections in SQLite: a buffer that writes the rows of the folds in few statements, and the tables."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import count

from projections.core import packed
from projections.core.rows import Index, Key, Packed, Table, TextIndex, Values, parted

TOKENIZER = "porter unicode61 remove_diacritics 2"
SLICE_CHARS = 200_000  # of the texts that a command indexes under the writers' lock, which takes about 10 ms


# The error codes of SQLite for a wrong statement or value of a fold; all other codes come from the disk or the file.
_ASKED_WRONG = frozenset(
    (
        *(sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH),
        *(sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE),
    )
)


def asked_wrong(error: Exception) -> bool:
    """Return True if a fold caused an error by a wrong statement or value, and not the disk or the file."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return not isinstance(error, sqlite3.Error) or (code & 0xFF) in _ASKED_WRONG


class SQLiteRows:
    """The rows of one set of tables, buffered until ``flush``.

    ``prefix`` distinguishes the live tables from those of a rebuild. With ``apart`` nothing is written before ``flush``, so that
    rows can be folded on a snapshot and written elsewhere. ``refused`` is called with the table that the database refused to
    write, and with the error; without ``refused`` the error is raised.
    """

    def __init__(self, connection: sqlite3.Connection, prefix: str = "", *, apart: bool = False) -> None:
        self.connection, self.prefix, self.apart = connection, prefix, apart
        self.refused: Callable[[Table | TextIndex, Exception], None] | None = None
        self._put = defaultdict[Table, dict[Key, Values | None]](dict)
        self._appended = defaultdict[Table, list[Values]](list)
        self._texts: dict[Index, dict[int, tuple[Values | None, Values | None]]] = {}
        self._groups: dict[Table, dict[Key, list[Key]]] = {}  # buffered keys of grouped tables, by the group's columns
        self._ahead: dict[Table, dict[Key, list[Values]]] = {}  # rows read ahead
        self._late: dict[Index, int] = {}  # at most so many rows wait for each index
        self.are_many_waiting = False  # True if so many texts wait for an index that they are due

    def get(self, table: Table, key: Key) -> Values | None:
        buffered = self._put.get(table)
        if buffered is not None and key in buffered:
            return buffered[key]
        if table.ahead and (read := self._ahead.get(table, {}).get(key)) is not None and len(table.key) == 1:
            return read[0] if read else None
        row: Values | None = self.connection.execute(_select(table, self.prefix), key).fetchone()
        return row

    def remove(self, table: Table, key: Key) -> None:
        self.put(table, key, None)

    def put(self, table: Table, key: Key, values: Values | None) -> None:
        self._put[table][key] = values
        if table.grouped:
            self._groups.setdefault(table, {}).setdefault(_group_of(table)(key), []).append(key)

    def append(self, table: Table, values: Values) -> None:
        self._appended[table].append(values)

    def index(self, index: Index, row: int, old: Values | None, new: Values | None) -> None:
        texts = self._texts.setdefault(index, {})
        texts[row] = (texts[row][0] if row in texts else old, new)

    def find(self, table: Table, columns: tuple[str, ...], key: Key) -> list[Values]:
        if columns == table.grouped:
            return self._group(table, columns, key)
        rows = self._select(table, _find(table, columns, self.prefix), [key])
        if not self._put.get(table):
            return rows
        places = [table.names.index(column) for column in columns]
        return self._with_kept(
            table, rows, lambda row: all(row[at] == value for at, value in zip(places, key, strict=True))
        )

    def _group(self, table: Table, columns: tuple[str, ...], key: Key) -> list[Values]:
        """Return the rows with these key columns, from the table and from the buffer."""
        rows = self._ahead.get(table, {}).get(key)
        if rows is None:
            rows = [tuple(row) for row in self.connection.execute(_find(table, columns, self.prefix), key)]
        keys = self._groups.get(table, {}).get(key)
        if not keys:
            return rows
        kept, width = self._put[table], len(table.key)
        current = {row[:width]: row for row in rows if row[:width] not in kept}
        current |= {row_key: row for row_key in keys if (row := kept.get(row_key)) is not None}
        return [current[row_key] for row_key in sorted(current)]

    def within(self, table: Table, column: str, ranges: Sequence[tuple[int, int]]) -> list[Values]:
        sql, place = f"SELECT * FROM {self.prefix}{table.name} WHERE {column}", table.names.index(column)
        single = [first for first, last in ranges if first == last]
        spans = [(first, last) for first, last in ranges if first < last]
        rows = self._select(table, f"{sql} BETWEEN ? AND ?", spans)
        for batch in parted(single):
            rows += self._select(table, f"{sql} IN ({', '.join('?' * len(batch))})", [batch])
        if not self._put.get(table):
            return rows
        alone = set(single)
        return self._with_kept(
            table,
            rows,
            lambda row: row[place] in alone or any(first <= row[place] <= last for first, last in spans),
        )

    def read_ahead(self, table: Table, subjects: Sequence[int]) -> None:
        read: dict[Key, list[Values]] = {(subject,): [] for subject in subjects}
        (column,), place = table.grouped, table.names.index(table.grouped[0])
        for batch in parted(subjects):
            marks = ", ".join("?" * len(batch))
            sql = f"SELECT * FROM {self.prefix}{table.name} WHERE {column} IN ({marks}) ORDER BY {', '.join(table.key)}"
            for row in self.connection.execute(sql, batch):
                read[(row[place],)].append(tuple(row))
        self._ahead[table] = read

    def _select(self, table: Table, sql: str, values: Sequence[Key]) -> list[Values]:
        if not self.apart:
            self._flush_table(table)
        return [tuple(row) for bound in values for row in self.connection.execute(sql, bound)]

    def _with_kept(self, table: Table, rows: list[Values], fits: Callable[[Values], bool]) -> list[Values]:
        """Return the rows of a query as they will be after the buffer is written."""
        kept = self._put.get(table)
        if not kept:
            return rows
        width = len(table.key)
        current = {row[:width]: row for row in rows if row[:width] not in kept}
        current |= {key: row for key, row in kept.items() if row is not None and fits(row)}
        return [current[key] for key in sorted(current, key=_null_first)]

    def flush(self, *, together: bool = True) -> None:
        """Write the buffer. If not ``together``, no more than a slice of a text index is written; other texts wait."""
        for table in (*self._put, *(table for table in self._appended if table not in self._put)):
            self._flush_table(table)
        for index, texts in self._texts.items():
            self._flush_texts(index, texts, None if together else SLICE_CHARS)
        self._clear()

    def index_slice(self) -> None:
        """Move a slice of the texts that are due into their index."""
        for index, late in self._late.items():
            if late >= index.together:
                self._late[index] = fill_index(self.connection, index, self.prefix, SLICE_CHARS)
        self._count_waiting()

    def _count_waiting(self) -> None:
        self.are_many_waiting = any(late >= index.together for index, late in self._late.items())

    def _flush_table(self, table: Table) -> None:
        self._ahead.pop(table, None)
        puts, appended = self._put.get(table), self._appended.get(table)
        try:
            if puts:
                if rows := [row for row in puts.values() if row is not None]:
                    _write(self.connection, _insert(table, self.prefix), rows)
                if len(rows) < len(puts):
                    gone = [key for key, row in puts.items() if row is None]
                    _write(self.connection, _delete(table, self.prefix), gone)
            if appended:
                _write(self.connection, _insert(table, self.prefix), appended)
        except Exception as error:
            self._refuse(table, error)
        if puts:
            puts.clear()
            self._groups.pop(table, None)
        if appended:
            appended.clear()

    def _flush_texts(
        self, index: Index, texts: dict[int, tuple[Values | None, Values | None]], most: int | None
    ) -> None:
        connection, prefix = self.connection, self.prefix
        try:
            old = [(row, *text) for row, (text, _) in texts.items() if text is not None]
            waited = _late(connection, index, prefix, [row for row, *_ in old])
            _write(connection, _delete(index.waiting, prefix), sorted(waited))
            if indexed := [text for text in old if text[:1] not in waited]:
                _untake(connection, index, prefix, indexed)
            added = [(row, *new) for row, (_, new) in texts.items() if new is not None]
            if len(added) >= index.together and (most is None or sum(map(_chars, added)) <= most):
                _take(connection, index, prefix, added)
            elif added:
                _write(connection, _insert(index.waiting, prefix), added)
                known = self._late.get(index)
                late = waiting(connection, index, prefix) if known is None else known + len(added)
                # What was just added waits for a transaction of its own, if it is more than a slice.
                if late >= index.together and (most is None or len(added) < index.together):
                    late = fill_index(connection, index, prefix, most)
                self._late[index] = late
                if late >= index.together or self.are_many_waiting:
                    self._count_waiting()
        except Exception as error:
            self._refuse(index, error)

    def _refuse(self, table: Table | TextIndex, error: Exception) -> None:
        if self.refused is None or not asked_wrong(error):
            raise error
        self.refused(table, error)

    @property
    def kept(self) -> int:
        """Return the number of rows that wait to be written."""
        return sum(map(len, self._put.values()))

    def discard(self) -> None:
        """Drop the buffer and all knowledge of the tables, which another writer may have changed."""
        self._clear()
        self._late, self.are_many_waiting = {}, False

    def _clear(self) -> None:
        self._put.clear()
        self._appended.clear()
        self._texts, self._groups, self._ahead = {}, {}, {}


def _null_first(key: Key) -> tuple[tuple[bool, object], ...]:
    return tuple((part is not None, part) for part in key)


def _write(connection: sqlite3.Connection, sql: str, rows: Sequence[Values]) -> None:
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
def _group_of(table: Table) -> Callable[[Key], Key]:
    """Return a function from a key to its group's columns."""
    places = [table.key.index(column) for column in table.grouped]
    return lambda key: tuple([key[place] for place in places])


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


# --- texts that wait for their index ---------------------------------------------------------------------------------


def any_waits(connection: sqlite3.Connection, indexes: Iterable[Index]) -> bool:
    """Return True if a text waits for one of these indexes, or if a suspended index cannot be read."""
    waits = " OR ".join(f"EXISTS (SELECT 1 FROM {index.waiting.name})" for index in indexes)
    try:
        return bool(connection.execute(f"SELECT {waits}").fetchone()[0])
    except sqlite3.DatabaseError:
        return True


def waiting(connection: sqlite3.Connection, index: Index, prefix: str = "") -> int:
    """Return the number of texts that are not in the index yet."""
    (count,) = connection.execute(f"SELECT count(*) FROM {prefix}{index.waiting.name}").fetchone()
    return int(count)


def _late(connection: sqlite3.Connection, index: Index, prefix: str, rows: Sequence[int]) -> set[Key]:
    """Return the keys of the rows, among these, that are not in the index yet."""
    sql = f"SELECT row FROM {prefix}{index.waiting.name} WHERE row IN"
    batches = (connection.execute(f"{sql} ({', '.join('?' * len(batch))})", batch) for batch in parted(rows))
    return {tuple(key) for keys in batches for key in keys}


def fill_index(connection: sqlite3.Connection, index: Index, prefix: str = "", most: int | None = None) -> int:
    """Move the waiting texts into the index, the oldest first, and return the number of texts that still wait.

    Texts are moved until they have ``most`` characters; None moves all.
    """
    table, due, chars = prefix + index.waiting.name, list[Values](), 0
    for row in connection.execute(f"SELECT * FROM {table} ORDER BY row"):
        due.append(row)
        chars += _chars(row)
        if most is not None and chars >= most:
            break
    _take(connection, index, prefix, due)
    if most is None or chars < most:
        connection.execute(f"DELETE FROM {table}")
        return 0
    connection.execute(f"DELETE FROM {table} WHERE row <= ?", due[-1][:1])
    return waiting(connection, index, prefix)


def _chars(row: Values) -> int:
    return sum(len(value) for value in row if isinstance(value, str))


def _take(connection: sqlite3.Connection, index: Index, prefix: str, rows: Sequence[Values]) -> None:
    if isinstance(index, Packed):
        packed.take(connection, index, prefix, rows)
    else:
        _write(connection, _index(index, prefix), [(row, *index.expand(tuple(kept))) for row, *kept in rows])


def _untake(connection: sqlite3.Connection, index: Index, prefix: str, rows: Sequence[Values]) -> None:
    if isinstance(index, Packed):
        packed.remove(connection, index, prefix, rows)
    else:
        gone = [("delete", row, *index.expand(tuple(kept))) for row, *kept in rows]
        _write(connection, _unindex(index, prefix), gone)


# --- SQLite's own check --------------------------------------------------------------------------------------------------


def integrity_problems(connection: sqlite3.Connection, limit: int, *, quick: bool = False) -> Iterator[str]:
    """Yield the problems that SQLite finds in the main database, at most about ``limit`` of them.

    From 3.45 to at least 3.54.1, SQLite's check of a text index uses the structure that this connection read last. If another
    connection merged the index meanwhile, the check calls the index malformed. So each index is read first, which makes FTS5 read
    its structure again.
    """
    try:
        sql = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE VIRTUAL TABLE%fts5%'"
        for (name,) in connection.execute(sql).fetchall():
            quoted = name.replace('"', '""')
            with suppress(sqlite3.DatabaseError):  # the check below names what is damaged
                connection.execute(f'SELECT rowid FROM main."{quoted}" LIMIT 1').fetchone()
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        pass
    for (problem,) in connection.execute(f"PRAGMA main.{'quick' if quick else 'integrity'}_check({limit})"):
        if problem != "ok":
            yield problem


# --- tables ---------------------------------------------------------------------------------------------------------


def create(
    connection: sqlite3.Connection,
    table: Table | TextIndex,
    prefix: str = "",
    *,
    indexes: bool = True,
    fresh: bool = False,
) -> None:
    """Create one empty table.

    The names of indexes have a number, so that the tables of a rebuild can stand next to the live ones. A ``fresh`` file has no
    indexes yet, so the names are not looked up in it.
    """
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
        create_indexes(connection, table, prefix, fresh=fresh)


def create_indexes(connection: sqlite3.Connection, table: Table, prefix: str = "", *, fresh: bool = False) -> None:
    schema, _, mark = prefix.rpartition(".")
    sql = f"SELECT name FROM {schema or 'main'}.sqlite_master WHERE type = 'index'"
    taken = {name for (name,) in connection.execute(sql)} if table.indexes and not fresh else ()
    for number, (columns, condition) in enumerate(table.indexes, 1):
        where = f" WHERE {condition}" if condition else ""
        name = next(name for name in _index_names(table, number) if name not in taken)
        place = f"{schema}.{name}" if schema else name
        connection.execute(f"CREATE INDEX {place} ON {mark}{table.name} ({columns}){where}")


def _index_names(table: Table, number: int) -> Iterator[str]:
    """Yield possible names of an index; the names of the live table's indexes are taken while a rebuild runs."""
    return (f"{table.name}_{number}_{turn}" for turn in count(1))


def exists(connection: sqlite3.Connection, name: str) -> bool:
    row = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone()
    return row is not None


def is_empty(connection: sqlite3.Connection, table: Table | TextIndex, name: str) -> bool:
    """Return True if a table has no rows, and False if it has rows or is too damaged to read."""
    rows = f"{name}_docsize" if isinstance(table, TextIndex) else name
    try:
        return connection.execute(f"SELECT 1 FROM {rows} LIMIT 1").fetchone() is None
    except sqlite3.DatabaseError:
        return False


def rename(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Rename a table, but not in the views and triggers that use it.

    These then use the next table that gets the old name.
    """
    connection.execute("PRAGMA legacy_alter_table = 1")
    try:
        connection.execute(f"ALTER TABLE {old} RENAME TO {new}")
    finally:
        connection.execute("PRAGMA legacy_alter_table = 0")


def drop(connection: sqlite3.Connection, name: str) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {name}")


def drop_indexes(connection: sqlite3.Connection, name: str) -> None:
    sql = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL"
    for (index,) in connection.execute(sql, (name,)).fetchall():
        connection.execute(f"DROP INDEX {index}")


def delete_some(connection: sqlite3.Connection, name: str, limit: int) -> int:
    """Delete up to ``limit`` rows of a table that will be dropped, so that no transaction grows with the table.

    The indexes of the table are dropped first, because SQLite would search each of them for every row.
    """
    drop_indexes(connection, name)
    keys = [column for _, column, _, _, _, place in connection.execute(f"PRAGMA table_info({name})") if place]
    (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    key = ", ".join(keys) if "WITHOUT ROWID" in sql else "rowid"
    last = connection.execute(f"SELECT {key} FROM {name} ORDER BY {key} LIMIT 1 OFFSET {limit - 1}").fetchone()
    if last is None:
        return connection.execute(f"DELETE FROM {name}").rowcount
    marks = ", ".join("?" * len(last))
    return connection.execute(f"DELETE FROM {name} WHERE ({key}) <= ({marks})", tuple(last)).rowcount
