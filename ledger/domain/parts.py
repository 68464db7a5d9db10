"""The parts that features bring to an open ledger, such as a language model or the search by vectors."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

T = TypeVar("T")


class LedgerPart(Generic[T]):
    """The name of a part; the feature that brings the part defines it. Reads of a past moment have the parts ``for_reads``."""

    def __init__(self, name: str, *, for_reads: bool = False) -> None:
        self.name = name
        self.for_reads = for_reads


class Parts:
    """The parts of one open ledger."""

    def __init__(self) -> None:
        self._parts: dict[LedgerPart[Any], object] = {}

    def get(self, part: LedgerPart[T]) -> T | None:
        """Return a part; None if the ledger was opened without it."""
        found: Any = self._parts.get(part)
        kept: T | None = found
        return kept

    def of_reads(self) -> Parts:
        """Return the parts that a read needs, without those that only commands use."""
        chosen = Parts()
        for part, value in self._parts.items():
            if part.for_reads:
                chosen.bring(part, value)
        return chosen

    def bring(self, part: LedgerPart[T], value: T | None) -> None:
        self._parts[part] = value
