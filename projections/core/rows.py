"""The interface between the folds and the database: tables as data, their rows, and the operations on rows.

``columns`` and ``codec`` derive the columns of a table, and the functions between its rows and a struct, from the struct. Each
field is a column, in the order of the fields. The first column is the key; it alone is the primary key if the table has a
``rowid``. Texts, numbers and booleans are stored as they are; all other types are stored as JSON. A field that may be None is a
column that may be NULL. An empty tuple is stored as NULL, except in the columns that are listed in ``always``.

``Conditions`` are the conditions of a query, together with the values that they bind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from sqlite3 import Connection as Connection
from sqlite3 import DatabaseError as DatabaseError
from types import NoneType, UnionType
from typing import Any, Protocol, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from ledger.domain.errors import DamagedError
from ledger.domain.metadata import Pairs, pattern
from ledger.events import AnyEvent

T = TypeVar("T")
TOGETHER = 256  # the most values that one query binds in a list
Key = tuple[Any, ...]
Values = tuple[Any, ...]


class AsOf(Struct, frozen=True):
    """The way in which a table is read as of an earlier position.

    A row is valid from the position in the column ``since``. Rows that were replaced or removed lie in the table ``closed``, with
    the ``to_position`` that ended them. If ended rows stay in the table itself, ``ends`` is the column with that position.
    ``undone`` is the column with the position since which the event at ``since`` is void. A table of closed rows is read by the
    position that closed each row: ``AsOf("to_position")``.
    """

    since: str
    closed: str = ""
    ends: str = ""
    undone: str = ""


CURRENT = AsOf("")  # for a table without a past, which cannot be read as of an earlier position


class Table(Struct, frozen=True, eq=False):
    """A table: columns in SQL, the names of the key columns, which come first, and indexes as (columns, condition).

    An ``appended`` table has no unique key: rows are only ever added, and ``key`` is the order in which they are read. The rows
    of a ``derived`` table follow from other rows, so digests leave them out. ``then`` says how the table is read as of an earlier
    position; without it, nothing of the table can be read under ``at()``.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, str], ...] = ()
    rowid: bool = True
    appended: bool = False
    derived: bool = False
    grouped: tuple[str, ...] = ()  # the key columns by which folds look rows up with find()
    ahead: bool = (
        False  # ``grouped`` is the column of the subject, so a refold can read the rows of many subjects at once
    )
    late: bool = False  # no fold uses the indexes, so a rebuild creates them after all rows
    then: AsOf | None = None
    among: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (column, all values that it may hold)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.split()[0] for column in self.columns)

    def key_of(self, row: Values) -> object:
        """Return the key of a row: the value itself if the key is one column, or else a tuple."""
        return row[0] if len(self.key) == 1 else tuple(row[: len(self.key)])


class TextIndex(Struct, frozen=True, eq=False):
    """A full-text index over texts that are stored elsewhere.

    Writing one text into a full-text index takes as long as the rest of a commit. So texts wait in a plain table, ``waiting``,
    until there are ``together`` of them or somebody searches. ``expand`` returns the indexed ``columns`` of a waiting row.
    """

    name: str
    columns: tuple[str, ...]
    waiting: Table
    expand: Callable[[Values], Values]
    together: int = 64


class Packed(Table, frozen=True, eq=False, kw_only=True):
    """A table of blobs that records which subjects have a number (``projections.core.packed``).

    Subjects wait in a plain table, one row each, until there are ``together`` of them.
    """

    waiting: Table
    together: int = 1_024


def packed(name: str, together: int = 1_024) -> Packed:
    """Return an index of numbers, with the table in which subjects wait to be indexed."""
    own, waits = (
        ("number INTEGER PRIMARY KEY", "entries BLOB NOT NULL"),
        ("pool INTEGER NOT NULL", "numbers BLOB NOT NULL"),
    )
    waiting = Table(f"{name}_waiting", ("row INTEGER PRIMARY KEY", *waits), ("row",), derived=True, then=CURRENT)
    return Packed(name, own, ("number",), derived=True, then=CURRENT, waiting=waiting, together=together)


