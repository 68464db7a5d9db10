"""The result of a test of the crash harness."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a test; ``skipped`` is the reason why a test was skipped, which is not a failure."""

    name: str
    cases: int
    failures: tuple[str, ...]
    seconds: float
    skipped: str = ""
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.failures
