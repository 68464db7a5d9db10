"""A document: taken in, replaced by a newer text, removed and restored. Its chunks' texts stay in the log.

none ──add──► active ──remove──► removed       restore, or adding it again: active
              │    ▲
              └────┘ add of another text: replaced

An erasure ends both: what lost its title is erased, and nothing is decided about it any more. The state holds no list of
chunks, for it is written again with each of them; which chunks there are is told by ``projections.views.documents``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import assert_never

from msgspec import UNSET, Raw, Struct, json
from msgspec.structs import replace

from ledger.domain import metadata as pairs_of
from ledger.domain.chunking import Piece
from ledger.domain.errors import RejectedError
from ledger.domain.events import (
    AnyEvent,
    ChunkAdded,
    DocumentAdded,
    DocumentRemoved,
    DocumentReplaced,
    DocumentRestored,
    Event,
    Moved,
    Ranges,
)
from ledger.domain.events.base import NOTHING
from ledger.domain.metadata import Pairs

TEXT_BYTES = 50 * 1024 * 1024
TITLE_BYTES = 1024
PATH_BYTES = 4096
KEPT_RANGES = 1_999  # in one event (DESIGN 3: lists of at most 2,000); chunks beyond them are new ones
ERASED = "erased"
STATUSES = ("active", "removed", ERASED)


class Document(Struct, frozen=True):
    """Everything that folds out of one document's events but its texts; the columns of its row, in order."""

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
    underlying: str | None  # the status that it would have, had it not been erased
    text_at: int  # the position of the event that began its present text
    awaited: int  # chunks of it that are still to be added
    recorded_at: str
    updated_at: str  # when it was last taken in
    version: int
    position: int


# --- commands --------------------------------------------------------------------------------------------------------


class TextAdded(Struct, frozen=True):
    """A whole text, cut; ``fresh`` has an id for every piece that is new, ``prints`` what each piece says, as a number.

    ``known`` are those numbers of the chunks that the document has, in order; None for one that was erased. A title, tags,
    metadata or a project of None are not given.
    """

    digest: str
    size: int
    pieces: Sequence[Piece]
    fresh: Sequence[str]
    prints: Sequence[int]
    known: Sequence[int | None] = ()
    path: str = ""
    called: str = ""  # the title of a new document for which none was given
    title: str | None = None
    tags: tuple[str, ...] | None = None
    metadata: Pairs | None = None
    project: str | None = None
    doc_type: str = "markdown"


class Remove(Struct, frozen=True):
    reason: str = ""


class Restore(Struct, frozen=True):
    reason: str = ""


Command = TextAdded | Remove | Restore


def decide(command: Command, document: Document | None) -> list[Event]:
    """The events that a command leads to; an empty list when what it asks for is already so."""
    match command, document.status if document is not None else "none":
        case TextAdded(), "none":
            return _text_added(command)
        case TextAdded(), "active" if document is not None:
            return _replaced(command, document)
        case TextAdded(), "removed" if document is not None:
            return [DocumentRestored(), *_replaced(command, document)]
        case Remove(reason), "active":
            return [DocumentRemoved(reason)]
        case Restore(reason), "removed":
            return [DocumentRestored(reason)]
        case (Remove(), "removed") | (Restore(), "active"):
            return []
        case _:
            subject = document.id if document is not None else None
            raise RejectedError(
                f"cannot {type(command).__name__.lower()} {subject}: it was erased, which allows nothing any more",
                rule="transition",
                subject=subject,
            )


def _text_added(command: TextAdded) -> list[Event]:
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


def _added(command: TextAdded, indexes: Iterable[int]) -> list[Event]:
    return [
        ChunkAdded(command.fresh[index], index, piece.content, piece.heading_path, _metadata(piece))
        for index in indexes
        for piece in (command.pieces[index],)
    ]


def _metadata(piece: Piece) -> Raw:
    return Raw(json.encode({"lines": piece.lines}))


