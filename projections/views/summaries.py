"""The table of summaries of sessions, with their messages, the summaries under them, and their statuses."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ledger.events import AnyEvent, SummaryCreated
from ledger.sessions.rules import statuses
from ledger.sessions.rules.statuses import MOVING, Known, WindowFold, first_status, moved
from ledger.sessions.rules.window import LEVELS, SUMMARY_KINDS
from projections.core.rows import AsOf, ProjectionRows, Start, Table, Values, codec, columns
from projections.core.subjects import SubjectChange, by_key, end, ended, first_rows, replace_rows, standing

WINDOW, UNDER, INVALID = statuses.WINDOW, statuses.UNDER, statuses.INVALID


class SummaryRow(Struct, frozen=True):
    """A summary; ``row`` is the position of the event with its text.

    ``summaries`` are the summaries from which it was written; empty if it was written from messages. ``status`` is "window" (the
    summary stands for its messages in the window), "under" (another summary was written from it), "replaced" (another summary was
    written from the same messages), "invalid", or "erased".
    """

    row: int
    id: str
    session: int
    status: str
    kind: str
    level: str
    depth: int
    tokens: int
    ranges: tuple[tuple[int, int], ...]
    messages: int
    source_tokens: int
    first: int
    earliest: str
    latest: str
    summaries: tuple[str, ...]
    descendants: int
    descendant_tokens: int
    model: str | None
    prompt: str
    replaces: str | None
    from_position: int


SUMMARIES = Table(
    "summaries",
    columns(SummaryRow, always=("ranges", "summaries")),
    ("row",),
    (("session, status", ""), ("id", "")),
    then=AsOf("from_position", closed="summaries_were"),
    among=(("status", statuses.STATUSES), ("kind", SUMMARY_KINDS), ("level", LEVELS)),
)
_CLOSED = ended(SUMMARIES, "summaries_were")
SUMMARIES_WERE = replace(_CLOSED, indexes=(*_CLOSED.indexes, ("id", "")))

_, summary = codec(SummaryRow, SUMMARIES)
_STATUS, _FROM = SUMMARIES.names.index("status"), SUMMARIES.names.index("from_position")
_UNDERLYING = SUMMARIES.names.index("summaries")
_ids = msgspec.json.Decoder(tuple[str, ...])


class SummariesProjection:
    name, version, follows, reads = "summaries", 1, frozenset("s"), ()
    tables = (SUMMARIES, SUMMARIES_WERE)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            if change.refold:
                _refold(change, rows)
            elif isinstance(event.data, SummaryCreated):
                rows.put(SUMMARIES, (event.position,), _created(event, event.data))
            elif isinstance(event.data, MOVING):
                _move(event, rows)


def _created(event: AnyEvent, data: SummaryCreated) -> Values:
    status = first_status(data)
    ranges, underlying = (msgspec.json.encode(listed).decode() for listed in (data.ranges, data.summaries))
    return (
        *(event.position, data.summary, event.first, status, data.kind, data.level, data.depth, data.tokens),
        *(ranges, data.messages, data.source_tokens, data.first, data.earliest, data.latest, underlying),
        *(data.descendants, data.descendant_tokens, data.model, data.prompt, data.replaces, event.position),
    )


def _move(event: AnyEvent, rows: ProjectionRows) -> None:
    known: dict[str, Values | None] = {}

    def find(id: str) -> Known | None:
        if id not in known:
            known[id] = next(iter(rows.find(SUMMARIES, ("id",), (id,))), None)
        row = known[id]
        return (row[_STATUS], _ids.decode(row[_UNDERLYING])) if row is not None else None

    for id, status in moved(event.data, find).items():
        row = known[id]
        if row is not None and row[_STATUS] != status:
            end(rows, SUMMARIES, SUMMARIES_WERE, row, event.position)
            rows.put(SUMMARIES, row[:1], (*row[:_STATUS], status, *row[_STATUS + 1 : _FROM], event.position))


def _refold(change: SubjectChange, rows: ProjectionRows) -> None:
    """Replace the session's rows by the rows that follow from the events in effect.

    Going forward, an event moves the summaries that it names. After an undo the whole window decides which of them stand.
    """
    created, fold = dict[str, Values](), WindowFold()
    for event in change.events:
        fold.take(event)
        if isinstance(event.data, SummaryCreated):
            created[event.data.summary] = _created(event, event.data)
    for id, status in fold.consistent().items():
        created[id] = (*created[id][:_STATUS], status, *created[id][_STATUS + 1 :])
    before = standing(rows, SUMMARIES, "session", change.first)
    replace_rows(change, rows, (SUMMARIES, SUMMARIES_WERE), before, by_key(SUMMARIES, created.values()))


def touches(ranges: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> bool:
    """Return True if one of the inclusive ranges has a position in common with one of the others."""
    return any(first <= upper and lower <= last for first, last in ranges for lower, upper in others)


# --- reads -----------------------------------------------------------------------------------------------------------


def in_window(connection: sqlite3.Connection, row: int) -> list[SummaryRow]:
    """Return the summaries in a session's window, ordered by their oldest message."""
    sql = "SELECT * FROM summaries WHERE session = ? AND status = 'window' ORDER BY first, row"
    return [summary(values) for values in connection.execute(sql, (row,))]


def of_session(connection: sqlite3.Connection, row: int) -> list[SummaryRow]:
    """Return the summaries of a session of every status, in the order of writing."""
    sql = "SELECT * FROM summaries WHERE session = ? ORDER BY row"
    return [summary(values) for values in connection.execute(sql, (row,))]


def listing(
    connection: sqlite3.Connection, row: int, statuses: Sequence[str], start: Start, limit: int
) -> list[SummaryRow]:
    """Return the summaries of a session with these statuses, from ``start`` on."""
    rows = first_rows(connection, "summaries", ("session", row), statuses, start, limit)
    return [summary(values) for values in rows]


def at_position(connection: sqlite3.Connection, position: int) -> SummaryRow | None:
    """Return the summary whose text is in the event at a position, or None."""
    row = connection.execute("SELECT * FROM summaries WHERE row = ?", (position,)).fetchone()
    return summary(row) if row else None


def find(connection: sqlite3.Connection, row: int, id: str) -> SummaryRow | None:
    """Return a summary of a session by its id or an unambiguous beginning of the id, or None."""
    sql = "SELECT * FROM summaries WHERE session = ? AND id >= ? AND id < ? LIMIT 2"
    matches = connection.execute(sql, (row, id, id + "~")).fetchall()
    return summary(matches[0]) if len(matches) == 1 else None


def session_of(connection: sqlite3.Connection, id: str) -> int | None:
    """Return the row of the session to which a summary belongs or belonged, by the full id, or None."""
    for table in ("summaries", "summaries_were"):
        row = connection.execute(f"SELECT session FROM {table} WHERE id = ? LIMIT 1", (id,)).fetchone()
        if row is not None:
            return int(row[0])
    return None
