"""Export and import of a whole log, row by row."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import IO, Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from ledger import answers
from ledger.domain.errors import RejectedError, StorageError
from ledger.engine import given_files
from ledger.engine.engine import Engine
from ledger.maintenance.copying import check_log
from ledger.store.copies import PASSES
from ledger.store.event_store import EventStore, LogRow, Transaction
from ledger.store.making import free_place, in_the_making
from ledger.store.paths import path_name
from ledger.store.writing import COLUMNS
from projections.core.projector import check_end

Progress = Callable[[int, int], None]
CHUNK, CHUNK_CHARS = 500, 4 * 1024 * 1024  # rows written at once, and characters of their states
LINE_BYTES = 72 * 1024 * 1024  # a text of 50 MiB in base64 has 67
STATE_BYTES = 8 * 1024 * 1024  # of a state as a text of JSON: of 1 MiB, and what erasures and escapes make of it
FIELD_BYTES = 64 * 1024  # of any other field
EXPORT_FORMAT = "memory-ledger/export/1"

Position = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Line(Struct, frozen=True):
    """A line of an export, its fields undecoded: those of a row of the log, of a text that lies apart, and of the first line."""

    position: Raw = Raw()
    stream: Raw = Raw()
    version: Raw = Raw()
    type: Raw = Raw()
    state: Raw = Raw()
    digest: Raw = Raw()
    head: Raw = Raw()
    key: Raw = Raw()
    erased_by: Raw = Raw()
    blob: Raw = Raw()
    data: Raw = Raw()
    format: Raw = Raw()
    events: Raw = Raw()

    def read(self, name: str, kind: Any, most_bytes: int = FIELD_BYTES) -> Any:
        """Return a field decoded; ``ValueError`` for one that is not there, too long or of another kind."""
        raw: Raw = getattr(self, name)
        if not 0 < (size := len(memoryview(raw))) <= most_bytes:
            raise ValueError(f"{name} has {size:,} bytes")
        return msgspec.json.decode(raw, type=kind)


_line = msgspec.json.Decoder(Line).decode
_BAD = (ValueError, RecursionError, msgspec.DecodeError)


def export_file(
    engine: Engine, path: str | os.PathLike[str], *, progress: Progress | None = None
) -> answers.ExportReport:
    """Writes every row of the log and every blob as JSONL, mode 0600; it holds the ledger's secret.

    ``RejectedError`` when the file is there already.
    """
    if engine.store.is_copy:
        raise RejectedError(PASSES)
    name, events, blobs = path_name(path), 0, 0
    making = in_the_making(free_place(path, "an export"), "an export", of=engine.store)
    with making as part, open(part, "w", encoding="utf-8") as file, engine.reading() as connection:
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
    return answers.ExportReport(path=name, events=events, blobs=blobs, bytes_=os.stat(name).st_size)


# --- a whole log -----------------------------------------------------------------------------------------------------


def import_log(
    source: str | os.PathLike[str], path: str | os.PathLike[str], *, progress: Progress | None = None
) -> None:
    """Makes a ledger from an export: the rows unchanged, nothing appended, everything verified, all or nothing.

    ``RejectedError`` where a file is already, or when the export is not whole: the place stays empty then.
    """
    place = free_place(path, "an import")
    lines = iter(_export_lines(path_name(source)))
    header = next(lines, Line())
    if _optional(header, "format", str) != EXPORT_FORMAT:
        raise RejectedError(f"{path_name(source)} is no export of a ledger: its first line does not say so")
    with in_the_making(place, "an import") as part, closing(EventStore.open(part)) as store:
        _write_log(store, lines, _optional(header, "events", int), progress)


def _optional(line: Line, name: str, kind: Any) -> Any:
    try:
        return line.read(name, kind)
    except _BAD:
        return None


def _write_log(store: EventStore, lines: Iterable[Line], total: int | None, progress: Progress | None) -> None:
    if total is None or total < 1:
        raise RejectedError("the export does not name how many events it holds, which is one at the least")
    rows: list[LogRow] = []
    chars = 0
    with store.transact() as transaction:
        for line in lines:
            if len(memoryview(line.blob)):
                _put_blob(transaction, line)
                continue
            rows.append(_log_row(line))
            chars += len(rows[-1].state)
            if len(rows) >= CHUNK or chars > CHUNK_CHARS:
                transaction.append_rows(rows)
                rows, chars = [], 0
                if progress is not None:
                    progress(transaction.position, total)
        transaction.append_rows(rows)
        if transaction.position != total:
            raise RejectedError(f"the export was cut short: it names {total} events and holds {transaction.position}")
        try:
            check_log(transaction.connection)
        except StorageError as error:
            raise RejectedError(f"the export is not what was exported: {error}") from None


def _put_blob(transaction: Transaction, line: Line) -> None:
    try:
        text = memoryview(line.data)
        is_text = len(text) and text[0] == text[-1] == ord('"')
        data = binascii.a2b_base64(text[1:-1], strict_mode=True) if is_text else line.read("data", type(None))
        blob, erased_by = line.read("blob", str), line.read("erased_by", Position | None)
    except _BAD:
        raise RejectedError("the export holds a line that is no text of a log") from None
    transaction.put_blob(blob, data, erased_by)


def _row_line(row: LogRow) -> dict[str, object]:
    key = row.key.hex() if row.key is not None else None
    texts = {"stream": row.stream, "version": row.version, "type": row.type, "state": row.state}
    proof = {"digest": row.digest.hex(), "head": row.head.hex(), "key": key, "erased_by": row.erased_by}
    return {"position": row.position} | texts | proof


def _log_row(line: Line) -> LogRow:
    try:
        key = line.read("key", str | None)
        return LogRow(
            position=line.read("position", Position),
            stream=line.read("stream", str),
            version=line.read("version", Position),
            type=line.read("type", str),
            state=line.read("state", str, STATE_BYTES),
            digest=bytes.fromhex(line.read("digest", str)),
            head=bytes.fromhex(line.read("head", str)),
            key=bytes.fromhex(key) if key is not None else None,
            erased_by=line.read("erased_by", Position | None),
        )
    except _BAD:
        raise RejectedError("the export holds a line that is no row of a log") from None


def _export_lines(source: str) -> Iterator[Line]:
    for number, line in given_files.lines(source, LINE_BYTES):
        if line is None:
            raise RejectedError(
                f"line {number} of the export has more than {LINE_BYTES:,} bytes, and no row has so many"
            )
        try:
            yield _line(line)
        except msgspec.ValidationError:
            raise RejectedError(f"line {number} of the export is no object") from None
        except _BAD:
            raise RejectedError(f"line {number} of the export is no JSON: it was cut short or changed") from None


@contextmanager
def new_file(name: str) -> Iterator[IO[str]]:
    """A file that was not there, readable by its owner only; what an error leaves half-written is removed."""
    try:
        descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise RejectedError(f"{name} is there already; an export never overwrites") from None
    except OSError as error:
        raise StorageError(f"{name} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
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
