"""The ledger that a door is given, checked and bound for the door."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ledger import Ledger
    from ledger.types import Channel


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
