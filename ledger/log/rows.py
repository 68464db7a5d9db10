"""The rows of the log: their columns, the chain that new rows continue, and the one insert of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from eventsourcing import persistence, sqlite
from eventsourcing.persistence import StoredEvent

from ledger.domain.errors import RejectedError
from ledger.log.integrity import digest, link
from ledger.log.mapper import Stored

# position, stream, version, type, state, digest, head, key, erased_by
Row = tuple[int, str, int, str, str, bytes, bytes, bytes | None, int | None]


COLUMNS = "position, stream, version, type, state, digest, head, key, erased_by"
_INSERT = f"INSERT INTO events ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)"


@dataclass(frozen=True, slots=True)
class LogRow:
    """A row of the log as it is stored."""

    position: int
    stream: str
    version: int
    type: str
    state: str
    digest: bytes
    head: bytes
    key: bytes | None
    erased_by: int | None


@dataclass(slots=True)
class Mark:
    """The state of a transaction at the beginning of a savepoint."""

    pending: list[Row]
    position: int
    head: bytes
    broken: bool
    sent: tuple[int, int, int, int] | None  # the sizes of what goes to the shared log


class Outgoing:
    """The part of an open transaction that its commit adds to the shared log."""

    __slots__ = ("blobs", "erased_blobs", "redactions", "rows")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.blobs: list[tuple[str, int, bytes | None, int | None]] = []
        self.redactions: list[tuple[int, str, int]] = []
        self.erased_blobs: list[tuple[str, int]] = []

    def sizes(self) -> tuple[int, int, int, int]:
        return len(self.rows), len(self.blobs), len(self.redactions), len(self.erased_blobs)

    def trim(self, sizes: tuple[int, int, int, int]) -> None:
        """Drop everything that was added after a savepoint."""
        for part, size in zip((self.rows, self.blobs, self.redactions, self.erased_blobs), sizes, strict=True):
            del part[size:]  # type: ignore[attr-defined]

    @property
    def is_empty(self) -> bool:
        return not any(self.sizes())


def chained(
    events: Sequence[StoredEvent | Stored], keys: Sequence[bytes | None], position: int, head: bytes
) -> list[Row]:
    """Return the rows of events that follow a position and a head; raise ``DataError`` for a state that is not text."""
    if keys and len(keys) != len(events):
        raise RejectedError(
            f"{len(keys)} keys were given for {len(events)} events; give one key for each event", rule="keys"
        )
    rows: list[Row] = []
    for index, event in enumerate(events):
        position += 1
        stream, version, type_ = event.originator_id, event.originator_version, event.topic
        if type(stream) is not str:
            stream = stream.hex if isinstance(stream, UUID) else str(stream)
        mark = digest(event.state)
        head = link(head, position, stream, version, type_, mark)
        try:
            state = event.state.decode()
        except UnicodeDecodeError:
            raise persistence.DataError(f"the state of a {type_[:60]} is not UTF-8 text") from None
        rows.append((position, stream, version, type_, state, mark, head, keys[index] if keys else None, None))
    return rows


def insert(cursor: sqlite3.Cursor | sqlite.SQLiteCursor, rows: Sequence[Row]) -> None:
    """Insert rows into the log; no other function does."""
    try:
        if len(rows) == 1:
            cursor.execute(_INSERT, rows[0])
        else:
            cursor.executemany(_INSERT, rows)
    except (UnicodeError, OverflowError) as error:
        raise unfit(error) from error


def unfit(error: Exception) -> persistence.DataError:
    return persistence.DataError(f"SQLite cannot store a value: {error}")
