"""The importer of the kind "memory-ledger": the memories that ``memory-ledger export`` wrote, from JSONL or from a note.

A memory is named by its id, so the ledger that wrote the export knows all of it. A note has the text, the status, the confidence
and the validity, and JSONL has everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from ledger.importers.leaving import FORMAT
from ledger.importers.moving import OWN, Ended, MovedEnding, MovedStatement, Record
from ledger.importers.source import Object, Part, Source

CLIENT = "memory-ledger"
_ID = re.compile(r"m_[a-z0-9]{16}")
_OBSERVATION = re.compile(r"- \[[^\]]*\] (.*) \((m_[a-z0-9]{16}(?:; [^()]*)?)\)\s*")
_STATUSES = ("active", "candidate", "superseded", "invalid", "retracted")


def recognizes(source: Source) -> bool:
    """Return True for a file that begins as an export of memories does."""
    parts = source.parts
    return len(parts) == 1 and (_is_lines(source, parts[0]) or _is_note(source, parts[0]))


def records(source: Source) -> Iterator[Record]:
    """Yield the memories, each with its end."""
    for part in source.parts:
        reader = _ExportReader(source)
        if _is_lines(source, part):
            for _, line in source.objects(part):
                if "format" not in line:
                    yield from reader.memory(line)
        elif _is_note(source, part):
            for number, text in source.lines(part):
                line_text = text.decode("utf-8", "replace")
                if observation := _OBSERVATION.fullmatch(line_text.rstrip("\n")):
                    yield from reader.memory(_noted(observation))
                elif line_text.startswith("- "):
                    source.skip("an item that is no memory of an export")
                    source.note(f"line {number}", "it has no id of a memory at its end")
        else:
            source.skip("a file that is no export of memories")
        yield from reader.rest()


def _is_lines(source: Source, part: Part) -> bool:
    return any(line.get("format") == FORMAT for line in source.head_objects(part)[:1])


def _is_note(source: Source, part: Part) -> bool:
    head = source.head(part).removeprefix(b"\xef\xbb\xbf")
    return head.startswith(b"---") and f"\ntype: {FORMAT}".encode() in head[:2_000]


def _noted(observation: re.Match[str]) -> Object:
    """Return an observation of a note as a line of JSONL says it."""
    id, status, *about = observation[2].split("; ")
    told = dict(each.partition(" ")[::2] for each in about)
    confidence, count = told.get("confidence", ""), told.get("tags", "0")
    content, *tags = observation[1].rsplit(" ", int(count) if re.fullmatch(r"\d\d?", count) else 0)
    return {
        "id": id, "content": content, "status": status, "kind": told.get("kind"),
        "tags": [tag.removeprefix("#") for tag in tags],
        "confidence": float(confidence) if re.fullmatch(r"\d(\.\d+)?", confidence) else None,
        "valid_from": told.get("from"), "valid_to": told.get("to"), "project": told.get("project"),
        "superseded_by": told.get("superseded", "").removeprefix("by ") or None,
        "quarantined": "quarantined" in told, "sources": told.get("sources", "").split(),
    }  # fmt: skip


class _ExportReader:
    """An export that is being read, with the memories whose successors have not come yet."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._seen, self._waiting = set[str](), dict[str, list[tuple[str, object]]]()

    def memory(self, line: Object) -> Iterator[Record]:
        """Yield a memory; the first that it superseded becomes its predecessor."""
        id, content, status = str(line.get("id")), line.get("content"), line.get("status")
        if not _ID.fullmatch(id) or not isinstance(content, str):
            self._source.skip("a memory without an id or a content")
            return
        if status not in _STATUSES:
            self._source.meet(f"status {status}")
            return
        replaced, newer = self._waiting.pop(id, []), line.get("superseded_by")
        is_waiting = status == "superseded" and isinstance(newer, str) and newer not in self._seen
        if is_waiting:
            self._waiting.setdefault(str(newer), []).append((id, line.get("valid_to")))
            status = "active"
        elif status == "active" and line.get("quarantined"):
            status = "candidate"
        yield _statement(line, id, content, str(status), replaced[0][0] if replaced else None)
        self._seen.add(id)
        for older, at in replaced:
            yield _superseded(older, at)

    def rest(self) -> Iterator[Record]:
        """Yield the ends of memories whose successors are not in the export."""
        for replaced in self._waiting.values():
            for older, at in replaced:
                yield _superseded(older, at)


def _superseded(id: str, at: object) -> MovedEnding:
    return MovedEnding(key=f"{OWN}{id}", status="superseded", at=at)


def _statement(line: Object, id: str, content: str, status: str, before: str | None) -> MovedStatement:
    confidence, count = line.get("confidence"), line.get("reference_count")
    metadata, relations = line.get("metadata"), line.get("relations")
    is_over = status == "superseded" or line.get("status") == "superseded"
    return MovedStatement(
        key=f"{OWN}{id}",
        content=content,
        kind=str(line.get("kind") or "knowledge"),
        status=cast("Ended", status),
        at=line.get("valid_from"),
        ended_at=line.get("valid_to") if status == "superseded" else None,
        confidence=float(confidence) if isinstance(confidence, int | float) else None,
        supersedes=f"{OWN}{before}" if before else None,
        valid_from=line.get("valid_from"),
        valid_to=None if is_over else line.get("valid_to"),
        project=name if isinstance(name := line.get("project"), str) and name else None,
        tags=_texts(line.get("tags")),
        entities=_texts(line.get("entities")),
        relations=tuple(
            (each[0], each[1], each[2])
            for each in (relations if isinstance(relations, list) else [])
            if isinstance(each, list) and len(each) == 3 and all(isinstance(part, str) for part in each)
        ),
        sources=tuple(f"{OWN}{source}" for source in _texts(line.get("sources"))),
        reference_count=count if isinstance(count, int) and count > 0 else 0,
        last_referenced_at=line.get("last_referenced_at"),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()
