"""The queries on documents: a listing, a document with its chunks, and a chunk by its id.

A chunk is found by its id even if a newer text of the document no longer has it, or the document was removed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.core.engine import Snapshot
from ledger.core.reads import NOWHERE, load, read_event, scope_of, start_behind
from ledger.documents import answers
from ledger.documents.rules import DocumentState
from ledger.domain.metadata import Pairs
from projections.core.rows import Connection
from projections.views import documents, projects, quarantine
from projections.views.documents import ChunkRow as ChunkRow


def listing(
    snapshot: Snapshot,
    user: str,
    *,
    project: str | None,
    tags: Sequence[str],
    metadata: Pairs,
    statuses: tuple[str, ...],
    limit: int,
    after: str | None,
    oldest_first: bool = False,
) -> list[answers.Document]:
    """Return documents without their chunks, newest or oldest first.

    Without ``statuses``, documents of every status are returned; with ``project=""``, only documents without a project.
    """
    connection = snapshot.connection
    project_ids = scope_of(connection, user, project)
    if project_ids == [NOWHERE]:
        return []
    rows = documents.listing(
        connection,
        user=user,
        statuses=statuses,
        projects=project_ids,
        tags=[tag.strip().lower() for tag in tags],
        metadata=metadata,
        start=start_behind(connection, after, oldest_first=oldest_first),
        limit=limit,
    )
    names = projects.names(connection, {row.project for row in rows})
    return [answers.document(row, names) for row in rows]


def get(snapshot: Snapshot, user: str, id: str, *, text: bool = False) -> answers.Document | None:
    """Return a document of any status with its chunks in order; ``text`` includes the texts of the chunks."""
    state = load(snapshot.connection, id, "d", user)
    return shown(snapshot.connection, state, text=text) if state is not None else None


def get_chunk(snapshot: Snapshot, user: str, id: str) -> answers.Chunk | None:
    """Return a chunk with its text; the status shows if a newer text of the document no longer has the chunk."""
    chunk = documents.find_chunk(snapshot.connection, id, user)
    return chunk_shown(snapshot.connection, chunk) if chunk is not None else None


def shown(connection: Connection, state: DocumentState, *, text: bool) -> answers.Document:
    chunks, line = list[answers.Chunk](), 1
    rows = documents.chunks(connection, state.row)
    held = quarantine.among(connection, [chunk.row for chunk in rows])
    for chunk in rows:
        chunks.append(_chunk(connection, chunk, state, text=text, line=line, held=chunk.row in held))
        line += (chunk.metadata or {}).get("lines", 0)
    names = projects.names(connection, {state.project})
    return answers.document(state, names, tuple(chunks))


def chunk_shown(connection: Connection, chunk: ChunkRow) -> answers.Chunk:
    state = documents.get(connection, chunk.document)
    is_current = chunk.to_position is None and chunk.size is not None
    line = 1 + documents.lines_before(connection, chunk) if is_current else None
    held = bool(quarantine.among(connection, [chunk.row]))
    return _chunk(connection, chunk, state, text=True, line=line, held=held)


def _chunk(
    connection: Connection, chunk: ChunkRow, state: DocumentState | None, *, text: bool, line: int | None, held: bool
) -> answers.Chunk:
    event = read_event(connection, chunk.row)
    assert event is not None
    content = event.data.content
    return answers.Chunk(
        id=chunk.id,
        document=event.stream,
        index=chunk.index,
        heading_path=event.data.heading_path,
        content=content if text else None,
        size=len(content) if content is not None else None,
        line=line,
        metadata=None if content is None else chunk.own or {},
        status=_status(chunk, state, erased=content is None, held=held),
        title=state.title if state is not None else None,
        path=(state.path or None) if state is not None else None,
        user=event.envelope.user,
        recorded_at=event.envelope.recorded_at,
        position=chunk.row,
        to_position=chunk.to_position,
    )


def _status(chunk: ChunkRow, state: DocumentState | None, *, erased: bool, held: bool) -> str:
    if erased:
        return "erased"
    if state is None:
        return "removed"
    status = "replaced" if chunk.to_position is not None else state.status
    return "quarantined" if held and status == "active" else status
