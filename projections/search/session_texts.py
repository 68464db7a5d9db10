"""The texts of sessions for a search: candidates of the text index, in order, and whole texts.

A candidate is the position of an event. The index gives the candidates in order, so that a search stops as soon as it has
enough. The owners are looked up for a few candidates at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct, json

from projections.core.rows import Start, checked, reader
from projections.search.passages import (
    FIELD_BITS,
    MESSAGE,
    NUMBER_BITS,
    PASSAGE_SEARCH,
    SEVERAL,
    SOURCE,
    TURN,
    WAITING,
    place_word,
)
from projections.search.text_hits import aside, more
from projections.views.sessions import SESSIONS
from projections.views.summaries import INVALID, UNDER, WINDOW
from projections.views.summaries import SummaryRow as SummaryRow
from projections.views.summaries import summary as summary_of

BITS = FIELD_BITS + NUMBER_BITS
FEWEST, MOST = 64, 1_024  # rows of the index that are looked up together
IN_USE = (WINDOW, UNDER)


class SearchedRow(Struct, frozen=True):
    """The columns of a message that a search needs."""

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
    """Return the MATCH expression for texts of some corpora in a session; with no session, of all corpora everywhere.

    ``several`` restricts the texts to those with several rows, or with False to those with one.
    """
    query = f"{{text}} : ({expression})"
    if session is not None:
        places = " OR ".join(f'"{place_word(session, corpus)}"' for corpus in corpora)
        query = f"(({{place}} : ({places})) AND {query})"
    if several is None:
        return query
    return f'({query}) {"AND" if several else "NOT"} {{place}} : "{SEVERAL}"'


def ordered(connection: sqlite3.Connection, schema: str, expression: str, first: int, start: Start) -> Iterator[int]:
    """Yield the matching rows of the index from ``start`` on, none before the position ``first``."""
    name = PASSAGE_SEARCH.name
    sql = (
        f"SELECT rowid FROM {schema}.{name} WHERE {name} MATCH ? AND rowid >= ? AND rowid {start.behind} ?"
        f" ORDER BY rowid {start.order}"
    )
    for (row,) in connection.execute(sql, (expression, first << BITS, start.bound)):
        yield row


def scores(connection: sqlite3.Connection, schema: str, expression: str) -> dict[int, float]:
    """Return the best BM25 (more is better) of the matching texts of the index, by the part of their row before the passage."""
    name, best = PASSAGE_SEARCH.name, dict[int, float]()
    sql = f"SELECT rowid, {SOURCE.rank} FROM {schema}.{name} WHERE {name} MATCH ?"
    for row, score in connection.execute(sql, (expression,)):
        part = row >> NUMBER_BITS
        best[part] = max(more(score), best.get(part, 0.0))
    return best


def scores_aside(texts: Mapping[int, str], expression: str) -> dict[int, float]:
    """Return the BM25 of texts that are not in the index, by their keys."""
    return aside(SOURCE, [(key, text, "", "") for key, text in texts.items()], expression)


def parts(place: int, position: int) -> tuple[int, ...]:
    """Return the keys of ``scores`` for the text of a message or summary at a position, found at a place."""
    part = place >> NUMBER_BITS
    return (position << FIELD_BITS, position << FIELD_BITS | 1) if place >> BITS == position else (part,)


def waiting(connection: sqlite3.Connection, schema: str) -> list[int]:
    """Return the rows that wait for the index."""
    return [row for (row,) in connection.execute(f"SELECT row FROM {schema}.{WAITING.name}")]


def scanned(
    connection: sqlite3.Connection, user: str, only: tuple[str, int] | None, first: int, start: Start
) -> Iterator[tuple[int, str, int]]:
    """Yield the passages of all messages and summaries of a session (its id and row) or of a user, from ``start`` on.

    Each is a row, its text, and the number of passages of the whole text. A summary has no text here, and more than one passage.
    """
    said = ("+user = ?", (user,)) if only is None else ("session = ?", (only[0],))
    # The plus keeps SQLite from an index of users, whose rows it would sort for every batch.
    summed = ("", ()) if only is None else (" AND session = ?", (only[1],))
    sql = (
        f"SELECT row, text, pieces FROM passages WHERE {said[0]} AND corpus IN ('{MESSAGE}', '{TURN}')"
        f" AND row {start.behind} ? AND (row >= ? OR corpus = '{TURN}')"
        f" UNION ALL SELECT row << {BITS}, '', 2 FROM summaries WHERE row << {BITS} {start.behind} ?{summed[0]}"
        f" ORDER BY row {start.order} LIMIT {MOST}"
    )
    while True:
        values = (*said[1], start.bound, first << BITS, start.bound, *summed[1])
        batch = connection.execute(sql, values).fetchall()
        yield from batch
        if len(batch) < MOST:
            return
        start = start.after(batch[-1][0])


def place(row: int, position: int, *, oldest_first: bool = False) -> int:
    """Return the row from which a search goes on behind a message or summary at a position."""
    bits = BITS if row >> BITS == position else NUMBER_BITS  # a captured turn has two messages at one position
    return row >> bits << bits | (oldest_first and (1 << bits) - 1)


# --- messages and summaries by their rows ----------------------------------------------------------------------------

_MESSAGES = "SELECT row, session, role, time, tokens, interaction, field FROM messages WHERE"


def messages(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, SearchedRow]:
    """Return the messages with the texts of some rows, by row. Messages of captured turns are found by the turn's rows."""
    by_position = {message.row: message for message in _messages(connection, "row", {row >> BITS for row in rows})}
    by_row = {row: by_position[row >> BITS] for row in rows if row >> BITS in by_position}
    left = [row for row in rows if row not in by_row]
    if not left:
        return by_row
    marks = ", ".join("?" * len(left))
    sql = f"SELECT row, id, field FROM passages WHERE row IN ({marks}) AND corpus = '{TURN}'"
    turns = {row: (id, field) for row, id, field in connection.execute(sql, left)}
    ids = {id for id, _ in turns.values()}
    tied = {(message.interaction, message.field): message for message in _messages(connection, "interaction", ids)}
    return by_row | {row: tied[key] for row, key in turns.items() if key in tied}


