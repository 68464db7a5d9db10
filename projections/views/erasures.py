"""Legal holds in force, and erasures with whether their remains were purged; the texts of neither."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import Struct

from ledger.domain.events import (
    AnyEvent,
    ContentErased,
    ErasureCompleted,
    LegalHoldPlaced,
    LegalHoldReleased,
)
from projections.core.codec import columns
from projections.core.rows import CURRENT, Rows, Table
from projections.core.subjects import Change


class Held(Struct, frozen=True):
    """One hold; without a subject it is on everything of the user."""

    act: str
    position: int
    user: str | None
    subject: str | None


HOLDS = Table(
    "holds",
    columns(Held, rowid=False),
    ("act",),
    rowid=False,
    then=CURRENT,
)


class Erasure(Struct, frozen=True):
    """One erasure: the last of its events, and the event that says that nothing is left in the files."""

    act: str
    position: int
    completed_at: int | None


ERASURES = Table(
    "erasures",
    columns(Erasure, rowid=False),
    ("act",),
    rowid=False,
    then=CURRENT,
)


class Erasures:
    name, version = "erasures", 1
    follows = frozenset(each.__name__ for each in (ContentErased, ErasureCompleted, LegalHoldPlaced, LegalHoldReleased))
    tables = (HOLDS, ERASURES)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        data, envelope = event.data, event.envelope
        if isinstance(data, ContentErased):
            act = envelope.command_id
            rows.put(ERASURES, (act,), (act, event.position, None))
        elif isinstance(data, ErasureCompleted):
            row = rows.get(ERASURES, (data.erasure,))
            if row is not None:
                rows.put(ERASURES, row[:1], (*row[:2], event.position))
        elif isinstance(data, LegalHoldPlaced):
            act = envelope.command_id
            rows.put(HOLDS, (act,), (act, event.position, envelope.user, data.subject))
        elif isinstance(data, LegalHoldReleased):
            rows.remove(HOLDS, (data.hold,))


# --- reads -----------------------------------------------------------------------------------------------------------


def holds(connection: sqlite3.Connection, user: str) -> list[Held]:
    sql = "SELECT * FROM holds WHERE user = ? ORDER BY position"
    return [Held(*row) for row in connection.execute(sql, (user,))]


def erasures(connection: sqlite3.Connection) -> list[Erasure]:
    return [Erasure(*row) for row in connection.execute("SELECT * FROM erasures ORDER BY position")]


def last(connection: sqlite3.Connection) -> int:
    """The position of the last event that took texts away; 0 without one."""
    return int(connection.execute("SELECT coalesce(max(position), 0) FROM erasures").fetchone()[0])


def pending(connection: sqlite3.Connection) -> list[Erasure]:
    """What was erased from the log and may still lie in the files."""
    return [each for each in erasures(connection) if each.completed_at is None]
