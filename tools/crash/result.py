"""What one test of the crash harness found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one test; a test that was skipped says why, and is no failure."""

    name: str
    cases: int
    failures: tuple[str, ...]
    seconds: float
    skipped: str = ""
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.failures
