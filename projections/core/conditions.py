"""The conditions of an SQL query, together with the values that they bind."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ledger.domain.metadata import Pairs, pattern


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
