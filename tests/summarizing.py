"""Summaries of any text, written as a compaction writes them, and a summarizer that answers what it is told to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import probe

from ledger import Ledger
from ledger.core.work import Work
from ledger.domain.ids import subject_id
from ledger.events import ContextReplaced, EventData, MessageAppended, SummaryCreated, SummaryInvalidated
from ledger.models.port import SummaryRequest
from ledger.sessions import writing
from projections.views import sessions, summaries


def emit(ledger: Ledger, session: Any, *events: EventData) -> None:
    """Append events to a session, all in one command."""

    def body(work: Work) -> str:
        state = writing.known(probe.session(session), work)
        for event in events:
            work.emit(state.id, event, first=state.row)
        return state.id

    probe.writer(ledger).run("compact", probe.session(session).who, body)


def summarise(
    ledger: Ledger, session: Any, text: str, ranges: Sequence[tuple[int, int]] = (), of: Sequence[str] = ()
) -> str:
    """Put a new summary into the window and return its id.

    The summary is a leaf over ranges of positions, or condensed from the summaries named by ``of``.
    """
    with probe.session(session).reading() as (connection, state):
        assert state is not None
        known = {each.id: each for each in summaries.of_session(connection, state.row)}
        underlying = [known[id] for id in of]
        covered = tuple(ranges) or tuple(each for row in underlying for each in row.ranges)
        rows = sessions.within(connection, state.row, covered)
    id = subject_id("y", (state.row << 20 | len(known)).to_bytes(10, "big"))
    created = SummaryCreated(
        summary=id,
        kind="condensed" if of else "leaf",
        level="normal",
        depth=max((each.depth + 1 for each in underlying), default=0),
        content=text,
        tokens=5,
        counter="given",
        ranges=covered,
        messages=len(rows),
        source_tokens=sum(row.tokens for row in rows),
        first=rows[0].row,
        earliest=min(row.time for row in rows),
        latest=max(row.time for row in rows),
        summaries=tuple(of),
    )
    emit(ledger, session, created, ContextReplaced(id, tuple(of)))
    return id


def invalidate(ledger: Ledger, session: Any, id: str) -> None:
    emit(ledger, session, SummaryInvalidated((id,), "asked"))


def tie(ledger: Ledger, session: Any, interaction: str, field: str, role: str) -> None:
    """Append a message whose text is stored with a captured turn."""
    emit(ledger, session, MessageAppended(role, 5, "given", interaction=interaction, field=field))


class Writer:
    """A summariser that answers what it is told to, or a short sentence, and remembers what it was asked."""

    name = "stub-1"

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), list[SummaryRequest]()

    def summarize(self, asked: SummaryRequest) -> Any:
        self.asked.append(asked)
        answer = self.answers.pop(0) if self.answers else f"They spoke of {len(self.asked)}."
        if isinstance(answer, BaseException):
            raise answer
        return answer(asked) if callable(answer) else answer
