"""The parts that features bring to an open ledger, such as a language model or the search by vectors."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

T = TypeVar("T")


class LedgerPart(Generic[T]):
    """The name of a part; the feature that brings the part defines it."""

    def __init__(self, name: str) -> None:
        self.name = name


class Parts:
    """The parts of one open ledger."""

    def __init__(self) -> None:
        self._parts: dict[LedgerPart[Any], object] = {}

    def get(self, part: LedgerPart[T]) -> T | None:
        """Return a part; None if the ledger was opened without it."""
        found: Any = self._parts.get(part)
        kept: T | None = found
        return kept

    def bring(self, part: LedgerPart[T], value: T | None) -> None:
        self._parts[part] = value
