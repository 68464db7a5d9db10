"""Helpers of the tests of a shared log: the machines of a test, and commands that wait for the writer thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import probe
import pytest

from ledger import Ledger

if TYPE_CHECKING:
    from tools.shared.double import Machines


def real_machines(folder: Path, request: pytest.FixtureRequest) -> Machines:
    server = request.getfixturevalue("server")
    from tools.shared.real import RealMachines

    return RealMachines(folder, server)


@contextmanager
def queued(ledger: Ledger, threads: Any, *works: Callable[[], object]) -> Iterator[list[Any]]:
    """Let each work queue its command before the writer thread decides one; give the futures of the works."""
    with probe.writer_held(ledger) as wait_for:
        futures = []
        for number, work in enumerate(works, 1):
            futures.append(threads.submit(work))
            wait_for(number)
    yield futures


@pytest.fixture(params=["memory", "postgres"])
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Machines]:
    """Make machines that share a log in memory or in PostgreSQL, and close them all at the end."""
    from ledger.shared import sharing
    from tools.shared.double import Machines

    monkeypatch.setattr(sharing, "REPORT_SECONDS", 0.0)
    if request.param != "memory":
        monkeypatch.setattr("ledger.log.shared.vacuum.AGAIN_SECONDS", 0.0)
    made = Machines(tmp_path) if request.param == "memory" else real_machines(tmp_path, request)
    yield made
    made.close()
