"""The tables of observations, their versions, evidence and text index, and of the progress of consolidation.

A read of an observation looks up in the tables of memories, interactions, documents and sessions which sources are live. So
undoing, erasing or restoring a source needs no event of the observation.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from ledger.domain import ids, times
from ledger.domain.confidence import PROOF_RULES
from ledger.domain.text import fingerprint, normalise
from ledger.english.words import indexed
from ledger.events import WAYS_BACK, AnyEvent, ConsolidationCompleted, ConsolidationFailed
from ledger.observations import rules as observation
from ledger.observations.rules import NO_EVIDENCE, ObservationState, Support
from projections.core.rows import (
    CURRENT,
    NEWEST,
    AsOf,
    Conditions,
    ProjectionRows,
    Start,
    Table,
    TextIndex,
    Values,
    by_status,
    checked,
    rows_among,
)
from projections.core.subjects import SubjectChange, ended, family, keep, mark_void, replace_rows, standing
from projections.search.text_hits import source_of
from projections.views import documents
from projections.views.quarantine import free
from projections.views.sessions import hides

FAMILY = family(
    "o",
    ObservationState,
    observation.evolve,
    observation.admits,
    ("observations", "observation_versions"),
    indexes=(
        ("user, project, row", "status = 'active'"),
        ("user, project, row", "stale <> ''"),
        ("merged_into", "merged_into IS NOT NULL"),
    ),
    among=(("status", observation.STATUSES), ("rule", PROOF_RULES)),
)
OBSERVATIONS, VERSIONS = FAMILY.live, FAMILY.closed
from_row, get = FAMILY.from_row, FAMILY.get
# The sources of observations. A withdrawn source keeps its row, so that it can be put back with its time.
EVIDENCE = Table(
    "evidence",
    (
        *("observation INTEGER NOT NULL", "source TEXT NOT NULL", "at TEXT NOT NULL", "withdrawn TEXT NOT NULL"),
        "from_position INTEGER NOT NULL",
    ),
    ("observation", "source"),
    (("source", ""),),
    rowid=False,
    grouped=("observation",),
    ahead=True,
    then=AsOf("from_position", closed="evidence_was"),
)
EVIDENCE_WAS = ended(EVIDENCE, "evidence_was", ("source", ""))  # for undo and erasure
# The active observations by a keyed fingerprint of scope and text, to find a second observation with the same text.
STATEMENTS = Table(
    "observation_statements",
    ("fingerprint INTEGER NOT NULL", "observation INTEGER NOT NULL"),
    ("fingerprint", "observation"),
    rowid=False,
    grouped=("fingerprint",),
    then=CURRENT,
)
WAITING = Table(
    "observation_search_waiting",
    ("row INTEGER PRIMARY KEY", "text TEXT NOT NULL"),
    ("row",),
    derived=True,
    then=CURRENT,
)
SEARCH = TextIndex("observation_search", ("text",), WAITING, lambda row: (indexed(row[0]),))
SOURCE = source_of(SEARCH, "bm25(observation_search)", OBSERVATIONS)
# The completed and failed runs of consolidation, with the position up to which each run read the sources of a scope.
CONSOLIDATIONS = Table(
    "consolidations",
    (
        *("position INTEGER PRIMARY KEY", "user TEXT", "project TEXT", "over TEXT NOT NULL", "tags TEXT"),
        *("consolidator TEXT NOT NULL", "upto INTEGER NOT NULL", "error TEXT NOT NULL"),
        *("recorded_at TEXT NOT NULL", "undone_at INTEGER"),
    ),
    ("position",),
    (("user, project, over, consolidator, position", ""),),
    then=AsOf("position", undone="undone_at"),
)


class ObservationsProjection:
    name, version, follows, reads = "observations", 3, frozenset("o"), ()
    tables = (OBSERVATIONS, VERSIONS, EVIDENCE, EVIDENCE_WAS, STATEMENTS, SEARCH, WAITING)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            keep(change, rows, FAMILY)
            if _indexed(change.old) != _indexed(change.new):
                rows.index(SEARCH, change.first, _indexed(change.old), _indexed(change.new))
            self._statements(change, rows)
            if change.refold or isinstance(event.data, observation.CHANGING_EVIDENCE):
                self._evidence(change, rows)

    def _statements(self, change: SubjectChange, rows: ProjectionRows) -> None:
        before, after = self._statement(change.old), self._statement(change.new)
        if before != after:
            if before is not None:
                rows.remove(STATEMENTS, (before, change.first))
            if after is not None:
                rows.put(STATEMENTS, (after, change.first), (after, change.first))

    def _statement(self, state: ObservationState | None) -> int | None:
        if state is None or state.status != "active":
            return None
        return statement(self._secret, state.user, state.project, state.tags, state.text)

    @staticmethod
    def _evidence(change: SubjectChange, rows: ProjectionRows) -> None:
        before = standing(rows, EVIDENCE, "observation", change.first)
        known = {} if change.refold else {source: Support(source, *values) for (_, source), values in before.items()}
        for event in change.events:
            known |= {support.source: support for support in observation.changed_evidence(event.data, known)}
        after = {(change.first, source): (support.at, support.withdrawn) for source, support in known.items()}
        replace_rows(change, rows, (EVIDENCE, EVIDENCE_WAS), before, after)


def _indexed(state: ObservationState | None) -> Values | None:
    return None if state is None or state.text is None else (state.text.replace("\0", " "),)


def statement(
    secret: bytes, user: str | None, project: str | None, tags: Sequence[str], text: str | None
) -> int | None:
    """Return the fingerprint of the user, project, tags and normalised text; None for an erased text."""
    if user is None or text is None:
        return None
    return fingerprint(secret, user, project, *sorted(tags), normalise(text))


class Consolidations:
    name, version, reads = "consolidations", 2, ("in_effect",)
    follows = frozenset(kind.__name__ for kind in (*WAYS_BACK, ConsolidationCompleted, ConsolidationFailed))
    tables = (CONSOLIDATIONS,)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        data, envelope = event.data, event.envelope
        if isinstance(data, ConsolidationCompleted | ConsolidationFailed):
            tags = msgspec.json.encode(data.tags).decode() if data.tags is not None else None
            values = (envelope.user, envelope.project, data.over, tags, data.consolidator, data.to)
            error = data.error if isinstance(data, ConsolidationFailed) else ""
            rows.put(CONSOLIDATIONS, (event.position,), (event.position, *values, error, envelope.recorded_at, None))
        elif isinstance(data, WAYS_BACK):
            mark_void(rows, CONSOLIDATIONS, data.ranges)


# --- reads -----------------------------------------------------------------------------------------------------------


class SourceStanding(Struct, frozen=True):
    """A source of an observation in its present state.

    ``withdrawn`` is the reason why the source was withdrawn ("asked", "contradicted"), or "". ``live`` is False for a withdrawn
    source, and for a source that is hidden, in quarantine, undone or erased.
    """

    source: str
    at: str
    withdrawn: str
    live: bool


def listing(
    connection: sqlite3.Connection,
    *,
    user: str,
    statuses: Sequence[str] = ("active",),
    projects: Sequence[str | None] | None = None,
    start: Start = NEWEST,
    limit: int,
) -> list[ObservationState]:
    """Return observations of one user, newest first; None in ``projects`` means no project."""
    where = Conditions("user = ?", user)
    where.among("status", statuses)
    where.of_projects(projects)
    return FAMILY.listed(connection, where, limit, start)


def evidence(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, list[SourceStanding]]:
    """Return the sources of these observations by the observation's row, oldest first."""
    sources: dict[int, list[tuple[str, str, str]]] = {row: [] for row in rows}
    columns = ("observation", "source", "at", "withdrawn")
    sql = f"SELECT {', '.join(columns)} FROM evidence WHERE observation IN {{}} ORDER BY observation, at, source"
    for row, source, at, withdrawn in checked(EVIDENCE, columns, rows_among(connection, sql, rows)):
        sources[row].append((source, at, withdrawn))
    alive = live(connection, {source for cited in sources.values() for source, _, _ in cited})
    return {
        row: [
            SourceStanding(source, at, withdrawn, not withdrawn and source in alive) for source, at, withdrawn in cited
        ]
        for row, cited in sources.items()
    }


