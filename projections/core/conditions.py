"""Conditions of a question in SQL, put together with the values that they bind."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.domain.metadata import Pairs, pattern


class Conditions:
    """All of them have to hold. What was not asked for (None, or nothing to be among) is no condition."""

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

    def among(self, column: str, wanted: Sequence[object]) -> None:
        if wanted:
            self.add(f"{column} IN ({', '.join('?' * len(wanted))})", *wanted)

    def of_projects(self, projects: Sequence[str | None] | None, column: str = "project") -> None:
        """Of one of these projects, in which None stands for what is of no project."""
        if projects is not None:
            self.add(f"({' OR '.join([f'{column} IS ?'] * len(projects))})", *projects)

    def has_tags(self, wanted: Sequence[str]) -> None:
        for tag in wanted:
            self.add("EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?)", tag)

    def has_pairs(self, wanted: Pairs, column: str = "metadata") -> None:
        """With each of these pairs of metadata."""
        for key, value in wanted.items():
            self.add(f"instr({column}, ?) > 0", pattern(key, value))
