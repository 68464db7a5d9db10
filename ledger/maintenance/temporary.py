"""The private folder of a temporary ledger: it goes when the ledger is closed, collected as garbage, or the process ends."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from weakref import finalize

from ledger.engine.engine import Engine


def in_private_folder(begin: Callable[[Path], Engine]) -> Engine:
    """Return the engine that is begun at a path in a folder of its own, which nobody else can read."""
    folder = tempfile.mkdtemp(prefix="memory-ledger-")  # with the permissions 0700
    try:
        engine = begin(Path(folder, "memory.db"))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    engine.after_close = finalize(engine, _remove, folder, os.getpid())
    return engine


def _remove(folder: str, owner: int) -> None:
    """Remove a folder, but not at the end of a forked child, whose parent goes on with it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
