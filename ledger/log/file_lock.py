"""The lock next to a ledger file, with one holder over all processes, for work that SQLite must not do twice at a time."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
