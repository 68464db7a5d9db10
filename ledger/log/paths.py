"""The places where a ledger may lie: a regular file in a directory in which no other user can replace the file."""

from __future__ import annotations

import os
import stat

from ledger.domain.errors import NotFoundError, RejectedError
from ledger.log import platform

StrPath = str | os.PathLike[str]

OWN_ENDS = (".lock", "-wal", "-shm", "-journal")  # end the names of the files that lie next to a ledger
PART = ".part"  # ends the name of a file that is being made
HOOKS_LOG = ".hooks.log"  # ends the name of the log that the hooks of coding agents write next to a ledger

_LONGEST = 255  # characters of a file's name, on every common file system
_KINDS = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a directory"}


def path_name(path: object) -> str:
    """Return a path as text; raise ``RejectedError`` if it is not a path or cannot be the name of a file."""
    try:
        name = os.fsdecode(path)  # type: ignore[arg-type]
        os.fsencode(name)
    except (TypeError, UnicodeError):
        raise RejectedError(
            f"a file is named by a str, bytes or os.PathLike, not by {path!r:.100}", rule="path"
        ) from None
    if "\0" in name:
        raise RejectedError(f"the name of a file holds no NUL character, and {path!r:.100} does", rule="path")
    return name


def checked_path(path: StrPath) -> str:
    """Return the absolute real path; raise ``RejectedError`` if a ledger may not lie there."""
    name = path_name(path)
    if not name or name == ":memory:" or "\x00" in name:
        advice = "; Ledger.temporary() opens one that is deleted when it is closed" if name == ":memory:" else ""
        raise RejectedError(f"a ledger needs the path of a file, and {name[:100]!r} names no file{advice}", rule="path")
    if part := platform.reserved_part(name):
        raise RejectedError(
            f"the path {name[:100]!r} cannot be used for a file: {part[:100]!r} names a device or a stream", rule="path"
        )
    parent, last = os.path.split(os.path.abspath(name))
    if not last:
        raise RejectedError(f"a ledger needs the path of a file, and {name[:100]!r} is a directory", rule="path")
    if len(last) > _LONGEST:  # Windows answers that there is no such file
        raise RejectedError(f"the path {name[:100]!r} cannot be used for a file: its name is too long", rule="path")
    check_own_name(last)
    real = os.path.join(os.path.realpath(parent), last)
    _check_parent(os.path.dirname(real))
    try:
        mode = os.lstat(real).st_mode
    except FileNotFoundError:
        return real
    except OSError as error:
        raise RejectedError(
            f"the path {real[:100]!r} cannot be used for a file: {error.strerror}", rule="path"
        ) from None
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "none")
        raise RejectedError(f"a ledger is a regular file, and {real} is {kind}", rule="path")
    return real


def check_own_name(name: str) -> None:
    """Raise ``RejectedError`` for the name of a file next to a ledger: its lock, -wal, -shm or -journal."""
    if name.lower().endswith(OWN_ENDS):
        raise RejectedError(
            f"{name[-100:]!r} cannot be the name of a ledger: {', '.join(OWN_ENDS)} end the names of the files that lie next"
            " to a ledger; name the ledger itself, or choose another name",
            rule="path",
        )


def check_finished(path: StrPath) -> None:
    """Raise ``RejectedError`` for the name of an unfinished file, which an open or an erasure would remove."""
    if path_name(path).lower().endswith(PART):
        raise RejectedError(
            f"{path_name(path)} ends in {PART}, which marks an unfinished file that is removed later; choose another name",
            rule="path",
        )


def _check_parent(parent: str) -> None:
    """Raise an error if the directory is missing, or if other users may write to it and so replace the ledger's file."""
    try:
        status = os.stat(parent)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(f"the directory {parent} does not exist") from None
    if whom := platform.who_may_replace_in(parent, status):
        raise RejectedError(f"the directory {parent} can be written by {whom}; no ledger may lie there", rule="path")
