"""The SQL views for people: readable columns over the tables of the projections, stable across versions.

The views lie in the file, for any tool that reads SQLite. SQLite merges a view into the query, so a text or a name is looked up
only if the query uses its column. Names that begin with ``my_`` belong to the users; no version of the product touches them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from msgspec import Struct

from ledger.domain.confidence import MOST_BY_PROOF, OBSERVATION_CONFIDENCE, ONE, PROOF_STEP
from projections.core import own_registry as registry
from projections.core.own import PREFIX
from projections.core.rows import Connection, DatabaseError
from projections.views.observations import is_live

# The share of the rows that one user has, as a hint: without it SQLite prefers the index of users to the index of project names.
OF_ONE_USER = 0.05
SALT_BYTES = 16  # the length of the salt before the text of a blob


class View(Struct, frozen=True):
    """A view: the expression of each column by name, and the source of the rows.

    ``closed`` is a second source of rows. Its columns are the same, except for those in ``of_closed``.
    """

    columns: Mapping[str, str]
    source: str
    closed: str = ""
    of_closed: Mapping[str, str] = {}

    def sql(self, log: str, user: str = "") -> str:
        """Return the SELECT of the view.

        Args:
            log: The table in which subjects are looked up by position.
            user: An SQL expression for the user whose rows are selected; "" for all users.
        """
        parts = [(self.columns, self.source)] + (
            [({**self.columns, **self.of_closed}, self.closed)] if self.closed else []
        )
        selects = (
            f"SELECT {', '.join(f'{value} AS {name}' for name, value in columns.items())} FROM {source}"
            + (f" WHERE likelihood({columns['user']} = {user}, {OF_ONE_USER})" if user else "")
            for columns, source in parts
        )
        return " UNION ALL ".join(selects).replace("$log", log)


def _text(field: str, position: str) -> str:
    """Return the SQL for a text field of the event at a position.

    The text lies in the event's state, or above 256 KiB in a blob behind the salt. An erased text is NULL.
    """
    value = f"json_extract(x.state, '$.data.{field}')"
    blob = f"(SELECT CAST(substr(b.data, {SALT_BYTES + 1}) AS TEXT) FROM blobs b WHERE b.id = {value[:-2]}.blob'))"
    return (
        f"(SELECT CASE json_type(x.state, '$.data.{field}') WHEN 'object' THEN {blob} WHEN 'null' THEN NULL"
        f" ELSE coalesce({value}, '') END FROM events x WHERE x.position = {position})"
    )


# The name of a project, or of the project that it was joined into.
_UP = (
    "(WITH RECURSIVE up(id, step) AS (SELECT n.id, 0 UNION ALL SELECT (SELECT j.target FROM project_joins j"
    " WHERE j.project = up.id AND EXISTS (SELECT 1 FROM projects t WHERE t.id = j.target AND t.name IS NOT NULL)"
    " ORDER BY j.joined_at DESC LIMIT 1), up.step + 1 FROM up WHERE up.id IS NOT NULL AND up.step < 100)"
    " SELECT t.name FROM up CROSS JOIN projects t ON t.id = up.id ORDER BY up.step DESC LIMIT 1)"
)
_FOUND = f"CASE WHEN EXISTS (SELECT 1 FROM project_joins j WHERE j.project = n.id) THEN {_UP} ELSE n.name END"
_PROJECT = "p.name"


def _in_project(table: str) -> str:
    """Return the SQL that joins the project of a table's rows, with the name as a plain column.

    Only a plain column lets SQLite begin with the projects of a name when a query asks for that name.
    """
    projects = f"(SELECT n.id AS id, n.user AS user, {_FOUND} AS name FROM projects n)"
    return f"LEFT JOIN {projects} p ON p.id = {table}.project AND p.user IS {table}.user"


def _in_session(table: str) -> str:
    return (
        f"LEFT JOIN $log w ON w.stream = {table}.session AND w.version = 1 LEFT JOIN sessions s ON s.row = w.position"
    )


def _millionths(value: str) -> str:
    return f"{value} / {ONE}.0"


def _list(value: str) -> str:
    return f"coalesce({value}, '[]')"


def _object(value: str) -> str:
    return f"coalesce(json({value}), '{{}}')"


_MEMORY = {
    "id": "m.id",
    "content": "m.content",
    "kind": "m.kind",
    "status": "m.status",
    "confidence": _millionths("m.confidence"),
    "user": "m.user",
    "agent": "m.agent",
    "project": _PROJECT,
    "project_id": "m.project",
    "reference_count": "m.reference_count",
    "last_referenced_at": "m.last_referenced_at",
    "entities": _list("m.entities"),
    "tags": _list("m.tags"),
    "sources": _list("m.sources"),
    "metadata": _object("m.metadata"),
    "valid_from": "m.valid_from",
    "valid_to": "m.valid_to",
    "supersedes": "m.supersedes",
    "superseded_by": "m.superseded_by",
    "quarantined": "m.quarantined",
    "recorded_at": "m.recorded_at",
    "active_at": "m.active_at",
    "stated_at": "m.stated_at",
    "first_position": "m.row",
    "position": "m.from_position",
}
_BELIEFS = View(_MEMORY, f"memories m {_in_project('m')}")
_OF_A_VERSION = (
    f"LEFT JOIN $log f ON f.position = m.row {_in_project('m')} LEFT JOIN audit a ON a.position = m.from_position"
)
_HISTORY = View(
    {
        **_MEMORY,
        "id": "f.stream",
        "to_position": "NULL",
        "version": "m.version",
        "event": "a.type",
        "changed_at": "a.recorded_at",
        "actor": "a.actor",
        "command": "a.command",
    },
    f"memories m {_OF_A_VERSION}",
    f"memory_versions m {_OF_A_VERSION}",
    {"to_position": "m.to_position"},
)
_TIMELINE = View(
    {
        "memory": "f.stream",
        "user": "a.user",
        "position": "c.position",
        "recorded_at": "c.recorded_at",
        "event": "c.type",
        "delta": _millionths("c.delta"),
        "confidence": _millionths("c.confidence"),
        "reference_count": "c.reference_count",
        "rule": "c.rule",
        "interaction": "c.interaction",
        "matcher": "c.matcher",
        "fraction": _millionths("c.fraction"),
        "echo": "c.echo",
        "in_effect": "c.undone_at IS NULL",
        "first_position": "c.memory",
    },
    "confidence_steps c LEFT JOIN $log f ON f.position = c.memory LEFT JOIN audit a ON a.position = c.position",
)
_DATA = "(SELECT json_remove(json_extract(x.state, '$.data'), '$.secret') FROM events x WHERE x.position = a.position)"
_WORDS, _PROMPT = (_text(field, "a.position") for field in ("content", "prompt"))
_CONTENT = f"CASE {_WORDS} WHEN '' THEN {_PROMPT} ELSE {_WORDS} END"
_TRAIL = View(
    {
        "position": "a.position",
        "recorded_at": "a.recorded_at",
        "subject": "a.subject",
        "event": "a.type",
        "command": "a.command",
        "command_id": "a.command_id",
        "user": "a.user",
        "actor": "a.actor",
        "client": "a.client",
        "channel": "a.channel",
        "agent": "a.agent",
        "project": _PROJECT,
        "project_id": "a.project",
        "session": "s.name",
        "session_id": "a.session",
        "event_id": "a.event_id",
        "causation_id": "a.causation_id",
        "correlation_id": "a.correlation_id",
        "in_effect": "NOT EXISTS (SELECT 1 FROM voided v WHERE v.position = a.position)",
        "content": _CONTENT,
        "data": _DATA,
    },
    f"audit a {_in_project('a')} {_in_session('a')}",
)
_INTERACTIONS = View(
    {
        "id": "i.id",
        "prompt": _text("prompt", "i.prompt_at"),
        "response": f"CASE WHEN i.response_at IS NULL THEN '' ELSE {_text('response', 'i.response_at')} END",
        "summary": f"CASE WHEN i.response_at IS NULL THEN '' ELSE {_text('summary', 'i.response_at')} END",
        "user": "i.user",
        "agent": "i.agent",
        "client": "i.client",
        "project": _PROJECT,
        "project_id": "i.project",
        "session": "s.name",
        "session_id": "i.session",
        "memories_used": _list("i.memories_used"),
        "chunks_used": _list("i.chunks_used"),
        "metadata": _object("i.metadata"),
        "reinforcement": "i.reinforcement",
        "extraction": "i.extraction",
        "quarantined": "EXISTS (SELECT 1 FROM quarantine q WHERE q.at IN (i.prompt_at, i.response_at))",
        "occurred_at": "coalesce(nullif(i.occurred_at, ''), i.recorded_at)",
        "recorded_at": "i.recorded_at",
        "first_position": "i.row",
        "position": "i.from_position",
    },
    f"interactions i {_in_project('i')} {_in_session('i')}",
)
_PROOF = f"(SELECT count(*) FROM evidence v WHERE v.observation = o.row AND v.withdrawn = '' AND {is_live('v.source')})"
_PROVEN = (
    f"CASE WHEN o.proof = 0 THEN 0.0 WHEN o.rule = 'given/1' THEN {_millionths('o.confidence')} ELSE"
    f" min({MOST_BY_PROOF}, {OBSERVATION_CONFIDENCE} + {PROOF_STEP} * (o.proof - 1)) / {ONE}.0 END"
)
_CITED = "SELECT 1 FROM evidence v WHERE v.observation = o.row AND v.source = k.value"
_GONE = (  # true if a source that the observation was written from is no longer live
    "EXISTS (SELECT 1 FROM json_each(coalesce(o.written_from, '[]')) k"
    f" WHERE NOT ({is_live('k.value')} AND NOT EXISTS ({_CITED} AND v.withdrawn <> '')))"
)
_HELD = (  # true if the observation's wording is in quarantine
    "EXISTS (SELECT 1 FROM quarantine q CROSS JOIN events x ON x.position = q.at WHERE x.stream = o.id"
    " AND q.at <= o.from_position AND json_extract(x.state, '$.data.content') = o.text)"
)
_OBSERVATIONS = View(
    {
        "id": "o.id",
        "content": "o.text",
        "status": "CASE WHEN o.status = 'active' AND o.proof = 0 THEN 'unsupported' ELSE o.status END",
        "confidence": _PROVEN,
        "proof_count": "o.proof",
        "freshness": f"CASE WHEN o.stale = '' AND o.text IS NOT NULL AND o.proof > 0 AND NOT {_GONE} THEN 'fresh'"
        " ELSE 'stale' END",
        "stale": "o.stale",
        "user": "o.user",
        "agent": "o.agent",
        "project": _PROJECT,
        "project_id": "o.project",
        "tags": _list("o.tags"),
        "sources": "(SELECT json_group_array(n.source) FROM (SELECT v.source FROM evidence v WHERE v.observation = o.row"
        " ORDER BY v.at, v.source) n)",
        "written_from": _list("o.written_from"),
        "rule": "o.rule",
        "consolidator": "o.consolidator",
        "retracted": "o.retracted",
        "merged_into": "o.merged_into",
        "quarantined": _HELD,
        "recorded_at": "o.recorded_at",
        "revised_at": "o.revised_at",
        "first_position": "o.row",
        "position": "o.from_position",
    },
    f"(SELECT *, {_PROOF} AS proof FROM observations o) o {_in_project('o')}",
)


def _hidden(column: str) -> str:
    return f"(SELECT coalesce(sum(h.{column}), 0) FROM hidden_messages h WHERE h.session = t.row)"


_SESSIONS = View(
    {
        "id": "t.id",
        "name": "t.name",
        "aliases": _list("t.aliases"),
        "user": "t.user",
        "project": _PROJECT,
        "project_id": "t.project",
        "messages": f"t.messages - {_hidden('messages')}",
        "tokens": f"t.tokens - {_hidden('tokens')}",
        "hidden": _hidden("messages"),
        "turns": "(SELECT count(*) FROM interactions i WHERE i.session = t.id)",
        "metadata": _object("t.metadata"),
        "cursor": "t.cursor",
        "recorded_at": "t.recorded_at",
        "updated_at": "t.updated_at",
        "first_position": "t.row",
        "position": "t.from_position",
    },
    f"sessions t {_in_project('t')}",
)
_CHUNKS = (
    "(SELECT group_concat(n.content, '') FROM (SELECT json_extract(x.state, '$.data.content') AS content FROM chunks c"
    " CROSS JOIN events x ON x.position = c.row WHERE c.document = d.row ORDER BY c.chunk_index) n)"
)
_DOCUMENTS = View(
    {
        "id": "d.id",
        "title": "d.title",
        "path": "nullif(d.path, '')",
        "type": "d.doc_type",
        "status": "d.status",
        "user": "d.user",
        "agent": "d.agent",
        "project": _PROJECT,
        "project_id": "d.project",
        "tags": _list("d.tags"),
        "metadata": _object("d.metadata"),
        "size": "d.size",
        "chunk_count": "d.chunks",
        "content": _CHUNKS,
        "recorded_at": "d.recorded_at",
        "updated_at": "d.updated_at",
        "first_position": "d.row",
        "position": "d.from_position",
    },
    f"documents d {_in_project('d')}",
)
_VALUES = View(
    {
        "id": "v.id",
        "namespace": "CASE WHEN v.place IS NOT NULL THEN '[' || rtrim(v.place, ',') || ']' END",
        "name": "v.name",
        "content": _text("content", "v.content_at"),
        "type": "v.type",
        "status": "v.status",
        "user": "v.user",
        "agent": "v.agent",
        "size": "v.size",
        "indexed": "v.indexed",
        "expires_at": "v.expires_at",
        "recorded_at": "v.recorded_at",
        "updated_at": "v.updated_at",
        "first_position": "v.row",
        "position": "v.from_position",
    },
    "keyed_values v",
)
_DELIVERIES = View(
    {
        "subject": "d.subject",
        "first_shown": "nullif(d.first, 0)",
        "last_shown": "nullif(d.last, 0)",
        "event": "a.type",
        "user": "d.user",
        "agent": "a.agent",
        "session": "s.name",
        "session_id": "a.session",
        "recorded_at": "a.recorded_at",
        "position": "d.position",
    },
    f"delivered d LEFT JOIN audit a ON a.position = d.position {_in_session('a')}",
)
VIEWS = {
    "beliefs": _BELIEFS,
    "memory_history": _HISTORY,
    "confidence_timeline": _TIMELINE,
    "audit_trail": _TRAIL,
    "interactions_text": _INTERACTIONS,
    "observations_now": _OBSERVATIONS,
    "sessions_now": _SESSIONS,
    "documents_now": _DOCUMENTS,
    "values_now": _VALUES,
    "deliveries": _DELIVERIES,
}


# --- the views in the file -----------------------------------------------------------------------------------------------------


@cache
def definitions() -> Mapping[str, str]:
    """Return the SQL that creates each view; SQLite keeps exactly this text."""
    return {name: f"CREATE VIEW {name} AS {view.sql('events')}" for name, view in VIEWS.items()}


def unfit(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield the views that are missing in the file (with "") or differ from ``definitions`` (with "view").

    If a user has a table under the name of a view, nothing is reported and the table stays.
    """
    # Read as BLOB: a damaged or foreign schema may hold bytes that are no text.
    rows = connection.execute("SELECT type, name, CAST(sql AS BLOB) FROM main.sqlite_master")
    stored = {name: (kind, sql) for kind, name, sql in rows}
    for name, create in definitions().items():
        kind, sql = stored.get(name, ("", b""))
        if sql != create.encode() and kind in ("", "view"):
            yield name, kind


