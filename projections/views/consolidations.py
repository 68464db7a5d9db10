"""What consolidation reads: the memories and turns of a scope, the observations that it has, and where something is new."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ledger.domain.ids import message_place
from ledger.domain.interaction import Interaction
from ledger.domain.observation import Observation
from projections.core.rows import Values, rows_among
from projections.views import interactions, memories, observations
from projections.views.observations import Proof

UNSTUCK = ("curated", "contradiction")  # retracted because it was wrong: its sources do not say it again by themselves


class Scope(Struct, frozen=True):
    """Whose observations: of one user, in one project or in none, of sources that have all of these tags (sorted)."""

    user: str
    project: str | None = None
    tags: tuple[str, ...] = ()


class Sourced(Struct, frozen=True):
    """An observation with its sources as they are."""

    state: Observation
    proofs: tuple[Proof, ...]
    alive: frozenset[str]  # what counts, of its sources and of what it was written from

    @property
    def live(self) -> tuple[Proof, ...]:
        return tuple(each for each in self.proofs if each.live)

    @property
    def worded_of_the_dead(self) -> bool:
        """Whether something that it was written from no longer counts, by itself or for this observation."""
        withdrawn = {each.source for each in self.proofs if each.withdrawn}
        return any(each not in self.alive or each in withdrawn for each in self.state.written_from)

    @property
    def stale(self) -> bool:
        return bool(self.state.stale) or self.worded_of_the_dead


_MEMORY = "id, row, from_position, valid_from, content, entities, tags"
_strings = msgspec.json.Decoder(tuple[str, ...])


class Material(Struct, frozen=True):
    """A live memory: since when it stands as it is, and from when what it says holds."""

    id: str
    row: int
    position: int
    at: str
    content: str
    entities: tuple[str, ...]
    tags: tuple[str, ...]


def _material(row: Values) -> Material:
    entities, tags = (_strings.decode(each) if each else () for each in row[5:])
    return Material(row[0], row[1], row[2], row[3], row[4], entities, tags)


def encoded_tags(tags: Sequence[str]) -> str:
    """Tags as they lie in a row; where there are none there is nothing, which ``coalesce(tags, '[]')`` makes this."""
    return msgspec.json.encode(tuple(tags)).decode()


def live_memories(connection: sqlite3.Connection, scope: Scope, *, after: int = 0) -> list[Material]:
    """The live memories of a scope that came to stand as they do after a position, in that order."""
    sql = (
        f"SELECT {_MEMORY} FROM memories WHERE user = ? AND project IS ? AND from_position > ? AND status = 'active'"
        " AND quarantined = 0 AND content IS NOT NULL ORDER BY from_position, row"
    )
    found = map(_material, connection.execute(sql, (scope.user, scope.project, after)))
    return [each for each in found if set(scope.tags) <= set(each.tags)]


def memories_of(connection: sqlite3.Connection, scope: Scope, rows: Sequence[int]) -> list[Material]:
    """Those of these memories that are live and of the scope."""
    sql = (
        f"SELECT {_MEMORY} FROM memories NOT INDEXED WHERE row IN {{}} AND user = ?"
        " AND project IS ? AND status = 'active' AND quarantined = 0 AND content IS NOT NULL ORDER BY row"
    )
    found = map(_material, rows_among(connection, sql, sorted(rows), scope.user, scope.project))
    return [each for each in found if set(scope.tags) <= set(each.tags)]


def was_the_same_before(connection: sqlite3.Connection, each: Material, position: int) -> bool:
    """Whether a memory was live at a position and said the same then: nothing about it is new but, say, its confidence."""
    before = memories.get_at(connection, each.row, position) if each.row <= position else None
    if before is None or before.status != "active" or before.quarantined:
        return False
    return before.content == each.content and before.tags == each.tags


def turns(connection: sqlite3.Connection, scope: Scope, *, after: int = 0, limit: int = -1) -> list[Interaction]:
    """The live interactions of a scope that came, came back, got their response or were let out of quarantine after a position,
    oldest first; with a ``limit`` the newest of them."""
    sql = (
        "SELECT * FROM interactions t WHERE user = :user AND project IS :project AND (row > :after OR response_at > :after"
        " OR (from_position > :after AND NOT EXISTS (SELECT 1 FROM interaction_versions v WHERE v.row = t.row"
        " AND v.to_position > :after AND v.from_position <= :after))"
        " OR EXISTS (SELECT 1 FROM was_in_quarantine w WHERE w.at IN (t.prompt_at, t.response_at)"
        " AND w.to_position > :after)) ORDER BY row DESC LIMIT :limit"
    )
    given = {"user": scope.user, "project": scope.project, "after": after, "limit": limit}
    found = connection.execute(sql, given).fetchall()
    states = [interactions.from_row(row) for row in reversed(found)]
    alive = observations.live(connection, [state.id for state in states])
    return [state for state in states if state.id in alive]


class PersonMessage(Struct, frozen=True):
    """A live message of a person, and since when it stands as it is."""

    id: str
    row: int
    position: int
    at: str


def messages(
    connection: sqlite3.Connection, scope: Scope, *, after: int = 0, among: Sequence[int] | None = None, limit: int = -1
) -> list[PersonMessage]:
    """The live messages that people appended to the sessions of a scope and that came, came back, or were let out of hiding or
    quarantine after a position, oldest first; all or those of these rows, with a ``limit`` the newest of them. What is the text
    of a captured turn is read with the turns."""
    chosen = " AND t.row IN (SELECT value FROM json_each(:among))" if among is not None else ""
    sql = (
        "SELECT s.id || ':' || t.row, t.row, t.from_position, t.time FROM sessions s CROSS JOIN messages t ON t.session = s.row"
        " WHERE s.user = :user AND s.project IS :project AND t.role = 'user' AND t.interaction IS NULL"
        " AND (t.from_position > :after OR EXISTS (SELECT 1 FROM hidden_messages_were h WHERE h.to_position > :after"
        " AND h.session = t.session AND h.first <= t.row AND h.last >= t.row)"
        " OR EXISTS (SELECT 1 FROM was_in_quarantine w WHERE w.at = t.row AND w.to_position > :after))"
        f"{chosen} ORDER BY t.row DESC LIMIT :limit"
    )
    rows = msgspec.json.encode(list(among or ())).decode()
    given = {"user": scope.user, "project": scope.project, "after": after, "among": rows, "limit": limit}
    found = [PersonMessage(*row) for row in reversed(connection.execute(sql, given).fetchall())]
    alive = observations.live(connection, [each.id for each in found])
    return [each for each in found if each.id in alive]


def sourced(connection: sqlite3.Connection, scope: Scope, rows: Sequence[int] | None = None) -> list[Sourced]:
    """The active observations of a scope, all or those of these rows, oldest first."""
    sql = "SELECT * FROM observations WHERE user = ? AND project IS ? AND status = 'active' ORDER BY row"
    values: tuple[object, ...] = (scope.user, scope.project)
    if rows is not None:
        sql = sql.replace("ORDER BY", "AND row IN (SELECT value FROM json_each(?)) ORDER BY")
        values += (msgspec.json.encode(list(rows)).decode(),)
    found = [observations.from_row(row) for row in connection.execute(sql, values)]
    states = [state for state in found if state.text is not None and tuple(sorted(state.tags)) == scope.tags]
    proofs = observations.evidence(connection, [state.row for state in states])
    written = {each for state in states for each in state.written_from}
    alive = frozenset(
        observations.live(connection, written | {each.source for proofs_of in proofs.values() for each in proofs_of})
    )
    return [
        Sourced(
            state,
            tuple(proofs[state.row]),
            alive.intersection({*state.written_from, *(each.source for each in proofs[state.row])}),
        )
        for state in states
    ]


def put_aside(connection: sqlite3.Connection, scope: Scope) -> set[str]:
    """Sources that form nothing by themselves: somebody withdrew them, or what they formed was found to be wrong."""
    sql = (
        "SELECT DISTINCT e.source FROM observations o CROSS JOIN evidence e ON e.observation = o.row"
        " WHERE o.user = ? AND o.project IS ? AND (e.withdrawn = 'asked' OR o.status = 'retracted' AND o.retracted IN (?, ?))"
    )
    return {source for (source,) in connection.execute(sql, (scope.user, scope.project, *UNSTUCK))}


def cited(connection: sqlite3.Connection, scope: Scope, sources: Sequence[str], consolidator: str = "") -> set[str]:
    """Those of these sources that support an active observation of a scope, or one that a consolidator worded."""
    sql = (
        "SELECT DISTINCT e.source FROM evidence e CROSS JOIN observations o ON o.row = e.observation"
        " WHERE e.source IN {} AND e.withdrawn = '' AND o.user = ? AND o.project IS ?"
        " AND o.status = 'active' AND coalesce(o.tags, '[]') = ? AND ? IN ('', o.consolidator)"
    )
    about = (scope.user, scope.project, encoded_tags(scope.tags), consolidator)
    return {source for (source,) in rows_among(connection, sql, sources, *about)}


def citing(connection: sqlite3.Connection, sources: Sequence[str]) -> set[int]:
    """The rows of the observations that cite one of these sources."""
    found = rows_among(connection, "SELECT observation FROM evidence WHERE source IN {}", sources)
    return {row for (row,) in found}


def marked(connection: sqlite3.Connection, scope: Scope) -> list[int]:
    """The rows of the observations of a scope that were marked stale."""
    sql = "SELECT row FROM observations WHERE stale <> '' AND status = 'active' AND user = ? AND project IS ?"
    return [row for (row,) in connection.execute(sql, (scope.user, scope.project))]


def newly_marked(connection: sqlite3.Connection) -> dict[tuple[str, str | None], int]:
    """Of every (user, project) with observations that were marked stale, the position of the last that happened to one."""
    sql = (
        "SELECT user, project, max(from_position) FROM observations WHERE stale <> '' AND status = 'active'"
        " AND user IS NOT NULL GROUP BY user, project"
    )
    return {(user, project): position for user, project, position in connection.execute(sql)}


def worded_of_the_dead(connection: sqlite3.Connection, scope: Scope) -> set[int]:
    """The rows of the active observations of a scope that were written from something that is no longer live."""
    sql = (
        "SELECT o.row, w.value FROM observations o CROSS JOIN json_each(coalesce(o.written_from, '[]')) w"
        " WHERE o.user = ? AND o.project IS ? AND o.status = 'active'"
    )
    written = connection.execute(sql, (scope.user, scope.project)).fetchall()
    alive = observations.live(connection, {source for _, source in written})
    return {row for row, source in written if source not in alive}


def positions(connection: sqlite3.Connection, sources: Sequence[str]) -> list[tuple[int, int]]:
    """Where the events of subjects lie, and messages."""
    places = [place[1] for each in sources if (place := message_place(each)) is not None]
    streams = [each for each in sources if message_place(each) is None]
    found = rows_among(connection, "SELECT position FROM events WHERE stream IN {}", streams)
    return sorted((each, each) for each in (*places, *(position for (position,) in found)))


def size(connection: sqlite3.Connection, scope: Scope) -> int:
    """How many live memories there are, whatever their tags."""
    sql = "SELECT count(*) FROM memories WHERE user = ? AND project IS ? AND status = 'active' AND quarantined = 0"
    return int(connection.execute(sql, (scope.user, scope.project)).fetchone()[0])


def scopes(connection: sqlite3.Connection, only: str | None = None) -> Iterator[tuple[str, str | None, int]]:
    """Every (user, project), or of ``only`` one user, with memories, and the position of the last change of one of them. By
    jumps in the index, so it grows with the scopes and not with the memories."""
    user = _first(connection, "SELECT min(user) FROM memories WHERE user >= ?", only or "")
    while user is not None and only in (None, user):
        last = "SELECT max(from_position) FROM memories WHERE user = ? AND project IS ?"
        if newest := _first(connection, last, user, None):
            yield user, None, newest
        following = "SELECT min(project) FROM memories WHERE user = ? AND project > ?"
        project = _first(connection, following, user, "")
        while project is not None:
            yield user, project, _first(connection, last, user, project)
            project = _first(connection, following, user, project)
        user = _first(connection, "SELECT min(user) FROM memories WHERE user > ?", user)


def projects_of_turns(connection: sqlite3.Connection, user: str) -> list[tuple[str | None, int]]:
    """Every project of a user with turns, and the position of the last change of one of them; what was let out of quarantine
    may be of any."""
    sql = (
        "SELECT project, max(max(from_position), coalesce((SELECT max(to_position) FROM was_in_quarantine), 0))"
        " FROM interactions WHERE user = ? GROUP BY project"
    )
    return [(project, newest) for project, newest in connection.execute(sql, (user,))]


def projects_of_messages(connection: sqlite3.Connection, user: str) -> list[tuple[str | None, int]]:
    """The same of sessions: the position of the last message in one."""
    sql = (
        "SELECT project, max(max(extractable_at), coalesce((SELECT max(to_position) FROM was_in_quarantine), 0))"
        " FROM sessions WHERE user = ? GROUP BY project"
    )
    return [(project, newest) for project, newest in connection.execute(sql, (user,))]


def _first(connection: sqlite3.Connection, sql: str, *values: object) -> Any:
    return connection.execute(sql, values).fetchone()[0]


def failures(connection: sqlite3.Connection, scope: Scope, over: str, consolidator: str) -> list[int]:
    """Up to which positions, of what failed since the last completed run of a scope, in order."""
    scoped = (
        "user = :user AND project IS :project AND over = :over AND consolidator = :consolidator"
        " AND coalesce(tags, '[]') = :tags AND undone_at IS NULL"
    )
    sql = (
        f"SELECT upto FROM consolidations WHERE {scoped} AND error <> '' AND position >"
        f" coalesce((SELECT max(position) FROM consolidations WHERE {scoped} AND error = ''), 0) ORDER BY position"
    )
    given = {"user": scope.user, "project": scope.project, "over": over, "consolidator": consolidator}
    return [upto for (upto,) in connection.execute(sql, given | {"tags": encoded_tags(scope.tags)})]
