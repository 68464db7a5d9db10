"""Notes in the lock file about the ledger's file: a checkpoint has begun, or how the last one left the file.

SQLite writes the file itself in checkpoints alone. So a file whose size or time is not the noted one was written by
somebody else. The notes are read without the lock: a note that is the same before and after a look at the file, and says
that no checkpoint is under way, holds for that look.
"""

from __future__ import annotations

import os
import zlib
from typing import NamedTuple

LINE_BYTES = 256  # of a note, always, so that it is written over in place
_VERSION = "1"

Written = tuple[int, int]  # the size and the mtime_ns of a file


class Note(NamedTuple):
    """One note. Its number is another one than that of the note before."""

    number: int
    turn: int  # another one after an open that met a file which was not as noted
    begun: bool  # a checkpoint, whose end was not noted
    written: Written
    first: bytes = b""  # the head after the first event in the file itself, where that is known
    position: int = 0  # of the last event in the file itself, where a checkpoint came to its end
    head: bytes = b""  # ... after that event


def read(path: str) -> Note | None:
    """Return the note in a lock file; None where there is none that is whole."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _parsed(os.pread(descriptor, LINE_BYTES, 0))
    except OSError:
        return None
    finally:
        os.close(descriptor)


def write(path: str, note: Note, *, durable: bool) -> None:
    """Write a note into a lock file that is there. Whoever calls holds the lock."""
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
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, line.encode(), 0)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def written(path: str) -> Written:
    """Return the size of a file and the time at which it was written; zeros where there is none."""
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
