"""The reads of consolidation: the scopes with new sources, and the memories, turns, messages and observations of a scope."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ledger.domain.ids import message_place
from ledger.interactions.rules import InteractionState
from ledger.observations.rules import ObservationState
from projections.core.rows import Values, rows_among
from projections.views import interactions, memories, observations
from projections.views.observations import SourceStanding

FOUND_WRONG = ("curated", "contradiction")  # the reasons of a retraction after which the sources must not form it again


class Scope(Struct, frozen=True):
    """The scope of observations: a user, a project or none, and the tags (sorted) that all sources have."""

    user: str
    project: str | None = None
    tags: tuple[str, ...] = ()


class Sourced(Struct, frozen=True):
    """An observation with the present state of its sources."""

    state: ObservationState
    proofs: tuple[SourceStanding, ...]
    alive: frozenset[str]  # the live sources among those of the evidence and of ``written_from``

    @property
    def live(self) -> tuple[SourceStanding, ...]:
        return tuple(proof for proof in self.proofs if proof.live)

    @property
    def lost_a_wording_source(self) -> bool:
        """Return True if a source that the observation was written from is withdrawn or no longer live."""
        withdrawn = {proof.source for proof in self.proofs if proof.withdrawn}
        return any(source not in self.alive or source in withdrawn for source in self.state.written_from)

    @property
    def stale(self) -> bool:
        return bool(self.state.stale) or self.lost_a_wording_source


_MEMORY = "id, row, from_position, valid_from, content, entities, tags"
_strings = msgspec.json.Decoder(tuple[str, ...])


class LiveMemory(Struct, frozen=True):
    """A live memory; ``position`` is the position of its last change, and ``at`` is the time from which its text holds."""

    id: str
    row: int
    position: int
    at: str
    content: str
    entities: tuple[str, ...]
    tags: tuple[str, ...]


def _live_memory(row: Values) -> LiveMemory:
    entities, tags = (_strings.decode(encoded) if encoded else () for encoded in row[5:])
    return LiveMemory(row[0], row[1], row[2], row[3], row[4], entities, tags)


def encoded_tags(tags: Sequence[str]) -> str:
    """Return tags in the form of a column; a row without tags has NULL there, so compare with ``coalesce(tags, '[]')``."""
    return msgspec.json.encode(tuple(tags)).decode()


def live_memories(connection: sqlite3.Connection, scope: Scope, *, after: int = 0) -> list[LiveMemory]:
    """Return the live memories of a scope whose last change is after a position, in the order of these changes."""
    sql = (
        f"SELECT {_MEMORY} FROM memories WHERE user = ? AND project IS ? AND from_position > ? AND status = 'active'"
        " AND quarantined = 0 AND content IS NOT NULL ORDER BY from_position, row"
    )
    candidates = map(_live_memory, connection.execute(sql, (scope.user, scope.project, after)))
    return [memory for memory in candidates if set(scope.tags) <= set(memory.tags)]


def memories_of(connection: sqlite3.Connection, scope: Scope, rows: Sequence[int]) -> list[LiveMemory]:
    """Return the memories in these rows that are live and in the scope."""
    sql = (
        f"SELECT {_MEMORY} FROM memories NOT INDEXED WHERE row IN {{}} AND user = ?"
        " AND project IS ? AND status = 'active' AND quarantined = 0 AND content IS NOT NULL ORDER BY row"
    )
    candidates = map(_live_memory, rows_among(connection, sql, sorted(rows), scope.user, scope.project))
    return [memory for memory in candidates if set(scope.tags) <= set(memory.tags)]


def was_the_same_before(connection: sqlite3.Connection, memory: LiveMemory, position: int) -> bool:
    """Return True if a memory was live at a position with the same text and tags.

    Such a memory is not new for consolidation: only its confidence or another field has changed since.
    """
    before = memories.get_at(connection, memory.row, position) if memory.row <= position else None
    if before is None or before.status != "active" or before.quarantined:
        return False
    return before.content == memory.content and before.tags == memory.tags


def turns(connection: sqlite3.Connection, scope: Scope, *, after: int = 0, limit: int = -1) -> list[InteractionState]:
    """Return the live interactions of a scope that are new after a position, oldest first.

    An interaction is new if it was captured, redone or released from quarantine after the position, or got its response then.
    With a ``limit`` the newest interactions are returned.
    """
    sql = (
        "SELECT * FROM interactions t WHERE user = :user AND project IS :project AND (row > :after OR response_at > :after"
        " OR (from_position > :after AND NOT EXISTS (SELECT 1 FROM interaction_versions v WHERE v.row = t.row"
        " AND v.to_position > :after AND v.from_position <= :after))"
        " OR EXISTS (SELECT 1 FROM was_in_quarantine w WHERE w.at IN (t.prompt_at, t.response_at)"
        " AND w.to_position > :after)) ORDER BY row DESC LIMIT :limit"
    )
    parameters = {"user": scope.user, "project": scope.project, "after": after, "limit": limit}
    rows = connection.execute(sql, parameters).fetchall()
    states = [interactions.from_row(row) for row in reversed(rows)]
    alive = observations.live(connection, [state.id for state in states])
    return [state for state in states if state.id in alive]


class PersonMessage(Struct, frozen=True):
    """A live message of a person; ``position`` is the position of its last change."""

    id: str
    row: int
    position: int
    at: str


def messages(
    connection: sqlite3.Connection, scope: Scope, *, after: int = 0, among: Sequence[int] | None = None, limit: int = -1
) -> list[PersonMessage]:
    """Return the live messages of people in the sessions of a scope that are new after a position, oldest first.

    A message is new if it was appended, redone, shown again after it was hidden, or released from quarantine after the position.
    Messages that are the text of a captured turn are left out, because ``turns`` reads these. With ``among`` only messages in
    these rows are returned, with a ``limit`` only the newest.
    """
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
    parameters = {"user": scope.user, "project": scope.project, "after": after, "among": rows, "limit": limit}
    candidates = [PersonMessage(*row) for row in reversed(connection.execute(sql, parameters).fetchall())]
    alive = observations.live(connection, [message.id for message in candidates])
    return [message for message in candidates if message.id in alive]


def sourced(connection: sqlite3.Connection, scope: Scope, rows: Sequence[int] | None = None) -> list[Sourced]:
    """Return the active observations of a scope with their sources, oldest first; with ``rows`` only those in these rows."""
    sql = "SELECT * FROM observations WHERE user = ? AND project IS ? AND status = 'active' ORDER BY row"
    values: tuple[object, ...] = (scope.user, scope.project)
    if rows is not None:
        sql = sql.replace("ORDER BY", "AND row IN (SELECT value FROM json_each(?)) ORDER BY")
        values += (msgspec.json.encode(list(rows)).decode(),)
    active = [observations.from_row(row) for row in connection.execute(sql, values)]
    states = [state for state in active if state.text is not None and tuple(sorted(state.tags)) == scope.tags]
    proofs = observations.evidence(connection, [state.row for state in states])
    written = {source for state in states for source in state.written_from}
    supporting = {proof.source for proofs_of in proofs.values() for proof in proofs_of}
    alive = frozenset(observations.live(connection, written | supporting))
    return [
        Sourced(
            state,
            tuple(proofs[state.row]),
            alive.intersection({*state.written_from, *(proof.source for proof in proofs[state.row])}),
        )
        for state in states
    ]


def put_aside(connection: sqlite3.Connection, scope: Scope) -> set[str]:
    """Return the sources that rules and models must not use for an observation.

    Either a person withdrew the source from an observation, or an observation with this source was retracted as wrong.
    """
    sql = (
        "SELECT DISTINCT e.source FROM observations o CROSS JOIN evidence e ON e.observation = o.row"
        " WHERE o.user = ? AND o.project IS ? AND (e.withdrawn = 'asked' OR o.status = 'retracted' AND o.retracted IN (?, ?))"
    )
    return {source for (source,) in connection.execute(sql, (scope.user, scope.project, *FOUND_WRONG))}


def cited(connection: sqlite3.Connection, scope: Scope, sources: Sequence[str], consolidator: str = "") -> set[str]:
    """Return those of the sources that support an active observation of a scope.

    With a ``consolidator`` only observations that this consolidator worded count.
    """
    sql = (
        "SELECT DISTINCT e.source FROM evidence e CROSS JOIN observations o ON o.row = e.observation"
        " WHERE e.source IN {} AND e.withdrawn = '' AND o.user = ? AND o.project IS ?"
        " AND o.status = 'active' AND coalesce(o.tags, '[]') = ? AND ? IN ('', o.consolidator)"
    )
    about = (scope.user, scope.project, encoded_tags(scope.tags), consolidator)
    return {source for (source,) in rows_among(connection, sql, sources, *about)}


def citing(connection: sqlite3.Connection, sources: Sequence[str]) -> set[int]:
    """Return the rows of the observations that cite one of these sources."""
    rows = rows_among(connection, "SELECT observation FROM evidence WHERE source IN {}", sources)
    return {row for (row,) in rows}


def marked(connection: sqlite3.Connection, scope: Scope) -> list[int]:
    """Return the rows of the active observations of a scope that are marked stale."""
    sql = "SELECT row FROM observations WHERE stale <> '' AND status = 'active' AND user = ? AND project IS ?"
    return [row for (row,) in connection.execute(sql, (scope.user, scope.project))]


def newly_marked(connection: sqlite3.Connection) -> dict[tuple[str, str | None], int]:
    """Return the last position at which an observation marked stale changed, for each (user, project) with any."""
    sql = (
        "SELECT user, project, max(from_position) FROM observations WHERE stale <> '' AND status = 'active'"
        " AND user IS NOT NULL GROUP BY user, project"
    )
    return {(user, project): position for user, project, position in connection.execute(sql)}


def without_wording_source(connection: sqlite3.Connection, scope: Scope) -> set[int]:
    """Return the rows of the active observations of a scope that were written from a source that is no longer live."""
    sql = (
        "SELECT o.row, w.value FROM observations o CROSS JOIN json_each(coalesce(o.written_from, '[]')) w"
        " WHERE o.user = ? AND o.project IS ? AND o.status = 'active'"
    )
    written = connection.execute(sql, (scope.user, scope.project)).fetchall()
    alive = observations.live(connection, {source for _, source in written})
    return {row for row, source in written if source not in alive}


def positions(connection: sqlite3.Connection, sources: Sequence[str]) -> list[tuple[int, int]]:
    """Return the positions of the events of these subjects and messages, as ranges of one position each."""
    in_sessions = [place[1] for source in sources if (place := message_place(source)) is not None]
    streams = [source for source in sources if message_place(source) is None]
    rows = rows_among(connection, "SELECT position FROM events WHERE stream IN {}", streams)
    return sorted((position, position) for position in (*in_sessions, *(position for (position,) in rows)))


def size(connection: sqlite3.Connection, scope: Scope) -> int:
    """Return the number of live memories of a user and project, whatever their tags."""
    sql = "SELECT count(*) FROM memories WHERE user = ? AND project IS ? AND status = 'active' AND quarantined = 0"
    return int(connection.execute(sql, (scope.user, scope.project)).fetchone()[0])


def scopes(connection: sqlite3.Connection, only: str | None = None) -> Iterator[tuple[str, str | None, int]]:
    """Yield (user, project, position of the last change) of every user and project with memories.

    With ``only``, the scopes of this user alone. Each step jumps to the next key of an index, so the time grows with the number
    of scopes and not with the number of memories.
    """
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
    """Return (project, position of the last change) of every project of a user with turns.

    A release from quarantine may concern any project, so the position is at least that of the last release.
    """
    sql = (
        "SELECT project, max(max(from_position), coalesce((SELECT max(to_position) FROM was_in_quarantine), 0))"
        " FROM interactions WHERE user = ? GROUP BY project"
    )
    return [(project, newest) for project, newest in connection.execute(sql, (user,))]


def projects_of_messages(connection: sqlite3.Connection, user: str) -> list[tuple[str | None, int]]:
    """Return (project, position of the last message) of every project of a user with sessions.

    A release from quarantine may concern any project, so the position is at least that of the last release.
    """
    sql = (
        "SELECT project, max(max(extractable_at), coalesce((SELECT max(to_position) FROM was_in_quarantine), 0))"
        " FROM sessions WHERE user = ? GROUP BY project"
    )
    return [(project, newest) for project, newest in connection.execute(sql, (user,))]


def _first(connection: sqlite3.Connection, sql: str, *values: object) -> Any:
    return connection.execute(sql, values).fetchone()[0]


def failures(connection: sqlite3.Connection, scope: Scope, over: str, consolidator: str) -> list[int]:
    """Return the positions that the failed runs of a scope had reached, since its last completed run, in order."""
    scoped = (
        "user = :user AND project IS :project AND over = :over AND consolidator = :consolidator"
        " AND coalesce(tags, '[]') = :tags AND undone_at IS NULL"
    )
    sql = (
        f"SELECT upto FROM consolidations WHERE {scoped} AND error <> '' AND position >"
        f" coalesce((SELECT max(position) FROM consolidations WHERE {scoped} AND error = ''), 0) ORDER BY position"
    )
    parameters = {"user": scope.user, "project": scope.project, "over": over, "consolidator": consolidator}
    return [upto for (upto,) in connection.execute(sql, parameters | {"tags": encoded_tags(scope.tags)})]
