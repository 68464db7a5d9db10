"""A session's window as it stands on one snapshot: what is in it, read from its end, and what it takes in all."""

from __future__ import annotations

from collections.abc import Iterator

from ledger.domain.assembly import USER
from ledger.domain.session import Session
from ledger.domain.window import MESSAGE, SUMMARY, Ranges, WindowItem
from projections.core.rows import Connection
from projections.views import sessions, summaries
from projections.views.sessions import Message
from projections.views.summaries import Summary


class OpenWindow:
    """``tokens`` and ``count`` are those of its items; ``hidden`` and ``covered`` the ranges of positions that it leaves out."""

    def __init__(self, connection: Connection, state: Session) -> None:
        self.connection, self.state = connection, state
        self.hidden = sessions.hidden(connection, state.row)
        self.summaries = summaries.in_window(connection, state.row)
        gone = sum(each.messages for each in self.hidden), sum(each.tokens for each in self.hidden)
        summed = sum(each.messages for each in self.summaries), sum(each.source_tokens for each in self.summaries)
        self.messages, self.message_tokens = state.messages - gone[0], state.tokens - gone[1]  # that are not hidden
        self.count = self.messages - summed[0] + len(self.summaries)
        self.tokens = self.message_tokens - summed[1] + sum(each.tokens for each in self.summaries)

    @property
    def hidden_ranges(self) -> Ranges:
        return tuple((each.first, each.last) for each in self.hidden)

    @property
    def covered(self) -> Ranges:
        """The messages that a summary stands for."""
        return tuple(each for summary in self.summaries for each in summary.ranges)

    def backwards(self) -> Iterator[WindowItem]:
        """The items from the last to the first; read as far as they are asked for."""
        waiting = list(self.summaries)  # the last by place is taken first
        for row in sessions.backwards(self.connection, self.state.row, (*self.hidden_ranges, *self.covered)):
            while waiting and waiting[-1].first > row.row:
                yield of_summary(waiting.pop())
            yield of_message(row)
        yield from map(of_summary, reversed(waiting))

    def request(self) -> WindowItem | None:
        """The newest user message, whose turn is under way; None without one, and where a summary stands for it."""
        rows = sessions.backwards(self.connection, self.state.row, self.hidden_ranges, role=USER)
        found = next((row for row in rows if not row.results), None)
        if found is None or any(first <= found.row <= last for first, last in self.covered):
            return None
        return of_message(found)

    def forwards(self) -> Iterator[WindowItem]:
        """The items from the first to the last; read as far as they are asked for."""
        waiting = list(reversed(self.summaries))
        visible = sessions.besides((*self.hidden_ranges, *self.covered))
        for row in sessions.forwards(self.connection, self.state.row, visible):
            while waiting and waiting[-1].first < row.row:
                yield of_summary(waiting.pop())
            yield of_message(row)
        yield from map(of_summary, reversed(waiting))

    def items(self) -> list[WindowItem]:
        """All of them, the first first."""
        return [*self.backwards()][::-1]


def of_message(row: Message) -> WindowItem:
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


def of_summary(row: Summary) -> WindowItem:
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
