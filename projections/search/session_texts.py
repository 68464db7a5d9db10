"""What was said in sessions, as a search goes through it: candidates of the text index newest first, and whole texts.

A candidate is the position of an event. The index gives them in order by itself, so that a search stops where it has enough
however many there are; whose they are is asked of a few at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct, json

from projections.core.codec import reader
from projections.core.rows import checked
from projections.search.passages import FIELD_BITS, NUMBER_BITS, PASSAGE_SEARCH, SEVERAL, TURN, WAITING, place_word
from projections.views.sessions import SESSIONS
from projections.views.summaries import INVALID, UNDER, WINDOW
from projections.views.summaries import Summary as SummaryRow
from projections.views.summaries import summary as summary_of

BITS = FIELD_BITS + NUMBER_BITS
FEWEST, MOST = 64, 1_024  # rows of the index that are asked about together
IN_USE = (WINDOW, UNDER)


class SearchedRow(Struct, frozen=True):
    """What a search has to know of a message."""

    row: int
    session: int
    role: str
    time: str
    tokens: int
    interaction: str | None
    field: str | None


_searched = reader(SearchedRow, "messages")


# --- candidates ------------------------------------------------------------------------------------------------------


def asked(expression: str, session: str | None, corpora: Sequence[str], several: bool | None = None) -> str:
    """The MATCH expression for texts of some corpora in a session (its id; in all: whatever the corpus): with ``several``
    those that lie in several rows, with False those that do not."""
    query = f"{{text}} : ({expression})"
    if session is not None:
        places = " OR ".join(f'"{place_word(session, corpus)}"' for corpus in corpora)
        query = f"(({{place}} : ({places})) AND {query})"
    if several is None:
        return query
    return f'({query}) {"AND" if several else "NOT"} {{place}} : "{SEVERAL}"'


def newest(connection: sqlite3.Connection, schema: str, expression: str, first: int, below: int) -> Iterator[int]:
    """The rows of the index that an expression finds, the newest first, from the position ``first`` on, ``below`` a row."""
    name = PASSAGE_SEARCH.name
    sql = f"SELECT rowid FROM {schema}.{name} WHERE {name} MATCH ? AND rowid >= ? AND rowid < ? ORDER BY rowid DESC"
    for (row,) in connection.execute(sql, (expression, first << BITS, below)):
        yield row


def waiting(connection: sqlite3.Connection, schema: str) -> list[int]:
    """The rows that the index has not taken in yet."""
    return [row for (row,) in connection.execute(f"SELECT row FROM {schema}.{WAITING.name}")]


def every(connection: sqlite3.Connection, session: int | None, first: int, until: int) -> Iterator[int]:
    """The rows that all messages and summaries of a session (all sessions) have or would have, the newest first."""
    one, values = ("", ()) if session is None else (" AND session = ?", (session,))
    some = f"SELECT row FROM {{}} WHERE row < ? AND row >= ?{one} ORDER BY row DESC LIMIT {MOST}"
    parts = (f"SELECT row FROM ({some.format(table)})" for table in ("messages", "summaries"))
    sql, below = f"{' UNION ALL '.join(parts)} ORDER BY row DESC LIMIT {MOST}", min(2**47, until >> BITS)
    while found := connection.execute(sql, (below, first, *values) * 2).fetchall():
        yield from (row << BITS for (row,) in found)
        below = found[-1][0]


def place(row: int, position: int) -> int:
    """Where a search goes on behind a message or summary at a position, found in a row: its texts come from there on."""
    bits = BITS if row >> BITS == position else NUMBER_BITS  # a captured turn has two messages at one position
    return row >> bits << bits


# --- what they are ---------------------------------------------------------------------------------------------------

_MESSAGES = "SELECT row, session, role, time, tokens, interaction, field FROM messages WHERE"


def messages(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, SearchedRow]:
    """The messages whose texts these rows of the index are, by row; those of captured turns by the turn's."""
    found = {each.row: each for each in _messages(connection, "row", {row >> BITS for row in rows})}
    by_row = {row: found[row >> BITS] for row in rows if row >> BITS in found}
    left = [row for row in rows if row not in by_row]
    if not left:
        return by_row
    marks = ", ".join("?" * len(left))
    sql = f"SELECT row, id, field FROM passages WHERE row IN ({marks}) AND corpus = '{TURN}'"
    turns = {row: (id, field) for row, id, field in connection.execute(sql, left)}
    ids = {id for id, _ in turns.values()}
    tied = {(each.interaction, each.field): each for each in _messages(connection, "interaction", ids)}
    return by_row | {row: tied[key] for row, key in turns.items() if key in tied}


