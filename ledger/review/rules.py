"""The life cycle of merges and conflicts: memories that a search puts before a person, who decides about them.

    none ──propose──► waiting ──accept───► the memories become one, or one of them is kept
                         └─────dismiss──► the memories stay as they are

    ==================  =====================================  =====================================================
                        a merge                                a conflict
    ==================  =====================================  =====================================================
    waiting             proposed                               open, action ""
    accepted            merged (``Unite``)                     resolved, action "keep" (``Keep``)
    dismissed           rejected                               resolved, action "accept"
    ended by itself     obsolete: a member changed             lapsed: the members do not clash any more
    proposed again      after a merge whose members are back;  while nobody decided, with more members;
                        never after a rejection                after a decision a new conflict begins
    decided again       no                                     yes: the last decision is in effect
    without a proposal  it can begin as merged                 no
    ==================  =====================================  =====================================================

No event says that a proposal ended by itself: ``queries.py`` compares the memories on each read, and the proposal waits again
as soon as the memories are as before.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.errors import RejectedError
from ledger.events import (
    AnyEvent,
    ConflictFound,
    ConflictResolved,
    EventData,
    MemoriesMerged,
    MergeProposed,
    MergeRejected,
)

PROPOSED, MERGED, REJECTED = "proposed", "merged", "rejected"  # of a merge
OBSOLETE = "obsolete"  # computed when a merge is read, never stored
MERGE_STATUSES = (PROPOSED, MERGED, REJECTED)

KEEP, ACCEPT = "keep", "accept"
CONFLICT_ACTIONS = ("", KEEP, ACCEPT)
OPEN, RESOLVED, LAPSED = "open", "resolved", "lapsed"  # of a conflict, computed when it is read

MERGE_RULE, CONFLICT_RULE = "merge/1", "conflict/1"  # by which an accepted proposal supersedes memories


class MergeState(Struct, frozen=True):
    """The state of a merge, folded from its events; the fields are the columns of its row, in order."""

    row: int
    id: str
    user: str | None
    project: str | None
    memories: tuple[str, ...]
    status: str
    similarity: int
    rule: str
    content: str | None
    model: str | None
    memory: str | None  # the memory that the members became
    reason: str | None
    proposed_at: int  # the position of the last proposal; 0 without a proposal
    recorded_at: str
    version: int
    position: int


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


class ProposeAgain(Struct, frozen=True):
    """A command with a search's new match for memories that it matched before."""

    match: MergeProposed | ConflictFound


class Unite(Struct, frozen=True):
    """A command that accepts a merge: the members became ``memory``."""

    memory: str
    reason: str = ""


class Keep(Struct, frozen=True):
    """A command that accepts a conflict: ``winner`` supersedes the others of the ``active`` members."""

    winner: str
    active: tuple[str, ...]
    reason: str = ""


class Dismiss(Struct, frozen=True):
    """A command that leaves the memories as they are: they are not the same, or all of them can be true."""

    reason: str = ""


Reviewed = MergeState | ConflictState
Command = ProposeAgain | Unite | Keep | Dismiss
S = TypeVar("S", MergeState, ConflictState)


def decide(command: Command, reviewed: Reviewed) -> list[EventData]:
    """Return the events that a command leads to; none if the state asked for is already reached.

    Raises:
        RejectedError: The state does not allow the command.
    """
    match command, reviewed:
        case ProposeAgain(), MergeState(status="rejected"):
            return []
        case ProposeAgain(match), MergeState():
            return [match]
        case ProposeAgain(match), ConflictState(slot=slot, members=members, values=values):
            return [] if match == ConflictFound(slot, members, values, match.rule) else [match]
        case Unite(memory, reason), MergeState(status="proposed", memories=memories):
            return [MemoriesMerged(memory, memories, MERGE_RULE, reason)]
        case Dismiss(reason), MergeState(status="proposed"):
            return [MergeRejected(reason)]
        case Dismiss(), MergeState(status="rejected"):
            return []
        case Unite() | Dismiss(), MergeState() as merge:
            raise _refusal("merge" if isinstance(command, Unite) else "reject", merge)
        case Keep(winner, active, reason), ConflictState() as conflict:
            _check_winner(winner, active, conflict)
            reached = (conflict.action, conflict.winner) == (KEEP, winner) and set(active) == {winner}
            return [] if reached else [ConflictResolved(KEEP, winner, reason)]
        case Dismiss(reason), ConflictState(action=action):
            return [] if action == ACCEPT else [ConflictResolved(ACCEPT, None, reason)]
        case _:
            raise TypeError(f"{type(command).__name__} is not a command for {reviewed.id}")


