"""The events of a document."""

from typing import Annotated

import msgspec
from msgspec import UnsetType

from ledger.domain.events.base import NOTHING, Code, Event, Id, Json, KeyedDigest, Ranges, Ref, Text, Traits, Use


class DocumentAdded(Event, frozen=True):
    """A document begins; its chunks are the ChunkAdded next to it. ``size`` is in characters.

    ``path`` is what it is known by within its user ("" for a text without one), ``digest`` that of the whole text.
    """

    traits = Traits("reversible", begins="document")

    path: Annotated[Text | None, Use("name")]
    title: Text | None
    digest: KeyedDigest | None
    size: int
    chunks: int
    tags: tuple[Text, ...] | None = ()
    type: Code = "markdown"
    metadata: Json = NOTHING


class ChunkAdded(Event, frozen=True):
    """One piece of a document: ``index`` counts from 0, ``heading_path`` names the headings above it, outermost first."""

    traits = Traits("reversible", quarantined_as="chunk")

    chunk: Annotated[Id, Ref("part")]
    index: int
    content: Annotated[Text | None, Use("material")]
    heading_path: Annotated[tuple[Text, ...] | None, Use("material")] = ()
    metadata: Json = NOTHING


Moved = tuple[int, int, int]


class DocumentReplaced(Event, frozen=True):
    """The document has another text from here; what is new in it are the ChunkAdded next to this.

    ``previous`` is the position of the DocumentAdded or DocumentReplaced whose chunks these are counted in: ``kept`` has
    (first, last, to): the chunks from index first to last go on, from index ``to`` upwards. ``removed`` has inclusive
    ranges of the indexes before. A title, tags or metadata that are not there stay as they are, and null is what was erased; the
    project is that of the envelope.
    """

    traits = Traits("reversible")

    previous: int
    digest: KeyedDigest | None
    size: int
    chunks: int
    kept: tuple[Moved, ...] = ()
    removed: Ranges = ()
    title: Text | UnsetType | None = msgspec.UNSET
    tags: tuple[Text, ...] | UnsetType | None = msgspec.UNSET
    metadata: Json | UnsetType = msgspec.UNSET


class DocumentRemoved(Event, frozen=True):
    """The document and its chunks are no longer found."""

    traits = Traits("reversible")

    reason: Text | None = ""


class DocumentRestored(Event, frozen=True):
    """A removed document is found again, as it was."""

    traits = Traits("reversible")

    reason: Text | None = ""
