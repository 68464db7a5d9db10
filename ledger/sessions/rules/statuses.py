"""The status of a session's summaries: the rule of each event, and the rule after an undo.

A summary whose text was erased is never in the window: an event about it applies to the summaries under it. After an undo the
remaining events may contradict each other. Then a summary is in the window only if all of its messages are visible, and of two
summaries with common messages, only the summary that was put into the window last.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from ledger.events import (
    AnyEvent,
    ContextReplaced,
    MessageAppended,
    MessagesHidden,
    Ranges,
    SummaryCreated,
    SummaryInvalidated,
    SummaryRestored,
)

MADE, WINDOW, UNDER, REPLACED, INVALID, ERASED = "made", "window", "under", "replaced", "invalid", "erased"
STATUSES = (MADE, WINDOW, UNDER, REPLACED, INVALID, ERASED)
# Events that move summaries into the window or out of it.
MOVING = (ContextReplaced, SummaryInvalidated, SummaryRestored)

Known = tuple[str, tuple[str, ...]]  # the status of a summary, and the summaries that it was written from
Find = Callable[[str], Known | None]


def first_status(data: SummaryCreated) -> str:
    return MADE if data.content is not None else ERASED


def moved(data: object, find: Find) -> dict[str, str]:
    """Return the statuses after a ``MOVING`` event of the summaries that it concerns; some may be unchanged."""
    match data:
        case ContextReplaced(summary, summaries) | SummaryRestored(summary, summaries):
            return _put(data, summary, summaries, find)
        case SummaryInvalidated(summaries, _, returned):
            erased = [id for summary in summaries for id in _underlying(summary, find) if _status(id, find) == ERASED]
            returning = unerased((*returned, *erased), find)
            statuses = {id: WINDOW for id in returning if _status(id, find) in (UNDER, WINDOW)}
            return statuses | {id: INVALID for id in summaries if _status(id, find) not in (None, ERASED)}
        case _:
            return {}


def _put(data: object, summary: str, summaries: Sequence[str], find: Find) -> dict[str, str]:
    """Return the statuses after a summary was put into the window, and ``summaries`` left the window."""
    state = find(summary)
    if state is None:
        return {}
    underlying = set(unerased(state[1], find))
    leaving = UNDER if isinstance(data, SummaryRestored) else REPLACED
    statuses = {id: UNDER if id in underlying else leaving for id in unerased(summaries, find)}
    if state[0] != ERASED:
        return statuses | {summary: WINDOW}
    return {id: status for id, status in statuses.items() if id not in underlying} | {
        id: WINDOW for id in underlying if _status(id, find) == UNDER
    }


def unerased(ids: Iterable[str], find: Find) -> Iterator[str]:
    """Yield the summaries with these ids; in place of an erased summary, yield the summaries under it."""
    for id in ids:
        state = find(id)
        if state is not None and state[0] == ERASED:
            yield from unerased(state[1], find)
        elif state is not None:
            yield id


def _status(id: str, find: Find) -> str | None:
    state = find(id)
    return state[0] if state is not None else None


def _underlying(id: str, find: Find) -> tuple[str, ...]:
    state = find(id)
    return state[1] if state is not None else ()


# --- after an undo ---------------------------------------------------------------------------------------------------


class Visible:
    """The positions of the visible messages, updated as messages are appended and hidden."""

    def __init__(self) -> None:
        self.positions: list[int] = []

    def append(self, position: int) -> None:
        self.positions.append(position)

    def hide(self, ranges: Ranges) -> list[int]:
        """Hide the messages in some ranges; return the positions that were visible before."""
        newly_hidden: list[int] = []
        for first, last in ranges:
            within = slice(bisect_left(self.positions, first), bisect_right(self.positions, last))
            newly_hidden += self.positions[within]
            del self.positions[within]
        return newly_hidden

    def count(self, ranges: Ranges) -> int:
        return sum(bisect_right(self.positions, last) - bisect_left(self.positions, first) for first, last in ranges)


class MadeFrom(Struct, frozen=True):
    """The messages and summaries from which a summary was written."""

    ranges: Ranges
    messages: int
    summaries: tuple[str, ...]


class WindowFold:
    """The fold of all events of a session that are in effect, in order, which computes the statuses of the summaries."""

    def __init__(self) -> None:
        self.visible: Visible = Visible()
        self.status: dict[str, str] = {}  # the statuses by the events alone, which ``consistent`` corrects
        self._made: dict[str, MadeFrom] = {}
        self._placed: dict[str, int] = {}  # the position of the event that last put a summary into the window

    def take(self, event: AnyEvent) -> None:
        data = event.data
        if isinstance(data, MessageAppended):
            self.visible.append(event.position)
        elif isinstance(data, MessagesHidden):
            self.visible.hide(data.ranges)
        elif isinstance(data, SummaryCreated):
            self._made[data.summary] = MadeFrom(data.ranges, data.messages, data.summaries)
            self.status[data.summary] = first_status(data)
        elif isinstance(data, MOVING):
            now = moved(data, self._find)
            self.status |= now
            if isinstance(data, SummaryInvalidated):
                self._cascade({id for id, status in now.items() if status == INVALID}, event.position)
            self._placed |= {id: event.position for id, status in now.items() if status == WINDOW}

    def _cascade(self, invalidated: set[str], position: int) -> None:
        """Invalidate the summaries that were written from invalidated summaries, and put their other sources into the window.

        The event itself does not name a summary that was out of use at its time because of an act that is void now.
        """
        for id, made in self._made.items():  # in the order of writing
            if self.status[id] in (WINDOW, UNDER) and not invalidated.isdisjoint(made.summaries):
                invalidated.add(id)
                sources = [source for source in unerased(made.summaries, self._find) if self.status[source] == UNDER]
                self.status |= {id: INVALID} | dict.fromkeys(sources, WINDOW)
                self._placed |= dict.fromkeys(sources, position)

    def _find(self, id: str) -> Known | None:
        made = self._made.get(id)
        return (self.status[id], made.summaries) if made is not None else None

    def consistent(self) -> dict[str, str]:
        """Return a status for each summary, so that no message is under two summaries of the window.

        A summary whose messages are not all visible is invalid.
        """
        statuses, covered = dict(self.status), list[tuple[int, int]]()
        waiting = sorted((id for id in statuses if statuses[id] == WINDOW), key=lambda id: self._placed[id])
        while waiting:
            id = waiting.pop()
            made = self._made[id]
            if self.visible.count(made.ranges) != made.messages:
                statuses[id] = INVALID
                waiting += [source for source in unerased(made.summaries, self._find) if self.status[source] == UNDER]
            elif any(_overlaps(covered, span) for span in made.ranges):
                statuses[id] = REPLACED
            else:
                statuses[id] = WINDOW
                for span in made.ranges:
                    insort(covered, span)
        under = self._under(id for id, status in statuses.items() if status == WINDOW)
        return {id: REPLACED if status == UNDER and id not in under else status for id, status in statuses.items()}

    def _under(self, summaries: Iterable[str]) -> set[str]:
        """Return all summaries from which some summaries were written, directly or indirectly."""
        reached, waiting = set[str](), list(summaries)
        while waiting:
            underlying = [source for source in self._made[waiting.pop()].summaries if source in self._made]
            waiting += [source for source in underlying if source not in reached]
            reached.update(underlying)
        return reached


def _overlaps(ranges: list[tuple[int, int]], span: tuple[int, int]) -> bool:
    """Return True if a span overlaps one of the ranges, which are in order and do not overlap each other."""
    at = bisect_right(ranges, (span[1], 2**63))
    return at > 0 and ranges[at - 1][1] >= span[0]
