"""The tables of documents and of the chunks that each document has or had. Texts stay in the log.

The ``row`` of a chunk is the position of its ChunkAdded event, which has its text. A chunk keeps its row if a newer text of the
document has the chunk at another index. The chunks of a removed document stay in the table.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ledger.documents import rules as document
from ledger.documents.rules import DocumentState, moved
from ledger.domain.errors import DamagedError
from ledger.domain.ids import LENGTH, is_prefix
from ledger.domain.metadata import NO_PAIRS, Pairs
from ledger.domain.text import fingerprint
from ledger.events import AnyEvent, ChunkAdded, DocumentReplaced
from ledger.log.events import NOTHING
from projections.core.rows import (
    NEWEST,
    AsOf,
    Conditions,
    ProjectionRows,
    Start,
    Table,
    Values,
    by_status,
    codec,
    columns,
    rows_among,
)
from projections.core.subjects import SubjectChange, by_key, ended, family, keep, replace_rows, standing
from projections.views import control

FAMILY = family(
    "d",
    DocumentState,
    document.evolve,
    document.admits,
    ("documents", "document_versions"),
    indexes=(("user, path", ""), ("user, digest", "path = ''")),
    among=(("status", document.STATUSES),),
)
DOCUMENTS, DOCUMENT_VERSIONS = FAMILY.live, FAMILY.closed
from_row, get = FAMILY.from_row, FAMILY.get


class ChunkRow(Struct, frozen=True):
    """A row of ``chunks``, or of ``chunks_were`` with the position that ended it.

    ``heading_path``, ``size`` (in characters) and ``fingerprint`` (of the text and the headings) are None after an erasure.
    ``metadata`` has ``lines``, the number of lines that end in the chunk. ``own`` is the metadata that a caller gave.
    """

    row: int
    id: str
    document: int
    index: int
    heading_path: tuple[str, ...] | None
    size: int | None
    metadata: dict[str, Any] | None
    fingerprint: int | None
    own: dict[str, object] | None
    from_position: int
    to_position: int | None = None


CHUNKS = Table(
    "chunks",
    columns(ChunkRow)[:-1],  # only chunks_were has the last column
    ("row",),
    (("document, chunk_index", ""), ("id", "")),
    then=AsOf("from_position", closed="chunks_were"),
)
_CLOSED = ended(CHUNKS, "chunks_were")
CHUNKS_WERE = replace(_CLOSED, indexes=(*_CLOSED.indexes, ("document", ""), ("id", "")))

_, chunk_of = codec(ChunkRow, CHUNKS)
_INDEX = CHUNKS.names.index("chunk_index") - 1  # among the values after the key
_strings = msgspec.json.Decoder(tuple[str, ...])


def chunk_fingerprint(secret: bytes, user: str, content: str, heading_path: Iterable[str], own: Raw) -> int:
    """Return a keyed fingerprint of a chunk: equal for the same user, text, headings and metadata of a caller."""
    return fingerprint(secret, user, content, *heading_path, *(() if own is NOTHING else (None, bytes(own).decode())))


class DocumentsProjection:
    name, version, follows, reads = "documents", 4, frozenset("d"), ()
    tables = (DOCUMENTS, DOCUMENT_VERSIONS, CHUNKS, CHUNKS_WERE)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            keep(change, rows, FAMILY)
            if change.new is not None and isinstance(event.data, ChunkAdded):
                rows.put(CHUNKS, (event.position,), self._added(event, event.data, event.data.index))
            elif change.refold or isinstance(event.data, DocumentReplaced):
                before = standing(rows, CHUNKS, "document", change.first)
                if isinstance(event.data, DocumentReplaced) and not change.refold:
                    after = _moved(before, event.data)
                else:
                    after = self._in_effect(change)
                replace_rows(change, rows, (CHUNKS, CHUNKS_WERE), before, after)

    def _added(self, event: AnyEvent, data: ChunkAdded, index: int) -> Values:
        user, words, headings = event.envelope.user, data.content, data.heading_path
        own = bytes(data.own).decode() if data.own is not NOTHING else "null"
        mark = None
        if user is not None and words is not None and headings is not None:
            mark = chunk_fingerprint(self._secret, user, words, headings, data.own)
        path = msgspec.json.encode(headings).decode() if headings is not None else None
        metadata = bytes(data.metadata).decode()
        size = len(words) if words is not None else None
        numbers = (size, _unless_null(metadata), mark, _unless_null(own), event.position)
        return (event.position, data.chunk, event.first, index, path, *numbers)

    def _in_effect(self, change: SubjectChange) -> dict[Values, Values]:
        """Return the chunks that result from the events in effect, by key."""
        text = document.text_of(change.events).values()
        return by_key(CHUNKS, (self._added(event, event.data, index) for event, index in text))


def _moved(chunks: dict[Values, Values], data: DocumentReplaced) -> dict[Values, Values]:
    """Return the chunks that continue after a newer text of the document, each at its new index."""
    new_index = moved(data.kept)
    continuing = {key: chunk for key, chunk in chunks.items() if chunk[_INDEX] in new_index}
    return {key: (*chunk[:_INDEX], new_index[chunk[_INDEX]], *chunk[_INDEX + 1 :]) for key, chunk in continuing.items()}


def _unless_null(encoded: str) -> str | None:
    return None if encoded == "null" else encoded


# --- reads -----------------------------------------------------------------------------------------------------------


def listing(
    connection: sqlite3.Connection,
    *,
    user: str,
    statuses: Sequence[str] = (),
    projects: Sequence[str | None] | None = None,
    tags: Sequence[str] = (),
    metadata: Pairs = NO_PAIRS,
    start: Start = NEWEST,
    limit: int,
) -> list[DocumentState]:
    """Return documents of one user, from ``start`` on; None in ``projects`` means no project."""
    where = Conditions("user = ?", user)
    where.among("status", statuses)
    where.of_projects(projects)
    where.has_tags(tags)
    where.has_pairs(metadata)
    return FAMILY.listed(connection, where, limit, start)


def known_as(connection: sqlite3.Connection, user: str, path: str, digest: str) -> DocumentState | None:
    """Return the document of a user with this path; if ``path`` is "", the document with this text and without a path."""
    condition = "path = ? AND path != ''" if path else "path = '' AND digest = ?"
    sql = f"SELECT * FROM documents WHERE user = ? AND {condition} AND status != 'erased' ORDER BY row DESC LIMIT 1"
    row = connection.execute(sql, (user, path or digest)).fetchone()
    return from_row(row) if row else None


def counts(connection: sqlite3.Connection, user: str) -> dict[str, int]:
    """Return the number of documents of a user by status."""
    sql = "SELECT status, count(*) FROM documents WHERE user = ? GROUP BY status ORDER BY status"
    return by_status(FAMILY.live, connection.execute(sql, (user,)))


def chunks(connection: sqlite3.Connection, row: int) -> list[ChunkRow]:
    """Return the chunks of a document, in the order of its text."""
    sql = "SELECT * FROM chunks WHERE document = ? ORDER BY chunk_index, row"
    return [chunk_of(values) for values in connection.execute(sql, (row,))]


def lines_before(connection: sqlite3.Connection, chunk: ChunkRow) -> int:
    """Return the number of lines of the document that end before a chunk."""
    sql = (
        "SELECT coalesce(sum(coalesce(json_extract(metadata, '$.lines'), 0)), 0) FROM chunks"
        " WHERE document = ? AND chunk_index < ?"
    )
    return int(connection.execute(sql, (chunk.document, chunk.index)).fetchone()[0])


def find_chunk(connection: sqlite3.Connection, id: object, user: str) -> ChunkRow | None:
    """Return the present or last row of a user's chunk by its id or an unambiguous prefix, or None."""
    if not isinstance(id, str) or not is_prefix(id, "c") or len(id) < 3:
        return None
    where, values = ("t.id = ?", [id]) if len(id) == LENGTH else ("t.id >= ? AND t.id < ?", [id, id + "~"])
    matches: dict[str, ChunkRow] = {}
    for table in ("chunks_were", "chunks"):  # the current row comes last and replaces the ended ones
        order = "t.to_position" if table == "chunks_were" else "t.row"
        sql = f"SELECT t.* FROM {table} t CROSS JOIN audit a ON a.position = t.row WHERE {where} AND a.user = ?"
        for row in connection.execute(f"{sql} ORDER BY {order}", (*values, user)):
            matches[row[1]] = chunk_of(row)
    return next(iter(matches.values())) if len(matches) == 1 else None


