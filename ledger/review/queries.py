"""The queries on merges and conflicts; the present state of their memories is looked up at each read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

from ledger.core.call import answer_of
from ledger.core.engine import ReadingEngine
from ledger.core.reads import NOWHERE, Place, load, scope_of, start_behind
from ledger.domain.confidence import shown
from ledger.memories.shown import memories_shown
from ledger.memories.state import since
from ledger.review import merge_policy, rules, uniting
from ledger.review.answers import Conflict, Merge
from ledger.review.rules import ConflictState, MergeState
from projections.core.rows import Connection, Start
from projections.views import conflicts, merges, projects

S = TypeVar("S", ConflictState, MergeState)
A = TypeVar("A", Conflict, Merge)
_AT_A_TIME = 50  # rows to read at least, for rows with other statuses are left out afterwards


def list_merges(
    engine: ReadingEngine, user: str, statuses: Sequence[str], project: str | None, limit: int, place: Place
) -> list[Merge]:
    """Return merges in one of these statuses, from a place on; no statuses mean every status."""
    stored = {rules.PROPOSED if status == rules.OBSOLETE else status for status in statuses} or rules.MERGE_STATUSES

    def read(connection: Connection, start: Start, count: int) -> list[MergeState]:
        return merges.listing(connection, user, sorted(stored), start, count)

    return _listed(engine, user, statuses, project, limit, place, read, merge_answer)


def get_merge(engine: ReadingEngine, user: str, id: str) -> Merge | None:
    """Return a merge as it stands, or None."""
    with engine.reading() as connection:
        state = load(connection, id, "g", user)
        return merge_answer(connection, state) if state is not None else None


def merge_answer(connection: Connection, state: MergeState) -> Merge:
    members = [member for id in state.memories if (member := conflicts.member(connection, id)) is not None]
    why = merge_policy.why_obsolete(connection, state) if state.status == rules.PROPOSED else ""
    content = state.content
    if state.status == rules.PROPOSED and not content and members:
        content = uniting.best(members).content
    elif state.memory is not None:
        result = conflicts.member(connection, state.memory)
        content = result.content if result is not None else None
    return answer_of(
        Merge,
        state,
        status=rules.OBSOLETE if why else state.status,
        memories=tuple(memories_shown(connection, members)),
        content=content,
        similarity=shown(state.similarity),
        project=_name(connection, state.project),
        why=why,
    )


def list_conflicts(
    engine: ReadingEngine, user: str, statuses: Sequence[str], project: str | None, limit: int, place: Place
) -> list[Conflict]:
    """Return conflicts in one of these statuses, from a place on; no statuses mean every status."""

    def read(connection: Connection, start: Start, count: int) -> list[ConflictState]:
        return conflicts.listing(connection, user, start, count)

    return _listed(engine, user, statuses, project, limit, place, read, conflict_answer)


def get_conflict(engine: ReadingEngine, user: str, id: str) -> Conflict | None:
    """Return a conflict as it stands, or None."""
    with engine.reading() as connection:
        state = load(connection, id, "k", user)
        return conflict_answer(connection, state) if state is not None else None


def conflict_answer(connection: Connection, state: ConflictState) -> Conflict:
    status, members = conflicts.status_of(connection, state, conflicts.naming(connection, state.members))
    active = [member for member in members if member.status == "active" and not member.quarantined]
    newest = max(active, key=since).id if status == rules.OPEN else None
    return answer_of(
        Conflict,
        state,
        status=status,
        newest=newest,
        attribute=state.slot,
        memories=tuple(memories_shown(connection, members)),
        values=dict(zip(state.members, state.values, strict=False)),
        project=_name(connection, state.project),
    )


def _listed(
    engine: ReadingEngine,
    user: str,
    statuses: Sequence[str],
    project: str | None,
    limit: int,
    place: Place,
    read: Callable[[Connection, Start, int], list[S]],
    answer: Callable[[Connection, S], A],
) -> list[A]:
    """Return the subjects from a place on that have one of these statuses now; ``read`` reads a lot of rows at a time."""
    count, results = max(limit, _AT_A_TIME), list[A]()
    with engine.reading() as connection:
        about = scope_of(connection, user, project)
        if about == [NOWHERE]:
            return []
        start = start_behind(connection, place[0], oldest_first=place[1])
        while states := read(connection, start, count):
            shown = (answer(connection, state) for state in states if about is None or state.project in about)
            results += islice(
                (answered for answered in shown if not statuses or answered.status in statuses), limit - len(results)
            )
            if len(results) == limit or len(states) < count:
                break
            start = start.after(states[-1].row)
        return results


def _name(connection: Connection, project: str | None) -> str | None:
    return projects.names(connection, {project}).get(project, project) if project is not None else None
