"""The background work of a server: the vectors of texts that lack one."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ledger import AsyncLedger, LedgerError, Settings


@asynccontextmanager
async def making_vectors(ledger: AsyncLedger, settings: Settings, *, read_only: bool = False) -> AsyncIterator[None]:
    """Make vectors on a thread of their own until the block ends, if the settings name an embedder.

    A failure goes to stderr, is tried again later, and is said once. The server itself goes on by words.
    """
    if settings.embedder is None or read_only:
        yield
        return
    stop = threading.Event()
    task = asyncio.create_task(_make_vectors(ledger, stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def _make_vectors(ledger: AsyncLedger, stop: threading.Event) -> None:
    said = ""
    try:
        async for report in ledger.jobs.work(jobs=["vectors"], follow=True, cancel=stop):
            if report.vectors_failure not in ("", said):
                sys.stderr.write(f"memory-ledger: vectors: {report.vectors_failure}\n")
            said = report.vectors_failure
    except LedgerError as error:
        sys.stderr.write(f"memory-ledger: no more vectors are made: {error}\n")
