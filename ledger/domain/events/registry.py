"""The closed registry of events, and what can be asked of it: by their traits, by the roles of their ids, by what a string is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from inspect import get_annotations
from typing import Any, get_args

from msgspec import Meta, Struct

from ledger.domain.events import document, interaction, ledger, memory, merge, observation, project, session, value
from ledger.domain.events.base import Event, Ref, Role, Use

STREAMS = (ledger, project, session, document, interaction, memory, merge, observation, value)

TYPES: dict[str, type[Event]] = {
    name: kind
    for stream in STREAMS
    for name, kind in vars(stream).items()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
}


_KNOWN: dict[type[object], dict[str, object]] = {}
_IDS: dict[type[object], tuple[IdField, ...]] = {}


def _hints(kind: type[object]) -> dict[str, object]:
    """What ``typing.get_type_hints`` says with its extras, and quicker."""
    if kind not in _KNOWN:
        bases = reversed(kind.__mro__)
        _KNOWN[kind] = {name: hint for base in bases for name, hint in get_annotations(base, eval_str=True).items()}
    return _KNOWN[kind]


def string_fields(kind: type[object]) -> dict[str, str]:
    """Each string-bearing field of a struct and what it was declared to be; undeclared strings are ``"?"``."""
    found: dict[str, str] = {}
    for name, hint in _hints(kind).items():
        if (what := _string_kind(hint)) is not None and not name.startswith("_"):
            found[name] = what
    return found


@cache
def _string_kind(hint: object) -> str | None:
    if hint is str:
        return "?"
    for meta in getattr(hint, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.extra:
            return str(meta.extra.get("string", "?"))
    kinds = {what for part in get_args(hint) if (what := _string_kind(part)) is not None}
    return "text" if "text" in kinds else min(kinds, default=None)


def used_as(use: str) -> dict[type[Event], tuple[str, ...]]:
    """The events with a text of this use, each with its fields of that use."""
    return dict(_uses().get(use, {}))


@cache
def _uses() -> dict[str, dict[type[Event], tuple[str, ...]]]:
    found: dict[str, dict[type[Event], tuple[str, ...]]] = {}
    for kind in TYPES.values():
        for name, hint in _hints(kind).items():
            for use in (each.use for each in getattr(hint, "__metadata__", ()) if isinstance(each, Use)):
                of_use = found.setdefault(use, {})
                of_use[kind] = (*of_use.get(kind, ()), name)
    return found


TEXT_FIELDS: dict[str, tuple[str, ...]] = {
    name: tuple(field for field, what in string_fields(kind).items() if what == "text") for name, kind in TYPES.items()
}


# --- by traits -------------------------------------------------------------------------------------------------------


def of(**wanted: object) -> tuple[type[Any], ...]:
    """The events with all of these traits, in the order of the catalogue; several values of one are given as a tuple.

    Examples are ``of(effect=("act", "lasting"))`` and ``of(begins="memory")``.
    """
    return tuple(kind for kind in TYPES.values() if all(_has(kind, name, value) for name, value in wanted.items()))


def _has(kind: type[Event], name: str, wanted: object) -> bool:
    return getattr(kind.traits, name) in (wanted if isinstance(wanted, tuple) else (wanted,))


def type_names(kinds: Iterable[type[object]]) -> tuple[str, ...]:
    """The names of these events in the log."""
    return tuple(kind.__name__ for kind in kinds)


# --- by the roles of their ids ---------------------------------------------------------------------------------------


class IdField(Struct, frozen=True):
    """A field that holds an id or several, by its path from the event ("evidence", "source"), and what was declared of it."""

    path: tuple[str, ...]
    ref: Ref | None


def id_fields(kind: type[object]) -> tuple[IdField, ...]:
    """Every field of a struct, and of the structs in it, that holds ids."""
    if kind not in _IDS:
        found = (each for name, hint in _hints(kind).items() for each in _ids_under(hint, (name,), None))
        _IDS[kind] = tuple(dict.fromkeys(found))
    return _IDS[kind]


def _ids_under(hint: object, path: tuple[str, ...], ref: Ref | None) -> Iterator[IdField]:
    declared = getattr(hint, "__metadata__", ())
    ref = next((each for each in declared if isinstance(each, Ref)), ref)
    if any(isinstance(each, Meta) and (each.extra or {}).get("string") == "id" for each in declared):
        yield IdField(path, ref)
    elif isinstance(hint, type) and issubclass(hint, Struct):
        yield from (IdField((*path, *each.path), each.ref) for each in id_fields(hint))
    for part in get_args(hint):
        yield from _ids_under(part, path, ref)


def ids_in(data: Event, role: Role, needs: str | None = None) -> Iterator[str]:
    """The ids of an event that have this role; with ``needs`` only those of which it needs "any", or "all"."""
    for each in id_fields(type(data)) if isinstance(data, Event) else ():
        if each.ref is not None and each.ref.role == role and needs in (None, each.ref.needs):
            yield from _values(data, each.path)


def _values(value: object, path: tuple[str, ...]) -> Iterator[str]:
    if isinstance(value, tuple):
        for each in value:
            yield from _values(each, path)
    elif path:
        yield from _values(getattr(value, path[0], None), path[1:])
    elif isinstance(value, str):
        yield value
