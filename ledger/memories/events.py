"""The events of a memory and of the relations that it states."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Struct, UnsetType

from ledger.log.events import NOTHING, Code, EventData, Id, Json, Ref, Text, Time, Traits, Use


class Origin(Struct, frozen=True, omit_defaults=True):
    """The rule that found a candidate, and the place: characters ``start`` to ``end`` of ``field`` of the memory's first source.

    If the source is a session, the place is in the message at ``position``. A model names no characters, so both ends are 0.
    """

    rule: Code
    extractor: Code
    field: Code
    start: int
    end: int
    position: int = 0


class MemoryCaptured(EventData, frozen=True):
    """The beginning of a memory, as a candidate or active.

    ``supersedes`` is the memory that the new memory replaces. ``origin`` is the rule that found the memory, and the place. A
    merged memory takes ``reference_count`` and ``last_referenced_at`` over from its memories. ``admission`` is the line of the
    admission table that gave the status if no person did: the table with its version, and the line's name.
    """

    traits: ClassVar[Traits] = Traits("reversible", begins="memory")

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
    """The full attempt to capture a text that a memory already states; it is recorded on that memory.

    If the capture of the memory becomes void, the attempt takes its place. A threat in the attempt, the ``finding`` of a
    ``scanner``, keeps the memory out of recall from then on, and not before.
    """

    traits: ClassVar[Traits] = Traits("reversible", begins="memory")

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
    rule: Code = "verbatim/1"
    metadata: Annotated[Json, Use("belief")] = NOTHING
    admission: Code = ""
    finding: Code = ""
    scanner: Code = ""


class MemoryPromoted(EventData, frozen=True):
    """The promotion of a candidate, which is active from here on."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""


class MemoryRejected(EventData, frozen=True):
    """The rejection of a candidate; ``rule`` names the rule if a policy let the candidate expire."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""
    rule: Code = ""


class MemoryReinforced(EventData, frozen=True):
    """A reinforcement of a memory: the evidence (interaction, matcher), and the rule with its delta.

    The resulting confidence is computed from all events and not stored here, because an undo of an earlier reinforcement would
    change it. The confidence timeline shows it for every moment.
    """

    traits: ClassVar[Traits] = Traits("reversible")

    rule: Code
    delta: int
    interaction: Annotated[Id | None, Ref("rests_on")] = None
    matcher: Code | None = None
    fraction: int | None = None
    echo: bool = False


class ConfidenceAdjusted(EventData, frozen=True):
    """A confidence that was set by hand."""

    traits: ClassVar[Traits] = Traits("reversible")

    rule: Code
    confidence: int
    reason: Text | None = ""


class MemoryRevised(EventData, frozen=True):
    """Another wording of a memory."""

    traits: ClassVar[Traits] = Traits("reversible")

    content: Annotated[Text | None, Use("belief")]
    reason: Text | None = ""


class MemoryRetagged(EventData, frozen=True):
    """A change of tags or metadata: tags added and removed, metadata set, and the keys of removed metadata (``unset``)."""

    traits: ClassVar[Traits] = Traits("reversible")

    added: Annotated[tuple[Text, ...] | None, Use("belief")] = ()
    removed: Annotated[tuple[Text, ...] | None, Use("repeats")] = ()
    metadata: Annotated[Json, Use("belief")] = NOTHING
    unset: Annotated[tuple[Text, ...] | None, Use("repeats")] = ()


class MemoryCorrected(EventData, frozen=True):
    """A correction of the ``kind``, the ``entities`` or the project of a memory; a field that was not corrected is missing.

    If ``moved`` is true, the memory belongs to the project of this event from here on; to no project if the event has none.
    """

    traits: ClassVar[Traits] = Traits("reversible")

    kind: Annotated[Code, Use("coined")] = ""
    moved: bool = False
    entities: Annotated[tuple[Text, ...] | UnsetType | None, Use("belief")] = msgspec.UNSET
    reason: Text | None = ""


class ValidityChanged(EventData, frozen=True):
    """A new time of validity of a memory; without ``valid_from`` the beginning stays."""

    traits: ClassVar[Traits] = Traits("reversible")

    valid_from: Time | None
    valid_to: Time | None
    reason: Text | None = ""


class MemorySuperseded(EventData, frozen=True):
    """The end of a memory because another memory, ``by``, took its place.

    ``by`` is missing if nothing took its place: somebody ended the memory, or a policy let it expire and ``rule`` names the rule.
    The memory held up to ``valid_to``, or not at all if it began later or there is none. ``unreviewed`` is True for a candidate,
    which was never active here.
    """

    traits: ClassVar[Traits] = Traits("reversible")

    by: Annotated[Id | None, Ref("rests_on")]
    valid_to: Time | None
    reason: Text | None = ""
    rule: Code | None = None
    unreviewed: bool = False


class MemoryInvalidated(EventData, frozen=True):
    """The end of a memory that was wrong."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""


class MemoryRetracted(EventData, frozen=True):
    """The end of a memory without a judgement on its truth."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""


class MemoryRestored(EventData, frozen=True):
    """The return of a memory to the status before it ended; the memory's other events say which status that was."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""


class MemoryQuarantined(EventData, frozen=True):
    """The quarantine of a memory, which keeps it out of recall, by hand or because of a ``scanner``'s finding."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""
    finding: Code = ""
    scanner: Code = ""


class MemoryReleased(EventData, frozen=True):
    """The end of a quarantine, by hand or because a later ``scanner`` finds nothing."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""
    scanner: Code = ""


class RelationAdded(EventData, frozen=True):
    """A memory's statement that ``subject`` has a ``relation`` to ``object``.

    The relation holds as long as the memory, or in the time from ``valid_from`` to ``valid_to``.
    """

    traits: ClassVar[Traits] = Traits("reversible")

    subject: Annotated[Text | None, Use("name"), Use("belief")]
    relation: Annotated[Text | None, Use("name"), Use("belief")]
    object: Annotated[Text | None, Use("name"), Use("belief")]
    valid_from: Time | None = None
    valid_to: Time | None = None


class RelationRemoved(EventData, frozen=True):
    """The end of a relation that a memory stated; ``by`` is the memory whose relation replaced this relation.

    ``added`` is the position of the last RelationAdded with the relation, which identifies the relation after its words are
    erased.
    """

    traits: ClassVar[Traits] = Traits("reversible")

    subject: Annotated[Text | None, Use("repeats")]
    relation: Annotated[Text | None, Use("repeats")]
    object: Annotated[Text | None, Use("repeats")]
    by: Annotated[Id | None, Ref("rests_on")] = None
    reason: Text | None = ""
    added: int = 0
