"""The importer of the kind "mcp-memory-service": its SQLite database, and the JSON that its export writes.

A memory is named by the digest of its content, ``content_hash``. The service keeps deleted memories for some days with the time
of the deletion, and newer versions name the successor of a memory that was replaced.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.importers.records import MovedStatement, Record
from ledger.importers.source import DATABASES, Object, Source, decoded, pairs
from ledger.importers.succession import Successions

CLIENT = "mcp-memory-service"
_KINDS = {"preference": "preference", "rule": "rule", "goal": "goal", "fact": "fact"}
REPLACED = "replaced in mcp-memory-service"


def recognizes(source: Source) -> bool:
    """Return True for a database with memories of the service, or an export of it."""
    for part in source.files(".json", *DATABASES):
        head = source.head(part)
        if b'"content_hash"' in head and (b'"export_metadata"' in head or b'"memory_type"' in head):
            return True
        if {"content_hash", "content", "memory_type"} <= source.columns(part, "memories"):
            return True
    return False


def records(source: Source) -> Iterator[Record]:
    """Yield the memories in the order in which they were stored, each with its end."""
    for part in source.files(*DATABASES, ".json"):
        successions = Successions(REPLACED)
        if "content_hash" in source.columns(part, "memories"):
            for row in source.rows(part, "memories", "created_at, rowid"):
                if (statement := _statement(source, row)) is not None:
                    yield from successions.place(statement, _successor(row))
        elif not source.is_database(part):
            entries = [entry for found in source.json(part) for entry in _entries(source, found)]
            for entry in sorted(entries, key=_stored_at):
                if (statement := _statement(source, entry)) is not None:
                    yield from successions.place(statement, _successor(entry))
        yield from successions.rest()


def _entries(source: Source, found: object) -> list[Object]:
    """Return the memories of an export in JSON."""
    memories = found.get("memories") if isinstance(found, dict) else found
    if not isinstance(memories, list):
        source.skip("a file without memories")
        return []
    entries = [entry for entry in memories if isinstance(entry, dict)]
    if len(entries) < len(memories):
        source.skip("an element that is no JSON object", len(memories) - len(entries))
    return entries


def _statement(source: Source, row: Object) -> MovedStatement | None:
    digest, content = row.get("content_hash"), row.get("content")
    if not isinstance(digest, str) or not digest or not isinstance(content, str):
        source.skip("a memory without a content_hash or a content")
        return None
    type = row.get("memory_type")
    metadata, type = _metadata(source, row.get("metadata"), digest), type if isinstance(type, str) else ""
    agent = metadata.get("agent_id")
    is_deleted, is_replaced = bool(row.get("deleted_at")), _successor(row) is not None
    return MovedStatement(
        key=_key(digest),
        content=content,
        kind=_KINDS.get(type.casefold(), "knowledge"),
        status="retracted" if is_deleted else "superseded" if is_replaced else "active",
        at=row.get("created_at") or row.get("created_at_iso"),
        ended_at=row["deleted_at"] if is_deleted else row.get("updated_at") if is_replaced else None,
        reason="deleted in mcp-memory-service" if is_deleted else REPLACED if is_replaced else "",
        tags=_tags(row.get("tags")),
        actor=agent if isinstance(agent, str) and agent else None,
        channel="agent",
        metadata=pairs({"content_hash": digest, "memory_type": type, "store": row.get("store"), **metadata}),
    )


def _successor(row: Object) -> str | None:
    newer = row.get("superseded_by")
    is_named = isinstance(newer, str) and newer and newer != row.get("content_hash") and not row.get("deleted_at")
    return _key(str(newer)) if is_named else None


def _metadata(source: Source, value: object, digest: str) -> Object:
    if isinstance(value, str) and value.strip():
        value = decoded(value.encode("utf-8", "replace"))
        if not isinstance(value, dict):
            source.note(digest, "its metadata is no JSON object, and is left out")
    return value if isinstance(value, dict) else {}


def _tags(value: object) -> tuple[str, ...]:
    """Return the tags of a text with commas, of a JSON list, or of a list."""
    if isinstance(value, str):
        found = decoded(value.encode("utf-8", "replace")) if value.startswith("[") else value.split(",")
        value = found if isinstance(found, list) else value.split(",")
    names = (str(tag).strip() for tag in value) if isinstance(value, list) else ()
    return tuple(dict.fromkeys(tag for tag in names if tag and len(tag) <= 100))


def _stored_at(entry: Object) -> float:
    at = entry.get("created_at")
    return float(at) if isinstance(at, int | float) else 0.0


def _key(digest: str) -> str:
    return f"mcp-memory-service:{digest}"
