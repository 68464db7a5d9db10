"""The export of one user's memories: what is believed, what waits for review, and what is superseded or refuted.

``memory-ledger export-log`` writes the whole log with the secret of the ledger. An export of memories has neither, and other
programs can read it: a JSON object on each line, or a note as basic-memory reads it. The importer of the kind "memory-ledger"
reads both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ledger.api import Ledger
from ledger.care.transfer import new_file
from ledger.domain.errors import RejectedError
from ledger.importers.answers import LeaveReport
from ledger.log.paths import StrPath, path_name
from ledger.memories.answers import Memory

FORMAT = "memory-ledger/memories/1"
"""The value of "format" in the first line, and of "type" in the front matter of a note."""
PAGE = 500
_PLAIN = ("kind", "status", "confidence", "project", "agent", "valid_from", "valid_to", "recorded_at", "stated_at",
          "supersedes", "superseded_by", "reference_count", "last_referenced_at", "quarantined")  # fmt: skip
_SECTIONS = {  # the headings of a note, with the statuses below them
    "Believed": ("active",),
    "Waiting for review": ("candidate",),
    "No longer believed": ("superseded", "invalid", "retracted"),
}


def exported(ledger: Ledger, format: str, project: str | None = None) -> Iterator[str]:
    """Yield the lines of an export of the user's memories, oldest first; erased memories are left out.

    Args:
        ledger: An open ledger; its user is the user of the export.
        format: "jsonl" for a JSON object on each line, "markdown" for a note.
        project: Only memories of this project; "" for memories without a project, None for all.

    Raises:
        RejectedError: There is no such format.
    """
    if format == "jsonl":
        header = {"format": FORMAT, "project": project}
        yield json.dumps(header, ensure_ascii=False) + "\n"
        for memory in _memories(ledger, project):
            yield json.dumps(_object(memory), ensure_ascii=False) + "\n"
    elif format == "markdown":
        yield f"---\ntitle: {json.dumps(_line(project or 'Memories'), ensure_ascii=False)}\ntype: {FORMAT}\n---\n"
        for heading, statuses in _SECTIONS.items():
            yield f"\n## {heading}\n\n"
            for memory in _memories(ledger, project, statuses):
                yield _observation(memory)
    else:
        raise RejectedError(
            f"format is jsonl or markdown, and {format!r:.40} is neither; the whole log is written by export-log"
        )


def write(ledger: Ledger, path: StrPath, format: str, project: str | None) -> LeaveReport:
    """Write an export to a new file; ``export_to`` documents the arguments."""
    name, count = path_name(path), 0
    lines = exported(ledger, format, project)
    beginning = next(lines)  # refuses the format before there is a file
    with new_file(name) as file:
        file.write(beginning)
        for line in lines:
            file.write(line)
            count += line.startswith(("{", "- ["))
    return LeaveReport(path=name, format=format, memories=count)


def _memories(ledger: Ledger, project: str | None, statuses: tuple[str, ...] = ()) -> Iterator[Memory]:
    after: str | None = None
    while True:
        page = ledger.memories.list(
            statuses=statuses,  # type: ignore[arg-type]
            project=project, limit=PAGE, after=after, oldest_first=True,
        )  # fmt: skip
        yield from (memory for memory in page if memory.content is not None)
        if page.next is None:
            return
        after = page.next


def _object(memory: Memory) -> dict[str, object]:
    found: dict[str, object] = {"id": memory.id, "content": memory.content}
    found |= {name: getattr(memory, name) for name in _PLAIN}
    found["sources"], found["tags"], found["entities"] = list(memory.sources), list(memory.tags), list(memory.entities)
    found["relations"] = [[each.subject, each.relation, each.object] for each in memory.relations]
    found["metadata"] = dict(memory.metadata)
    return found


def _observation(memory: Memory) -> str:
    """Return a memory as an observation of basic-memory, with what the ledger knows of it at the end."""
    category = memory.kind if memory.status == "active" else memory.status
    about = [memory.id, memory.status, f"kind {memory.kind}", f"confidence {memory.confidence:g}"]
    about.append(f"from {memory.valid_from}")
    about += [f"to {memory.valid_to}"] if memory.valid_to else []
    about += [f"project {memory.project}"] if memory.project else []
    about += [f"superseded by {memory.superseded_by}"] if memory.superseded_by else []
    about += ["quarantined"] if memory.quarantined else []
    about += [f"sources {' '.join(memory.sources)}"] if memory.sources else []
    about += [f"tags {len(memory.tags)}"] if memory.tags else []
    tags = "".join(f" #{tag.replace(' ', '-')}" for tag in memory.tags)
    told = _line("; ".join(about)).replace("(", "[").replace(")", "]")
    return f"- [{re.sub(r'[][()]', ' ', _line(category)).strip()}] {_line(memory.content or '')}{tags} ({told})\n"


def _line(text: str) -> str:
    return " ".join(text.split())
