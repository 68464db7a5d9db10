"""The closed registry of events, with their look-ups, and events from their stored bytes.

The look-ups are by traits, by the roles of ids and by the kinds of strings. An event is stored as msgspec JSON, and upcasters
raise older schemas. An event whose type or schema this version does not know becomes ``Unknown`` with its bytes untouched. A
row never causes an import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from inspect import get_annotations
from typing import Any, get_args

import msgspec
from msgspec import Meta, Struct

from ledger.documents import events as _document_events
from ledger.domain.errors import DamagedError
from ledger.interactions import events as _interaction_events
from ledger.log import events as _ledger_events
from ledger.log.envelope import AnyEvent, Envelope, Recorded, Unknown
from ledger.log.events import EventData, Ref, Role, Use
from ledger.memories import events as _memory_events
from ledger.observations import events as _observation_events
from ledger.projects import events as _project_events
from ledger.review import events as _review_events
from ledger.sessions import events as _session_events
from ledger.values import events as _value_events

_FILES = (
    *(_ledger_events, _project_events, _session_events, _document_events, _interaction_events, _memory_events),
    *(_review_events, _observation_events, _value_events),
)

TYPES: dict[str, type[EventData]] = {
    name: kind
    for stream in _FILES
    for name, kind in vars(stream).items()
    if isinstance(kind, type) and issubclass(kind, EventData) and kind is not EventData
}


_KNOWN: dict[type[object], dict[str, object]] = {}
_IDS: dict[type[object], tuple[IdField, ...]] = {}


def _hints(kind: type[object]) -> dict[str, object]:
    """Return the same as ``typing.get_type_hints(kind, include_extras=True)``, in less time."""
    if kind not in _KNOWN:
        bases = reversed(kind.__mro__)
        _KNOWN[kind] = {name: hint for base in bases for name, hint in get_annotations(base, eval_str=True).items()}
    return _KNOWN[kind]


def string_fields(kind: type[object]) -> dict[str, str]:
    """Return the declared kind of each string field of a struct; the kind of an undeclared string is "?"."""
    kinds: dict[str, str] = {}
    for name, hint in _hints(kind).items():
        if (string_kind := _string_kind(hint)) is not None and not name.startswith("_"):
            kinds[name] = string_kind
    return kinds


@cache
def _string_kind(hint: object) -> str | None:
    if hint is str:
        return "?"
    for meta in getattr(hint, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.extra:
            return str(meta.extra.get("string", "?"))
    kinds = {string_kind for part in get_args(hint) if (string_kind := _string_kind(part)) is not None}
    return "text" if "text" in kinds else min(kinds, default=None)


def used_as(use: str) -> dict[type[EventData], tuple[str, ...]]:
    """Return the events that have a text with this use, each with the names of its fields of that use."""
    return dict(_uses().get(use, {}))


@cache
def _uses() -> dict[str, dict[type[EventData], tuple[str, ...]]]:
    uses: dict[str, dict[type[EventData], tuple[str, ...]]] = {}
    for kind in TYPES.values():
        for name, hint in _hints(kind).items():
            for use in (declared.use for declared in getattr(hint, "__metadata__", ()) if isinstance(declared, Use)):
                of_use = uses.setdefault(use, {})
                of_use[kind] = (*of_use.get(kind, ()), name)
    return uses


TEXT_FIELDS: dict[str, tuple[str, ...]] = {
    name: tuple(field for field, string_kind in string_fields(kind).items() if string_kind == "text")
    for name, kind in TYPES.items()
}


# --- by traits -------------------------------------------------------------------------------------------------------


def of(**traits: object) -> tuple[type[Any], ...]:
    """Return the events with all of these traits, in the order of the catalogue; a tuple accepts any of its values.

    Examples are ``of(effect=("act", "lasting"))`` and ``of(begins="memory")``.
    """
    kinds: Iterable[type[EventData]] = TYPES.values()
    for name, value in traits.items():
        accepted = value if isinstance(value, tuple) else (value,)
        kinds = [kind for kind in kinds if getattr(kind.traits, name) in accepted]
    return tuple(kinds)


def type_names(kinds: Iterable[type[object]]) -> tuple[str, ...]:
    """Return the names of these events in the log."""
    return tuple(kind.__name__ for kind in kinds)


# --- by the roles of their ids ---------------------------------------------------------------------------------------


class IdField(Struct, frozen=True):
    """A field that holds ids: its path from the event, as in ("evidence", "source"), and its declared role."""

    path: tuple[str, ...]
    ref: Ref | None


def id_fields(kind: type[object]) -> tuple[IdField, ...]:
    """Return every field that holds ids, of a struct and of the structs in it."""
    if kind not in _IDS:
        fields = [
            IdField((name, *path), ref) for name, hint in _hints(kind).items() for path, ref in _ids_under(hint, None)
        ]
        _IDS[kind] = tuple(dict.fromkeys(fields))
    return _IDS[kind]


@cache  # many fields of many events have the same hint
def _ids_under(hint: object, ref: Ref | None) -> tuple[tuple[tuple[str, ...], Ref | None], ...]:
    """Return the path from a field's value to each place with ids, and the role of these ids."""
    if hint is str or hint is int or hint is type(None):
        return ()
    declared = getattr(hint, "__metadata__", ())
    for item in declared:
        if isinstance(item, Ref):
            ref = item
    places: list[tuple[tuple[str, ...], Ref | None]] = []
    if any(isinstance(item, Meta) and (item.extra or {}).get("string") == "id" for item in declared):
        places.append(((), ref))
    elif isinstance(hint, type) and issubclass(hint, Struct):
        places += [(inner.path, inner.ref) for inner in id_fields(hint)]
    for part in get_args(hint):
        places += _ids_under(part, ref)
    return tuple(places)


for _kind in TYPES.values():  # at the import, in a millisecond, so that no undo or erasure begins with it
    id_fields(_kind)


@cache
def given_ids(type_: str) -> tuple[str, ...]:
    """Return the fields of an event that hold ids as a caller gave them.

    Such a field may hold any text, so the guards search these fields too.
    """
    fields = id_fields(TYPES[type_]) if type_ in TYPES else ()
    return tuple(field.path[0] for field in fields if field.ref is not None and field.ref.among == "anything")


def ids_in(data: EventData, role: Role, needs: str | None = None) -> Iterator[str]:
    """Return the ids of an event that have this role; with ``needs``, only ids of which the event needs "any" or "all"."""
    for field in id_fields(type(data)) if isinstance(data, EventData) else ():
        if field.ref is not None and field.ref.role == role and needs in (None, field.ref.needs):
            yield from _values(data, field.path)


def _values(value: object, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, tuple):
        for item in value:
            yield from _values(item, path)
    elif path:
        yield from _values(getattr(value, path[0], None), path[1:])
    elif isinstance(value, str):
        yield value


# --- from stored bytes -----------------------------------------------------------------------------------------------

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
