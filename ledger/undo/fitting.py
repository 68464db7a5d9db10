"""The checks of a redo or a trust: the events that come back have to fit, and nothing may rest on events that fall.

The events at the positions ``restored`` come back. The events at the positions ``without`` become void: a trust brings
back the undos of an origin, so that the undone events are void again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec import Struct

from ledger.domain import ids
from ledger.domain.errors import ConflictError, DependentsError
from ledger.domain.text import counted
from ledger.events import (
    AnyEvent,
    DocumentAdded,
    MemoryCaptured,
    MemoryPromoted,
    MessageAppended,
    ProjectAliasAdded,
    ProjectJoined,
    ProjectRegistered,
    ProjectRenamed,
    SessionAliasAdded,
    ids_in,
)
from ledger.history.citations import ATTEMPTS
from ledger.undo import answers
from ledger.undo.conversations import orphaned_events
from ledger.undo.in_effect import INERT, Reader
from ledger.undo.undo_plan import UndoPlan
from ledger.values.rules import ACTIVE
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.views import documents, memories, projects, values


class Cascaded(Struct, frozen=True):
    """The later commands that fall with an act, because they were built on events that the act makes void."""

    commands: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()
    dependents: tuple[answers.Dependent, ...] = ()


def dependents_error(dependents: Sequence[answers.Dependent], on: str) -> DependentsError:
    """Return the error of an act without cascade, which names the later commands built on the events made void."""
    first = "; ".join(map(str, dependents[:5]))
    more = f"; and {len(dependents) - 5:,} more" if len(dependents) > 5 else ""
    return DependentsError(
        f"{counted(len(dependents), 'later command')} built on {on}: {first}{more} (undo them first, or use cascade to undo them"
        " together)",
        dependents=tuple(dependents),
    )


def project_in_use_error(registered: AnyEvent, use: AnyEvent) -> ConflictError:
    """Return the error of undoing a project's registration while others use the project; a cascade does not help."""
    name = registered.data.name or registered.stream
    return ConflictError(
        f"the project {name!r:.60} stands while others use it: {answers.dependent(use, 'is in it')} (undo that first)"
    )


def _not_restorable_error(event: AnyEvent, why: str, remedy: str) -> ConflictError:
    return ConflictError(f"{answers.dependent(event, why)} ({remedy})")


def check_restorable(reader: Reader, streams: Collection[str], restored: set[int], without: Collection[int]) -> None:
    """Raise ``ConflictError`` if the events ``restored`` do not fit, or their names or idempotency keys are taken."""
    _check_projects(reader, restored, without)
    for stream in streams:
        _check_subject(reader, stream, restored, without)
    _check_support(reader, restored, without)
    _check_causes(reader, restored, without)
    _check_keys(reader, restored)
    _check_names(reader, restored)
    check_values(reader, streams, without, restored)
    check_lines(reader, streams, without, restored)


def _check_subject(reader: Reader, stream: str, restored: set[int], without: Collection[int]) -> None:
    """Raise ``ConflictError`` if the later events of a subject do not fit the events that come back."""
    family, state = FAMILIES[ids.kind_of(stream)], None
    for event in reader.events_in_effect(stream, without, restored):
        if not family.admits(state, event.data):
            raise _not_restorable_error(event, "does not fit what happened to it since", "undo that first")
        state = family.evolve(state, event)
    if stream[0] == "s":
        _check_conversation(reader, stream, state, restored, without)


def _check_support(reader: Reader, restored: set[int], without: Collection[int]) -> None:
    """Raise ``ConflictError`` if an event would come back without a subject on which the event rests.

    A memory needs one of its sources, a reinforcement its turn, a supersession its successor.
    """
    for event in map(reader.event, sorted(restored)):
        sources = ids_in(event.data, "rests_on")
        if gone := [source for source in sources if not reader.exists(source, without, restored)]:
            raise _not_restorable_error(
                event, f"rests on {gone[0]}, which is not there any more", "put that back first"
            )
        if isinstance(event.data, ATTEMPTS) and reader.has_lost_its_ground(event, without, restored):
            cited = ", ".join(event.data.sources[:5])
            raise _not_restorable_error(event, f"rests on {cited}, which is not there any more", "put that back first")


def _check_causes(reader: Reader, restored: set[int], without: Collection[int]) -> None:
    """Raise ``ConflictError`` if an event that reacted to another event would come back without that event."""
    for event in map(reader.event, sorted(restored)):
        cause = reader.cause_of(event)
        if cause is not None and cause not in restored and (cause in without or reader.is_void(cause)):
            raise _not_restorable_error(event, f"was caused by position {cause}, which is void", "put that back first")


def commands_to_cascade(
    connection: Connection, restored: set[int], void_again: Collection[int], cascade: bool
) -> Cascaded:
    """Return the commands that were built on the events that become void again when a distrust ends.

    The distrust had reversed the undos of these events.

    Raises:
        DependentsError: There are such commands, and ``cascade`` is False.
        ConflictError: An event that becomes void again registered a project that others use.
    """
    reader = Reader(connection, restored)
    plan = UndoPlan(reader, void_again)
    if plan.projects_in_use:
        raise project_in_use_error(*plan.projects_in_use[0])
    if dependents := plan.dependents():
        falling = (position for position in plan.fallen if position not in void_again and not reader.is_void(position))
        positions = tuple(sorted(falling))
        if not cascade:
            raise dependents_error(dependents, "what becomes void again then")
        named = plan.named_commands
        commands = tuple(command for command in plan.commands if command not in named)
        return Cascaded(commands, positions, dependents)
    return Cascaded()


