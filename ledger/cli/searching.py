"""The commands that look for a moment, with conditions that can be typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.cli.calling import ShellCall, opened
from ledger.domain.errors import RejectedError

if TYPE_CHECKING:
    from ledger.api import PastLedger


def bisect(call: ShellCall, *, recall: str, expect: str, limit: int = 20) -> object:
    """Find the command after which a recall finds something.

    Args:
        recall: The question.
        expect: The id of the item to find, or the beginning of the id. If the item is found at first, the search is for
            the command that ended this.
        limit: The item counts as found among this many items.
    """
    if len(expect) < 3:
        raise RejectedError(f"--expect is an id, or at least 3 characters of its beginning, and {expect!r} is less")

    def is_found(past: PastLedger) -> bool:
        return any(item.id.startswith(expect) for item in past.recall(recall, limit=limit).items)

    with opened(call) as ledger:
        return ledger.history.bisect(is_found, **call.arguments)
