"""Sessions, their messages, and which of these were hidden. Texts stay in the log, at the position that a row is named by.

A message has its row as long as its append is in effect; that it is hidden, or that a summary stands for it, is told by
ranges of positions, so that an act over many messages writes few rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from ledger.domain import message as messages
from ledger.domain import metadata, session
from ledger.domain.errors import DamagedError
from ledger.domain.events import AnyEvent, ExtractionCursorMoved, MessageAppended, MessageRepaired, MessagesHidden
from ledger.domain.events.base import NOTHING
from ledger.domain.metadata import NO_PAIRS, Pairs
from ledger.domain.session import Session
from ledger.domain.statuses import Visible
from ledger.domain.times import moment
from projections.core.codec import codec, columns, reader
from projections.core.conditions import Conditions
from projections.core.rows import CURRENT, AsOf, Rows, Table, Values, rows_among
from projections.core.subjects import Change, end, ended, family, keep

FAMILY = family(
    "s",
    Session,
    session.evolve,
    session.admits,
    ("sessions", "session_versions"),
    indexes=(("user", ""), ("row", "extractable_at > cursor")),
)
SESSIONS, SESSION_VERSIONS = FAMILY.live, FAMILY.closed
from_row, get = FAMILY.from_row, FAMILY.get
# Up to where a session was ever looked at for what to remember, whether or not that is in effect: what somebody undid is not
# done again by itself.
LOOKED = Table(
    "sessions_checked",
    ("session INTEGER PRIMARY KEY", "upto INTEGER NOT NULL"),
    ("session",),
    then=CURRENT,
)


class Message(Struct, frozen=True):
    """A row of ``messages``: ``row`` is the position of its event."""

    row: int
    session: int
    role: str
    tokens: int
    time: str
    tools: tuple[tuple[str, ...], tuple[str, ...]] | None  # the ids of the calls made and answered
    interaction: str | None
    field: str | None
    repairs: tuple[int, ...]  # the positions of what was added later
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
    columns(Message),
    ("row",),
    (("session, row", ""), ("interaction", "interaction IS NOT NULL")),
    then=AsOf("from_position", closed="messages_were"),
)
MESSAGES_WERE = ended(MESSAGES, "messages_were")
# One row for each range that an act hid; what all of them hid is counted in the first (``part`` 0).
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

_, message_of = codec(Message, MESSAGES)
_TOKENS, _FROM = MESSAGES.names.index("tokens"), MESSAGES.names.index("from_position")
_REPAIRS, _TIME, _METADATA = (MESSAGES.names.index(name) for name in ("repairs", "time", "metadata"))
_numbers = msgspec.json.Decoder(tuple[int, ...])
_NO_PARTS = (b"[]", b"null")


class Sessions:
    name, version, follows = "sessions", 4, frozenset("s")
    tables = (SESSIONS, SESSION_VERSIONS, LOOKED, MESSAGES, MESSAGES_WERE, HIDDEN, HIDDEN_WERE)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            keep(change, rows, FAMILY)
            if change.refold:
                _again(change, rows)
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
                for each in _hidden(event, event.data, counted, event.position):
                    rows.put(HIDDEN, each[:2], each)
            elif isinstance(event.data, ExtractionCursorMoved):
                _look(rows, change.first, event.data)


def _look(rows: Rows, session: int, data: ExtractionCursorMoved) -> None:
    """Who asks to look again ("asked") takes the mark back with the cursor; what was only passed over nobody looked at."""
    if data.why == "skipped":
        return
    known = rows.get(LOOKED, (session,))
    upto = data.to if data.why == "asked" or known is None else max(known[1], data.to)
    rows.put(LOOKED, (session,), (session, upto))


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
    """The row with one more repair; of a time that was missing the row has the new one."""
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


def _again(change: Change, rows: Rows) -> None:
    """What the events in effect say stands from here; what they no longer say ends here."""
    at, appended, hidden, visible = (
        change.event.position,
        dict[int, Values](),
        dict[tuple[int, int], Values](),
        Visible(),
    )
    for event in change.in_effect if change.new is not None else ():
        data = event.data
        if isinstance(data, MessageAppended):
            visible.append(event.position)
            appended[event.position] = (*_appended(event, data)[:_FROM], at)
        elif isinstance(data, MessageRepaired) and data.message in appended:
            appended[data.message] = _repaired(appended[data.message], event)
        elif isinstance(data, MessagesHidden):
            found = visible.hide(data.ranges)
            counted = (len(found), sum(appended[each][_TOKENS] for each in found))
            hidden |= {row[:2]: row for row in _hidden(event, data, counted, at)}
    _place(rows, MESSAGES, MESSAGES_WERE, appended, rows.find(MESSAGES, ("session",), (change.first,)), at)
    _place(rows, HIDDEN, HIDDEN_WERE, hidden, rows.find(HIDDEN, ("session",), (change.first,)), at)


def _place(rows: Rows, live: Table, closed: Table, wanted: dict[Any, Values], found: Sequence[Values], at: int) -> None:
    """Makes these the rows from here on; what stays as it was keeps its row."""
    width = len(live.key)
    left = {key if isinstance(key, tuple) else (key,): row for key, row in wanted.items()}
    for row in found:
        same = left.get(row[:width])
        if same is not None and same[:-1] == row[:-1]:
            del left[row[:width]]
        else:
            end(rows, live, closed, row, at)
    for key, row in left.items():
        rows.put(live, key, row)


# --- reads -----------------------------------------------------------------------------------------------------------


@contextmanager
def listing(
    connection: sqlite3.Connection,
    *,
    user: str,
    projects: Sequence[str | None] | None = None,
    before: int | None = None,
) -> Iterator[Iterator[Session]]:
    """The sessions of a user that were not given up to another, the one opened last first; read as far as asked for."""
    where = Conditions("user = ? AND moved_to IS NULL AND name IS NOT NULL", user)
    where.of_projects(projects)
    where.given("row < ?", before)
    cursor = connection.execute(f"SELECT * FROM sessions WHERE {where} ORDER BY row DESC", where.values)
    with closing(cursor):  # else what failed keeps it, and the connection this moment
        yield map(from_row, cursor)


UNMINED = (
    " FROM sessions s LEFT JOIN sessions_checked l ON l.session = s.row"
    " WHERE s.extractable_at > s.cursor AND s.extractable_at > coalesce(l.upto, 0)"
)


def unmined(connection: sqlite3.Connection, *, after: int) -> list[Session]:
    """The sessions of every user in which something was said that nobody looked at for what to remember, oldest first."""
    names = ", ".join(f"s.{each}" for each in SESSIONS.names)
    sql = f"SELECT {names}{UNMINED} AND s.row > ? ORDER BY s.row LIMIT 100"
    return [from_row(row) for row in connection.execute(sql, (after,))]


def looked_upto(connection: sqlite3.Connection, row: int) -> int:
    """Up to where a session was ever looked at for what to remember, in effect or not."""
    found = connection.execute("SELECT upto FROM sessions_checked WHERE session = ?", (row,)).fetchone()
    return int(found[0]) if found else 0


def counts(connection: sqlite3.Connection, user: str) -> tuple[int, int, int]:
    """How many sessions a user has, messages ever appended to them, and summaries that stand in a window."""
    sql = "SELECT count(*), coalesce(sum(messages), 0) FROM sessions WHERE user = ? AND moved_to IS NULL"
    count, number = connection.execute(sql, (user,)).fetchone()
    if not isinstance(number, int):
        raise DamagedError(SESSIONS.name, None, "its messages is of another type")
    sql = (
        "SELECT count(*) FROM summaries y CROSS JOIN sessions s ON s.row = y.session"
        " WHERE y.status = 'window' AND s.user = ?"
    )
    return count, number, connection.execute(sql, (user,)).fetchone()[0]


def at_position(connection: sqlite3.Connection, position: int) -> Message | None:
    """The message whose event is at a position, whoever's it is."""
    found = connection.execute("SELECT * FROM messages WHERE row = ?", (position,)).fetchone()
    return message_of(found) if found else None


