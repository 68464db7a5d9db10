"""The interface between the folds and the database: the declarations of tables, and the operations on rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from sqlite3 import Connection as Connection
from sqlite3 import DatabaseError as DatabaseError
from types import NoneType
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from ledger.domain.errors import DamagedError
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
