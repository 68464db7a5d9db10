"""The events of a session that cannot stay without other events, such as summaries of messages that are void."""

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


def orphaned_events(
    reader: Reader,
    session: str,
    without: Collection[int] = (),
    restored: Collection[int] = (),
    is_gone: Callable[[str], bool] = lambda interaction: False,
) -> list[AnyEvent]:
    """Return the events of a session that would be in effect although events that they need are not.

    The session is read without the events ``without`` and with the void events ``restored``; ``is_gone`` returns True
    for an interaction that no longer exists.

    A message needs the interaction that has its text. A summary needs every message and every summary that the summary
    was written from or replaced. A summary is made by two events, ``SummaryCreated`` and ``ContextReplaced``, and each
    needs the other: one of them is void alone if a distrust begins or ends at a position between them. An event that took
    summaries out of use needs at least one of these summaries, unless the summaries went because their messages were
    hidden: the messages stay hidden without the summaries too.
    """
    in_effect, fold, orphaned = reader.events_in_effect(session, without, restored), WindowFold(), list[AnyEvent]()
    messages = {event.position for event in in_effect if isinstance(event.data, MessageAppended)}
    in_window = {event.data.summary for event in in_effect if isinstance(event.data, ContextReplaced)}
    missing = _MissingMessages(reader, session, messages)
    for event in in_effect:
        is_complete = not isinstance(event.data, SummaryCreated) or event.data.summary in in_window
        if is_complete and _has_its_needs(event, fold, missing, is_gone):
            fold.take(event)
        else:
            orphaned.append(event)
            if isinstance(event.data, MessageAppended):
                missing.add(event.position)
    return orphaned


def _has_its_needs(
    event: AnyEvent, fold: WindowFold, missing: _MissingMessages, is_gone: Callable[[str], bool]
) -> bool:
    data, known = event.data, fold.status
    match data:
        case MessageAppended():
            return data.interaction is None or not is_gone(data.interaction)
        case SummaryCreated():
            has_replaced = data.replaces is None or data.replaces in known
            has_underlying = all(known.get(summary) not in (None, INVALID) for summary in data.summaries)
            return has_replaced and has_underlying and not missing.has_source_of(event)
        case ContextReplaced():
            return data.summary in known and all(summary in known for summary in data.summaries)
        case SummaryInvalidated():
            return data.why == "hidden" or any(summary in known for summary in data.summaries)
        case SummaryRestored():
            return data.summary in known
        case _:
            return True


class _MissingMessages:
    """The messages of a session that are not in effect, and the spans of the log in which they were void."""

    def __init__(self, reader: Reader, session: str, in_effect: Collection[int]) -> None:
        self._void_spans = reader.void_spans(session)
        appended = (event.position for event, _ in reader.stream(session) if isinstance(event.data, MessageAppended))
        self._positions = [position for position in appended if position not in in_effect]

    def add(self, position: int) -> None:
        self._positions.insert(bisect_left(self._positions, position), position)

    def has_source_of(self, summary: AnyEvent) -> bool:
        """Return True if a summary was written from a missing message that was in effect at that time."""
        return any(
            not any(since <= summary.position < until for since, until in self._void_spans.get(position, ()))
            for position in self._missing_in(summary)
        )

    def _missing_in(self, summary: AnyEvent) -> Iterator[int]:
        for first, last in summary.data.ranges:
            yield from self._positions[bisect_left(self._positions, first) : bisect_right(self._positions, last)]


def sessions_of(reader: Reader, interaction: str) -> set[str]:
    """Return the sessions that may have messages with the text of an interaction."""
    return {session for event, _ in reader.stream(interaction) if (session := event.envelope.session) is not None}
