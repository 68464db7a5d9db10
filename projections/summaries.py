"""The summaries of sessions: what each stands for, what it was written from, and which of them are in the window."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.events import (
    AnyEvent,
    ContextReplaced,
    MessagesHidden,
    SummaryCreated,
    SummaryInvalidated,
    SummaryRestored,
)
from projections.rows import Rows, Standing, Table, Values
from projections.subjects import Change, end, ended

MADE, WINDOW, UNDER, REPLACED, INVALID, ERASED = "made", "window", "under", "replaced", "invalid", "erased"

SUMMARIES = Table(
    "summaries",
    (
        *("row INTEGER PRIMARY KEY", "id TEXT NOT NULL", "session INTEGER NOT NULL", "status TEXT NOT NULL"),
        *("kind TEXT NOT NULL", "level TEXT NOT NULL", "depth INTEGER NOT NULL", "tokens INTEGER NOT NULL"),
        *("ranges TEXT NOT NULL", "messages INTEGER NOT NULL", "source_tokens INTEGER NOT NULL"),
        *("first INTEGER NOT NULL", "earliest TEXT NOT NULL", "latest TEXT NOT NULL", "summaries TEXT NOT NULL"),
        *("descendants INTEGER NOT NULL", "descendant_tokens INTEGER NOT NULL", "model TEXT", "prompt TEXT NOT NULL"),
        *("replaces TEXT", "from_position INTEGER NOT NULL"),
    ),
    ("row",),
    (("session, status", ""), ("id", "")),
    then=Standing("from_position", closed="summaries_were"),
)
_CLOSED = ended(SUMMARIES, "summaries_were")
SUMMARIES_WERE = replace(_CLOSED, indexes=(*_CLOSED.indexes, ("id", "")))

_ID, _STATUS, _FROM = (SUMMARIES.names.index(name) for name in ("id", "status", "from_position"))
_RANGES, _CHILDREN = SUMMARIES.names.index("ranges"), SUMMARIES.names.index("summaries")
_pairs = msgspec.json.Decoder(tuple[tuple[int, int], ...])
_ids = msgspec.json.Decoder(tuple[str, ...])


class Summary(Struct, frozen=True):
    """A row of ``summaries``: ``row`` is the position of the event that has its text, ``summaries`` what it was written
    from, if not from the messages themselves.

    ``status`` is "window" (it stands for its messages there), "under" (another was written from it), "replaced" (another
    was written of the same messages), "invalid", or "erased"."""

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


def summary(values: Sequence[Any]) -> Summary:
    row = list(values)
    row[_RANGES], row[_CHILDREN] = _pairs.decode(row[_RANGES]), _ids.decode(row[_CHILDREN])
    return Summary(*row)


class Summaries:
    name, version, follows = "summaries", 1, frozenset("s")
    tables = (SUMMARIES, SUMMARIES_WERE)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            if change.refold:
                _again(change, rows)
            elif isinstance(event.data, SummaryCreated):
                rows.put(SUMMARIES, (event.position,), _created(event, event.data))
            elif isinstance(event.data, ContextReplaced | SummaryInvalidated | SummaryRestored):
                known = {row[_ID]: row for id in _named(event.data) for row in rows.find(SUMMARIES, ("id",), (id,))}
                for row in known.values():
                    status = _status(event.data, row[_ID], row[_STATUS], _children(event.data, known))
                    if status != row[_STATUS]:
                        end(rows, SUMMARIES, SUMMARIES_WERE, row, event.position)
                        now = (*row[:_STATUS], status, *row[_STATUS + 1 : _FROM], event.position)
                        rows.put(SUMMARIES, row[:1], now)


def _created(event: AnyEvent, data: SummaryCreated) -> Values:
    status = MADE if data.content is not None else ERASED
    lists = [msgspec.json.encode(each).decode() for each in (data.ranges, data.summaries)]
    return (
        *(event.position, data.summary, event.first, status, data.kind, data.level, data.depth, data.tokens),
        *(lists[0], data.messages, data.source_tokens, data.first, data.earliest, data.latest, lists[1]),
        *(data.descendants, data.descendant_tokens, data.model, data.prompt, data.replaces, event.position),
    )


def _named(data: ContextReplaced | SummaryInvalidated | SummaryRestored) -> tuple[str, ...]:
    match data:
        case ContextReplaced(summary, summaries) | SummaryRestored(summary, summaries):
            return (summary, *summaries)
        case SummaryInvalidated(summaries, _, returned):
            return (*summaries, *returned)


def _children(data: Any, known: dict[str, Values]) -> frozenset[str]:
    """What the summary that an event is about was written from; nothing where it was erased, for it stands for nothing."""
    row = known.get(getattr(data, "summary", ""))
    return frozenset(_ids.decode(row[_CHILDREN])) if row is not None and row[_STATUS] != ERASED else frozenset()


def _status(data: Any, id: str, before: str, children: frozenset[str]) -> str:
    if before == ERASED:
        return ERASED
    match data:
        case ContextReplaced(summary):
            return WINDOW if id == summary else UNDER if id in children else REPLACED
        case SummaryInvalidated(summaries):
            return INVALID if id in summaries else WINDOW
        case SummaryRestored(summary):
            return WINDOW if id == summary else UNDER
        case _:
            return before


def _again(change: Change, rows: Rows) -> None:
    """What the events in force say stands from here. A summary of what was hidden meanwhile stands for nothing."""
    at, found, hidden = change.event.position, dict[str, Values](), list[tuple[int, int]]()
    for event in change.in_force if change.new is not None else ():
        data = event.data
        if isinstance(data, SummaryCreated):
            found[data.summary] = (*_created(event, data)[:_FROM], at)
        elif isinstance(data, MessagesHidden):
            hidden += data.ranges
        elif isinstance(data, ContextReplaced | SummaryInvalidated | SummaryRestored):
            children = _children(data, found)
            for id in _named(data):
                if (row := found.get(id)) is not None:
                    status = _status(data, id, row[_STATUS], children)
                    if status == WINDOW and touches(_pairs.decode(row[_RANGES]), hidden):
                        status = INVALID
                    found[id] = (*row[:_STATUS], status, *row[_STATUS + 1 :])
    left = {row[0]: row for row in found.values()}
    for row in rows.find(SUMMARIES, ("session",), (change.first,)):
        same = left.get(row[0])
        if same is not None and same[:_FROM] == row[:_FROM]:
            del left[row[0]]
        else:
            end(rows, SUMMARIES, SUMMARIES_WERE, row, at)
    for key, row in left.items():
        rows.put(SUMMARIES, (key,), row)


def touches(ranges: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> bool:
    """Whether any of these inclusive ranges has a position in common with one of the others."""
    return any(first <= upper and lower <= last for first, last in ranges for lower, upper in others)


# --- reads -----------------------------------------------------------------------------------------------------------


def in_window(connection: sqlite3.Connection, row: int) -> list[Summary]:
    """The summaries that stand in a session's window, by their place."""
    sql = "SELECT * FROM summaries WHERE session = ? AND status = 'window' ORDER BY first, row"
    return [summary(each) for each in connection.execute(sql, (row,))]


def of_session(connection: sqlite3.Connection, row: int) -> list[Summary]:
    """Every summary of a session, whatever became of it, in the order in which they were written."""
    sql = "SELECT * FROM summaries WHERE session = ? ORDER BY row"
    return [summary(each) for each in connection.execute(sql, (row,))]


def at_position(connection: sqlite3.Connection, position: int) -> Summary | None:
    """The summary whose text the event at a position has."""
    found = connection.execute("SELECT * FROM summaries WHERE row = ?", (position,)).fetchone()
    return summary(found) if found else None


def find(connection: sqlite3.Connection, row: int, given: str) -> Summary | None:
    """A summary of a session by its id or an unambiguous beginning of it."""
    sql = "SELECT * FROM summaries WHERE session = ? AND id >= ? AND id < ? LIMIT 2"
    found = connection.execute(sql, (row, given, given + "~")).fetchall()
    return summary(found[0]) if len(found) == 1 else None


def about(connection: sqlite3.Connection, row: int, position: int) -> list[Summary]:
    """The summaries, whatever became of them, that were written from a message or from what was written from it."""
    return [each for each in of_session(connection, row) if touches(each.ranges, ((position, position),))]
