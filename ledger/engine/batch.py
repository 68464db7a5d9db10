"""A batch: many commands, one commit; what has grown to the bounds is committed on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import get_ident
from types import TracebackType

from ledger.store.event_store import Transaction

BATCH_SECONDS, BATCH_EVENTS = 5.0, 10_000


class Batch:
    """One under way. A command that is part of it runs inside ``with``, which gives it the batch's transaction."""

    def __init__(self, transaction: Transaction, write_out: Callable[[Transaction], None]) -> None:
        self.transaction, self._write_out, self._thread = transaction, write_out, get_ident()
        self._start()

    def _start(self) -> None:
        self._began, self._since = time.monotonic(), self.transaction.position

    @property
    def is_here(self) -> bool:
        """Whether it is a batch of whoever asks."""
        return self._thread == get_ident()

    def __enter__(self) -> Transaction:
        grown = self.transaction.position - self._since >= BATCH_EVENTS
        if grown or time.monotonic() - self._began >= BATCH_SECONDS:
            self._write_out(self.transaction)
            self.transaction.renew()
            self._start()
        return self.transaction

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        """The batch goes on."""
