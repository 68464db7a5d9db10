"""Observations as they stand and stood, the evidence of each, the text index over them, and how far consolidation has come.

Whether a source is live is asked of the projections of memories, interactions and documents when an observation is read, so
that undoing, erasing or restoring a source needs no event of the observation.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct

from ledger.domain import ids, observation, times
from ledger.domain.confidence import PROOF_RULES
from ledger.domain.events import (
    WAYS_BACK,
    AnyEvent,
    ConsolidationCompleted,
    ConsolidationFailed,
)
from ledger.domain.observation import NO_EVIDENCE, Observation, Support
from ledger.domain.question import indexed
from ledger.domain.text import fingerprint, normalise
from projections.core.conditions import Conditions
from projections.core.rows import CURRENT, AsOf, Rows, Table, TextIndex, Values, by_status, checked, rows_among
from projections.core.subjects import Change, end, ended, family, keep
from projections.search.text_hits import source_of
from projections.views import control, documents
from projections.views.quarantine import free
from projections.views.sessions import hides

FAMILY = family(
    "o",
    Observation,
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
# A source of an observation; one that was withdrawn keeps its row, so that it can be put back with its time.
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
EVIDENCE_WAS = ended(EVIDENCE, "evidence_was", ("source", ""))  # undo and erasure ask what a source ever supported
# Which active observations say the same in the same scope, by keyed fingerprint.
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
SEARCH = TextIndex("observation_search", ("text",), WAITING, lambda kept: (indexed(kept[0]),))
SOURCE = source_of(SEARCH, "bm25(observation_search)", OBSERVATIONS)
# How far the sources of a scope have been looked at: each run that was completed, and each that failed.
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


class Observations:
    name, version, follows = "observations", 3, frozenset("o")
    tables = (OBSERVATIONS, VERSIONS, EVIDENCE, EVIDENCE_WAS, STATEMENTS, SEARCH, WAITING)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        for change in changes:
            keep(change, rows, FAMILY)
            if _indexed(change.old) != _indexed(change.new):
                rows.index(SEARCH, change.first, _indexed(change.old), _indexed(change.new))
            self._statements(change, rows)
            if change.refold:
                self._again(change, rows)
            elif change.new is not None:
                self._evidence(change, rows)

    def _statements(self, change: Change, rows: Rows) -> None:
        before, after = self._statement(change.old), self._statement(change.new)
        if before != after:
            if before is not None:
                rows.remove(STATEMENTS, (before, change.first))
            if after is not None:
                rows.put(STATEMENTS, (after, change.first), (after, change.first))

    def _statement(self, state: Observation | None) -> int | None:
        if state is None or state.status != "active":
            return None
        return statement(self._secret, state.user, state.project, state.tags, state.text)

    @staticmethod
    def _evidence(change: Change, rows: Rows) -> None:
        if not isinstance(change.event.data, observation.BEARING):
            return
        known = {row[1]: row for row in rows.find(EVIDENCE, ("observation",), (change.first,))}
        supports = {source: _support(row) for source, row in known.items()}
        for each in observation.changed_evidence(change.event.data, supports):
            _put(rows, change, known.get(each.source), each, change.event.position)

    @staticmethod
    def _again(change: Change, rows: Rows) -> None:
        known = {row[1]: row for row in rows.find(EVIDENCE, ("observation",), (change.first,))}
        supports_now = observation.supports(change.in_effect) if change.new is not None else {}
        for source, row in known.items():
            if source not in supports_now:
                end(rows, EVIDENCE, EVIDENCE_WAS, row, change.event.position)
        for source, (each, _) in supports_now.items():
            _put(rows, change, known.get(source), each, change.event.position)


def _put(rows: Rows, change: Change, before: Values | None, now: Support, position: int) -> None:
    if before is not None:
        if _support(before) == now:
            return
        end(rows, EVIDENCE, EVIDENCE_WAS, before, position)
    key = (change.first, now.source)
    rows.put(EVIDENCE, key, (*key, now.at, now.withdrawn, position))


def _support(row: Values) -> Support:
    return Support(row[1], row[2], row[3])


def _indexed(state: Observation | None) -> Values | None:
    return None if state is None or state.text is None else (state.text.replace("\0", " "),)


def statement(
    secret: bytes, user: str | None, project: str | None, tags: Sequence[str], text: str | None
) -> int | None:
    """One number for "the same user, project, tags and normalised text"; an erased text has none."""
    if user is None or text is None:
        return None
    return fingerprint(secret, user, project, *sorted(tags), normalise(text))


class Consolidations:
    name, version = "consolidations", 2
    follows = frozenset(each.__name__ for each in (*WAYS_BACK, ConsolidationCompleted, ConsolidationFailed))
    tables = (CONSOLIDATIONS,)

    def fold(self, event: AnyEvent, changes: Sequence[Change], rows: Rows) -> None:
        data, envelope = event.data, event.envelope
        if isinstance(data, ConsolidationCompleted | ConsolidationFailed):
            tags = msgspec.json.encode(data.tags).decode() if data.tags is not None else None
            values = (envelope.user, envelope.project, data.over, tags, data.consolidator, data.to)
            error = data.error if isinstance(data, ConsolidationFailed) else ""
            rows.put(CONSOLIDATIONS, (event.position,), (event.position, *values, error, envelope.recorded_at, None))
        elif isinstance(data, WAYS_BACK):
            for row in rows.within(CONSOLIDATIONS, "position", data.ranges):
                rows.put(CONSOLIDATIONS, row[:1], (*row[:-1], control.since(rows, row[0])))


# --- reads -----------------------------------------------------------------------------------------------------------


class Proof(Struct, frozen=True):
    """A source of an observation as it is now: ``live`` unless it was ``withdrawn`` (why: "asked", "contradicted"), or was
    itself hidden, quarantined, undone or erased."""

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
    before: int | None = None,
    limit: int,
) -> list[Observation]:
    """Observations of one user, newest first; ``projects`` may hold None for those of no project."""
    where = Conditions("user = ?", user)
    where.among("status", statuses)
    where.of_projects(projects)
    where.given("row < ?", before)
    return FAMILY.listed(connection, where, limit)


def evidence(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, list[Proof]]:
    """The sources of observations, oldest first, each with whether it is live."""
    found: dict[int, list[tuple[str, str, str]]] = {row: [] for row in rows}
    columns = ("observation", "source", "at", "withdrawn")
    sql = f"SELECT {', '.join(columns)} FROM evidence WHERE observation IN {{}} ORDER BY observation, at, source"
    for row, source, at, withdrawn in checked(EVIDENCE, columns, rows_among(connection, sql, rows)):
        found[row].append((source, at, withdrawn))
    alive = live(connection, {source for cited in found.values() for source, _, _ in cited})
    return {
        row: [Proof(source, at, gone, not gone and source in alive) for source, at, gone in cited]
        for row, cited in found.items()
    }


_ERASED = [  # of an interaction: the texts in the event that captured it and in the one with its response; "null" if erased
    f"coalesce(json_type({event}.state, '$.data.{field}'), '')"
    for event in ("e", "r")
    for field in ("prompt", "response", "summary")
]
_MESSAGES = "messages t CROSS JOIN sessions s ON s.row = t.session CROSS JOIN events e ON e.position = t.row"
_LIVE = {  # what makes a source of each kind count
    "m": "SELECT e.stream FROM events e CROSS JOIN memories t ON t.row = e.position WHERE e.stream IN {} AND e.version = 1"
    " AND t.status = 'active' AND t.quarantined = 0 AND t.user IS NOT NULL",
    "i": "SELECT e.stream FROM events e CROSS JOIN interactions t ON t.row = e.position"
    " LEFT JOIN events r ON r.position = t.response_at WHERE e.stream IN {}"
    f" AND e.version = 1 AND t.user IS NOT NULL AND {free('t.prompt_at')} AND {free('t.response_at')}"
    " AND (coalesce(e.erased_by, r.erased_by) IS NULL"  # most are not, and then nothing of their texts is read
    f" OR 'null' NOT IN ({', '.join(_ERASED)}))",
    "c": "SELECT t.id FROM chunks t CROSS JOIN documents d ON d.row = t.document WHERE t.id IN {}"
    f" AND d.status = 'active' AND t.size IS NOT NULL AND {free('t.row')}",
    "s": f"SELECT s.id || ':' || t.row FROM {_MESSAGES} WHERE t.row IN {{}} AND s.user IS NOT NULL AND {free('t.row')}"
    f" AND NOT {hides('t')} AND (e.erased_by IS NULL OR coalesce(json_type(e.state, '$.data.content'), '') <> 'null'"
    " AND coalesce(json_type(e.state, '$.data.parts'), '') <> 'null')",
}


def is_live(source: str) -> str:
    """SQL: a source counts, by an expression for its id."""
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
    """Which of these sources count: active memories, interactions no text of which was erased, chunks that their documents
    have, and messages that nothing hides; nothing that is in quarantine."""
    found: set[str] = set()
    for kind, given in _by_kind(sources).items():
        alive = rows_among(connection, _LIVE[kind], _keys(kind, given))
        found.update(source for (source,) in alive if kind != "s" or source in given)
    return found


def without_a_text(connection: sqlite3.Connection, positions: Iterable[int]) -> bool:
    """Whether a text of one of these events of interactions was erased."""
    fields = ", ".join(each for each in _ERASED if "e.state" in each)
    sql = f"SELECT 1 FROM events e WHERE e.position = ? AND e.erased_by IS NOT NULL AND 'null' IN ({fields})"
    return any(connection.execute(sql, (position,)).fetchone() is not None for position in positions)


def in_quarantine(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, set[int]]:
    """The positions of the wordings of these observations that are in quarantine."""
    found: dict[str, set[int]] = {}
    if connection.execute("SELECT 1 FROM quarantine LIMIT 1").fetchone() is None:
        return found
    sql = "SELECT e.stream, e.position FROM events e CROSS JOIN quarantine q ON q.at = e.position WHERE e.stream IN {}"
    for id, position in rows_among(connection, sql, sorted(ids)):
        found.setdefault(id, set()).add(position)
    return found


def times_of(connection: sqlite3.Connection, sources: Iterable[str]) -> dict[str, str]:
    """When what these sources say was so: from when a memory holds, when an interaction was, when a text was taken in."""
    found: dict[str, str] = {}
    for kind, given in _by_kind(sources).items():
        for source, time in rows_among(connection, _TIMES[kind], _keys(kind, given)):
            found[source] = times.moment("occurred_at", time)
    return found


def project_of(connection: sqlite3.Connection, source: str) -> str | None:
    """The project of a source; None where it is of none."""
    sql = {
        "m": "SELECT t.project FROM events e CROSS JOIN memories t ON t.row = e.position WHERE e.stream = ? AND e.version = 1",
        "i": "SELECT t.project FROM events e CROSS JOIN interactions t ON t.row = e.position"
        " WHERE e.stream = ? AND e.version = 1",
        "c": "SELECT d.project FROM chunks t CROSS JOIN documents d ON d.row = t.document WHERE t.id = ?",
        "s": f"SELECT s.project FROM {_MESSAGES} WHERE t.row = ?",
    }[source[0]]
    found = connection.execute(sql, _keys(source[0], [source])).fetchone()
    return found[0] if found is not None else None


def supported_by(connection: sqlite3.Connection, sources: Iterable[str]) -> list[int]:
    """The rows of the observations that any of these supports, and that are not erased."""
    sql = (
        "SELECT e.observation FROM evidence e CROSS JOIN observations o ON o.row = e.observation"
        " WHERE e.source IN {} AND e.withdrawn = '' AND o.status != 'erased'"
    )
    return sorted({row for (row,) in rows_among(connection, sql, sorted(sources))})


def waiting_for(connection: sqlite3.Connection, sources: Iterable[str], alive: Iterable[str]) -> list[int]:
    """The rows of the observations that these sources were withdrawn from because somebody asked, and of those that were
    retracted for want of evidence although they cite one of the ``alive``."""
    found: set[int] = set()
    of = "SELECT e.observation FROM evidence e CROSS JOIN observations o ON o.row = e.observation WHERE e.source IN"
    asked = "o.status != 'erased' AND e.withdrawn = 'asked'"
    wanting = "o.status = 'retracted' AND o.retracted = 'no_evidence' AND e.withdrawn = ''"
    for given, which in ((sources, asked), (alive, wanting)):
        found.update(row for (row,) in rows_among(connection, f"{of} {{}} AND {which}", sorted(given)))
    return sorted(found)


def retired_without(connection: sqlite3.Connection, source: str) -> list[str]:
    """The observations that were retracted for want of evidence although they cite this source, or a chunk of it."""
    sql = (
        "SELECT o.id FROM evidence e CROSS JOIN observations o ON o.row = e.observation"
        f" WHERE e.source = ? AND o.retracted = '{NO_EVIDENCE}'"
    )
    cited = (source, *parts(connection, source))
    return [id for each in cited for (id,) in connection.execute(sql, (each,))]


def parts(connection: sqlite3.Connection, subject: str) -> list[str]:
    """What of a subject is cited by itself: every chunk that a document has or had, and the messages of a session that
    observations rest on, or ever did."""
    if subject.startswith("d_"):
        return documents.chunk_ids(connection, subject)
    if not subject.startswith("s_") or len(subject) != ids.LENGTH:
        return []
    span = (f"{subject}:", f"{subject};")
    sql = " UNION ".join(
        f"SELECT source FROM {each} WHERE source > ? AND source < ?" for each in ("evidence", "evidence_was")
    )
    return [source for (source,) in connection.execute(sql, (*span, *span))]


def merged_into(connection: sqlite3.Connection, observation: str) -> list[str]:
    """The observations that were retracted into another."""
    return [id for (id,) in connection.execute("SELECT id FROM observations WHERE merged_into = ?", (observation,))]


def sources_named(connection: sqlite3.Connection, given: str, user: str) -> list[str]:
    """The sources of a user that an id, or an unambiguous beginning of it, stands for: itself, or the chunks of a document.

    What was undone is found by its full id, for it may be cited all the same.
    """
    if given[:2] == "c_":
        chunk = documents.find_chunk(connection, given, user)
        return [chunk.id] if chunk is not None else []
    if (place := ids.message_place(given)) is not None:
        sql = (
            "SELECT json_extract(e.state, '$.data.interaction') FROM events e CROSS JOIN audit a ON a.position = e.position"
            " WHERE e.stream = ? AND e.position = ? AND e.type = 'MessageAppended' AND a.user = ?"
        )
        message = connection.execute(sql, (*place, user)).fetchone()
        return [message[0] or given] if message is not None else []
    sql = (
        "SELECT DISTINCT e.stream FROM events e CROSS JOIN audit a ON a.position = e.position"
        " WHERE e.stream >= ? AND e.stream < ? AND e.version = 1 AND a.user = ? LIMIT 2"
    )
    found = [stream for (stream,) in connection.execute(sql, (given, given + "~", user))] if len(given) > 2 else []
    if len(found) != 1 or given[:2] not in ("m_", "i_", "d_"):
        return []
    return sorted(documents.chunk_ids(connection, found[0])) if given[0] == "d" else found


def with_statement(rows: Rows, number: int) -> list[int]:
    """The rows of the active observations with this fingerprint, oldest first, under the writer's lock."""
    return [row[1] for row in rows.find(STATEMENTS, ("fingerprint",), (number,))]


