"""The life cycle of a project with its aliases, its joined projects and its trusted state."""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.errors import RejectedError
from ledger.domain.text import name_form
from ledger.events import (
    AnyEvent,
    EventData,
    ProjectAliasAdded,
    ProjectArchived,
    ProjectDescribed,
    ProjectJoined,
    ProjectLinked,
    ProjectRegistered,
    ProjectRenamed,
    ProjectRestored,
    ProjectStateInvalidated,
    ProjectStateSet,
)

CATEGORIES = ("status", "decision", "requirement", "contact", "milestone", "fact", "config")
VALUE_BYTES = 64 * 1024
ACTIVE, ARCHIVED = "active", "archived"


class TrustedEntry(Struct, frozen=True):
    """An entry of a project's trusted state, set by a person, with the position of the event that set it."""

    category: str
    key: str | None
    value: str | None
    source: str | None
    actor: str | None
    recorded_at: str
    position: int


class JoinedProject(Struct, frozen=True):
    """A project that was joined into another, and the position of the event that joined it."""

    id: str
    position: int


class ProjectRoot(Struct, frozen=True):
    """A root of a project on a machine, and the position of the event that linked it."""

    machine: str | None
    path: str | None
    position: int


class ProjectState(Struct, frozen=True):
    row: int
    id: str
    user: str | None
    name: str | None
    description: str | None
    status: str  # "active" or "archived"
    aliases: tuple[str | None, ...]
    state: tuple[TrustedEntry, ...]
    joined: tuple[JoinedProject, ...]
    roots: tuple[ProjectRoot, ...]
    recorded_at: str
    version: int
    position: int


class AddProjectAlias(Struct, frozen=True):
    alias: str


class Rename(Struct, frozen=True):
    name: str


class LinkRoot(Struct, frozen=True):
    machine: str
    path: str


class DescribeProject(Struct, frozen=True):
    description: str


class Join(Struct, frozen=True):
    project: str
    reason: str = ""


class Archive(Struct, frozen=True):
    reason: str = ""


class RestoreProject(Struct, frozen=True):
    reason: str = ""


class SetState(Struct, frozen=True):
    category: str
    key: str
    value: str
    source: str = ""


class InvalidateState(Struct, frozen=True):
    category: str
    key: str
    reason: str = ""


Command = (
    AddProjectAlias | Rename | LinkRoot | DescribeProject | Join | Archive | RestoreProject | SetState | InvalidateState
)


def decide(command: Command, project: ProjectState) -> list[EventData]:
    if project.name is None:
        raise RejectedError(f"{project.id} was erased, which allows no command any more", subject=project.id)
    match command:
        case AddProjectAlias(alias):
            known = {name_form(name) for name in (project.name, *project.aliases) if name is not None}
            return [] if name_form(alias) in known else [ProjectAliasAdded(alias)]
        case Rename(name):
            return [ProjectRenamed(name)] if name != project.name else []
        case LinkRoot(machine, path):
            return [ProjectLinked(path, machine)]
        case DescribeProject(description):
            return [ProjectDescribed(description)] if description and not project.description else []
        case Join(joined_id, reason):
            known = {project.id, *(joined.id for joined in project.joined)}
            return [] if joined_id in known else [ProjectJoined(joined_id, reason)]
        case Archive(reason):
            return [ProjectArchived(reason)] if project.status == ACTIVE else []
        case RestoreProject(reason):
            return [ProjectRestored(reason)] if project.status == ARCHIVED else []
        case SetState(category, key, value, source):
            check_category(category)
            entry = project_entry(project, category, key)
            if entry is not None and (entry.value, entry.source) == (value, source):
                return []
            return [ProjectStateSet(category, key, value, source)]
        case InvalidateState(category, key, reason):
            check_category(category)
            entry = project_entry(project, category, key)
            return [ProjectStateInvalidated(category, key, reason)] if entry else []
        case _:
            assert_never(command)


def check_category(category: str) -> None:
    if category not in CATEGORIES:
        raise RejectedError(
            f"no category of trusted state is called {category!r:.60}; there are: {', '.join(CATEGORIES)}"
        )


def project_entry(project: ProjectState, category: str, key: str) -> TrustedEntry | None:
    matches = [entry for entry in project.state if (entry.category, entry.key) == (category, key)]
    return matches[0] if matches else None


def evolve(project: ProjectState | None, event: AnyEvent) -> ProjectState | None:
    data: (
        ProjectRegistered
        | ProjectDescribed
        | ProjectAliasAdded
        | ProjectRenamed
        | ProjectLinked
        | ProjectJoined
        | ProjectArchived
        | ProjectRestored
        | ProjectStateSet
        | ProjectStateInvalidated
    ) = event.data
    if project is None:
        return _registered(event, data) if isinstance(data, ProjectRegistered) else None
    now = replace(project, version=event.version, position=event.position)
    match data:
        case ProjectRegistered():  # a second registration changes nothing
            return now
        case ProjectAliasAdded(alias):
            return replace(now, aliases=(*now.aliases, alias))
        case ProjectRenamed(name):
            return _renamed(now, name)
        case ProjectLinked(path, machine):
            return replace(now, roots=(*now.roots, ProjectRoot(machine, path, event.position)))
        case ProjectDescribed(description):
            return replace(now, description=description)
        case ProjectJoined(joined_id):
            return replace(now, joined=(*now.joined, JoinedProject(joined_id, event.position)))
        case ProjectArchived():
            return replace(now, status=ARCHIVED)
        case ProjectRestored():
            return replace(now, status=ACTIVE)
        case ProjectStateSet():
            return replace(now, state=(*_without(now, data.category, data.name), _entry(event, data)))
        case ProjectStateInvalidated(category, key):
            return replace(now, state=_without(now, category, key))
        case _:
            assert_never(data)


def _registered(event: AnyEvent, data: ProjectRegistered) -> ProjectState:
    return ProjectState(
        row=event.first,
        id=event.stream,
        user=event.envelope.user,
        name=data.name,
        description=data.description,
        status=ACTIVE,
        aliases=(),
        state=(),
        joined=(),
        roots=(),
        recorded_at=event.envelope.recorded_at,
        version=event.version,
        position=event.position,
    )


def _renamed(project: ProjectState, name: str | None) -> ProjectState:
    """Return a project under its new name, with the former name as an alias; an erased new name changes nothing."""
    if name is None:
        return project
    others = [other for other in (project.name, *project.aliases) if other is not None]
    return replace(project, name=name, aliases=tuple(other for other in others if name_form(other) != name_form(name)))


def _entry(event: AnyEvent, data: ProjectStateSet) -> TrustedEntry:
    envelope = event.envelope
    author = (envelope.actor, envelope.recorded_at, event.position)
    return TrustedEntry(data.category, data.name, data.value, data.source, *author)


def _without(project: ProjectState, category: str, key: str | None) -> tuple[TrustedEntry, ...]:
    return tuple(entry for entry in project.state if (entry.category, entry.key) != (category, key))


def admits(project: ProjectState | None, data: EventData) -> bool:
    """Return True if a recorded event is possible in this state, which earlier events that became void may have changed."""
    return project is not None or isinstance(data, ProjectRegistered)
