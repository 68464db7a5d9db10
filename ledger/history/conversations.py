"""What of a session makes no sense without some of its events: summaries of what is not there, and what was built on these."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from ledger.domain.events import (
    AnyEvent,
    ContextReplaced,
    MessageAppended,
    SummaryCreated,
    SummaryInvalidated,
    SummaryRestored,
)
from ledger.domain.statuses import INVALID, WindowFold

if TYPE_CHECKING:
    from ledger.history.in_effect import Reader


def senseless(
    reader: Reader,
    stream: str,
    but: Collection[int] = (),
    also: Collection[int] = (),
    is_gone: Callable[[str], bool] = lambda interaction: False,
) -> list[AnyEvent]:
    """The events of a session that would count without some, or with others put back, and make no sense then.

    A summary falls with any message or summary that it was written from, and one that replaced another with that; and each
    of the two events that make one falls with the other, for a source may be distrusted from between them. What took
    summaries out of use falls with the last of these, unless it hid their messages too: that stays.
    """
    counting, fold, found = reader.counting(stream, but, also), WindowFold(), list[AnyEvent]()
    there = {event.position for event in counting if isinstance(event.data, MessageAppended)}
    placed = {event.data.summary for event in counting if isinstance(event.data, ContextReplaced)}
    missing = _Missing(reader, stream, there)
    for event in counting:
        whole = not isinstance(event.data, SummaryCreated) or event.data.summary in placed
        if whole and _makes_sense(event, fold, missing, is_gone):
            fold.take(event)
        else:
            found.append(event)
            if isinstance(event.data, MessageAppended):
                missing.also(event.position)
    return found


def _makes_sense(event: AnyEvent, fold: WindowFold, missing: _Missing, is_gone: Callable[[str], bool]) -> bool:
    data, known = event.data, fold.status
    match data:
        case MessageAppended():
            return data.interaction is None or not is_gone(data.interaction)
        case SummaryCreated():
            replaced = data.replaces is None or data.replaces in known
            underlying = all(known.get(each) not in (None, INVALID) for each in data.summaries)
            return replaced and underlying and not missing.of(event)
        case ContextReplaced():
            return data.summary in known and all(each in known for each in data.summaries)
        case SummaryInvalidated():
            return data.why == "hidden" or any(each in known for each in data.summaries)
        case SummaryRestored():
            return data.summary in known
        case _:
            return True


class _Missing:
    """The messages of a session that are not there, each with when it was in effect all the same."""

    def __init__(self, reader: Reader, stream: str, there: Collection[int]) -> None:
        self._out = reader.was_out(stream)
        appended = (event.position for event, _ in reader.stream(stream) if isinstance(event.data, MessageAppended))
        self._positions = [position for position in appended if position not in there]

    def also(self, position: int) -> None:
        self._positions.insert(bisect_left(self._positions, position), position)

    def of(self, summary: AnyEvent) -> bool:
        """Whether a summary was written from one of them."""
        return any(
            not any(since <= summary.position < until for since, until in self._out.get(position, ()))
            for position in self._within(summary)
        )

    def _within(self, summary: AnyEvent) -> Iterator[int]:
        for first, last in summary.data.ranges:
            yield from self._positions[bisect_left(self._positions, first) : bisect_right(self._positions, last)]


def sessions_of(reader: Reader, interaction: str) -> set[str]:
    """Where an interaction was said: the sessions that may have messages whose text is its."""
    return {session for event, _ in reader.stream(interaction) if (session := event.envelope.session) is not None}
