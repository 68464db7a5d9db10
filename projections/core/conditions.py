"""The conditions of an SQL query, together with the values that they bind."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.domain.metadata import Pairs, pattern


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

    def among(self, column: str, values: Sequence[object]) -> None:
        if values:
            self.add(f"{column} IN ({', '.join('?' * len(values))})", *values)

    def of_projects(self, projects: Sequence[str | None] | None, column: str = "project") -> None:
        """Require that the project is among these, in which None means no project."""
        if projects is not None:
            self.add(f"({' OR '.join([f'{column} IS ?'] * len(projects))})", *projects)

    def has_tags(self, tags: Sequence[str]) -> None:
        for tag in tags:
            self.add("EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?)", tag)

    def has_pairs(self, pairs: Pairs, column: str = "metadata") -> None:
        """Require each of these pairs of metadata."""
        for key, value in pairs.items():
            self.add(f"instr({column}, ?) > 0", pattern(key, value))
