"""Long commands: plans that are made without the lock and checked under it, bounds on one act, and the end of a long call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from ledger.domain.errors import ConflictError, RejectedError
from ledger.domain.text import LIST_ITEMS
from ledger.types import Cancel
from projections.views import control

P = TypeVar("P")
R = TypeVar("R")
ATTEMPTS = 4


class Moved(Exception):
    """The state that a plan rests on has changed."""


def optimistic(plan: Callable[[], P], decide: Callable[[P], R], *, at_last: Callable[[], R] | None = None) -> R:
    """Return the result of ``decide``, which runs a command by a plan and raises ``Moved`` if the plan no longer holds.

    After ``ATTEMPTS`` failures ``at_last`` plans and decides under the lock, where nothing changes.

    Raises:
        ConflictError: Every attempt failed and there is no ``at_last``.
    """
    for _ in range(ATTEMPTS):
        try:
            return decide(plan())
        except Moved:
            continue
    if at_last is None:
        raise ConflictError(
            f"other writers changed the same subjects during all {ATTEMPTS} attempts; nothing was written, try again"
        )
    return at_last()


# --- the size of one act ----------------------------------------------------------------------------------------------

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


# --- the end of a long call --------------------------------------------------------------------------------------------

LOOK_SECONDS = 0.1  # the pause between two calls of the cancel function while the call waits


class Stopping:
    """The deadline and the cancellation of a call; the work done before the end stays."""

    def __init__(self, timeout: float | None = None, cancel: Cancel | None = None) -> None:
        check_call(timeout, cancel)
        self._until = None if timeout is None else time.monotonic() + timeout
        self._cancel = cancel
        self._why = ""

    @property
    def why(self) -> str:
        """Return the reason to end, "cancelled" or "timeout", which then never changes; "" while the call may go on."""
        if not self._why and is_called_off(self._cancel):
            self._why = "cancelled"
        if not self._why and self._until is not None and time.monotonic() >= self._until:
            self._why = "timeout"
        return self._why

    def wait(self, seconds: float) -> None:
        """Wait for a number of seconds, or until the call has to end."""
        end = time.monotonic() + seconds
        while not self.why and (left := min(end, self._until or end) - time.monotonic()) > 0:
            if isinstance(self._cancel, threading.Event):
                self._cancel.wait(left)
            else:
                time.sleep(min(left, LOOK_SECONDS) if self._cancel is not None else left)


def is_called_off(cancel: Cancel | None) -> bool:
    """Return True if the event is set or the function returns a true value."""
    if cancel is None:
        return False
    return cancel.is_set() if isinstance(cancel, threading.Event) else bool(cancel())


def check_call(timeout: object, cancel: object) -> None:
    """Raise ``RejectedError`` for a timeout that is not a time, or a cancel that is neither an event nor a function."""
    if timeout is not None:
        check_seconds(timeout)
    if cancel is not None and not isinstance(cancel, threading.Event) and not callable(cancel):
        raise RejectedError(f"cancel is a threading.Event or a function, and {cancel!r:.40} is neither")


def check_seconds(timeout: object, name: str = "timeout") -> None:
    """Raise ``RejectedError`` for a timeout that is not a number of seconds up to a day."""
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not number or not 0 < timeout <= 86_400:  # type: ignore[operator]
        raise RejectedError(
            f"{name} is a number of seconds above 0 and up to 86,400 (a day), and {timeout!r:.40} is not"
        )
