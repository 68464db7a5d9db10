"""The tables of memories and of their earlier versions, with the reads of listings, the review queue and supersessions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ledger.domain.metadata import NO_PAIRS, Pairs
from ledger.domain.text import normalise
from ledger.events import AnyEvent
from ledger.memories import rules as memory
from ledger.memories.state import STATUSES, MemoryState, evolve, since
from projections.core.rows import NEWEST, Conditions, ProjectionRows, Scope, Start, Values, by_status, rows_among
from projections.core.subjects import SubjectChange, family, keep

FAMILY = family(
    "m",
    MemoryState,
    evolve,
    memory.admits,
    ("memories", "memory_versions"),
    indexes=(
        ("user, project, row, kind", "status = 'active' AND quarantined = 0"),
        ("user, kind, row", "status = 'active' AND quarantined = 0"),  # for the newest of a kind
        ("user", "status = 'candidate'"),
        ("user", "status = 'active' AND admission <> ''"),  # for memories that no person admitted
        ("user, project, from_position", ""),  # for the memories that changed since the last consolidation
        ("user", ""),  # for a page of a listing without sorting
        ("user, valid_from", ""),  # for a page of a listing by time
        ("superseded_by", "superseded_by IS NOT NULL"),
        ("supersedes", "supersedes IS NOT NULL"),
    ),
    among=(("status", STATUSES),),
)
MEMORIES, VERSIONS = FAMILY.live, FAMILY.closed
from_row, get = FAMILY.from_row, FAMILY.get


class MemoriesProjection:
    name, version, follows, reads = "memories", 15, frozenset("m"), ()
    tables = (MEMORIES, VERSIONS)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            keep(change, rows, FAMILY)


# --- reads -----------------------------------------------------------------------------------------------------------


def superseded_by(connection: sqlite3.Connection, memory: str) -> list[str]:
    """Return the ids of the memories that this memory superseded."""
    return [id for (id,) in connection.execute("SELECT id FROM memories WHERE superseded_by = ?", (memory,))]


_OF_ID = "line CROSS JOIN events e ON e.stream = line.id AND e.version = 1 CROSS JOIN memories m ON m.row = e.position"
ACTIVE_BELOW = (  # the log has the index of ids
    "WITH RECURSIVE line(id) AS (SELECT value FROM json_each(?)"
    f" UNION SELECT m.superseded_by FROM {_OF_ID} WHERE m.superseded_by IS NOT NULL"
    " UNION SELECT m.id FROM line CROSS JOIN memories m ON m.supersedes = line.id)"
    f" SELECT m.id FROM {_OF_ID} WHERE m.status = 'active' ORDER BY m.row"
)


def active_below(connection: sqlite3.Connection, replaced: Sequence[str]) -> list[str]:
    """Return the active memories that took the place of memories, at once or through other versions, oldest first."""
    return [id for (id,) in connection.execute(ACTIVE_BELOW, (json.dumps(replaced),))]


def get_at(connection: sqlite3.Connection, row: int, position: int) -> MemoryState | None:
    """Return the state of a memory at a position, or None."""
    current = get(connection, row)
    if current is not None and current.position <= position:
        return current
    sql = "SELECT * FROM memory_versions WHERE row = ? AND to_position > ? AND from_position <= ?"
    values = connection.execute(sql, (row, position, position)).fetchone()
    return from_row(values) if values else None


class MemoryFilter(Struct, frozen=True, kw_only=True):
    """A filter of the current memories of one user.

    Attributes:
        user: The user.
        statuses: The statuses; empty for all.
        kinds: The kinds; empty for all.
        projects: The projects, among which None means memories without a project; None for all.
        tags: Tags that the memories must have.
        metadata: Pairs of metadata that the memories must have.
        min_confidence: The least confidence, in millionths.
        valid: A time at which the memories must be true in the world; quarantined memories are then left out.
        admitted: True for only the memories that the admission table admitted and no person confirmed.
        since: The earliest beginning of validity, inclusive.
        until: The latest beginning of validity, exclusive.
    """

    user: str
    statuses: Sequence[str] = ()
    kinds: Sequence[str] = ()
    projects: Scope = None
    tags: Sequence[str] = ()
    metadata: Pairs = NO_PAIRS
    min_confidence: int = 0
    valid: str | None = None
    admitted: bool = False
    since: str | None = None
    until: str | None = None


def listing(
    connection: sqlite3.Connection,
    filters: MemoryFilter,
    *,
    limit: int,
    start: Start = NEWEST,
    by_time: bool = False,
) -> list[MemoryState]:
    """Return at most ``limit`` memories, from ``start`` on."""
    where = Conditions("user = ?", filters.user)
    if filters.valid is not None:
        where.add(f"quarantined = 0 AND {HOLDS}", filters.valid, filters.valid)
    where.among("status", filters.statuses)
    where.among("kind", filters.kinds)
    where.of_projects(filters.projects)
    where.has_tags(filters.tags)
    where.has_pairs(filters.metadata)
    where.given("confidence >= ?", filters.min_confidence or None)
    if filters.admitted:
        where.add("admission <> ''")
    where.given("valid_from >= ?", filters.since)
    where.given("valid_from < ?", filters.until)
    return FAMILY.listed(connection, where, limit, start, time="valid_from" if by_time else "")


def newest(
    connection: sqlite3.Connection, condition: str, values: Sequence[object], kinds: Sequence[str], limit: int
) -> list[MemoryState]:
    """Return the newest memories of some kinds that meet a condition, which calls the table ``m``; each kind uses the index."""
    sql = f"SELECT m.* FROM memories m WHERE {condition} AND m.kind = ? ORDER BY m.row DESC LIMIT ?"
    rows = [row for kind in kinds for row in connection.execute(sql, (*values, kind, limit))]
    return sorted(map(from_row, rows), key=since, reverse=True)[:limit]


def of_session(
    connection: sqlite3.Connection, condition: str, values: Sequence[object], session: str, limit: int
) -> list[MemoryState]:
    """Return the newest memories that cite a session or a captured turn of it and meet a condition on ``m``."""
    sql = (
        "SELECT m.* FROM memories m WHERE m.row IN (SELECT memory FROM dependents WHERE source = ? UNION ALL SELECT d.memory"
        " FROM interactions i CROSS JOIN dependents d ON d.source = i.id WHERE i.session = ?)"
        f" AND {condition} ORDER BY m.row DESC LIMIT ?"
    )
    return [from_row(row) for row in connection.execute(sql, (session, session, *values, limit))]


def citing(
    connection: sqlite3.Connection, sources: Sequence[str], messages: Sequence[int]
) -> Iterator[tuple[str, MemoryState]]:
    """Yield (source, memory) for each memory that cites one of these sources.

    Of the memories that cite a session, only those that cite one of these messages are yielded.
    """
    places = ", ".join(map(str, messages)) or "NULL"
    sql = (
        "SELECT d.source, m.* FROM dependents d CROSS JOIN memories m ON m.row = d.memory WHERE d.source IN {}"
        f" AND (substr(d.source, 1, 1) <> 's' OR json_extract(m.origin, '$.position') IN ({places})) ORDER BY m.row"
    )
    return ((row[0], from_row(row[1:])) for row in rows_among(connection, sql, sources))


def active_texts(
    connection: sqlite3.Connection, user: str, projects: Sequence[str | None] | None, columns: str
) -> sqlite3.Cursor:
    """Return columns of the user's active memories that have a text and are not in quarantine, oldest first."""
    where = Conditions("user = ? AND status = 'active' AND quarantined = 0 AND content IS NOT NULL", user)
    where.of_projects(projects)
    return connection.execute(f"SELECT {columns} FROM memories WHERE {where} ORDER BY row", where.values)


