"""A batch: many commands, one commit; what has grown to the bounds is committed on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from ledger.store.event_store import Transaction
from ledger.store.token import Token

BATCH_SECONDS, BATCH_EVENTS = 5.0, 10_000


class Batch:
    """One under way. A command that is part of it runs inside ``with``, which gives it the batch's transaction."""

    def __init__(self, transaction: Transaction, write_out: Callable[[Transaction], None]) -> None:
        self.transaction, self._write_out = transaction, write_out
        self._token = transaction.token = Token()
        transaction.deferred = True
        self.began, self._after, self.committed = 0.0, 0, 0
        self._start()

    def _start(self) -> None:
        self.began, self._after = time.monotonic(), self.transaction.position
        self.committed = self._after  # others see it up to here

    @property
    def is_here(self) -> bool:
        """Whether it is the batch of whoever asks."""
        return self._token.is_here

    def __enter__(self) -> Transaction:
        grown = self.transaction.position - self._after >= BATCH_EVENTS
        if grown or time.monotonic() - self.began >= BATCH_SECONDS:
            self._write_out(self.transaction)
            self.transaction.renew()
            self._start()
        return self.transaction

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        """The batch goes on."""

    @contextmanager
    def inside(self) -> Iterator[None]:
        """A part that can be taken back by itself. It has the bounds for itself, so that a short one is whole."""
        self._write_out(self.transaction)
        around, committed = (self.began, self._after), self.committed
        self.began, self._after = time.monotonic(), self.transaction.position
        try:
            with self.transaction.savepoint():
                yield
        finally:
            if self.committed == committed:
                self.began, self._after = around

    def end(self) -> None:
        self._token.end()
        self.transaction.token, self.transaction.deferred = None, False
