"""The life cycle of a document. The texts of its chunks stay in the log.

none ──add──► active ──remove──► removed       restore, or add again: active
              │    ▲
              └────┘ add of another text: replaced

An erasure ends every status: a document without a title is erased, and no command is accepted for it. The state has no list of
chunks, because the state is stored again after each ChunkAdded; ``projections.views.documents`` has the chunks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import assert_never

from msgspec import UNSET, Raw, Struct, json
from msgspec.structs import replace

from ledger.documents.chunking import ChunkPiece
from ledger.domain import metadata as pairs_of
from ledger.domain.errors import RejectedError
from ledger.domain.metadata import Pairs
from ledger.events import (
    AnyEvent,
    ChunkAdded,
    DocumentAdded,
    DocumentRemoved,
    DocumentReplaced,
    DocumentRestored,
    EventData,
    Moved,
    Ranges,
)
from ledger.log.events import NOTHING

TEXT_BYTES = 50 * 1024 * 1024
TITLE_BYTES = 1024
PATH_BYTES = 4096
KEPT_RANGES = 1_999  # the most ranges in one event, whose lists have at most 2,000 entries; other chunks count as new
ERASED = "erased"
STATUSES = ("active", "removed", ERASED)


class DocumentState(Struct, frozen=True):
    """The state that results from the events of one document, without texts; the fields are the columns of its row, in order."""

    row: int
    id: str
    user: str | None
    agent: str | None
    project: str | None
    path: str | None
    title: str | None
    tags: tuple[str, ...]
    metadata: str | None
    doc_type: str
    digest: str | None
    size: int
    chunks: int
    status: str
    underlying: str | None  # of an erased document, the status that it would have if it had not been erased
    text_at: int  # the position of the DocumentAdded or DocumentReplaced event of the present text
    awaited: int  # the number of chunks of the present text whose ChunkAdded events are still missing
    recorded_at: str
    updated_at: str  # the time when a text or a description was last added
    version: int
    position: int


# --- commands --------------------------------------------------------------------------------------------------------


class TextAdded(Struct, frozen=True):
    """A command that adds a whole text, cut into pieces.

    ``prints`` holds a fingerprint of each piece, and ``fresh`` an id for each piece, which is used if the piece is new. ``known``
    holds the fingerprints of the document's present chunks, in order; None for an erased chunk. None as title, tags, metadata or
    project keeps the present value.
    """

    digest: str
    size: int
    pieces: Sequence[ChunkPiece]
    fresh: Sequence[str]
    prints: Sequence[int]
    known: Sequence[int | None] = ()
    path: str = ""
    called: str = ""  # the title of a new document if the caller gave none
    title: str | None = None
    tags: tuple[str, ...] | None = None
    metadata: Pairs | None = None
    project: str | None = None
    doc_type: str = "markdown"


class Remove(Struct, frozen=True):
    reason: str = ""


class RestoreDocument(Struct, frozen=True):
    reason: str = ""


Command = TextAdded | Remove | RestoreDocument


def decide(command: Command, document: DocumentState | None) -> list[EventData]:
    """Return the events of a command; an empty list if the document already is as the command wants it.

    Raises:
        RejectedError: The document was erased.
    """
    match command, document.status if document is not None else "none":
        case TextAdded(), "none":
            return _text_added(command)
        case TextAdded(), "active" if document is not None:
            return _replaced(command, document)
        case TextAdded(), "removed" if document is not None:
            return [DocumentRestored(), *_replaced(command, document)]
        case Remove(reason), "active":
            return [DocumentRemoved(reason)]
        case RestoreDocument(reason), "removed":
            return [DocumentRestored(reason)]
        case (Remove(), "removed") | (RestoreDocument(), "active"):
            return []
        case _:
            subject = document.id if document is not None else None
            verb = type(command).__name__.removesuffix("Document").lower()
            raise RejectedError(
                f"cannot {verb} {subject}: it was erased, which allows no command any more",
                rule="transition",
                subject=subject,
            )


def _text_added(command: TextAdded) -> list[EventData]:
    header = DocumentAdded(
        path=command.path,
        title=command.title or command.called,
        digest=command.digest,
        size=command.size,
        chunks=len(command.pieces),
        tags=command.tags or (),
        type=command.doc_type,
        metadata=pairs_of.event_form(command.metadata or {}),
    )
    return [header, *_added(command, range(len(command.pieces)))]


def _added(command: TextAdded, indexes: Iterable[int]) -> list[EventData]:
    return [
        ChunkAdded(command.fresh[index], index, piece.content, piece.heading_path, _metadata(piece), piece.own)
        for index in indexes
        for piece in (command.pieces[index],)
    ]


def _metadata(piece: ChunkPiece) -> Raw:
    return Raw(json.encode({"lines": piece.lines}))


def is_known(command: TextAdded, document: DocumentState) -> bool:
    """Return True if the document already has this text, title, tags, metadata and project."""
    pairs = ((command.title, document.title), (command.tags, document.tags), (command.project, document.project))
    same = command.digest == document.digest and _has_metadata(command, document)
    return same and all(value is None or value == known for value, known in pairs)


def _has_metadata(command: TextAdded, document: DocumentState) -> bool:
    return command.metadata is None or pairs_of.row_form(command.metadata) == document.metadata


def _replaced(command: TextAdded, document: DocumentState) -> list[EventData]:
    if is_known(command, document):
        return []
    if command.digest == document.digest:  # only the title, the tags, the metadata or the project is another one
        kept, new = [(0, document.chunks - 1, 0)] if document.chunks else [], list[int]()
    else:
        kept, new = matched(command.known, command.prints)
    header = DocumentReplaced(
        previous=document.text_at,
        digest=command.digest,
        size=command.size,
        chunks=sum(last - first + 1 for first, last, _ in kept) + len(new),
        kept=tuple(kept),
        removed=_removed(kept, document.chunks),
        title=UNSET if command.title in (None, document.title) else command.title,
        tags=UNSET if command.tags in (None, document.tags) else command.tags,
        metadata=UNSET if _has_metadata(command, document) else pairs_of.event_form(command.metadata or {}),
    )
    return [header, *_added(command, new)]


def matched(known: Sequence[int | None], prints: Sequence[int]) -> tuple[list[Moved], list[int]]:
    """Match the chunks of two texts: return those that continue as (first, last, to), and the indexes of new chunks.

    In the order of the new text, each piece is matched with the chunk after the last matched chunk if that has the same text,
    else with the first unmatched chunk with the same text. So a passage that moved as a whole stays together. The time is linear
    in the number of chunks.
    """
    indexes: dict[int, deque[int]] = {}
    for index, number in enumerate(known):
        if number is not None:
            indexes.setdefault(number, deque()).append(index)
    used, kept, following = set[int](), list[Moved](), 0
    for to, number in enumerate(prints):
        at = following if following < len(known) and known[following] == number and following not in used else None
        candidates = indexes.get(number)
        while at is None and candidates:
            first = candidates.popleft()
            at = first if first not in used else None
        if at is None:
            continue
        used.add(at)
        following = at + 1
        if kept and kept[-1][1] == at - 1 and to - kept[-1][2] == at - kept[-1][0]:
            kept[-1] = (kept[-1][0], at, kept[-1][2])
        else:
            kept.append((at, at, to))
    if len(kept) > KEPT_RANGES:
        longest = sorted(kept, key=lambda span: span[0] - span[1])[:KEPT_RANGES]
        kept = sorted(longest, key=lambda span: span[2])
    continued = {to + step for first, last, to in kept for step in range(last - first + 1)}
    return kept, [index for index in range(len(prints)) if index not in continued]


def _removed(kept: Iterable[Moved], count: int) -> Ranges:
    """Return the old indexes of the chunks that do not continue, as inclusive ranges."""
    ranges, at = list[tuple[int, int]](), 0
    for first, last, _ in sorted(kept):
        if first > at:
            ranges.append((at, first - 1))
        at = last + 1
    return (*ranges, (at, count - 1)) if at < count else tuple(ranges)


def moved(kept: Iterable[Moved]) -> dict[int, int]:
    """Return the new index of every chunk that continues, by its old index."""
    return {first + step: to + step for first, last, to in kept for step in range(last - first + 1)}


def text_of(events: Iterable[AnyEvent]) -> dict[int, tuple[AnyEvent, int]]:
    """Return the chunks of a document after some events, which are in effect.

    A key is the position of the event that added a chunk; a value is this event, and the index of the chunk in the present text.
    """
    chunks = dict[int, tuple[AnyEvent, int]]()
    for event in events:
        match event.data:
            case DocumentAdded():
                chunks = {}
            case ChunkAdded(index=index):
                chunks[event.position] = (event, index)
            case DocumentReplaced(kept=kept):
                new_index = moved(kept)
                chunks = {at: (added, new_index[index]) for at, (added, index) in chunks.items() if index in new_index}
            case _:
                pass
    return chunks


# --- evolve: only assignments ----------------------------------------------------------------------------------------

DocumentEvent = DocumentAdded | ChunkAdded | DocumentReplaced | DocumentRemoved | DocumentRestored


def evolve(document: DocumentState | None, event: AnyEvent) -> DocumentState | None:
    """Return the document after an event that is in effect; None before the first DocumentAdded."""
    data: DocumentEvent = event.data
    if document is None:
        return _with_erasure(_beginning(event, data)) if isinstance(data, DocumentAdded) else None
    if document.status == ERASED:  # this event may bring a title that was not erased
        document = replace(document, status=document.underlying or "active", underlying=None)
    return _with_erasure(
        replace(document, version=event.version, position=event.position, **_changes(document, event, data))
    )


def _with_erasure(document: DocumentState) -> DocumentState:
    return document if document.title is not None else replace(document, status=ERASED, underlying=document.status)


def _beginning(event: AnyEvent, data: DocumentAdded) -> DocumentState:
    envelope = event.envelope
    return DocumentState(
        row=event.first,
        id=event.stream,
        user=envelope.user,
        agent=envelope.agent,
        project=envelope.project,
        path=data.path,
        title=data.title,
        tags=data.tags or (),
        metadata=None if data.metadata is NOTHING else pairs_of.row_of(data.metadata),
        doc_type=data.type,
        digest=data.digest,
        size=data.size,
        chunks=data.chunks,
        status="active",
        underlying=None,
        text_at=event.position,
        awaited=data.chunks,
        recorded_at=envelope.recorded_at,
        updated_at=envelope.recorded_at,
        version=event.version,
        position=event.position,
    )


def _changes(document: DocumentState, event: AnyEvent, data: DocumentEvent) -> dict[str, object]:
    match data:
        case ChunkAdded():
            return {"awaited": max(0, document.awaited - 1)}
        case DocumentReplaced():
            return _newer(document, event, data)
        case DocumentRemoved():
            return {"status": "removed"}
        case DocumentRestored():
            return {"status": "active"}
        case DocumentAdded():
            return {}
        case _:
            assert_never(data)


def _newer(document: DocumentState, event: AnyEvent, data: DocumentReplaced) -> dict[str, object]:
    return {
        "project": event.envelope.project,
        "digest": data.digest,
        "size": data.size,
        "chunks": data.chunks,
        "title": document.title if data.title is UNSET else data.title,
        "tags": document.tags if data.tags is UNSET else data.tags or (),
        "metadata": document.metadata if data.metadata is UNSET else pairs_of.row_of(data.metadata),
        "text_at": event.position,
        "awaited": data.chunks - sum(last - first + 1 for first, last, _ in data.kept),
        "updated_at": event.envelope.recorded_at,
    }


def admits(document: DocumentState | None, data: EventData) -> bool:
    """Return True if a recorded event is possible in this state, which earlier events that became void may have changed."""
    if document is None:
        return isinstance(data, DocumentAdded)
    match data:
        case DocumentReplaced(previous):
            return previous == document.text_at
        case ChunkAdded():
            return document.awaited > 0
        case _:
            return True  # a removal and a restoring also fit where they are for what is already so