_ERASED = [  # the texts of an interaction, in its first event (e) and in the event of its response (r); "null" if erased
    f"coalesce(json_type({event}.state, '$.data.{field}'), '')"
    for event in ("e", "r")
    for field in ("prompt", "response", "summary")
]
_MESSAGES = "messages t CROSS JOIN sessions s ON s.row = t.session CROSS JOIN events e ON e.position = t.row"
_LIVE = {  # for each kind of source, the query for the live sources among some ids
    "m": "SELECT e.stream FROM events e CROSS JOIN memories t ON t.row = e.position WHERE e.stream IN {} AND e.version = 1"
    " AND t.status = 'active' AND t.quarantined = 0 AND t.user IS NOT NULL",
    "i": "SELECT e.stream FROM events e CROSS JOIN interactions t ON t.row = e.position"
    " LEFT JOIN events r ON r.position = t.response_at WHERE e.stream IN {}"
    f" AND e.version = 1 AND t.user IS NOT NULL AND {free('t.prompt_at')} AND {free('t.response_at')}"
    " AND (coalesce(e.erased_by, r.erased_by) IS NULL"  # most events are not erased, and then their texts are not read
    f" OR 'null' NOT IN ({', '.join(_ERASED)}))",
    "c": "SELECT t.id FROM chunks t CROSS JOIN documents d ON d.row = t.document WHERE t.id IN {}"
    f" AND d.status = 'active' AND t.size IS NOT NULL AND {free('t.row')}",
    "s": f"SELECT s.id || ':' || t.row FROM {_MESSAGES} WHERE t.row IN {{}} AND s.user IS NOT NULL AND {free('t.row')}"
    f" AND NOT {hides('t')} AND (e.erased_by IS NULL OR coalesce(json_type(e.state, '$.data.content'), '') <> 'null'"
    " AND coalesce(json_type(e.state, '$.data.parts'), '') <> 'null')",
}


