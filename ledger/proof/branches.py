"""The branches and copies of a ledger: the statements in the file about them, and checkpoints of a parent ledger."""

from __future__ import annotations

import sqlite3

from ledger.core.reads import branchings
from ledger.domain.errors import RejectedError
from ledger.log.inspection import erased_later, is_marked_copy
from ledger.proof.checkpoints import Stated
from ledger.proof.sealed import head_at


def branchings_checked(connection: sqlite3.Connection, ledger_id: str, last: int) -> tuple[str, list[str], list[str]]:
    """Return the ledger's id at the end of the log, the problems of the events that began a branch, and remarks.

    A branch keeps the log of its parent, so the log begins with the id of the first ancestor.
    """
    problems, remarks = [], []
    for event in branchings(connection):
        data, before = event.data, event.position - 1
        head = (head_at(connection, before) or b"").hex()
        if (data.parent, data.position, data.head) != (ledger_id, before, head):
            problems.append(
                f"position {event.position}: the LedgerBranched there states another parent or head than the log before it has"
            )
        ledger_id = data.ledger_id
    if is_marked_copy(connection):
        remarks.append(f"this is a copy for reading of the ledger {ledger_id} up to position {last}")
        if later := erased_later(connection):
            remarks.append(
                f"the erasure at position {later[-1][0]} of the ledger is after the end of this copy and took texts of"
                " the copy's events; only the log of the ledger proves that erasure"
            )
    return ledger_id, problems, remarks


def check_covered(connection: sqlite3.Connection, stated: Stated, ledger_id: str) -> list[str]:
    """Return no remark for a checkpoint of this ledger, or a remark for a checkpoint of a parent.

    Raises:
        RejectedError: The checkpoint is of another ledger, or covers more of the parent than this ledger has.
    """
    if stated.ledger_id == ledger_id:
        return []
    branched = next((event.data for event in branchings(connection) if event.data.parent == stated.ledger_id), None)
    if branched is None:
        raise RejectedError(f"the checkpoint is of the ledger {stated.ledger_id}, not of this ledger, {ledger_id}")
    parent = f"the ledger {stated.ledger_id}, from which this one, {ledger_id}, was branched at position {branched.position:,}"
    if stated.size > branched.position:
        raise RejectedError(f"the checkpoint covers {stated.size:,} events of {parent}", limit=branched.position)
    return [f"the checkpoint is of {parent}"]