def is_known(command: TextAdded, document: Document) -> bool:
    """Whether the document says all this already."""
    pairs = ((command.title, document.title), (command.tags, document.tags), (command.project, document.project))
    same = command.digest == document.digest and _has_metadata(command, document)
    return same and all(given is None or given == known for given, known in pairs)


def _has_metadata(command: TextAdded, document: Document) -> bool:
    return command.metadata is None or pairs_of.row_form(command.metadata) == document.metadata


def _replaced(command: TextAdded, document: Document) -> list[Event]:
    if is_known(command, document):
        return []
    if command.digest == document.digest:  # only what it is called, or where it belongs
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


def matched(known: Sequence[int | None], wanted: Sequence[int]) -> tuple[list[Moved], list[int]]:
    """Which chunks go on, as (first, last, to), and the indexes of those that are new, in time linear in both.

    In the order of the new text: the chunk that follows the last one matched, if it says the same, or else the first that
    does and was not taken yet; so that what moved as a whole stays together.
    """
    places: dict[int, deque[int]] = {}
    for index, number in enumerate(known):
        if number is not None:
            places.setdefault(number, deque()).append(index)
    taken, kept, following = set[int](), list[Moved](), 0
    for to, number in enumerate(wanted):
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
        longest = sorted(kept, key=lambda each: each[0] - each[1])[:KEPT_RANGES]
        kept = sorted(longest, key=lambda each: each[2])
    goes_on = {to + step for first, last, to in kept for step in range(last - first + 1)}
    return kept, [index for index in range(len(wanted)) if index not in goes_on]


def _removed(kept: Iterable[Moved], count: int) -> Ranges:
    """The indexes before that no longer are, as inclusive ranges."""
    found, at = list[tuple[int, int]](), 0
    for first, last, _ in sorted(kept):
        if first > at:
            found.append((at, first - 1))
        at = last + 1
    return (*found, (at, count - 1)) if at < count else tuple(found)


def moved(kept: Iterable[Moved]) -> dict[int, int]:
    """Index before -> index after, of every chunk that goes on."""
    return {first + step: to + step for first, last, to in kept for step in range(last - first + 1)}


def text_of(events: Iterable[AnyEvent]) -> dict[int, tuple[AnyEvent, int]]:
    """The chunks that a document has after all of these events in effect, by the position of what added each: that event, and
    its index in the text as it is now."""
    found = dict[int, tuple[AnyEvent, int]]()
    for event in events:
        match event.data:
            case DocumentAdded():
                found = {}
            case ChunkAdded(index=index):
                found[event.position] = (event, index)
            case DocumentReplaced(kept=kept):
                goes_on = moved(kept)
                found = {at: (added, goes_on[index]) for at, (added, index) in found.items() if index in goes_on}
            case _:
                pass
    return found


# --- evolve: only assignments ----------------------------------------------------------------------------------------

DocumentEvent = DocumentAdded | ChunkAdded | DocumentReplaced | DocumentRemoved | DocumentRestored


def evolve(document: Document | None, event: AnyEvent) -> Document | None:
    """The document after an event in effect. Without its ingestion there is nothing that an event could change."""
    data: DocumentEvent = event.data
    if document is None:
        return _gone(_begun(event, data)) if isinstance(data, DocumentAdded) else None
    if document.status == ERASED:  # folds on the underlying status, for a later title may not have been erased
        document = replace(document, status=document.underlying or "active", underlying=None)
    return _gone(replace(document, version=event.version, position=event.position, **_changes(document, event, data)))


def _gone(document: Document) -> Document:
    return document if document.title is not None else replace(document, status=ERASED, underlying=document.status)


def _begun(event: AnyEvent, data: DocumentAdded) -> Document:
    envelope = event.envelope
    return Document(
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


def _changes(document: Document, event: AnyEvent, data: DocumentEvent) -> dict[str, object]:
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


def _newer(document: Document, event: AnyEvent, data: DocumentReplaced) -> dict[str, object]:
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


def admits(document: Document | None, data: Event) -> bool:
    """Whether an event recorded earlier still makes sense on this state, once others before it are void."""
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
