"""Looks for texts in the bytes of files, in a process of its own: ``python scanning.py``, asked through standard input.

A process that has a ledger open must not open its file with anything but SQLite, for closing the file would drop SQLite's
locks; hence the process of its own. Nothing is written but places and numbers. The file is run as it lies, and imports
nothing of the product. Asked ``{"paths": […], "texts": […], "raw": […]}``, the last in hexadecimal digits, it answers
``{"bytes": …, "hits": [[pattern, path, count], …]}``; ``patterns`` numbers the patterns alike on both sides.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Iterator

FORMS = ("utf-8", "json", "utf-16le", "utf-16be", "hex", "base64")
LEAST_BYTES = 7  # a shorter text stands by chance in any file that is large enough
LEAST_LETTERS = 3  # different ones; a run of dashes is nobody's text
PIECE_CHARS = 24  # a text longer than a page lies in pieces, so pieces are looked for
PIECES = 200  # of one text, spread over it
ALL_PIECES = 20_000  # about so many of all texts together, but three of each: a large document is thousands of texts
RAW_BYTES, RAW_PIECES, RAW_DIFFERENT = 24, 8, 12  # of bytes that are no text: length, how many, different ones in each
CHUNK_BYTES = 8 * 1024 * 1024
_WIDTHS = (8, 4)  # of the windows by which patterns are found
_FEW = 16  # so many patterns are looked for one after the other


def patterns(texts: Iterable[str], raw: Iterable[bytes] = ()) -> list[tuple[int, str, bytes]]:
    """(number of the piece of text, form, bytes) of everything to look for, each once; ``raw`` is looked for as it is."""
    found: dict[bytes, tuple[int, str]] = {}
    given = list(texts)
    most = max(3, min(PIECES, ALL_PIECES // max(1, len(given))))
    pieces = dict.fromkeys(piece for text in given for piece in _pieces(text, most))
    for number, piece in enumerate(pieces):
        for form, data in _forms(piece):
            found.setdefault(data, (number, form))
    for number, data in enumerate(dict.fromkeys(piece for each in raw for piece in _raw_pieces(each)), len(pieces)):
        found.setdefault(data, (number, "raw"))
    return [(number, form, data) for data, (number, form) in found.items()]


def _pieces(text: str, most: int) -> Iterator[str]:
    starts = range(0, len(text) - PIECE_CHARS + 1, PIECE_CHARS)
    if len(text) >= 2 * PIECE_CHARS:
        found = [
            text[at : at + PIECE_CHARS] for at in (*starts[:: max(1, len(starts) // most)], len(text) - PIECE_CHARS)
        ]
    else:
        found = [text]
    for piece in map(str.strip, found):  # in a file a blank at its edge may be the length of another row
        if len(piece.encode("utf-8", "replace")) >= LEAST_BYTES and len(set(piece)) >= LEAST_LETTERS:
            yield piece


def _raw_pieces(data: bytes) -> Iterator[bytes]:
    """A page may hold a part of it, and runs of zeros stand everywhere."""
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
    for shift in range(3):  # where a text stands in what was encoded moves its first and last characters
        first = (0, 2, 3)[shift]
        whole = base64.b64encode(b"\0" * shift + plain)
        last = len(whole) - (0, 4, 4)[(shift + len(plain)) % 3]
        if last - first >= LEAST_BYTES:
            yield "base64", whole[first:last]
            yield "base64", whole[first:last].replace(b"+", b"-").replace(b"/", b"_")


class Windows:
    """Patterns of at least ``2 * width - 1`` bytes, found by the aligned window that any place of theirs must hold.

    Of ``width`` windows, each a byte after the other, exactly one is aligned wherever the pattern stands, so a place is
    found once.
    """

    def __init__(self, width: int, found: Iterable[tuple[int, bytes]]) -> None:
        self._width = width
        self._table: dict[
            int, list[tuple[int, int, bytes]]
        ] = {}  # window -> (pattern, where it stands in it, its bytes)
        for number, data in found:
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
    """Where so many bytes begin that have the most different ones among them: a run of blanks stands everywhere."""
    starts = dict.fromkeys((0, (len(data) - size) // 2, len(data) - size))
    return max(starts, key=lambda start: len(set(data[start : start + size])))


class Scan:
    """Everything to look for, found in one walk over a file however much it is."""

    def __init__(self, texts: Iterable[str], raw: Iterable[bytes] = ()) -> None:
        self.patterns = patterns(texts, raw)
        self._longest = max((len(data) for _, _, data in self.patterns), default=0)
        left = [(number, data) for number, (_, _, data) in enumerate(self.patterns)]
        self._windows: list[Windows] = []
        for width in _WIDTHS:
            fit = [each for each in left if len(each[1]) >= 2 * width - 1]
            if len(fit) > _FEW:
                self._windows.append(Windows(width, fit))
                left = [each for each in left if len(each[1]) < 2 * width - 1]
        self._few = left

    def file(self, path: str) -> tuple[int, dict[int, int]]:
        """(bytes read, pattern number -> how often) of one file; one that is gone holds nothing."""
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
        """The pattern of each place in a chunk that ends after its first ``known`` bytes, which were looked at before."""
        for windows in self._windows:
            yield from windows.within(chunk, known)
        for number, data in self._few:
            at = chunk.find(data, max(0, known - len(data) + 1))
            while at >= 0:
                yield number
                at = chunk.find(data, at + 1)


def main() -> None:
    asked = json.loads(sys.stdin.buffer.read())
    scan, read, hits = Scan(asked["texts"], map(bytes.fromhex, asked["raw"])), 0, []
    for path in asked["paths"]:
        size, counts = scan.file(path)
        read += size
        hits += [[number, path, count] for number, count in sorted(counts.items())]
    print(json.dumps({"bytes": read, "hits": hits}))


if __name__ == "__main__":
    main()
