"""The checks of a redo or a trust: whether the events that it puts back fit, and what it would make void again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec import Struct

from ledger.domain import ids
from ledger.domain.errors import ConflictError, DependentsError
from ledger.events import (
    AnyEvent,
    DocumentAdded,
    MessageAppended,
    ProjectAliasAdded,
    ProjectJoined,
    ProjectRegistered,
    SessionAliasAdded,
    ids_in,
)
from ledger.history.citations import ATTEMPTS
from ledger.undo import answers
from ledger.undo.conversations import senseless
from ledger.undo.in_effect import INERT, Reader
from ledger.undo.undo_plan import UndoPlan
from ledger.values.rules import ACTIVE
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.views import documents, projects, values


class Cascaded(Struct, frozen=True):
    """The later commands that fall with an act, because they were built on events that the act makes void."""

    commands: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()
    dependents: tuple[answers.Dependent, ...] = ()


def built_later(dependents: Sequence[answers.Dependent], on: str) -> DependentsError:
    """Return the error of an act without cascade: it names the later commands built on what the act makes void."""
    first, many = "; ".join(map(str, dependents[:5])), "s" * (len(dependents) != 1)
    more = f"; and {len(dependents) - 5:,} more" if len(dependents) > 5 else ""
    return DependentsError(
        f"{len(dependents)} later command{many} built on {on}: {first}{more} (undo them first, or use cascade to undo them"
        " together)",
        dependents=tuple(dependents),
    )


def in_use(registered: AnyEvent, use: AnyEvent) -> ConflictError:
    """Return the error of undoing a project's registration while others use the project; a cascade does not help."""
    name = registered.data.name or registered.stream
    return ConflictError(
        f"the project {name!r:.60} stands while others use it: {answers.dependent(use, 'is in it')} (undo that first)"
    )


def _cannot(event: AnyEvent, why: str, first: str) -> ConflictError:
    """Return the error of an event that cannot be put back; ``first`` says what has to be done before."""
    return ConflictError(f"{answers.dependent(event, why)} ({first})")


def check(reader: Reader, streams: Collection[str], again: set[int], but: Collection[int]) -> None:
    """Raise ``ConflictError`` if the events ``again`` do not fit their subjects, or their keys or names are taken."""
    _check_projects(reader, again, but)
    for stream in streams:
        _check_legal(reader, stream, again, but)
    _check_support(reader, again, but)
    _check_causes(reader, again, but)
    _check_keys(reader, again)
    _check_names(reader, again)
    check_values(reader, streams, but, again)


def _check_legal(reader: Reader, stream: str, again: set[int], but: Collection[int]) -> None:
    """Raise ``ConflictError`` if events that are put back do not fit the later events of their subject."""
    family, state = FAMILIES[ids.kind_of(stream)], None
    for event in reader.counting(stream, but, again):
        if not family.admits(state, event.data):
            raise _cannot(event, "does not fit what happened to it since", "undo that first")
        state = family.evolve(state, event)
    if stream[0] == "s":
        _check_conversation(reader, stream, state, again, but)


def _check_support(reader: Reader, again: set[int], but: Collection[int]) -> None:
    """Raise ``ConflictError`` if an event would be back without what it rests on.

    A memory needs one of its sources, a reinforcement its turn, a supersession its successor.
    """
    for event in map(reader.event, sorted(again)):
        if gone := [source for source in ids_in(event.data, "rests_on") if reader.is_gone(source, but, again)]:
            raise _cannot(event, f"rests on {gone[0]}, which is not there any more", "put that back first")
        if isinstance(event.data, ATTEMPTS) and reader.is_unsupported(event, but, again):
            cited = ", ".join(event.data.sources[:5])
            raise _cannot(event, f"rests on {cited}, which is not there any more", "put that back first")


def _check_causes(reader: Reader, again: set[int], but: Collection[int]) -> None:
    """Raise ``ConflictError`` if an event that only reacted to another would be back without that other event."""
    for event in map(reader.event, sorted(again)):
        cause = reader.cause_of(event)
        if cause is not None and cause not in again and (cause in but or reader.is_out(cause)):
            raise _cannot(event, f"was caused by position {cause}, which is void", "put that back first")


