"""Which recalls and assemblies were recorded, and what each of them showed: the way from there to their receipts.

A memory or observation is shown whole, a summary too. Of what has its words in several events (a session, a document, a
turn) what counts is the positions of the events whose words were shown. A recall that was woven into an assembly is shown
by it, under the id of its RecallDelivered.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from ledger.domain.events import AnyEvent, RecallDelivered, WindowAssembled
from projections.core.rows import AsOf, Rows, Table
from projections.core.subjects import Change

WHOLE = 0  # no event is at this position

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


class Delivered:
    name, version = "delivered", 3
    follows = frozenset((RecallDelivered.__name__, WindowAssembled.__name__))
    tables = (DELIVERED,)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for subject, first, last in set(_shown(event)):
            values = (subject, first, event.position, last, event.envelope.user)
            rows.put(DELIVERED, (subject, first, event.position), values)


def _shown(event: AnyEvent) -> Iterator[tuple[str, int, int]]:
    """The subjects that an event says were shown, each with the first and the last position of what was shown of it."""
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


def showing(connection: sqlite3.Connection, wanted: Mapping[str, Sequence[int]], user: str) -> list[int]:
    """The positions of the recalls and assemblies of a user that showed one of these, oldest first.

    ``wanted`` are ids, each with the positions of its events that are meant, in order: of what is not shown whole one of
    them must have been shown.
    """
    sql = "SELECT first, last, position FROM delivered WHERE subject = ? AND user = ?"
    found = set[int]()
    for subject, positions in wanted.items():
        for first, last, position in connection.execute(sql, (subject, user)):
            if first == WHOLE or _any_within(positions, first, last):
                found.add(position)
    return sorted(found)


def _any_within(positions: Sequence[int], first: int, last: int) -> bool:
    place = bisect_left(positions, first)
    return place < len(positions) and positions[place] <= last