def _messages(connection: sqlite3.Connection, column: str, values: Collection[int | str]) -> list[SearchedRow]:
    if not values:
        return []
    marks = ", ".join("?" * len(values))
    return [_searched(row) for row in connection.execute(f"{_MESSAGES} {column} IN ({marks})", tuple(values))]


def summaries(connection: sqlite3.Connection, rows: Sequence[int], *, others: bool) -> dict[int, SummaryRow]:
    """The summaries whose texts these rows are, by row: those in use, with ``others`` also those that were replaced or
    stand for nothing any more."""
    statuses = (*IN_USE, *(("replaced", INVALID) if others else ()))
    positions = {row >> BITS for row in rows}
    if not positions:
        return {}
    lists = ", ".join("?" * len(positions)), ", ".join("?" * len(statuses))
    sql = f"SELECT * FROM summaries WHERE row IN ({lists[0]}) AND status IN ({lists[1]})"
    found = {row[0]: summary_of(row) for row in connection.execute(sql, (*positions, *statuses))}
    return {row: found[row >> BITS] for row in rows if row >> BITS in found}


def text(connection: sqlite3.Connection, position: int) -> str:
    """All that was said at a position: the content and the parts of a message, or a summary. Captured turns lie elsewhere."""
    sql = f"SELECT text, start, until, row >> {NUMBER_BITS} & 1 FROM passages WHERE row >= ? AND row < ? ORDER BY row"
    parts: list[str] = []
    field = end = 0
    for piece, start, until, number in connection.execute(sql, (position << BITS, position + 1 << BITS)):
        if number != field:
            parts, field, end = [*parts, "\n"] if parts else [], number, 0
        parts += [" " * (start - end), piece]  # what is blank has no passage
        end = until
    return "".join(parts)


# --- how many there are ----------------------------------------------------------------------------------------------


def count(connection: sqlite3.Connection, rows: Sequence[int], *, hidden: bool) -> tuple[int, int]:
    """How many messages and how many summaries in use there are in these sessions."""
    found = [0, 0]
    for start in range(0, len(rows), 500):
        some = rows[start : start + 500]
        marks = f"({', '.join('?' * len(some))})"
        sql = f"SELECT coalesce(sum(messages), 0) FROM sessions WHERE row IN {marks}"
        found[0] += connection.execute(sql, some).fetchone()[0]
        if not hidden:
            sql = f"SELECT coalesce(sum(messages), 0) FROM hidden_messages WHERE session IN {marks}"
            found[0] -= connection.execute(sql, some).fetchone()[0]
        sql = f"SELECT count(*) FROM summaries WHERE session IN {marks}"
        in_use = (f"{sql} AND status IN (?, ?)", (*some, *IN_USE))
        found[1] += connection.execute(*((sql, some) if hidden else in_use)).fetchone()[0]
    return found[0], found[1]


def of_user(connection: sqlite3.Connection, user: str) -> dict[int, list[str]]:
    """The sessions of a user by their rows: the names of each, the first it was given first."""
    sql = "SELECT row, name, aliases FROM sessions WHERE user = ? AND name IS NOT NULL"
    found = checked(SESSIONS, ("row", "name", "aliases"), connection.execute(sql, (user,)))
    return {row: [name, *(json.decode(aliases, type=list[str]) if aliases else ())] for row, name, aliases in found}
