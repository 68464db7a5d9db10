"""The text index over memories: for recall by words, and for finding which memories a response can restate."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from ledger.domain.events import AnyEvent
from ledger.domain.matching import prefix_stems
from ledger.domain.memory import Memory
from ledger.domain.text import fts_query
from projections.memories import from_row, pool_condition
from projections.rows import Rows, Table, TextIndex, Values
from projections.sqlite import create
from projections.subjects import Change

# content and words are searched by people; stems holds the rarest stems of the content, one of which every text that
# restates the memory must have (a prefix filter), so that matching needs no walk over the pool
WAITING = Table(
    "search_waiting",
    ("row INTEGER PRIMARY KEY", "content TEXT NOT NULL", "words TEXT NOT NULL"),
    ("row",),
    derived=True,
)


def _with_stems(kept: Values) -> Values:
    content, words = kept
    return (content, words, " ".join(prefix_stems(content)))


SEARCH = TextIndex("search", ("content", "words", "stems"), WAITING, _with_stems)


class Search:
    name, version, follows = "search", 1, frozenset("m")
    tables = (SEARCH, WAITING)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            if _said(change.old) != _said(change.new):
                rows.index(SEARCH, change.first, _texts(change.old), _texts(change.new))


def _said(state: Memory | None) -> Values | None:
    return None if state is None else (state.content, state.entities, state.tags)


def _texts(state: Memory | None) -> Values | None:
    if state is None or state.content is None:
        return None
    content = state.content.replace("\0", " ")
    words = " ".join((*state.entities, *state.tags)).replace("\0", " ")
    return (content, words)


# --- reads -----------------------------------------------------------------------------------------------------------


def matching(
    connection: sqlite3.Connection,
    query: str,
    *,
    user: str,
    projects: Sequence[str | None] | None,
    kinds: Sequence[str],
    limit: int,
    now: str,
) -> list[tuple[Memory, float]]:
    """Active, currently valid memories of one user that have words of the query, best first, with BM25 (more is better)."""
    match = fts_query(query)
    if match is None:
        return []
    where = ["m.user = ?", "m.status = 'active'", "m.quarantined = 0", "m.valid_from <= ?"]
    where.append("(m.valid_to IS NULL OR m.valid_to > ?)")
    values: list[str | None] = [user, now, now]
    if kinds:
        where.append(f"m.kind IN ({', '.join('?' * len(kinds))})")
        values.extend(kinds)
    if projects is not None:
        where.append("(" + " OR ".join(["m.project IS ?"] * len(projects)) + ")")
        values.extend(projects)
    condition, words = " AND ".join(where), f"{{content words}} : ({match})"
    sql = (
        f"SELECT m.*, {_RANK} AS score FROM search CROSS JOIN memories m ON m.row = search.rowid"
        f" WHERE search MATCH ? AND {condition} ORDER BY score, m.row LIMIT ?"
    )
    found = [(from_row(row), -row[-1]) for row in connection.execute(sql, (words, *values, limit))]
    late = _waiting_hits(connection, words)
    for row, score in late.items():
        kept = connection.execute(
            f"SELECT m.* FROM memories m WHERE m.row = ? AND {condition}", (row, *values)
        ).fetchone()
        found += [(from_row(kept), score)] if kept is not None else []
    return sorted(found, key=lambda each: (-each[1], each[0].row))[:limit] if late else found


_RANK = "bm25(search, 1.0, 0.5, 0.0)"


def _waiting_hits(connection: sqlite3.Connection, words: str) -> dict[int, float]:
    """Scores of the texts that are not in the index yet, from a small index of their own: near what they will be."""
    rows = connection.execute("SELECT * FROM search_waiting").fetchall()
    if not rows:
        return {}
    aside = sqlite3.connect(":memory:")
    try:
        create(aside, SEARCH)
        aside.executemany("INSERT INTO search (rowid, content, words) VALUES (?, ?, ?)", rows)
        found = aside.execute(f"SELECT rowid, {_RANK} FROM search WHERE search MATCH ?", (words,))
        return {row: -score for row, score in found}
    finally:
        aside.close()


def restatable(
    connection: sqlite3.Connection, stems: Iterable[str], user: str, project: str | None
) -> Iterator[Memory]:
    """The memories of the pool that a text with these stems can restate: a superset of those it does."""
    where, values = pool_condition(project)
    sql = f"SELECT m.* FROM search CROSS JOIN memories m ON m.row = search.rowid WHERE search MATCH ? AND {where}"
    seen: set[int] = set()
    late = f"SELECT m.* FROM search_waiting w CROSS JOIN memories m ON m.row = w.row WHERE {where}"
    for row in connection.execute(late, (user, *values)):
        seen.add(row[0])
        yield from_row(row)
    wanted = sorted(stems)
    for start in range(0, len(wanted), 200):  # FTS5 limits how deep an expression may nest
        match = "stems : (" + " OR ".join(f'"{stem}"' for stem in wanted[start : start + 200]) + ")"
        for row in connection.execute(sql, (match, user, *values)):
            if row[0] not in seen:
                seen.add(row[0])
                yield from_row(row)
