"""The answers about projects and their trusted state."""

from __future__ import annotations

from ledger.core.answer import Answer


class StateEntry(Answer, frozen=True, kw_only=True):
    """A value of a project's trusted state, present or past.

    The value counts from ``from_position`` on. ``to_position`` is the position at which it was replaced or removed, or None.
    """

    category: str
    name: str | None
    value: str | None
    source: str | None
    actor: str | None
    recorded_at: str
    from_position: int
    to_position: int | None = None


class ProjectInfo(Answer, frozen=True, kw_only=True):
    """A project with its trusted state; ``status`` is "active" or "archived"."""

    id: str
    name: str | None
    description: str | None
    status: str
    aliases: tuple[str | None, ...]
    user: str | None
    state: tuple[StateEntry, ...]
    position: int
    recorded_at: str
    replayed: bool = False
    absorbed: bool = False
    warnings: tuple[str, ...] = ()  # of a write: the redacted secrets, by field and kind