def roles(connection: sqlite3.Connection, rows: Collection[int]) -> dict[int, str]:
    """Who speaks in these messages."""
    return dict(rows_among(connection, "SELECT row, role FROM messages WHERE row IN {}", list(rows)))


def places(connection: sqlite3.Connection, interactions: Collection[str]) -> dict[tuple[str, str], int]:
    """The positions of the messages that have the texts of some interactions, by interaction and field."""
    sql = "SELECT interaction, field, row FROM messages WHERE interaction IN {}"
    return {(id, field): row for id, field, row in rows_among(connection, sql, list(interactions))}


class Hidden(Struct, frozen=True):
    """A range of positions that an act at ``act`` hid, and why."""

    act: int
    first: int
    last: int
    why: str
    messages: int
    tokens: int


_hidden_range = reader(Hidden, "hidden_messages")


def hides(message: str) -> str:
    """A condition: an act hid the message, of a table of messages by its name in the query."""
    return (
        f"EXISTS (SELECT 1 FROM hidden_messages h WHERE h.session = {message}.session AND h.first <= {message}.row"
        f" AND h.last >= {message}.row)"
    )


def hidden(connection: sqlite3.Connection, row: int) -> list[Hidden]:
    """What is hidden of a session, in the order of the messages."""
    sql = "SELECT act, first, last, why, messages, tokens FROM hidden_messages WHERE session = ? ORDER BY first, act"
    return [_hidden_range(each) for each in connection.execute(sql, (row,))]


