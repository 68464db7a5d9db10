"""The bounds on one act: the number of events in its append, and the length of their lists."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.domain.errors import RejectedError
from ledger.domain.text import LIST_ITEMS
from projections.views import control

MOST_EVENTS = 50_000  # of one act, for which others wait: about 20 seconds of the writer's lock

ALLOWED = "exclusive=True allows it all the same"

Spans = tuple[tuple[int, int], ...]


def parts(positions: Iterable[int]) -> list[Spans]:
    """Return positions as lists of ranges, at most 2,000 ranges an event, for lists in events are bounded."""
    spans = control.ranges(positions)
    return [spans[start : start + LIST_ITEMS] for start in range(0, len(spans), LIST_ITEMS)]


def check_size(events: int, *, exclusive: bool, allowed: str = ALLOWED) -> None:
    """Raise ``RejectedError`` if an act concerns more events than others should have to wait for, unless it is ``exclusive``."""
    if events > MOST_EVENTS and not exclusive:
        raise RejectedError(
            f"this concerns {events:,} events, and more than {MOST_EVENTS:,} would keep others waiting for long; {allowed}",
            rule="size",
            limit=MOST_EVENTS,
            requested=events,
        )
