"""What the tests share: a clock that goes where it is told, and a ledger in a directory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ledger import Ledger


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, **by: float) -> None:
        self.time += timedelta(**by)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Iterator[Ledger]:
    """A fresh ledger. Whatever a test did with it, the log must tell the same again: it is rebuilt at the end."""
    with Ledger.open(tmp_path / "memory.db", clock=clock) as opened:
        yield opened
        before = opened.digest()
        assert opened.rebuild().digest == before, "the projections are not what the log says"
