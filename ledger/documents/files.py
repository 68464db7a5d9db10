"""The reading of a document from a file; only regular text files in the expected directory are accepted."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from ledger.documents.rules import TEXT_BYTES
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.log import platform

SUFFIXES = {".md": "markdown", ".markdown": "markdown", ".txt": "text"}  # only these files of a directory are added
_BOM, _WIDE = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")


def read_document(path: str | os.PathLike[str], *, within: str | os.PathLike[str] | None = None) -> tuple[str, str]:
    """Return (text, absolute path) of a file of UTF-8 text, at most 50 MiB, without its byte order mark.

    A symbolic link may lead to a file in the link's own directory or below; with ``within``, in that directory or below.

    Raises:
        NotFoundError: There is no such file.
        RejectedError: The path is a directory, a device, a pipe or a link out of the directory; or the file is too large, or
            is not text.
    """
    name = _name(path)
    shown = f"{name!r:.200}"
    place = os.path.realpath(within if within is not None else os.path.dirname(name))
    real = os.path.realpath(name)
    if os.path.commonpath((place, real)) != place:
        raise RejectedError(f"{shown} is a link that leads out of {place}: add the file that the link leads to instead")
    try:
        file = os.open(real, platform.READ_FLAGS | platform.OWN_FLAGS)
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
    name = os.fsdecode(os.fspath(path))
    if not name or "\0" in name:
        raise RejectedError(f"a path must not be blank or contain a NUL character, and {name!r:.60} is or does")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise RejectedError(
            f"the name of the file {name!r:.200} is not UTF-8; rename the file, or add its text with path="
        ) from None
    return os.path.abspath(name)


def _check_kind(file: int, shown: str) -> None:
    status = os.fstat(file)
    if stat.S_ISDIR(status.st_mode):
        raise RejectedError(
            f"{shown} is a directory, but a document is one file; add its files one by one (--recursive)"
        )
    if not stat.S_ISREG(status.st_mode):
        raise RejectedError(f"{shown} is a device, a pipe or a socket, but a document is a regular file")
    if status.st_size > TEXT_BYTES:
        raise _too_large(shown, status.st_size)


def _whole(file: int, shown: str) -> bytes:
    parts, size = list[bytes](), 0
    while part := os.read(file, 1024 * 1024):
        parts.append(part)
        size += len(part)
        if size > TEXT_BYTES:  # the file may grow while it is read
            raise _too_large(shown, size)
    return b"".join(parts)


def _too_large(shown: str, size: int) -> RejectedError:
    message = f"{shown} has {size:,} bytes; a document has at most {TEXT_BYTES:,} (50 MiB)"
    return RejectedError(message, rule="size", limit=TEXT_BYTES, requested=size)


def _text(data: bytes, shown: str) -> str:
    if data.startswith(_WIDE):
        raise RejectedError(f"{shown} is UTF-16, but a document is UTF-8; convert the file first")
    if (at := data.find(b"\0")) >= 0:
        raise RejectedError(f"{shown} is binary, not text: the byte at {at:,} is NUL")
    try:
        return data.removeprefix(_BOM).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RejectedError(
            f"{shown} is not UTF-8 text: the byte at {error.start:,} is 0x{data[error.start]:02x}; convert the file first"
        ) from None


def files_below(directory: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the Markdown and text files of a directory and below, in order.

    Hidden files and linked directories are left out.
    """
    for place, folders, names in os.walk(directory):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in SUFFIXES:
                yield os.path.join(place, name)
