"""A document: added, replaced by a newer text, removed and restored. The texts of its chunks stay in the log.

none ──add──► active ──remove──► removed       restore, or adding it again: active
              │    ▲
              └────┘ add of another text: replaced

An erasure ends both statuses: a document without a title is erased, and no command is accepted for it. The state holds no list
of chunks, for the state is written again with each of them; ``projections.views.documents`` has the chunks.
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
from ledger.log.event_base import NOTHING

TEXT_BYTES = 50 * 1024 * 1024
TITLE_BYTES = 1024
PATH_BYTES = 4096
KEPT_RANGES = 1_999  # in one event, whose lists are bounded to 2,000; chunks beyond them are recorded as new
ERASED = "erased"
STATUSES = ("active", "removed", ERASED)


class DocumentState(Struct, frozen=True):
    """The state that folds out of one document's events, without its texts; the fields are the columns of its row, in order."""

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
    underlying: str | None  # the status that the document would have if it had not been erased
    text_at: int  # the position of the event that began the present text
    awaited: int  # chunks of the present text that are still to be added
    recorded_at: str
    updated_at: str  # when the document was last added
    version: int
    position: int


# --- commands --------------------------------------------------------------------------------------------------------


class TextAdded(Struct, frozen=True):
    """A command that adds a whole text, cut into pieces.

    ``fresh`` has an id for every piece, in case the piece is new, and ``prints`` a number that stands for each piece's text.
    ``known`` are these numbers for the document's present chunks, in order; None for an erased chunk. A title, tags, metadata
    or a project of None are not given.
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
    """Return the events that a command leads to; an empty list when the state asked for is already reached.

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
    if command.digest == document.digest:  # the same text under another title, other tags, metadata or another project
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
    """Return the chunks that continue, as (first, last, to), and the indexes of new chunks, in time linear in both texts.

    In the order of the new text, each piece takes the chunk after the last match if it has the same text, or else the first chunk
    with the same text that is not yet taken. So a passage that moved as a whole stays together.
    """
    places: dict[int, deque[int]] = {}
    for index, number in enumerate(known):
        if number is not None:
            places.setdefault(number, deque()).append(index)
    taken, kept, following = set[int](), list[Moved](), 0
    for to, number in enumerate(prints):
        at = following if following < len(known) and known[following] == number and following not in taken else None
        waiting = places.get(number)
        while at is None and waiting:
            first = waiting.popleft()
            at = first if first not in taken else None
        if at is None:
            continue
        taken.add(at)
        following = at + 1
        if kept and kept[-1][1] == at - 1 and to - kept[-1][2] == at - kept[-1][0]:
            kept[-1] = (kept[-1][0], at, kept[-1][2])
        else:
            kept.append((at, at, to))
    if len(kept) > KEPT_RANGES:
        longest = sorted(kept, key=lambda span: span[0] - span[1])[:KEPT_RANGES]
        kept = sorted(longest, key=lambda span: span[2])
    goes_on = {to + step for first, last, to in kept for step in range(last - first + 1)}
    return kept, [index for index in range(len(prints)) if index not in goes_on]


def _removed(kept: Iterable[Moved], count: int) -> Ranges:
    """Return the old indexes that no longer exist, as inclusive ranges."""
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
    """Return the chunks of a document after these events in effect.

    The key is the position of the event that added a chunk; the value is that event, and the chunk's index in the present text.
    """
    chunks = dict[int, tuple[AnyEvent, int]]()
    for event in events:
        match event.data:
            case DocumentAdded():
                chunks = {}
            case ChunkAdded(index=index):
                chunks[event.position] = (event, index)
            case DocumentReplaced(kept=kept):
                goes_on = moved(kept)
                chunks = {at: (added, goes_on[index]) for at, (added, index) in chunks.items() if index in goes_on}
            case _:
                pass
    return chunks


# --- evolve: only assignments ----------------------------------------------------------------------------------------

DocumentEvent = DocumentAdded | ChunkAdded | DocumentReplaced | DocumentRemoved | DocumentRestored


def evolve(document: DocumentState | None, event: AnyEvent) -> DocumentState | None:
    """Return the document after an event in effect; None while no DocumentAdded is in effect."""
    data: DocumentEvent = event.data
    if document is None:
        return _with_erasure(_begun(event, data)) if isinstance(data, DocumentAdded) else None
    if document.status == ERASED:  # a later title may not have been erased, so the underlying status goes on
        document = replace(document, status=document.underlying or "active", underlying=None)
    return _with_erasure(
        replace(document, version=event.version, position=event.position, **_changes(document, event, data))
    )


def _with_erasure(document: DocumentState) -> DocumentState:
    return document if document.title is not None else replace(document, status=ERASED, underlying=document.status)


def _begun(event: AnyEvent, data: DocumentAdded) -> DocumentState:
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
    """Return True if an event recorded earlier is still possible in this state, after earlier events became void."""
    if document is None:
        return isinstance(data, DocumentAdded)
    match data:
        case DocumentReplaced(previous):
            return previous == document.text_at
        case ChunkAdded():
            return document.awaited > 0
        case DocumentRemoved():
            return (document.underlying or document.status) == "active"
        case DocumentRestored():
            return (document.underlying or document.status) == "removed"
        case _:
            return True
