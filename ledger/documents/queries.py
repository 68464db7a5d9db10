"""What can be asked of documents: a listing, one with its chunks, and a chunk by its id, also one that is gone."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.documents import answers
from ledger.domain.document import Document
from ledger.domain.metadata import Pairs
from ledger.engine.log_reading import first_position, read_event
from ledger.engine.snapshot import NOWHERE, Snapshot, load, scope_of
from projections.core.rows import Connection
from projections.views import documents, projects
from projections.views.documents import Chunk as ChunkRow


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
) -> list[answers.Document]:
    """Without their chunks, newest first; no statuses are all, ``project=""`` for those of none."""
    connection = snapshot.connection
    projects_meant = scope_of(connection, user, project)
    if projects_meant == [NOWHERE]:
        return []
    found = documents.listing(
        connection,
        user=user,
        statuses=statuses,
        projects=projects_meant,
        tags=[each.strip().lower() for each in tags],
        metadata=metadata,
        before=first_position(connection, after) if after is not None else None,
        limit=limit,
    )
    names = projects.names(connection, {each.project for each in found})
    return [answers.document(each, names) for each in found]


def get(snapshot: Snapshot, user: str, id: str, *, text: bool = False) -> answers.Document | None:
    """With its chunks in order, whatever its status; ``text`` for what the chunks say."""
    state = load(snapshot.connection, id, "d", user)
    return shown(snapshot.connection, state, text=text) if state is not None else None


def get_chunk(snapshot: Snapshot, user: str, id: str) -> answers.Chunk | None:
    """With its text, also one that a newer text no longer has: its ``status`` says so."""
    found = documents.find_chunk(snapshot.connection, id, user)
    return chunk_shown(snapshot.connection, found) if found is not None else None


def shown(connection: Connection, state: Document, *, text: bool) -> answers.Document:
    found, line = list[answers.Chunk](), 1
    for chunk in documents.chunks(connection, state.row):
        found.append(_chunk(connection, chunk, state, text=text, line=line))
        line += (chunk.metadata or {}).get("lines", 0)
    names = projects.names(connection, {state.project})
    return answers.document(state, names, tuple(found))


def chunk_shown(connection: Connection, found: ChunkRow) -> answers.Chunk:
    state = documents.get(connection, found.document)
    stands = found.to_position is None and found.size is not None
    line = 1 + documents.lines_before(connection, found) if stands else None
    return _chunk(connection, found, state, text=True, line=line)


def _chunk(
    connection: Connection, found: ChunkRow, state: Document | None, *, text: bool, line: int | None
) -> answers.Chunk:
    event = read_event(connection, found.row)
    assert event is not None
    words = event.data.content
    return answers.Chunk(
        id=found.id,
        document=event.stream,
        index=found.index,
        heading_path=event.data.heading_path,
        content=words if text else None,
        size=len(words) if words is not None else None,
        line=line,
        metadata=found.metadata,
        status=_status(found, state, erased=words is None),
        title=state.title if state is not None else None,
        path=(state.path or None) if state is not None else None,
        user=event.envelope.user,
        recorded_at=event.envelope.recorded_at,
        position=found.row,
        to_position=found.to_position,
    )


def _status(chunk: ChunkRow, state: Document | None, *, erased: bool) -> str:
    if erased:
        return "erased"
    if state is None:
        return "removed"
    return "replaced" if chunk.to_position is not None else state.status