def _check_conversation(reader: Reader, session: str, state: Any, restored: set[int], without: Collection[int]) -> None:
    """Raise ``ConflictError`` if events of a session would come back without the events that they need.

    A session that was joined to another session comes back only if no message was appended to it since.
    """

    def is_gone(interaction: str) -> bool:
        return interaction in interactions and not reader.exists(interaction, without, restored)

    returning = (event.data for event, _ in reader.stream(session) if event.position in restored)
    interactions = {data.interaction for data in returning if isinstance(data, MessageAppended)}
    for event in orphaned_events(reader, session, without, restored, is_gone):
        why = "does not fit what happened to it since, for what it was made from is not there"
        raise _not_restorable_error(event, why, "put that back first, or undo this too")
    if state is not None and state.moved_to is not None and state.messages:
        raise ConflictError(
            f"{session} has messages of its own, so its names cannot be those of {state.moved_to} again"
        )


def _check_projects(reader: Reader, restored: set[int], without: Collection[int]) -> None:
    """Raise ``ConflictError`` if an event would come back in a project whose registration was undone since."""
    returning = [event for event in map(reader.event, sorted(restored)) if event.type not in INERT]
    named = {event.envelope.project for event in returning if event.envelope.project}
    gone = {project for project in named if not reader.exists(project, without, restored)}
    for event in returning:
        if event.envelope.project in gone:
            why = f"is in {event.envelope.project}, which is not there any more"
            raise _not_restorable_error(event, why, "put its registration back first")


def check_values(
    reader: Reader, streams: Iterable[str], without: Collection[int], restored: Collection[int] = ()
) -> None:
    """Raise ``ConflictError`` if an active value would come back under a key that another active value has."""
    states = {stream: reader.state(stream, without, restored) for stream in streams if stream[0] == "v"}
    taken: dict[tuple[str | None, str | None, str | None], str] = {}
    for stream, state in states.items():
        if state is None or state.status != ACTIVE:
            continue
        key = (state.user, state.place, state.name)
        holder = values.active_under(reader.connection, *key, besides=states) or taken.get(key)
        if holder is not None:
            raise ConflictError(
                f"{stream} cannot be at {state.name!r:.60} again, for {holder} is there since: move or remove that value first"
            )
        taken[key] = stream


def check_lines(
    reader: Reader, streams: Iterable[str], without: Collection[int], restored: Collection[int] = ()
) -> None:
    """Raise ``ConflictError`` if a memory would be active again beside a memory that took its place meanwhile."""
    for stream in streams:
        then = reader.state(stream, without, restored) if stream[0] == "m" else None
        if then is None or then.status != "active":
            continue
        now = reader.state(stream)
        if now is not None and now.status == "active":
            continue
        spans = reader.void_spans(stream)
        since = min(
            spans[event.position][-1][0] if event.position in restored else event.position
            for event, _ in reader.stream(stream)
            if event.position in restored or event.position in without
        )
        line = [stream] if then.supersedes is None else [stream, then.supersedes]
        for holder in memories.active_below(reader.connection, line):
            later = (event for event in reader.events_in_effect(holder, without, restored) if event.position > since)
            if any(isinstance(event.data, MemoryCaptured | MemoryPromoted) for event in later):
                raise ConflictError(
                    f"{stream} cannot be active again, for {holder} is in its place since: undo or retract that first"
                )


def _check_keys(reader: Reader, positions: Iterable[int]) -> None:
    """Raise ``ConflictError`` if another command used the idempotency key of an event that comes back."""
    sql = "SELECT position FROM keys WHERE key = ? AND released_at IS NULL"
    for position in positions:
        key = reader.event(position).key
        used = reader.connection.execute(sql, (key,)).fetchone() if key is not None else None
        if used is not None and used[0] != position:
            raise ConflictError(
                f"the key of the command at position {position} was used again since; it cannot be redone"
            )


def _check_names(reader: Reader, positions: Iterable[int]) -> None:
    """Raise ``ConflictError`` if a name that comes back belongs to another subject by now.

    A session may have the name if the same redo takes the name from that session.
    """
    events = [reader.event(position) for position in positions]
    losing_names = {event.stream for event in events if isinstance(event.data, SessionAliasAdded)}
    for event in events:
        data = event.data
        if isinstance(data, ProjectJoined):
            _check_join(reader, event, data)
        if isinstance(data, DocumentAdded):
            _check_path(reader, event, data)
        name = data.alias if isinstance(data, SessionAliasAdded | ProjectAliasAdded) else None
        name = data.name if isinstance(data, ProjectRegistered | ProjectRenamed) else name
        kind = "session" if isinstance(data, SessionAliasAdded) else "project"
        owner = projects.find(reader.connection, event.envelope.user or "", kind[0], name) if name else None
        if owner is not None and owner[0] not in (losing_names if kind == "session" else {event.stream}):
            raise ConflictError(
                f"the name {name!r:.60} of the command at position {event.position} stands for another {kind} since; "
                "it cannot be redone"
            )


def _check_join(reader: Reader, event: AnyEvent, data: ProjectJoined) -> None:
    """Raise ``ConflictError`` if a join comes back whose project was joined with another project since."""
    joined = projects.together(reader.connection, data.project)
    if joined[0] != data.project or event.stream in joined:
        raise ConflictError(
            f"the project {data.project} of the command at position {event.position} was joined with another since; it cannot "
            "be redone"
        )


def _check_path(reader: Reader, event: AnyEvent, data: DocumentAdded) -> None:
    owner, path, digest = event.envelope.user or "", data.path or "", data.digest or ""
    known = documents.known_as(reader.connection, owner, path, digest)
    if known is not None and known.id != event.stream:
        raise ConflictError(
            f"the document of position {event.position} was added again since, as {known.id}: it cannot be put back "
            "next to it; undo that addition first"
        )
