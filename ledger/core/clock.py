"""The clock and the source of random bytes of an open ledger, which a caller may replace."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

Clock = Callable[[], datetime]
Random = Callable[[int], bytes]

now: Clock = partial(datetime.now, UTC)
system_random: Random = os.urandom
