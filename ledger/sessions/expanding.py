"""The expansion of summaries to their messages, oldest first, within a budget; parts that do not fit are listed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from ledger.domain.errors import RejectedError
from ledger.domain.text import one_of
from ledger.recall.request import UNITS
from ledger.sessions import reading
from ledger.sessions.conversation import Conversation
from ledger.sessions.rules.compaction import EXPAND_TOKENS
from ledger.sessions.rules.message import readable
from ledger.sessions.rules.session import SessionState
from ledger.sessions.search_answers import Expansion, Unexpanded
from projections.core.rows import Connection
from projections.views import sessions, summaries
from projections.views.sessions import MessageRow
from projections.views.summaries import SummaryRow

Span = tuple[int, int]
Ranges = Sequence[Span]
_SPAN = re.compile(r"\s*#?(\d{1,19})(?:\s*[-–]\s*#?(\d{1,19}))?\s*", re.ASCII)


def expand(
    conversation: Conversation,
    what: str | int | Unexpanded | Iterable[str | int | Unexpanded],
    *,
    budget: int = EXPAND_TOKENS,
    unit: str = "tokens",
) -> Expansion:
    """Return the whole messages behind summaries or positions, oldest first.

    Messages are returned up to the first that does not fit the budget; the very first is always returned. The other messages are
    listed with their tokens, and ``expand(expansion.rest)`` returns them next.

    Args:
        conversation: The session.
        what: Ids of summaries or their beginnings, positions (45 or "45-67"), or the rest of an expansion.
        budget: The most that the messages may take, counted in ``unit``.
        unit: "tokens" or "chars".

    Raises:
        RejectedError: The budget is below 1, or an entry is neither an id nor a position.
    """
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise RejectedError(f"a budget is a whole number from 1, and {budget!r:.40} is not", rule="budget")
    one_of("unit", unit, tuple(UNITS))
    if not isinstance(what, str | int | Unexpanded | Iterable):
        raise RejectedError(f"expand() takes ids of summaries and positions of messages, and {what!r:.40} is neither")
    entries = (what,) if isinstance(what, str | int | Unexpanded) else tuple(what)
    names = tuple(entry.name if isinstance(entry, Unexpanded) else entry for entry in entries)
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise RejectedError(f"expand() takes a summary's id or a message's position, and {name!r:.40} is neither")
    with conversation.reading() as (connection, state):
        if state is None or conversation.kept_out == "ignored":
            return Expansion(messages=(), unknown=names, budget=budget, unit=unit)

        def chars(row: MessageRow) -> int:
            texts = reading.texts(conversation, connection, row)
            return len(readable(texts.content, texts.parts))

        expanding = Expanding(connection, state, budget, chars if unit == "chars" else lambda row: row.tokens)
        expanding.take(names)
        return Expansion(
            messages=tuple(reading.messages_shown(conversation, connection, expanding.rows, expanding.hidden)),
            rest=tuple(expanding.rest),
            unknown=tuple(expanding.unknown),
            used=expanding.used,
            budget=budget,
            unit=unit,
            over_budget=expanding.used > budget,
        )


class Expanding:
    """An expansion on a snapshot.

    ``rows`` are the messages that fit, ``rest`` are the summaries and ranges that do not fit, and ``unknown`` are the requested
    ids and positions that the session does not have.
    """

    def __init__(
        self, connection: Connection, state: SessionState, budget: int, size: Callable[[MessageRow], int]
    ) -> None:
        self._connection, self._state, self._max, self._size = connection, state, budget, size
        self.hidden: list[sessions.Hidden] = sessions.hidden(connection, state.row)
        self.rows: list[MessageRow] = []
        self.rest: list[Unexpanded] = []
        self.unknown: list[str | int] = []
        self.used: int = 0
        self._is_full = False
        self._returned: set[int] = set()

    def take(self, requested: Sequence[str | int]) -> None:
        """Expand the requested ids and positions, oldest first."""
        subjects: dict[tuple[int, int], SummaryRow | Span] = {}
        for name in requested:
            subject = self._find(name)
            if subject is None:
                self.unknown.append(name)
            else:
                subjects[(subject.first, subject.row) if isinstance(subject, SummaryRow) else subject] = subject
        for place in sorted(subjects):
            subject = subjects[place]
            if isinstance(subject, SummaryRow):
                self._summary(subject)
            else:
                self._ranges([subject])
        self.rows.sort(key=lambda row: row.row)  # the times of two summaries may overlap

    def _find(self, name: str | int) -> SummaryRow | Span | None:
        """Return the summary with an id, or a range of positions if the session has messages there; else None."""
        span = (name, name) if isinstance(name, int) else _span(name)
        if span is not None:
            exists = 0 < span[0] <= span[1] < 2**62 and sessions.count(self._connection, self._state.row, [span])[0]
            return span if exists else None
        return summaries.find(self._connection, self._state.row, str(name)) if len(str(name)) > 2 else None

    def _summary(self, row: SummaryRow) -> None:
        if self._is_full:
            self._leave(row.ranges, row.id)
            return
        underlying = (summaries.find(self._connection, self._state.row, id) for id in row.summaries)
        children = [child for child in underlying if child is not None]
        if len(children) < len(row.summaries):  # a source was undone, so only the messages themselves are complete
            children = []
        for child in sorted(children, key=lambda child: (child.first, child.row)):
            self._summary(child)
        if not children:
            self._ranges(row.ranges)

    def _ranges(self, ranges: Ranges) -> None:
        for row in sessions.forwards(self._connection, self._state.row, ranges):
            if row.row in self._returned:
                continue
            size = 0 if self._is_full else self._size(row)
            if self._is_full or (self.rows and self.used + size > self._max):
                self._is_full = True
                self._leave([(max(first, row.row), last) for first, last in ranges if last >= row.row])
                return
            self._returned.add(row.row)
            self.rows.append(row)
            self.used += size
            self._is_full = self.used > self._max

    def _leave(self, ranges: Ranges, summary: str | None = None) -> None:
        """Add entries to the rest: one entry for a summary, or one entry for each range without a summary."""
        counts = [sessions.count(self._connection, self._state.row, [span]) for span in ranges]
        sizes = list(zip(ranges, counts, strict=True))
        if summary is not None:
            total = (sum(messages for messages, _ in counts), sum(tokens for _, tokens in counts))
            sizes = [((min(ranges)[0], max(last for _, last in ranges)), total)]
        for (first, last), (messages, tokens) in sizes:
            listed = (entry for entry in self.rest if entry.summary is None)
            if messages and not any(entry.first <= first and last <= entry.last for entry in listed):
                unexpanded = Unexpanded(first=first, last=last, messages=messages, tokens=tokens, summary=summary)
                self.rest.append(unexpanded)


def _span(text: str) -> Span | None:
    """Return the positions in a text such as ``45``, ``#45`` or ``45-67``; None for another text."""
    match = _SPAN.fullmatch(text)
    return (int(match[1]), int(match[2] or match[1])) if match is not None else None
