"""Events from their stored bytes: msgspec JSON, a closed registry of types, and upcasters for older schemas.

An event whose type or schema this version does not know becomes ``Unknown`` with its bytes untouched. A row never causes an
import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ledger.domain.errors import DamagedError
from ledger.events import TYPES, AnyEvent, Envelope, EventData, Recorded, Unknown

# (type, schema) -> a function from plain data of this schema to data of the next; empty while every schema is the first
UPCASTERS: dict[tuple[str, int], Callable[[dict[str, object]], dict[str, object]]] = {}


def _decoder(kind: type[object]) -> msgspec.json.Decoder[Envelope[object]]:
    return msgspec.json.Decoder(Envelope[kind])  # type: ignore[valid-type]


class _Decoders(dict[str, tuple[Callable[[str], Envelope[object]], int]]):
    """The decoders by type, each made at the first event of its type, because all together double the time of an open."""

    def __missing__(self, type_: str) -> tuple[Callable[[str], Envelope[object]], int]:
        kind = TYPES[type_]
        return self.setdefault(type_, (_decoder(kind).decode, kind.schema))


_raw_decoder = msgspec.json.Decoder(Envelope[msgspec.Raw])
_DECODERS = _Decoders()


def decode(
    position: int, first: int, stream: str, version: int, type_: str, state: str, key: bytes | None = None
) -> AnyEvent:
    """Return the event in one row of the log.

    Raises:
        DamagedError: The state is not the JSON of an event, or a damaged page turned a text into a number or bytes.
    """
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
        raise DamagedError("events", position, "has a type that is not a text")
    try:
        envelope = _raw_decoder.decode(state)
    except (TypeError, UnicodeEncodeError, msgspec.DecodeError, RecursionError):
        raise DamagedError("events", position, f"({unknown(type_)}) holds no readable event") from None
    kind = TYPES.get(type_)
    if kind is None or envelope.schema >= kind.schema:
        return _with_data(envelope, Unknown(envelope.data))
    try:
        return _with_data(envelope, upcast(kind, envelope.schema, envelope.data))
    except (LookupError, TypeError, ValueError):  # there is no upcaster, or it does not take this data
        return _with_data(envelope, Unknown(envelope.data))


def is_foreign(type_: object) -> bool:
    """Return True for a type that the eventsourcing library wrote for one of its applications: module:class."""
    return isinstance(type_, str) and ":" in type_


def unknown(type_: object) -> str:
    """Return the name of a type that this product does not know, for a message."""
    return f"{type_!s:.60}" + (" of an application of the eventsourcing library" if is_foreign(type_) else "")


def upcast(kind: type[EventData], schema: int, raw: msgspec.Raw) -> EventData:
    """Return data of an older schema as today's event, raised by one schema at a time."""
    data = msgspec.json.decode(raw)
    for step in range(schema, kind.schema):
        data = UPCASTERS[kind.__name__, step](data)
    return msgspec.convert(data, kind)


def _with_data(envelope: Envelope[Any], data: object) -> Envelope[object]:
    return msgspec.structs.replace(envelope, data=data)
