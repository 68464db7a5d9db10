"""The beliefs that came, went and changed between two moments."""

from __future__ import annotations

from ledger import answers
from ledger.core.engine import Engine
from ledger.core.past import Instant, PastEngine, committed, position_of
from ledger.core.snapshot import NOWHERE, scope_of
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.log.reading import read_tip
from ledger.memories.queries import memory_shown
from ledger.memories.rules import MemoryState
from projections.views import memories


def diff(
    engine: Engine, user: str, start: Instant, end: Instant | None = None, *, project: str | None = None
) -> answers.Diff:
    """Return the beliefs that came, went and changed between two moments; without an ``end`` until now.

    Each memory is compared as it stood at the start and at the end: a memory that came and went in between is not
    shown. ``project`` limits the answer to a project's memories, "" to the global ones.

    Raises:
        RejectedError: The end comes before the start, or ``at`` refuses one of the moments.
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
    return answers.diff(changes, (first, bounds[0]), (last, bounds[1]))


def _changed(past: PastEngine, user: str, first: int, project: str | None) -> list[answers.Changed]:
    with past.reading() as connection:
        places = scope_of(connection, user, project)
        if places == [NOWHERE]:
            raise NotFoundError(f"no project of this user is called {project!r:.60}")
        changes = []
        for row in memories.changed(connection, user, first):
            pair = memories.get_at(connection, row, first), memories.get(connection, row)
            if pair == (None, None):  # the memory came and went in between
                continue
            if places is None or any(memory is not None and memory.project in places for memory in pair):
                before, after = (memory_shown(connection, memory) for memory in pair)
                changes.append(answers.Changed(id=_id(pair), before=before, after=after))
        return changes


def _id(pair: tuple[MemoryState | None, ...]) -> str:
    return next(memory.id for memory in pair if memory is not None)
