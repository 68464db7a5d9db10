"""The quarantine: memories and texts that are kept out of recall, with the reasons.

A memory is in quarantine by its own flag, a text by the position of the event that has the text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ledger.events import WAYS_BACK, AnyEvent, DuplicateAbsorbed, MemoryQuarantined, TextQuarantined, TextReleased
from ledger.memories.state import ERASED
from projections.core.rows import CURRENT, AsOf, ProjectionRows, Start, Table, Values, columns, reader, rows_among
from projections.core.subjects import SubjectChange, end, ended, void_since


class QuarantinedSubject(Struct, frozen=True):
    """A memory or text in quarantine; ``at`` is the first position of the memory, or the position of the text's event.

    ``subject`` is the id of a memory, and "" for a text. ``finding`` is the finding of a ``scanner``; without a scanner, a person
    decided.
    """

    at: int
    from_position: int
    user: str | None
    subject: str
    finding: str
    scanner: str
    recorded_at: str


_held = reader(QuarantinedSubject, "quarantine")


QUARANTINE = Table(
    "quarantine",
    columns(QuarantinedSubject),
    ("at",),
    (("user, from_position", ""),),
    grouped=("at",),
    ahead=True,
    then=AsOf("from_position", closed="was_in_quarantine"),
)
WAS_IN_QUARANTINE = ended(QUARANTINE, "was_in_quarantine")
# Every decision about the quarantine of a text, void ones included. The last decision in effect counts.
DECISIONS = Table(
    "quarantine_decisions",
    (
        *("at INTEGER NOT NULL", "position INTEGER NOT NULL", "held INTEGER NOT NULL", "user TEXT"),
        *("finding TEXT NOT NULL", "scanner TEXT NOT NULL", "recorded_at TEXT NOT NULL"),
    ),
    ("at", "position"),
    (("position", ""),),
    rowid=False,
    then=CURRENT,
)


_ON_TEXTS = (TextQuarantined, TextReleased)  # a tuple, because a union type would be created for each event


class QuarantineProjection:
    """The projection of the quarantine.

    Decisions on texts are events of the ledger and not of a subject, so an act on them is folded here.
    """

    name, version, reads = "quarantine", 2, ("in_effect",)
    follows = frozenset({"m", *(kind.__name__ for kind in (TextQuarantined, TextReleased, *WAYS_BACK))})
    tables = (QUARANTINE, WAS_IN_QUARANTINE, DECISIONS)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        data, envelope = event.data, event.envelope
        if isinstance(data, _ON_TEXTS):
            held = isinstance(data, TextQuarantined)
            finding = data.finding if isinstance(data, TextQuarantined) else ""
            values = (envelope.user, finding, data.scanner, envelope.recorded_at)
            rows.put(DECISIONS, (data.position, event.position), (data.position, event.position, int(held), *values))
            self._stand(data.position, event.position, rows)
        elif isinstance(data, WAYS_BACK) and not changes:
            for at in sorted({row[0] for row in rows.within(DECISIONS, "position", data.ranges)}):
                self._stand(at, event.position, rows)
        for change in changes:
            old, new = change.old, change.new
            if change.refold or new is None or new.quarantined or new.status == ERASED or (old and old.quarantined):
                self._memory(change, rows)

    @staticmethod
    def _stand(at: int, position: int, rows: ProjectionRows) -> None:
        """Apply the last decision in effect to a text."""
        last = _last_decision(rows, at)
        row = (at, last[1], last[3], "", *last[4:]) if last is not None and last[2] else None
        _replace(at, row, position, rows)

    @staticmethod
    def _memory(change: SubjectChange, rows: ProjectionRows) -> None:
        state, event = change.new, change.event
        held = state is not None and state.quarantined and state.status != ERASED
        was = change.old is not None and change.old.quarantined
        if held == was and not change.refold and (state is None or state.status != ERASED):
            return
        if state is None or not held:
            _replace(change.first, None, event.position, rows)
            return
        flags = change.events
        last = next((flag for flag in reversed(flags) if isinstance(flag.data, MemoryQuarantined)), flags[0])
        data = last.data
        values = (data.finding, data.scanner) if isinstance(data, MemoryQuarantined | DuplicateAbsorbed) else ("", "")
        row = (change.first, last.position, state.user, state.id, *values, last.envelope.recorded_at)
        _replace(change.first, row, event.position, rows)


def _last_decision(rows: ProjectionRows, at: int) -> Values | None:
    """Return the last decision in effect on the text of an event."""
    decisions = rows.find(DECISIONS, ("at",), (at,))
    void = void_since(rows, [row[1] for row in decisions])
    return max((row for row in decisions if row[1] not in void), key=lambda row: int(row[1]), default=None)


def _replace(at: int, row: tuple[object, ...] | None, position: int, rows: ProjectionRows) -> None:
    current = rows.get(QUARANTINE, (at,))
    if current is not None and (row is None or current[2:] != row[2:]):
        end(rows, QUARANTINE, WAS_IN_QUARANTINE, current, position)
        current = None
    if row is not None and current is None:
        rows.put(QUARANTINE, (at,), (at, position, *row[2:]))


# --- reads -----------------------------------------------------------------------------------------------------------


def free(position: str) -> str:
    """Return the SQL condition that the text of the event at this position is not in quarantine."""
    return f"NOT {holds(position)}"


def holds(position: str) -> str:
    """Return the SQL condition that the text of the event at this position is in quarantine."""
    return f"EXISTS (SELECT 1 FROM quarantine q WHERE q.at = {position})"


def is_used(connection: sqlite3.Connection, user: str) -> bool:
    """Return True if a memory or text of the user is in quarantine."""
    return connection.execute("SELECT 1 FROM quarantine WHERE user = ? LIMIT 1", (user,)).fetchone() is not None


def held(rows: ProjectionRows, position: int | None) -> bool:
    """Return True if the text of an event is in quarantine; called under the writer's lock."""
    return position is not None and rows.get(QUARANTINE, (position,)) is not None


