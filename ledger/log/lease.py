"""A lease on work that is done outside of the writer's lock, with one holder at a time over all processes.

Leases only save double work. The writer's lock decides about correctness.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from sqlite3 import Connection
from typing import TYPE_CHECKING

from ledger.domain.errors import LedgerError
from ledger.domain.times import fixed
from ledger.log import platform
from ledger.log.event_store import EventStore

if TYPE_CHECKING:
    from ledger.log.shared.port import SharedLog

_own: set[str] = set()  # the holders of this process that are at work


# --- in the caller's transaction -----------------------------------------------------------------------------------------


def new_holder() -> str:
    """Return a new name for a holder of a lease; the name begins with the number of the process."""
    return f"{os.getpid()}-{os.urandom(8).hex()}"


def holder_of(connection: Connection, work: str) -> str | None:
    """Return the holder of a lease; None if the lease has run out or the holder's process is gone."""
    row = connection.execute("SELECT holder, until FROM leases WHERE work = ?", (work,)).fetchone()
    return row[0] if row is not None and row[1] > time.time() and is_alive(row[0]) else None


def hold(connection: Connection, work: str, holder: str, seconds: float) -> None:
    """Take or renew the lease, whoever has it."""
    _own.add(holder)
    connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?)", (work, holder, time.time() + seconds))


def renew(connection: Connection, work: str, holder: str, seconds: float) -> bool:
    """Renew a lease, even a lease that ran out; return False if another holder has taken it."""
    sql = "UPDATE leases SET until = ? WHERE work = ? AND holder = ?"
    return bool(connection.execute(sql, (time.time() + seconds, work, holder)).rowcount)


def end(holder: str) -> None:
    """Forget a holder of this process, which then counts as gone although its lease may still be in the file."""
    _own.discard(holder)


def give_back(connection: Connection, work: str, holder: str) -> None:
    connection.execute("DELETE FROM leases WHERE work = ? AND holder = ?", (work, holder))


def is_alive(holder: str) -> bool:
    """Return True if a holder is at work in this process, or its process still runs on this machine."""
    try:
        if (process := int(holder.split("-")[0])) == os.getpid():
            return holder in _own
        return platform.is_running(process)
    except ValueError:
        return False


def reserve(store: EventStore, work: str, holder: str, seconds: float) -> str | None:
    """Hold a lease that outlives the process, in a transaction of its own; return None, or the time until another holder has it.

    The holder is a name of the caller's, and may reserve the work again.
    """
    if (shared := store.shared) is not None:
        taken = shared.log.take_lease(work, holder, seconds)
        return None if taken else fixed(datetime.now(UTC) + timedelta(seconds=seconds))
    with store.transact() as transaction:
        row = transaction.connection.execute("SELECT holder, until FROM leases WHERE work = ?", (work,)).fetchone()
        if row is not None and row[0] != holder and row[1] > time.time():
            return fixed(datetime.fromtimestamp(row[1], UTC))
        sql = "INSERT OR REPLACE INTO leases VALUES (?, ?, ?)"
        transaction.connection.execute(sql, (work, holder, time.time() + seconds))
    return None


def release(store: EventStore, work: str, holder: str) -> None:
    """Give a reserved lease back; one that another holder has stays."""
    if (shared := store.shared) is not None:
        shared.log.give_back_lease(work, holder)
        return
    with store.transact() as transaction:
        give_back(transaction.connection, work, holder)


# --- in transactions of their own ----------------------------------------------------------------------------------------


class Lease:
    """The right to a piece of work, for a number of seconds from each renewal on."""

    def __init__(self, store: EventStore, work: str, seconds: float) -> None:
        self._store, self._work, self._seconds = store, work, seconds
        self._holder = new_holder()
        self._until = 0.0

    def take(self) -> bool:
        """Take the lease and return True; return False if another holder has it."""
        with self._store.transact() as transaction:
            if holder_of(transaction.connection, self._work) is not None:
                return False
            self._until = time.time() + self._seconds
            hold(transaction.connection, self._work, self._holder, self._seconds)
            return True

    def renew(self) -> bool:
        """Keep the lease for its full time again; return False if another holder has taken it."""
        if time.time() < self._until - self._seconds + 1:
            return True
        self._until = time.time() + self._seconds
        with self._store.transact() as transaction:
            return renew(transaction.connection, self._work, self._holder, self._seconds)

    def give_back(self) -> None:
        """End the lease even if the disk fails.

        A lease left in the file no longer stops this process. It stops other processes until it runs out.
        """
        end(self._holder)
        with suppress(LedgerError), self._store.transact() as transaction:
            give_back(transaction.connection, self._work, self._holder)


class LeaseOfMachines:
    """The right to a piece of work over all machines that share the log."""

    def __init__(self, store: EventStore, log: SharedLog, work: str, seconds: float) -> None:
        self._store, self._log, self._work, self._seconds = store, log, work, seconds
        self._holder = f"{log.machine}-{new_holder()}"
        self._until = 0.0

    def take(self) -> bool:
        """Take the lease, bring the file to the end of the log, and return True; return False if another holder has it.

        An earlier holder may have done the work on another machine, which this file does not show before.
        """
        self._until = time.time() + self._seconds
        if not self._log.take_lease(self._work, self._holder, self._seconds):
            return False
        try:
            with self._store.command():
                return True
        except BaseException:
            self.give_back()
            raise

    def renew(self) -> bool:
        """Keep the lease for its full time again; return False if another holder has taken it."""
        if time.time() < self._until - self._seconds + 1:
            return True
        self._until = time.time() + self._seconds
        return self._log.renew_lease(self._work, self._holder, self._seconds)

    def give_back(self) -> None:
        """End the lease; without a connection it runs out by itself."""
        self._log.give_back_lease(self._work, self._holder)


HeldLease = Lease | LeaseOfMachines


@contextmanager
def leased(store: EventStore, work: str, seconds: float) -> Iterator[HeldLease | None]:
    """Hold the lease until the block ends; yield None if another holder has it.

    The holder is one of all machines if they share the log.
    """
    shared = store.shared
    lease = Lease(store, work, seconds) if shared is None else LeaseOfMachines(store, shared.log, work, seconds)
    if not lease.take():
        yield None
        return
    try:
        yield lease
    finally:
        lease.give_back()
