"""The events of an observation."""

from typing import Annotated

from msgspec import Struct

from ledger.domain.events.base import Code, Event, Id, Ref, Text, Time, Traits, Use


class Evidence(Struct, frozen=True):
    """A source that supports an observation, and when it was true in the world."""

    source: Annotated[Id, Ref("cites", needs="any")]
    at: Time


class ObservationFormed(Event, frozen=True):
    """What several sources have in common, in one text.

    ``written_from`` are the sources that the wording was made from: without each of them it is stale. ``rule`` says how
    confidence follows ("proof/1" from the number of live sources, "given/1" as it was given); ``consolidator`` who formed
    it. ``tags`` bound it: its sources have them all.
    """

    traits = Traits(
        "reversible",
        begins="observation",
        falls_with_cause=False,
        quarantined_as="observation",
    )

    content: Annotated[Text | None, Use("belief")]
    confidence: int
    rule: Code
    consolidator: Code
    evidence: tuple[Evidence, ...]
    written_from: Annotated[tuple[Id, ...], Ref("cites")] = ()
    tags: tuple[Text, ...] | None = ()
    reason: Text | None = ""


class ObservationRevised(Event, frozen=True):
    """Another wording; ``why`` is "redundant" (said better), "state_change", "resolve" or "curated".

    Without ``confidence`` and ``rule`` they stay as they are: a revision by hand says nothing of them.
    """

    traits = Traits("reversible", quarantined_as="observation")

    content: Annotated[Text | None, Use("belief")]
    why: Code
    consolidator: Code
    confidence: int | None = None
    rule: Code | None = None
    written_from: Annotated[tuple[Id, ...], Ref("cites")] = ()
    reason: Text | None = ""


class EvidenceAdded(Event, frozen=True):
    """More sources of an observation."""

    traits = Traits("reversible", falls_with_cause=False)

    evidence: tuple[Evidence, ...]
    consolidator: Code


class EvidenceWithdrawn(Event, frozen=True):
    """These sources support it no longer: ``why`` is "asked" or "contradicted"."""

    traits = Traits("reversible")

    sources: Annotated[tuple[Id, ...], Ref("about")]
    why: Code
    reason: Text | None = ""


class ObservationMarkedStale(Event, frozen=True):
    """Its wording no longer matches its sources; until it is looked at again it is not recalled."""

    traits = Traits("reversible")

    why: Code
    reason: Text | None = ""


class ObservationRefreshed(Event, frozen=True):
    """The wording holds, as the sources are now."""

    traits = Traits("reversible")

    why: Code
    consolidator: Code


class ObservationRetracted(Event, frozen=True):
    """``why`` is "contradiction", "curated", "no_evidence" or "merged" (into ``by``)."""

    traits = Traits("reversible")

    why: Code
    by: Annotated[Id | None, Ref("rests_on")] = None
    reason: Text | None = ""


class ObservationRestored(Event, frozen=True):
    """A retracted observation is active again."""

    traits = Traits("reversible")

    reason: Text | None = ""
