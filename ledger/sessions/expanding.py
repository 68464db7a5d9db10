"""From summaries down to their messages, oldest first, as far as a number of tokens reaches; the rest by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ledger.domain.session import Session
from ledger.sessions.search_answers import Unexpanded
from projections import sessions, summaries
from projections.sessions import Message
from projections.summaries import Summary

Ranges = Sequence[tuple[int, int]]
BATCH = 256


class Expanding:
    """One expansion on one snapshot: the ``rows`` that fit, what of the graph is the ``rest``, and what is ``unknown``."""

    def __init__(self, connection: Any, state: Session, max_tokens: int) -> None:
        self._connection, self._state, self._max = connection, state, max_tokens
        self.hidden = sessions.hidden(connection, state.row)
        self.rows: list[Message] = []
        self.rest: list[Unexpanded] = []
        self.unknown: list[str | int] = []
        self.tokens = 0
        self._is_full = False
        self._given: set[int] = set()

    def take(self, wanted: Sequence[str | int]) -> None:
        """Goes through what was asked for in the order of time, whatever order it was asked in."""
        found: dict[tuple[int, int], Summary | Message] = {}
        for each in wanted:
            told = self._find(each)
            if told is None:
                self.unknown.append(each)
            else:
                found[(told.first if isinstance(told, Summary) else told.row, told.row)] = told
        for place in sorted(found):
            asked = found[place]
            if isinstance(asked, Summary):
                self._summary(asked)
            else:
                self._ranges([(asked.row, asked.row)])
        self.rows.sort(key=lambda row: row.row)  # two summaries may tell of the same time

    def _find(self, given: str | int) -> Summary | Message | None:
        if isinstance(given, str) and given.strip().isdecimal() and len(given) < 20:
            given = int(given)
        if isinstance(given, str):
            return summaries.find(self._connection, self._state.row, given) if len(given) > 2 else None
        row = sessions.at_position(self._connection, given) if 0 < given < 2**62 else None
        return row if row is not None and row.session == self._state.row else None

    def _summary(self, row: Summary) -> None:
        if self._is_full:
            self._leave(row.ranges, row.id)
            return
        beneath = (summaries.find(self._connection, self._state.row, id) for id in row.summaries)
        children = [each for each in beneath if each is not None]
        if len(children) < len(row.summaries):  # one of them was undone: its messages are what it stands for
            children = []
        for child in sorted(children, key=lambda each: (each.first, each.row)):
            self._summary(child)
        if not children:
            self._ranges(row.ranges)

    def _ranges(self, ranges: Ranges) -> None:
        for row in self._forwards(ranges):
            if row.row in self._given:
                continue
            if self._is_full or (self.rows and self.tokens + row.tokens > self._max):
                self._is_full = True
                self._leave([(max(first, row.row), last) for first, last in ranges if last >= row.row])
                return
            self._given.add(row.row)
            self.rows.append(row)
            self.tokens += row.tokens
            self._is_full = self.tokens > self._max

    def _forwards(self, ranges: Ranges) -> Iterator[Message]:
        """The messages in these ranges, read as far as they are asked for."""
        sql = "SELECT * FROM messages WHERE session = ? AND row BETWEEN ? AND ? ORDER BY row LIMIT ?"
        for first, last in sorted(ranges):
            while found := self._connection.execute(sql, (self._state.row, first, last, BATCH)).fetchall():
                yield from map(sessions.message_of, found)
                first = found[-1][0] + 1

    def _leave(self, ranges: Ranges, summary: str | None = None) -> None:
        """What is not given is told: of a summary together, else range by range."""
        counts = [sessions.count(self._connection, self._state.row, [each]) for each in ranges]
        left = list(zip(ranges, counts, strict=True))
        if summary is not None:
            together = (sum(each[0] for each in counts), sum(each[1] for each in counts))
            left = [((min(ranges)[0], max(last for _, last in ranges)), together)]
        for (first, last), (messages, tokens) in left:
            if messages and not any(each.first <= first and last <= each.last for each in self.rest):
                told = Unexpanded(first=first, last=last, messages=messages, tokens=tokens, summary=summary)
                self.rest.append(told)
