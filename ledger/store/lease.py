"""A lease on a piece of work that goes on outside of the writer's lock: one holder at a time, over all processes.

Leases only save double work: what is right is decided under the writer's lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from sqlite3 import Connection

from ledger.domain.errors import LedgerError
from ledger.store.event_store import EventStore

_own: set[str] = set()  # the holders of this process that are still at work


# --- in a transaction of the caller's ------------------------------------------------------------------------------------


def new_holder() -> str:
    """A name for whoever takes a lease; it begins with the number of the process."""
    return f"{os.getpid()}-{os.urandom(8).hex()}"


def holder_of(connection: Connection, work: str) -> str | None:
    """Who has the lease; a holder whose time is over, or whose process is gone, has nothing."""
    row = connection.execute("SELECT holder, until FROM leases WHERE work = ?", (work,)).fetchone()
    return row[0] if row is not None and row[1] > time.time() and is_alive(row[0]) else None


def hold(connection: Connection, work: str, holder: str, seconds: float) -> None:
    """Takes the lease, or renews it, whoever had it."""
    _own.add(holder)
    connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (work, holder, time.time() + seconds))


def renew(connection: Connection, work: str, holder: str, seconds: float) -> bool:
    """False where somebody else has taken the lease meanwhile; one that only ran out is held again."""
    sql = "UPDATE leases SET until = ? WHERE work = ? AND holder = ?"
    return bool(connection.execute(sql, (time.time() + seconds, work, holder)).rowcount)


def end(holder: str) -> None:
    """Nobody of this process waits for this holder any more, though what it holds may still be in the file."""
    _own.discard(holder)


def give_back(connection: Connection, work: str, holder: str) -> None:
    connection.execute("DELETE FROM leases WHERE work = ? AND holder = ?", (work, holder))


def is_alive(holder: str) -> bool:
    """Whether the process that holds a lease still runs on this machine; of this one, whether the holder is still at work."""
    try:
        if (process := int(holder.split("-")[0])) == os.getpid():
            return holder in _own
        os.kill(process, 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


# --- in transactions of their own ----------------------------------------------------------------------------------------


class Lease:
    """The right to a piece of work, for so many seconds from each renewal on."""

    def __init__(self, store: EventStore, work: str, seconds: float) -> None:
        self._store, self._work, self._seconds = store, work, seconds
        self._holder = new_holder()
        self._until = 0.0

    def take(self) -> bool:
        """Whether it is ours now."""
        with self._store.transact() as transaction:
            if holder_of(transaction.connection, self._work) is not None:
                return False
            self._until = time.time() + self._seconds
            hold(transaction.connection, self._work, self._holder, self._seconds)
            return True

    def renew(self) -> bool:
        """Holds on to it for all of the time again; False where somebody else has taken it meanwhile."""
        if time.time() < self._until - self._seconds + 1:
            return True
        self._until = time.time() + self._seconds
        with self._store.transact() as transaction:
            return renew(transaction.connection, self._work, self._holder, self._seconds)

    def give_back(self) -> None:
        """Also where the disk fails: what is left in the file holds nobody of this process up, and others until it ends."""
        end(self._holder)
        with suppress(LedgerError), self._store.transact() as transaction:
            give_back(transaction.connection, self._work, self._holder)


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