def drop_views(connection: Connection) -> None:
    """Drop the product's views while tables are renamed: with each renaming SQLite reads every view again."""
    rows = connection.execute("SELECT name, CAST(sql AS BLOB) FROM main.sqlite_master WHERE type = 'view'").fetchall()
    for name, sql in rows:
        if name in definitions() and sql == definitions()[name].encode():
            connection.execute(f"DROP VIEW main.{name}")


def create_views(connection: Connection) -> None:
    for name, kind in list(unfit(connection)):
        if kind:
            connection.execute(f"DROP VIEW main.{name}")
        connection.execute(definitions()[name])


# --- tables and views of users --------------------------------------------------------------------------------------------------


def is_own(name: str) -> bool:
    """Return True if the name of a table, view, index or trigger says that it is a user's own."""
    return name.lower().startswith(PREFIX)


def by_hand(connection: Connection) -> list[tuple[str, str, str]]:
    """Return (kind, name, SQL that creates it) of the tables, views and indexes that users made by hand, tables first.

    The tables of users' own projections are left out, because they can be made again from the log.
    """
    folded = {name.lower() for entry in registry.entries(connection).values() for name in entry.tables}
    sql = (
        "SELECT type, name, tbl_name, CAST(sql AS BLOB) FROM main.sqlite_master"  # sql may hold bytes that are no text
        " WHERE sql IS NOT NULL ORDER BY type <> 'table', rowid"
    )
    rows = ((*row, str(create, "utf-8", "replace")) for *row, create in connection.execute(sql))
    own = [row for row in rows if is_own(str(row[1])) and is_own(str(row[2]))]
    virtual = tuple(f"{name}_" for _, name, _, create in own if create.upper().startswith("CREATE VIRTUAL"))
    kept = (row for row in own if row[2].lower() not in folded and not row[1].startswith(virtual))
    return [(kind, name, create) for kind, name, _, create in kept]


