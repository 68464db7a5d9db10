"""The private folder of a temporary ledger, which is removed when the ledger is closed or collected."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from weakref import finalize

from ledger.core.engine import Engine
from ledger.domain.errors import LedgerError
from ledger.log.event_store import EventStore


def in_private_folder(begin: Callable[[Path], Engine]) -> Engine:
    """Return an engine begun in a new folder that no other user can read."""
    folder = tempfile.mkdtemp(prefix="memory-ledger-")  # has mode 0700
    try:
        engine = begin(Path(folder, "memory.db"))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    engine.after_close = finalize(engine, _remove, folder, os.getpid(), engine.store)
    return engine


def _remove(folder: str, owner: int, store: EventStore) -> None:
    """Remove a folder, except at the end of a forked child, whose parent still uses it."""
    if os.getpid() == owner:
        try:
            with suppress(LedgerError):  # a batch of another thread is open
                store.close()  # Windows removes no open file
        finally:
            shutil.rmtree(folder, ignore_errors=True)
