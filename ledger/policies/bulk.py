"""How much one act may do in its one append, and how its long lists are written."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.domain.errors import RejectedError
from ledger.domain.text import LIST_ITEMS
from projections.views import control

MOST_EVENTS = 50_000  # that one act concerns while others wait for it: about 20 seconds of the writer's lock

ALLOWED = "exclusive=True does it all the same"

Spans = tuple[tuple[int, int], ...]


def parts(positions: Iterable[int]) -> list[Spans]:
    """Positions as ranges, at most 2,000 an event (DESIGN 3)."""
    spans = control.ranges(positions)
    return [spans[start : start + LIST_ITEMS] for start in range(0, len(spans), LIST_ITEMS)]


def check_size(events: int, *, exclusive: bool, allowed: str = ALLOWED) -> None:
    """``RejectedError`` for an act that concerns more events than others should have to wait for."""
    if events > MOST_EVENTS and not exclusive:
        raise RejectedError(
            f"this concerns {events:,} events, and more than {MOST_EVENTS:,} would keep others waiting for long; {allowed}",
            rule="size",
            limit=MOST_EVENTS,
            requested=events,
        )
