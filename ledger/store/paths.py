"""Where a ledger may lie: a regular file with a name, in a directory in which nobody else can put another in its place."""

from __future__ import annotations

import os
import stat

from ledger.domain.errors import NotFoundError, RejectedError

StrPath = str | os.PathLike[str]

OWN_ENDS = (".lock", "-wal", "-shm", "-journal")  # of the files that SQLite and the product put next to a ledger
PART = ".part"  # of the name of a file that is being made

_KINDS = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a directory"}


def path_name(path: object) -> str:
    """A path as text; ``RejectedError`` for what is none, or cannot be a file's name."""
    try:
        name = os.fsdecode(path)  # type: ignore[arg-type]
        os.fsencode(name)
    except (TypeError, UnicodeError):
        raise RejectedError(f"a file is named by a path, and {path!r:.100} is none", rule="path") from None
    if "\0" in name:
        raise RejectedError(f"a file is named by a path, and {path!r:.100} holds a NUL", rule="path")
    return name


def checked_path(path: StrPath) -> str:
    """The absolute real path; ``RejectedError`` where a ledger may not lie."""
    name = path_name(path)
    if not name or name == ":memory:" or "\x00" in name:
        raise RejectedError(f"a ledger is a file, and {name[:100]!r} names none", rule="path")
    parent, last = os.path.split(os.path.abspath(name))
    if not last:
        raise RejectedError(f"a ledger is a file, and {name[:100]!r} is a directory", rule="path")
    check_own_name(last)
    real = os.path.join(os.path.realpath(parent), last)
    _check_parent(os.path.dirname(real))
    try:
        mode = os.lstat(real).st_mode
    except FileNotFoundError:
        return real
    except OSError as error:
        raise RejectedError(f"no file can be called {real[:100]!r}: {error.strerror}", rule="path") from None
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "none")
        raise RejectedError(f"a ledger is a regular file, and {real} is {kind}", rule="path")
    return real


def check_own_name(name: str) -> None:
    """Refuse the name of a file that lies next to a ledger: its lock, its -wal, its -shm or its -journal."""
    if name.lower().endswith(OWN_ENDS):
        raise RejectedError(
            f"no ledger may be called {name[-100:]!r}: {', '.join(OWN_ENDS)} end the names of the files that lie next"
            " to a ledger; name the ledger itself, or choose another name",
            rule="path",
        )


def check_finished(path: StrPath) -> None:
    """Refuse the name of a file that is being made, which an open or an erasure would remove as left behind."""
    if path_name(path).lower().endswith(PART):
        raise RejectedError(
            f"{path_name(path)} ends in {PART}, as a file does that is being made; give it another name", rule="path"
        )


def _check_parent(parent: str) -> None:
    """Whoever may write the directory may put another file in the ledger's place."""
    try:
        found = os.stat(parent)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(f"the directory {parent} does not exist") from None
    if found.st_mode & stat.S_ISVTX or os.statvfs(parent).f_flag & os.ST_RDONLY:
        return
    everyone = found.st_mode & stat.S_IWOTH
    others = found.st_mode & stat.S_IWGRP and found.st_gid != os.getegid()
    if everyone or others:
        whom = "everybody" if everyone else "a group that is not this process's own"
        raise RejectedError(f"the directory {parent} can be written by {whom}; no ledger may lie there", rule="path")
