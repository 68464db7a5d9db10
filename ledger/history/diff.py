"""What the ledger came to believe, and no longer believes, from one moment to another."""

from __future__ import annotations

from ledger import answers
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.memory import Memory
from ledger.engine.engine import Engine
from ledger.engine.past import Instant, PastEngine, committed, position_of
from ledger.engine.snapshot import NOWHERE, scope_of
from ledger.memories.queries import memory_shown
from ledger.store.reading import read_tip
from projections.views import memories


def diff(
    engine: Engine, user: str, start: Instant, end: Instant | None = None, *, project: str | None = None
) -> answers.Diff:
    """What the ledger came to believe, and no longer believes, between two moments; without an ``end`` until now.

    Each memory is compared as it stood at the one and at the other: what came and went in between is not shown.
    ``project`` bounds it to a project's memories, "" to the global ones. ``RejectedError`` when the end comes before the
    start, and for whatever ``at`` refuses.
    """
    with committed(engine) as connection:
        first = position_of(engine, connection, start)
        last = position_of(engine, connection, end) if end is not None else read_tip(connection.cursor())[0]
        if last < first:
            raise RejectedError(
                f"a diff goes forward, and position {last} comes before {first}: name the earlier first"
            )
        bounds = [engine.times.at(connection, each) for each in (first, last)]
    found = _changed(PastEngine(engine, last, bounds[1]), user, first, project)
    return answers.diff(found, (first, bounds[0]), (last, bounds[1]))


def _changed(past: PastEngine, user: str, first: int, project: str | None) -> list[answers.Changed]:
    with past.reading() as connection:
        wanted = scope_of(connection, user, project)
        if wanted == [NOWHERE]:
            raise NotFoundError(f"no project of this user is called {project!r:.60}")
        found = []
        for row in memories.changed(connection, user, first):
            pair = memories.get_at(connection, row, first), memories.get(connection, row)
            if pair == (None, None):  # it came and went in between
                continue
            if wanted is None or any(each is not None and each.project in wanted for each in pair):
                before, after = (memory_shown(connection, each) for each in pair)
                found.append(answers.Changed(id=_id(pair), before=before, after=after))
        return found


def _id(pair: tuple[Memory | None, ...]) -> str:
    return next(each.id for each in pair if each is not None)
