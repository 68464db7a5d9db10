"""The items of an agent's transcript as the messages of a session, for the doors that keep conversations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ledger import RejectedError

if TYPE_CHECKING:
    from ledger import Session

TOGETHER = 5_000  # items in one append

Item = Mapping[str, object]


def check_objects(items: Sequence[object], name: str) -> None:
    """Check that every item is a JSON object.

    Args:
        items: The items.
        name: What the contract calls an item.

    Raises:
        RejectedError: An item is none.
    """
    for number, item in enumerate(items, 1):
        if not isinstance(item, Mapping):
            raise RejectedError(f"{name} {number} is no JSON object: {item!r:.40}")


def extend(
    session: Session,
    items: Sequence[Item],
    *,
    worded: Callable[[Item], dict[str, object]],
    bare: Callable[[Item], dict[str, object]],
) -> None:
    """Append items to a session, an item whose words the ledger refuses without its words.

    Args:
        session: The session; its ledger has an open ``batch``, so that a refusal takes back everything.
        items: The items.
        worded: Returns an item as a message with its words.
        bare: Returns an item as a message of ``raw`` alone.

    Raises:
        RejectedError: The ledger refuses an item itself, such as one with a secret.
    """
    for start in range(0, len(items), TOGETHER):
        _extend(session, items[start : start + TOGETHER], worded, bare)


def _extend(
    session: Session,
    items: Sequence[Item],
    worded: Callable[[Item], dict[str, object]],
    bare: Callable[[Item], dict[str, object]],
) -> None:
    try:
        session.extend([worded(item) for item in items])
    except RejectedError:
        if len(items) == 1:
            session.extend([bare(items[0])])
            return
        middle = len(items) // 2  # a refused item costs a few appends, and its neighbours nothing
        _extend(session, items[:middle], worded, bare)
        _extend(session, items[middle:], worded, bare)
