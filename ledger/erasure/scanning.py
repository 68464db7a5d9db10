"""A search for texts in the bytes of files, run as a separate process: ``python scanning.py``.

A process that has a ledger open must not open the ledger's file except through SQLite, because closing the file would
drop SQLite's locks. Therefore the search is a process of its own. Its answer holds only numbers and paths. The process runs
without the packages of the product, so this file imports none of them.

The request comes through standard input: ``{"paths": […], "texts": […], "raw": […]}``, with ``raw`` in hexadecimal
digits. The answer is ``{"bytes": …, "hits": [[pattern, path, count], …]}``. ``patterns`` gives the same numbers to the
patterns on both sides.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Iterator

FORMS = ("utf-8", "json", "utf-16le", "utf-16be", "hex", "base64")
LEAST_BYTES = 7  # a shorter text occurs by chance in any large file
LEAST_LETTERS = 3  # the least number of different characters; a run of dashes identifies no text
PIECE_CHARS = 24  # a text longer than a page is stored in pieces, so pieces are looked for
PIECES = 200  # the most pieces of one text, spread over the text
# About the most pieces of all texts together, but at least three of each text: a large document is many texts.
ALL_PIECES = 20_000
RAW_BYTES, RAW_PIECES, RAW_DIFFERENT = 24, 8, 12  # raw bytes: length of a piece, pieces, different bytes
CHUNK_BYTES = 8 * 1024 * 1024
_WIDTHS = (8, 4)  # bytes of the windows by which patterns are found
_FEW = 16  # up to so many patterns are searched one after the other


def patterns(texts: Iterable[str], raw: Iterable[bytes] = ()) -> list[tuple[int, str, bytes]]:
    """Return (number of the piece, form, bytes) of each pattern to look for; ``raw`` bytes have one form, their own."""
    numbered: dict[bytes, tuple[int, str]] = {}
    all_texts = list(texts)
    most = max(3, min(PIECES, ALL_PIECES // max(1, len(all_texts))))
    pieces = dict.fromkeys(piece for text in all_texts for piece in _pieces(text, most))
    for number, piece in enumerate(pieces):
        for form, data in _forms(piece):
            numbered.setdefault(data, (number, form))
    for number, data in enumerate(dict.fromkeys(piece for item in raw for piece in _raw_pieces(item)), len(pieces)):
        numbered.setdefault(data, (number, "raw"))
    return [(number, form, data) for data, (number, form) in numbered.items()]


def _pieces(text: str, most: int) -> Iterator[str]:
    starts = range(0, len(text) - PIECE_CHARS + 1, PIECE_CHARS)
    if len(text) >= 2 * PIECE_CHARS:
        pieces = [
            text[at : at + PIECE_CHARS] for at in (*starts[:: max(1, len(starts) // most)], len(text) - PIECE_CHARS)
        ]
    else:
        pieces = [text]
    for piece in map(str.strip, pieces):  # a blank at the end could be the byte 32 of a row's length in the file
        if len(piece.encode("utf-8", "replace")) >= LEAST_BYTES and len(set(piece)) >= LEAST_LETTERS:
            yield piece


def _raw_pieces(data: bytes) -> Iterator[bytes]:
    """Yield pieces of bytes that are no text, such as a vector.

    A page may hold only a part of the bytes. Pieces with few different bytes are left out, because runs of zeros are
    common.
    """
    whole = (data[start : start + RAW_BYTES] for start in range(0, len(data) - RAW_BYTES + 1, RAW_BYTES))
    distinct = [piece for piece in whole if len(set(piece)) >= RAW_DIFFERENT]
    yield from distinct[:: max(1, len(distinct) // RAW_PIECES)][:RAW_PIECES]


def _forms(text: str) -> Iterator[tuple[str, bytes]]:
    plain = text.encode("utf-8", "replace")
    yield "utf-8", plain
    for ascii_only in (False, True):
        yield "json", json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "replace")
    for form in ("utf-16le", "utf-16be"):
        yield form, text.encode(form.replace("16", "16-"), "replace")
    yield "hex", plain.hex().encode()
    yield "hex", plain.hex().upper().encode()
    for shift in range(3):  # the offset of a text in the encoded bytes changes its first and last characters
        first = (0, 2, 3)[shift]
        whole = base64.b64encode(b"\0" * shift + plain)
        last = len(whole) - (0, 4, 4)[(shift + len(plain)) % 3]
        if last - first >= LEAST_BYTES:
            yield "base64", whole[first:last]
            yield "base64", whole[first:last].replace(b"+", b"-").replace(b"/", b"_")


class Windows:
    """Patterns of at least ``2 * width - 1`` bytes, found by an aligned window of the file.

    A pattern has ``width`` windows, each starting one byte after the previous. Wherever the pattern is in the file,
    exactly one of these windows is aligned, so each place is found once.
    """

    def __init__(self, width: int, patterns: Iterable[tuple[int, bytes]]) -> None:
        self._width = width
        # window -> [(pattern, start of the window in the pattern, bytes of the pattern)]
        self._table: dict[int, list[tuple[int, int, bytes]]] = {}
        for number, data in patterns:
            first = _most_distinct(data, 2 * width - 1)
            for start in range(first, first + width):
                window = int.from_bytes(data[start : start + width], sys.byteorder)
                self._table.setdefault(window, []).append((number, start, data))

    def within(self, chunk: bytes, known: int) -> Iterator[int]:
        table, width = self._table, self._width
        aligned = memoryview(chunk)[: len(chunk) // width * width]
        whole = aligned.cast("Q") if width == 8 else aligned.cast("I")
        if table.keys().isdisjoint(whole):
            return
        for place in [place for place, window in enumerate(whole) if window in table]:
            for number, start, data in table[whole[place]]:
                at = place * width - start
                if at >= 0 and at + len(data) > known and chunk.startswith(data, at):
                    yield number


def _most_distinct(data: bytes, size: int) -> int:
    """Return the start of the ``size`` bytes with the most different values, among three candidates.

    A run of blanks would be found everywhere.
    """
    starts = dict.fromkeys((0, (len(data) - size) // 2, len(data) - size))
    return max(starts, key=lambda start: len(set(data[start : start + size])))


class Scan:
    """The patterns of all texts; one walk over a file finds all of them, whatever their number."""

    def __init__(self, texts: Iterable[str], raw: Iterable[bytes] = ()) -> None:
        self.patterns: list[tuple[int, str, bytes]] = patterns(texts, raw)
        self._longest = max((len(data) for _, _, data in self.patterns), default=0)
        left = [(number, data) for number, (_, _, data) in enumerate(self.patterns)]
        self._windows: list[Windows] = []
        for width in _WIDTHS:
            fit = [pattern for pattern in left if len(pattern[1]) >= 2 * width - 1]
            if len(fit) > _FEW:
                self._windows.append(Windows(width, fit))
                left = [pattern for pattern in left if len(pattern[1]) < 2 * width - 1]
        self._few = left

    def file(self, path: str) -> tuple[int, dict[int, int]]:
        """Return (bytes read, pattern number -> count) of a file; a file that is gone has no hits."""
        counts: dict[int, int] = {}
        size, kept = 0, b""
        try:
            with open(path, "rb") as file:
                while data := file.read(CHUNK_BYTES):
                    size += len(data)
                    chunk = kept + data
                    for number in self.within(chunk, len(kept)):
                        counts[number] = counts.get(number, 0) + 1
                    kept = chunk[-self._longest :] if self._longest else b""
        except FileNotFoundError:
            pass
        return size, counts

    def within(self, chunk: bytes, known: int = 0) -> Iterator[int]:
        """Yield the number of the pattern at each place of a chunk.

        The first ``known`` bytes were searched before, so a place that ends within these bytes is left out.
        """
        for windows in self._windows:
            yield from windows.within(chunk, known)
        for number, data in self._few:
            at = chunk.find(data, max(0, known - len(data) + 1))
            while at >= 0:
                yield number
                at = chunk.find(data, at + 1)


def main() -> None:
    request = json.loads(sys.stdin.buffer.read())
    scan, read, hits = Scan(request["texts"], map(bytes.fromhex, request["raw"])), 0, []
    for path in request["paths"]:
        size, counts = scan.file(path)
        read += size
        hits += [[number, path, count] for number, count in sorted(counts.items())]
    print(json.dumps({"bytes": read, "hits": hits}))


if __name__ == "__main__":
    main()
