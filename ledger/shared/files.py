"""A file whose log becomes the shared one, and a file that goes back to the shared log after it diverged."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing

from ledger.care import answers
from ledger.care.opening import OpenRequest, open_engine
from ledger.core.reads import blobs_named
from ledger.domain.errors import ConflictError, RejectedError
from ledger.log import registry
from ledger.log.envelope import COLUMNS, GENESIS, LogRow
from ledger.log.event_store import EventStore
from ledger.log.file_lock import lock_of
from ledger.log.paths import StrPath, path_name
from ledger.log.shared.port import (
    Publication,
    ReplicaRow,
    SharedBlob,
    SharedLog,
    Tip,
    read_replica_row,
    replica_row_of,
    write_replica_row,
)
from projections.views import erasures

CHUNK_ROWS, CHUNK_BYTES = 1_000, 4 * 1024 * 1024  # of one commit to the shared log
LOST = ".lost"  # ends the name of a file that was kept when its machine went back to the shared log


# --- a file's log becomes the shared one ---------------------------------------------------------------------------------


def share_file(path: StrPath, log: SharedLog) -> int:
    """Write the log of a file to an empty shared log, make the file the first machine's copy, and return the log's end.

    A call that was ended early goes on with the next call.

    Raises:
        RejectedError: The file follows a shared log already, or the tenant has a log with other events.
        ConflictError: Another machine writes to the shared log meanwhile.
    """
    path = path_name(path)
    with closing(EventStore.open(path, readonly=True)) as store, store.snapshot() as connection:
        if (row := read_replica_row(connection)) is not None:
            raise RejectedError(
                f"{path} follows the shared log of the tenant {row.tenant!r:.60} already", rule="shared"
            )
    engine = open_engine(path, OpenRequest(create=False))
    try:
        with engine.store.transact() as transaction:
            connection = transaction.connection
            _send(path, connection, Tip(transaction.position, transaction.head), log)
            pending = erasures.pending(connection)
            erased_through = pending[0].position - 1 if pending else transaction.position
            own = replica_row_of(path, ReplicaRow(log.tenant, log.machine, erased_through))
            write_replica_row(connection, own)
            log.file = own.file
            position = transaction.position
    finally:
        engine.close()
    log.report(position, erased_through)
    return position


def _send(path: str, connection: sqlite3.Connection, end: Tip, log: SharedLog) -> None:
    """Write the rows that the shared log does not have, each chunk in a commit of its own."""
    there = log.tail(end.position, 1)
    if there.head_there is not None and there.head_there != end.head:
        raise _other_events(path, log)
    for chunk in _chunks(connection, there.tip.position):
        before = chunk.before
        tail = log.lock(before.position, before.head, 1)
        if tail.tip != before:
            log.release()
            if tail.head_there != before.head:
                raise _other_events(path, log)
            raise ConflictError(
                f"another machine writes to the log of the tenant {log.tenant!r:.60} meanwhile: call share again"
            )
        log.publish(chunk)


def _other_events(path: str, log: SharedLog) -> RejectedError:
    return RejectedError(
        f"the tenant {log.tenant!r:.60} has a shared log with other events than {path}: name a tenant without a log",
        rule="tenant",
    )


def _chunks(connection: sqlite3.Connection, behind: int) -> Iterator[Publication]:
    """Yield the log behind a position in parts, each blob with the event that names it."""
    before = Tip(behind, _head(connection, behind))
    sent = _named(connection, behind)
    unnamed = _unnamed(connection) if not behind else ()
    rows: list[LogRow] = []
    blobs = [SharedBlob(blob, 1, data, by) for blob, data, by in unnamed]
    size = sum(len(blob.data or b"") for blob in blobs)
    sql = f"SELECT {COLUMNS} FROM events WHERE position > ? ORDER BY position"
    for row in (LogRow(*columns) for columns in connection.execute(sql, (behind,))):
        rows.append(row)
        for named in blobs_named(row.position, row.stream, row.version, row.type, row.state):
            if named.blob in sent:
                continue  # an earlier event names it too
            sent.add(named.blob)
            data, by = connection.execute("SELECT data, erased_by FROM blobs WHERE id = ?", (named.blob,)).fetchone()
            blobs.append(SharedBlob(named.blob, row.position, data, by))
            size += len(data or b"")
        size += len(row.state)
        if len(rows) >= CHUNK_ROWS or size >= CHUNK_BYTES:
            after = Tip(row.position, row.head)
            yield Publication(before, after, rows, blobs)
            before, rows, blobs, size = after, [], [], 0
    if rows:
        yield Publication(before, Tip(rows[-1].position, rows[-1].head), rows, blobs)


def _named(connection: sqlite3.Connection, up_to: int) -> set[str]:
    """Return the blobs that the events up to a position name."""
    sql = "SELECT position, stream, version, type, state FROM events WHERE position <= ? AND instr(state, '\"blob\":')"
    return {blob.blob for row in connection.execute(sql, (up_to,)) for blob in blobs_named(*row)}


def _unnamed(connection: sqlite3.Connection) -> list[tuple[str, bytes | None, int | None]]:
    """Return the blobs that no event names any more, because an erasure took the event's text."""
    named = _named(connection, 2**62)
    return [row for row in connection.execute("SELECT id, data, erased_by FROM blobs") if row[0] not in named]


