"""A file that is being made: under another name until it is done, remembered in the ledger that it is a copy of.

Whoever is killed meanwhile leaves it behind, with texts in it. So the ledger remembers where it lies, in the leases, and the
next open for writing and each erasure remove it; a lock next to it says whether somebody is still at it.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from ledger.domain.errors import ConflictError, LedgerError, RejectedError, StorageError
from ledger.store import lease
from ledger.store.event_store import EventStore
from ledger.store.file_lock import FileLock, lock_of
from ledger.store.paths import PART, StrPath, check_finished, checked_path
from ledger.store.sqlite_files import put_in_place, typed

SUFFIXES = ("", "-journal", "-wal", "-shm")
COPY = "copy "  # how the name of such a lease begins; the path follows
_LISTED = f"SELECT substr(work, {len(COPY) + 1}) FROM leases WHERE work GLOB '{COPY}*{PART}' ORDER BY work"


def free_place(path: StrPath, what: str) -> str:
    """The absolute path of a file that is to be made; ``RejectedError`` where something is."""
    place = checked_path(path)
    check_finished(place)
    if os.path.lexists(place):
        raise RejectedError(
            f"{place} is there already; {what} never overwrites: name a path where nothing is", rule="path"
        )
    for suffix in ("-wal", "-journal"):
        if os.path.lexists(place + suffix) and os.stat(place + suffix).st_size:
            raise RejectedError(
                f"{place}{suffix} is there and may hold the last commits of a ledger that is missing: "
                "put that back, or name a path where nothing is",
                rule="path",
            )
    return place


@contextmanager
def in_the_making(place: str, what: str, *, put: bool = True, of: EventStore | None = None) -> Iterator[str]:
    """An empty file of the owner's to fill, ``<place>.part``; it gets its own name at the end, and an error leaves nothing.

    One maker at a time: ``ConflictError`` for another. What a killed one left is removed first; ``RejectedError`` where a
    file has the name that nobody was making. ``of`` is the log that is copied, which remembers the file; one that cannot be
    written does not, and a copy is made all the same.
    """
    part = place + PART
    lock = lock_of(part)
    if os.path.lexists(part) and not _lies_there(part):
        raise RejectedError(f"{part} is there, and {what} would be made under that name: move it away", rule="path")
    _remember(of, part)  # first of all: a kill may come at any moment
    if not _lock_alone(lock):
        raise ConflictError(f"{what} to this place is being made by another process; wait for it")
    try:
        remove(part)
        _remember(of, part)  # an open that found nothing there may have forgotten it
        make_empty(part)
        yield part
        if put:
            put_in_place(part, place)
    except FileExistsError:
        raise RejectedError(
            f"{place} was made by somebody else meanwhile; {what} never overwrites", rule="path"
        ) from None
    except OSError as error:
        raise StorageError(f"{place} cannot be written: {error.strerror}") from error
    except sqlite3.Error as error:
        raise typed(error) from error
    finally:
        _clear(part, lock)
        _forget(of, part)


def _lock_alone(lock: FileLock) -> bool:
    """Takes a lock whose file is removed by its last holder: one that was removed meanwhile locks nobody out."""
    while True:
        try:
            if not lock.acquire(0):
                return False
        except OSError as error:
            raise StorageError(f"{lock.path} cannot be made: {error.strerror}") from error
        with suppress(FileNotFoundError):
            if os.stat(lock.path).st_ino == os.fstat(lock._descriptor).st_ino:
                return True
        lock.release()


def _clear(part: str, lock: FileLock) -> None:
    with suppress(OSError):
        remove(part)
        os.unlink(lock.path)
    lock.release()


def remove(path: str, suffixes: Sequence[str] = SUFFIXES) -> None:
    for suffix in suffixes:
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)


def make_empty(path: str) -> None:
    """An empty file of the owner's, to be filled."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    os.close(descriptor)


# --- what a killed maker left ------------------------------------------------------------------------------------------


def unfinished(connection: sqlite3.Connection, path: str) -> list[tuple[str, bool]]:
    """The files that copies of the ledger at a path are made under, each with whether somebody is still at it."""
    return [(part, _is_made(part)) for part in _parts(connection, path)]


def remove_unfinished(store: EventStore) -> None:
    """Removes what killed makers left; what cannot be reached stays remembered."""
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
    """Those that it remembers, and one in its own place."""
    found = [part for (part,) in connection.execute(_LISTED)]
    own = path + PART
    return found + [own] * (own not in found and (_lies_there(own) or _is_lone_lock(own)))


def _lies_there(part: str) -> bool:
    """With its lock: a file of this name without one is somebody else's."""
    return os.path.lexists(part) and os.path.lexists(part + ".lock")


def _is_lone_lock(part: str) -> bool:
    """Return True for an empty lock without its file: its maker was killed before the file was there, or after."""
    with suppress(OSError):
        status = os.lstat(part + ".lock")
        return stat.S_ISREG(status.st_mode) and not status.st_size and not os.path.lexists(part)
    return False


def _is_made(part: str) -> bool:
    """Whether its lock is held; also where nobody can tell."""
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
    with suppress(LedgerError):  # on a full disk a copy elsewhere is what is needed most
        if store is not None and not store.readonly:
            with store.transact() as transaction:
                lease.hold(transaction.connection, COPY + part, lease.new_holder(), 0)


def _forget(store: EventStore | None, part: str) -> None:
    with suppress(LedgerError):
        if store is not None and not store.readonly:
            with store.transact() as transaction:
                transaction.connection.execute("DELETE FROM leases WHERE work = ?", (COPY + part,))
