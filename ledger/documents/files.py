"""Reading a document from a file, or refusing to: only text, only regular files, only so large, only from where it says."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from ledger.domain.document import TEXT_BYTES
from ledger.domain.errors import NotFoundError, RejectedError

SUFFIXES = {".md": "markdown", ".markdown": "markdown", ".txt": "text"}  # what is looked for in a directory
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_BOM, _WIDE = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


def read_document(path: str | os.PathLike[str], *, within: str | os.PathLike[str] | None = None) -> tuple[str, str]:
    """(text, absolute path) of a file of UTF-8 text, at most 50 MiB; a byte order mark is left out.

    A symbolic link is followed to a file in the directory where the link lies or below it (with ``within``: in that
    directory or below), and no further. ``NotFoundError`` when there is no file, ``RejectedError`` for a directory, a
    device, a pipe, what is too large, and what is no text.
    """
    name = _name(path)
    shown = f"{name!r:.200}"
    place = os.path.realpath(within if within is not None else os.path.dirname(name))
    real = os.path.realpath(name)
    if os.path.commonpath((place, real)) != place:
        raise RejectedError(
            f"{shown} is a link that leads out of {place}: give the file that it leads to, if it is meant"
        )
    try:
        file = os.open(real, _READ)
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {shown}") from None
    except OSError as error:
        raise RejectedError(f"{shown} cannot be read: {error.strerror or type(error).__name__}") from None
    try:
        _check_kind(file, shown)
        data = _whole(file, shown)
    except OSError as error:
        raise RejectedError(f"{shown} cannot be read: {error.strerror or type(error).__name__}") from None
    finally:
        os.close(file)
    return _text(data, shown), name


def _name(path: str | os.PathLike[str]) -> str:
    given = os.fsdecode(os.fspath(path))
    if not given or "\0" in given:
        raise RejectedError("a path is not blank and holds no NUL character")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise RejectedError(
            f"the name of the file {given!r:.200} is no UTF-8; rename it, or give its text with a path"
        ) from None
    return os.path.abspath(given)


def _check_kind(file: int, shown: str) -> None:
    found = os.fstat(file)
    if stat.S_ISDIR(found.st_mode):
        raise RejectedError(
            f"{shown} is a directory, and a document is one file; add its files one by one (--recursive)"
        )
    if not stat.S_ISREG(found.st_mode):
        raise RejectedError(f"{shown} is a device, a pipe or a socket, and a document is a regular file")
    if found.st_size > TEXT_BYTES:
        raise _too_large(shown, found.st_size)


def _whole(file: int, shown: str) -> bytes:
    parts, size = list[bytes](), 0
    while part := os.read(file, 1024 * 1024):
        parts.append(part)
        size += len(part)
        if size > TEXT_BYTES:  # it may grow while it is read
            raise _too_large(shown, size)
    return b"".join(parts)


def _too_large(shown: str, size: int) -> RejectedError:
    message = f"{shown} takes {size:,} bytes; a document has at most {TEXT_BYTES:,} (50 MiB)"
    return RejectedError(message, rule="size", limit=TEXT_BYTES, requested=size)


def _text(data: bytes, shown: str) -> str:
    if data.startswith(_WIDE):
        raise RejectedError(f"{shown} is UTF-16, and a document is UTF-8; convert it first")
    if (at := data.find(b"\0")) >= 0:
        raise RejectedError(f"{shown} is binary, and no text: it has a NUL byte at {at:,}")
    try:
        return data.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RejectedError(
            f"{shown} is no UTF-8 text: the byte at {error.start:,} is 0x{data[error.start]:02x}; convert it first"
        ) from None


def files_below(directory: str | os.PathLike[str]) -> Iterator[str]:
    """The Markdown and text files of a directory and those below it, in order; hidden ones and linked directories are
    passed over."""
    for place, folders, names in os.walk(directory):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES:
                yield os.path.join(place, name)
