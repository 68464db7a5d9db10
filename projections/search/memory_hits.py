"""The text indexes of memories: the words that a search finds, and the stems by which a response is recognised to restate one.

The stems are kept as keyed numbers. Each pool (the memories of a project, or those that count in every project) has its own, so
that a response reads nothing of other users and projects.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b

from msgspec import Struct

from ledger.domain.metadata import NO_PAIRS, Pairs
from ledger.domain.text import keyed_digest
from ledger.english.matching import found_by
from ledger.english.words import indexed
from ledger.events import AnyEvent
from ledger.memories.state import MemoryState
from projections.core.packed import look, waiting
from projections.core.rows import CURRENT, Conditions, ProjectionRows, Scope, Table, TextIndex, Values, packed, parted
from projections.core.subjects import SubjectChange
from projections.search import text_hits
from projections.search.text_hits import source_of
from projections.views.memories import EVERYWHERE, MEMORIES, from_row, pool_condition

WAITING = Table(
    "search_waiting",
    ("row INTEGER PRIMARY KEY", "content TEXT NOT NULL", "words TEXT NOT NULL"),
    ("row",),
    derived=True,
    then=CURRENT,
)


SEARCH = TextIndex("search", ("content", "words"), WAITING, lambda kept: (indexed(kept[0]), indexed(kept[1])))


class MemorySearchProjection:
    name, version, follows, reads = "search", 4, frozenset("m"), ()
    tables = (SEARCH, WAITING)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            if _indexed(change.old) != _indexed(change.new):
                rows.index(SEARCH, change.first, _texts(change.old), _texts(change.new))


def _indexed(state: MemoryState | None) -> Values | None:
    return None if state is None else (state.content, state.entities, state.tags)


def _texts(state: MemoryState | None) -> Values | None:
    if state is None or state.content is None:
        return None
    content = state.content.replace("\0", " ")
    words = " ".join((*state.entities, *state.tags)).replace("\0", " ")
    return (content, words)


# --- reads -----------------------------------------------------------------------------------------------------------


class MemoryScope(Struct, frozen=True):
    """A filter of searched memories: one user, some projects, kinds and statuses, and a time at which they hold.

    Without a time, memories that do not hold are searched too. With ``held`` the memories in quarantine alone are searched.
    """

    user: str
    at: str | None
    projects: Scope = None
    kinds: Sequence[str] = ()
    statuses: Sequence[str] = ("active",)
    metadata: Pairs = NO_PAIRS
    held: bool = False

    def condition(self) -> tuple[str, list[object]]:
        """Return the filter as SQL on ``m``, and its values."""
        # Our own words, spelled out in the SQL so that an index on a status can serve.
        statuses = ", ".join(f"'{status}'" for status in self.statuses)
        where = Conditions("m.user = ?", self.user)
        where.add(f"m.status {f'= {statuses}' if len(self.statuses) == 1 else f'IN ({statuses})'}")
        where.add(f"m.quarantined = {int(self.held)}")
        if self.statuses != ("active",):  # a candidate was believed only if somebody said that it had been true
            where.add(
                "(m.before IS NULL OR m.before <> 'candidate' OR m.status = 'superseded' AND m.valid_from < m.valid_to)"
            )
        if self.at is not None:
            # The plus keeps the index of times out: nearly all memories hold, and SQLite would sort them.
            where.add("+m.valid_from <= ? AND (m.valid_to IS NULL OR m.valid_to > ?)", self.at, self.at)
        where.among("m.kind", self.kinds)
        where.of_projects(self.projects, "m.project")
        where.has_pairs(self.metadata, "m.metadata")
        return str(where), where.values


SOURCE = source_of(SEARCH, "bm25(search, 1.0, 0.5)", MEMORIES)
EARLIER: text_hits.EarlierTexts[MemoryState] = text_hits.EarlierTexts(
    "memory_versions", "n.content IS m.content AND n.entities IS m.entities AND n.tags IS m.tags", _texts
)


def matching(
    connection: sqlite3.Connection, expression: str, wanted: MemoryScope, *, limit: int, schema: str, enough: int
) -> Iterator[tuple[MemoryState, float]]:
    """Yield the wanted memories that match an expression, best first, with BM25 (more is better)."""
    query = (expression, wanted.condition(), from_row)
    return text_hits.matching(connection, SOURCE, *query, limit=limit, schema=schema, enough=enough)


def any_matches(connection: sqlite3.Connection, expression: str, wanted: MemoryScope, *, schema: str) -> bool:
    """Return True if a wanted memory matches an expression."""
    return text_hits.any_matches(connection, SOURCE, expression, *wanted.condition(), schema=schema)


def matching_then(
    connection: sqlite3.Connection, expression: str, wanted: MemoryScope, position: int, *, limit: int
) -> Iterator[tuple[MemoryState, float]]:
    """Yield the memories that ``matching`` would have found at a position, on a connection whose views hide the tables."""
    query = (expression, wanted.condition(), from_row, position, EARLIER)
    return text_hits.matching_then(connection, SOURCE, *query, limit=limit)


def count(connection: sqlite3.Connection, wanted: MemoryScope) -> int:
    """Return the number of memories that a search goes through."""
    condition, values = wanted.condition()
    return int(connection.execute(f"SELECT count(*) FROM memories m WHERE {condition}", values).fetchone()[0])


# The memories that the events after a position made or changed.
_TOUCHED = (
    "SELECT f.position FROM main.events e CROSS JOIN main.events f ON f.stream = e.stream AND f.version = 1"
    " WHERE e.position > ? AND +e.stream >= 'm_' AND +e.stream < 'm`'"  # "+": by the positions, of which there are few
)


def count_since(connection: sqlite3.Connection, wanted: MemoryScope, position: int) -> int:
    """Return the growth of ``count`` since a position, if no event since acted on other subjects' memories."""
    condition, values = wanted.condition()
    now = f"SELECT count(*) FROM memories m NOT INDEXED WHERE m.row IN ({_TOUCHED}) AND {condition}"
    then = (
        f"SELECT count(*) FROM memory_versions m WHERE m.row IN ({_TOUCHED}) AND m.from_position <= ? AND m.to_position > ?"
        f" AND {condition}"
    )
    (more,) = connection.execute(now, (position, *values)).fetchone()
    (fewer,) = connection.execute(then, (position, position, position, *values)).fetchone()
    return int(more) - int(fewer)


