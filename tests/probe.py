"""Where tests reach behind the public surface: the one file that changes when the inside does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ledger.models.port import MODEL
from ledger.vectors import part as vector_part


def inside(ledger: Any) -> Any:
    """What is behind a ledger, or one of the past."""
    return ledger._engine


def store(ledger: Any) -> Any:
    """The event store."""
    return inside(ledger).store


def writing(ledger: Any) -> Any:
    """The event store's writing side: ``commit``, ``renew``, ``cursor``, ``position``."""
    return store(ledger).writing


def writer(ledger: Any) -> Any:
    """What runs commands: ``run``, ``settle``, ``now``, ``secret``, ``projector``, ``rows``."""
    return inside(ledger).writer


def batch(ledger: Any) -> Any:
    """The batch under way: ``began``, of its monotonic clock, decides when it commits."""
    return writer(ledger).open_batch


def read(ledger: Any) -> AbstractContextManager[Any]:
    """A snapshot with the projections taken in."""
    found: AbstractContextManager[Any] = inside(ledger).reading()
    return found


def default(ledger: Any) -> Any:
    """Who acts where a call does not say."""
    return inside(ledger).default


def who(**given: str) -> Any:
    """Whoever gives a command: ``user``, ``actor``, ``client``, ``channel``, ``agent``."""
    from ledger.core.call import Who

    return Who(**given)  # type: ignore[arg-type]


def event_data(connection: Any, position: int) -> Any:
    """What an event of the log says, on the connection of ``read``."""
    from ledger.core.reads import event_data

    return event_data(connection, position)


def secret(ledger: Any) -> str:
    """The secret of the first event."""
    return str(inside(ledger).created.secret)


def model(ledger: Any) -> Any:
    return inside(ledger).parts.get(MODEL)


def set_model(ledger: Any, model: Any) -> None:
    inside(ledger).parts.bring(MODEL, model)


def vectors(ledger: Any) -> Any:
    """What searches by vectors, None without an embedder."""
    return inside(ledger).parts.get(vector_part.SEARCH)


def session(session: Any) -> Any:
    """What is behind a session."""
    return session._inner


def rebuild(ledger: Any, progress: Any = None) -> Any:
    """A rebuild as opening a file does one: it records nothing, so that the digest before and after can be compared."""
    from ledger.care import rebuilding

    return rebuilding.rebuild(inside(ledger), progress=progress)


def begin_with(patch: Any, **least: int) -> None:
    """Ledgers that begin meanwhile need a newer product: ``READER`` or ``WRITER`` of this format."""
    for name, number in least.items():
        patch.setattr(f"ledger.care.opening.{name}", number)


def plain(ledger: Any) -> Any:
    """The plain ledger or namespace behind an awaited one."""
    return ledger._sync


@contextmanager
def writer_held(ledger: Any) -> Iterator[Callable[[int], None]]:
    """Keep the writer thread of a ledger with group commit busy, so that commands queue.

    The context gives a function that waits until so many commands are in the queue.
    """
    from ledger.core.batches import QueuedCommand

    queue, free, begun = writer(ledger).queue, threading.Event(), threading.Event()

    class Held(QueuedCommand):
        @classmethod
        def deliver(cls, settled: Any) -> None:
            """Nobody waits for it."""

    def hold() -> None:
        begun.set()
        free.wait()

    def wait_for(number: int) -> None:
        while len(queue._waiting) < number:
            time.sleep(0.001)

    queue.submit(Held(hold, alone=True))
    begun.wait()
    try:
        yield wait_for
    finally:
        free.set()
