"""Files that somebody hands us to be read line by line: regular ones, and of bounded size however they are packed."""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from ledger.domain.errors import NotFoundError, RejectedError, StorageError

TOTAL_BYTES = 4 * 1024**3
"""Most that is read of one file, after decompression."""
_MARK = b"\xef\xbb\xbf"  # a byte order mark, which is no part of what a file says
_OTHERS = {stat.S_IFDIR: "a directory", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFIFO: "a pipe"}


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """A regular file, unpacked where its name ends in .gz; ``RejectedError`` for a device or a pipe, which may never end."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            kind = _OTHERS.get(stat.S_IFMT(mode), "something else")
            raise RejectedError(f"what is read is a regular file, and {name} is {kind}", rule="path")
        with open(descriptor, "rb") as file:
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file)) if name.endswith(".gz") else file
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {name}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise StorageError(f"{name} cannot be read: {type(error).__name__}") from None


def lines(name: str, line_bytes: int) -> Iterator[tuple[int, str | None]]:
    """Each line that is not blank, with its number; None for one of more bytes, which is passed over and never held.

    Bytes that are no UTF-8 become lone surrogates, which whoever checks the text refuses. ``RejectedError`` for a file of more
    than 4 GiB.
    """
    with opened(name) as file:
        total = number = 0
        while line := file.readline(line_bytes + 1):
            number, total, too_long = number + 1, _counted(name, total + len(line)), len(line) > line_bytes
            while too_long and not line.endswith(b"\n") and (line := file.readline(line_bytes)):
                total = _counted(name, total + len(line))
            if too_long:
                yield number, None
            elif text := line.removeprefix(_MARK if number == 1 else b"").strip():
                yield number, text.decode(errors="surrogateescape")


def whole(name: str, most_bytes: int) -> str | None:
    """All of a file that begins with a ``[``, as text; None for any other. ``RejectedError`` for one of more bytes."""
    with opened(name) as file:
        begin = file.read(64 * 1024).removeprefix(_MARK).lstrip()
        if not begin.startswith(b"["):
            return None
        data = begin + file.read(most_bytes)
        if len(data) > most_bytes:
            raise RejectedError(
                f"{name} has more than {most_bytes:,} bytes after decompression, which one list may not; split it",
                rule="size",
                limit=most_bytes,
            )
        return data.decode(errors="surrogateescape")


def _counted(name: str, total: int) -> int:
    if total > TOTAL_BYTES:
        raise RejectedError(
            f"{name} has more than {TOTAL_BYTES:,} bytes after decompression; split it", rule="size", limit=TOTAL_BYTES
        )
    return total
