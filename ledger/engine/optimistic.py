"""Plan outside, decide inside: what takes long is worked out on a snapshot, and under the lock only looked at once more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ledger.domain.errors import ConflictError

P = TypeVar("P")
R = TypeVar("R")
ATTEMPTS = 4


class Moved(Exception):
    """What a plan rests on is not as it was."""


def optimistic(plan: Callable[[], P], decide: Callable[[P], R], *, at_last: Callable[[], R] | None = None) -> R:
    """What ``decide`` gives, which runs a command by a plan and raises ``Moved`` where that does not hold any more.

    After ``ATTEMPTS`` of them ``at_last`` decides, which plans under the lock, where nothing moves; without one it is a
    ``ConflictError``.
    """
    for _ in range(ATTEMPTS):
        try:
            return decide(plan())
        except Moved:
            continue
    if at_last is None:
        raise ConflictError("others write about the same all the time, so that nothing was done; try again")
    return at_last()
