"""The window of a session on a snapshot: its size, and its items, read from either end."""

from __future__ import annotations

from collections.abc import Iterator

from ledger.sessions.rules.assembly import USER
from ledger.sessions.rules.session import SessionState
from ledger.sessions.rules.window import MESSAGE, SUMMARY, Ranges, WindowItem
from projections.core.rows import Connection
from projections.views import sessions, summaries
from projections.views.sessions import MessageRow
from projections.views.summaries import SummaryRow


class OpenWindow:
    """The window of a session, with the ranges of hidden messages.

    ``tokens`` and ``count`` are the size and the number of its items. ``messages`` and ``message_tokens`` are the number and the
    size of the messages that are not hidden.
    """

    def __init__(self, connection: Connection, state: SessionState) -> None:
        self.connection = connection
        self.state = state
        self.hidden: list[sessions.Hidden] = sessions.hidden(connection, state.row)
        self.summaries: list[SummaryRow] = summaries.in_window(connection, state.row)
        self.messages: int = state.messages - sum(span.messages for span in self.hidden)
        self.message_tokens: int = state.tokens - sum(span.tokens for span in self.hidden)
        self.count: int = self.messages - sum(row.messages for row in self.summaries) + len(self.summaries)
        summarized = sum(row.source_tokens for row in self.summaries)
        self.tokens: int = self.message_tokens - summarized + sum(row.tokens for row in self.summaries)

    @property
    def hidden_ranges(self) -> Ranges:
        return tuple((hidden.first, hidden.last) for hidden in self.hidden)

    @property
    def covered(self) -> Ranges:
        """Return the ranges of the messages that summaries stand for."""
        return tuple(span for summary in self.summaries for span in summary.ranges)

    def backwards(self) -> Iterator[WindowItem]:
        """Yield the items from the last to the first, and read only as many as the caller needs."""
        waiting = list(self.summaries)  # the last summary is yielded first
        for row in sessions.backwards(self.connection, self.state.row, (*self.hidden_ranges, *self.covered)):
            while waiting and waiting[-1].first > row.row:
                yield of_summary(waiting.pop())
            yield of_message(row)
        yield from map(of_summary, reversed(waiting))

    def request(self) -> WindowItem | None:
        """Return the newest user message, which began the present turn; None if there is none, or a summary stands for it."""
        rows = sessions.backwards(self.connection, self.state.row, self.hidden_ranges, role=USER)
        newest = next((row for row in rows if not row.results), None)
        if newest is None or any(first <= newest.row <= last for first, last in self.covered):
            return None
        return of_message(newest)

    def forwards(self) -> Iterator[WindowItem]:
        """Yield the items from the first to the last, and read only as many as the caller needs."""
        waiting = list(reversed(self.summaries))
        visible = sessions.besides((*self.hidden_ranges, *self.covered))
        for row in sessions.forwards(self.connection, self.state.row, visible):
            while waiting and waiting[-1].first < row.row:
                yield of_summary(waiting.pop())
            yield of_message(row)
        yield from map(of_summary, reversed(waiting))

    def items(self) -> list[WindowItem]:
        """Return all items from the first to the last."""
        return [*self.backwards()][::-1]


def of_message(row: MessageRow) -> WindowItem:
    return WindowItem(
        kind=MESSAGE,
        position=row.row,
        place=row.row,
        tokens=row.tokens,
        time=row.time,
        role=row.role,
        calls=row.calls,
        results=row.results,
        source_tokens=row.tokens,
    )


def of_summary(row: SummaryRow) -> WindowItem:
    return WindowItem(
        kind=SUMMARY,
        position=row.row,
        place=row.first,
        tokens=row.tokens,
        time=row.earliest,
        id=row.id,
        summary_kind=row.kind,
        depth=row.depth,
        level=row.level,
        messages=row.messages,
        source_tokens=row.source_tokens,
        ranges=row.ranges,
    )
