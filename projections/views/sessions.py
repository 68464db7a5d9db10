"""The tables of sessions, of their messages, and of hidden messages. Texts stay in the log, at the position in the row's key.

A message has a row as long as its append is in effect. Hidden messages are recorded as ranges of positions, so an act on many
messages writes few rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager

import msgspec
from msgspec import UNSET, Struct

from ledger.domain import metadata, spans
from ledger.domain.errors import DamagedError
from ledger.domain.metadata import NO_PAIRS, Pairs
from ledger.domain.times import moment
from ledger.events import AnyEvent, ExtractionCursorMoved, MessageAppended, MessageRepaired, MessagesHidden
from ledger.log.events import NOTHING
from ledger.sessions.rules import message as messages
from ledger.sessions.rules import session
from ledger.sessions.rules.session import SessionState
from ledger.sessions.rules.statuses import Visible
from projections.core.rows import (
    CURRENT,
    NEWEST,
    AsOf,
    Conditions,
    ProjectionRows,
    Start,
    Table,
    Values,
    codec,
    columns,
    reader,
    rows_among,
)
from projections.core.subjects import SubjectChange, by_key, end, ended, family, keep, replace_rows, standing
from projections.views.interactions import BY_RULES

FAMILY = family(
    "s",
    SessionState,
    session.evolve,
    session.admits,
    ("sessions", "session_versions"),
    indexes=(("user", ""), ("row", "extractable_at > cursor")),
)
SESSIONS, SESSION_VERSIONS = FAMILY.live, FAMILY.closed
from_row, get = FAMILY.from_row, FAMILY.get
# The position up to which extraction ever read a session, undone runs included, so that no job repeats an undone extraction.
# ``by_model`` has the ranges of positions that a model read, as JSON; ``model_upto`` is the end of the range from the beginning.
LOOKED = Table(
    "sessions_checked",
    (
        *("session INTEGER PRIMARY KEY", "upto INTEGER NOT NULL"),
        *("model_upto INTEGER NOT NULL", "by_model TEXT NOT NULL"),
    ),
    ("session",),
    then=CURRENT,
)


class MessageRow(Struct, frozen=True):
    """A message; ``row`` is the position of its event."""

    row: int
    session: int
    role: str
    tokens: int
    time: str
    tools: tuple[tuple[str, ...], tuple[str, ...]] | None  # the ids of the tool calls made and answered
    interaction: str | None
    field: str | None
    repairs: tuple[int, ...]  # the positions of the events that repaired the message
    metadata: str | None
    from_position: int

    @property
    def calls(self) -> tuple[str, ...]:
        return self.tools[0] if self.tools else ()

    @property
    def results(self) -> tuple[str, ...]:
        return self.tools[1] if self.tools else ()


MESSAGES = Table(
    "messages",
    columns(MessageRow),
    ("row",),
    (("session, row", ""), ("interaction", "interaction IS NOT NULL")),
    then=AsOf("from_position", closed="messages_were"),
)
MESSAGES_WERE = ended(MESSAGES, "messages_were")
# A row for each range that an act hid. The messages and tokens of all ranges are counted in the first row (``part`` 0).
HIDDEN = Table(
    "hidden_messages",
    (
        *("act INTEGER NOT NULL", "part INTEGER NOT NULL", "session INTEGER NOT NULL"),
        *("first INTEGER NOT NULL", "last INTEGER NOT NULL", "why TEXT NOT NULL"),
        *("messages INTEGER NOT NULL", "tokens INTEGER NOT NULL", "from_position INTEGER NOT NULL"),
    ),
    ("act", "part"),
    (("session, first", ""),),
    then=AsOf("from_position", closed="hidden_messages_were"),
)
HIDDEN_WERE = ended(HIDDEN, "hidden_messages_were")

_, message_of = codec(MessageRow, MESSAGES)
_TOKENS, _FROM = MESSAGES.names.index("tokens"), MESSAGES.names.index("from_position")
_REPAIRS, _TIME, _METADATA = (MESSAGES.names.index(name) for name in ("repairs", "time", "metadata"))
_numbers = msgspec.json.Decoder(tuple[int, ...])
_NO_PARTS = (b"[]", b"null")
_ranges = msgspec.json.Decoder(list[tuple[int, int]]).decode


class SessionsProjection:
    name, version, follows, reads = "sessions", 6, frozenset("s"), ()
    tables = (SESSIONS, SESSION_VERSIONS, LOOKED, MESSAGES, MESSAGES_WERE, HIDDEN, HIDDEN_WERE)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            keep(change, rows, FAMILY)
            if change.refold:
                _refold(change, rows)
            elif change.new is None:
                continue
            elif isinstance(event.data, MessageAppended):
                rows.put(MESSAGES, (event.position,), _appended(event, event.data))
            elif isinstance(event.data, MessageRepaired):
                row = rows.get(MESSAGES, (event.data.message,))
                if row is not None:
                    end(rows, MESSAGES, MESSAGES_WERE, row, event.position)
                    rows.put(MESSAGES, row[:1], (*_repaired(row, event)[:_FROM], event.position))
            elif isinstance(event.data, MessagesHidden):
                counted = (event.data.messages, event.data.tokens)
                for hidden_row in _hidden(event, event.data, counted, event.position):
                    rows.put(HIDDEN, hidden_row[:2], hidden_row)
            elif isinstance(event.data, ExtractionCursorMoved):
                _move_mark(rows, change.first, event.data)


class UnreadScope(Struct, frozen=True, kw_only=True):
    """The sessions and the time in which messages are searched that no model has read; an undone reading counts.

    ``projects`` are the projects, in which None means no project, or None for all. ``session`` is the row of one session, or
    None for all. ``since`` is the earliest time.
    """

    user: str
    projects: Sequence[str | None] | None = None
    session: int | None = None
    since: str = ""

    def where(self) -> Conditions:
        where = Conditions("s.user = ? AND s.moved_to IS NULL", self.user)
        where.add("s.extractable_at > coalesce(l.model_upto, 0) AND m.row > coalesce(l.model_upto, 0)")
        where.of_projects(self.projects, "s.project")
        where.given("s.row = ?", self.session)
        where.add("m.role IN ('user', 'assistant') AND m.time >= ?", self.since)
        where.add(f"NOT {hides('m')} AND (i.row IS NULL OR NOT {_CLOSED_TO_MODELS})")
        return where


# A session's messages, with the marks of the extraction and the captured turn of each message.
_UNREAD = (
    " FROM sessions s LEFT JOIN sessions_checked l ON l.session = s.row CROSS JOIN messages m ON m.session = s.row"
    " AND NOT EXISTS (SELECT 1 FROM json_each(l.by_model) r"
    " WHERE m.row BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]'))"
    " LEFT JOIN events e ON e.stream = m.interaction AND e.version = 1 LEFT JOIN interactions i ON i.row = e.position"
)
_LOOKED = " FROM messages m JOIN sessions_checked l ON l.session = m.session"
_IS_READ = (
    "(m.row <= l.model_upto OR EXISTS (SELECT 1 FROM json_each(l.by_model) r"
    " WHERE m.row BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]')))"
)
_CLOSED_TO_MODELS = (
    f"(i.extraction IN ('off', 'erased', 'undone') OR (i.extractor <> '' AND i.extractor NOT LIKE '{BY_RULES}%'))"
)


def _move_mark(rows: ProjectionRows, session: int, data: ExtractionCursorMoved) -> None:
    """Move the mark of a session to the end of an extraction.

    A request to read again ("asked") moves the mark back. Skipped messages were not read, so "skipped" does not move the mark;
    but they belong to another session, where a model reads them, so they count as read by a model.
    """
    known = rows.get(LOOKED, (session,)) or (session, 0, 0, "[]")
    ranges, upto = _ranges(known[3]), known[1]
    if data.why == "asked":
        ranges = [(first, min(last, data.to)) for first, last in ranges if first <= data.to]
        upto = data.to
    elif data.why == "skipped" or (data.extractor and not data.extractor.startswith(BY_RULES)):
        ranges = [*spans.joined([*ranges, (data.since + 1, data.to)])]
    if data.why not in ("asked", "skipped"):
        upto = max(upto, data.to)
    model_upto = ranges[0][1] if ranges and ranges[0][0] <= 1 else 0
    rows.put(LOOKED, (session,), (session, upto, model_upto, msgspec.json.encode(ranges).decode()))


def _appended(event: AnyEvent, data: MessageAppended) -> Values:
    envelope, tools = event.envelope, None
    if bytes(data.parts) not in _NO_PARTS:
        parts = messages.whole_parts(data.parts, "", data.content_of)
        tools_used = (messages.calls(parts), messages.results(parts))
        tools = msgspec.json.encode(tools_used).decode() if any(tools_used) else None
    time = moment("occurred_at", envelope.occurred_at) if envelope.occurred_at else envelope.recorded_at
    tied = (data.interaction, data.field) if data.interaction is not None else (None, None)
    pairs = None if data.metadata is NOTHING else metadata.row_of(data.metadata)
    return (event.position, event.first, data.role, data.tokens, time, tools, *tied, None, pairs, event.position)


def _repaired(row: Values, event: AnyEvent) -> Values:
    """Return the row with one more repair, and with the time and metadata that the repair has."""
    data: MessageRepaired = event.data
    repairs = (*(_numbers.decode(row[_REPAIRS]) if row[_REPAIRS] else ()), event.position)
    now = list(row)
    now[_REPAIRS] = msgspec.json.encode(repairs).decode()
    if data.occurred_at is not UNSET:
        now[_TIME] = data.occurred_at
    if data.metadata is not NOTHING:
        now[_METADATA] = metadata.row_of(data.metadata)
    return tuple(now)


def _hidden(event: AnyEvent, data: MessagesHidden, counted: tuple[int, int], since: int) -> Iterator[Values]:
    for part, (first, last) in enumerate(data.ranges):
        numbers = counted if part == 0 else (0, 0)
        yield (event.position, part, event.first, first, last, data.why, *numbers, since)


def _refold(change: SubjectChange, rows: ProjectionRows) -> None:
    """Replace the session's rows by the rows that follow from the events in effect.

    Going forward, a repair reads one message, and a hiding brings its counts. After an undo the counts may be others.
    """
    at, visible = change.event.position, Visible()
    appended, hidden = dict[int, Values](), list[Values]()
    for event in change.events:
        data = event.data
        if isinstance(data, MessageAppended):
            visible.append(event.position)
            appended[event.position] = _appended(event, data)
        elif isinstance(data, MessageRepaired) and data.message in appended:
            appended[data.message] = _repaired(appended[data.message], event)
        elif isinstance(data, MessagesHidden):
            newly_hidden = visible.hide(data.ranges)
            counted = (len(newly_hidden), sum(appended[row][_TOKENS] for row in newly_hidden))
            hidden += _hidden(event, data, counted, at)
    for tables, after in ((MESSAGES, MESSAGES_WERE), appended.values()), ((HIDDEN, HIDDEN_WERE), hidden):
        before = standing(rows, tables[0], "session", change.first)
        replace_rows(change, rows, tables, before, by_key(tables[0], after))


# --- reads -----------------------------------------------------------------------------------------------------------


@contextmanager
def listing(
    connection: sqlite3.Connection,
    *,
    user: str,
    projects: Sequence[str | None] | None = None,
    pairs: Pairs = NO_PAIRS,
    start: Start = NEWEST,
) -> Iterator[Iterator[SessionState]]:
    """Yield an iterator over the sessions of a user from ``start`` on, without sessions whose names moved to another."""
    where = Conditions("user = ? AND moved_to IS NULL AND name IS NOT NULL", user)
    where.of_projects(projects)
    where.has_pairs(pairs)
    where.begin("row", start)
    cursor = connection.execute(f"SELECT * FROM sessions WHERE {where} ORDER BY row {start.order}", where.values)
    with closing(cursor):  # an open cursor, kept by a traceback, would hold the connection at this moment
        yield map(from_row, cursor)


UNMINED = (
    " FROM sessions s LEFT JOIN sessions_checked l ON l.session = s.row"
    " WHERE s.extractable_at > s.cursor AND s.extractable_at > coalesce(l.upto, 0)"
)


def unmined(connection: sqlite3.Connection, *, after: int) -> list[SessionState]:
    """Return the sessions of all users with messages that extraction has not read, oldest first, at most 100."""
    names = ", ".join(f"s.{name}" for name in SESSIONS.names)
    sql = f"SELECT {names}{UNMINED} AND s.row > ? ORDER BY s.row LIMIT 100"
    return [from_row(row) for row in connection.execute(sql, (after,))]


def looked_upto(connection: sqlite3.Connection, row: int) -> int:
    """Return the position up to which extraction ever read a session, undone runs included, or 0."""
    mark = connection.execute("SELECT upto FROM sessions_checked WHERE session = ?", (row,)).fetchone()
    return int(mark[0]) if mark else 0


class UnreadMessage(Struct, frozen=True):
    """A message that no model has read; ``row`` is the position of its event."""

    time: str
    row: int
    session: int
    role: str


def unread_by_model(connection: sqlite3.Connection, scope: UnreadScope) -> list[UnreadMessage]:
    """Return the messages that no model has read, in the order of time."""
    where = scope.where()
    sql = f"SELECT m.time, m.row, m.session, m.role{_UNREAD} WHERE {where} ORDER BY m.time, m.row"
    return [UnreadMessage(*row) for row in connection.execute(sql, where.values)]


def read_by_model(connection: sqlite3.Connection, rows: Collection[int]) -> set[int]:
    """Return those of some messages and captured turns, by their rows, that a model has read."""
    messages = f"SELECT m.row{_LOOKED} WHERE m.row IN {{}} AND {_IS_READ}"
    captured = (
        f"SELECT i.row FROM interactions i WHERE i.row IN {{}} AND (i.extractor <> '' AND i.extractor NOT LIKE '{BY_RULES}%'"
        f" OR EXISTS (SELECT 1{_LOOKED} WHERE m.interaction = i.id AND {_IS_READ}))"
    )
    return {row for sql in (messages, captured) for (row,) in rows_among(connection, sql, list(rows))}


def unread_before(connection: sqlite3.Connection, session: int, row: int, time: str) -> int:
    """Return the position of the last message of a session before a position that is older than a time; 0 without one."""
    sql = "SELECT max(row) FROM messages WHERE session = ? AND row < ? AND time < ? AND role IN ('user', 'assistant')"
    return int(connection.execute(sql, (session, row, time)).fetchone()[0] or 0)


def count_unread_by_model(connection: sqlite3.Connection, scope: UnreadScope) -> int:
    """Return the number of turns, which are messages of the user, that no model has read."""
    where = scope.where()
    where.add("m.role = 'user'")
    count: int = connection.execute(f"SELECT count(*){_UNREAD} WHERE {where}", where.values).fetchone()[0]
    return count


def counts(connection: sqlite3.Connection, user: str) -> tuple[int, int, int]:
    """Return the number of a user's sessions, of their messages (hidden included), and of the summaries in their windows."""
    sql = "SELECT count(*), coalesce(sum(messages), 0) FROM sessions WHERE user = ? AND moved_to IS NULL"
    count, number = connection.execute(sql, (user,)).fetchone()
    if not isinstance(number, int):
        raise DamagedError(SESSIONS.name, None, "its messages is of another type")
    sql = (
        "SELECT count(*) FROM summaries y CROSS JOIN sessions s ON s.row = y.session"
        " WHERE y.status = 'window' AND s.user = ?"
    )
    return count, number, connection.execute(sql, (user,)).fetchone()[0]


