"""The namespace ``ledger.documents``: add files and texts, list and read documents and chunks, remove and restore."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack, get_args

from ledger.core.area import Area
from ledger.core.paging import LIMIT, found, page
from ledger.documents import commands, queries
from ledger.documents.answers import Chunk, Document
from ledger.domain.metadata import checked
from ledger.domain.text import plural
from ledger.types import DocumentSource, DocumentStatus, DocumentType, Metadata, Page, WriteOptions

if TYPE_CHECKING:
    from ledger.core.engine import Engine


class DocumentsRead(Area):
    """The documents of a user, now or as they were known at a moment."""

    def list(
        self,
        *,
        project: str | None = None,
        tags: Iterable[str] = (),
        metadata: Metadata | None = None,
        statuses: Iterable[DocumentStatus] = ("active",),
        limit: int = LIMIT,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> Page[Document]:
        """List documents without their chunks, newest first.

        Args:
            project: Only documents of this project; "" for documents of no project.
            tags: Only documents that have each of these tags.
            metadata: Only documents that have each of these keys with exactly this value; None is a value too.
            statuses: Only documents of these statuses; none for every status.

        Raises:
            RejectedError: A limit, cursor or status is invalid.
        """
        chosen = plural("statuses", statuses, get_args(DocumentStatus))
        tags, pairs = plural("tags", tags), checked(metadata)

        def fetch(count: int, start: str | None) -> list[Document]:
            with self._engine.snapshot() as snapshot:
                return queries.listing(
                    snapshot,
                    self._scope.user,
                    project=project,
                    tags=tags,
                    metadata=pairs,
                    statuses=chosen,
                    limit=count,
                    after=start,
                    oldest_first=oldest_first,
                )

        filters: dict[str, object] = {"user": self._scope.user, "project": project, "tags": tags, "statuses": chosen}
        filters |= {"metadata": pairs}
        return page("documents", filters, limit, after, fetch, lambda document: document.id, oldest_first=oldest_first)

    def get(self, id: str, *, text: bool = False) -> Document:
        """Return one document with its chunks in order, whatever its status.

        Args:
            id: The id of the document, or an unambiguous beginning of the id.
            text: True to include the text of the chunks; joined in order the chunks are the whole text.

        Raises:
            NotFoundError: This user has no such document.
            AmbiguousIdError: Several ids have this beginning.
        """
        with self._engine.snapshot() as snapshot:
            return found("document", id, queries.get(snapshot, self._scope.user, id, text=text))

    def get_chunk(self, id: str) -> Chunk:
        """Return one chunk with its text; its status shows if the document no longer has the chunk.

        Args:
            id: The id of the chunk, or an unambiguous beginning of the id.

        Raises:
            NotFoundError: This user has no such chunk.
            AmbiguousIdError: Several ids have this beginning.
        """
        with self._engine.snapshot() as snapshot:
            return found("chunk", id, queries.get_chunk(snapshot, self._scope.user, id))


class Documents(DocumentsRead):
    """The documents of a user."""

    _engine: Engine

    def add(
        self,
        source: DocumentSource,
        *,
        title: str = "",
        tags: Iterable[str] | None = None,
        metadata: Metadata | None = None,
        project: str | None = None,
        path: str | None = None,
        type: DocumentType | None = None,
        **options: Unpack[WriteOptions],
    ) -> Document:
        """Add a document, cut into chunks along its headings; its path identifies it, or without a path its text.

        The same text again changes nothing. Another text replaces the old one, and chunks that stay the same keep their
        ids. A removed document is restored.

        Args:
            source: A text (``str``), or a file (``pathlib.Path``) of UTF-8, at most 50 MiB; or the chunks of a document that was
                cut elsewhere: texts, or objects with content, and heading_path and metadata (any JSON object) if there are any.
            title: The title; "" for the title that the document has, or that of its front matter, first heading, or
                file name.
            tags: At most 10 tags; None for the tags that the document has.
            metadata: Your own keys, as in {"space": "HR", "page": 42}, by which recall also finds the chunks; None for
                the metadata that the document has, {} for none.
            project: A name or alias; a new one is registered. None for the project that the document has.
            path: The path that identifies the document; None for the file's absolute path.
            type: "markdown", or "text" for a text without headings; None to choose by the file's name.

        Raises:
            RejectedError: The source is no text, blank, too large, or a link out of its own directory.
            NotFoundError: There is no such file.
        """
        return commands.add(
            self._engine,
            self._scope.asker(options),
            source,
            title=title,
            tags=None if tags is None else plural("tags", tags),
            metadata=metadata,
            project=project,
            path=path,
            doc_type=type,
        )

    def remove(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Document:
        """Take a document and its chunks out of use; memories that came from it stay."""
        return commands.remove(self._engine, self._scope.asker(options), id, reason)

    def restore(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Document:
        """Bring a removed document back."""
        return commands.restore(self._engine, self._scope.asker(options), id, reason)
