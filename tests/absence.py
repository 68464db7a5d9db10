"""What is not there: a read by an id raises, and a test says so in one word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledger import AmbiguousIdError, NotFoundError


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
