"""Readers of files that a user passes in, by line or by element, in bounded memory even if they are compressed."""

from __future__ import annotations

import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO, cast

from ledger.domain.errors import NotFoundError, RejectedError, StorageError
from ledger.log import platform

TOTAL_BYTES = 4 * 1024**3
"""The most bytes that are read of one file, after decompression."""
BLOCK_BYTES = 64 * 1024
_MARK = b"\xef\xbb\xbf"  # a byte order mark, which does not belong to the text
_MARKS = re.compile(rb'\\.|["\[\]{},]', re.DOTALL)  # the bytes that separate the elements of a JSON list
_OTHERS = {stat.S_IFDIR: "a directory", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFIFO: "a pipe"}


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """Open a regular file, unpacked if its name ends in .gz; raise ``RejectedError`` for a device or pipe without an end."""
    try:
        descriptor = os.open(name, platform.READ_FLAGS)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            kind = _OTHERS.get(stat.S_IFMT(mode), "another kind of file")
            raise RejectedError(f"only a regular file is read, and {name} is {kind}", rule="path")
        with open(descriptor, "rb") as file:
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file)) if name.endswith(".gz") else file
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {name}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise StorageError(f"{name} cannot be read: {type(error).__name__}") from None


def lines(name: str, line_bytes: int) -> Iterator[tuple[int, bytes | bytearray | None]]:
    """Yield each line that is not blank, with its number; None for a longer line, which is skipped and never held.

    Raises:
        RejectedError: The file has more than 4 GiB.
    """
    return lines_of(blocks(name), line_bytes)


def lines_of(blocks: Iterable[bytes], line_bytes: int) -> Iterator[tuple[int, bytes | bytearray | None]]:
    """Yield each line of blocks that is not blank, as ``lines`` does."""
    number, part, is_long = 0, bytearray(), False
    for block in blocks:
        *complete, rest = block.split(b"\n")
        for piece in complete:
            number += 1
            if is_long or len(part) + len(piece) > line_bytes:
                yield number, None
            elif not part:
                if not _is_blank(piece):
                    yield number, piece
            else:
                part += piece  # in place, because a line may have many MB
                if not _is_blank(part):
                    yield number, part
            part, is_long = bytearray(), False
        is_long = is_long or len(part) + len(rest) > line_bytes
        part = bytearray() if is_long else part
        part += b"" if is_long else rest
    if is_long or not _is_blank(part):
        yield number + 1, None if is_long else part


def _is_blank(line: bytes | bytearray) -> bool:
    return not line or line.isspace()


def is_list(name: str) -> bool:
    """Return True if a file begins with a ``[``."""
    return next(blocks(name), b"").lstrip().startswith(b"[")


def elements(name: str, element_bytes: int) -> Iterator[bytes | bytearray | None]:
    """Yield the JSON text of each element of a file that is a list; None for a longer element, which is skipped.

    Raises:
        ValueError: The file is not a list. The caller checks the text of each element.
        RejectedError: The file has more than 4 GiB.
    """
    return elements_of(blocks(name), element_bytes)


def elements_of(blocks: Iterable[bytes], element_bytes: int) -> Iterator[bytes | bytearray | None]:
    """Yield the JSON text of each element of a list that comes in blocks, as ``elements`` does."""
    depth, count, is_over, in_text, is_escaped = 0, 0, False, False, False
    part, is_long = bytearray(), False  # of the element that the last block left unfinished
    for block in blocks:
        begin, end = 0, int(is_escaped)  # the start of the element in this block, and the end of the last mark
        for hit in _MARKS.finditer(block, end) if not is_over else ():
            mark, end = hit[0], hit.end()
            if in_text:
                in_text = mark != b'"'
            elif mark == b'"':
                in_text = True
            elif mark in (b"[", b"{"):
                depth += 1
                if depth == 1:
                    if mark == b"{" or block[: hit.start()].strip():
                        raise ValueError("not a list")
                    begin = end
            elif depth == 0:
                raise ValueError("not a list")
            elif mark in (b"]", b"}", b","):
                depth -= mark != b","
                if depth > (mark == b","):
                    continue
                piece, begin = block[begin : hit.start()], end
                is_over = mark != b","
                if is_long or len(part) + len(piece) > element_bytes:
                    yield None
                elif part:
                    part += piece
                    yield part
                elif text := piece.strip():
                    yield text
                elif mark != b"]" or count:
                    raise ValueError("an element is missing")
                part, is_long, count = bytearray(), False, count + 1
                if is_over:
                    if mark == b"}":
                        raise ValueError("a bracket is missing")
                    break
        is_escaped = block.endswith(b"\\") and end < len(block)
        if depth == 0 and block[begin:].strip():
            raise ValueError("not a list")
        piece = block[begin:] if part or depth == 0 else block[begin:].lstrip()
        is_long = is_long or len(part) + len(piece) > element_bytes
        part = bytearray() if is_long or depth == 0 else part
        part += b"" if is_long or depth == 0 else piece
    if not is_over:
        raise ValueError("cut short")


def blocks(name: str) -> Iterator[bytes]:
    """Yield the bytes of a file block by block; raise ``RejectedError`` for a file of more than 4 GiB."""
    with opened(name) as file:
        yield from blocks_of(file, name)


def blocks_of(file: IO[bytes], name: str) -> Iterator[bytes]:
    """Yield the bytes of an open file as ``blocks`` does; ``name`` is its name in an error."""
    total = 0
    while block := file.read(BLOCK_BYTES):
        block = block.removeprefix(_MARK) if not total else block
        total += len(block)
        if total > TOTAL_BYTES:
            raise RejectedError(
                f"{name} has more than {TOTAL_BYTES:,} bytes after decompression, the most that is read; split it",
                rule="size",
                limit=TOTAL_BYTES,
            )
        yield block
