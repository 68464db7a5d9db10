"""Events to bytes and back: msgspec JSON, a closed registry of names, and upcasters for what was written in older schemas.

A type or a schema that this version does not know becomes ``Unknown`` with its bytes untouched. Nothing is ever imported
because a row says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from ledger.domain.errors import DamagedError, RejectedError
from ledger.domain.events import TYPES, AnyEvent, Envelope, Event, Recorded, Unknown

STATE_BYTES = 1024 * 1024  # the most that one event's state may take

# (type, schema) -> the data as the next schema has it, on plain dicts; none yet, for every schema is the first
UPCASTERS: dict[tuple[str, int], Callable[[dict[str, object]], dict[str, object]]] = {}

encode = msgspec.json.Encoder().encode


class Stored(Struct, frozen=True, gc=False):
    """An event as a ``StoredEvent`` of the eventsourcing library has it, made in a tenth of the time."""

    originator_id: str
    originator_version: int
    topic: str
    state: bytes


def to_stored(stream: str, version: int, envelope: Envelope[object]) -> Stored:
    """One event as the row that the event store writes; ``RejectedError`` above 1 MiB."""
    state = encode(envelope)
    if len(state) > STATE_BYTES:
        raise RejectedError(
            f"an event may take {STATE_BYTES} bytes, and this {type(envelope.data).__name__} takes {len(state)}",
            rule="size",
            limit=STATE_BYTES,
            requested=len(state),
        )
    return Stored(stream, version, type(envelope.data).__name__, state)


def _decoder(kind: type[object]) -> msgspec.json.Decoder[Envelope[object]]:
    return msgspec.json.Decoder(Envelope[kind])  # type: ignore[valid-type]


class _Decoders(dict[str, tuple[Callable[[str], Envelope[object]], int]]):
    """One for each type, made at its first event: all of them take as long as everything else that an open does."""

    def __missing__(self, type_: str) -> tuple[Callable[[str], Envelope[object]], int]:
        kind = TYPES[type_]
        return self.setdefault(type_, (_decoder(kind).decode, kind.schema))


_raw_decoder = msgspec.json.Decoder(Envelope[msgspec.Raw])
_DECODERS = _Decoders()


def decode(
    position: int, first: int, stream: str, version: int, type_: str, state: str, key: bytes | None = None
) -> AnyEvent:
    """The event in one row of the log; ``DamagedError`` when its JSON is not an event at all, or a damaged page has made a
    number or bytes of what was text."""
    try:
        decoded, schema = _DECODERS[type_]
        envelope = decoded(state)
        if envelope.schema == schema:
            return Recorded(position, first, stream, version, type_, envelope, key)
    except (KeyError, TypeError, UnicodeEncodeError, msgspec.DecodeError):
        pass
    return Recorded(position, first, stream, version, type_, _uncommon(position, type_, state), key)


def _uncommon(position: int, type_: str, state: str) -> Envelope[object]:
    if not isinstance(type_, str):
        raise DamagedError("events", position, "has a type that is no text")
    try:
        envelope = _raw_decoder.decode(state)
    except (TypeError, UnicodeEncodeError, msgspec.DecodeError, RecursionError):
        raise DamagedError("events", position, f"({unknown(type_)}) holds no event that can be read") from None
    kind = TYPES.get(type_)
    if kind is None or envelope.schema >= kind.schema:
        return _with_data(envelope, Unknown(envelope.data))
    try:
        return _with_data(envelope, upcast(kind, envelope.schema, envelope.data))
    except (LookupError, TypeError, ValueError):  # no upcaster, or data that it does not take
        return _with_data(envelope, Unknown(envelope.data))


def is_foreign(type_: object) -> bool:
    """Whether a type is written as the eventsourcing library writes those of its applications: module:class."""
    return isinstance(type_, str) and ":" in type_


def unknown(type_: object) -> str:
    """A type that this product does not know, as messages name it."""
    return f"{type_!s:.60}" + (" of an application of the eventsourcing library" if is_foreign(type_) else "")


def upcast(kind: type[Event], schema: int, raw: msgspec.Raw) -> Event:
    """Data written in an older schema as today's event, one step after the other."""
    data = msgspec.json.decode(raw)
    for step in range(schema, kind.schema):
        data = UPCASTERS[kind.__name__, step](data)
    return msgspec.convert(data, kind)


def _with_data(envelope: Envelope[Any], data: object) -> Envelope[object]:
    return msgspec.structs.replace(envelope, data=data)
