"""The answers about documents and chunks: frozen objects with the same names in Python and in ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import field

from ledger.core.call import Answer, answer_of
from ledger.domain import metadata as pairs_of

if TYPE_CHECKING:
    from ledger.documents.rules import DocumentState as DocumentState


class Chunk(Answer, frozen=True, kw_only=True):
    """A piece of a document.

    ``index`` counts from 0, ``line`` from 1. ``size`` is in characters. ``content`` is None unless the call reads texts.
    ``metadata`` is the JSON that came with a chunk that was cut elsewhere, {} without any, None if it was erased.

    ``status`` is "active"; "quarantined" if recall leaves out a chunk that the document has; "replaced" if a newer text no
    longer has the chunk (``index`` then is the last index of the chunk, and ``line`` is None); "removed" if the document was
    removed or undone; or "erased".
    """

    id: str
    document: str
    index: int
    heading_path: tuple[str, ...] | None
    content: str | None
    size: int | None
    line: int | None
    metadata: Any
    status: str
    title: str | None
    path: str | None
    user: str | None
    recorded_at: str
    position: int
    to_position: int | None = None


class Document(Answer, frozen=True, kw_only=True):
    """A document in its present state.

    ``size`` is in characters. ``chunks`` is empty in a listing. ``status`` is active, removed or erased. ``updated_at`` is
    the time when the text was last added. After a command, ``added`` and ``dropped`` count the chunks that the command
    added and dropped.
    """

    id: str
    title: str | None
    path: str | None
    tags: tuple[str, ...]
    type: str
    user: str | None
    agent: str | None
    project: str | None
    status: str
    size: int
    chunk_count: int
    recorded_at: str
    updated_at: str
    position: int
    chunks: tuple[Chunk, ...] = ()
    added: int = 0
    dropped: int = 0
    replayed: bool = False
    absorbed: bool = False
    warnings: tuple[str, ...] = ()  # of a command: redacted secrets, chunks in quarantine, and a text that names a file
    metadata: Mapping[str, pairs_of.Value] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.id, self.position))


def document(state: DocumentState, names: Mapping[str, str], chunks: tuple[Chunk, ...] = ()) -> Document:
    return answer_of(
        Document,
        state,
        path=state.path or None,
        type=state.doc_type,
        project=names.get(state.project or "", state.project),
        chunk_count=state.chunks,
        chunks=chunks,
        metadata=pairs_of.of_row(state.metadata) if state.metadata else {},
    )


class IngestReport(Answer, frozen=True, kw_only=True):
    """The result of adding several files.

    ``errors`` holds (path, reason). An undo of ``correlation_id`` takes all added files back.
    """

    documents: tuple[Document, ...]
    errors: tuple[tuple[str, str], ...]
    correlation_id: str | None

    @property
    def ok(self) -> bool:
        return not self.errors
