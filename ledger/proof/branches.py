"""Where a log became that of another ledger, or ends as a copy: what the file states of that, and what a parent's
checkpoints cover of it."""

from __future__ import annotations

import sqlite3

from ledger.domain.errors import RejectedError
from ledger.engine.log_reading import branchings
from ledger.proof.checkpoints import Stated
from ledger.proof.sealed import head_at
from ledger.store import copies


def looked_at(connection: sqlite3.Connection, ledger_id: str, last: int) -> tuple[str, list[str], list[str]]:
    """The id that a log has at its end, which begins with another one; what is wrong with that, and what is to be known."""
    problems, remarks = [], []
    for event in branchings(connection):
        data, before = event.data, event.position - 1
        head = (head_at(connection, before) or b"").hex()
        if (data.parent, data.position, data.head) != (ledger_id, before, head):
            problems.append(f"position {event.position}: it states another parent or head than the log before it has")
        ledger_id = data.ledger_id
    if copies.is_copy(connection):
        remarks.append(f"this is a copy for reading of the ledger {ledger_id} up to position {last}")
        if later := copies.erased_later(connection):
            remarks.append(
                f"the erasure at position {later[-1][0]} of the ledger, behind the end of this copy, says what its texts are"
                " now; only the log of the ledger proves it"
            )
    return ledger_id, problems, remarks


def check_covered(connection: sqlite3.Connection, stated: Stated, ledger_id: str) -> list[str]:
    """Nothing to remark for a checkpoint of this ledger; where it is of a parent, that.

    ``RejectedError`` for one of any other ledger, and where it covers more than this one has of its parent.
    """
    if stated.ledger_id == ledger_id:
        return []
    left = next((each.data for each in branchings(connection) if each.data.parent == stated.ledger_id), None)
    if left is None:
        raise RejectedError(f"the checkpoint is of the ledger {stated.ledger_id}, and this is {ledger_id}")
    what = (
        f"the ledger {stated.ledger_id}, from which this one, {ledger_id}, was branched at position {left.position:,}"
    )
    if stated.size > left.position:
        raise RejectedError(f"the checkpoint covers {stated.size:,} events of {what}", limit=left.position)
    return [f"the checkpoint is of {what}"]
