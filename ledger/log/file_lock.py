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

try:
    import fcntl
except ImportError:
    message = (
        "memory-ledger locks its files with flock, which Windows does not have: run it in WSL 2, or on Linux or macOS"
    )
    raise ImportError(message, name="fcntl") from None


_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


class FileLock:
    """A lock file that one thread of one process holds at a time; that thread may take the lock again."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._thread, self._depth, self._descriptor = threading.RLock(), 0, -1

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
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)
        self._thread.release()

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
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(descriptor)
                    return False
                time.sleep(pause)
                pause = min(pause * 2, 0.02)
            except BaseException:
                os.close(descriptor)
                raise
            else:
                if self._lies_at_path(descriptor):
                    self._descriptor = descriptor
                    return True
                os.close(descriptor)  # the last holder removed the file, which keeps nobody else out any more
                descriptor = self._open(create)
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
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            if not create:
                return os.open(self.path, os.O_RDONLY | flags)
            with suppress(FileExistsError):
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | flags, 0o600)
                os.fchmod(descriptor, 0o600)
                return descriptor
            return os.open(self.path, os.O_RDWR | flags)
        except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
            if create and isinstance(error, PermissionError):
                raise
            return -1


_locks: WeakValueDictionary[str, FileLock] = WeakValueDictionary()
_locks_guard = threading.Lock()
_inherited: set[str] = set()  # the files that the parent had open when it forked this process


def lock_of(path: str) -> FileLock:
    """Return the lock of a ledger file, one object per process, so that a thread can hold it through two stores."""
    with _locks_guard:
        lock = _locks.get(path)
        if lock is None:
            lock = _locks[path] = FileLock(path + ".lock")
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
