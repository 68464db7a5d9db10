"""The rows of the log: the bytes of an event, the hash chain that new rows continue, and the one insert of them.

``digest`` covers the state of one event. ``link`` covers the digest, the place of the event and the head before it, so one
known head proves everything before it. ``leaf`` is the same record as a leaf of a Merkle tree. An erased row keeps its
digest, so the chain still holds; the event that erased the row states the digest of what is left.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

import msgspec
from eventsourcing import persistence, sqlite
from eventsourcing.persistence import StoredEvent
from msgspec import Struct

from ledger.domain.errors import RejectedError
from ledger.log.envelope import Envelope

# position, stream, version, type, state, digest, head, key, erased_by
Row = tuple[int, str, int, str, str, bytes, bytes, bytes | None, int | None]


COLUMNS = "position, stream, version, type, state, digest, head, key, erased_by"
_INSERT = f"INSERT INTO events ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)"
STATE_BYTES = 1024 * 1024  # the largest state of one event
GENESIS = bytes(32)  # the head of an empty log

# Text that JSON writes as it is: ASCII without controls, quotation mark and backslash.
_plain = re.compile(r"[ !#-\[\]-~]*").fullmatch
encode: Callable[[object], bytes] = msgspec.json.Encoder().encode


class Stored(Struct, frozen=True, gc=False):
    """An event with the fields of the library's ``StoredEvent``, made in a tenth of the time."""

    originator_id: str
    originator_version: int
    topic: str
    state: bytes


def to_stored(stream: str, version: int, envelope: Envelope[object]) -> Stored:
    """Return an event as the event store writes it; raise ``RejectedError`` for a state above 1 MiB."""
    state = encode(envelope)
    if len(state) > STATE_BYTES:
        raise RejectedError(
            f"an event may take {STATE_BYTES} bytes at the most, and this {type(envelope.data).__name__} takes {len(state)}",
            rule="size",
            limit=STATE_BYTES,
            requested=len(state),
        )
    return Stored(stream, version, type(envelope.data).__name__, state)


def digest(state: bytes) -> bytes:
    """Return the SHA-256 of the stored bytes of one event."""
    return sha256(state).digest()


def link(previous: bytes, position: int, stream: str, version: int, type_: str, digest: bytes) -> bytes:
    """Return the head after an event, from the head before it."""
    return sha256(link_record(previous.hex(), position, stream, version, type_, digest.hex())).digest()


def leaf(previous: bytes, position: int, stream: str, version: int, type_: str, digest: bytes) -> bytes:
    """Return an event as a leaf of a Merkle tree; the zero byte keeps leaves and inner nodes apart."""
    return sha256(b"\x00" + link_record(previous.hex(), position, stream, version, type_, digest.hex())).digest()


def link_record(previous: str, position: int, stream: str, version: int, type_: str, digest: str) -> bytes:
    if ((names := stream + type_).isascii() and names.isidentifier()) or _plain(names):
        return f'["ledger/1","{previous}",{position:d},"{stream}",{version:d},"{type_}","{digest}"]'.encode()
    record = ["ledger/1", previous, position, stream, version, type_, digest]
    return json.dumps(record, separators=(",", ":")).encode()


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