def check_not_rejected(merge: MergeState) -> None:
    """Raise ``RejectedError`` if the proposal was rejected; a merge that was made may be asked for again."""
    if merge.status == REJECTED:
        raise _refusal("merge", merge)


def _refusal(verb: str, merge: MergeState) -> RejectedError:
    hints = {
        MERGED: f"it became {merge.memory}; undo that command, which brings the members back",
        REJECTED: "it was rejected; name the memories themselves, or undo the rejection",
    }
    return RejectedError(f"cannot {verb} {merge.id}: {hints[merge.status]}", rule="transition", subject=merge.id)


def _check_winner(winner: str, active: tuple[str, ...], conflict: ConflictState) -> None:
    why = ""
    if winner not in conflict.members:
        why = f"{winner} is not a member; the members are: {', '.join(conflict.members)}"
    elif winner not in active:
        why = f"{winner} is not active; restore it, or keep one of: {', '.join(active)}"
    if why:
        raise RejectedError(f"cannot resolve {conflict.id}: {why}", rule="conflict", subject=conflict.id)


def evolve(reviewed: S | None, event: AnyEvent) -> S | None:
    if reviewed is None:
        begins = isinstance(event.data, MergeProposed | MemoriesMerged | ConflictFound)
        return _begun(event) if begins else None
    return replace(reviewed, version=event.version, position=event.position, **_changes(event))


def _begun(event: AnyEvent) -> Any:
    envelope = event.envelope
    fields: dict[str, Any] = {
        "row": event.first,
        "id": event.stream,
        "user": envelope.user,
        "project": envelope.project,
        "recorded_at": envelope.recorded_at,
        "version": event.version,
        "position": event.position,
    }
    if isinstance(event.data, ConflictFound):
        return ConflictState(**fields, **_changes(event))
    unproposed: dict[str, Any] = {"similarity": 0, "rule": "", "content": "", "model": "", "proposed_at": 0}
    return MergeState(**fields, **(unproposed | _changes(event)))


def _changes(event: AnyEvent) -> dict[str, Any]:
    match event.data:
        case MergeProposed(memories, similarity, rule, content, model):
            fields = {"memories": memories, "similarity": similarity, "rule": rule, "content": content, "model": model}
            return {"status": PROPOSED, "memory": None, "reason": "", "proposed_at": event.position} | fields
        case MemoriesMerged(memory, memories, _, reason):
            return {"status": MERGED, "memory": memory, "memories": memories, "reason": reason}
        case MergeRejected(reason):
            return {"status": REJECTED, "reason": reason}
        case ConflictFound(slot, members, values, rule):
            fields = {"slot": slot, "members": members, "values": values or (), "rule": rule}
            return {"action": "", "winner": None, "reason": ""} | fields
        case ConflictResolved(action, winner, reason):
            return {"action": action, "winner": winner, "reason": reason}
        case data:
            raise TypeError(f"{type(data).__name__} is not an event of a merge or a conflict")


def admits_merge(merge: MergeState | None, data: EventData) -> bool:
    """Return True if an event recorded earlier is still possible in this state, after earlier events became void."""
    if merge is None:
        return isinstance(data, MergeProposed | MemoriesMerged)
    is_rejected_already = isinstance(data, MergeRejected) and merge.status == REJECTED
    return merge.status == PROPOSED or is_rejected_already or isinstance(data, MergeProposed)


def admits_conflict(conflict: ConflictState | None, data: EventData) -> bool:
    """Return True as ``admits_merge`` does; every decision follows a conflict that was found."""
    return conflict is not None or isinstance(data, ConflictFound)