HOLDS = "valid_from <= ? AND (valid_to IS NULL OR valid_to > ?)"
BELIEVED = ("active", "superseded")  # a superseded memory holds up to the time at which another fact took its place


def believed(state: MemoryState, valid: str) -> bool:
    """Return True if a memory is believed to be true in the world at a time."""
    holds = state.valid_from <= valid and (state.valid_to is None or state.valid_to > valid)
    return holds and state.status in BELIEVED and not state.quarantined


EVERYWHERE = ("identity", "preference", "rule")  # memories of these kinds without a project count in every project


def pool_condition(projects: Sequence[str | None]) -> tuple[str, Values]:
    """Return the condition for the active memories that an interaction can reinforce.

    These are the memories of its projects, and the memories of the kinds identity, preference and rule without a project.
    """
    everywhere = f"(m.project IS NULL AND m.kind IN {EVERYWHERE})"
    where = "m.user = ? AND m.status = 'active' AND m.quarantined = 0 AND "
    named = [project for project in projects if project is not None]
    return f"{where}({'m.project = ? OR ' * len(named)}{everywhere})", tuple(named)


def pool(connection: sqlite3.Connection, user: str, projects: Sequence[str | None]) -> Iterator[MemoryState]:
    """Yield the active memories that an interaction of these projects can reinforce."""
    where, values = pool_condition(projects)
    for row in connection.execute(f"SELECT m.* FROM memories m WHERE {where} ORDER BY m.row", (user, *values)):
        yield from_row(row)


