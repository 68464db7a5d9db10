"""The wait for a position of the log, whoever writes it: another process, or another machine."""

from __future__ import annotations

from ledger.core.engine import Engine
from ledger.core.steps import LOOK_SECONDS, Stopping
from ledger.domain.errors import BusyError, ConflictError, RejectedError


def wait(engine: Engine, position: int, stopping: Stopping) -> None:
    """Return when the file of this ledger holds the log up to a position, whoever writes it."""
    if type(position) is not int:
        raise RejectedError(f"a position is a whole number, not {position!r:.40}")
    if engine.writer.batching:
        raise ConflictError("wait() cannot run inside a batch, which keeps other writers out; leave the batch first")
    if engine.sharing is not None:
        engine.sharing.wait(position, stopping)
        return
    while engine.store.head()[0] < position:
        if stopping.why:
            raise late(engine, position, stopping)
        stopping.wait(LOOK_SECONDS)


def late(engine: Engine, position: int, stopping: Stopping) -> BusyError:
    """Return the error of a wait that ended before the position was there."""
    why = "the time was over" if stopping.why == "timeout" else "the wait was cancelled"
    return BusyError(
        f"position {position:,} was waited for, and this file ended at {engine.store.head()[0]:,} when {why}: wait again"
    )
