"""Compare and set: what a command changes must not have changed since the position that its caller had seen."""

from __future__ import annotations

from ledger.domain.errors import ConflictError, RejectedError
from ledger.domain.events import LEDGER_STREAM
from ledger.work import Expected, Work

_OF_A_SUBJECT = "SELECT position FROM main.events WHERE stream = ? AND position > ? ORDER BY position"
_OF_THE_LEDGER = "SELECT position FROM audit WHERE type = ? AND user = ? AND position > ? ORDER BY position"


def check(work: Work, expected: Expected, last: int) -> None:
    """Refuse what a command is about to record where somebody else came first.

    That is a later event of a subject that it changes; on the ledger's own stream, which all share, a later event of the
    same type for this user. ``last`` is where the log ends.
    """
    if expected.position > last:
        raise RejectedError(
            f"expected is a position of the log, which ends at {last}, and {expected.position} is beyond it",
            limit=last,
            requested=expected.position,
        )
    key: tuple[str, ...]
    for stream, _, data, *_ in work.emitted:
        if stream == LEDGER_STREAM:
            what, sql, key = f"another {type(data).__name__}", _OF_THE_LEDGER, (type(data).__name__, work.who.user)
            work.need("audit")
            work.rows.flush()
        else:
            what, sql, key = f"a change of {stream}", _OF_A_SUBJECT, (stream,)
        for (position,) in work.connection().execute(sql, (*key, expected.position)):
            if position not in expected.own:
                raise ConflictError(
                    f"{what} was recorded at position {position}, after the expected {expected.position}; nothing was written"
                )
