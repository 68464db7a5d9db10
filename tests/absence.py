"""Words for what is not there: a read by an id that raises, and a library that is not installed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

import ledger.doors
from ledger import AmbiguousIdError, NotFoundError


def without(monkeypatch: pytest.MonkeyPatch, library: str, *, door: str) -> None:
    """Make a library one that is not installed and its door one that was never imported, until the test ends."""
    module = f"ledger.doors.{door}"
    for name in list(sys.modules):
        if any(name == each or name.startswith(f"{each}.") for each in (module, library)):
            monkeypatch.delitem(sys.modules, name)
    if hasattr(ledger.doors, door):  # the package's own name for the door comes back with the modules of the door
        monkeypatch.setattr(ledger.doors, door, getattr(ledger.doors, door))
    monkeypatch.setitem(sys.modules, library, None)


def absent(read: Callable[..., Any], *arguments: Any, **options: Any) -> bool:
    """Return True if a read such as ``ledger.memories.get`` finds nothing of this name."""
    try:
        read(*arguments, **options)
    except AmbiguousIdError:
        raise
    except NotFoundError:
        return True
    return False


def perhaps(read: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return what a read finds, or None where it finds nothing of this name."""
    return None if absent(read, *arguments, **options) else read(*arguments, **options)