def is_live(source: str) -> str:
    """Return the SQL condition that a source is live; ``source`` is an expression for the source's id."""
    cases = (f"WHEN '{kind}' THEN {source} IN ({sql.format(f'({_key(kind, source)})')})" for kind, sql in _LIVE.items())
    return f"CASE substr({source}, 1, 1) {' '.join(cases)} ELSE 0 END"


def _key(kind: str, source: str) -> str:
    return f"CAST(substr({source}, instr({source}, ':') + 1) AS INTEGER)" if kind == "s" else source


_TIMES = {
    "m": "SELECT e.stream, t.valid_from FROM events e CROSS JOIN memories t ON t.row = e.position"
    " WHERE e.stream IN {} AND e.version = 1",
    "i": "SELECT e.stream, t.time FROM events e CROSS JOIN interactions t ON t.row = e.position"
    " WHERE e.stream IN {} AND e.version = 1",
    "c": "SELECT t.id, coalesce(json_extract(e.state, '$.occurred_at'), json_extract(e.state, '$.recorded_at'))"
    " FROM chunks t CROSS JOIN events e ON e.position = t.row WHERE t.id IN {}",
    "s": f"SELECT s.id || ':' || t.row, t.time FROM {_MESSAGES} WHERE t.row IN {{}}",
}


def live(connection: sqlite3.Connection, sources: Iterable[str]) -> set[str]:
    """Return the live sources among some ids.

    Active memories, interactions without an erased text, current chunks of active documents, and messages that are neither hidden
    nor erased are live, unless they are in quarantine.
    """
    alive: set[str] = set()
    for kind, of_kind in _by_kind(sources).items():
        rows = rows_among(connection, _LIVE[kind], _keys(kind, of_kind))
        alive.update(source for (source,) in rows if kind != "s" or source in of_kind)
    return alive


def without_a_text(connection: sqlite3.Connection, positions: Iterable[int]) -> bool:
    """Return True if a text in one of these events of interactions was erased."""
    fields = ", ".join(field for field in _ERASED if "e.state" in field)
    sql = f"SELECT 1 FROM events e WHERE e.position = ? AND e.erased_by IS NOT NULL AND 'null' IN ({fields})"
    return any(connection.execute(sql, (position,)).fetchone() is not None for position in positions)


