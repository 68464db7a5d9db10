"""The query for the commands that rules refused."""

from __future__ import annotations

from ledger.core.answer import answer_of
from ledger.core.paging import CAP
from ledger.core.reading_engine import ReadingEngine
from ledger.core.snapshot import LIST_LIMIT, listed
from ledger.guards import answers
from projections.views import control


def refusals(
    engine: ReadingEngine, user: str, *, limit: int = LIST_LIMIT, after: int | None = None
) -> list[answers.Refusal]:
    """Return the commands that rules refused, newest first, before the position ``after``: labels and numbers, never a text."""
    with engine.reading() as connection:
        rows = control.refusals(connection, user, listed(limit, CAP + 1), 2**62 if after is None else after)
    return [answer_of(answers.Refusal, row) for row in rows]