def besides(ranges: Sequence[tuple[int, int]], span: tuple[int, int] = (0, 2**62)) -> list[tuple[int, int]]:
    """What is left of the positions of a span without these ranges, the last first."""
    found, (lowest, above) = list[tuple[int, int]](), span
    for first, last in sorted(ranges, key=lambda each: -each[1]):
        if last < above:
            found.append((max(last + 1, lowest), above))
        above = min(above, first - 1)
    return [(first, last) for first, last in (*found, (lowest, above)) if first <= last]


def backwards(
    connection: sqlite3.Connection,
    row: int,
    without: Sequence[tuple[int, int]] = (),
    *,
    batch: int = 64,
    role: str | None = None,
    pairs: Pairs = NO_PAIRS,
) -> Iterator[Message]:
    """The messages of a session (of one ``role``, with this metadata) outside of these ranges, the last first; read as far
    as they are asked for."""
    where = Conditions("session = ?", row)
    where.given("role = ?", role)
    where.has_pairs(pairs)
    sql = f"SELECT * FROM messages WHERE {where} AND row BETWEEN ? AND ? ORDER BY row DESC LIMIT ?"
    for first, last in besides(without):
        below = last
        while found := connection.execute(sql, (*where.values, first, below, batch)).fetchall():
            yield from map(message_of, found)
            below, batch = found[-1][0] - 1, min(batch * 2, 4_096)
            if below < first:
                break


def forwards(connection: sqlite3.Connection, row: int, ranges: Sequence[tuple[int, int]]) -> Iterator[Message]:
    """The messages of a session in these ranges, the first first; read as far as they are asked for."""
    sql = "SELECT * FROM messages WHERE session = ? AND row BETWEEN ? AND ? ORDER BY row LIMIT 512"
    for first, last in sorted(ranges):
        while found := connection.execute(sql, (row, first, last)).fetchall():
            yield from map(message_of, found)
            first = found[-1][0] + 1


def within(connection: sqlite3.Connection, row: int, ranges: Sequence[tuple[int, int]]) -> list[Message]:
    """The messages of a session in these ranges, oldest first."""
    return [*forwards(connection, row, ranges)]


def count(connection: sqlite3.Connection, row: int, ranges: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """How many messages of a session lie in these ranges, and their tokens."""
    sql = "SELECT count(*), coalesce(sum(tokens), 0) FROM messages WHERE session = ? AND row BETWEEN ? AND ?"
    found = [connection.execute(sql, (row, *each)).fetchone() for each in ranges]
    return sum(each[0] for each in found), sum(each[1] for each in found)