def _messages(connection: sqlite3.Connection, column: str, values: Collection[int | str]) -> list[SearchedRow]:
    if not values:
        return []
    marks = ", ".join("?" * len(values))
    return [_searched(row) for row in connection.execute(f"{_MESSAGES} {column} IN ({marks})", tuple(values))]


def summaries(connection: sqlite3.Connection, rows: Sequence[int], *, others: bool) -> dict[int, SummaryRow]:
    """Return the summaries with the texts of some rows, by row: those in use, with ``others`` also replaced and invalid ones."""
    statuses = (*IN_USE, *(("replaced", INVALID) if others else ()))
    positions = {row >> BITS for row in rows}
    if not positions:
        return {}
    lists = ", ".join("?" * len(positions)), ", ".join("?" * len(statuses))
    sql = f"SELECT * FROM summaries WHERE row IN ({lists[0]}) AND status IN ({lists[1]})"
    by_position = {row[0]: summary_of(row) for row in connection.execute(sql, (*positions, *statuses))}
    return {row: by_position[row >> BITS] for row in rows if row >> BITS in by_position}


def text(connection: sqlite3.Connection, position: int) -> str:
    """Return the whole text at a position: the content and parts of a message, or a summary, but no captured turn."""
    sql = f"SELECT text, start, until, row >> {NUMBER_BITS} & 1 FROM passages WHERE row >= ? AND row < ? ORDER BY row"
    parts: list[str] = []
    field = end = 0
    for piece, start, until, number in connection.execute(sql, (position << BITS, position + 1 << BITS)):
        if number != field:
            parts, field, end = [*parts, "\n"] if parts else [], number, 0
        parts += [" " * (start - end), piece]  # blank stretches have no passage
        end = until
    return "".join(parts)


# --- numbers ---------------------------------------------------------------------------------------------------------


def count(connection: sqlite3.Connection, rows: Sequence[int], *, hidden: bool) -> tuple[int, int]:
    """Return the number of messages and the number of summaries in use in some sessions."""
    numbers = [0, 0]
    for start in range(0, len(rows), 500):
        batch = rows[start : start + 500]
        marks = f"({', '.join('?' * len(batch))})"
        sql = f"SELECT coalesce(sum(messages), 0) FROM sessions WHERE row IN {marks}"
        numbers[0] += connection.execute(sql, batch).fetchone()[0]
        if not hidden:
            sql = f"SELECT coalesce(sum(messages), 0) FROM hidden_messages WHERE session IN {marks}"
            numbers[0] -= connection.execute(sql, batch).fetchone()[0]
        sql = f"SELECT count(*) FROM summaries WHERE session IN {marks}"
        in_use = (f"{sql} AND status IN (?, ?)", (*batch, *IN_USE))
        numbers[1] += connection.execute(*((sql, batch) if hidden else in_use)).fetchone()[0]
    return numbers[0], numbers[1]


def of_user(connection: sqlite3.Connection, user: str) -> dict[int, list[str]]:
    """Return the sessions of a user by their rows: the names of each, the first given first."""
    sql = "SELECT row, name, aliases FROM sessions WHERE user = ? AND name IS NOT NULL"
    rows = checked(SESSIONS, ("row", "name", "aliases"), connection.execute(sql, (user,)))
    return {row: [name, *(json.decode(aliases, type=list[str]) if aliases else ())] for row, name, aliases in rows}
