"""The queries on projects."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.core.call import answer_of
from ledger.core.engine import Snapshot
from ledger.core.reads import NOWHERE, id_of_filter, load, start_behind
from ledger.projects import answers
from ledger.projects.rules import ProjectState
from projections.core.rows import Connection
from projections.views import control, projects


def get(snapshot: Snapshot, user: str, name: str) -> answers.ProjectInfo | None:
    """Return a project by name, alias or id, with its trusted state; None if this user has no such project."""
    connection = snapshot.connection
    state = _without_joined(connection, user, name) or load(connection, name, "p", user)
    return shown(connection, state) if state is not None else None


def listing(
    snapshot: Snapshot,
    user: str,
    statuses: Sequence[str],
    *,
    limit: int,
    after: str | None = None,
    oldest_first: bool = False,
) -> list[answers.ProjectInfo]:
    """Return the projects of a user with these statuses (an empty list means all), newest or oldest first."""
    start = start_behind(snapshot.connection, after, oldest_first=oldest_first)
    rows = projects.listing(snapshot.connection, user, statuses, start=start, limit=limit)
    off = control.policy(snapshot.connection, user).off
    return [shown(snapshot.connection, row, off=off) for row in rows]


def state(
    snapshot: Snapshot, user: str, project: str, category: str | None, name: str | None, *, history: bool
) -> list[answers.StateEntry]:
    """Return the trusted state of a project, oldest value first; with ``history`` also the values that no longer count."""
    state_of_project = find(snapshot.connection, user, project)
    if state_of_project is None:
        return []
    rows = projects.state_history(snapshot.connection, state_of_project.id, category, name)
    names = answers.StateEntry.__struct_fields__
    entries = [answers.StateEntry(**dict(zip(names, row, strict=True))) for row in rows]
    return entries if history else [entry for entry in entries if entry.to_position is None]


def find(connection: Connection, user: str, name: str) -> ProjectState | None:
    """Return the project with this name, with the names and the state of the projects joined into it."""
    project = _without_joined(connection, user, name)
    return projects.whole(connection, project) if project is not None else None


def _without_joined(connection: Connection, user: str, name: str) -> ProjectState | None:
    """Return the project with this name, without the projects joined into it."""
    id = id_of_filter(connection, user, "p", name)
    project: ProjectState | None = load(connection, id, "p", user) if id is not None and id != NOWHERE else None
    return project


def shown(
    connection: Connection,
    project: ProjectState,
    *,
    off: Sequence[str] | None = None,
    replayed: bool = False,
    absorbed: bool = False,
) -> answers.ProjectInfo:
    """Return the answer for a project with the names and the state of the projects joined into it.

    ``off`` are the ids of the projects that the user's policy switches off, if the caller has them.
    """
    state = projects.whole(connection, project)
    entries = tuple(
        answer_of(answers.StateEntry, entry, name=entry.key, from_position=entry.position) for entry in state.state
    )
    roots = tuple(f"{machine}:{path}" if machine else path for machine, path in projects.roots(connection, state.id))
    if off is None:
        off = control.policy(connection, state.user).off if state.user is not None else ()
    own = {"state": entries, "roots": roots, "off": is_off(connection, off, state.id)}
    return answer_of(answers.ProjectInfo, state, **own, replayed=replayed, absorbed=absorbed)


def is_off(connection: Connection, off: Sequence[str], project: str) -> bool:
    """Return True if a project, or a project joined with it, is among those that are switched off."""
    return bool(off) and not set(off).isdisjoint(projects.together(connection, project))
