"""The port that a database implements for the projections: tables, and rows put, appended, removed and indexed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from sqlite3 import Connection as Connection
from sqlite3 import DatabaseError as DatabaseError
from types import NoneType
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from ledger.domain.errors import DamagedError
from ledger.domain.events import AnyEvent

T = TypeVar("T")
TOGETHER = 256  # values that one question names
Key = tuple[Any, ...]
Values = tuple[Any, ...]


class AsOf(Struct, frozen=True):
    """How a table is read as it was at a position: its rows stand from the position in the column ``since`` on.

    Rows that were replaced or removed lie in the table ``closed``, with the ``to_position`` that ended them; where they
    stay in their own, ``ends`` is that column. ``undone`` is the column that says since when the event at ``since`` is out
    of force. A table of closed rows stands as each of them was closed: ``AsOf("to_position")``.
    """

    since: str
    closed: str = ""
    ends: str = ""
    undone: str = ""


CURRENT = AsOf("")  # keeps no past, so nothing may ask it what was known earlier


class Table(Struct, frozen=True, eq=False):
    """One table: ``columns`` in SQL, the names of the ``key`` columns (they come first), indexes as (columns, condition).

    An ``appended`` table has no unique key of its own: rows are only ever added, and ``key`` is the order to read them in.
    A ``derived`` one says nothing of its own, so digests leave it out. ``then`` is how it is read as of earlier: without
    that nothing can be read of it under ``at()``.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, str], ...] = ()
    rowid: bool = True
    appended: bool = False
    derived: bool = False
    grouped: tuple[str, ...] = ()  # by these columns of the key find() sees rows that are kept, before they are written
    ahead: bool = False  # they are one, the subject: of many that are folded again the rows are read at once
    late: bool = False  # no fold looks anything up by its indexes: a rebuild makes them when all rows are there
    then: AsOf | None = None

    among: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (column, all that it may hold)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.split()[0] for column in self.columns)

    def key_of(self, row: Values) -> object:
        """The key of a row; alone where it is one column."""
        return row[0] if len(self.key) == 1 else tuple(row[: len(self.key)])


class TextIndex(Struct, frozen=True, eq=False):
    """A full-text index over texts that lie elsewhere.

    A commit that writes one text into such an index costs as much as all the rest of it, so texts wait in a plain table,
    ``waiting``, until there are ``together`` of them or somebody searches. ``expand`` makes what the index takes, its
    ``columns``, of what waits.
    """

    name: str
    columns: tuple[str, ...]
    waiting: Table
    expand: Callable[[Values], Values]
    together: int = 64


class Packed(Table, frozen=True, eq=False, kw_only=True):
    """A table of blobs that says which subjects have a number (``projections.core.packed``).

    They wait in a plain table too, one row each, until there are ``together`` of them.
    """

    waiting: Table
    together: int = 1_024


def packed(name: str, together: int = 1_024) -> Packed:
    """An index of numbers, with the table in which its subjects wait."""
    own, waits = (
        ("number INTEGER PRIMARY KEY", "entries BLOB NOT NULL"),
        ("pool INTEGER NOT NULL", "numbers BLOB NOT NULL"),
    )
    waiting = Table(f"{name}_waiting", ("row INTEGER PRIMARY KEY", *waits), ("row",), derived=True, then=CURRENT)
    return Packed(name, own, ("number",), derived=True, then=CURRENT, waiting=waiting, together=together)


Index = TextIndex | Packed

# --- rows that cannot be ---------------------------------------------------------------------------------------------

_STORED: dict[str, type | tuple[type, ...]] = {"TEXT": str, "INTEGER": int, "BLOB": bytes, "REAL": (int, float)}


