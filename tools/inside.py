"""Where the programs of ``tools/`` reach behind the public surface: the one file that changes when the inside does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ledger import Ledger, Session

if TYPE_CHECKING:
    from ledger.log.event_store import EventStore


def engine(ledger: Ledger) -> Any:
    """What is behind a ledger."""
    return ledger._engine


def store(ledger: Ledger) -> EventStore:
    """The log and its tables."""
    found: EventStore = engine(ledger).store
    return found


def secret(ledger: Ledger) -> bytes:
    """The key of its keyed digests."""
    return bytes(engine(ledger).writer.secret)


def session(opened: Session) -> Any:
    """What is behind a session."""
    return opened._inner


def rebuild(ledger: Ledger, progress: Any = None) -> Any:
    """A rebuild as opening a file does one: it records nothing, so that the digest before and after can be compared."""
    from ledger.care import rebuilding

    return rebuilding.rebuild(engine(ledger), progress=progress)
