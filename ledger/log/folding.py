"""The switch that makes every ledger refuse a thread that runs a user's own fold.

A fold is a function of the event, the change and the rows that it receives.
"""

from __future__ import annotations

import threading
from typing import Never

from ledger.domain.errors import RejectedError


class Misuse(RejectedError):
    """A call that a fold may not make; the message names no value of the event."""


class _Now(threading.local):
    is_on: bool = False


now: _Now = _Now()


def refuse() -> Never:
    raise Misuse("a fold called a ledger; it may read only the event, the change and the rows that it receives")
