"""Since when something is so: the command after which a condition holds, or no longer holds, found by halving."""

from __future__ import annotations

from collections.abc import Callable

from ledger import answers
from ledger.domain.errors import RejectedError
from ledger.engine.engine import Engine
from ledger.engine.past import Instant, committed, position_of
from ledger.history.explaining import explain
from projections.core.rows import Connection
from projections.views import audit

_ENDS = (
    "SELECT max(position) FROM audit WHERE user = ? AND position > ? AND position <= ? GROUP BY command_id ORDER BY 1"
)


def check_between_commands(connection: Connection, position: int, wanted: str) -> None:
    """``RejectedError`` for a position inside of what one command recorded; ``wanted`` says what there should be."""
    ends = [each.position for each in audit.command_at(connection, position)]
    if ends and position < ends[-1]:
        before = f"{ends[0] - 1} or " if ends[0] > 1 else ""
        raise RejectedError(
            f"position {position} lies inside of a command, which recorded {ends[0]} to {ends[-1]} in one: {wanted},"
            f" at {before}{ends[-1]}"
        )


def bisect(
    engine: Engine, user: str, holds_at: Callable[[int], bool], good: Instant | None, bad: Instant | None
) -> answers.Bisection:
    """Asks after the commands of a user between two moments; what the condition raises goes through as it is."""
    with committed(engine) as connection:
        first = position_of(engine, connection, good) if good is not None else 1
        last = position_of(engine, connection, bad) if bad is not None else 2**62
        for name, given, position in (("good", good, first), ("bad", bad, last)):
            if given is not None:
                check_between_commands(connection, position, f"{name} is behind a whole one")
        if last < first:
            raise RejectedError(f"good comes before bad, and position {first} is behind {last}")
        ends = [first] + [end for (end,) in connection.execute(_ENDS, (user, first, last))]
    before = holds_at(first)
    if len(ends) == 1 or holds_at(ends[-1]) == before:
        so = f"{'holds' if before else 'does not hold'} at position {first}"
        what = (
            f"it {so} and at {ends[-1]} alike"
            if len(ends) > 1
            else f"this user recorded nothing behind position {first}"
        )
        raise RejectedError(f"there is no change to find: {what}; name other moments as good and bad", rule="ends")
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
