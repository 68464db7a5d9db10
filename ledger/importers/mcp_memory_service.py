"""The importer of the kind "mcp-memory-service": its SQLite database, and the JSON that its export writes.

A memory is named by the digest of its content, ``content_hash``. The service keeps deleted memories for some days with the time
of the deletion, and newer versions name the successor of a memory that was replaced.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.importers.moving import MovedEnding, MovedStatement, Record
from ledger.importers.source import Object, Source, decoded, pairs

CLIENT = "mcp-memory-service"
_KINDS = {"preference": "preference", "rule": "rule", "goal": "goal", "fact": "fact"}
_DATABASES = (".db", ".sqlite", ".sqlite3")


def recognizes(source: Source) -> bool:
    """Return True for a database with memories of the service, or an export of it."""
    for part in source.files(".json", *_DATABASES):
        head = source.head(part)
        if b'"content_hash"' in head and (b'"export_metadata"' in head or b'"memory_type"' in head):
            return True
        if {"content_hash", "content", "memory_type"} <= source.columns(part, "memories"):
            return True
    return False


def records(source: Source) -> Iterator[Record]:
    """Yield the memories in the order in which they were stored, each with its end."""
    for part in source.files(*_DATABASES, ".json"):
        reader = _ServiceReader(source)
        if "content_hash" in source.columns(part, "memories"):
            for row in source.rows(part, "memories", "created_at, rowid"):
                yield from reader.memory(row)
        elif not source.is_database(part):
            found = source.json(part)
            memories = found.get("memories") if isinstance(found, dict) else found
            if not isinstance(memories, list):
                source.skip("a file without memories")
                continue
            entries = [entry for entry in memories if isinstance(entry, dict)]
            if len(entries) < len(memories):
                source.skip("an element that is no JSON object", len(memories) - len(entries))
            for entry in sorted(entries, key=_stored_at):
                yield from reader.memory(entry)
        yield from reader.rest()


class _ServiceReader:
    """A file that is being read, with the memories whose successors have not come yet."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._seen, self._waiting = set[str](), dict[str, list[tuple[str, object]]]()

    def memory(self, row: Object) -> Iterator[Record]:
        """Yield a memory; the first that it replaced becomes its predecessor."""
        digest, content = row.get("content_hash"), row.get("content")
        at, type = row.get("created_at") or row.get("created_at_iso"), row.get("memory_type")
        if not isinstance(digest, str) or not digest or not isinstance(content, str):
            self._source.skip("a memory without a content_hash or a content")
            return
        metadata, type = _metadata(self._source, row.get("metadata"), digest), type if isinstance(type, str) else ""
        agent, replaced = metadata.get("agent_id"), self._waiting.pop(digest, [])
        yield MovedStatement(
            key=_key(digest),
            content=content,
            kind=_KINDS.get(type.casefold(), "knowledge"),
            at=at,
            supersedes=_key(replaced[0][0]) if replaced else None,
            tags=_tags(row.get("tags")),
            actor=agent if isinstance(agent, str) and agent else None,
            channel="agent",
            metadata=pairs({"content_hash": digest, "memory_type": type, "store": row.get("store"), **metadata}),
        )
        self._seen.add(digest)
        for older, _ in replaced:
            yield _replaced(older, at)
        if row.get("deleted_at"):
            yield MovedEnding(
                key=_key(digest), status="retracted", at=row["deleted_at"], reason="deleted in mcp-memory-service"
            )
        elif isinstance(newer := row.get("superseded_by"), str) and newer and newer != digest:
            ended_at = row.get("updated_at")
            if newer in self._seen:
                yield _replaced(digest, ended_at)
            else:
                self._waiting.setdefault(newer, []).append((digest, ended_at))

    def rest(self) -> Iterator[Record]:
        """Yield the ends of memories whose successors are not in the file."""
        for replaced in self._waiting.values():
            for digest, ended_at in replaced:
                yield _replaced(digest, ended_at)


def _replaced(digest: str, at: object) -> MovedEnding:
    return MovedEnding(key=_key(digest), status="superseded", at=at, reason="replaced in mcp-memory-service")


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