def counts(connection: sqlite3.Connection, user: str) -> dict[str, int]:
    """How many observations of a user have each status."""
    sql = "SELECT status, count(*) FROM observations WHERE user = ? GROUP BY status ORDER BY status"
    return by_status(FAMILY.live, connection.execute(sql, (user,)))


def ever_supported_by(connection: sqlite3.Connection, source: str) -> list[int]:
    """The rows of the observations that a source supports, or ever did, also of those that were undone."""
    tables = ("evidence", "evidence_was")
    sql = " UNION ".join(f"SELECT observation FROM {table} WHERE source = ?" for table in tables)
    return [row for (row,) in connection.execute(f"{sql} ORDER BY 1", (source, source))]


def support_of(rows: Rows, row: int) -> list[Support]:
    """The evidence of an observation under the writer's lock."""
    return [_support(each) for each in rows.find(EVIDENCE, ("observation",), (row,))]


def looked_at(
    connection: sqlite3.Connection,
    user: str,
    project: str | None,
    over: str,
    consolidator: str,
    tags: Sequence[str] = (),
) -> int:
    """Up to which log position the sources of a scope have been looked at; 0 for not at all."""
    sql = (
        "SELECT max(upto) FROM consolidations WHERE user = ? AND project IS ? AND over = ? AND consolidator = ?"
        " AND coalesce(tags, '[]') = ? AND error = '' AND undone_at IS NULL"
    )
    encoded = msgspec.json.encode(tuple(tags)).decode()
    return int(connection.execute(sql, (user, project, over, consolidator, encoded)).fetchone()[0] or 0)


def _by_kind(sources: Iterable[str]) -> dict[str, list[str]]:
    """The sources of each kind that can bear something out."""
    kinds: dict[str, list[str]] = {}
    for source in sorted(sources):
        if source[:1] in _LIVE:
            kinds.setdefault(source[:1], []).append(source)
    return kinds


def _keys(kind: str, sources: Sequence[str]) -> Sequence[str | int]:
    """What the rows of these sources are looked up by: of a message its position."""
    return [int(each.partition(":")[2]) for each in sources] if kind == "s" else sources