def in_quarantine(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, set[int]]:
    """Return the positions of the wordings in quarantine, by the observation's id."""
    positions: dict[str, set[int]] = {}
    if connection.execute("SELECT 1 FROM quarantine LIMIT 1").fetchone() is None:
        return positions
    sql = "SELECT e.stream, e.position FROM events e CROSS JOIN quarantine q ON q.at = e.position WHERE e.stream IN {}"
    for id, position in rows_among(connection, sql, sorted(ids)):
        positions.setdefault(id, set()).add(position)
    return positions


def times_of(connection: sqlite3.Connection, sources: Iterable[str]) -> dict[str, str]:
    """Return the time of each source: the ``valid_from`` of a memory, else the time of the interaction, message or document."""
    source_times: dict[str, str] = {}
    for kind, of_kind in _by_kind(sources).items():
        for source, time in rows_among(connection, _TIMES[kind], _keys(kind, of_kind)):
            source_times[source] = times.moment("occurred_at", time)
    return source_times


def project_of(connection: sqlite3.Connection, source: str) -> str | None:
    """Return the project of a source, or None if the source has no project."""
    sql = {
        "m": "SELECT t.project FROM events e CROSS JOIN memories t ON t.row = e.position WHERE e.stream = ? AND e.version = 1",
        "i": "SELECT t.project FROM events e CROSS JOIN interactions t ON t.row = e.position"
        " WHERE e.stream = ? AND e.version = 1",
        "c": "SELECT d.project FROM chunks t CROSS JOIN documents d ON d.row = t.document WHERE t.id = ?",
        "s": f"SELECT s.project FROM {_MESSAGES} WHERE t.row = ?",
    }[source[0]]
    row = connection.execute(sql, _keys(source[0], [source])).fetchone()
    return row[0] if row is not None else None


def supported_by(connection: sqlite3.Connection, sources: Iterable[str]) -> list[int]:
    """Return the rows of the observations that one of these sources supports, without erased observations."""
    sql = (
        "SELECT e.observation FROM evidence e CROSS JOIN observations o ON o.row = e.observation"
        " WHERE e.source IN {} AND e.withdrawn = '' AND o.status != 'erased'"
    )
    return sorted({row for (row,) in rows_among(connection, sql, sorted(sources))})


def waiting_for(connection: sqlite3.Connection, sources: Iterable[str], alive: Iterable[str]) -> list[int]:
    """Return the rows of the observations that change if some sources are put back.

    Either a person withdrew one of the ``sources`` from the observation, or the observation was retracted for want of evidence
    and cites one of the ``alive`` sources.
    """
    rows: set[int] = set()
    sql = "SELECT e.observation FROM evidence e CROSS JOIN observations o ON o.row = e.observation WHERE e.source IN"
    withdrawn = "o.status != 'erased' AND e.withdrawn = 'asked'"
    retracted = "o.status = 'retracted' AND o.retracted = 'no_evidence' AND e.withdrawn = ''"
    for cited, condition in ((sources, withdrawn), (alive, retracted)):
        rows.update(row for (row,) in rows_among(connection, f"{sql} {{}} AND {condition}", sorted(cited)))
    return sorted(rows)


def retired_without(connection: sqlite3.Connection, source: str) -> list[str]:
    """Return the ids of the observations that cite this source or a part of it and were retracted for want of evidence."""
    sql = (
        "SELECT o.id FROM evidence e CROSS JOIN observations o ON o.row = e.observation"
        f" WHERE e.source = ? AND o.retracted = '{NO_EVIDENCE}'"
    )
    cited = (source, *parts(connection, source))
    return [id for citation in cited for (id,) in connection.execute(sql, (citation,))]


def parts(connection: sqlite3.Connection, subject: str) -> list[str]:
    """Return the ids of the parts of a subject that observations cite by themselves.

    These are every chunk that a document has or had, and the messages of a session that observations cite or ever cited.
    """
    if subject.startswith("d_"):
        return documents.chunk_ids(connection, subject)
    if not subject.startswith("s_") or len(subject) != ids.LENGTH:
        return []
    span = (f"{subject}:", f"{subject};")
    sql = " UNION ".join(
        f"SELECT source FROM {table} WHERE source > ? AND source < ?" for table in ("evidence", "evidence_was")
    )
    return [source for (source,) in connection.execute(sql, (*span, *span))]


