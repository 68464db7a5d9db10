"""When a long call has to stop: a deadline, or whoever cancels it; asked between two pieces of its work, outside the lock."""

from __future__ import annotations

import threading
import time

from ledger.domain.errors import RejectedError
from ledger.types import Cancel

LOOK_SECONDS = 0.1  # how often a function is asked while nothing is done


class Stopping:
    """Whether a call of some seconds at most, or until it is called off, has to end; what it did until then stays."""

    def __init__(self, timeout: float | None = None, cancel: Cancel | None = None) -> None:
        check_call(timeout, cancel)
        self._until = None if timeout is None else time.monotonic() + timeout
        self._cancel = cancel
        self._why = ""

    @property
    def why(self) -> str:
        """Once it has to end, "cancelled" or "timeout", and from then on; "" before."""
        if not self._why and is_called_off(self._cancel):
            self._why = "cancelled"
        if not self._why and self._until is not None and time.monotonic() >= self._until:
            self._why = "timeout"
        return self._why

    def wait(self, seconds: float) -> None:
        """Do nothing for so many seconds, or until it has to end."""
        end = time.monotonic() + seconds
        while not self.why and (left := min(end, self._until or end) - time.monotonic()) > 0:
            if isinstance(self._cancel, threading.Event):
                self._cancel.wait(left)
            else:
                time.sleep(min(left, LOOK_SECONDS) if self._cancel is not None else left)


def is_called_off(cancel: Cancel | None) -> bool:
    """Whether the event is set, or the function says so."""
    if cancel is None:
        return False
    return cancel.is_set() if isinstance(cancel, threading.Event) else bool(cancel())


def check_call(timeout: object, cancel: object) -> None:
    """``RejectedError`` for what is no time to wait, and for what cannot call anything off."""
    if timeout is not None:
        check_seconds(timeout)
    if cancel is not None and not isinstance(cancel, threading.Event) and not callable(cancel):
        raise RejectedError(f"cancel is a threading.Event or a function, and {cancel!r:.40} is neither")


def check_seconds(timeout: object) -> None:
    """``RejectedError`` for what is no time to wait."""
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not number or not 0 < timeout <= 86_400:  # type: ignore[operator]
        raise RejectedError(
            f"timeout is a number of seconds above 0 and up to a day's 86,400, and {timeout!r:.40} is not"
        )
