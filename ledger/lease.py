"""A lease on a piece of work that goes on outside of the writer's lock: one holder at a time, over all processes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ledger.event_store import EventStore
from projections.rebuild import is_alive


class Lease:
    """The right to a piece of work, for so many seconds from each renewal on."""

    def __init__(self, store: EventStore, work: str, seconds: float) -> None:
        self._store, self._work, self._seconds = store, work, seconds
        self._holder = f"{os.getpid()}-{os.urandom(8).hex()}"
        self._until = 0.0

    def take(self) -> bool:
        """Whether it is ours now; a holder that is gone holds nothing."""
        with self._store.transact() as transaction:
            sql = "SELECT holder, until FROM leases WHERE work = ?"
            row = transaction.connection.execute(sql, (self._work,)).fetchone()
            if row is not None and row[1] > time.time() and is_alive(row[0]):
                return False
            self._until = time.time() + self._seconds
            held = (self._work, self._holder, self._until)
            transaction.connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", held)
            return True

    def renew(self) -> bool:
        """Holds on to it for all of the time again; False where somebody else has taken it meanwhile."""
        if time.time() < self._until - self._seconds + 1:
            return True
        self._until = time.time() + self._seconds
        with self._store.transact() as transaction:
            sql = "UPDATE leases SET until = ? WHERE work = ? AND holder = ?"
            held = (self._until, self._work, self._holder)
            return bool(transaction.connection.execute(sql, held).rowcount)

    def give_back(self) -> None:
        with self._store.transact() as transaction:
            sql = "DELETE FROM leases WHERE work = ? AND holder = ?"
            transaction.connection.execute(sql, (self._work, self._holder))


@contextmanager
def leased(store: EventStore, work: str, seconds: float) -> Iterator[Lease | None]:
    """The lease until the block ends; None where somebody else has it."""
    lease = Lease(store, work, seconds)
    if not lease.take():
        yield None
        return
    try:
        yield lease
    finally:
        lease.give_back()
