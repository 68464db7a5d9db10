"""Notes in the lock file about the ledger's file: that a checkpoint began, or the state in which the last one left the file.

SQLite writes the file itself only in checkpoints. So if the file's size or time differs from the note, another program wrote
to the file. The notes are read without the lock: a note that is the same before and after a look at the file, and that
tells of no running checkpoint, holds for that look.
"""

from __future__ import annotations

import os
import zlib
from typing import NamedTuple

from ledger.log import platform

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


def read(path: str) -> Note | None:
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


def write(path: str, note: Note, *, durable: bool) -> None:
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
