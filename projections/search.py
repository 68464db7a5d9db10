"""The text index over memories: for recall by words, and for finding which memories a response can restate."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ledger.domain.events import AnyEvent
from ledger.domain.matching import prefix_stems
from ledger.domain.memory import Memory
from ledger.domain.text import fts_query
from projections.memories import MEMORIES, from_row, pool_condition
from projections.rows import CURRENT, Rows, Table, TextIndex, Values
from projections.sqlite import create
from projections.subjects import Change

# content and words are searched by people; stems holds the rarest stems of the content, one of which every text that
# restates the memory must have (a prefix filter), so that matching needs no walk over the pool
WAITING = Table(
    "search_waiting",
    ("row INTEGER PRIMARY KEY", "content TEXT NOT NULL", "words TEXT NOT NULL"),
    ("row",),
    derived=True,
    then=CURRENT,
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


class Wanted(Struct, frozen=True):
    """What a search is among: memories of one user that hold at a time, in some projects, of some kinds and statuses."""

    user: str
    at: str
    projects: Sequence[str | None] | None = None
    kinds: Sequence[str] = ()
    statuses: Sequence[str] = ("active",)

    def condition(self) -> tuple[str, list[str | None]]:
        """As SQL on ``m``, and its values."""
        where = ["m.user = ?", f"m.status IN ({', '.join('?' * len(self.statuses))})", "m.quarantined = 0"]
        where += ["m.valid_from <= ?", "(m.valid_to IS NULL OR m.valid_to > ?)"]
        values: list[str | None] = [self.user, *self.statuses, self.at, self.at]
        if self.kinds:
            where.append(f"m.kind IN ({', '.join('?' * len(self.kinds))})")
            values.extend(self.kinds)
        if self.projects is not None:
            where.append("(" + " OR ".join(["m.project IS ?"] * len(self.projects)) + ")")
            values.extend(self.projects)
        return " AND ".join(where), values


def _among_words(query: str) -> str | None:
    match = fts_query(query)
    return None if match is None else f"{{content words}} : ({match})"


def matching(connection: sqlite3.Connection, query: str, wanted: Wanted, *, limit: int) -> list[tuple[Memory, float]]:
    """The memories wanted that have words of the query, best first, with BM25 (more is better)."""
    words = _among_words(query)
    if words is None:
        return []
    condition, values = wanted.condition()
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
    return _scored_aside(connection.execute("SELECT * FROM search_waiting").fetchall(), words)


def _scored_aside(rows: Sequence[Values], words: str) -> dict[int, float]:
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


def matching_then(
    connection: sqlite3.Connection, query: str, wanted: Wanted, position: int, *, limit: int
) -> list[tuple[Memory, float]]:
    """``matching`` among the memories as they stood at a position, on a connection where views stand before the tables.

    The index knows the texts of today. Where a memory says today what it said then, its score is today's; the texts that
    were others then, and those that are not in the index, are scored aside.
    """
    words = _among_words(query)
    if words is None:
        return []
    condition, values = wanted.condition()
    names = ", ".join(f"m.{name}" for name in MEMORIES.names)
    indexed = (  # CROSS JOIN: the index first, whatever the planner thinks of it
        f"SELECT {names}, {_RANK} AS score FROM main.search CROSS JOIN main.memories m ON m.row = search.rowid"
        f" WHERE search MATCH ? AND m.from_position <= ? AND {condition}"
    )
    before = (
        f"SELECT {names}, {_RANK} AS score FROM main.search CROSS JOIN main.memories n ON n.row = search.rowid"
        " CROSS JOIN main.memory_versions m ON m.row = n.row AND m.to_position > ? AND m.from_position <= ?"
        f" WHERE search MATCH ? AND {_SAME} AND {condition}"
    )
    found = [*connection.execute(indexed, (words, position, *values))]
    found += connection.execute(before, (position, position, words, *values))
    waiting = f"SELECT {names} FROM memories m WHERE m.row IN (SELECT row FROM main.search_waiting) AND {condition}"
    standing = (
        "SELECT rowid FROM main.memory_versions WHERE to_position > ? AND from_position <= ?"  # by an index alone
    )
    changed = (
        f"SELECT {names} FROM main.memory_versions m WHERE m.rowid IN ({standing}) AND {condition}"
        f" AND NOT EXISTS (SELECT 1 FROM main.memories n WHERE n.row = m.row AND {_SAME})"
    )
    aside = (*connection.execute(waiting, values), *connection.execute(changed, (position, position, *values)))
    others = {row[0]: from_row(row) for row in aside}
    texts = [(row, *said) for row, state in others.items() if (said := _texts(state)) is not None]
    hits = [(-score, row) for row, score in _scored_aside(texts, words).items()]
    hits += [(row[-1], row[0]) for row in found]
    told = {row[0]: row for row in found}
    return [(others.get(row) or from_row(told[row]), -score) for score, row in sorted(hits)[:limit]]


_SAME = "n.content IS m.content AND n.entities IS m.entities AND n.tags IS m.tags"


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
