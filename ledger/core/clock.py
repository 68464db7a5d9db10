"""The clock and the source of random bytes of an open ledger, which a caller may replace."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import msgspec

from ledger.domain.errors import RejectedError

Clock = Callable[[], datetime]
Random = Callable[[int], bytes]

now: Clock = partial(datetime.now, UTC)
system_random: Random = os.urandom
_encode = msgspec.json.Encoder().encode


def stored_time(moment: object) -> str:
    """Return a moment as an event stores it: UTC of fixed width.

    Raises:
        RejectedError: The moment of a caller's clock is no datetime.
    """
    if not isinstance(moment, datetime):
        raise RejectedError(f"a clock returns a datetime, and this clock returned {moment!r:.40}")
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    if utc.microsecond:  # msgspec leaves out a zero fraction
        return _encode(utc).decode()[1:-1]  # in a tenth of the time of isoformat
    return utc.isoformat(timespec="microseconds")[:26] + "Z"


class Pooled:
    """Random bytes drawn 4,096 at a time; each open ledger has its own pool, so a forked process never shares one."""

    def __init__(self, source: Random) -> None:
        self._source, self._bytes, self._used, self._lock = source, b"", 0, threading.Lock()

    def __call__(self, size: int, /) -> bytes:
        with self._lock:
            if self._used + size > len(self._bytes):
                self._bytes, self._used = self._source(max(4_096, size)), 0
            start, self._used = self._used, self._used + size
            return self._bytes[start : start + size]