def built_on(connection: Connection, again: set[int], but: Collection[int], cascade: bool) -> Cascaded:
    """Return the commands that were built on events which become void again.

    A distrust had taken back the undos of these events. Without ``cascade`` such commands are a ``DependentsError``
    that names them; a project that others use is a ``ConflictError`` in any case.
    """
    reader = Reader(connection, back=again)
    plan = UndoPlan(reader, but)
    if plan.used:
        raise in_use(*plan.used[0])
    if dependents := plan.dependents():
        falling = (position for position in plan.out if position not in but and not reader.is_out(position))
        positions = tuple(sorted(falling))
        if not cascade:
            raise built_later(dependents, "what becomes void again then")
        named = plan.named
        commands = tuple(command for command in plan.commands if command not in named)
        return Cascaded(commands, positions, dependents)
    return Cascaded()


def _check_conversation(reader: Reader, session: str, state: Any, again: set[int], but: Collection[int]) -> None:
    def is_gone(interaction: str) -> bool:
        return interaction in tied and reader.is_gone(interaction, but, again)

    back = (event.data for event, _ in reader.stream(session) if event.position in again)
    tied = {data.interaction for data in back if isinstance(data, MessageAppended)}
    for event in senseless(reader, session, but, again, is_gone):
        why = "does not fit what happened to it since, for what it was made from is not there"
        raise _cannot(event, why, "put that back first, or undo this too")
    if state is not None and state.moved_to is not None and state.messages:
        raise ConflictError(
            f"{session} has messages of its own, so its names cannot be those of {state.moved_to} again"
        )


def _check_projects(reader: Reader, again: set[int], but: Collection[int]) -> None:
    """Raise ``ConflictError`` if an event would be back in a project whose registration was undone since."""
    back = [event for event in map(reader.event, sorted(again)) if event.type not in INERT]
    gone = {project for event in back if (project := event.envelope.project) and reader.is_gone(project, but, again)}
    for event in back:
        if event.envelope.project in gone:
            why = f"is in {event.envelope.project}, which is not there any more"
            raise _cannot(event, why, "put its registration back first")


def check_values(reader: Reader, streams: Iterable[str], but: Collection[int], also: Collection[int] = ()) -> None:
    """Raise ``ConflictError`` if an active value would come back under a key that another active value has."""
    states = {stream: reader.state(stream, but, also) for stream in streams if stream[0] == "v"}
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


def _check_keys(reader: Reader, positions: Iterable[int]) -> None:
    sql = "SELECT position FROM keys WHERE key = ? AND released_at IS NULL"
    for position in positions:
        key = reader.event(position).key
        used = reader.connection.execute(sql, (key,)).fetchone() if key is not None else None
        if used is not None and used[0] != position:
            raise ConflictError(
                f"the key of the command at position {position} was used again since; it cannot be redone"
            )


def _check_names(reader: Reader, positions: Iterable[int]) -> None:
    """Raise ``ConflictError`` if a name that is given again belongs to another subject by now.

    The name of a session may also be given up by the session that has it.
    """
    events = [reader.event(position) for position in positions]
    giving_up = {event.stream for event in events if isinstance(event.data, SessionAliasAdded)}
    for event in events:
        data = event.data
        if isinstance(data, ProjectJoined):
            _check_join(reader, event, data)
        if isinstance(data, DocumentAdded):
            _check_path(reader, event, data)
        name = data.alias if isinstance(data, SessionAliasAdded | ProjectAliasAdded) else None
        name = data.name if isinstance(data, ProjectRegistered) else name
        kind = "session" if isinstance(data, SessionAliasAdded) else "project"
        owner = projects.find(reader.connection, event.envelope.user or "", kind[0], name) if name else None
        if owner is not None and owner[0] not in (giving_up if kind == "session" else {event.stream}):
            raise ConflictError(
                f"the name {name!r:.60} of the command at position {event.position} stands for another {kind} since; "
                "it cannot be redone"
            )


def _check_join(reader: Reader, event: AnyEvent, data: ProjectJoined) -> None:
    """Raise ``ConflictError`` if a project that is joined again stands elsewhere, or has the other one under it."""
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
