"""The leases on work that is done outside of the writer's lock, and the copies of a ledger that are being made.

A lease has one holder at a time over all processes. Leases only save double work; the writer's lock decides about correctness.

A copy of a ledger is made under another name, ``<path>.part``, until it is complete. A maker that is killed leaves this file
behind, with texts in it. So the ledger remembers the file's path in its leases, and the next open for writing and each erasure
remove the file. A lock next to the file shows if a maker is still at work.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from sqlite3 import Connection
from typing import TYPE_CHECKING

from ledger.domain.errors import ConflictError, LedgerError, RejectedError, StorageError
from ledger.domain.times import fixed
from ledger.log import platform
from ledger.log.event_store import EventStore
from ledger.log.file_lock import FileLock, lock_of
from ledger.log.paths import PART, StrPath, check_finished, checked_path
from ledger.log.sqlite_files import typed

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


# --- a copy that is being made -------------------------------------------------------------------------------------------

SUFFIXES = ("", "-journal", "-wal", "-shm")
COPY_LEASE = "copy "  # begins the name of such a lease; the path follows
_LISTED = f"SELECT substr(work, {len(COPY_LEASE) + 1}) FROM leases WHERE work GLOB '{COPY_LEASE}*{PART}' ORDER BY work"


def free_place(path: StrPath, what: str) -> str:
    """Return the absolute path of a file that is to be made; raise ``RejectedError`` if a file is there."""
    place = checked_path(path)
    check_finished(place)
    if os.path.lexists(place):
        raise RejectedError(
            f"{place} exists, and {what} never overwrites a file: name a path where there is none", rule="path"
        )
    for suffix in ("-wal", "-journal"):
        if os.path.lexists(place + suffix) and os.stat(place + suffix).st_size:
            raise RejectedError(
                f"{place}{suffix} exists and may hold the last commits of a ledger whose file is missing: "
                "put that file back, or name another path",
                rule="path",
            )
    return place


@contextmanager
def in_the_making(place: str, what: str, *, put: bool = True, of: EventStore | None = None) -> Iterator[str]:
    """Yield an empty file, ``<place>.part``, to be filled; rename the file at the end, or remove it after an error.

    A file that a killed maker left is removed first. A log that cannot be written does not remember the file, and the copy
    is made all the same.

    Args:
        place: The path of the finished file.
        what: The kind of file, for messages.
        put: False to leave the renaming to the caller.
        of: The log that is copied, which remembers the file.

    Raises:
        ConflictError: Another maker is at work on this path.
        RejectedError: A file that no maker was making has the name.
    """
    part = place + PART
    lock = lock_of(part)
    if os.path.lexists(part) and not _lies_there(part):
        raise RejectedError(
            f"{part} exists, and {what} needs that name while it is being made: move the file away", rule="path"
        )
    _remember(of, part)  # first of all, because a kill may come at any moment
    if not _lock_alone(lock):
        raise ConflictError(f"{what} to this place is being made by another process; wait for it")
    try:
        remove_files(part)
        _remember(of, part)  # again, because an open that saw no file may have forgotten the path
        make_empty_file(part)
        yield part
        if put:
            put_in_place(part, place)
    except FileExistsError:
        raise RejectedError(
            f"another program made {place} in the meantime, and {what} never overwrites a file", rule="path"
        ) from None
    except OSError as error:
        raise StorageError(f"{place} cannot be written: {error.strerror}") from error
    except sqlite3.Error as error:
        raise typed(error) from error
    finally:
        _clear(part, lock)
        _forget(of, part)


def _lock_alone(lock: FileLock) -> bool:
    try:
        return lock.acquire(0)
    except OSError as error:
        raise StorageError(f"{lock.path} cannot be made: {error.strerror}") from error


def _clear(part: str, lock: FileLock) -> None:
    with suppress(OSError):
        remove_files(part)
        lock.remove()
    lock.release()


def remove_files(path: str, suffixes: Sequence[str] = SUFFIXES) -> None:
    for suffix in suffixes:
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)


def make_empty_file(path: str) -> None:
    """Make an empty file that only its owner may read."""
    os.close(platform.new_private_file(path))


def put_in_place(finished: str, path: str) -> None:
    """Give a finished file that nobody has open its name, durably; raise ``FileExistsError`` if the name is taken."""
    platform.sync(finished)
    platform.put(finished, path)


def _remember(store: EventStore | None, part: str) -> None:
    with suppress(LedgerError):  # on a full disk a copy elsewhere matters more than this record
        if store is not None and not store.readonly:
            with store.transact() as transaction:
                hold(transaction.connection, COPY_LEASE + part, new_holder(), 0)


def _forget(store: EventStore | None, part: str) -> None:
    with suppress(LedgerError):
        if store is not None and not store.readonly:
            with store.transact() as transaction:
                transaction.connection.execute("DELETE FROM leases WHERE work = ?", (COPY_LEASE + part,))


def _lies_there(part: str) -> bool:
    """Return True if the file and its lock exist: a file of this name without a lock belongs to another program."""
    return os.path.lexists(part) and os.path.lexists(part + ".lock")


# --- the files that a killed maker left ----------------------------------------------------------------------------------


def unfinished_copies(connection: sqlite3.Connection, path: str) -> list[tuple[str, bool]]:
    """Return the files under which copies of a ledger are being made, each with True if its maker is still at work."""
    return [(part, _is_in_the_making(part)) for part in _parts(connection, path)]


def remove_unfinished_copies(store: EventStore) -> None:
    """Remove the files that killed makers left, and the scratch files; a file that cannot be reached stays remembered."""
    platform.sweep_scratch_files(os.path.dirname(store.path))
    with store.snapshot() as connection:
        parts = _parts(connection, store.path)
    for part in parts:
        is_left = _lies_there(part) or _is_lone_lock(part)
        if is_left and not _is_in_the_making(part) and _lock_alone(lock := lock_of(part)):
            _clear(part, lock)
    for part in parts:
        if not os.path.lexists(part + ".lock") and os.path.isdir(os.path.dirname(part)):
            _forget(store, part)


def _parts(connection: sqlite3.Connection, path: str) -> list[str]:
    """Return the files that the ledger remembers, and the file of this kind next to the ledger."""
    parts = [part for (part,) in connection.execute(_LISTED)]
    own = path + PART
    return parts + [own] * (own not in parts and (_lies_there(own) or _is_lone_lock(own)))


def _is_lone_lock(part: str) -> bool:
    """Return True if only an empty lock exists: its maker was killed before it made the file, or after it removed it."""
    with suppress(OSError):
        status = os.lstat(part + ".lock")
        return stat.S_ISREG(status.st_mode) and not status.st_size and not os.path.lexists(part)
    return False


def _is_in_the_making(part: str) -> bool:
    """Return True if a maker holds the lock of a file, or if that cannot be known."""
    lock = lock_of(part)
    if lock.is_held or not os.path.lexists(lock.path):
        return lock.is_held
    try:
        if not lock.acquire(0, create=False):
            return True
    except OSError:
        return True
    lock.release()
    return False
