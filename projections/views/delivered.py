"""The table of deliveries, which leads from a subject to the recalls and assembled windows that showed its text to a model.

A memory, an observation or a summary is shown whole. The text of a session, a document or a turn is in several events, so its
rows have the positions of the events that were shown. If an assembled window contains a recall, the window's rows name the
recall by the id of its RecallDelivered event.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from ledger.events import AnyEvent, RecallDelivered, WindowAssembled
from projections.core.rows import AsOf, ProjectionRows, Table
from projections.core.subjects import SubjectChange

WHOLE = 0  # the position in the row of a subject that was shown whole; no event has this position

DELIVERED = Table(
    "delivered",
    (
        *("subject TEXT NOT NULL", "first INTEGER NOT NULL", "position INTEGER NOT NULL"),
        *("last INTEGER NOT NULL", "user TEXT"),
    ),
    ("subject", "first", "position"),
    (("position", ""),),
    rowid=False,
    then=AsOf("position"),
)


class DeliveredProjection:
    name, version, reads = "delivered", 3, ()
    follows = frozenset((RecallDelivered.__name__, WindowAssembled.__name__))
    tables = (DELIVERED,)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for subject, first, last in set(_shown(event)):
            values = (subject, first, event.position, last, event.envelope.user)
            rows.put(DELIVERED, (subject, first, event.position), values)


def _shown(event: AnyEvent) -> Iterator[tuple[str, int, int]]:
    """Yield (subject, first position, last position) for each range of a subject that an event shows."""
    data = event.data
    if isinstance(data, RecallDelivered):
        for item in data.items:
            at = WHOLE if item.subject[:1] in "mo" else item.position
            if not item.cut:
                yield item.subject, at, at
    elif isinstance(data, WindowAssembled):
        for first, last in data.messages:
            yield event.stream, first, last
        for summary in (*data.summaries, *((data.recall,) if data.recall else ())):
            yield summary, WHOLE, WHOLE


# --- reads -----------------------------------------------------------------------------------------------------------


def showing(connection: sqlite3.Connection, subjects: Mapping[str, Sequence[int]], user: str) -> list[int]:
    """Return the positions of a user's recalls and assembled windows that showed one of these subjects, oldest first.

    Args:
        connection: The connection.
        subjects: For each subject's id the positions of its events, sorted. A subject that was not shown whole counts only if one
            of these events was shown.
        user: The user.
    """
    sql = "SELECT first, last, position FROM delivered WHERE subject = ? AND user = ?"
    matches = set[int]()
    for subject, positions in subjects.items():
        for first, last, position in connection.execute(sql, (subject, user)):
            if first == WHOLE or _any_within(positions, first, last):
                matches.add(position)
    return sorted(matches)


def _any_within(positions: Sequence[int], first: int, last: int) -> bool:
    place = bisect_left(positions, first)
    return place < len(positions) and positions[place] <= last
