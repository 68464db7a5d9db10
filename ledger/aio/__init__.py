"""The ledger for asyncio: ``AsyncLedger``, whose calls are awaited and never block the event loop."""

from __future__ import annotations

from ledger.aio.ledger import AsyncLedger as AsyncLedger
from ledger.aio.ledger import AsyncPastLedger as AsyncPastLedger
from ledger.aio.ledger import AsyncSession as AsyncSession
from ledger.aio.pages import AsyncPage as AsyncPage

__all__ = ["AsyncLedger", "AsyncPage", "AsyncPastLedger", "AsyncSession"]
