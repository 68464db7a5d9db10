"""The only file of ``tools/`` that reaches behind the public surface, and so the only one to change when the inside does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ledger import Ledger, Session

if TYPE_CHECKING:
    from ledger.log.event_store import EventStore


def engine(ledger: Ledger) -> Any:
    """Return the engine behind a ledger."""
    return ledger._engine


def store(ledger: Ledger) -> EventStore:
    """Return the store of a ledger: the log and its tables."""
    opened: EventStore = engine(ledger).store
    return opened


def secret(ledger: Ledger) -> bytes:
    """Return the key of a ledger's keyed digests."""
    return bytes(engine(ledger).writer.secret)


def session(opened: Session) -> Any:
    """Return the inner object behind a session."""
    return opened._inner


def rebuild(ledger: Ledger, progress: Any = None) -> Any:
    """Rebuild the tables as opening a file does, without recording the rebuild.

    The digests before and after are comparable, because nothing is recorded.
    """
    from ledger.care import rebuilding

    return rebuilding.rebuild(engine(ledger), progress=progress)
