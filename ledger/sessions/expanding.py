"""From summaries down to their messages, oldest first, as far as a budget reaches; the rest by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ledger.domain.session import Session
from ledger.sessions.search_answers import Unexpanded
from projections.core.rows import Connection
from projections.views import sessions, summaries
from projections.views.sessions import Message
from projections.views.summaries import Summary

Span = tuple[int, int]
Ranges = Sequence[Span]
_SPAN = re.compile(r"\s*#?(\d{1,19})(?:\s*[-–]\s*#?(\d{1,19}))?\s*", re.ASCII)


class Expanding:
    """One expansion on one snapshot: the ``rows`` that fit, what of the graph is the ``rest``, and what is ``unknown``."""

    def __init__(self, connection: Connection, state: Session, budget: int, size: Callable[[Message], int]) -> None:
        self._connection, self._state, self._max, self._size = connection, state, budget, size
        self.hidden = sessions.hidden(connection, state.row)
        self.rows: list[Message] = []
        self.rest: list[Unexpanded] = []
        self.unknown: list[str | int] = []
        self.used = 0
        self._is_full = False
        self._given: set[int] = set()

    def take(self, wanted: Sequence[str | int]) -> None:
        """Goes through what was asked for in the order of time, whatever order it was asked in."""
        found: dict[tuple[int, int], Summary | Span] = {}
        for each in wanted:
            subject = self._find(each)
            if subject is None:
                self.unknown.append(each)
            else:
                found[(subject.first, subject.row) if isinstance(subject, Summary) else subject] = subject
        for place in sorted(found):
            asked = found[place]
            if isinstance(asked, Summary):
                self._summary(asked)
            else:
                self._ranges([asked])
        self.rows.sort(key=lambda row: row.row)  # two summaries may tell of the same time

    def _find(self, given: str | int) -> Summary | Span | None:
        """The summary, or the positions, that this session has something of."""
        span = (given, given) if isinstance(given, int) else _span(given)
        if span is not None:
            held = 0 < span[0] <= span[1] < 2**62 and sessions.count(self._connection, self._state.row, [span])[0]
            return span if held else None
        return summaries.find(self._connection, self._state.row, str(given)) if len(str(given)) > 2 else None

    def _summary(self, row: Summary) -> None:
        if self._is_full:
            self._leave(row.ranges, row.id)
            return
        underlying = (summaries.find(self._connection, self._state.row, id) for id in row.summaries)
        children = [each for each in underlying if each is not None]
        if len(children) < len(row.summaries):  # one of them was undone: its messages are what it stands for
            children = []
        for child in sorted(children, key=lambda each: (each.first, each.row)):
            self._summary(child)
        if not children:
            self._ranges(row.ranges)

    def _ranges(self, ranges: Ranges) -> None:
        for row in sessions.forwards(self._connection, self._state.row, ranges):
            if row.row in self._given:
                continue
            size = 0 if self._is_full else self._size(row)
            if self._is_full or (self.rows and self.used + size > self._max):
                self._is_full = True
                self._leave([(max(first, row.row), last) for first, last in ranges if last >= row.row])
                return
            self._given.add(row.row)
            self.rows.append(row)
            self.used += size
            self._is_full = self.used > self._max

    def _leave(self, ranges: Ranges, summary: str | None = None) -> None:
        """What is not given is told: of a summary together, else range by range."""
        counts = [sessions.count(self._connection, self._state.row, [each]) for each in ranges]
        left = list(zip(ranges, counts, strict=True))
        if summary is not None:
            together = (sum(each[0] for each in counts), sum(each[1] for each in counts))
            left = [((min(ranges)[0], max(last for _, last in ranges)), together)]
        for (first, last), (messages, tokens) in left:
            texts_of = (each for each in self.rest if each.summary is None)
            if messages and not any(each.first <= first and last <= each.last for each in texts_of):
                unexpanded = Unexpanded(first=first, last=last, messages=messages, tokens=tokens, summary=summary)
                self.rest.append(unexpanded)


def _span(given: str) -> Span | None:
    """Positions as people write them: ``45``, ``#45``, ``45-67``."""
    found = _SPAN.fullmatch(given)
    return (int(found[1]), int(found[2] or found[1])) if found is not None else None
