"""The copy of a whole log, row by row: the rows are verified on the way and written into a fresh file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256

from ledger.core.reads import WRITER, blobs_named, is_for_newer_writers, least_formats
from ledger.domain.errors import DamagedError, LedgerError, StorageError
from ledger.events import LEDGER_STREAM, TYPES, AnyEvent, ContentErased, LedgerCreated, LedgerUpgraded, Unknown
from ledger.log import registry
from ledger.log.envelope import COLUMNS, GENESIS
from ledger.log.event_store import EventStore, LogRow
from ledger.log.inspection import ErasedLater
from ledger.log.integrity import check_chain
from ledger.log.sqlite_files import typed
from ledger.proof.sealed import erasures
from projections.core.projector import check_end
from projections.core.rows import Values

CHUNK, CHUNK_CHARS = 500, 4 * 1024 * 1024  # the most rows that are verified together, and characters of their states
ATTEMPTS = 4  # attempts to copy a log whose texts are erased meanwhile
COMMIT_ROWS = 20_000  # rows copied in one transaction

Progress = Callable[[int, int], None]


# --- erased while it is copied ---------------------------------------------------------------------------------------


class ErasedMeanwhile(Exception):
    """The refusal of a copy because one of its texts was erased after it was copied."""


def erased_since(source: sqlite3.Connection, position: int) -> Iterator[tuple[ErasedLater, AnyEvent]]:
    """Return the erasures after a position that erased texts at or before the position, as stored and decoded."""
    sql = (
        "SELECT position, version, state FROM main.events"
        " WHERE stream = ? AND type = 'ContentErased' AND position > ? ORDER BY version"
    )
    return erasing_before(source.execute(sql, (LEDGER_STREAM, position)), position)


def erasing_before(rows: Iterable[ErasedLater], position: int) -> Iterator[tuple[ErasedLater, AnyEvent]]:
    """Yield the erasures that have a target at or before a position."""
    for row in rows:
        event = registry.decode(row[0], 1, LEDGER_STREAM, row[1], ContentErased.__name__, row[2])
        if any(target.position <= position for target in getattr(event.data, "targets", ())):
            yield row, event


# --- verifying ---------------------------------------------------------------------------------------------------------


def proven(connection: sqlite3.Connection, last: int = 2**62) -> Iterator[list[LogRow]]:
    """Yield the verified rows of a log up to a position, some hundreds at a time.

    Chain, erasures and blobs of the rows are checked.

    Raises:
        StorageError: A position is wrong or cannot be read. The rows before it were yielded.
    """
    position, head = 0, GENESIS
    try:
        erased = erasures(connection)
    except sqlite3.Error:
        erased = None  # a page cannot be read; the walk below finds the first position that is lost
    for rows, failure in _read(connection, last):
        checked = [(*row[:7], row[8]) for row in rows]
        problem = next(check_chain(checked, position=position, head=head, erasures=erased), None)
        if problem is None:
            problem = next((wrong for row in rows if (wrong := _blob_problem(connection, row))), None)
        if problem is not None:
            raise StorageError(f"the log is damaged: {problem}")
        if rows:
            position, head = rows[-1][0], rows[-1][6]
            yield [LogRow(*row) for row in rows]
        if failure is not None:
            text = str(typed(failure)).rpartition(": ")[2]
            raise StorageError(f"the log is damaged: position {position + 1}: cannot be read, {text}") from failure


def _read(connection: sqlite3.Connection, last: int) -> Iterator[tuple[list[Values], sqlite3.Error | None]]:
    """Yield rows by position, with the error that ended the reading early; rows read before the error come too."""
    rows: list[Values] = []
    chars = 0
    try:
        for row in connection.execute(f"SELECT {COLUMNS} FROM events WHERE position <= ? ORDER BY position", (last,)):
            rows.append(row)
            chars += len(row[4]) if isinstance(row[4], str) else 0
            if len(rows) == CHUNK or chars > CHUNK_CHARS:
                yield rows, None
                rows, chars = [], 0
    except sqlite3.Error as error:
        yield rows, error
    else:
        yield rows, None


def _blob_problem(connection: sqlite3.Connection, row: Values) -> str | None:
    """Return the problem of an event's text in the blobs, or None; an erased text is no problem."""
    if '"blob":' not in row[4]:
        return None
    with suppress(LedgerError):
        for blob in blobs_named(*row[:5]):
            try:
                sql = "SELECT data, erased_by FROM blobs WHERE id = ?"
                stored = connection.execute(sql, (blob.blob,)).fetchone()
            except sqlite3.Error:
                return f"position {row[0]}: a text of the event that is stored in the blobs cannot be read"
            if stored is None or (stored[1] is None and sha256(stored[0] or b"").hexdigest() != blob.digest):
                return f"position {row[0]}: a text of the event that is stored in the blobs is missing or was changed"
    return None


