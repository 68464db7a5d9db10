"""The port that a database implements for the projections: tables, and rows put, appended, removed and indexed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from msgspec import Struct

Key = tuple[Any, ...]
Values = tuple[Any, ...]


class Table(Struct, frozen=True, eq=False):
    """One table: ``columns`` in SQL, the names of the ``key`` columns (they come first), indexes as (columns, condition).

    An ``appended`` table has no unique key of its own: rows are only ever added, and ``key`` is the order to read them in.
    A ``derived`` one says nothing of its own, so digests leave it out.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, str], ...] = ()
    rowid: bool = True
    appended: bool = False
    derived: bool = False
    grouped: int = 0  # find() by so many leading key columns sees rows that are kept, without writing them first

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.split()[0] for column in self.columns)


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


class Rows(Protocol):
    """What a fold may do. Everything is kept until ``flush``, which the owner of the transaction calls."""

    def get(self, table: Table, key: Key) -> Values | None: ...

    def put(self, table: Table, key: Key, values: Values) -> None: ...

    def remove(self, table: Table, key: Key) -> None: ...

    def append(self, table: Table, values: Values) -> None: ...

    def index(self, index: TextIndex, row: int, old: Values | None, new: Values | None) -> None: ...

    def find(self, table: Table, columns: tuple[str, ...], key: Key) -> list[Values]:
        """All rows whose leading key columns equal ``key``, what was put before included."""
        ...

    def within(self, table: Table, column: str, ranges: Sequence[tuple[int, int]]) -> list[Values]:
        """All rows whose ``column`` lies in one of the inclusive ranges, what was put before included."""
        ...

    def flush(self) -> None: ...
