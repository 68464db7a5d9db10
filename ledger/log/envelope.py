"""The stored form of an event: its envelope, its bytes, its row in the log, and the hash chain over the rows.

``digest`` covers the state of one event. ``link`` covers the digest, the place of the event and the head before it, so one
known head proves everything before it. ``leaf`` is the same record as a leaf of a Merkle tree. An erased row keeps its
digest, so the chain still holds; the event that erased the row states the digest of what is left.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct, field

from ledger.domain.errors import RejectedError
from ledger.log.events import Code, Id, KeyedDigest, Text, Time

T = TypeVar("T")


class Redacted(Struct, frozen=True, omit_defaults=True):
    """A secret that was taken out of a text before the text was recorded.

    A mark stands at characters ``start`` to ``end`` of the ``field`` ("content", "parts", "tags[2]"), in place of ``length``
    characters of this ``kind``. No digest of the secret is kept, for the key to the digest would lie in the same file.
    """

    field: Code
    kind: Code
    start: int
    end: int
    length: int
    scanner: Code


class Envelope(Struct, Generic[T], omit_defaults=True, kw_only=True, gc=False):
    """The stored form of an event: the JSON text of a row. ``position``, ``stream`` and ``version`` are columns next to it.

    ``user`` bounds everything; an erased user is null and belongs to nobody, never to ``""``. ``occurred_at`` keeps the offset
    it was given with. ``redactions`` are the secrets taken out of ``data``. ``arguments`` is a keyed digest of the command's
    arguments, present only with an idempotency key. ``key`` repeats the key of the row, so that the chain covers it.

    A command is named by the id of its first event, in which ``command_id`` is left out. A ``schema`` of 1 is left out too.
    """

    event_id: Id
    schema: int = 1
    recorded_at: Time
    occurred_at: Time | None = None
    begun: Id | None = field(default=None, name="command_id")
    command: Code
    arguments: KeyedDigest | None = None
    key: KeyedDigest | None = None
    causation_id: Id | None = None
    correlation_id: Id | None = None
    actor: Text | None = ""
    client: Text | None = ""
    channel: Code = "user"
    user: Text | None = ""
    agent: Text | None = ""
    project: Id | None = None
    session: Id | None = None
    salt: Annotated[str, Meta(extra={"string": "salt"})] | None = None
    redactions: tuple[Redacted, ...] = ()
    data: T

    @property
    def command_id(self) -> str:
        return self.begun or self.event_id


class Recorded(Struct, Generic[T], frozen=True, gc=False):
    """An event with its place in the log, as folds and readers receive it.

    ``first`` is the position of the first event of its stream: the integer that stands for the subject in every table.
    """

    position: int
    first: int
    stream: str
    version: int
    type: str
    envelope: Envelope[T]
    key: bytes | None = None

    @property
    def data(self) -> T:
        return self.envelope.data


class Unknown(Struct, frozen=True):
    """Data of a type or schema newer than this product: kept as it is, never interpreted."""

    raw: Raw


AnyEvent = Recorded[Any]


# --- an event as the log stores it -----------------------------------------------------------------------------------

# position, stream, version, type, state, digest, head, key, erased_by
Row = tuple[int, str, int, str, str, bytes, bytes, bytes | None, int | None]

COLUMNS = "position, stream, version, type, state, digest, head, key, erased_by"
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
