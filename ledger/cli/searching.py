"""The command ``history bisect``, whose condition is a recall that finds an id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.cli.calling import ShellCall, opened
from ledger.domain.errors import RejectedError

if TYPE_CHECKING:
    from ledger.api import PastLedger


def bisect(call: ShellCall, *, recall: str, expect: str, limit: int = 20) -> object:
    """Find the command after which a recall finds an item, or no longer finds it.

    Args:
        recall: The question.
        expect: The id of the item, or the beginning of the id. If the recall finds the item at the earlier moment, the command is
            searched after which it no longer does.
        limit: The recall finds the item if the item is among this many items.
    """
    if len(expect) < 3:
        raise RejectedError(f"--expect is an id, or at least 3 characters of its beginning, and {expect!r} is less")

    def is_found(past: PastLedger) -> bool:
        return any(item.id.startswith(expect) for item in past.recall(recall, limit=limit).items)

    with opened(call) as ledger:
        return ledger.history.bisect(is_found, **call.arguments)
