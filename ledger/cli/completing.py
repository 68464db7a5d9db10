"""The completion of an argument by the TAB key: ids, kinds, projects and sessions of the ledger."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledger.api import Ledger

OFFERED = 50  # the most completions
_IDS = ("id", "memory", "memories", "interaction", "subject", "target", "sources", "ids", "keep")


def of(name: str) -> Callable[[Any], list[tuple[str, str]]] | None:
    """Return the completer of a parameter by its name, or None if the parameter has no completions."""
    if name in _IDS:
        return _completer(_ids)
    if name in ("kind", "kinds"):
        return _completer(_kinds)
    if name in ("project", "new_in"):
        return _completer(_projects)
    return _completer(_sessions) if name in ("session", "session_name") else None


def _completer(values_of: Callable[[Ledger], Iterator[tuple[str, str]]]) -> Callable[[Any], list[tuple[str, str]]]:
    """Return a function that opens the ledger and returns the first (value, description) pairs for a completion."""

    def complete(context: Any) -> list[tuple[str, str]]:
        from ledger.api import Ledger
        from ledger.core.settings import Settings

        path, user = context["db"].raw, context["user"].raw
        settings = Settings.load(path=None if path is None else os.path.expanduser(path), user=user)
        if not os.path.exists(settings.path):
            return []
        with Ledger.open(settings.path, user=settings.user, readonly=True, create=False) as ledger:
            return list(islice(values_of(ledger), OFFERED))

    return complete


def _ids(ledger: Ledger) -> Iterator[tuple[str, str]]:
    for memory in ledger.memories.list(limit=OFFERED):
        yield memory.id, memory.content or ""
    for turn in ledger.interactions.list(limit=OFFERED // 2):
        yield turn.id, turn.prompt or ""


def _kinds(ledger: Ledger) -> Iterator[tuple[str, str]]:
    for kind in sorted({memory.kind for memory in ledger.memories.list(limit=1_000)}):
        yield kind, ""


def _projects(ledger: Ledger) -> Iterator[tuple[str, str]]:
    for project in ledger.projects.list(limit=OFFERED):
        yield project.name or project.id, project.description or ""


def _sessions(ledger: Ledger) -> Iterator[tuple[str, str]]:
    from ledger.domain.text import counted  # not with the module, which is loaded whenever a command is

    for session in ledger.sessions.list(limit=OFFERED):
        yield session.name or session.id, counted(session.messages, "message")
