"""The search by halving for the command after which a condition begins or ceases to hold."""

from __future__ import annotations

from collections.abc import Callable

from ledger.core.engine import Engine, Instant, committed, position_of
from ledger.domain.errors import RejectedError
from ledger.history import answers
from ledger.history.explaining import explain
from projections.core.rows import Connection
from projections.views import audit

_ENDS = (  # the positions at which the commands of a user end, between two positions
    "SELECT max(position) FROM audit WHERE user = ? AND position > ? AND position <= ? GROUP BY command_id ORDER BY 1"
)


def check_between_commands(connection: Connection, position: int, rule: str) -> None:
    """Raise ``RejectedError`` for a position inside a command; ``rule`` is the part of the message that says the rule."""
    ends = [entry.position for entry in audit.command_at(connection, position)]
    if ends and position < ends[-1]:
        before = f"{ends[0] - 1} or " if ends[0] > 1 else ""
        raise RejectedError(
            f"position {position} lies inside of a command, which recorded positions {ends[0]} to {ends[-1]} together:"
            f" {rule}, at {before}{ends[-1]}"
        )


def bisect(
    engine: Engine, user: str, holds_at: Callable[[int], bool], good: Instant | None, bad: Instant | None
) -> answers.Bisection:
    """Return the command of a user after which ``holds_at`` returns another answer than at ``good``.

    ``holds_at`` is called with positions at which a command ends. Its exceptions pass through unchanged.
    """
    with committed(engine) as connection:
        first = position_of(engine, connection, good) if good is not None else 1
        last = position_of(engine, connection, bad) if bad is not None else 2**62
        for name, moment, position in (("good", good, first), ("bad", bad, last)):
            if moment is not None:
                check_between_commands(connection, position, f"{name} has to be the end of a command")
        if last < first:
            raise RejectedError(
                f"good is position {first}, which comes after bad, position {last}: name an earlier moment as good"
            )
        ends = [first] + [end for (end,) in connection.execute(_ENDS, (user, first, last))]
    before = holds_at(first)
    if len(ends) == 1 or holds_at(ends[-1]) == before:
        verb = "holds" if before else "does not hold"
        reason = (
            f"the condition {verb} both at position {first} and at position {ends[-1]}"
            if len(ends) > 1
            else f"this user recorded nothing between position {first} and the end"
        )
        raise RejectedError(f"there is no change to find: {reason}; name other moments as good and bad", rule="ends")
    low, high, reads = 0, len(ends) - 1, 2
    while high - low > 1:
        middle, reads = (low + high) // 2, reads + 1
        low, high = (middle, high) if holds_at(ends[middle]) == before else (low, middle)
    return answers.Bisection(
        position=ends[high],
        before=ends[low],
        holds=not before,
        reads=reads,
        commands=len(ends) - 1,
        explanation=explain(engine, user, ends[high]),
    )
