"""The files that an importer reads: a file, a folder, or the members of ZIP archives, in bounded memory."""

from __future__ import annotations

import json
import os
import sqlite3
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from math import isfinite
from typing import NamedTuple

import msgspec

from ledger.core import given_files
from ledger.domain.errors import NotFoundError, RejectedError, StorageError
from ledger.log import platform
from ledger.log.paths import StrPath, path_name

LINE_BYTES = 64 * 1024 * 1024
"""The longest line and the longest element of a list that is read (our choice: an image in a transcript takes 15 MB)."""
WHOLE_BYTES = 64 * 1024 * 1024
"""The largest file that is read as a whole (our choice)."""
HEAD_BYTES = 64 * 1024
MOST_FILES = 200_000
FRESH_SECONDS = 600
"""A file that was written later than so many seconds ago may still be in use (our choice)."""
LISTED_NOTES = 1_000
DATABASES = (".db", ".sqlite", ".sqlite3")
MOST_PAIRS, PAIR_CHARS = 20, 250

Object = dict[str, object]


class Part(NamedTuple):
    """A file of a source.

    Attributes:
        name: The path within the source, with slashes; for a source that is one file its name.
        path: The path on the disk: of the file, or of the archive that holds it.
        size: The number of bytes, unpacked.
        member: The name within the archive, or "".
    """

    name: str
    path: str
    size: int
    member: str = ""

    @property
    def stem(self) -> str:
        return self.name.rpartition("/")[2].rpartition(".")[0]

    @property
    def is_fresh(self) -> bool:
        """Return True if the file was written a moment ago, so that another program may still write it."""
        return time.time() - os.stat(self.path).st_mtime < FRESH_SECONDS


