"""The number of texts that a recall searches: counted once in a process, then adjusted by the events written since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ledger.events import (
    WAYS_BACK,
    ContentErased,
    DocumentRemoved,
    DocumentReplaced,
    DocumentRestored,
    MessageRepaired,
    MessagesHidden,
    ProjectionResumed,
    ProjectionsRebuilt,
    ProjectionSuspended,
    TextQuarantined,
    TextReleased,
    ValueMoved,
    ValuePut,
    ValueRemoved,
    ValueRestored,
)
from projections.core.rows import Connection
from projections.search import memory_hits, passages

FOLLOWED = 1_000  # events that are followed; after more everything is counted again
KEPT = 64  # numbers that are cached, each of a combination of user, projects and kinds

# Events that change rows of subjects other than their own stream's.
_ELSEWHERE = (*WAYS_BACK, ContentErased, ProjectionSuspended, ProjectionResumed, ProjectionsRebuilt)
ELSEWHERE = tuple(event_type.__name__ for event_type in _ELSEWHERE)
# Events that change or remove older passages.
_TAKING = (DocumentReplaced, DocumentRemoved, DocumentRestored, MessagesHidden, MessageRepaired)
TAKING = tuple(event_type.__name__ for event_type in (*_TAKING, TextQuarantined, TextReleased))
TAKING_VALUES = tuple(kind.__name__ for kind in (ValuePut, ValueMoved, ValueRemoved, ValueRestored))

W = TypeVar("W")
Moment = tuple[int, bytes]  # a position, and the head of the log there


class Counts:
    """The cached numbers of an open ledger. They stay right after undone batches and writes of other processes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Moment, int]] = {}

    def memories(self, connection: Connection, wanted: memory_hits.MemoryScope, now: Moment) -> int:
        def since(position: int) -> int | None:
            if _has(connection, ELSEWHERE, position):
                return None
            return memory_hits.count_since(connection, wanted, position)

        return self._number(connection, wanted, now, since, memory_hits.count)

    def passages(self, connection: Connection, wanted: passages.PassageScope, now: Moment) -> int:
        def since(position: int) -> int | None:
            taking = (*TAKING, *TAKING_VALUES) if passages.VALUE in wanted.corpora else TAKING
            if wanted.metadata or _has(connection, (*ELSEWHERE, *taking), position):
                return None
            return passages.count(connection, wanted, after=position)

        return self._number(connection, wanted, now, since, passages.count)

    def _number(
        self,
        connection: Connection,
        wanted: W,
        now: Moment,
        since: Callable[[int], int | None],
        count: Callable[[Connection, W], int],
    ) -> int:
        then, number = self._known.get(repr(wanted), ((0, b""), 0))
        if then == now:
            return number
        follows = 0 < then[0] < now[0] <= then[0] + FOLLOWED and _head(connection, then[0]) == then[1]
        more = since(then[0]) if follows else None
        number = count(connection, wanted) if more is None else number + more
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[repr(wanted)] = (now, number)
        return number


def _head(connection: Connection, position: int) -> bytes | None:
    """Return the head of the log at a position: after an undone batch the position belongs to another event."""
    row = connection.execute("SELECT head FROM main.events WHERE position = ?", (position,)).fetchone()
    return row[0] if row is not None else None


def _has(connection: Connection, types: Sequence[str], after: int) -> bool:
    sql = f"SELECT 1 FROM main.events WHERE position > ? AND type IN ({', '.join('?' * len(types))}) LIMIT 1"
    return connection.execute(sql, (after, *types)).fetchone() is not None
