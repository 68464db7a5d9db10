"""The export and import of a whole log, row by row."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import IO, Annotated

import msgspec
from msgspec import Meta, Raw, Struct

from ledger.care import answers
from ledger.care.copying import check_log
from ledger.core import given_files
from ledger.core.engine import Engine
from ledger.domain.errors import RejectedError, StorageError
from ledger.log import platform
from ledger.log.envelope import COLUMNS
from ledger.log.event_store import EventStore, LogRow, Transaction
from ledger.log.inspection import COPY_PASSES
from ledger.log.integrity import wrong_keys
from ledger.log.lease import free_place, in_the_making
from ledger.log.paths import path_name
from projections.core.projector import check_end

Progress = Callable[[int, int], None]
CHUNK, CHUNK_CHARS = 500, 4 * 1024 * 1024  # rows written at once, and characters of their states
LINE_BYTES = 72 * 1024 * 1024  # a text of 50 MiB has 67 MiB in base64
STATE_BYTES = 8 * 1024 * 1024  # of a state as JSON text: 1 MiB, longer with erasures and escapes
FIELDS_BYTES = 64 * 1024  # of all other fields
EXPORT_FORMAT = "memory-ledger/export/1"

Position = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class _Header(Struct):
    """The first line of an export."""

    format: str
    events: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None


class _Row(Struct):
    """A row of the log as a line of an export."""

    position: Position
    stream: str
    version: Position
    type: str
    state: str
    digest: str
    head: str
    key: str | None
    erased_by: Position | None


class _ExportedText(Struct):
    """A text from the blobs as a line of an export; ``data`` is in base64."""

    blob: str
    data: Raw
    erased_by: Position | None


class _Parts(Struct):
    """The parts of a line that may be long, undecoded."""

    state: Raw = Raw()
    data: Raw = Raw()
    blob: Raw = Raw()


Line = bytes | bytearray
_parts, _header = msgspec.json.Decoder(_Parts).decode, msgspec.json.Decoder(_Header).decode
_row, _text = msgspec.json.Decoder(_Row).decode, msgspec.json.Decoder(_ExportedText).decode
_BAD = (ValueError, RecursionError, msgspec.DecodeError)


def export_file(
    engine: Engine, path: str | os.PathLike[str], *, progress: Progress | None = None
) -> answers.ExportReport:
    """Write every row of the log and every blob as JSONL, with mode 0600; the file holds the ledger's secret.

    Raises:
        RejectedError: Something exists at the path, or the ledger is a copy for reading.
    """
    if engine.store.is_copy:
        raise RejectedError(COPY_PASSES)
    place, events, blobs = free_place(path, "an export"), 0, 0
    making = in_the_making(place, "an export", of=engine.store)
    with making as part, open(part, "w", encoding="utf-8", newline="\n") as file, engine.reading() as connection:
        check_end(connection)
        total = connection.execute("SELECT max(position) FROM events").fetchone()[0]
        file.write(_json_line({"format": EXPORT_FORMAT, "ledger": engine.created.ledger_id, "events": total}))
        for row in connection.execute(f"SELECT {COLUMNS} FROM events ORDER BY position"):
            file.write(_json_line(_row_line(LogRow(*row))))
            events += 1
            if progress is not None and events % 1_000 == 0:
                progress(events, total)
        for blob, data, erased_by in connection.execute("SELECT id, data, erased_by FROM blobs ORDER BY id"):
            text = base64.b64encode(data).decode() if data is not None else None
            file.write(_json_line({"blob": blob, "data": text, "erased_by": erased_by}))
            blobs += 1
    return answers.ExportReport(path=path_name(path), events=events, blobs=blobs, bytes_=os.stat(place).st_size)


# --- a whole log -----------------------------------------------------------------------------------------------------


def import_log(
    source: str | os.PathLike[str], path: str | os.PathLike[str], *, progress: Progress | None = None
) -> None:
    """Make a ledger from an export: the rows unchanged, nothing appended, everything verified, all or nothing.

    Raises:
        RejectedError: Something exists at the path, or the export is incomplete or changed. The path stays empty then.
    """
    place = free_place(path, "an import")
    lines = iter(_export_lines(path_name(source)))
    try:
        header = _header(next(lines, (0, b""))[1])
    except _BAD:
        header = _Header("")
    if header.format != EXPORT_FORMAT:
        raise RejectedError(
            f"{path_name(source)} is no export of a ledger: its first line is not the header of an export"
        )
    with in_the_making(place, "an import") as part, closing(EventStore.open(part)) as store:
        _write_log(store, lines, header.events, progress)


def _write_log(
    store: EventStore, lines: Iterable[tuple[int, Line]], total: int | None, progress: Progress | None
) -> None:
    if total is None:
        raise RejectedError("the header of the export does not give the number of events, which is at least 1")
    rows: list[LogRow] = []
    chars = 0
    with store.transact() as transaction:
        for number, line in lines:
            if (row := _log_row(transaction, number, line)) is None:
                continue
            rows.append(row)
            chars += len(row.state)
            if len(rows) >= CHUNK or chars > CHUNK_CHARS:
                transaction.append_rows(rows)
                rows, chars = [], 0
                if progress is not None:
                    progress(transaction.position, total)
        transaction.append_rows(rows)
        if transaction.position != total:
            raise RejectedError(
                f"the export was cut short: its header names {total} events, but it holds {transaction.position}"
            )
        try:
            check_log(transaction.connection)
            for problem in wrong_keys(transaction.connection):
                raise StorageError(problem)
        except StorageError as error:
            raise RejectedError(f"the export was changed after it was written: {error}") from None


def _log_row(transaction: Transaction, number: int, line: Line) -> LogRow | None:
    """Return the row of a line, or None for a blob's text, which is written at once."""
    try:
        parts = _parts(line)
        data, state_bytes = memoryview(parts.data), len(memoryview(parts.state))
        if state_bytes > STATE_BYTES or len(line) - len(data) - state_bytes > FIELDS_BYTES:
            raise ValueError("too long")
        if len(memoryview(parts.blob)):
            text = _text(line)
            is_null = len(data) == 4 and bytes(data) == b"null"
            if not is_null and not data[0] == data[-1] == ord('"'):
                raise ValueError("no text")
            content = None if is_null else binascii.a2b_base64(data[1:-1], strict_mode=True)
            transaction.put_blob(text.blob, content, text.erased_by)
            return None
        row = _row(line)
        proof = {name: bytes.fromhex(getattr(row, name)) for name in ("digest", "head")}
        key = bytes.fromhex(row.key) if row.key is not None else None
    except _BAD:
        raise RejectedError(
            f"line {number} of the export is neither a row nor a text of a log: the line was cut short or changed"
        ) from None
    return LogRow(row.position, row.stream, row.version, row.type, row.state, **proof, key=key, erased_by=row.erased_by)


def _row_line(row: LogRow) -> dict[str, object]:
    key = row.key.hex() if row.key is not None else None
    texts = {"stream": row.stream, "version": row.version, "type": row.type, "state": row.state}
    proof = {"digest": row.digest.hex(), "head": row.head.hex(), "key": key, "erased_by": row.erased_by}
    return {"position": row.position} | texts | proof


def _export_lines(source: str) -> Iterator[tuple[int, Line]]:
    for number, line in given_files.lines(source, LINE_BYTES):
        if line is None:
            raise RejectedError(f"line {number} of the export has more than {LINE_BYTES:,} bytes, more than any row")
        yield number, line


@contextmanager
def new_file(name: str) -> Iterator[IO[str]]:
    """Create a file that only its owner can read; on an error remove it, and refuse a file that exists."""
    try:
        descriptor = platform.new_private_file(name)
    except FileExistsError:
        raise RejectedError(f"{name} is there already; an export never overwrites") from None
    except OSError as error:
        raise StorageError(f"{name} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        os.unlink(name)
        raise StorageError(f"{name} could not be written: {error.strerror}") from None
    except BaseException:
        os.unlink(name)
        raise


def _json_line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
