"""The closed registry of events, with look-ups by their traits, by the roles of their ids, and by the kinds of their strings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from inspect import get_annotations
from typing import Any, get_args

from msgspec import Meta, Struct

from ledger.documents import events as _document_events
from ledger.interactions import events as _interaction_events
from ledger.log import events as _ledger_events
from ledger.log.event_base import EventData, Ref, Role, Use
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
