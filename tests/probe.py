"""The ways behind the public surface, in the one file of tests that changes when the inside does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ledger.models.port import MODEL
from ledger.vectors import part as vector_part


def inside(ledger: Any) -> Any:
    """Return the engine behind a ledger, or behind a ledger of the past."""
    return ledger._engine


def store(ledger: Any) -> Any:
    """Return the event store behind a ledger."""
    return inside(ledger).store


def writing(ledger: Any) -> Any:
    """Return the event store's writing side: ``commit``, ``renew``, ``cursor``, ``position``."""
    return store(ledger).writing


def writer(ledger: Any) -> Any:
    """Return the object that runs commands: ``run``, ``settle``, ``now``, ``secret``, ``projector``, ``rows``."""
    return inside(ledger).writer


def batch(ledger: Any) -> Any:
    """Return the batch under way.

    A test sets ``began``, a reading of the monotonic clock, to decide when the batch commits.
    """
    return writer(ledger).open_batch


def read(ledger: Any) -> AbstractContextManager[Any]:
    """Return the context of a snapshot whose projections include all events."""
    found: AbstractContextManager[Any] = inside(ledger).reading()
    return found


def default(ledger: Any) -> Any:
    """Return the author of a command whose call names none."""
    return inside(ledger).default


def who(**given: str) -> Any:
    """Return the author of a command, of ``user``, ``actor``, ``client``, ``channel`` and ``agent``."""
    from ledger.core.call import Who

    return Who(**given)  # type: ignore[arg-type]


def event_data(connection: Any, position: int) -> Any:
    """Return the data of the event at a position of the log, read on the connection that ``read`` gives."""
    from ledger.core.reads import event_data

    return event_data(connection, position)


def secret(ledger: Any) -> str:
    """Return the secret that the first event of a ledger holds."""
    return str(inside(ledger).created.secret)


def model(ledger: Any) -> Any:
    return inside(ledger).parts.get(MODEL)


def set_model(ledger: Any, model: Any) -> None:
    inside(ledger).parts.bring(MODEL, model)


def vectors(ledger: Any) -> Any:
    """Return the search by vectors, or None if the ledger has no embedder."""
    return inside(ledger).parts.get(vector_part.SEARCH)


def session(session: Any) -> Any:
    """Return the inner object behind a session."""
    return session._inner


def rebuild(ledger: Any, progress: Any = None) -> Any:
    """Rebuild the projections as the opening of a file does.

    The rebuild records nothing, so a test can compare the digest before and after.
    """
    from ledger.care import rebuilding

    return rebuilding.rebuild(inside(ledger), progress=progress)


def begin_with(patch: Any, **least: int) -> None:
    """Let new ledgers need a newer product: ``READER`` or ``WRITER`` is the least format that may read or write them."""
    for name, number in least.items():
        patch.setattr(f"ledger.care.opening.{name}", number)


def plain(ledger: Any) -> Any:
    """Return the plain ledger or namespace behind an awaited one."""
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
            """Do nothing, because nobody waits for the command."""

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
