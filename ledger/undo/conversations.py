"""The events of a session that make no sense without certain others, such as summaries of missing messages."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from ledger.events import (
    AnyEvent,
    ContextReplaced,
    MessageAppended,
    SummaryCreated,
    SummaryInvalidated,
    SummaryRestored,
)
from ledger.sessions.rules.statuses import INVALID, WindowFold

if TYPE_CHECKING:
    from ledger.undo.in_effect import Reader


def senseless(
    reader: Reader,
    stream: str,
    but: Collection[int] = (),
    also: Collection[int] = (),
    is_gone: Callable[[str], bool] = lambda interaction: False,
) -> list[AnyEvent]:
    """Return the events of a session that would count without ``but`` or with ``also``, and make no sense then.

    A summary falls with any message or summary that it was written from. A summary that replaced another falls with
    that one. The two events that make a summary fall together, because a source may be distrusted from a position
    between them. An event that took summaries out of use falls with the last of them, unless it hid their messages too:
    then it stays.
    """
    counting, fold, events = reader.counting(stream, but, also), WindowFold(), list[AnyEvent]()
    there = {event.position for event in counting if isinstance(event.data, MessageAppended)}
    shown = {event.data.summary for event in counting if isinstance(event.data, ContextReplaced)}
    missing = _Missing(reader, stream, there)
    for event in counting:
        whole = not isinstance(event.data, SummaryCreated) or event.data.summary in shown
        if whole and _makes_sense(event, fold, missing, is_gone):
            fold.take(event)
        else:
            events.append(event)
            if isinstance(event.data, MessageAppended):
                missing.add(event.position)
    return events


def _makes_sense(event: AnyEvent, fold: WindowFold, missing: _Missing, is_gone: Callable[[str], bool]) -> bool:
    data, known = event.data, fold.status
    match data:
        case MessageAppended():
            return data.interaction is None or not is_gone(data.interaction)
        case SummaryCreated():
            replaced = data.replaces is None or data.replaces in known
            underlying = all(known.get(summary) not in (None, INVALID) for summary in data.summaries)
            return replaced and underlying and not missing.has_source_of(event)
        case ContextReplaced():
            return data.summary in known and all(summary in known for summary in data.summaries)
        case SummaryInvalidated():
            return data.why == "hidden" or any(summary in known for summary in data.summaries)
        case SummaryRestored():
            return data.summary in known
        case _:
            return True


class _Missing:
    """The messages of a session that are missing, and the spans of the log in which they were void."""

    def __init__(self, reader: Reader, stream: str, there: Collection[int]) -> None:
        self._out = reader.was_out(stream)
        appended = (event.position for event, _ in reader.stream(stream) if isinstance(event.data, MessageAppended))
        self._positions = [position for position in appended if position not in there]

    def add(self, position: int) -> None:
        self._positions.insert(bisect_left(self._positions, position), position)

    def has_source_of(self, summary: AnyEvent) -> bool:
        """Return True if a summary was written from a missing message, which was in effect at that time."""
        return any(
            not any(since <= summary.position < until for since, until in self._out.get(position, ()))
            for position in self._within(summary)
        )

    def _within(self, summary: AnyEvent) -> Iterator[int]:
        for first, last in summary.data.ranges:
            yield from self._positions[bisect_left(self._positions, first) : bisect_right(self._positions, last)]


def sessions_of(reader: Reader, interaction: str) -> set[str]:
    """Return the sessions that may have messages with the text of an interaction."""
    return {session for event, _ in reader.stream(interaction) if (session := event.envelope.session) is not None}
