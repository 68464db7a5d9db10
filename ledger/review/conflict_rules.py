"""A conflict: two or more active memories that fill one slot with values that cannot both be so, and its resolution.

The status is computed on reading, from the members at that time: a conflict whose members leave has lapsed, and is open
again when they come back, without an event. ``resolved`` means that somebody decided.
"""

from __future__ import annotations

from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.errors import RejectedError
from ledger.events import AnyEvent, ConflictFound, ConflictResolved, EventData

KEEP, ACCEPT = "keep", "accept"
ACTIONS = ("", KEEP, ACCEPT)
OPEN, RESOLVED, LAPSED = "open", "resolved", "lapsed"


class ConflictState(Struct, frozen=True):
    """The state of a conflict, folded from its events; the fields are the columns of its row, in order.

    ``values`` are those of the members, in their order, while they are not erased. ``action`` is "" while nobody decided.
    """

    row: int
    id: str
    user: str | None
    project: str | None
    slot: str | None
    members: tuple[str, ...]
    values: tuple[str, ...]
    rule: str
    action: str
    winner: str | None
    reason: str | None
    recorded_at: str
    version: int
    position: int


class Find(Struct, frozen=True):
    """A command for members of one slot that were not all known; ``values`` are in their order."""

    slot: str
    members: tuple[str, ...]
    values: tuple[str, ...]
    rule: str


class Resolve(Struct, frozen=True):
    """A command with a person's decision. ``active`` are the active members: keeping one of them supersedes the others."""

    action: str
    winner: str | None
    active: tuple[str, ...]
    reason: str = ""


Command = Find | Resolve


def decide(command: Command, conflict: ConflictState) -> list[EventData]:
    match command:
        case Find(slot, members, values, rule):
            same = (slot, members, values) == (conflict.slot, conflict.members, conflict.values)
            return [] if same else [ConflictFound(slot, members, values, rule)]
        case Resolve("keep", winner, active, reason):
            if winner not in conflict.members:
                raise _refused(conflict, f"{winner} is not a member; the members are: {', '.join(conflict.members)}")
            if winner not in active:
                raise _refused(conflict, f"{winner} is not active; restore it, or keep one of: {', '.join(active)}")
            done = (conflict.action, conflict.winner) == (KEEP, winner) and set(active) == {winner}
            return [] if done else [ConflictResolved(KEEP, winner, reason)]
        case Resolve("accept", _, _, reason):
            return [] if conflict.action == ACCEPT else [ConflictResolved(ACCEPT, None, reason)]
        case _:
            raise _refused(conflict, "a resolution is keep=MEMORY or both=True")


def _refused(conflict: ConflictState, why: str) -> RejectedError:
    return RejectedError(f"cannot resolve {conflict.id}: {why}", rule="conflict", subject=conflict.id)


ConflictEvent = ConflictFound | ConflictResolved


def evolve(conflict: ConflictState | None, event: AnyEvent) -> ConflictState | None:
    data: ConflictEvent = event.data
    if conflict is None:
        return _begun(event, data) if isinstance(data, ConflictFound) else None
    return replace(conflict, version=event.version, position=event.position, **_changes(data))


def _begun(event: AnyEvent, data: ConflictFound) -> ConflictState:
    return ConflictState(
        row=event.first,
        id=event.stream,
        user=event.envelope.user,
        project=event.envelope.project,
        recorded_at=event.envelope.recorded_at,
        version=event.version,
        position=event.position,
        **_changes(data),
    )


def _changes(data: ConflictEvent) -> dict[str, Any]:
    match data:
        case ConflictFound(slot, members, values, rule):
            fields = {"slot": slot, "members": members, "values": values or (), "rule": rule}
            return {"action": "", "winner": None, "reason": ""} | fields
        case ConflictResolved(action, winner, reason):
            return {"action": action, "winner": winner, "reason": reason}
        case _:
            assert_never(data)


def admits(conflict: ConflictState | None, data: EventData) -> bool:
    """Return True if an event recorded earlier still makes sense on this state, once others before it are void."""
    return conflict is not None or isinstance(data, ConflictFound)