def _head(connection: sqlite3.Connection, position: int) -> bytes:
    row = connection.execute("SELECT head FROM events WHERE position = ?", (position,)).fetchone()
    return row[0] if row is not None else GENESIS


# --- a file goes back to the shared log ----------------------------------------------------------------------------------


def rejoin_file(path: StrPath, log: SharedLog) -> answers.RejoinReport:
    """Keep a file that has other events than the shared log under another name, and fold the shared log into a new file.

    Raises:
        RejectedError: The file follows no shared log, or another tenant's, or it has no event that the shared log lacks.
    """
    path = path_name(path)
    with closing(EventStore.open(path, create=False, shared=True)) as store, store.snapshot() as connection:
        row = read_replica_row(connection)
        if row is None or row.tenant != log.tenant:
            whose = f"follows the log of the tenant {row.tenant!r:.60}" if row is not None else "follows no shared log"
            raise RejectedError(f"{path} {whose}, and {log.tenant!r:.60} was asked for", rule="tenant")
        common = _common(connection, log)
        lost = _lost(connection, common)
    if not lost:
        raise RejectedError(
            f"{path} has no event that the shared log lacks, so there is nothing to rejoin: open it with log=…",
            rule="shared",
        )
    kept = _set_aside(path)
    engine = open_engine(path, OpenRequest(log=log))
    try:
        position = engine.store.head()[0]
    finally:
        engine.close()
    return answers.RejoinReport(path=path, kept=kept, common=common, position=position, lost=lost)


def replica_row(path: StrPath) -> ReplicaRow:
    """Return the tenant and the machine of a file; raise ``RejectedError`` if the file follows no shared log."""
    with closing(EventStore.open(path, readonly=True)) as store, store.snapshot() as connection:
        if (row := read_replica_row(connection)) is None:
            raise RejectedError(f"{path_name(path)} follows no shared log", rule="shared")
        return row


def _common(connection: sqlite3.Connection, log: SharedLog) -> int:
    """Return the last position at which the file and the shared log have the same head."""
    (end,) = connection.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()
    least, most = 0, min(end, log.tail(0, 1).tip.position)
    while least < most:
        middle = (least + most + 1) // 2
        if log.tail(middle, 1).head_there == _head(connection, middle):
            least = middle
        else:
            most = middle - 1
    return least


def _lost(connection: sqlite3.Connection, common: int) -> tuple[answers.LostEvent, ...]:
    sql = "SELECT position, stream, version, type, state FROM events WHERE position > ? ORDER BY position"
    lost = []
    for position, stream, version, type_, state in connection.execute(sql, (common,)):
        envelope = registry.decode(position, position, stream, version, type_, state).envelope
        lost.append(
            answers.LostEvent(
                position=position,
                type=type_,
                subject=stream,
                user=envelope.user,
                command=envelope.command,
                command_id=envelope.command_id,
                recorded_at=envelope.recorded_at,
            )
        )
    return tuple(lost)


def _set_aside(path: str) -> str:
    """Rename a file, and the -wal that a process may still have open, to a name that is free; return the name."""
    number, kept = 1, path + LOST
    while os.path.lexists(kept):
        number += 1
        kept = f"{path}{LOST}.{number}"
    with lock_of(path).hold(30.0):
        for suffix in ("-wal", "-shm", ""):
            if os.path.lexists(path + suffix):
                try:
                    os.rename(path + suffix, kept + suffix)
                except PermissionError:  # on Windows
                    raise ConflictError(f"another program has {path}{suffix} open: end it, and call again") from None
    return kept
