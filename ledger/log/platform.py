"""The differences between POSIX systems and Windows, in one place: no other module asks for the name of the system.

The doors use the public API only, so ``ledger/doors/installing.py`` asks too: for the folder of an editor's settings.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from string import ascii_letters, digits
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen

READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""The flags for reading a file that may be anything: bytes, and no wait for a writer if the file is a pipe."""
OWN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
"""The flags of a file that this product makes, besides the access: bytes, and never through a symbolic link."""
SCRATCH = ".shadow-"  # begins the name of a file for scratch work; the number of its process follows

_scratch_files: set[str] = set()  # those of this process
_LOCK_AT = 1 << 30  # the place of the locked byte on Windows, where a locked byte cannot be read: far behind the notes
_PLAIN = frozenset("/-._~" + ascii_letters + digits)
_DEVICE = re.compile(r"(?i)(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])")

if sys.platform == "win32":
    import ctypes
    import msvcrt
    from ctypes import wintypes

    HAS_MODES = False  # whether the mode and the owner of a file say who may read it
    DELETES_OPEN_FILES = False  # whether a file can be deleted while it is open
    HAS_POSIX_SHELL = False  # whether a person types into a shell that reads the quotes of POSIX

    _BUSY, _DENIED, _EXISTS, _STILL_RUNS = 33, 5, 183, 258
    _REPLACE, _WRITE_THROUGH, _EXCLUSIVE, _AT_ONCE = 1, 8, 2, 1
    _SYNCHRONIZE = 0x00100000

    class _Overlapped(ctypes.Structure):
        _fields_ = (
            ("internal", ctypes.c_void_p),
            ("internal_high", ctypes.c_void_p),
            ("offset", wintypes.DWORD),
            ("offset_high", wintypes.DWORD),
            ("event", wintypes.HANDLE),
        )

    class _MemoryCounters(ctypes.Structure):
        _fields_ = (
            ("size", wintypes.DWORD),
            ("page_faults", wintypes.DWORD),
            ("peak_working_set", ctypes.c_size_t),
            *((f"field_{number}", ctypes.c_size_t) for number in range(7)),
        )

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.LockFileEx.argtypes = (
        *(wintypes.HANDLE, wintypes.DWORD, wintypes.DWORD, wintypes.DWORD, wintypes.DWORD, ctypes.POINTER(_Overlapped)),
    )
    _kernel.UnlockFileEx.argtypes = (
        *(wintypes.HANDLE, wintypes.DWORD, wintypes.DWORD, wintypes.DWORD, ctypes.POINTER(_Overlapped)),
    )
    _kernel.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
    _kernel.OpenProcess.restype = wintypes.HANDLE
    _kernel.WaitForSingleObject.argtypes = (wintypes.HANDLE, wintypes.DWORD)
    _kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
    _kernel.MoveFileExW.argtypes = (wintypes.LPCWSTR, wintypes.LPCWSTR, wintypes.DWORD)
    _kernel.GetCurrentProcess.restype = wintypes.HANDLE
    _kernel.K32GetProcessMemoryInfo.argtypes = (wintypes.HANDLE, ctypes.POINTER(_MemoryCounters), wintypes.DWORD)

    def lock(descriptor: int, *, wait: bool = False) -> bool:
        """Take the lock of an open file; return False if another process has it, unless told to wait."""
        place, flags = _Overlapped(offset=_LOCK_AT), _EXCLUSIVE | (0 if wait else _AT_ONCE)
        if _kernel.LockFileEx(msvcrt.get_osfhandle(descriptor), flags, 0, 1, 0, ctypes.byref(place)):
            return True
        if (code := ctypes.get_last_error()) == _BUSY:
            return False
        raise ctypes.WinError(code)

    def unlock(descriptor: int) -> None:
        place = _Overlapped(offset=_LOCK_AT)
        _kernel.UnlockFileEx(msvcrt.get_osfhandle(descriptor), 0, 1, 0, ctypes.byref(place))

    def is_running(process: int) -> bool:
        """Return True if a process of this number runs on this machine."""
        handle = _kernel.OpenProcess(_SYNCHRONIZE, False, process)
        if not handle:
            return bool(ctypes.get_last_error() == _DENIED)
        try:
            return bool(_kernel.WaitForSingleObject(handle, 0) == _STILL_RUNS)
        finally:
            _kernel.CloseHandle(handle)

    def sync_directory(path: str) -> None:
        """Do nothing: Windows cannot flush the names in a directory, and a move writes them through."""

    def move(source: str, target: str) -> None:
        """Give a file another name durably, in the place of a file that has it."""
        _move(source, target, _REPLACE | _WRITE_THROUGH)

    def put(source: str, target: str) -> None:
        """Give a file another name durably; raise ``FileExistsError`` if the name is taken."""
        _move(source, target, _WRITE_THROUGH)

    def _move(source: str, target: str, flags: int) -> None:
        if not _kernel.MoveFileExW(source, target, flags):
            code = ctypes.get_last_error()
            if code == _EXISTS:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
            raise ctypes.WinError(code)

    def make_private(descriptor: int) -> None:
        """Do nothing: a new file has the access list of its directory, which in a home folder names its user alone."""

    def is_of_another_user(status: os.stat_result) -> bool:
        return False

    def who_may_replace_in(directory: str, status: os.stat_result) -> str:
        """Return who besides this user may replace files in a directory; empty if nobody, or if that is not checked."""
        return ""

    def disk_space(directory: str) -> tuple[int, bool]:
        """Return the free bytes, and whether the file system takes no writes."""
        import shutil

        return shutil.disk_usage(directory).free, False

    def peak_memory_bytes() -> int:
        """Return the most memory that this process took so far."""
        counters = _MemoryCounters(size=ctypes.sizeof(_MemoryCounters))
        _kernel.K32GetProcessMemoryInfo(_kernel.GetCurrentProcess(), ctypes.byref(counters), counters.size)
        return int(counters.peak_working_set)

    def most_open_files() -> int | None:
        """Return the number of files that this process may open; None if the system sets no limit."""
        return None

    def start(command: Sequence[str], folder: str, environment: Mapping[str, str]) -> Popen[bytes]:
        """Raise ``OSError``: the pipes of a program cannot be waited for together on Windows."""
        raise OSError(errno.ENOSYS, "on Windows no command is asked in the place of a model")

    def end(process: Popen[bytes]) -> None:
        process.kill()

    def never_wait(descriptor: int) -> None:
        """Do nothing: no program is started whose pipes could be read without a wait."""

    def reserved_part(path: str) -> str:
        """Return a part of a path that names no file, but a device or a stream of a file; empty if there is none."""
        for part in re.split(r"[\\/]", os.path.splitdrive(path)[1]):
            if ":" in part or _DEVICE.fullmatch(part.partition(".")[0].rstrip()):
                return part
        return ""

    def run_after_fork(action: Callable[[], None]) -> None:
        """Do nothing: Windows forks no process."""