def at_position(connection: sqlite3.Connection, position: int) -> MessageRow | None:
    """Return the message whose event is at a position, of any user, or None."""
    row = connection.execute("SELECT * FROM messages WHERE row = ?", (position,)).fetchone()
    return message_of(row) if row else None


def roles(connection: sqlite3.Connection, rows: Collection[int]) -> dict[int, str]:
    """Return the roles of some messages, by row."""
    return dict(rows_among(connection, "SELECT row, role FROM messages WHERE row IN {}", list(rows)))


def places(connection: sqlite3.Connection, interactions: Collection[str]) -> dict[tuple[str, str], int]:
    """Return the positions of the messages that are texts of some interactions, by (interaction, field)."""
    sql = "SELECT interaction, field, row FROM messages WHERE interaction IN {}"
    return {(id, field): row for id, field, row in rows_among(connection, sql, list(interactions))}


class Hidden(Struct, frozen=True):
    """A range of positions that the act at the position ``act`` hid, with the reason ``why``."""

    act: int
    first: int
    last: int
    why: str
    messages: int
    tokens: int


_hidden_range = reader(Hidden, "hidden_messages")


def hides(message: str) -> str:
    """Return the SQL condition that a message is hidden.

    Args:
        message: The name of the table of messages in the query.
    """
    return (
        f"EXISTS (SELECT 1 FROM hidden_messages h WHERE h.session = {message}.session AND h.first <= {message}.row"
        f" AND h.last >= {message}.row)"
    )


