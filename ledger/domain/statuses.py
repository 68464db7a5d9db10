"""Which of a session's summaries stand in its window: what each event says, and what holds of it after an undo.

A summary whose text was erased stands for nothing, at no moment: whatever an event says of it is said of those that it was
written from. Where events are void, those left may say what cannot be: then a summary stands only for exactly the
messages that it was made of, and of two that share some the one that was put there last.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from ledger.domain.events import (
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
MOVING = (ContextReplaced, SummaryInvalidated, SummaryRestored)  # what moves summaries into the window and out of it

Known = tuple[str, tuple[str, ...]]  # how a summary stands, and what it was written from
Find = Callable[[str], Known | None]


def first_status(data: SummaryCreated) -> str:
    return MADE if data.content is not None else ERASED


def moved(data: object, find: Find) -> dict[str, str]:
    """How the summaries stand that one of the ``MOVING`` events is about; those it leaves as they are may be among them."""
    match data:
        case ContextReplaced(summary, summaries) | SummaryRestored(summary, summaries):
            return _put(data, summary, summaries, find)
        case SummaryInvalidated(summaries, _, returned):
            erased = [id for each in summaries for id in _underlying(each, find) if _status(id, find) == ERASED]
            back = meant((*returned, *erased), find)
            found = {id: WINDOW for id in back if _status(id, find) in (UNDER, WINDOW)}
            return found | {id: INVALID for id in summaries if _status(id, find) not in (None, ERASED)}
        case _:
            return {}


def _put(data: object, summary: str, summaries: Sequence[str], find: Find) -> dict[str, str]:
    known = find(summary)
    if known is None:
        return {}
    underlying = set(meant(known[1], find))
    leaving = UNDER if isinstance(data, SummaryRestored) else REPLACED
    found = {id: UNDER if id in underlying else leaving for id in meant(summaries, find)}
    if known[0] != ERASED:
        return found | {summary: WINDOW}
    return {id: status for id, status in found.items() if id not in underlying} | {
        id: WINDOW for id in underlying if _status(id, find) == UNDER
    }


def meant(ids: Iterable[str], find: Find) -> Iterator[str]:
    """These summaries, and for an erased one those under it."""
    for id in ids:
        known = find(id)
        if known is not None and known[0] == ERASED:
            yield from meant(known[1], find)
        elif known is not None:
            yield id


def _status(id: str, find: Find) -> str | None:
    known = find(id)
    return known[0] if known is not None else None


def _underlying(id: str, find: Find) -> tuple[str, ...]:
    known = find(id)
    return known[1] if known is not None else ()


# --- folded again ----------------------------------------------------------------------------------------------------


class Visible:
    """The positions of the messages that nothing hides, as they are appended and hidden."""

    def __init__(self) -> None:
        self.positions: list[int] = []

    def append(self, position: int) -> None:
        self.positions.append(position)

    def hide(self, ranges: Ranges) -> list[int]:
        """Those that these ranges hid, and no act before."""
        gone: list[int] = []
        for first, last in ranges:
            here = slice(bisect_left(self.positions, first), bisect_right(self.positions, last))
            gone += self.positions[here]
            del self.positions[here]
        return gone

    def count(self, ranges: Ranges) -> int:
        return sum(bisect_right(self.positions, last) - bisect_left(self.positions, first) for first, last in ranges)


class Made(Struct, frozen=True):
    """What a summary is of."""

    ranges: Ranges
    messages: int
    summaries: tuple[str, ...]


class WindowFold:
    """The fold of the events of one session that are in effect, all of them in order."""

    def __init__(self) -> None:
        self.visible = Visible()
        self.status: dict[str, str] = {}  # as the events say
        self._made: dict[str, Made] = {}
        self._placed: dict[str, int] = {}  # where each was last put into the window

    def take(self, event: AnyEvent) -> None:
        data = event.data
        if isinstance(data, MessageAppended):
            self.visible.append(event.position)
        elif isinstance(data, MessagesHidden):
            self.visible.hide(data.ranges)
        elif isinstance(data, SummaryCreated):
            self._made[data.summary] = Made(data.ranges, data.messages, data.summaries)
            self.status[data.summary] = first_status(data)
        elif isinstance(data, MOVING):
            now = moved(data, self._find)
            self.status |= now
            if isinstance(data, SummaryInvalidated):
                self._cascade({id for id, status in now.items() if status == INVALID}, event.position)
            self._placed |= {id: event.position for id, status in now.items() if status == WINDOW}

    def _cascade(self, gone: set[str], position: int) -> None:
        """What was written from these goes with them, and the rest of what it was written from is in the window again: the event
        does not name what was out of use then by an act that is void."""
        for id, made in self._made.items():  # in the order of writing
            if self.status[id] in (WINDOW, UNDER) and not gone.isdisjoint(made.summaries):
                gone.add(id)
                left = [each for each in meant(made.summaries, self._find) if self.status[each] == UNDER]
                self.status |= {id: INVALID} | dict.fromkeys(left, WINDOW)
                self._placed |= dict.fromkeys(left, position)

    def _find(self, id: str) -> Known | None:
        made = self._made.get(id)
        return (self.status[id], made.summaries) if made is not None else None

    def consistent(self) -> dict[str, str]:
        """How each stands, so that no message is under two and none under one that was not made of it."""
        found, taken = dict(self.status), list[tuple[int, int]]()
        waiting = sorted((each for each in found if found[each] == WINDOW), key=lambda each: self._placed[each])
        while waiting:
            id = waiting.pop()
            made = self._made[id]
            if self.visible.count(made.ranges) != made.messages:
                found[id] = INVALID
                waiting += [each for each in meant(made.summaries, self._find) if self.status[each] == UNDER]
            elif any(_shared(taken, each) for each in made.ranges):
                found[id] = REPLACED
            else:
                found[id] = WINDOW
                for each in made.ranges:
                    insort(taken, each)
        under = self._under(id for id, status in found.items() if status == WINDOW)
        return {id: REPLACED if status == UNDER and id not in under else status for id, status in found.items()}

    def _under(self, summaries: Iterable[str]) -> set[str]:
        """All that these were written from, one under the other."""
        found, waiting = set[str](), list(summaries)
        while waiting:
            underlying = [each for each in self._made[waiting.pop()].summaries if each in self._made]
            waiting += [each for each in underlying if each not in found]
            found.update(underlying)
        return found


def _shared(taken: list[tuple[int, int]], span: tuple[int, int]) -> bool:
    """Whether a range touches one of these, which are in order and touch each other nowhere."""
    at = bisect_right(taken, (span[1], 2**63))
    return at > 0 and taken[at - 1][1] >= span[0]
