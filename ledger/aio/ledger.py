"""``AsyncLedger``, ``AsyncPastLedger`` and their namespaces: the plain ledger, with calls that are awaited."""

from __future__ import annotations

from ledger.aio.made import counterparts

globals().update(counterparts())
