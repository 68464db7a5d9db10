"""The private folder of a temporary ledger, which is removed when the ledger is closed or collected."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from weakref import finalize

from ledger.core.engine import Engine


def in_private_folder(begin: Callable[[Path], Engine]) -> Engine:
    """Return an engine begun in a new folder that no other user can read."""
    folder = tempfile.mkdtemp(prefix="memory-ledger-")  # has mode 0700
    try:
        engine = begin(Path(folder, "memory.db"))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    engine.after_close = finalize(engine, _remove, folder, os.getpid())
    return engine


def _remove(folder: str, owner: int) -> None:
    """Remove a folder, except at the end of a forked child, whose parent still uses it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
