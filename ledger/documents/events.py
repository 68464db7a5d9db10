"""The events of a document."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import UnsetType

from ledger.log.events import NOTHING, Code, EventData, Id, Json, KeyedDigest, Ranges, Ref, Text, Traits, Use


class DocumentAdded(EventData, frozen=True):
    """The beginning of a document; the ChunkAdded events after this event hold its chunks.

    ``size`` is in characters. ``path`` identifies the document among those of its user ("" for a text without a path).
    ``digest`` is the digest of the whole text.
    """

    traits: ClassVar[Traits] = Traits("reversible", begins="document")

    path: Annotated[Text | None, Use("name")]
    title: Text | None
    digest: KeyedDigest | None
    size: int
    chunks: int
    tags: tuple[Text, ...] | None = ()
    type: Code = "markdown"
    metadata: Json = NOTHING


class ChunkAdded(EventData, frozen=True):
    """A piece of a document: ``index`` counts from 0, ``heading_path`` names the headings above the piece, outermost first.

    ``metadata`` has the number of its lines; ``own`` is the metadata of whoever cut the document elsewhere.
    """

    traits: ClassVar[Traits] = Traits("reversible", quarantined_as="chunk")

    chunk: Annotated[Id, Ref("part")]
    index: int
    content: Annotated[Text | None, Use("material")]
    heading_path: Annotated[tuple[Text, ...] | None, Use("material")] = ()
    metadata: Json = NOTHING
    own: Annotated[Json, Use("material")] = NOTHING


Moved = tuple[int, int, int]


class DocumentReplaced(EventData, frozen=True):
    """Another text of a document, or another title, project, tags or metadata.

    The ChunkAdded events after this event hold the new chunks. ``previous`` is the position of the DocumentAdded or
    DocumentReplaced event of the text before, whose chunks the ranges count. ``kept`` holds (first, last, to): the chunks with
    the old indexes first to last continue, from index ``to`` upwards. ``removed`` holds inclusive ranges of the other old
    indexes. A missing title, missing tags and missing metadata stay as they were; null means erased. The project is that of
    the envelope.
    """

    traits: ClassVar[Traits] = Traits("reversible")

    previous: int
    digest: KeyedDigest | None
    size: int
    chunks: int
    kept: tuple[Moved, ...] = ()
    removed: Ranges = ()
    title: Text | UnsetType | None = msgspec.UNSET
    tags: tuple[Text, ...] | UnsetType | None = msgspec.UNSET
    metadata: Json | UnsetType = msgspec.UNSET


class DocumentRemoved(EventData, frozen=True):
    """The removal of a document, which recall no longer finds."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""


class DocumentRestored(EventData, frozen=True):
    """The return of a removed document with its chunks."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""
