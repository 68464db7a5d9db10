"""The owner of a transaction that stays open while its owner does other things: a thread, a task and a context."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from threading import get_ident


class Token:
    """A mark of ownership, from its creation until ``end``. Child tasks and threads inherit the mark and cannot use it."""

    __slots__ = ("_around", "_is_over", "_task", "_thread")

    def __init__(self) -> None:
        self._thread, self._task, self._is_over = get_ident(), _task(), False
        self._around = _held.get()
        _held.set(self)

    @property
    def is_here(self) -> bool:
        """Return True if the caller is the owner."""
        held = _held.get()
        while held is not self and held is not None:  # a token of another file may have been made since
            held = held._around
        return held is self and not self._is_over and self._thread == get_ident() and self._task is _task()

    def end(self) -> None:
        self._is_over, self._task = True, None
        held = _held.get()
        while held is not None and held._is_over:
            held = held._around
        _held.set(held)


_held: ContextVar[Token | None] = ContextVar("ledger_token", default=None)


def _task() -> object:
    """Return the running task; None outside of any task."""
    asyncio = sys.modules.get("asyncio")  # a program that has not loaded asyncio has no tasks
    if asyncio is None:
        return None
    try:
        return asyncio.current_task()
    except (RuntimeError, AttributeError):  # no loop runs in this thread, or asyncio is still loading
        return None
