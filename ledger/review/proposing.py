"""The steps that the searches for merges and conflicts share under the lock, where a match is checked again."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ledger.core.work import Work
from ledger.events import EventData
from ledger.memories.state import MemoryState
from ledger.review import rules
from ledger.review.rules import ConflictState, MergeState
from projections.views import conflicts, merges

Scope = Sequence[str | None] | None  # projects, in which None stands for memories without a project; None for all


class Searched(Struct, frozen=True):
    """A memory as a search saw it; each search adds the fields that it compares."""

    row: int
    id: str
    project: str | None
    content: str


def are_as_seen(work: Work, seen: Sequence[Searched]) -> bool:
    """Return True if the memories are active now, and each field that the search saw has the same value."""
    return all(_is_as_seen(memory, work.find(memory.id, "m")) for memory in seen)


def _is_as_seen(seen: Searched, now: MemoryState | None) -> bool:
    if now is None or now.status != "active" or now.quarantined:
        return False
    fields = set(seen.__struct_fields__) & set(now.__struct_fields__)
    return all(getattr(seen, name) == getattr(now, name) for name in fields)


def merges_about(work: Work, memories: Sequence[str]) -> list[MergeState]:
    """Return the merges that have one of the memories as a member."""
    rows = dict.fromkeys(row for id in memories for row in merges.about(work.rows, id))
    return [merge for row in rows if (merge := work.at_row(row, "g")) is not None]


def conflicts_about(work: Work, memories: Sequence[str]) -> list[ConflictState]:
    """Return the conflicts that have one of the memories as a member."""
    rows = dict.fromkeys(row for id in memories for row in conflicts.about(work.rows, id))
    return [conflict for row in rows if (conflict := work.at_row(row, "k")) is not None]


def emit(work: Work, reviewed: rules.Reviewed, command: rules.Command) -> list[EventData]:
    """Emit the events of a command on a known merge or conflict, and return them."""
    events = rules.decide(command, reviewed)
    for event in events:
        work.emit(reviewed.id, event, first=reviewed.row)
    return events