def check_log(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """Return the last position and the head of a log that was checked from its start, or raise StorageError."""
    position, head = 0, GENESIS
    check_end(connection)
    for rows in proven(connection):
        position, head = rows[-1].position, rows[-1].head
    return position, head


# --- copying ---------------------------------------------------------------------------------------------------------


def copy_log(
    source: sqlite3.Connection, target: EventStore, progress: Progress | None = None, until: int | None = None
) -> int:
    """Write the rows and blobs of a log after the rows that the target has already, and return the last position.

    The copy ends at ``until``, or before a row that this product does not know, unless an upgrade before the row says
    that a newer version wrote the row.
    """
    named = set[str]()
    total = source.execute("SELECT max(position) FROM events").fetchone()[0] or 0
    with target.transact() as transaction:
        start = committed = transaction.position
        for rows in _explained(proven(source, until or known_end(source))):
            named.update(blob.blob for row in rows for blob in blobs_named(*_event(row)))
            transaction.append_rows(row for row in rows if row.position > start)
            if progress is not None:
                progress(rows[-1].position, until or total)
            if transaction.position - committed >= COMMIT_ROWS:
                committed = transaction.position
                transaction.renew()
        has = {blob for (blob,) in transaction.connection.execute("SELECT id FROM blobs")}
        for blob, data, erased_by in _blobs(source):
            belongs_to_copy = blob in named or (erased_by is not None and erased_by <= transaction.position)
            if blob not in has and (belongs_to_copy or transaction.position == total):
                transaction.put_blob(blob, data, erased_by)
        return transaction.position


def known_end(source: sqlite3.Connection) -> int:
    """Return the last position whose event has a known type.

    No version of the product wrote the rows of unknown types after that position, unless an upgrade in the log says that
    a newer version may write. Then the log has no known end, and the answer is larger than any position.
    """
    sql = f"SELECT position FROM events WHERE type IN ({', '.join('?' * len(TYPES))}) ORDER BY position DESC LIMIT 1"
    with suppress(sqlite3.Error, LedgerError):  # damage is reported later, with its position
        if not is_for_newer_writers(source):
            return int(source.execute(sql, tuple(TYPES)).fetchone()[0])
    return 2**62


def _explained(chunks: Iterable[list[LogRow]]) -> Iterator[list[LogRow]]:
    """Yield the rows before the first row of a type or schema that no version can have written."""
    newer = False
    for rows in chunks:
        for at, row in enumerate(rows):
            if newer:
                break
            try:
                event = registry.decode(row.position, *_event(row))
            except DamagedError:
                event = None
            if event is not None and row.type in (LedgerCreated.__name__, LedgerUpgraded.__name__):
                newer = least_formats(event)[1] > WRITER
            elif event is None or isinstance(event.data, Unknown):
                if at:
                    yield rows[:at]
                return
        yield rows


def _event(row: LogRow) -> tuple[int, str, int, str, str]:
    return row.position, row.stream, row.version, row.type, row.state


def _blobs(source: sqlite3.Connection) -> Iterator[tuple[str, bytes | None, int | None]]:
    try:
        yield from source.execute("SELECT id, data, erased_by FROM blobs ORDER BY rowid")
    except sqlite3.Error as error:
        raise StorageError("the log is damaged: a text that is stored in the blobs cannot be read") from error
