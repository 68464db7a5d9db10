"""Which recalls were recorded, and what each of them gave: from a memory, turn, chunk or observation to its packs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from ledger.domain.events import AnyEvent, RecallServed
from projections.rows import Rows, Standing, Table
from projections.subjects import Change

SERVED = Table(
    "served",
    ("subject TEXT NOT NULL", "position INTEGER NOT NULL", "user TEXT"),
    ("subject", "position"),
    (("position", ""),),
    rowid=False,
    then=Standing("position"),
)


class Served:
    name, version = "served", 1
    follows = frozenset((RecallServed.__name__,))
    tables = (SERVED,)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for subject in {item.subject for item in event.data.items if not item.cut}:
            rows.put(SERVED, (subject, event.position), (subject, event.position, event.envelope.user))


# --- reads -----------------------------------------------------------------------------------------------------------


def of_subjects(connection: sqlite3.Connection, subjects: Iterable[str], user: str) -> list[int]:
    """The positions of the recalls that gave one of these to a user, oldest first."""
    sql = "SELECT position FROM served WHERE subject = ? AND user = ?"
    found = {position for each in subjects for (position,) in connection.execute(sql, (each, user))}
    return sorted(found)
