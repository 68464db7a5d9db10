"""The namespace ``ledger.documents``: add files and texts, list and read documents and chunks, remove and restore."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack, get_args

from ledger.core.area import LIMIT, Area, found, page
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
            project: Only documents of this project; "" for documents without a project.
            tags: Only documents that have all of these tags.
            metadata: Only documents that have all of these keys with exactly these values; None is a value too.
            statuses: Only documents of these statuses; empty for every status.

        Raises:
            RejectedError: A limit, cursor or status is invalid.
        """
        accepted_statuses = plural("statuses", statuses, get_args(DocumentStatus))
        tags, pairs = plural("tags", tags), checked(metadata)

        def fetch(count: int, start: str | None) -> list[Document]:
            with self._engine.snapshot() as snapshot:
                return queries.listing(
                    snapshot,
                    self._scope.user,
                    project=project,
                    tags=tags,
                    metadata=pairs,
                    statuses=accepted_statuses,
                    limit=count,
                    after=start,
                    oldest_first=oldest_first,
                )

        filters: dict[str, object] = {"user": self._scope.user, "project": project, "tags": tags}
        filters |= {"statuses": accepted_statuses, "metadata": pairs}
        return page("documents", filters, limit, after, fetch, lambda document: document.id, oldest_first=oldest_first)

    def get(self, id: str, *, text: bool = False) -> Document:
        """Return a document of any status with its chunks in order.

        Args:
            id: The id of the document, or an unambiguous beginning of the id.
            text: True to include the texts of the chunks, which joined in order are the whole text.

        Raises:
            NotFoundError: This user has no such document.
            AmbiguousIdError: Several ids have this beginning.
        """
        with self._engine.snapshot() as snapshot:
            return found("document", id, queries.get(snapshot, self._scope.user, id, text=text))

    def get_chunk(self, id: str) -> Chunk:
        """Return a chunk with its text; the chunk's status shows if the document no longer has it.

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
        """Add a document, cut into chunks along its headings; the path identifies a document, or without a path the text.

        The same text again changes nothing. Another text replaces the old text, and chunks that stay the same keep their
        ids. A removed document is restored.

        Args:
            source: A text (``str``), or a file (``pathlib.Path``) of UTF-8, at most 50 MiB; or the chunks of a document that was
                cut elsewhere: texts, or objects with content, and heading_path and metadata (any JSON object) if there are any.
            title: The title; "" keeps the present title, and gives a new document the title of its front matter, its first
                heading, or its file name.
            tags: At most 10 tags; None keeps the present tags.
            metadata: Your own keys, as in {"space": "HR", "page": 42}, by which recall can filter the chunks; None keeps the
                present metadata, {} removes it.
            project: The name or an alias of a project; a new name is added as a project. None keeps the present project.
            path: The path that identifies the document; None for the file's absolute path.
            type: "markdown", or "text" for a text without headings; None to choose by the file's name.

        Raises:
            RejectedError: The source is not a text, blank, too large, or a link out of its own directory.
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
        """Make a removed document active again."""
        return commands.restore(self._engine, self._scope.asker(options), id, reason)
