"""Export and import of a whole log, row by row."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import IO

import msgspec

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
CHUNK = 500  # rows written at once
LINE_BYTES = 128 * 1024 * 1024  # a text of 50 MiB in base64 has 67
EXPORT_FORMAT = "memory-ledger/export/1"


_HEX = ("digest", "head", "key")  # columns of a row that are bytes


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
    header = next(lines, None)
    if not isinstance(header, dict) or header.get("format") != EXPORT_FORMAT:
        raise RejectedError(f"{path_name(source)} is no export of a ledger: its first line does not say so")
    with in_the_making(place, "an import") as part, closing(EventStore.open(part)) as store:
        _write_log(store, lines, header.get("events"), progress)


def _write_log(store: EventStore, lines: Iterable[dict[str, object]], total: object, progress: Progress | None) -> None:
    if isinstance(total, bool) or not isinstance(total, int) or total < 1:
        raise RejectedError("the export does not name how many events it holds, which is one at the least")
    rows: list[LogRow] = []
    with store.transact() as transaction:
        for line in lines:
            if "blob" in line:
                _put_blob(transaction, line)
                continue
            rows.append(_log_row(line))
            if len(rows) >= CHUNK:
                transaction.append_rows(rows)
                rows = []
                if progress is not None:
                    progress(transaction.position, total)
        transaction.append_rows(rows)
        if transaction.position != total:
            raise RejectedError(f"the export was cut short: it names {total} events and holds {transaction.position}")
        try:
            check_log(transaction.connection)
        except StorageError as error:
            raise RejectedError(f"the export is not what was exported: {error}") from None


def _put_blob(transaction: Transaction, line: dict[str, object]) -> None:
    try:
        data = base64.b64decode(line["data"], validate=True) if line["data"] is not None else None  # type: ignore[arg-type]
        blob = msgspec.convert((line["blob"], data, line["erased_by"]), tuple[str, bytes | None, int | None])
    except (KeyError, TypeError, ValueError):
        raise RejectedError("the export holds a line that is no text of a log") from None
    transaction.put_blob(*blob)


def _row_line(row: LogRow) -> dict[str, object]:
    key = row.key.hex() if row.key is not None else None
    texts = {"stream": row.stream, "version": row.version, "type": row.type, "state": row.state}
    proof = {"digest": row.digest.hex(), "head": row.head.hex(), "key": key, "erased_by": row.erased_by}
    return {"position": row.position} | texts | proof


def _log_row(line: dict[str, object]) -> LogRow:
    try:
        held = {name: bytes.fromhex(line[name]) for name in _HEX if line[name] is not None}  # type: ignore[arg-type]
        return msgspec.convert(line | held, LogRow)
    except (KeyError, TypeError, ValueError):
        raise RejectedError("the export holds a line that is no row of a log") from None


def _export_lines(source: str) -> Iterator[dict[str, object]]:
    for number, line in given_files.lines(source, LINE_BYTES):
        if line is None:
            raise RejectedError(
                f"line {number} of the export has more than {LINE_BYTES:,} bytes, and no row has so many"
            )
        yield _parsed(line, number)


def _parsed(line: str, number: int) -> dict[str, object]:
    """The object that a line holds, decoded strictly: half a character, NaN and bytes that are no UTF-8 are no JSON."""
    try:
        value = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        raise RejectedError(f"line {number} of the export is no JSON: it was cut short or changed") from None
    if not isinstance(value, dict):
        raise RejectedError(f"line {number} of the export is no object")
    return value


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
