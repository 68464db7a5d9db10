"""The closed registry of events, and which of their fields are what."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from msgspec import Meta

from ledger.domain.events import document, interaction, ledger, memory, merge, observation, project, session, value
from ledger.domain.events.base import Event

STREAMS = (ledger, project, session, document, interaction, memory, merge, observation, value)

TYPES: dict[str, type[Event]] = {
    name: kind
    for stream in STREAMS
    for name, kind in vars(stream).items()
    if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event
}


def string_fields(kind: type[Any]) -> dict[str, str]:
    """Each string-bearing field of a struct and what it was declared to be; undeclared strings are ``"?"``."""
    found: dict[str, str] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if (what := _string_kind(hint)) is not None and not name.startswith("_"):
            found[name] = what
    return found


def _string_kind(hint: Any) -> str | None:
    if hint is str:
        return "?"
    for meta in getattr(hint, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.extra:
            return str(meta.extra.get("string", "?"))
    kinds = {what for part in get_args(hint) if (what := _string_kind(part)) is not None}
    return "text" if "text" in kinds else min(kinds, default=None)


TEXT_FIELDS: dict[str, tuple[str, ...]] = {
    name: tuple(field for field, what in string_fields(kind).items() if what == "text") for name, kind in TYPES.items()
}
