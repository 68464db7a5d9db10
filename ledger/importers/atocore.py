"""The importer of the kind "atocore": the SQLite database of ATOCore, with documents, memories, trusted state and interactions.

ATOCore writes times in UTC without an offset, and the last day of a statement as a date. Its active memories were reviewed, or
curated by hand, so their channel is "user", and their confidence comes along as it is. It keeps no successor of a memory that it
superseded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import cast, get_args

from ledger.importers.records import (
    MovedDocument,
    MovedProject,
    MovedState,
    MovedStatement,
    MovedTurn,
    Record,
)
from ledger.importers.source import (
    DATABASES,
    Object,
    Part,
    Source,
    json_list,
    json_object,
    number_of,
    pairs,
    text_of,
    utc,
)
from ledger.types import StateCategory

CLIENT = "atocore"
_STATUSES = {"candidate": "candidate", "active": "active", "superseded": "superseded", "invalid": "invalid"}
_TABLES = frozenset(
    ("source_documents", "source_chunks", "memories", "projects", "project_state", "interactions", "memory_audit")
)
_CHUNKS = """
SELECT d.*, json_group_array(json_array(c.id, c.content, c.heading_path, c.metadata)) AS chunks
FROM source_documents AS d JOIN (SELECT * FROM source_chunks ORDER BY document_id, chunk_index) AS c ON c.document_id = d.id
GROUP BY d.id ORDER BY d.ingested_at, d.id
"""


def recognizes(source: Source) -> bool:
    """Return True for a database with the memories of ATOCore."""
    columns = {"memory_type", "content", "status", "confidence", "reference_count"}
    return any(columns <= source.columns(part, "memories") for part in source.files(*DATABASES))


def records(source: Source) -> Iterator[Record]:
    """Yield projects and documents, then memories, which may come from chunks, then trusted state and interactions."""
    for part in source.files(*DATABASES):
        if "memory_type" not in source.columns(part, "memories"):
            source.skip("a file that is no database of atocore")
            continue
        tables = {table for table in _TABLES if source.columns(part, table)}
        if "projects" in tables:
            for row in source.select(part, "SELECT * FROM projects ORDER BY created_at, id"):
                if name := text_of(row.get("name")):
                    yield MovedProject(key=_key("project", row), name=name, description=text_of(row.get("description")))
        if {"source_documents", "source_chunks"} <= tables:
            yield from _documents(source, part)
        for row in source.rows(part, "memories", "created_at, rowid"):
            yield from _memory(source, row)
        if "project_state" in tables:
            yield from _states(source, part)
        if "interactions" in tables:
            for row in source.select(part, "SELECT * FROM interactions ORDER BY created_at, rowid"):
                yield from _turn(row)
        if audited := source.count(part, "memory_audit"):
            source.skip("a line of the audit, which has no decay", audited)
        source.meet_tables(part, _TABLES)


def _documents(source: Source, part: Part) -> Iterator[MovedDocument]:
    for row in source.select(part, _CHUNKS):
        chunks, keys = list[dict[str, object]](), list[str]()
        for chunk in json_list(row.get("chunks")):
            id, content, heading, metadata = (
                chunk if isinstance(chunk, list) and len(chunk) == 4 else (None, "", "", "")
            )
            if not text_of(content):
                source.skip("a chunk without words")
                continue
            keys.append(f"atocore:chunk:{id}")
            chunks.append({"content": content, "heading_path": text_of(heading), "metadata": json_object(metadata)})
        path = text_of(row.get("file_path"))
        if not chunks or not path:
            source.skip("a document without a path or words")
            continue
        yield MovedDocument(
            key=f"atocore:document:{path}:{row.get('file_hash')}",
            path=path,
            chunks=tuple(chunks),
            chunk_keys=tuple(keys),
            title=text_of(row.get("title")),
            tags=_tags(row.get("tags")),
            at=utc(row.get("updated_at") or row.get("ingested_at")),
        )


def _memory(source: Source, row: Object) -> Iterator[MovedStatement]:
    content, named = row.get("content"), text_of(row.get("status"))
    status = "superseded" if named == "graduated" else _STATUSES.get(named)
    if status is None:
        source.meet(f"status {row.get('status')}")
        return
    if not isinstance(content, str):
        source.skip("a memory without a content")
        return
    is_over, chunk, count = (
        status in ("superseded", "invalid"),
        row.get("source_chunk_id"),
        number_of(row.get("reference_count")),
    )
    yield MovedStatement(
        key=_key("memory", row),
        content=content,
        kind=text_of(row.get("memory_type")) or "knowledge",
        status=status,  # type: ignore[arg-type]
        at=utc(row.get("created_at")),
        ended_at=utc(row.get("updated_at")) if is_over else None,
        reason=f"{named} in atocore" if is_over else "",
        confidence=number_of(row.get("confidence")),
        valid_to=_day_after(row.get("valid_until")),
        project=text_of(row.get("project")) or None,
        tags=_tags(row.get("domain_tags")),
        sources=(f"atocore:chunk:{chunk}",) if chunk else (),
        reference_count=int(count) if count is not None and count > 0 else 0,
        last_referenced_at=utc(row.get("last_referenced_at")),
        channel="agent" if status == "candidate" else "user",
        metadata=pairs({"atocore": row.get("id")}),
    )


def _states(source: Source, part: Part) -> Iterator[MovedState]:
    sql = "SELECT * FROM project_state ORDER BY updated_at, rowid"
    if "project_id" in source.columns(part, "project_state") and source.columns(part, "projects"):
        sql = (
            "SELECT s.*, p.name AS project FROM project_state AS s LEFT JOIN projects AS p ON p.id = s.project_id"
            " ORDER BY s.updated_at, s.rowid"
        )
    for row in source.select(part, sql):
        project, name, value = text_of(row.get("project")), text_of(row.get("key")), text_of(row.get("value"))
        if text_of(row.get("status")) not in ("", "active"):
            source.skip("a value of trusted state that is over")
        elif row.get("category") not in get_args(StateCategory):
            source.meet(f"category {row.get('category')}")
        elif not project or not name or not value:
            source.skip("a value of trusted state without a project, a key or a value")
        else:
            yield MovedState(
                key=f"{_key('state', row)}:{value}",
                project=project,
                category=cast("StateCategory", row["category"]),
                name=name,
                value=value,
                source=text_of(row.get("source")),
                at=utc(row.get("updated_at")),
            )


def _turn(row: Object) -> Iterator[MovedTurn]:
    more = {
        name: row.get(name) for name in ("client", "memories_used", "chunks_used") if row.get(name) not in ("[]", None)
    }
    yield MovedTurn(
        key=_key("interaction", row),
        prompt=str(row.get("prompt") or ""),
        response=str(row.get("response") or ""),
        summary=str(row.get("response_summary") or ""),
        session=text_of(row.get("session_id")) or None,
        at=utc(row.get("created_at")),
        project=text_of(row.get("project")) or None,
        extract=False,
        metadata=pairs({"atocore": row.get("id"), **more}),
    )


def _key(what: str, row: Object) -> str:
    return f"atocore:{what}:{row.get('id') or json.dumps([row.get('project'), row.get('category'), row.get('key')])}"


def _tags(value: object) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tag for each in json_list(value) if (tag := text_of(each)) and len(tag) <= 100))


def _day_after(value: object) -> object:
    """Return the first instant at which a statement that holds through a day is over."""
    try:
        day = date.fromisoformat(text_of(value)[:10])
    except ValueError:
        return value or None
    return datetime.combine(day, time(), UTC) + timedelta(days=1)
