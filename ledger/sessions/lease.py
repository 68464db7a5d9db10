"""A lease on a piece of work that goes on outside of the writer's lock: one holder at a time, over all processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ledger.event_store import EventStore
from projections.rebuild import is_alive


@contextmanager
def lease(store: EventStore, work: str, seconds: float) -> Iterator[bool]:
    """Whether the work is ours until the block ends, or for so many seconds; a holder that is gone holds nothing."""
    holder = f"{os.getpid()}-{os.urandom(8).hex()}"
    held = _take(store, work, holder, seconds)
    try:
        yield held
    finally:
        if held:
            with store.transact() as transaction:
                sql = "DELETE FROM leases WHERE work = ? AND holder = ?"
                transaction.connection.execute(sql, (work, holder))


def holds(connection: Any, work: str) -> bool:
    """Whether somebody has the lease."""
    row = connection.execute("SELECT holder, until FROM leases WHERE work = ?", (work,)).fetchone()
    return row is not None and row[1] > time.time() and is_alive(row[0])


def _take(store: EventStore, work: str, holder: str, seconds: float) -> bool:
    with store.transact() as transaction:
        if holds(transaction.connection, work):
            return False
        row = (work, holder, time.time() + seconds)
        transaction.connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", row)
        return True