def dependents(connection: sqlite3.Connection, subject: str) -> list[int]:
    """Return the rows of the memories that cite or cited a subject or, of a document, a chunk that it has or had."""
    sources = [subject, *(chunk_ids(connection, subject) if subject.startswith("d_") else ())]
    return sorted({row for source in sources for row in control.dependents(connection, source)})


def chunk_ids(connection: sqlite3.Connection, stream: str) -> list[str]:
    """Return the ids of every chunk that a document has or had, by the document's id."""
    parts = (
        f"SELECT c.id FROM events e CROSS JOIN {table} c ON c.document = e.position WHERE e.stream = ? AND e.version = 1"
        for table in ("chunks", "chunks_were")
    )
    return [id for (id,) in connection.execute(" UNION ".join(parts), (stream, stream))]


def place_of(connection: sqlite3.Connection, chunk: str) -> tuple[int, int] | None:
    """Return (position of the ChunkAdded event, row of the document) of a chunk of any user by its full id, or None."""
    for table in ("chunks", "chunks_were"):
        place = connection.execute(f"SELECT row, document FROM {table} WHERE id = ? LIMIT 1", (chunk,)).fetchone()
        if place is not None:
            return place[0], place[1]
    return None


def places(
    connection: sqlite3.Connection, rows: Iterable[int]
) -> dict[int, tuple[str, tuple[str, ...], dict[str, object]]]:
    """Return (id of the document, headings above, metadata of a caller) of chunks, by row."""
    documents: dict[int, tuple[str, tuple[str, ...], dict[str, object]]] = {}
    columns = "c.row, d.id, c.heading_path, c.own"
    sql = f"SELECT {columns} FROM chunks c CROSS JOIN documents d ON d.row = c.document WHERE c.row IN {{}}"
    for row, id, headings, own in rows_among(connection, sql, list(rows)):
        if not isinstance(id, str):
            raise DamagedError(FAMILY.live.name, None, "its id is of another type")
        above = _strings.decode(headings) if headings is not None else ()
        documents[row] = (id, above, msgspec.json.decode(own) if own is not None else {})
    return documents
