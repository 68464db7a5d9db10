"""The legal holds in effect, and the erasures with the position at which nothing was left in the files."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import Struct

from ledger.events import AnyEvent, ContentErased, ErasureCompleted, LegalHoldPlaced, LegalHoldReleased
from projections.core.rows import CURRENT, NEWEST, ProjectionRows, Start, Table, columns, reader
from projections.core.subjects import SubjectChange


class HoldRow(Struct, frozen=True):
    """A legal hold; a hold without a subject is on everything of the user."""

    act: str
    position: int
    user: str | None
    subject: str | None


_hold = reader(HoldRow, "holds")


HOLDS = Table(
    "holds",
    columns(HoldRow, rowid=False),
    ("act",),
    rowid=False,
    then=CURRENT,
)


class Erasure(Struct, frozen=True):
    """An erasure: the position of its last event, and of the event that records that nothing is left in the files."""

    act: str
    position: int
    completed_at: int | None


_erasure = reader(Erasure, "erasures")


ERASURES = Table(
    "erasures",
    columns(Erasure, rowid=False),
    ("act",),
    rowid=False,
    then=CURRENT,
)


class ErasuresProjection:
    """The projection of holds and erasures, which no act makes void."""

    name, version, reads = "erasures", 1, ()
    follows = frozenset(kind.__name__ for kind in (ContentErased, ErasureCompleted, LegalHoldPlaced, LegalHoldReleased))
    tables = (HOLDS, ERASURES)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        data, envelope = event.data, event.envelope
        if isinstance(data, ContentErased):
            act = envelope.command_id
            rows.put(ERASURES, (act,), (act, event.position, None))
        elif isinstance(data, ErasureCompleted):
            row = rows.get(ERASURES, (data.erasure,))
            if row is not None and not data.replica:  # the part of one machine does not complete an erasure
                rows.put(ERASURES, row[:1], (*row[:2], event.position))
        elif isinstance(data, LegalHoldPlaced):
            act = envelope.command_id
            rows.put(HOLDS, (act,), (act, event.position, envelope.user, data.subject))
        elif isinstance(data, LegalHoldReleased):
            rows.remove(HOLDS, (data.hold,))


# --- reads -----------------------------------------------------------------------------------------------------------


def holds(connection: sqlite3.Connection, user: str) -> list[HoldRow]:
    return holds_listing(connection, user, Start(oldest_first=True))


def holds_listing(connection: sqlite3.Connection, user: str, start: Start = NEWEST, limit: int = -1) -> list[HoldRow]:
    """Return at most ``limit`` holds of a user, from ``start`` on."""
    sql = f"SELECT * FROM holds WHERE user = ? AND position {start.behind} ? ORDER BY position {start.order} LIMIT ?"
    return [_hold(row) for row in connection.execute(sql, (user, start.bound, limit))]


def listing(connection: sqlite3.Connection, start: Start = NEWEST, limit: int = -1) -> list[Erasure]:
    """Return at most ``limit`` erasures, from ``start`` on."""
    sql = f"SELECT * FROM erasures WHERE position {start.behind} ? ORDER BY position {start.order} LIMIT ?"
    return [_erasure(row) for row in connection.execute(sql, (start.bound, limit))]


def of(connection: sqlite3.Connection, act: str) -> Erasure | None:
    row = connection.execute("SELECT * FROM erasures WHERE act = ?", (act,)).fetchone()
    return _erasure(row) if row is not None else None


def last(connection: sqlite3.Connection) -> int:
    """Return the position of the last event that erased texts, or 0 if there is none."""
    return int(connection.execute("SELECT coalesce(max(position), 0) FROM erasures").fetchone()[0])


def pending(connection: sqlite3.Connection) -> list[Erasure]:
    """Return the erasures whose texts may still be in the files."""
    sql = "SELECT * FROM erasures WHERE completed_at IS NULL ORDER BY position"
    return [_erasure(row) for row in connection.execute(sql)]