Index = TextIndex | Packed

# --- damaged rows ----------------------------------------------------------------------------------------------------

_STORED: dict[str, type | tuple[type, ...]] = {"TEXT": str, "INTEGER": int, "BLOB": bytes, "REAL": (int, float)}


def check(table: Table, row: Sequence[object]) -> None:
    """Raise ``DamagedError`` for a row that no fold can have written.

    Further columns, which the table does not declare, are not checked.
    """
    if wrong := _ill_typed(table, tuple(map(type, row))):
        raise DamagedError(table.name, table.key_of(tuple(row)), f"its {wrong} is of another type")
    for place, values in _among(table):
        if row[place] not in values:
            raise DamagedError(table.name, table.key_of(tuple(row)), f"its {table.names[place]} is none of {values}")


def checked(table: Table, names: tuple[str, ...], rows: Iterable[Values]) -> Iterator[Values]:
    """Yield the rows that a query reads of these columns of a table.

    Raises:
        DamagedError: A value does not fit its column.
    """
    part = _part(table, names)
    for row in rows:
        if wrong := _ill_typed(part, tuple(map(type, row))):
            raise DamagedError(table.name, row[0], f"its {wrong} is of another type")
        yield row


def by_status(table: Table, counted: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the number of rows by status, or raise ``DamagedError`` for an unknown status."""
    counts, among = dict(counted), dict(table.among)["status"]
    if not counts.keys() <= set(among):
        raise DamagedError(table.name, None, f"its status is none of {among}")
    return counts


@cache
def _part(table: Table, names: tuple[str, ...]) -> Table:
    columns = dict(zip(table.names, table.columns, strict=True))
    return Table(table.name, tuple(columns[name] for name in names), names[:1])


@lru_cache(1024)
def _ill_typed(table: Table, types: tuple[type, ...]) -> str:
    """Return the first column whose value is not of the declared type, or "" if all values fit.

    The cache is small because rows have few combinations of types.
    """
    for column, value_type in zip(table.columns, types, strict=False):
        name, stored, *more = column.split()
        if not issubclass(value_type, _STORED[stored]) and (more or value_type is not NoneType):
            return name
    return ""


@cache
def _among(table: Table) -> tuple[tuple[int, tuple[str, ...]], ...]:
    return tuple((table.names.index(column), values) for column, values in table.among)


def parted(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """Yield the items in parts of at most 256, the most values that one query binds."""
    return (tuple(items[start : start + TOGETHER]) for start in range(0, len(items), TOGETHER))


def rows_among(connection: Connection, sql: str, values: Sequence[object], *more: object) -> Iterator[Values]:
    """Yield the rows of a query in which ``{}`` stands for a list of values.

    Args:
        connection: The connection.
        sql: The query.
        values: The values of the list.
        more: The values that are bound after the list.
    """
    for part in parted(values):
        yield from connection.execute(sql.format(f"({', '.join('?' * len(part))})"), (*part, *more))


class ProjectionRows(Protocol):
    """The operations of a fold on rows; writes are kept until the owner of the transaction calls ``flush``."""

    def get(self, table: Table, key: Key) -> Values | None: ...

    def put(self, table: Table, key: Key, values: Values) -> None: ...

    def remove(self, table: Table, key: Key) -> None: ...

    def append(self, table: Table, values: Values) -> None: ...

    def index(self, index: Index, row: int, old: Values | None, new: Values | None) -> None: ...

    def find(self, table: Table, columns: tuple[str, ...], key: Key) -> list[Values]:
        """Return all rows whose leading key columns equal ``key``, including rows put before."""
        ...

    def within(self, table: Table, column: str, ranges: Sequence[tuple[int, int]]) -> list[Values]:
        """Return all rows whose ``column`` lies in one of the inclusive ranges, including rows put before."""
        ...

    def read_ahead(self, table: Table, subjects: Sequence[int]) -> None:
        """Read the rows of these subjects at once, before ``find`` and ``get`` ask for them."""
        ...

    def flush(self, *, together: bool = True) -> None: ...


class FoldLog(Protocol):
    """The part of the log that a fold reads when it folds a subject again."""

    def streams(self, streams: Sequence[str], up_to: int) -> dict[str, list[AnyEvent]]:
        """Return the events of each stream up to a position, in order."""
        ...

    def streams_within(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[str, int]]:
        """Return (stream, first position) of every stream with an event in these ranges, by first position."""
        ...

    def blob(self, blob: str) -> str | None:
        """Return a text that is stored in the blobs table, or None if it was erased."""
        ...


# --- the rows of a struct --------------------------------------------------------------------------------------------


S = TypeVar("S", bound=Struct)

_json = msgspec.json.encode
_STORED_TYPES: dict[object, Any] = {
    str: str,
    int: int,
    bool: int,
    bytes: bytes,
    float: (float, int),
}  # all other types are stored as JSON
_PLAIN = {str: "TEXT", int: "INTEGER", bool: "INTEGER"}
_NAMES = {"values": "values_", "index": "chunk_index", "limit": "limit_"}  # reserved words of SQL


def columns(kind: type[Struct], always: Sequence[str] = (), *, rowid: bool = True) -> tuple[str, ...]:
    """Return the column definitions, in SQL, of the rows of a struct.

    Args:
        kind: The struct.
        always: Names of fields whose empty tuple is stored as JSON, not as NULL.
        rowid: False if the table has no ``rowid``; its primary key is then declared elsewhere.
    """
    key, *rest = (_column(name, type, optional, always=name in always) for name, type, optional in _types(kind))
    return (key.replace("NOT NULL", "PRIMARY KEY") if rowid else key, *rest)


def codec(kind: type[S], table: Table) -> tuple[Callable[[S], Values], Callable[[Sequence[object]], S]]:
    """Return the functions (encode, decode) between a struct and the rows of a table.

    The table may have more columns after those of the struct. The struct may have fields for these columns if the fields have
    defaults.
    """
    width, coded, flags = len(kind.__struct_fields__), [], []
    for place, ((_, type, optional), column) in enumerate(zip(_types(kind), table.columns, strict=False)):
        if type is bool:
            flags.append(place)
        elif type not in _PLAIN:
            null = None if optional or column.endswith("NOT NULL") else ()
            coded.append((place, null, msgspec.json.Decoder(type).decode))

    def encode(state: S) -> Values:
        row = list(astuple(state))
        for place, null, _ in coded:
            row[place] = _json(row[place]).decode() if row[place] != null else None
        for place in flags:
            row[place] = int(row[place])  # sqlite3 would convert a boolean more slowly
        return tuple(row)

    def decode(values: Sequence[Any]) -> S:
        check(table, values)
        row = list(values[:width])
        for place, null, read in coded:
            row[place] = read(row[place]) if row[place] is not None else null
        for place in flags:
            row[place] = bool(row[place])
        return kind(*row)

    return encode, decode


def reader(kind: type[S], table: str) -> Callable[[Sequence[Any]], S]:
    """Return a function from the values that a query reads, a column for each field, to the struct.

    The returned function raises ``DamagedError`` if a value is not of the type of its field. So a row that no fold wrote is
    reported by every query that shows it.
    """

    def read(values: Sequence[Any]) -> S:
        if wrong := _misfit(kind, tuple(map(type, values))):
            raise DamagedError(table, values[0], f"its {wrong} is of another type")
        return kind(*values)

    return read


@lru_cache(1024)
def _misfit(kind: type[Struct], types: tuple[type, ...]) -> str:
    """Return the first field whose stored type does not fit the type of the value, or "" if all fields fit."""
    for (name, declared, optional), stored in zip(_types(kind), types, strict=False):
        if stored is NoneType:
            if not optional:
                return name
        elif not issubclass(stored, _STORED_TYPES.get(declared, str)):
            return name
    return ""


def _column(name: str, type: Any, optional: bool, *, always: bool) -> str:
    null = optional or (get_origin(type) is tuple and not always)
    return f"{_NAMES.get(name, name)} {_PLAIN.get(type, 'TEXT')}{'' if null else ' NOT NULL'}"


@cache
def _types(kind: type[Struct]) -> list[tuple[str, Any, bool]]:
    """Return (name, type without None, True if the field may be None) of each field."""
    return [(name, *_type(kind.__annotations__[name], kind.__module__)) for name in kind.__struct_fields__]


@cache
def _type(annotation: str, module: str) -> tuple[Any, bool]:
    """Return the type that an annotation names, without None, and True if the annotation allows None.

    Annotations are evaluated here because ``msgspec.structs.fields`` takes most of a millisecond for a struct, at every start.
    """
    annotated = eval(annotation, vars(sys.modules[module]))
    types = get_args(annotated) if isinstance(annotated, UnionType) else (annotated,)
    (type,) = (alternative for alternative in types if alternative is not NoneType)
    return type, NoneType in types


# --- the conditions of a query ---------------------------------------------------------------------------------------


class Start(Struct, frozen=True):
    """The place at which a page of a listing begins: behind a row, or at the listing's first end without a row.

    In a listing by time the place is behind the row and its ``time``.
    """

    row: int | None = None
    oldest_first: bool = False
    time: str | None = None

    @property
    def behind(self) -> str:
        """Return the SQL operator between a row of the page and ``bound``."""
        return ">" if self.oldest_first else "<"

    @property
    def bound(self) -> int:
        if self.row is not None:
            return self.row
        return -(2**62) if self.oldest_first else 2**62

    @property
    def order(self) -> str:
        return "ASC" if self.oldest_first else "DESC"

    def includes(self, row: int) -> bool:
        """Return True if a row lies behind the start."""
        return row > self.bound if self.oldest_first else row < self.bound

    def after(self, row: int) -> Start:
        """Return the place behind a row in the same order."""
        return Start(row, self.oldest_first)


NEWEST = Start()


class AllBut(Struct, frozen=True):
    """The scope of all projects except some, and of what belongs to no project."""

    projects: tuple[str, ...]


Scope = Sequence[str | None] | AllBut | None
"""Projects by their ids, in which None means no project; None for all."""


class Conditions:
    """A list of conditions that must all hold; a filter that is None or empty adds no condition."""

    def __init__(self, condition: str, *values: object) -> None:
        self._parts, self.values = [condition], list(values)

    def __str__(self) -> str:
        return " AND ".join(self._parts)

    def add(self, condition: str, *values: object) -> None:
        self._parts.append(condition)
        self.values.extend(values)

    def given(self, condition: str, value: object | None) -> None:
        if value is not None:
            self.add(condition, value)

    def begin(self, column: str, start: Start) -> None:
        """Require that the row of a column lies on the page."""
        if start.row is not None:
            self.add(f"{column} {start.behind} ?", start.row)

    def begin_in_time(self, column: str, start: Start) -> None:
        """Require that the time of a column, and of equal times the row, lies on the page."""
        if start.row is not None:
            self.add(f"({column}, row) {start.behind} (?, ?)", start.time, start.row)

    def among(self, column: str, values: Sequence[object]) -> None:
        if values:
            self.add(f"{column} IN ({', '.join('?' * len(values))})", *values)

    def of_projects(self, projects: Scope, column: str = "project") -> None:
        """Require that the project is in this scope."""
        if isinstance(projects, AllBut):
            left_out = ", ".join("?" * len(projects.projects))
            self.add(f"({column} IS NULL OR {column} NOT IN ({left_out}))", *projects.projects)
        elif projects is not None:
            self.add(f"({' OR '.join([f'{column} IS ?'] * len(projects))})", *projects)

    def has_tags(self, tags: Sequence[str]) -> None:
        for tag in tags:
            self.add("EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?)", tag)

    def has_pairs(self, pairs: Pairs, column: str = "metadata") -> None:
        """Require each of these pairs of metadata."""
        for key, value in pairs.items():
            self.add(f"instr({column}, ?) > 0", pattern(key, value))