class Source:
    """The files below a path, with counts of what was read and of what the importer left out.

    Args:
        path: A file, a folder or a ZIP archive; the archives in a folder are looked into.

    Raises:
        NotFoundError: There is nothing at the path.
        RejectedError: The folder has too many files, or an archive cannot be read.
    """

    def __init__(self, path: StrPath) -> None:
        self.path: str = path_name(path)
        if not os.path.lexists(self.path):
            raise NotFoundError(f"there is no file and no folder {self.path}")
        self.is_folder: bool = os.path.isdir(self.path)
        self.parts: list[Part] = sorted(self._parts())
        self.is_several: bool = self.is_folder or any(part.member for part in self.parts)
        self.total_bytes: int = sum(part.size for part in self.parts)
        self.read_bytes: int = 0
        self.skipped: Counter[str] = Counter[str]()
        self.unknown: Counter[str] = Counter[str]()
        self.notes: list[tuple[str, str]] = []
        self.note_count: int = 0

    # --- what an importer says -----------------------------------------------------------------------------------

    def skip(self, reason: str, count: int = 1) -> None:
        """Count records that are left out."""
        self.skipped[reason] += count

    def meet(self, name: object) -> None:
        """Count a record of a kind that the importer does not know, by the name that the source gives it."""
        self.unknown[clean(str(name))[:100]] += 1

    def note(self, where: str, text: str) -> None:
        """Note something about a place of the source; the first 1,000 notes are listed."""
        self.note_count += 1
        if len(self.notes) < LISTED_NOTES:
            self.notes.append((where, text))

    # --- what an importer reads ----------------------------------------------------------------------------------

    def files(self, *endings: str) -> Iterator[Part]:
        """Yield the files whose names end so, in the order of their names; a source that is one file is always yielded."""
        for part in self.parts:
            if part.name.lower().endswith(endings) or (len(self.parts) == 1 and not self.is_folder):
                yield part

    def blocks(self, part: Part) -> Iterator[bytes]:
        """Yield the bytes of a file, without a byte order mark, and count them."""
        for block in _blocks(part):
            self.read_bytes += len(block)
            yield block

    def head(self, part: Part) -> bytes:
        """Return the first 64 KiB of a file."""
        head = b""
        for block in _blocks(part):
            head += block
            if len(head) >= HEAD_BYTES:
                break
        return head[:HEAD_BYTES]

    def head_objects(self, part: Part) -> list[Object]:
        """Return the JSON objects on the first lines of a file, to tell its kind: 20 lines, 64 KiB or one longer line."""
        if self.head(part).lstrip().startswith(b"["):
            return []
        objects, size = list[Object](), 0
        beginning = islice(_blocks(part), LINE_BYTES // given_files.BLOCK_BYTES)
        for _, line in islice(given_files.lines_of(beginning, LINE_BYTES), 20):
            if line is not None and isinstance(found := decoded(line), dict):
                objects.append(found)
            size += len(line or b"")
            if size >= HEAD_BYTES and objects:
                break
        return objects

    def contains(self, part: Part, marks: tuple[bytes, ...]) -> bool:
        """Return True if a file has one of the marks anywhere in it; the file is read, and not counted as read."""
        before, most = b"", max(map(len, marks))
        for block in _blocks(part):
            joined = before + block
            if any(mark in joined for mark in marks):
                return True
            before = joined[-most:]
        return False

    def lines(self, part: Part) -> Iterator[tuple[int, bytes | bytearray]]:
        """Yield each line that is not blank, with its number; a line of more than 64 MiB is skipped, with a count."""
        for number, line in given_files.lines_of(self.blocks(part), LINE_BYTES):
            if line is None:
                self.skip("a line of more than 64 MiB")
            else:
                yield number, line

    def objects(self, part: Part) -> Iterator[tuple[int, Object]]:
        """Yield the JSON object on each line, with the number of the line; other lines are skipped, with a count."""
        for number, line in self.lines(part):
            if isinstance(found := decoded(line), dict):
                yield number, found
            else:
                self.skip(NO_JSON)

    def elements(self, part: Part) -> Iterator[Object]:
        """Yield the objects of a file that is a JSON list, one at a time; other elements are skipped, with a count.

        Raises:
            RejectedError: The file is no JSON list, and it is the whole source or ends in the middle of its list.
        """
        found = NOTHING
        try:
            for text in given_files.elements_of(self.blocks(part), LINE_BYTES):
                if text is None:
                    self.skip("an element of more than 64 MiB")
                elif isinstance(found := decoded(text), dict):
                    yield found
                else:
                    self.skip("an element that is no JSON object")
        except ValueError as error:
            why = f"{part.name} is no complete JSON list ({error})"
            if found is not NOTHING:
                raise RejectedError(why) from None
            self._leave(part, "a file that is no JSON list", why)

    def json(self, part: Part) -> Iterator[object]:
        """Yield the JSON of a whole file; of several files one that has none, or more than 64 MiB, is left out.

        Raises:
            RejectedError: There is none, and the file is the whole source.
        """
        if part.size > WHOLE_BYTES:
            why = f"{part.name} has more than {WHOLE_BYTES:,} bytes, the most for one JSON object"
            self._leave(part, "a file of more than 64 MiB", why)
        elif (found := decoded(b"".join(self.blocks(part)))) is NOTHING:
            self._leave(part, "a file that is no JSON", f"{part.name} is no JSON")
        else:
            yield found

    def text(self, part: Part) -> Iterator[str]:
        """Yield the text of a whole file; of several files one that has none, or more than 64 MiB, is left out.

        Raises:
            RejectedError: There is none, and the file is the whole source.
        """
        if part.size > WHOLE_BYTES:
            why = f"{part.name} has more than {WHOLE_BYTES:,} bytes, the most for one text"
            self._leave(part, "a file of more than 64 MiB", why)
            return
        try:
            text = b"".join(self.blocks(part)).decode("utf-8")
        except UnicodeDecodeError:
            self._leave(part, "a file that is no text", f"{part.name} is no UTF-8 text")
            return
        yield text

    def _leave(self, part: Part, reason: str, why: str) -> None:
        """Skip a file of several with a note; raise ``RejectedError`` if the file is the whole source."""
        if not self.is_several:
            raise RejectedError(why, rule="kind")
        self.skip(reason)
        self.note(part.name, why)

    # --- databases -----------------------------------------------------------------------------------------------

    def is_database(self, part: Part) -> bool:
        """Return True for an SQLite database that is no member of an archive."""
        return not part.member and self.head(part).startswith(b"SQLite format 3\0")

    def columns(self, part: Part, table: str) -> set[str]:
        """Return the names of the columns of a table of an SQLite database; none if there is no such table."""
        if not self.is_database(part):
            return set()
        with self._database(part) as database:
            tables = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
            if database.execute(tables, (table,)).fetchone() is None:
                return set()
            return {str(row["name"]) for row in database.execute(f'PRAGMA table_info("{table}")')}

    def rows(self, part: Part, table: str, order: str) -> Iterator[Object]:
        """Yield the rows of a table of an SQLite database, in an order that is SQL."""
        yield from self.select(part, f'SELECT * FROM "{table}" ORDER BY {order}')
        self.read_bytes += part.size

    def select(self, part: Part, sql: str, *values: object) -> Iterator[Object]:
        """Yield the rows of a query of an SQLite database, one at a time; they do not count as read."""
        with self._database(part) as database:
            for row in database.execute(sql, values):
                yield dict(row)

    def count(self, part: Part, table: str, condition: str = "1") -> int:
        """Return the number of rows of a table of an SQLite database, 0 without such a table."""
        if not self.columns(part, table):
            return 0
        return next(
            int(str(row["n"])) for row in self.select(part, f'SELECT count(*) AS n FROM "{table}" WHERE {condition}')
        )

    def meet_tables(self, part: Part, known: frozenset[str]) -> None:
        """Count the rows of the tables of an SQLite database that the importer does not know, without those of text indexes."""
        sql = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
        tables = {str(row["name"]): str(row["sql"]) for row in self.select(part, sql)}
        indexes = tuple(f"{name}_" for name, text in tables.items() if "VIRTUAL" in text.upper().split()[:2])
        for name, text in tables.items():
            is_index = "VIRTUAL" in text.upper().split()[:2] or name.startswith(indexes)
            if name not in known and not is_index and (count := self.count(part, name)):
                self.unknown[clean(f"table {name}")[:100]] += count

    @contextmanager
    def _database(self, part: Part) -> Iterator[sqlite3.Connection]:
        """Open a database for reading; one that nobody writes is read without files beside it."""
        query = "mode=ro" if os.path.exists(f"{part.path}-wal") else "immutable=1"
        try:
            with closing(sqlite3.connect(platform.file_uri(os.path.abspath(part.path), query), uri=True)) as database:
                database.row_factory = sqlite3.Row
                database.text_factory = lambda text: text.decode("utf-8", "replace")
                yield database
        except sqlite3.DatabaseError as error:
            raise StorageError(f"{part.name} cannot be read as an SQLite database: {error}") from None

    # --- files ---------------------------------------------------------------------------------------------------

    def _parts(self) -> Iterator[Part]:
        if not self.is_folder:
            name = os.path.basename(self.path)
            is_archive = os.path.isfile(self.path) and zipfile.is_zipfile(self.path)
            yield from _members(self.path, "") if is_archive else [Part(name, self.path, os.path.getsize(self.path))]
            return
        count = 0
        for folder, folders, names in os.walk(self.path):
            folders[:] = [name for name in folders if not name.startswith(".")]
            count += len(names)
            if count > MOST_FILES:
                raise RejectedError(f"{self.path} has more than {MOST_FILES:,} files in it; name a folder further down")
            for name in names:
                path = os.path.join(folder, name)
                if name.startswith(".") or os.path.islink(path) or not os.path.isfile(path):
                    continue
                within = os.path.relpath(path, self.path).replace(os.sep, "/")
                if name.lower().endswith(".zip"):
                    yield from _members(path, f"{within}/")
                else:
                    yield Part(within, path, os.path.getsize(path))


NOTHING = object()
"""The result for a text that is no JSON; None is the JSON null."""
NO_JSON = "a line that is no JSON object"


def decoded(text: bytes | bytearray) -> object:
    """Return the JSON of a text, lone surrogates included, or ``NOTHING``."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(text)
    try:  # reads lone surrogates and NaN
        return json.loads(text)
    except (ValueError, RecursionError):
        return NOTHING


def pairs(values: Mapping[str, object]) -> dict[str, str | int | float | bool]:
    """Return the pairs that fit into metadata: of lists and objects their JSON, without empty and very long values."""
    found = dict[str, str | int | float | bool]()
    for key, value in list(values.items())[:MOST_PAIRS]:
        if isinstance(value, list | dict):
            value = json.dumps(value, ensure_ascii=False, default=str) if value else None
        if isinstance(value, str) and value.strip() and len(value) <= PAIR_CHARS:
            found[clean(key)[:PAIR_CHARS]] = clean(value)
        elif isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value)):
            found[clean(key)[:PAIR_CHARS]] = value
    return found


def utc(value: object) -> object:
    """Return a time in text as a moment, in UTC if it has no offset, as databases keep it; anything else as it is."""
    try:
        time = datetime.fromisoformat(value.strip()) if isinstance(value, str) and len(value.strip()) > 10 else None
    except ValueError:
        return value
    if time is None:
        return value
    return time.replace(tzinfo=UTC) if time.utcoffset() is None else time


def json_list(value: object) -> list[object]:
    """Return a list, or the list that a text of JSON is; [] for anything else."""
    found = decoded(value.encode("utf-8", "replace")) if isinstance(value, str) else value
    return found if isinstance(found, list) else []


def json_object(value: object) -> Object:
    """Return an object, or the object that a text of JSON is; {} for anything else."""
    found = decoded(value.encode("utf-8", "replace")) if isinstance(value, str) else value
    return found if isinstance(found, dict) else {}


def text_of(value: object) -> str:
    """Return a value that is a text without blanks around it; "" for anything else."""
    return value.strip() if isinstance(value, str) else ""


def number_of(value: object) -> float | None:
    """Return a finite number, also from a text of digits; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None


def clean(text: str) -> str:
    """Return a text with the sign for an unknown character in place of each lone surrogate."""
    with suppress(UnicodeEncodeError):
        text.encode("utf-8")
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _members(path: str, prefix: str) -> Iterator[Part]:
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.is_dir() and not info.filename.startswith("__MACOSX/"):
                    yield Part(prefix + info.filename, path, info.file_size, info.filename)
    except (zipfile.BadZipFile, OSError, NotImplementedError) as error:
        raise RejectedError(f"{path} cannot be read as a ZIP archive ({error})") from None


def _blocks(part: Part) -> Iterator[bytes]:
    if not part.member:
        yield from given_files.blocks(part.path)
        return
    try:
        with zipfile.ZipFile(part.path) as archive, archive.open(part.member) as file:
            yield from given_files.blocks_of(file, part.name)
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, zlib.error, EOFError, KeyError) as error:
        raise StorageError(f"{part.name} in {part.path} cannot be read: {type(error).__name__}") from None
