"""A batch: many commands in one commit, which is split at fixed bounds of time and size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from ledger.log.event_store import Transaction
from ledger.log.token import Token

BATCH_SECONDS, BATCH_EVENTS = 5.0, 10_000
SHARED_BATCH_SECONDS = 1.0  # other machines wait for the lock of the shared log meanwhile


class CommandBatch:
    """An open batch. A command inside ``with`` runs in the batch's transaction. A whole batch is never split."""

    def __init__(
        self,
        transaction: Transaction,
        write_out: Callable[[Transaction], None],
        *,
        is_shared: bool = False,
        whole: bool = False,
    ) -> None:
        self.transaction, self._write_out = transaction, write_out
        self._seconds = SHARED_BATCH_SECONDS if is_shared else BATCH_SECONDS
        self._is_whole = whole
        self._token = transaction.token = Token()
        transaction.deferred = True
        self.began, self._after, self.committed = 0.0, 0, 0
        self._start()

    def _start(self) -> None:
        self.began, self._after = time.monotonic(), self.transaction.position
        self.committed = self._after  # the position up to which others see the batch

    @property
    def is_here(self) -> bool:
        """Return True if the caller owns this batch."""
        return self._token.is_here

    def __enter__(self) -> Transaction:
        grown = self.transaction.position - self._after >= BATCH_EVENTS
        if not self._is_whole and (grown or time.monotonic() - self.began >= self._seconds):
            self._write_out(self.transaction)
            self.transaction.renew()
            self._start()
        return self.transaction

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        """Leave the batch open."""

    @contextmanager
    def inside(self, *, whole: bool) -> Iterator[None]:
        """Run a part that can be undone alone. The bounds start anew in here, so a short part is committed whole."""
        self._write_out(self.transaction)
        bounds, committed = (self.began, self._after), self.committed
        self.began, self._after = time.monotonic(), self.transaction.position
        around, self._is_whole = self._is_whole, self._is_whole or whole
        try:
            with self.transaction.savepoint():
                yield
        finally:
            self._is_whole = around
            if self.committed == committed:
                self.began, self._after = bounds

    def end(self) -> None:
        self._token.end()
        self.transaction.token, self.transaction.deferred = None, False
