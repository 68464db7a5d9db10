"""The reads on documents: what there is, one with its chunks, and a chunk by its id, also one that is gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ledger.documents import answers
from ledger.domain.document import STATUSES, Document
from ledger.domain.errors import RejectedError
from ledger.engine.log_reading import first_position, read_event
from ledger.engine.reads import Reads
from ledger.engine.snapshot import LIST_LIMIT, NOWHERE, PAGE_CAP, listed, load, named
from ledger.memories.commands import text_list
from projections.views import documents, projects
from projections.views.documents import Chunk as ChunkRow


class DocumentReads(Reads):
    """The part of the library door that asks about documents."""

    def documents(
        self,
        *,
        user: str | None = None,
        project: str | None = None,
        tag: str | None = None,
        tags: Iterable[str] = (),
        status: str | Iterable[str] = "active",
        limit: int = LIST_LIMIT,
        after: str | None = None,
    ) -> list[answers.Document]:
        """Documents of one user, newest first; ``status`` is active, removed, erased or "all", ``project=""`` for those
        of none."""
        owner, statuses = self._user(user), _statuses(status)
        with self._read("documents", "projects") as connection:
            scope = None if project is None else [named(connection, owner, "p", project)]
            if scope == [NOWHERE]:
                return []
            found = documents.listing(
                connection,
                user=owner,
                statuses=statuses,
                projects=scope,
                tags=[each.strip().lower() for each in (*tags, *((tag,) if tag is not None else ()))],
                before=first_position(connection, after) if after is not None else None,
                limit=listed(limit, PAGE_CAP),
            )
            names = projects.names(connection, {each.project for each in found})
            return [answers.document(each, names) for each in found]

    def document(self, id: str, *, text: bool = False, user: str | None = None) -> answers.Document | None:
        """One document with its chunks in order, whatever its status, or None; ``text`` for what the chunks say.

        The texts of all chunks, one after the other, are the document's (``"".join(chunk.text for chunk in …)``).
        """
        with self._read("documents", "projects") as connection:
            state = load(connection, id, "d", self._user(user))
            return self._document(connection, state, text=text) if state is not None else None

    def _document(self, connection: Any, state: Document, *, text: bool) -> answers.Document:
        found, line = list[answers.Chunk](), 1
        for chunk in documents.chunks(connection, state.row):
            found.append(self._chunk(connection, chunk, state, text=text, line=line))
            line += (chunk.metadata or {}).get("lines", 0)
        names = projects.names(connection, {state.project})
        return answers.document(state, names, tuple(found))

    def chunk(self, id: str, *, user: str | None = None) -> answers.Chunk | None:
        """One chunk with its text, or None: one that a newer text no longer has too, and its ``status`` says so."""
        with self._read("documents", "audit") as connection:
            found = documents.find_chunk(connection, id, self._user(user))
            return self._one_chunk(connection, found) if found is not None else None

    def _one_chunk(self, connection: Any, found: ChunkRow) -> answers.Chunk:
        state = documents.get(connection, found.document)
        stands = found.to_position is None and found.size is not None
        line = 1 + documents.lines_before(connection, found) if stands else None
        return self._chunk(connection, found, state, text=True, line=line)

    @staticmethod
    def _chunk(
        connection: Any, found: ChunkRow, state: Document | None, *, text: bool, line: int | None
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


def _statuses(status: str | Iterable[str]) -> tuple[str, ...]:
    wanted = text_list("status", status)
    if wanted == ("all",):
        return ()
    for each in wanted:
        if each not in STATUSES:
            raise RejectedError(
                f"no status of a document is called {each!r:.40}; there are: {', '.join(STATUSES)}, and all"
            )
    return wanted
