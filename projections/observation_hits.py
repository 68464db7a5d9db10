"""Searching observations by words, as they stand and stood: those of one user, active and fresh, and whose sources hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ledger.domain.observation import Observation
from projections.memories import HOLDS
from projections.observations import OBSERVATIONS, SEARCH, SOURCE, from_row
from projections.text_hits import aside, hits, more, of_rows, size, waiting

Hits = list[tuple[Observation, float]]
READS = ("observations", "memories", "interactions", "documents", "quarantine")  # all but the first: what is live

_SAME = "n.text IS m.text"


class Wanted(Struct, frozen=True):
    """What a search is among: observations of one user, in some projects. Whether their sources are live is asked of what is
    found."""

    user: str
    projects: Sequence[str | None] | None = None

    def condition(self) -> tuple[str, list[str | None]]:
        """As SQL on ``m``, and its values."""
        where, values = ["m.user = ?", "m.status = 'active'", "m.stale = ''"], list[str | None]([self.user])
        if self.projects is not None:
            where.append("(" + " OR ".join(["m.project IS ?"] * len(self.projects)) + ")")
            values.extend(self.projects)
        return " AND ".join(where), values


def parked(connection: sqlite3.Connection) -> tuple[str, ...]:
    """What a search reads and cannot, because it is parked."""
    sql = "SELECT name FROM projections WHERE parked_at IS NOT NULL"
    found = {name for (name,) in connection.execute(sql)}
    return tuple(name for name in READS if name in found)


def none(connection: sqlite3.Connection, schema: str) -> bool:
    """Whether there is nothing to search: the common case, and told without asking the index for anything."""
    late = connection.execute(f"SELECT 1 FROM {schema}.{SEARCH.waiting.name} LIMIT 1").fetchone()
    return late is None and not size(connection, SEARCH, schema)[0]


def matching(connection: sqlite3.Connection, expression: str, wanted: Wanted, *, limit: int, schema: str) -> Hits:
    """The observations wanted that have words of an expression, best first, with BM25 (more is better)."""
    condition, values = wanted.condition()
    best = hits(connection, SOURCE, expression, condition, values, limit, schema=schema, enough=limit)
    found = [(from_row(row), score) for row, score in best]
    late = waiting(connection, SOURCE, expression, schema)
    waited = {row[0]: from_row(row) for row in of_rows(connection, SOURCE, late, condition, values)}
    found += [(waited[row], score) for row, score in late.items() if row in waited]
    return _best(found, limit)


def matching_then(
    connection: sqlite3.Connection, expression: str, wanted: Wanted, position: int, *, limit: int
) -> Hits:
    """``matching`` as of a position, on a connection where views stand before the tables.

    What says today what it said then has today's score; what said something else then, or is gone, is scored aside.
    """
    condition, values = wanted.condition()
    names = ", ".join(f"m.{name}" for name in OBSERVATIONS.names)
    index, versions = "main.observation_search", "main.observation_versions"
    standing = (  # CROSS JOIN: the index first, whatever the planner thinks of it
        f"SELECT {names}, {SOURCE.rank} AS score FROM {index} CROSS JOIN main.observations m"
        f" ON m.row = observation_search.rowid WHERE observation_search MATCH ? AND m.from_position <= ? AND {condition}"
    )
    before = (
        f"SELECT {names}, {SOURCE.rank} AS score FROM {index} CROSS JOIN main.observations n"
        f" ON n.row = observation_search.rowid CROSS JOIN {versions} m ON m.row = n.row AND m.to_position > ?"
        f" AND m.from_position <= ? WHERE observation_search MATCH ? AND {_SAME} AND {condition}"
    )
    found = [*connection.execute(standing, (expression, position, *values))]
    found += connection.execute(before, (position, position, expression, *values))
    late = f"SELECT {names} FROM observations m WHERE m.row IN (SELECT row FROM main.{SEARCH.waiting.name}) AND {condition}"
    changed = (
        f"SELECT {names} FROM {versions} m WHERE m.to_position > ? AND m.from_position <= ? AND {condition}"
        f" AND NOT EXISTS (SELECT 1 FROM main.observations n WHERE n.row = m.row AND {_SAME})"
    )
    others = {row[0]: from_row(row) for row in connection.execute(late, values)}
    others |= {row[0]: from_row(row) for row in connection.execute(changed, (position, position, *values))}
    texts = [(row, (state.text or "").replace("\0", " ")) for row, state in others.items()]
    apart = [(others[row], score) for row, score in aside(SOURCE, texts, expression).items()]
    told = [(from_row(row), more(row[-1])) for row in found if row[0] not in others]
    return _best([*told, *apart], limit)


def _best(found: Hits, limit: int) -> Hits:
    return sorted(found, key=lambda each: (-each[1], each[0].row))[:limit]


def ended(connection: sqlite3.Connection, sources: Iterable[str], time: str) -> set[str]:
    """Which of these sources are memories that do not hold at a time."""
    wanted, found = [each for each in sorted(sources) if each.startswith("m_")], set[str]()
    for start in range(0, len(wanted), 500):
        some = wanted[start : start + 500]
        sql = (
            "SELECT e.stream FROM events e CROSS JOIN memories t ON t.row = e.position"
            f" WHERE e.stream IN ({', '.join('?' * len(some))}) AND e.version = 1 AND NOT ({HOLDS})"
        )
        found.update(source for (source,) in connection.execute(sql, (*some, time, time)))
    return found


def citing(connection: sqlite3.Connection, sources: Iterable[str]) -> set[str]:
    """The ids of the observations that have, or had, one of these sources."""
    wanted, found = sorted(sources), set[str]()
    for start in range(0, len(wanted), 500):
        some = wanted[start : start + 500]
        sql = (
            "SELECT o.id FROM evidence e CROSS JOIN observations o ON o.row = e.observation"
            f" WHERE e.source IN ({', '.join('?' * len(some))})"
        )
        found.update(id for (id,) in connection.execute(sql, some))
    return found