def hidden(connection: sqlite3.Connection, row: int) -> list[Hidden]:
    """Return the hidden ranges of a session, in the order of the messages."""
    sql = "SELECT act, first, last, why, messages, tokens FROM hidden_messages WHERE session = ? ORDER BY first, act"
    return [_hidden_range(values) for values in connection.execute(sql, (row,))]


def besides(ranges: Sequence[tuple[int, int]], span: tuple[int, int] = (0, 2**62)) -> list[tuple[int, int]]:
    """Return the parts of a span that are outside of some ranges, as ranges, the last first."""
    outside, (lowest, above) = list[tuple[int, int]](), span
    for first, last in sorted(ranges, key=lambda ends: -ends[1]):
        if last < above:
            outside.append((max(last + 1, lowest), above))
        above = min(above, first - 1)
    return [(first, last) for first, last in (*outside, (lowest, above)) if first <= last]


def backwards(
    connection: sqlite3.Connection,
    row: int,
    without: Sequence[tuple[int, int]] = (),
    *,
    batch: int = 64,
    role: str | None = None,
    pairs: Pairs = NO_PAIRS,
) -> Iterator[MessageRow]:
    """Yield the messages of a session outside of some ranges, the last first, and read only as many as the caller iterates over.

    With ``role`` only messages of this role are yielded, with ``pairs`` only messages with this metadata.
    """
    where = Conditions("session = ?", row)
    where.given("role = ?", role)
    where.has_pairs(pairs)
    sql = f"SELECT * FROM messages WHERE {where} AND row BETWEEN ? AND ? ORDER BY row DESC LIMIT ?"
    for first, last in besides(without):
        below = last
        while rows := connection.execute(sql, (*where.values, first, below, batch)).fetchall():
            yield from map(message_of, rows)
            below, batch = rows[-1][0] - 1, min(batch * 2, 4_096)
            if below < first:
                break


