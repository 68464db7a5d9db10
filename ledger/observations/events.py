"""The events of an observation."""

from typing import Annotated, ClassVar

from msgspec import Struct

from ledger.log.events import Code, EventData, Id, Ref, Text, Time, Traits, Use


class EvidenceSource(Struct, frozen=True):
    """A source that supports an observation, and the time at which the source was true in the world."""

    source: Annotated[Id, Ref("cites", needs="any")]
    at: Time


class ObservationFormed(EventData, frozen=True):
    """A text that states what several sources have in common.

    ``written_from`` are the sources of the wording: if one of them is no longer live, the wording is stale. ``rule`` is the rule
    of the confidence ("proof/1": from the number of live sources; "given/1": as the author set it). ``consolidator`` names the
    author: a person ("by_hand"), the rules or a model. ``tags`` belong to the scope: consolidation adds only memories that have
    all of them.
    """

    traits: ClassVar[Traits] = Traits(
        "reversible",
        begins="observation",
        falls_with_cause=False,
        quarantined_as="observation",
    )

    content: Annotated[Text | None, Use("belief")]
    confidence: int
    rule: Code
    consolidator: Code
    evidence: tuple[EvidenceSource, ...]
    written_from: Annotated[tuple[Id, ...], Ref("cites")] = ()
    tags: tuple[Text, ...] | None = ()
    reason: Text | None = ""


class ObservationRevised(EventData, frozen=True):
    """Another wording of an observation.

    ``why`` is "redundant" (the same in better words), "state_change", "resolve" (a stale wording was mended) or "curated" (by
    hand). Without ``confidence`` and ``rule`` both stay as they are, as in a revision by hand.
    """

    traits: ClassVar[Traits] = Traits("reversible", quarantined_as="observation")

    content: Annotated[Text | None, Use("belief")]
    why: Code
    consolidator: Code
    confidence: int | None = None
    rule: Code | None = None
    written_from: Annotated[tuple[Id, ...], Ref("cites")] = ()
    reason: Text | None = ""


class EvidenceAdded(EventData, frozen=True):
    """More sources of an observation."""

    traits: ClassVar[Traits] = Traits("reversible", falls_with_cause=False)

    evidence: tuple[EvidenceSource, ...]
    consolidator: Code


class EvidenceWithdrawn(EventData, frozen=True):
    """Sources that no longer support the observation; ``why`` is "asked" or "contradicted"."""

    traits: ClassVar[Traits] = Traits("reversible")

    sources: Annotated[tuple[Id, ...], Ref("about")]
    why: Code
    reason: Text | None = ""


class ObservationMarkedStale(EventData, frozen=True):
    """A mark that a wording may no longer match its sources.

    Recall does not return the observation until its wording is refreshed or revised.
    """

    traits: ClassVar[Traits] = Traits("reversible")

    why: Code
    reason: Text | None = ""


class ObservationRefreshed(EventData, frozen=True):
    """The end of a stale mark: a check found that the wording matches the present sources."""

    traits: ClassVar[Traits] = Traits("reversible")

    why: Code
    consolidator: Code


class ObservationRetracted(EventData, frozen=True):
    """The end of an observation; ``why`` is "contradiction", "curated", "no_evidence" or "merged" (into ``by``)."""

    traits: ClassVar[Traits] = Traits("reversible")

    why: Code
    by: Annotated[Id | None, Ref("rests_on")] = None
    reason: Text | None = ""


class ObservationRestored(EventData, frozen=True):
    """The return of a retracted observation, which is active again."""

    traits: ClassVar[Traits] = Traits("reversible")

    reason: Text | None = ""
