"""The commands that a call of undo or redo names: by an id, by a position, or as a group."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from ledger.core.reads import NOWHERE, id_of_filter, read_all, read_event
from ledger.domain import ids
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.text import check_text
from ledger.events import VOIDING, CommandRedone, OriginDistrusted, OriginTrusted, type_names
from ledger.undo.in_effect import LASTING
from projections.core.rows import Connection
from projections.views import audit, control

VOIDING_TYPES = type_names(VOIDING)


class CommandGroup(Struct, frozen=True, kw_only=True):
    """A group of commands: the commands that pass every filter.

    Attributes:
        session: The session of the commands, by name.
        command: The verb, such as "extract".
        columns: Filters by columns of the audit trail, as the parameters of ``audit.trail`` name them: ``actor``,
            ``correlation_id`` (all commands of an import or a run have the same), ``since`` and ``until``.
    """

    session: str | None = None
    command: str | None = None
    columns: Mapping[str, str] = MappingProxyType({})


def target_of(target: str | int) -> str | int:
    """Return the target of an undo after checking its type and size."""
    if isinstance(target, bool) or not isinstance(target, int | str):
        raise RejectedError(
            "a command is named by its id, by the id or the position of one of its events, and not by a"
            f" {type(target).__name__}"
        )
    if isinstance(target, int):
        if not 0 < target < 2**63:
            raise _nothing_at(target)
        return target
    return check_text("what to undo", target, blank_allowed=True)


def _nothing_at(position: int) -> NotFoundError:
    shown = position if abs(position) < 10**18 else "…"
    return NotFoundError(
        f"no command of this user wrote at position {shown}; history.audit() lists commands with their positions"
    )


def commands_named(
    connection: Connection,
    user: str,
    target: str | int | CommandGroup,
    *,
    redo: bool = False,
) -> list[audit.AuditRow]:
    """Return the entries of the commands named by a target or a group, for an undo or for a ``redo``.

    Raises:
        NotFoundError: There is no such command of this user.
        RejectedError: Such a command cannot be undone, so there is nothing to redo either.
    """
    entries = (
        _entries_of_group(connection, user, target)
        if isinstance(target, CommandGroup)
        else _entries_of_target(connection, target)
    )
    if not entries or any(entry.user != user for entry in entries):
        if isinstance(target, CommandGroup):
            raise NotFoundError("no command of this user is in that group")
        if isinstance(target, int):
            raise _nothing_at(target)
        hint = "give a command's or event's id, a position, or a correlation id"
        if ids.is_prefix(target, target[:1]):
            last = audit.trail(connection, user=user, subject=target, limit=1)
            hint = "no subject with this id is known"
            if last:
                hint = f"it is a subject, and its last command ({last[0].command}) is at position {last[0].position}"
        raise NotFoundError(
            f"no command of this user is named by {target!r:.60}: {hint}; history.undo_all() takes a session, a verb or an actor"
        )
    distrusts = {entry.command_id for entry in entries if entry.type == OriginDistrusted.__name__}
    # A distrust also records redos, for the undos that it reverses. No redo can be undone, but these redos end with the
    # distrust, so they do not forbid its undo.
    undoable = [entry for entry in entries if entry.type != CommandRedone.__name__ or entry.command_id not in distrusts]
    if lasting := [entry for entry in undoable if entry.type in LASTING]:
        message = f"{lasting[0].type} cannot be undone: {_alternative(connection, lasting[0])}"
        if redo:
            message = f"there is nothing to redo: {lasting[0].type} at position {lasting[0].position} is never undone"
        raise RejectedError(message, rule="transition")
    return entries


def _entries_of_group(connection: Connection, user: str, group: CommandGroup) -> list[audit.AuditRow]:
    session = id_of_filter(connection, user, "s", group.session) if group.session is not None else None
    if session == NOWHERE or (group.session is not None and session is None):
        return []
    bounds: dict[str, str] = dict(group.columns)
    entries = audit.trail(connection, user=user, session=session, command=group.command, limit=2**31, **bounds)
    never_undone = (*LASTING, *VOIDING_TYPES)
    return [entry for entry in reversed(entries) if entry.user == user and entry.type not in never_undone]


def _entries_of_target(connection: Connection, target: str | int) -> list[audit.AuditRow]:
    first = audit.at(connection, target) if isinstance(target, int) else audit.by_event(connection, target)
    if first is not None:
        return audit.of_command(connection, first.command_id)
    return audit.of_correlation(connection, target) if isinstance(target, str) and target else []


_ALTERNATIVES = {
    "LegalHoldPlaced": "lift the hold",
    "LegalHoldReleased": "place the hold again",
    "ProjectionSuspended": "rebuild folds the projection again",
    "WriteRefused": "nothing was written",
}


def _alternative(connection: Connection, entry: audit.AuditRow) -> str:
    """Return the words that tell a person what to do instead of undoing a lasting event.

    Instead of undoing a redo or a trust, a person undoes or distrusts again; the words name the commands or the origin.
    """
    event = read_event(connection, entry.position)
    data = event.data if event is not None else None
    if isinstance(data, CommandRedone):
        restored = (audit.at(connection, position) for position in control.positions(data.ranges))
        commands = list(dict.fromkeys(entry.command_id for entry in restored if entry is not None))
        more = f" … ({len(commands)} in all)" if len(commands) > 5 else ""
        return f"undo again what it put back: undo {', '.join(commands[:5])}{more}"
    if isinstance(data, OriginTrusted):
        ended = _distrust_in(connection, data.distrusted)
        origin = f"{ended.origin!r:.60} (kind {ended.kind})" if ended is not None and ended.origin else "the origin"
        return f"distrust {origin} again"
    return _ALTERNATIVES.get(entry.type, "it is for good")


def _distrust_in(connection: Connection, command: str) -> OriginDistrusted | None:
    """Return the distrust that a command recorded, or None."""
    events = read_all(connection, audit.of_command(connection, command))
    return next((event.data for event in events if isinstance(event.data, OriginDistrusted)), None)
