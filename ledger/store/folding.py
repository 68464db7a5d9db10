"""While a fold of a user's own runs, no ledger answers its thread: it is a function of what it is given alone."""

from __future__ import annotations

import threading
from typing import Never

from ledger.domain.errors import RejectedError


class Misuse(RejectedError):
    """What a fold asked is nothing that it may ask; the message names no value."""


class _Now(threading.local):
    is_on = False


now = _Now()


def refuse() -> Never:
    raise Misuse("fold called a ledger: it may look at the event, the change and the rows that it is given alone")
