"""The answer to "can the ledger be written now?", which costs the same however many ask."""

from __future__ import annotations

import asyncio
import time

from ledger import AsyncLedger, Ledger, LedgerError

FRESH_SECONDS = 1.0  # of an answer, which is then given to all who ask
WAIT_SECONDS = 2.0  # for other writers, before the ledger counts as not writable


class Pulse:
    """An empty commit now and then: the lock, the file and the disk are tried, and no event is recorded.

    Args:
        ledger: The open ledger.
        readonly: True for a ledger that nobody writes through this server.
    """

    def __init__(self, ledger: AsyncLedger, *, readonly: bool) -> None:
        self._ledger, self._readonly = ledger, readonly
        self._trial: asyncio.Future[bool] | None = None
        self._begun_at = float("-inf")

    async def is_writable(self) -> bool:
        """Return True if a commit succeeds, as of a second ago at most; an unfinished trial is no second one."""
        if self._readonly:
            return False
        stale = self._trial is None or (self._trial.done() and time.monotonic() - self._begun_at > FRESH_SECONDS)
        if stale:
            self._begun_at, self._trial = time.monotonic(), asyncio.ensure_future(self._try())
        assert self._trial is not None
        done, _ = await asyncio.wait({self._trial}, timeout=WAIT_SECONDS)
        return bool(done) and self._trial.result()

    async def _try(self) -> bool:
        def nothing(ledger: Ledger) -> None:
            pass

        try:
            await self._ledger.in_batch(nothing)
        except (LedgerError, OSError):
            return False
        return True