def check(table: Table, row: Sequence[object]) -> None:
    """``DamagedError`` for a row that no fold wrote; columns beyond those of the table are somebody else's."""
    if wrong := _ill_typed(table, tuple(map(type, row))):
        raise DamagedError(table.name, table.key_of(tuple(row)), f"its {wrong} is of another type")
    for place, values in _among(table):
        if row[place] not in values:
            raise DamagedError(table.name, table.key_of(tuple(row)), f"its {table.names[place]} is none of {values}")


def checked(table: Table, names: tuple[str, ...], rows: Iterable[Values]) -> Iterator[Values]:
    """What a query reads of these columns of a table, row by row; ``DamagedError`` where a value is none that they take."""
    part = _part(table, names)
    for row in rows:
        if wrong := _ill_typed(part, tuple(map(type, row))):
            raise DamagedError(table.name, row[0], f"its {wrong} is of another type")
        yield row


def by_status(table: Table, counted: Iterable[tuple[str, int]]) -> dict[str, int]:
    """How many rows of a table have each status; ``DamagedError`` for a status that is none."""
    found, among = dict(counted), dict(table.among)["status"]
    if not found.keys() <= set(among):
        raise DamagedError(table.name, None, f"its status is none of {among}")
    return found


@cache
def _part(table: Table, names: tuple[str, ...]) -> Table:
    columns = dict(zip(table.names, table.columns, strict=True))
    return Table(table.name, tuple(columns[name] for name in names), names[:1])


@lru_cache(1024)
def _ill_typed(table: Table, types: tuple[type, ...]) -> str:
    """The first column whose type is not what the table declares; "" where all fit. As few shapes come as there are."""
    for column, given in zip(table.columns, types, strict=False):
        name, stored, *more = column.split()
        if not issubclass(given, _STORED[stored]) and (more or given is not NoneType):
            return name
    return ""


@cache
def _among(table: Table) -> tuple[tuple[int, tuple[str, ...]], ...]:
    return tuple((table.names.index(column), values) for column, values in table.among)


def parted(items: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """As many at a time as one question names: each further number of them is a statement to prepare."""
    return (tuple(items[start : start + TOGETHER]) for start in range(0, len(items), TOGETHER))


def rows_among(connection: Connection, sql: str, wanted: Sequence[object], *more: object) -> Iterator[Values]:
    """What a question gives in which ``{}`` stands for the list of what is wanted, before all ``more`` that it binds."""
    for some in parted(wanted):
        yield from connection.execute(sql.format(f"({', '.join('?' * len(some))})"), (*some, *more))


class Rows(Protocol):
    """What a fold may do. Everything is kept until ``flush``, which the owner of the transaction calls."""

    def get(self, table: Table, key: Key) -> Values | None: ...

    def put(self, table: Table, key: Key, values: Values) -> None: ...

    def remove(self, table: Table, key: Key) -> None: ...

    def append(self, table: Table, values: Values) -> None: ...

    def index(self, index: Index, row: int, old: Values | None, new: Values | None) -> None: ...

    def find(self, table: Table, columns: tuple[str, ...], key: Key) -> list[Values]:
        """All rows whose leading key columns equal ``key``, what was put before included."""
        ...

    def within(self, table: Table, column: str, ranges: Sequence[tuple[int, int]]) -> list[Values]:
        """All rows whose ``column`` lies in one of the inclusive ranges, what was put before included."""
        ...

    def read_ahead(self, table: Table, subjects: Sequence[int]) -> None:
        """Reads what ``find`` and ``get`` are about to be asked of a table that is read ahead."""
        ...

    def flush(self) -> None: ...


class Log(Protocol):
    """What a fold reads of the log, when it has to fold a subject again."""

    def streams(self, streams: Sequence[str], up_to: int) -> dict[str, list[AnyEvent]]:
        """The events of some subjects up to a position, each in order."""
        ...

    def streams_within(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[str, int]]:
        """(stream, first position) of every stream with an event in these ranges, by first position."""
        ...

    def blob(self, blob: str) -> str | None:
        """A text that lies in the blobs table; None where it was erased."""
        ...
