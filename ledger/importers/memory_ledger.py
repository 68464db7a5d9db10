"""The importer of the kind "memory-ledger": the memories that ``memory-ledger export`` wrote, from JSONL or from a note.

A memory is named by its id, so the ledger that wrote the export knows all of it. A note has the text, the status, the confidence
and the validity, and JSONL has everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from ledger.importers.leaving import FORMAT
from ledger.importers.moving import OWN
from ledger.importers.records import Ended, MovedStatement, Record
from ledger.importers.source import Object, Part, Source
from ledger.importers.succession import Successions

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
        successions = Successions("")
        if _is_lines(source, part):
            for _, line in source.objects(part):
                if "format" not in line:
                    yield from _placed(source, line, successions)
        elif _is_note(source, part):
            for number, text in source.lines(part):
                line_text = text.decode("utf-8", "replace")
                if observation := _OBSERVATION.fullmatch(line_text.rstrip("\n")):
                    yield from _placed(source, _noted(observation), successions)
                elif line_text.startswith("- "):
                    source.skip("an item that is no memory of an export")
                    source.note(f"line {number}", "it has no id of a memory at its end")
        else:
            source.skip("a file that is no export of memories")
        yield from successions.rest()


def _is_lines(source: Source, part: Part) -> bool:
    return any(line.get("format") == FORMAT for line in source.head_objects(part)[:1])


def _is_note(source: Source, part: Part) -> bool:
    head = source.head(part).removeprefix(b"\xef\xbb\xbf")
    return head.startswith(b"---") and f"\ntype: {FORMAT}".encode() in head[:2_000]


def _noted(observation: re.Match[str]) -> Object:
    """Return an observation of a note as a line of JSONL says it."""
    id, status, *about = observation[2].split("; ")
    told = {name: value for each in about for name, _, value in [each.partition(" ")]}
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


def _placed(source: Source, line: Object, successions: Successions) -> Iterator[Record]:
    """Yield a memory of an export; the first that it superseded becomes its predecessor."""
    id, content, status = str(line.get("id")), line.get("content"), line.get("status")
    if not _ID.fullmatch(id) or not isinstance(content, str):
        source.skip("a memory without an id or a content")
    elif status not in _STATUSES:
        source.meet(f"status {status}")
    else:
        newer = line.get("superseded_by")
        held = line.get("valid_from") != line.get("valid_to")  # else its successor says nothing of it
        successor = f"{OWN}{newer}" if status == "superseded" and held and isinstance(newer, str) else None
        status = "candidate" if status == "active" and line.get("quarantined") else str(status)
        yield from successions.place(_statement(line, id, content, status), successor)


def _statement(line: Object, id: str, content: str, status: str) -> MovedStatement:
    confidence, count = line.get("confidence"), line.get("reference_count")
    metadata, relations = line.get("metadata"), line.get("relations")
    return MovedStatement(
        key=f"{OWN}{id}",
        content=content,
        kind=str(line.get("kind") or "knowledge"),
        status=cast("Ended", status),
        at=line.get("valid_from"),
        ended_at=line.get("valid_to") if status == "superseded" else None,
        confidence=float(confidence) if isinstance(confidence, int | float) else None,
        valid_from=line.get("valid_from"),
        valid_to=None if status == "superseded" else line.get("valid_to"),
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