def copy_by_hand(source: Connection, target: Connection) -> list[str]:
    """Copy the tables and views that users made by hand into another file, and return the names of those that failed."""
    left = []
    for kind, name, create in by_hand(source):
        target.execute("BEGIN")
        try:
            target.execute(create)
            rows = source.execute(f'SELECT * FROM main."{name}"') if kind == "table" else None
            if rows is not None:
                marks = ", ".join("?" * len(rows.description))
                target.executemany(f'INSERT INTO main."{name}" VALUES ({marks})', rows)
            target.execute("COMMIT")
        except DatabaseError:
            target.execute("ROLLBACK")
            left.append(name)
    return left


_WRITES = re.compile(
    r"""\b(?:INTO|UPDATE(?:\s+OR\s+\w+)?|DELETE\s+FROM|REFERENCES)\s+(?:(?:main|temp)\s*\.\s*)?["'`\[]?(\w+)""",
    re.IGNORECASE,
)


# Keywords that follow UPDATE in a trigger or a foreign key, where no table follows.
_AFTER_UPDATE = frozenset(("SET", "OF", "ON", "CASCADE", "NO", "RESTRICT"))


def reaches_out(sql: str) -> str:
    """Return the first table of the product that a user's table or trigger writes to or depends on, or "" for none."""
    written = (name for name in _WRITES.findall(sql) if not is_own(name) and name.upper() not in _AFTER_UPDATE)
    return next(written, "")