def having(
    connection: sqlite3.Connection, expression: str, user: str, projects: Sequence[str | None], *, limit: int
) -> Iterator[MemoryState]:
    """Yield the memories of a user in some projects, of any status, whose content has one of some words.

    The newest of the indexed memories are searched, and all that wait for the index.
    """
    scope = " OR ".join(["m.project IS ?"] * len(projects))
    where, values = f"m.user = ? AND ({scope}) AND m.content IS NOT NULL", (user, *projects)
    seen: set[int] = set()
    late = f"SELECT m.* FROM search_waiting w CROSS JOIN memories m ON m.row = w.row WHERE {where}"
    for row in connection.execute(late, values).fetchall():
        seen.add(row[0])
        yield from_row(row)
    sql = (
        f"SELECT m.* FROM search CROSS JOIN memories m ON m.row = search.rowid WHERE search MATCH ? AND {where}"
        " ORDER BY search.rowid DESC LIMIT ?"
    )
    for row in connection.execute(sql, (f"content : ({expression})", *values, limit)).fetchall():
        if row[0] not in seen:
            yield from_row(row)


# --- memories that a response can restate ----------------------------------------------------------------------------


RESTATABLE = packed("restatable")


class Restatable:
    name, version, follows, reads = "restatable", 5, frozenset("m"), ()
    tables = (RESTATABLE, RESTATABLE.waiting)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            old, new = _restated(change.old), _restated(change.new)
            if old != new:
                rows.index(RESTATABLE, change.first, self._kept(old), self._kept(new))

    def _kept(self, restated: tuple[str, str, str] | None) -> Values | None:
        """Return the row of a memory: its pool, the number of stems that are enough, and its stems."""
        if restated is None:
            return None
        user, pool, content = restated
        key, (least, stems) = _key(self._secret, user, pool), found_by(content)
        return waiting(_number(key, ""), least, [_number(key, stem) for stem in stems])


def _restated(state: MemoryState | None) -> tuple[str, str, str] | None:
    """Return (user, pool, text) of a memory that a response can restate, or None. A project is its own pool."""
    if state is None or state.status != "active" or state.quarantined or state.user is None or state.content is None:
        return None
    if state.project is not None:
        return state.user, state.project, state.content
    return (state.user, "", state.content) if state.kind in EVERYWHERE else None


@lru_cache(maxsize=1024)
def _key(secret: bytes, user: str, pool: str) -> bytes:
    return keyed_digest(secret, f"restatable {len(user)}:{user}{pool}".encode())


@lru_cache(maxsize=16_384)
def _number(key: bytes, stem: str) -> int:
    """Return 40 bits for a stem; "" stands for the pool itself."""
    return int.from_bytes(blake2b(stem.encode(errors="surrogatepass"), digest_size=5, key=key).digest(), "little")


# --- reads -----------------------------------------------------------------------------------------------------------


def candidates(
    connection: sqlite3.Connection, secret: bytes, user: str, projects: Sequence[str | None], stems: Iterable[str]
) -> tuple[int, list[tuple[int, str]]]:
    """Return the size of a pool, and (row, text) of each of its memories that a text with these stems can restate."""
    keys = [_key(secret, user, pool) for pool in {"", *(project for project in projects if project is not None)}]
    wanted_stems = list(stems)
    groups, numbers = [_number(key, "") for key in keys], [_number(key, stem) for key in keys for stem in wanted_stems]
    size, rows = look(connection, RESTATABLE, groups, numbers)
    return size, list(_contents(connection, sorted(rows), *pool_condition(projects), user))


def _contents(
    connection: sqlite3.Connection, rows: Sequence[int], where: str, values: Values, user: str
) -> Iterator[tuple[int, str]]:
    for batch in parted(rows):
        marks = ", ".join("?" * len(batch))
        sql = f"SELECT m.row, m.content FROM memories m NOT INDEXED WHERE m.row IN ({marks}) AND {where}"
        yield from connection.execute(sql, (*batch, user, *values))
