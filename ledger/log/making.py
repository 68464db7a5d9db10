"""A copy of a ledger that is being made under another name, ``<path>.part``, until it is complete.

A maker that is killed leaves this file behind, with texts in it. So the ledger remembers the file's path in its leases, and
the next open for writing and each erasure remove the file. A lock next to the file shows if a maker is still at work.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from ledger.domain.errors import ConflictError, LedgerError, RejectedError, StorageError
from ledger.log import lease, platform
from ledger.log.event_store import EventStore
from ledger.log.file_lock import FileLock, lock_of
from ledger.log.paths import PART, StrPath, check_finished, checked_path
from ledger.log.sqlite_files import typed

SUFFIXES = ("", "-journal", "-wal", "-shm")
COPY = "copy "  # begins the name of such a lease; the path follows
_LISTED = f"SELECT substr(work, {len(COPY) + 1}) FROM leases WHERE work GLOB '{COPY}*{PART}' ORDER BY work"


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
        remove(part)
        _remember(of, part)  # again, because an open that saw no file may have forgotten the path
        make_empty(part)
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
        remove(part)
        lock.remove()
    lock.release()


def remove(path: str, suffixes: Sequence[str] = SUFFIXES) -> None:
    for suffix in suffixes:
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)


def make_empty(path: str) -> None:
    """Make an empty file that only its owner may read."""
    os.close(platform.new_private_file(path))


# --- the files that a killed maker left ----------------------------------------------------------------------------------


def unfinished(connection: sqlite3.Connection, path: str) -> list[tuple[str, bool]]:
    """Return the files under which copies of a ledger are being made, each with True if its maker is still at work."""
    return [(part, _is_made(part)) for part in _parts(connection, path)]


def remove_unfinished(store: EventStore) -> None:
    """Remove the files that killed makers left, and the scratch files; a file that cannot be reached stays remembered."""
    platform.sweep_scratch_files(os.path.dirname(store.path))
    with store.snapshot() as connection:
        parts = _parts(connection, store.path)
    for part in parts:
        is_left = _lies_there(part) or _is_lone_lock(part)
        if is_left and not _is_made(part) and _lock_alone(lock := lock_of(part)):
            _clear(part, lock)
    for part in parts:
        if not os.path.lexists(part + ".lock") and os.path.isdir(os.path.dirname(part)):
            _forget(store, part)


def _parts(connection: sqlite3.Connection, path: str) -> list[str]:
    """Return the files that the ledger remembers, and the file of this kind next to the ledger."""
    parts = [part for (part,) in connection.execute(_LISTED)]
    own = path + PART
    return parts + [own] * (own not in parts and (_lies_there(own) or _is_lone_lock(own)))


def _lies_there(part: str) -> bool:
    """Return True if the file and its lock exist: a file of this name without a lock belongs to another program."""
    return os.path.lexists(part) and os.path.lexists(part + ".lock")


def _is_lone_lock(part: str) -> bool:
    """Return True if only an empty lock exists: its maker was killed before it made the file, or after it removed it."""
    with suppress(OSError):
        status = os.lstat(part + ".lock")
        return stat.S_ISREG(status.st_mode) and not status.st_size and not os.path.lexists(part)
    return False


def _is_made(part: str) -> bool:
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


def _remember(store: EventStore | None, part: str) -> None:
    with suppress(LedgerError):  # on a full disk a copy elsewhere matters more than this record
        if store is not None and not store.readonly:
            with store.transact() as transaction:
                lease.hold(transaction.connection, COPY + part, lease.new_holder(), 0)


def _forget(store: EventStore | None, part: str) -> None:
    with suppress(LedgerError):
        if store is not None and not store.readonly:
            with store.transact() as transaction:
                transaction.connection.execute("DELETE FROM leases WHERE work = ?", (COPY + part,))


def put_in_place(finished: str, path: str) -> None:
    """Give a finished file that nobody has open its name, durably; raise ``FileExistsError`` if the name is taken."""
    platform.sync(finished)
    platform.put(finished, path)
