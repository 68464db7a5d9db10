"""The lock next to a ledger file, and the notes in the lock file about the ledger's file.

The lock has one holder over all processes. It is for work that SQLite must not do twice at a time. A note tells that a
checkpoint began, or the state in which the last one left the file. SQLite writes the file itself only in checkpoints. So if
the file's size or time differs from the note, another program wrote to the file. The notes are read without the lock: a note
that is the same before and after a look at the file, and that tells of no running checkpoint, holds for that look.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple
from weakref import WeakValueDictionary

from ledger.domain.errors import BusyError, StorageError
from ledger.log import platform

_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


class FileLock:
    """A lock file that one thread of one process holds at a time; that thread may take the lock again."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._thread, self._depth, self._descriptor = threading.RLock(), 0, -1
        self._is_removed = False  # when it is released

    @property
    def is_held(self) -> bool:
        """Return True while a thread of this process holds the lock."""
        return self._depth > 0

    @contextmanager
    def hold(self, timeout_seconds: float, *, create: bool = True) -> Iterator[None]:
        try:
            taken = self.acquire(timeout_seconds, create=create)
        except OSError as error:
            hint = "; a ledger opened with readonly=True needs no lock" if create and error.errno in _DENIED else ""
            raise StorageError(f"{self.path} cannot be locked: {error.strerror}{hint}") from error
        if not taken:
            raise BusyError(f"another process kept {self.path} locked for longer than {timeout_seconds:g} seconds")
        try:
            yield
        finally:
            self.release()

    def acquire(self, timeout_seconds: float, *, create: bool = True) -> bool:
        deadline = time.monotonic() + timeout_seconds
        if not self._thread.acquire(timeout=timeout_seconds):
            return False
        try:
            taken = self._depth > 0 or self._lock(deadline, create)
        except BaseException:
            self._thread.release()
            raise
        if not taken:
            self._thread.release()
            return False
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if not self._depth and self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            is_removed, self._is_removed = self._is_removed, False
            if is_removed and platform.DELETES_OPEN_FILES:
                self._remove()
            platform.unlock(descriptor)
            os.close(descriptor)
            if is_removed and not platform.DELETES_OPEN_FILES:
                self._remove()  # fails if another process has opened the file meanwhile
        self._thread.release()

    def remove(self) -> None:
        """Remove the lock file when its holder releases it, because the file that it guards is gone."""
        self._is_removed = True

    def _remove(self) -> None:
        with suppress(OSError):
            os.unlink(self.path)

    def abandon(self) -> None:
        """Close the file in a forked child without unlocking, for the lock still belongs to the parent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _lock(self, deadline: float, create: bool) -> bool:
        descriptor = self._open(create)
        if descriptor < 0:
            return True
        pause = 0.001
        while True:
            try:
                if not (taken := platform.lock(descriptor)) and time.monotonic() < deadline:
                    time.sleep(pause)
                    pause = min(pause * 2, 0.02)
                    continue
            except BaseException:
                os.close(descriptor)
                raise
            if taken and self._lies_at_path(descriptor):
                self._descriptor = descriptor
                return True
            os.close(descriptor)
            if not taken:
                return False
            descriptor = self._open(create)  # the last holder removed the file, which keeps nobody else out any more
            if descriptor < 0:
                return True

    def _lies_at_path(self, descriptor: int) -> bool:
        with suppress(OSError):
            return os.path.samestat(os.stat(self.path), os.fstat(descriptor))
        return False

    def _open(self, create: bool) -> int:
        """Return a descriptor of the lock file, or -1 if the caller needs no lock.

        A reader needs none if the file does not exist, because a reader never checkpoints. Nor does anybody if the directory
        is gone.
        """
        try:
            if not create:
                return os.open(self.path, os.O_RDONLY | platform.OWN_FLAGS)
            with suppress(FileExistsError):
                return platform.new_private_file(self.path)
            return os.open(self.path, os.O_RDWR | platform.OWN_FLAGS)
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            if create and isinstance(error, PermissionError):
                raise
            return -1


_locks: WeakValueDictionary[str, FileLock] = WeakValueDictionary()
_locks_guard = threading.Lock()
_inherited: set[str] = set()  # the files that the parent had open when it forked this process


def lock_of(path: str) -> FileLock:
    """Return the lock of a ledger file, one object per process, so that a thread can hold it through two stores."""
    name = os.path.normcase(path)  # Windows takes "Memory.db" and "memory.db" for one file
    with _locks_guard:
        lock = _locks.get(name)
        if lock is None:
            lock = _locks[name] = FileLock(path + ".lock")
        return lock


def forget_parent(open_files: set[str]) -> None:
    """Reset the locks in a forked child, and remember the files that the parent has open, which stay closed to the child."""
    global _locks_guard
    for lock in list(_locks.values()):
        lock.abandon()
    _locks.clear()
    _locks_guard = threading.Lock()
    _inherited.update(open_files)


def is_inherited(path: str) -> bool:
    """Return True if the process was forked while this file was open."""
    return path in _inherited


# --- notes -----------------------------------------------------------------------------------------------------------

LINE_BYTES = 256  # of every note, so that the next note overwrites it in place
_VERSION = "1"

Written = tuple[int, int]  # the size and the mtime_ns of a file


class Note(NamedTuple):
    """A note, whose number differs from the number of the note before."""

    number: int
    turn: int  # changes when an open meets a file that differs from its note
    begun: bool  # a checkpoint began, and no end is noted
    written: Written
    first: bytes = b""  # the head after the first event in the file itself, if known
    position: int = 0  # of the last event in the file itself after a complete checkpoint
    head: bytes = b""  # after that event


def read_note(path: str) -> Note | None:
    """Return the note in a lock file; None if there is no complete note."""
    try:
        descriptor = os.open(path, os.O_RDONLY | platform.OWN_FLAGS)
    except OSError:
        return None
    try:
        return _parsed(os.read(descriptor, LINE_BYTES))
    except OSError:
        return None
    finally:
        os.close(descriptor)


def write_note(path: str, note: Note, *, durable: bool) -> None:
    """Write a note into an existing lock file. The caller holds the lock."""
    size, time_ns = note.written
    parts = (
        _VERSION,
        note.number,
        note.turn,
        int(note.begun),
        size,
        time_ns,
        note.first.hex(),
        note.position,
        note.head.hex(),
    )
    text = " ".join(str(part) or "-" for part in parts)
    line = f"{text} {zlib.crc32(text.encode()):08x}".ljust(LINE_BYTES - 1) + "\n"
    descriptor = os.open(path, os.O_WRONLY | platform.OWN_FLAGS)
    try:
        os.write(descriptor, line.encode())
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def written(path: str) -> Written:
    """Return the size of a file and the time of its last change; zeros if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def _parsed(line: bytes) -> Note | None:
    try:
        text, _, mark = line.decode("ascii").rstrip().rpartition(" ")
        version, number, turn, begun, size, time_ns, first, position, head = text.split(" ")
        if version != _VERSION or int(mark, 16) != zlib.crc32(text.encode()):
            return None
        heads = [b"" if part == "-" else bytes.fromhex(part) for part in (first, head)]
        return Note(int(number), int(turn), begun == "1", (int(size), int(time_ns)), heads[0], int(position), heads[1])
    except ValueError:
        return None
