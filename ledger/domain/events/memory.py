"""The events of a memory, and of the relations it says."""

from typing import Annotated

from msgspec import Struct

from ledger.domain.events.base import NOTHING, Code, Event, Id, Json, Ref, Text, Time, Traits, Use


class Origin(Struct, frozen=True, omit_defaults=True):
    """Which rule found a candidate, and where: characters ``start`` to ``end`` of ``field`` of its first source, which of a
    session is the message at ``position``. A model names no span: both are 0."""

    rule: Code
    extractor: Code
    field: Code
    start: int
    end: int
    position: int = 0


class MemoryCaptured(Event, frozen=True):
    """A memory begins, as a candidate or active. ``supersedes`` names the one that it replaces; ``origin`` says which rule
    found it, and where. ``reference_count`` and ``last_referenced_at`` are what a merged memory takes over. ``admission`` is
    the line of the table that gave the status where no person did: the table with its version, and the line's name."""

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


class DuplicateAbsorbed(Event, frozen=True):
    """The full attempt to capture what was there already; should its first capture become void, this one takes over."""

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


class MemoryPromoted(Event, frozen=True):
    """A candidate is active from here."""

    traits = Traits("reversible")

    reason: Text | None = ""


class MemoryRejected(Event, frozen=True):
    """A candidate was turned down; ``rule`` says by which rule where a policy let it expire."""

    traits = Traits("reversible")

    reason: Text | None = ""
    rule: Code = ""


class MemoryReinforced(Event, frozen=True):
    """Evidence (interaction, matcher) and rule with its delta. What came of it is folded, never stored: an undo of an earlier
    reinforcement would make it untrue; the confidence timeline has it for every moment."""

    traits = Traits("reversible")

    rule: Code
    delta: int
    interaction: Annotated[Id | None, Ref("rests_on")] = None
    matcher: Code | None = None
    fraction: int | None = None
    echo: bool = False


class ConfidenceAdjusted(Event, frozen=True):
    """Somebody set the confidence."""

    traits = Traits("reversible")

    rule: Code
    confidence: int
    reason: Text | None = ""


class MemoryRevised(Event, frozen=True):
    """Another wording of the same memory."""

    traits = Traits("reversible")

    content: Annotated[Text | None, Use("belief")]
    reason: Text | None = ""


class MemoryRetagged(Event, frozen=True):
    """Tags that were added and removed, and metadata that was set or, by its keys, ``unset``."""

    traits = Traits("reversible")

    added: Annotated[tuple[Text, ...] | None, Use("belief")] = ()
    removed: Annotated[tuple[Text, ...] | None, Use("repeats")] = ()
    metadata: Annotated[Json, Use("belief")] = NOTHING
    unset: Annotated[tuple[Text, ...] | None, Use("repeats")] = ()


class ValidityChanged(Event, frozen=True):
    """From when to when it holds; without ``valid_from`` it begins as it did."""

    traits = Traits("reversible")

    valid_from: Time | None
    valid_to: Time | None
    reason: Text | None = ""


class MemorySuperseded(Event, frozen=True):
    """``by`` is missing only where a policy let the memory expire; ``rule`` then says which. It held up to ``valid_to``, or not
    at all where it began later."""

    traits = Traits("reversible")

    by: Annotated[Id | None, Ref("rests_on")]
    valid_to: Time
    reason: Text | None = ""
    rule: Code | None = None


class MemoryInvalidated(Event, frozen=True):
    """The memory was wrong."""

    traits = Traits("reversible")

    reason: Text | None = ""


class MemoryRetracted(Event, frozen=True):
    """The memory is no longer used; nothing is said of whether it was right."""

    traits = Traits("reversible")

    reason: Text | None = ""


class MemoryRestored(Event, frozen=True):
    """Back to the status before, which is folded: what made it so may be void by then."""

    traits = Traits("reversible")

    reason: Text | None = ""


class MemoryQuarantined(Event, frozen=True):
    """Kept out of recall: by somebody, or because of what a ``scanner`` found in it."""

    traits = Traits("reversible")

    reason: Text | None = ""
    finding: Code = ""
    scanner: Code = ""


class MemoryReleased(Event, frozen=True):
    """The quarantine of a memory ends: somebody says so, or a later ``scanner`` finds nothing."""

    traits = Traits("reversible")

    reason: Text | None = ""
    scanner: Code = ""


class RelationAdded(Event, frozen=True):
    """The memory says that ``subject`` stands in ``relation`` to ``object``, while it holds or as long as is said here."""

    traits = Traits("reversible")

    subject: Annotated[Text | None, Use("name"), Use("belief")]
    relation: Annotated[Text | None, Use("name"), Use("belief")]
    object: Annotated[Text | None, Use("name"), Use("belief")]
    valid_from: Time | None = None
    valid_to: Time | None = None


class RelationRemoved(Event, frozen=True):
    """It no longer does; ``by`` is the memory whose relation replaced it.

    ``added`` is the position of the RelationAdded that said it last: which relation was meant, once its words are erased.
    """

    traits = Traits("reversible")

    subject: Annotated[Text | None, Use("repeats")]
    relation: Annotated[Text | None, Use("repeats")]
    object: Annotated[Text | None, Use("repeats")]
    by: Annotated[Id | None, Ref("rests_on")] = None
    reason: Text | None = ""
    added: int = 0
