"""The events of a memory and of the relations that it states."""

from typing import Annotated

import msgspec
from msgspec import Struct, UnsetType

from ledger.log.event_base import NOTHING, Code, EventData, Id, Json, Ref, Text, Time, Traits, Use


class Origin(Struct, frozen=True, omit_defaults=True):
    """The rule that found a candidate, and the place: characters ``start`` to ``end`` of ``field`` of the memory's first source.

    In a session the place is in the message at ``position``. A model names no span, so that both ends are 0.
    """

    rule: Code
    extractor: Code
    field: Code
    start: int
    end: int
    position: int = 0


class MemoryCaptured(EventData, frozen=True):
    """A memory begins, as a candidate or active.

    ``supersedes`` names the memory that it replaces; ``origin`` is the rule that found it, and the place. ``reference_count`` and
    ``last_referenced_at`` are taken over by a merged memory. ``admission`` is the line of the admission table that gave the
    status if no person did: the table with its version, and the line's name.
    """

    traits = Traits("reversible", begins="memory")

    content: Annotated[Text | None, Use("belief")]
    kind: Annotated[Code, Use("coined")]
    status: Code
    confidence: int
    entities: Annotated[tuple[Text, ...] | None, Use("belief")] = ()
    tags: Annotated[tuple[Text, ...] | None, Use("belief")] = ()
    sources: Annotated[tuple[Id, ...], Ref("cites", needs="any")] = ()
    valid_from: Time | None = None
    valid_to: Time | None = None
    supersedes: Annotated[Id | None, Ref("replaces")] = None
    origin: Origin | None = None
    reference_count: int = 0
    last_referenced_at: Time | None = None
    metadata: Annotated[Json, Use("belief")] = NOTHING
    admission: Code = ""


class DuplicateAbsorbed(EventData, frozen=True):
    """The full attempt to capture a memory that was already there.

    If the first capture becomes void, the attempt takes its place.
    """

    traits = Traits("reversible", begins="memory")

    content: Text | None
    kind: Annotated[Code, Use("coined")]
    status: Code
    confidence: int
    entities: tuple[Text, ...] | None = ()
    tags: tuple[Text, ...] | None = ()
    sources: Annotated[tuple[Id, ...], Ref("cites", needs="any")] = ()
    valid_from: Time | None = None
    valid_to: Time | None = None
    supersedes: Annotated[Id | None, Ref("replaces")] = None
    origin: Origin | None = None
    reference_count: int = 0
    last_referenced_at: Time | None = None
    rule: Code = "verbatim/1"
    metadata: Json = NOTHING
    admission: Code = ""


class MemoryPromoted(EventData, frozen=True):
    """A candidate is active from here."""

    traits = Traits("reversible")

    reason: Text | None = ""


class MemoryRejected(EventData, frozen=True):
    """A candidate was rejected; ``rule`` names the rule if a policy let it expire."""

    traits = Traits("reversible")

    reason: Text | None = ""
    rule: Code = ""


class MemoryReinforced(EventData, frozen=True):
    """A reinforcement: the evidence (interaction, matcher), and the rule with its delta.

    The resulting confidence is folded, never stored, for an undo of an earlier reinforcement would make it untrue. The confidence
    timeline shows it for every moment.
    """

    traits = Traits("reversible")

    rule: Code
    delta: int
    interaction: Annotated[Id | None, Ref("rests_on")] = None
    matcher: Code | None = None
    fraction: int | None = None
    echo: bool = False


class ConfidenceAdjusted(EventData, frozen=True):
    """The confidence was set by hand."""

    traits = Traits("reversible")

    rule: Code
    confidence: int
    reason: Text | None = ""


class MemoryRevised(EventData, frozen=True):
    """The memory has another wording from here."""

    traits = Traits("reversible")

    content: Annotated[Text | None, Use("belief")]
    reason: Text | None = ""


class MemoryRetagged(EventData, frozen=True):
    """Tags that were added and removed, and metadata that was set or, by its keys, ``unset``."""

    traits = Traits("reversible")

    added: Annotated[tuple[Text, ...] | None, Use("belief")] = ()
    removed: Annotated[tuple[Text, ...] | None, Use("repeats")] = ()
    metadata: Annotated[Json, Use("belief")] = NOTHING
    unset: Annotated[tuple[Text, ...] | None, Use("repeats")] = ()


class MemoryCorrected(EventData, frozen=True):
    """Another ``kind`` or other ``entities`` of the memory; what was not corrected is missing.

    ``moved`` means that from here the memory belongs to the project of this event, or to none if the event has no project.
    """

    traits = Traits("reversible")

    kind: Annotated[Code, Use("coined")] = ""
    moved: bool = False
    entities: Annotated[tuple[Text, ...] | UnsetType | None, Use("belief")] = msgspec.UNSET
    reason: Text | None = ""


class ValidityChanged(EventData, frozen=True):
    """The memory's new time of validity; without ``valid_from`` its beginning stays."""

    traits = Traits("reversible")

    valid_from: Time | None
    valid_to: Time | None
    reason: Text | None = ""


class MemorySuperseded(EventData, frozen=True):
    """Another memory, ``by``, took the place of this memory.

    ``by`` is missing if nothing took its place: somebody ended the memory, or a policy let it expire and ``rule`` names the rule.
    The memory held up to ``valid_to``, or not at all if it began later.
    """

    traits = Traits("reversible")

    by: Annotated[Id | None, Ref("rests_on")]
    valid_to: Time
    reason: Text | None = ""
    rule: Code | None = None


class MemoryInvalidated(EventData, frozen=True):
    """The memory was wrong."""

    traits = Traits("reversible")

    reason: Text | None = ""


class MemoryRetracted(EventData, frozen=True):
    """The memory is no longer used, without a judgement on its truth."""

    traits = Traits("reversible")

    reason: Text | None = ""


class MemoryRestored(EventData, frozen=True):
    """The memory returns to its status before, which the fold knows, for the event that hid the memory may be void by then."""

    traits = Traits("reversible")

    reason: Text | None = ""


class MemoryQuarantined(EventData, frozen=True):
    """The memory is kept out of recall, by hand or because of a ``scanner``'s finding."""

    traits = Traits("reversible")

    reason: Text | None = ""
    finding: Code = ""
    scanner: Code = ""


class MemoryReleased(EventData, frozen=True):
    """The quarantine of a memory ends, by hand or because a later ``scanner`` finds nothing."""

    traits = Traits("reversible")

    reason: Text | None = ""
    scanner: Code = ""


class RelationAdded(EventData, frozen=True):
    """The memory states that ``subject`` stands in ``relation`` to ``object``.

    The relation holds while the memory holds, or in the time given here.
    """

    traits = Traits("reversible")

    subject: Annotated[Text | None, Use("name"), Use("belief")]
    relation: Annotated[Text | None, Use("name"), Use("belief")]
    object: Annotated[Text | None, Use("name"), Use("belief")]
    valid_from: Time | None = None
    valid_to: Time | None = None


class RelationRemoved(EventData, frozen=True):
    """The memory no longer states a relation; ``by`` is the memory whose relation replaced it.

    ``added`` is the position of the last RelationAdded with the relation: it identifies the relation once its words are erased.
    """

    traits = Traits("reversible")

    subject: Annotated[Text | None, Use("repeats")]
    relation: Annotated[Text | None, Use("repeats")]
    object: Annotated[Text | None, Use("repeats")]
    by: Annotated[Id | None, Ref("rests_on")] = None
    reason: Text | None = ""
    added: int = 0