def changed(connection: sqlite3.Connection, user: str, after: int) -> list[int]:
    """Return the rows of the user's memories that came, changed or went after a position, oldest first."""
    sql = (
        "SELECT row FROM memories WHERE user = ? AND from_position > ?"
        " UNION SELECT row FROM memory_versions WHERE user = ? AND to_position > ? ORDER BY 1"
    )
    return [row for (row,) in connection.execute(sql, (user, after, user, after))]


def statement_of(state: MemoryState) -> tuple[str, str | None, str]:
    """Return (kind, project, normalised content); two memories of a user and a status with the same parts say the same."""
    return (state.kind, state.project, normalise(state.content or ""))


def active_chars(connection: sqlite3.Connection, user: str, *, user_profile: bool) -> int:
    """Return the number of characters of the user's active memories of the kind user_profile, or of all other kinds."""
    group = f"user = ? AND status = 'active' AND kind {'=' if user_profile else '<>'} 'user_profile'"
    sql = f"SELECT total(length(content)), total(instr(content, char(0)) > 0) FROM memories WHERE {group}"
    chars, cut = connection.execute(sql, (user,)).fetchone()
    if cut:  # SQLite counts only the characters up to the first NUL
        sql = f"SELECT content, length(content) FROM memories WHERE {group} AND instr(content, char(0))"
        chars += sum(len(content) - counted for content, counted in connection.execute(sql, (user,)))
    return int(chars)


def idle(connection: sqlite3.Connection, *, active_before: str, limit: int, after: int = 0) -> list[MemoryState]:
    """Return the active memories that were never referenced and were last active before a time, so that they may decay."""
    sql = (
        "SELECT * FROM memories WHERE row > ? AND status = 'active' AND reference_count = 0 AND active_at < ?"
        " ORDER BY row LIMIT ?"
    )
    return [from_row(row) for row in connection.execute(sql, (after, active_before, limit))]


def users(connection: sqlite3.Connection, status: str = "active", *, quarantined: bool = False) -> list[str]:
    """Return the users with memories in a status; with ``quarantined`` also those whose memories are in quarantine."""
    within = "" if quarantined else "AND quarantined = 0"
    sql = f"SELECT DISTINCT user FROM memories WHERE status = '{status}' {within} AND user IS NOT NULL ORDER BY 1"
    return [user for (user,) in connection.execute(sql)]


def waiting(connection: sqlite3.Connection) -> int:
    """Return the number of the memories of all users that wait for review."""
    (number,) = connection.execute("SELECT count(*) FROM memories WHERE status = 'candidate'").fetchone()
    return int(number)


def counts(connection: sqlite3.Connection, user: str, *, valid: str | None = None) -> dict[str, int]:
    """Return the number of the user's memories by status; with ``valid`` only of those that are true at this time."""
    holds, times = ("", ()) if valid is None else (f"AND quarantined = 0 AND {HOLDS} ", (valid, valid))
    sql = f"SELECT status, count(*) FROM memories WHERE user = ? {holds}GROUP BY status ORDER BY status"
    return by_status(FAMILY.live, connection.execute(sql, (user, *times)))
