"""Optimistic commands: slow work plans on a snapshot, and the decision under the lock checks that the plan still holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ledger.domain.errors import ConflictError

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