def forwards(
    connection: sqlite3.Connection,
    row: int,
    ranges: Sequence[tuple[int, int]],
    *,
    batch: int = 512,
    pairs: Pairs = NO_PAIRS,
) -> Iterator[MessageRow]:
    """Yield the messages of a session in some ranges with this metadata, oldest first, as many as the caller iterates over."""
    where = Conditions("session = ?", row)
    where.has_pairs(pairs)
    sql = f"SELECT * FROM messages WHERE {where} AND row BETWEEN ? AND ? ORDER BY row LIMIT ?"
    for first, last in sorted(ranges):
        while rows := connection.execute(sql, (*where.values, first, last, batch)).fetchall():
            yield from map(message_of, rows)
            first = rows[-1][0] + 1


def within(connection: sqlite3.Connection, row: int, ranges: Sequence[tuple[int, int]]) -> list[MessageRow]:
    """Return the messages of a session in some ranges, oldest first."""
    return [*forwards(connection, row, ranges)]


def count(connection: sqlite3.Connection, row: int, ranges: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the number of messages of a session in some ranges, and the number of their tokens."""
    sql = "SELECT count(*), coalesce(sum(tokens), 0) FROM messages WHERE session = ? AND row BETWEEN ? AND ?"
    totals = [connection.execute(sql, (row, *span)).fetchone() for span in ranges]
    return sum(number for number, _ in totals), sum(tokens for _, tokens in totals)
