"""The search for observations by words, now and at a moment: active and fresh ones of one user with live sources."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from msgspec import Struct

from ledger.observations.rules import ObservationState
from projections.core.rows import Conditions, Scope, rows_among
from projections.search import text_hits
from projections.search.text_hits import size
from projections.views.memories import HOLDS
from projections.views.observations import SEARCH, SOURCE, from_row

Hits = list[tuple[ObservationState, float]]
READS = ("observations", "memories", "interactions", "documents", "quarantine")  # all but the first tell what is live


class ObservationScope(Struct, frozen=True):
    """A filter of searched observations: one user, and some projects. The sources are checked only for the hits."""

    user: str
    projects: Scope = None

    def condition(self) -> tuple[str, list[object]]:
        """Return the filter as SQL on ``m``, and its values."""
        where = Conditions("m.user = ? AND m.status = 'active' AND m.stale = ''", self.user)
        where.of_projects(self.projects, "m.project")
        return str(where), where.values


def suspended(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the projections that a search needs and that are suspended."""
    sql = "SELECT name FROM projections WHERE suspended_at IS NOT NULL"
    names = {name for (name,) in connection.execute(sql)}
    return tuple(name for name in READS if name in names)


def none(connection: sqlite3.Connection, schema: str) -> bool:
    """Return True if there is nothing to search, the common case. The answer needs no query to the index."""
    late = connection.execute(f"SELECT 1 FROM {schema}.{SEARCH.waiting.name} LIMIT 1").fetchone()
    return late is None and not size(connection, SEARCH, schema)[0]


def matching(
    connection: sqlite3.Connection, expression: str, wanted: ObservationScope, *, limit: int, schema: str
) -> Hits:
    """Return the wanted observations that match an expression, best first, with BM25 (more is better)."""
    query = (expression, wanted.condition(), from_row)
    return list(text_hits.matching(connection, SOURCE, *query, limit=limit, schema=schema, enough=limit))


def matching_then(
    connection: sqlite3.Connection, expression: str, wanted: ObservationScope, position: int, *, limit: int
) -> Hits:
    """Return the observations that ``matching`` would have found at a position, on a connection whose views hide the tables."""
    query = (expression, wanted.condition(), from_row, position, EARLIER)
    return list(text_hits.matching_then(connection, SOURCE, *query, limit=limit))


def _texts(state: ObservationState) -> tuple[str]:
    return ((state.text or "").replace("\0", " "),)


EARLIER = text_hits.EarlierTexts("observation_versions", "n.text IS m.text", _texts)


def ended(connection: sqlite3.Connection, sources: Iterable[str], time: str) -> set[str]:
    """Return the sources that are memories which do not hold at a time."""
    memories = [source for source in sorted(sources) if source.startswith("m_")]
    sql = (
        "SELECT e.stream FROM events e CROSS JOIN memories t ON t.row = e.position"
        f" WHERE e.stream IN {{}} AND e.version = 1 AND NOT ({HOLDS})"
    )
    return {source for (source,) in rows_among(connection, sql, memories, time, time)}


def citing(connection: sqlite3.Connection, sources: Iterable[str]) -> set[str]:
    """Return the ids of the observations that have, or had, one of these sources."""
    sql = "SELECT o.id FROM evidence e CROSS JOIN observations o ON o.row = e.observation WHERE e.source IN {}"
    return {id for (id,) in rows_among(connection, sql, sorted(sources))}