else:
    import fcntl
    import resource
    import signal

    HAS_MODES = True
    DELETES_OPEN_FILES = True
    HAS_POSIX_SHELL = True

    def lock(descriptor: int, *, wait: bool = False) -> bool:
        """Take the lock of an open file; return False if another process has it, unless told to wait."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def is_running(process: int) -> bool:
        """Return True if a process of this number runs on this machine."""
        try:
            os.kill(process, 0)
        except (ProcessLookupError, OverflowError):
            return False
        except PermissionError:
            return True
        return True

    def sync_directory(path: str) -> None:
        """Make the names in a directory durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def move(source: str, target: str) -> None:
        """Give a file another name durably, in the place of a file that has it."""
        os.rename(source, target)
        sync_directory(os.path.dirname(target))

    def put(source: str, target: str) -> None:
        """Give a file another name durably; raise ``FileExistsError`` if the name is taken."""
        try:
            os.link(source, target, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:  # the file system has no hard links, so two makers at the same moment are not quite safe
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
            os.rename(source, target)
        else:
            os.unlink(source)
        sync_directory(os.path.dirname(target))

    def make_private(descriptor: int) -> None:
        """Let only the owner of an open file read and write it, whatever the umask is."""
        os.fchmod(descriptor, 0o600)

    def is_of_another_user(status: os.stat_result) -> bool:
        return status.st_uid != os.geteuid()

    def who_may_replace_in(directory: str, status: os.stat_result) -> str:
        """Return who besides this user may replace files in a directory; empty if nobody, or if that is not checked."""
        if status.st_mode & stat.S_ISVTX or os.statvfs(directory).f_flag & os.ST_RDONLY:
            return ""
        if status.st_mode & stat.S_IWOTH:
            return "everybody"
        is_of_others = status.st_mode & stat.S_IWGRP and status.st_gid != os.getegid()
        return "a group that is not this process's own" if is_of_others else ""

    def disk_space(directory: str) -> tuple[int, bool]:
        """Return the free bytes, and whether the file system takes no writes."""
        filesystem = os.statvfs(directory)
        return filesystem.f_bavail * filesystem.f_frsize, bool(filesystem.f_flag & os.ST_RDONLY)

    def peak_memory_bytes() -> int:
        """Return the most memory that this process took so far."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1_024)

    def most_open_files() -> int | None:
        """Return the number of files that this process may open; None if the system sets no limit."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return None if files == resource.RLIM_INFINITY else files

    def start(command: Sequence[str], folder: str, environment: Mapping[str, str]) -> Popen[bytes]:
        """Start a program with three pipes. ``end`` ends it together with the programs that it starts."""
        from subprocess import PIPE, Popen  # slow to load and rarely needed

        return Popen(
            *(command, 0),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )

    def end(process: Popen[bytes]) -> None:
        """Kill a program and the programs that it started, even of a program that ended."""
        with suppress(ProcessLookupError, PermissionError):  # nobody is left in the group
            os.killpg(process.pid, signal.SIGKILL)

    def never_wait(descriptor: int) -> None:
        """Let reads and writes of a pipe return at once."""
        os.set_blocking(descriptor, False)

    def reserved_part(path: str) -> str:
        """Return a part of a path that names no file, but a device or a stream of a file; empty if there is none."""
        return ""

    def run_after_fork(action: Callable[[], None]) -> None:
        """Run an action in every child that is forked from this process."""
        os.register_at_fork(after_in_child=action)


def new_private_file(path: str) -> int:
    """Return the descriptor of a new file that only its owner may read; raise ``FileExistsError`` if the name is taken."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | OWN_FLAGS, 0o600)
    make_private(descriptor)
    return descriptor


def sync(path: str) -> None:
    """Wait until the contents of a file are on the disk. SQLite must not have the file open."""
    descriptor = os.open(path, os.O_RDWR | OWN_FLAGS)  # Windows syncs no file that is open to be read only
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_uri(path: str, query: str) -> str:
    """Return the URI of a file with every special character percent-encoded, so that a name cannot set an option."""
    if os.sep != "/":
        path = "/" * (path[1:2] == ":") + path.replace(os.sep, "/")  # C:\a is /C:/a
    characters = (chr(byte) for byte in os.fsencode(path))
    quoted = "".join(character if character in _PLAIN else f"%{ord(character):02X}" for character in characters)
    return f"file://{quoted}?{query}"


# --- files for scratch work ----------------------------------------------------------------------------------------------


def new_scratch_file(directory: str) -> str:
    """Return the path of a new file for scratch work. Its maker removes the file, or ``sweep_scratch_files`` after a kill."""
    path = os.path.join(directory, f"{SCRATCH}{os.getpid()}-{os.urandom(6).hex()}")
    _scratch_files.add(path)
    try:
        os.close(new_private_file(path))
    except BaseException:
        _scratch_files.discard(path)
        raise
    return path


def remove_scratch_file(path: str) -> None:
    """Remove a file for scratch work; where it is swept already, there is nothing to do."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    _scratch_files.discard(path)


def sweep_scratch_files(directory: str) -> None:
    """Remove the files for scratch work that killed processes left in a directory; they may hold texts."""
    with suppress(OSError):  # a directory that cannot be listed
        for name in os.listdir(directory):
            path = os.path.join(directory, name)
            if name.startswith(SCRATCH) and path not in _scratch_files and not _is_at_work(name):
                with suppress(OSError):
                    os.unlink(path)


def _is_at_work(name: str) -> bool:
    """Return True if another process made a file for scratch work, and still runs."""
    number = name.removeprefix(SCRATCH).partition("-")[0]
    return not number.isdecimal() or (int(number) != os.getpid() and is_running(int(number)))
