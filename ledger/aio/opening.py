"""The opening of an ``AsyncLedger``, which runs on a thread because it reads files and loads code."""

from __future__ import annotations

from collections.abc import Callable

from ledger.aio.threads import Threads
from ledger.api import Ledger, LedgerRead
from ledger.domain.late import shown_as


@shown_as(Ledger)
class QueuedLedger(Ledger):
    """A ledger with group commit under an ``AsyncLedger``."""

    def make_threads(self) -> Threads:
        """Begin the threads for awaited calls, and load the code of every namespace, so that no await has to."""
        for kind in (Ledger, LedgerRead):
            for name, member in vars(kind).items():
                if isinstance(member, property):
                    getattr(self, name)
        writer = self._engine.writer
        return Threads(writer.queue if not writer.guard.scanners else None)


def open_with_threads(opening: Callable[[type[QueuedLedger]], QueuedLedger]) -> tuple[QueuedLedger, Threads]:
    """Open a ledger and return it with its threads."""
    ledger = opening(QueuedLedger)
    return ledger, ledger.make_threads()
