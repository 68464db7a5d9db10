"""The ledger that a door is given, and its writes for a contract whose methods are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ledger import Ledger
    from ledger.types import Channel

T = TypeVar("T")


def bound(ledger: Ledger, door: object, *, client: str, channel: Channel | None = None) -> Ledger:
    """Return the ledger bound for a door.

    Args:
        ledger: What the door was given.
        door: The door.
        client: The client that is recorded with what comes through the door.
        channel: The channel of what comes through the door; None leaves the ledger's own.

    Raises:
        TypeError: What the door was given is not a ``Ledger``, but a path, an ``AsyncLedger`` or a past moment.
    """
    from ledger import Ledger

    if not isinstance(ledger, Ledger):
        raise TypeError(
            f"{type(door).__name__} takes a Ledger, as Ledger.open(path) returns it, also where the calls are awaited; "
            f"a {type(ledger).__name__} is none"
        )
    return ledger.bind(client=client, channel=channel)


async def to_the_end(write: Callable[[], T]) -> T:
    """Run a write on a thread and return its result.

    A task that is cancelled meanwhile, also again and again, ends when the write has ended. So its caller never repeats or undoes
    a write that is under way.
    """
    work = asyncio.ensure_future(asyncio.to_thread(write))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({work})
        if not work.cancelled():
            work.exception()  # the cancelled task has nobody to report an error to
        raise
