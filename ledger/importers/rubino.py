"""The importer of the kind "rubino": the SQLite database of Rubino, with facts, their graph, and the messages of sessions.

A fact that is over has the time of its end and, if another fact took its place, the id of that fact. Deleted facts are not in the
database. A model found the facts, or the user's agent stored them, so their channel is "agent". Child sessions begin with copies
of their parent's messages, which are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ledger.importers.records import MovedStatement, MovedTurn, Record
from ledger.importers.source import DATABASES, Object, Part, Source, json_list, number_of, pairs, text_of, utc
from ledger.importers.succession import Successions
from ledger.types import Triple

CLIENT = "rubino"
SUPERSEDED = "superseded in rubino"
_TABLES = frozenset(
    (
        *("memory_facts", "memory_entities", "memory_edges", "memories", "sessions", "messages", "session_summaries"),
        *(
            "tool_calls",
            "compactions",
            "jobs",
            "job_runs",
            "events",
            "runs",
            "skill_states",
            "cron_jobs",
            "schema_info",
        ),
        *("oauth_connections", "webhook_deliveries", "schema_migrations"),
    )
)
_FACTS = """
SELECT f.*, r.relations FROM memory_facts AS f LEFT JOIN (
    SELECT e.source_fact_id AS fact, json_group_array(json_array(s.name, e.relation, d.name)) AS relations
    FROM memory_edges AS e
    JOIN memory_entities AS s ON s.id = e.src_entity_id JOIN memory_entities AS d ON d.id = e.dst_entity_id
    WHERE e.valid_to IS NULL AND e.relation <> 'co_occurs' GROUP BY e.source_fact_id
) AS r ON r.fact = f.id ORDER BY f.rowid
"""
_MESSAGES = """
SELECT m.*, s.parent_session_id AS parent, s.title, s.cwd FROM messages AS m LEFT JOIN sessions AS s ON s.id = m.session_id
ORDER BY s.rowid, m.rowid
"""


def recognizes(source: Source) -> bool:
    """Return True for a database with the facts of Rubino."""
    columns = {"text", "kind", "valid_from", "valid_to", "superseded_by"}
    return any(columns <= source.columns(part, "memory_facts") for part in source.files(*DATABASES))


def records(source: Source) -> Iterator[Record]:
    """Yield the turns of the sessions, then the facts, oldest first."""
    for part in source.files(*DATABASES):
        if "superseded_by" not in source.columns(part, "memory_facts"):
            source.skip("a file that is no database of rubino")
            continue
        if source.columns(part, "messages") and source.columns(part, "sessions"):
            yield from _Sessions(source, part).turns()
        successions, has_graph = Successions(SUPERSEDED), bool(source.columns(part, "memory_edges"))
        for row in source.select(part, _FACTS if has_graph else "SELECT * FROM memory_facts ORDER BY rowid"):
            if (statement := _fact(source, row)) is not None:
                newer = text_of(row.get("superseded_by"))
                yield from successions.place(statement, f"rubino:{newer}" if newer and row.get("valid_to") else None)
        yield from successions.rest()
        if source.columns(part, "memories"):
            for row in source.select(part, "SELECT * FROM memories ORDER BY created_at, rowid"):
                yield from _older(source, row)
        _leave(source, part, has_graph=has_graph)
        source.read_bytes += part.size


def _leave(source: Source, part: Part, *, has_graph: bool) -> None:
    """Count what is left out."""
    ended = "valid_to IS NOT NULL AND relation <> 'co_occurs'"
    for table, reason, condition in (
        ("memory_edges", "a relation that is over", ended),
        ("session_summaries", "a summary of a session, whose messages come along", "1"),
        ("memory_facts", "a vector, which does not say of which model it is", "embedding IS NOT NULL"),
    ):
        is_there = has_graph or table != "memory_edges"
        if is_there and (count := source.count(part, table, condition)):
            source.skip(reason, count)
    source.meet_tables(part, _TABLES)


def _fact(source: Source, row: Object) -> MovedStatement | None:
    id, text = text_of(row.get("id")), row.get("text")
    if not id or not isinstance(text, str):
        source.skip("a fact without an id or a text")
        return None
    is_over, newer, confidence = bool(row.get("valid_to")), row.get("superseded_by"), number_of(row.get("confidence"))
    return MovedStatement(
        key=f"rubino:{id}",
        content=text,
        kind=text_of(row.get("kind")) or "user_profile",
        status="superseded" if is_over else "active",
        at=utc(row.get("valid_from") or row.get("created_at")),
        ended_at=utc(row.get("valid_to")),
        reason=SUPERSEDED if is_over else "",
        confidence=confidence,
        session=text_of(row.get("source_session_id")) or None,
        entities=tuple(name for each in json_list(row.get("entities_json")) if (name := _name(each))),
        relations=tuple(_relations(row.get("relations"))),
        channel="agent",
        metadata=pairs({"rubino": id, "confidence": confidence, "superseded_by": newer}),
    )


def _older(source: Source, row: Object) -> Iterator[MovedStatement]:
    """Yield a memory of the store that Rubino had before its facts."""
    id, content = text_of(row.get("id")), row.get("content")
    if not id or not isinstance(content, str):
        source.skip("a memory without an id or a content")
        return
    confidence = number_of(row.get("confidence"))
    yield MovedStatement(
        key=f"rubino:memory:{id}",
        content=content,
        kind=text_of(row.get("kind")) or "user_profile",
        at=utc(row.get("created_at")),
        confidence=confidence,
        session=text_of(row.get("source_session_id")) or None,
        channel="agent",
        metadata=pairs({"rubino": id, "confidence": confidence}),
    )


def _name(entity: object) -> str:
    return text_of(entity.get("name")) if isinstance(entity, dict) else text_of(entity)


def _relations(value: object) -> Iterator[Triple]:
    for each in json_list(value):
        names = tuple(map(text_of, each)) if isinstance(each, list) else ()
        if len(names) == 3 and all(names):
            yield names[0], names[1], names[2]


class _Sessions:
    """The messages of a database, session by session, which become turns: a prompt with the answers until the next one."""

    def __init__(self, source: Source, part: Part) -> None:
        self._source, self._part = source, part
        self._session = ""
        self._copies = set[bytes]()  # what the parent of the session has said

    def turns(self) -> Iterator[MovedTurn]:
        """Yield the turns, oldest first in each session."""
        prompt: Object | None = None
        answers = list[str]()
        for row in self._source.select(self._part, _MESSAGES):
            if row.get("session_id") != self._session:
                if prompt is not None:
                    yield self._turn(prompt, answers)
                prompt, answers = None, []
                self._begin(row)
            role, content = row.get("role"), row.get("content")
            if role not in ("user", "assistant"):
                self._leave(role)
            elif not isinstance(content, str) or not content.strip():
                self._source.skip("a message without words")
            elif _said(row) in self._copies:
                self._source.skip("a message that a child session has from its parent")
            elif role == "user":
                self._copies.clear()  # the child has begun to speak for itself
                if prompt is not None:
                    yield self._turn(prompt, answers)
                prompt, answers = row, []
            elif prompt is None:
                self._source.skip("an answer without a prompt")
            else:
                answers.append(content)
        if prompt is not None:
            yield self._turn(prompt, answers)

    def _begin(self, row: Object) -> None:
        self._session = str(row.get("session_id"))
        parents = self._source.select(
            self._part, "SELECT role, content FROM messages WHERE session_id = ?", row.get("parent")
        )
        self._copies = {_said(parent) for parent in parents}

    def _leave(self, role: object) -> None:
        if role in ("tool", "system", "developer"):
            self._source.skip(f"a message of the role {role}")
        else:
            self._source.meet(f"role {role}")

    def _turn(self, row: Object, answers: list[str]) -> MovedTurn:
        return MovedTurn(
            key=text_of(row.get("id")) or f"rubino:{self._session}:{row.get('created_at')}",
            prompt=str(row["content"]),
            response="\n\n".join(answers),
            session=text_of(row.get("session_id")) or None,
            at=utc(row.get("created_at")),
            folder=text_of(row.get("cwd")),
            extract=False,
            metadata=pairs({"title": row.get("title")}),
        )


def _said(row: Object) -> bytes:
    return hashlib.blake2b(
        f"{row.get('role')}\0{row.get('content')}".encode("utf-8", "replace"), digest_size=8
    ).digest()