def merged_into(connection: sqlite3.Connection, observation: str) -> list[str]:
    """Return the ids of the observations that were merged into this observation."""
    return [id for (id,) in connection.execute("SELECT id FROM observations WHERE merged_into = ?", (observation,))]


def sources_named(connection: sqlite3.Connection, id: str, user: str) -> list[str]:
    """Return the ids of the user's sources that a full id, or the unambiguous beginning of an id, stands for.

    A document stands for its chunks, a message that is the text of a turn for the turn, and every other subject for itself. An
    undone source is found too, because observations may cite it.
    """
    if id[:2] == "c_":
        chunk = documents.find_chunk(connection, id, user)
        return [chunk.id] if chunk is not None else []
    if (place := ids.message_place(id)) is not None:
        sql = (
            "SELECT json_extract(e.state, '$.data.interaction') FROM events e CROSS JOIN audit a ON a.position = e.position"
            " WHERE e.stream = ? AND e.position = ? AND e.type = 'MessageAppended' AND a.user = ?"
        )
        message = connection.execute(sql, (*place, user)).fetchone()
        return [message[0] or id] if message is not None else []
    sql = (
        "SELECT DISTINCT e.stream FROM events e CROSS JOIN audit a ON a.position = e.position"
        " WHERE e.stream >= ? AND e.stream < ? AND e.version = 1 AND a.user = ? LIMIT 2"
    )
    streams = [stream for (stream,) in connection.execute(sql, (id, id + "~", user))] if len(id) > 2 else []
    if len(streams) != 1 or id[:2] not in ("m_", "i_", "d_"):
        return []
    return sorted(documents.chunk_ids(connection, streams[0])) if id[0] == "d" else streams


def with_statement(rows: ProjectionRows, number: int) -> list[int]:
    """Return the rows of the active observations with this fingerprint, oldest first; called under the lock."""
    return [row[1] for row in rows.find(STATEMENTS, ("fingerprint",), (number,))]


def counts(connection: sqlite3.Connection, user: str) -> dict[str, int]:
    """Return the number of observations of a user by status."""
    sql = "SELECT status, count(*) FROM observations WHERE user = ? GROUP BY status ORDER BY status"
    return by_status(FAMILY.live, connection.execute(sql, (user,)))


def ever_supported_by(connection: sqlite3.Connection, source: str) -> list[int]:
    """Return the rows of the observations that a source supports or ever supported, undone observations included."""
    tables = ("evidence", "evidence_was")
    sql = " UNION ".join(f"SELECT observation FROM {table} WHERE source = ?" for table in tables)
    return [row for (row,) in connection.execute(f"{sql} ORDER BY 1", (source, source))]


def support_of(rows: ProjectionRows, row: int) -> list[Support]:
    """Return the evidence of an observation; called under the writer's lock."""
    return [Support(*values[1:4]) for values in rows.find(EVIDENCE, ("observation",), (row,))]


def looked_at(
    connection: sqlite3.Connection,
    user: str,
    project: str | None,
    over: str,
    consolidator: str,
    tags: Sequence[str] = (),
) -> int:
    """Return the log position up to which completed consolidations have read the sources of a scope, or 0."""
    sql = (
        "SELECT max(upto) FROM consolidations WHERE user = ? AND project IS ? AND over = ? AND consolidator = ?"
        " AND coalesce(tags, '[]') = ? AND error = '' AND undone_at IS NULL"
    )
    encoded = msgspec.json.encode(tuple(tags)).decode()
    return int(connection.execute(sql, (user, project, over, consolidator, encoded)).fetchone()[0] or 0)


def _by_kind(sources: Iterable[str]) -> dict[str, list[str]]:
    """Return the sources by the letter of their kind, without the kinds that cannot be evidence."""
    kinds: dict[str, list[str]] = {}
    for source in sorted(sources):
        if source[:1] in _LIVE:
            kinds.setdefault(source[:1], []).append(source)
    return kinds


def _keys(kind: str, sources: Sequence[str]) -> Sequence[str | int]:
    """Return the lookup keys of these sources: for a message its position, else the id."""
    return [int(source.partition(":")[2]) for source in sources] if kind == "s" else sources