def was_released(rows: ProjectionRows, position: int) -> bool:
    """Return True if a person released the text of an event last; called under the writer's lock."""
    last = _last_decision(rows, position)
    return last is not None and not last[2] and not last[5]


def among(connection: sqlite3.Connection, positions: Iterable[int]) -> dict[int, QuarantinedSubject]:
    """Return the memories and texts in quarantine at these positions, by position."""
    rows = rows_among(connection, "SELECT * FROM quarantine WHERE at IN {}", sorted(set(positions)))
    return {row[0]: _held(row) for row in rows}


def listing(
    connection: sqlite3.Connection,
    user: str,
    limit: int,
    after: tuple[int, int] | None = None,
    *,
    oldest_first: bool = False,
) -> list[QuarantinedSubject]:
    """Return the user's memories and texts in quarantine, behind ``after`` (from_position, at), newest or oldest first.

    Void texts are left out, because they cannot be recalled anyway. A void memory has no row, and a memory whose capture is void
    may stand by an absorbed attempt.
    """
    start = Start(None if after is None else after[0], oldest_first)
    sql = (
        f"SELECT q.* FROM quarantine q WHERE q.user = ? AND (q.from_position, q.at) {start.behind} (?, ?)"
        " AND (q.subject <> '' OR NOT EXISTS (SELECT 1 FROM voided o WHERE o.position = q.at))"
        f" ORDER BY q.from_position {start.order}, q.at {start.order} LIMIT ?"
    )
    return [_held(row) for row in connection.execute(sql, (user, *(after or (start.bound, 0)), limit))]


def decisions_on(connection: sqlite3.Connection, at: int) -> list[tuple[int, bool]]:
    """Return (position, True if held) of every decision on the text of an event, void ones included, the last first."""
    sql = "SELECT position, held FROM quarantine_decisions WHERE at = ? ORDER BY position DESC"
    return [(position, bool(held)) for position, held in connection.execute(sql, (at,))]
