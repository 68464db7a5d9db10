"""The wait for a position of the log, whoever writes it: another process, or another machine."""

from __future__ import annotations

import time

from ledger.core.engine import Engine
from ledger.core.stopping import check_seconds
from ledger.domain.errors import BusyError, ConflictError, RejectedError

LOOK_SECONDS = 0.1  # between two looks at the end of the log


def wait(engine: Engine, position: int, timeout: float) -> None:
    """Return when the file of this ledger holds the log up to a position, whoever writes it."""
    if type(position) is not int:
        raise RejectedError(f"a position is a whole number, not {position!r:.40}")
    check_seconds(timeout)
    if engine.writer.batching:
        raise ConflictError("wait() cannot run inside a batch, which keeps other writers out; leave the batch first")
    deadline = time.monotonic() + timeout
    if engine.sharing is not None:
        engine.sharing.wait(position, deadline)
        return
    while engine.store.head()[0] < position:
        if time.monotonic() >= deadline:
            raise late(engine, position)
        time.sleep(min(LOOK_SECONDS, max(0.0, deadline - time.monotonic())))


def late(engine: Engine, position: int) -> BusyError:
    return BusyError(
        f"position {position:,} was waited for, and this file ends at {engine.store.head()[0]:,} when the time is over;"
        " wait again, or ask the machine that wrote it"
    )
