"""The query for the commands that rules refused."""

from __future__ import annotations

from ledger.core.area import CAP
from ledger.core.call import answer_of
from ledger.core.engine import ReadingEngine
from ledger.core.reads import LIST_LIMIT, bounded_limit
from ledger.guards import answers
from projections.core.rows import NEWEST, Start
from projections.views import control


def refusals(
    engine: ReadingEngine, user: str, *, limit: int = LIST_LIMIT, start: Start = NEWEST
) -> list[answers.Refusal]:
    """Return the commands that rules refused, from ``start`` on: labels and numbers, never a text."""
    with engine.reading() as connection:
        rows = control.refusals(connection, user, bounded_limit(limit, CAP + 1), start)
    return [answer_of(answers.Refusal, row) for row in rows]
