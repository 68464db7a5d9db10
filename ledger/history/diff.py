"""The beliefs that came, went and changed between two moments."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.core.engine import Engine, Instant, PastEngine, committed, position_of
from ledger.core.reads import NOWHERE, scope_of
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.history import answers
from ledger.log.reading import read_tip
from ledger.memories.answers import Memory
from ledger.memories.shown import memory_shown
from ledger.memories.state import MemoryState
from projections.views import memories


def diff(
    engine: Engine, user: str, start: Instant, end: Instant | None = None, *, project: str | None = None
) -> answers.Diff:
    """Return the memories that came, went and changed between two moments; without an ``end`` up to now.

    Each memory is compared at the start and at the end, so a memory that came and went in between is not shown. ``project``
    limits the answer to the memories of a project; "" to memories without a project.

    Raises:
        RejectedError: The end comes before the start, or a moment is not in this ledger.
        NotFoundError: This user has no such project.
    """
    with committed(engine) as connection:
        first = position_of(engine, connection, start)
        last = position_of(engine, connection, end) if end is not None else read_tip(connection.cursor())[0]
        if last < first:
            raise RejectedError(
                f"a diff goes forward, and its end, position {last}, comes before its start, position {first}"
            )
        bounds = [engine.times.at(connection, position) for position in (first, last)]
    changes = _changed(PastEngine(engine, last, bounds[1]), user, first, project)
    return _sorted_by_change(changes, (first, bounds[0]), (last, bounds[1]))


def _changed(past: PastEngine, user: str, first: int, project: str | None) -> list[answers.Changed]:
    with past.reading() as connection:
        project_ids = scope_of(connection, user, project)
        if project_ids == [NOWHERE]:
            raise NotFoundError(f"no project of this user is called {project!r:.60}")
        changes = []
        for row in memories.changed(connection, user, first):
            pair = memories.get_at(connection, row, first), memories.get(connection, row)
            if pair == (None, None):  # the memory came and went in between
                continue
            if project_ids is None or any(memory is not None and memory.project in project_ids for memory in pair):
                before, after = (memory_shown(connection, memory) for memory in pair)
                changes.append(answers.Changed(id=_id(pair), before=before, after=after))
        return changes


def _id(pair: tuple[MemoryState | None, ...]) -> str:
    return next(memory.id for memory in pair if memory is not None)


def _sorted_by_change(changed: Sequence[answers.Changed], start: tuple[int, str], end: tuple[int, str]) -> answers.Diff:
    """Sort the changed memories by the kind of change."""
    parts: dict[str, list[answers.Changed]] = {}
    for pair in changed:
        if (change := _change_of_status(pair.before, pair.after)) is not None:
            parts.setdefault(change, []).append(pair)
        if pair.before is not None and pair.after is not None:
            if pair.before.confidence != pair.after.confidence:
                parts.setdefault("moved", []).append(pair)
            if _differs(pair.before, pair.after):
                parts.setdefault("revised", []).append(pair)
    changes = {name: tuple(pairs) for name, pairs in parts.items()}
    return answers.Diff(from_position=start[0], start=start[1], to_position=end[0], end=end[1], **changes)


def _change_of_status(before: Memory | None, after: Memory | None) -> str | None:
    """Return the name of the change between two statuses of a memory, or None if the memory is as much believed as before."""
    if before is None or after is None:
        return "added" if after is not None else "hidden" if before is not None else None
    if after.quarantined and not before.quarantined:
        return "hidden"
    match before.status, after.status:
        case was, now if was == now:
            return "restored" if before.quarantined and not after.quarantined else None
        case _, "superseded":
            return "superseded"
        case "candidate", "active":
            return "promoted"
        case "active", "candidate":
            return "hidden"
        case _, "active" | "candidate":
            return "restored"
        case "active" | "candidate" | "superseded", _:
            return "hidden"
    return None  # the memory was and is neither believed nor a candidate


def _differs(before: Memory, after: Memory) -> bool:
    names = ("content", "kind", "project", "tags", "entities", "relations", "metadata", "valid_from")
    if any(getattr(before, name) != getattr(after, name) for name in names):
        return True
    by_supersession = "superseded" in (before.status, after.status) and before.status != after.status
    return before.valid_to != after.valid_to and not by_supersession
