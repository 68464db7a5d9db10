"""The life cycle of an observation.

none ──form──► active ──retire──► retracted ──restore──► active

An observation is formed from sources. It can get more sources and other wordings, and keeps its id through every wording. The
state does not say which sources are live (a source is live while it is in use itself): reads look that up. The *proof* of an
observation is the number of its distinct live sources. Recall does not return a wording if one of the sources that it was
written from is no longer live.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.errors import RejectedError
from ledger.events import (
    AnyEvent,
    EventData,
    EvidenceAdded,
    EvidenceSource,
    EvidenceWithdrawn,
    ObservationFormed,
    ObservationMarkedStale,
    ObservationRefreshed,
    ObservationRestored,
    ObservationRetracted,
    ObservationRevised,
)

ERASED = "erased"
STATUSES = ("active", "retracted", ERASED)
TEXT_BYTES = 16 * 1024
WORDS = 30  # the most words of an observation that rules or a model write, as in astrocyte
NO_EVIDENCE = "no_evidence"  # the reason of a retraction for want of a live source
FOLLOWING = (NO_EVIDENCE, "merged")  # the reasons of retractions that nobody asked for
EVIDENCE = 2_000  # the most sources of an observation


class ObservationState(Struct, frozen=True):
    """The state that results from the events of one observation; the fields are the columns of its row, in order.

    ``stale`` is the reason why the wording was marked stale, or "".
    """

    row: int  # the position of the first event of the stream
    id: str
    user: str | None
    agent: str | None
    project: str | None
    tags: tuple[str, ...]
    text: str | None
    confidence: int
    rule: str
    consolidator: str
    written_from: tuple[str, ...]
    status: str
    stale: str
    retracted: str
    merged_into: str | None
    underlying: str | None  # of an erased observation, the status that it would have if its text had not been erased
    recorded_at: str
    revised_at: str
    version: int
    position: int

    @property
    def scope(self) -> str:
        """Return the tags, sorted and joined with "|"; "" without tags."""
        return "|".join(sorted(self.tags))


class Support(Struct, frozen=True):
    """A source of an observation.

    A source that was ``withdrawn`` (the reason: "asked" or "contradicted") supports nothing until it is put back.
    """

    source: str
    at: str
    withdrawn: str = ""


# --- commands --------------------------------------------------------------------------------------------------------


class ReviseObservation(Struct, frozen=True):
    text: str
    reason: str
    confidence: int | None  # None keeps the present value
    rule: str | None  # None keeps the present value
    consolidator: str
    written_from: tuple[str, ...] = ()
    why: str = ""


class Add(Struct, frozen=True):
    """A command that adds sources; with ``restores`` a source that was withdrawn becomes evidence again."""

    evidence: tuple[EvidenceSource, ...]
    consolidator: str
    restores: bool = False


class Withdraw(Struct, frozen=True):
    sources: tuple[str, ...]
    why: str = "asked"
    reason: str = ""


class MarkStale(Struct, frozen=True):
    why: str
    reason: str = ""


class Refresh(Struct, frozen=True):
    why: str
    consolidator: str


class Retire(Struct, frozen=True):
    why: str = "curated"
    by: str | None = None
    reason: str = ""


class RestoreObservation(Struct, frozen=True):
    reason: str = ""


Command = ReviseObservation | Add | Withdraw | MarkStale | Refresh | Retire | RestoreObservation

# --- decide: every rule ----------------------------------------------------------------------------------------------

ALLOWED: dict[str, tuple[str, ...]] = {
    "active": ("revise", "add", "withdraw", "retract"),
    "retracted": ("withdraw", "add", "restore"),
    ERASED: (),
}


def decide(command: Command, observation: ObservationState, evidence: Sequence[Support]) -> list[EventData]:
    """Return the events of a command; an empty list if the observation already is as the command wants it.

    Raises:
        RejectedError: The status does not allow the command.
    """
    match command, observation.status:
        case ReviseObservation(), "active":
            return _revision(command, observation)
        case Add(), "active" | "retracted":
            return _addition(command, evidence)
        case Withdraw(sources, why, reason), "active" | "retracted":
            live = {support.source for support in evidence if not support.withdrawn}
            withdrawn = tuple(dict.fromkeys(source for source in sources if source in live))
            return [EvidenceWithdrawn(withdrawn, why, reason)] if withdrawn else []
        case MarkStale(why, reason), "active":
            return [] if observation.stale else [ObservationMarkedStale(why, reason)]
        case Refresh(why, consolidator), "active":
            return [ObservationRefreshed(why, consolidator)] if observation.stale else []
        case Retire(why, by, reason), "active":
            return [ObservationRetracted(why, by, reason)]
        case RestoreObservation(reason), "retracted":
            return [ObservationRestored(reason)]
        case (Retire(), "retracted") | (RestoreObservation(), "active"):
            return []
        case _:
            raise refusal(command, observation)


def refusal(command: Struct, observation: ObservationState) -> RejectedError:
    name = type(command).__name__.removesuffix("Observation")
    verb = {"MarkStale": "mark stale", "Retire": "retract"}.get(name, name.lower())
    allowed = ", ".join(ALLOWED[observation.status]) or "nothing any more"
    message = f"cannot {verb} {observation.id}: it is {observation.status}, which allows: {allowed}"
    return RejectedError(message, rule="transition", subject=observation.id)


def _revision(command: ReviseObservation, observation: ObservationState) -> list[EventData]:
    confidence = observation.confidence if command.confidence is None else command.confidence
    rule = observation.rule if command.rule is None else command.rule
    revised = (command.text, confidence, rule, command.written_from)
    present = (observation.text, observation.confidence, observation.rule, observation.written_from)
    if revised == present and not observation.stale:
        return []
    return [
        ObservationRevised(
            content=command.text,
            why=command.reason,
            confidence=command.confidence,
            rule=command.rule,
            consolidator=command.consolidator,
            written_from=command.written_from,
            reason=command.why,
        )
    ]


def _addition(command: Add, evidence: Sequence[Support]) -> list[EventData]:
    known = {support.source: bool(support.withdrawn) for support in evidence}
    added: dict[str, EvidenceSource] = {}
    for item in command.evidence:
        if item.source not in added and (item.source not in known or (known[item.source] and command.restores)):
            added[item.source] = item
    room = max(0, EVIDENCE - len(known)) + sum(source in known for source in added)
    evidence_added = tuple(added.values())[:room]
    return [EvidenceAdded(evidence_added, command.consolidator)] if evidence_added else []


# --- evolve: only assignments ----------------------------------------------------------------------------------------

ObservationEvent = (
    ObservationFormed | ObservationRevised | EvidenceAdded | EvidenceWithdrawn | ObservationMarkedStale
    | ObservationRefreshed | ObservationRetracted | ObservationRestored
)  # fmt: skip


def evolve(observation: ObservationState | None, event: AnyEvent) -> ObservationState | None:
    """Return the observation after an event that is in effect; None before the first ObservationFormed."""
    data: ObservationEvent = event.data
    if observation is None:
        return _with_erasure(_formed(event, data)) if isinstance(data, ObservationFormed) else None
    # A second ObservationFormed only adds evidence. If the first becomes void, the second forms the observation.
    if observation.status == ERASED:  # this event may bring a wording that was not erased
        observation = replace(observation, status=observation.underlying or "active", underlying=None)
    return _with_erasure(replace(observation, version=event.version, position=event.position, **_changes(event, data)))


def _with_erasure(observation: ObservationState) -> ObservationState:
    return (
        observation
        if observation.text is not None
        else replace(observation, status=ERASED, underlying=observation.status)
    )


def _formed(event: AnyEvent, data: ObservationFormed) -> ObservationState:
    envelope = event.envelope
    return ObservationState(
        row=event.first,
        id=event.stream,
        user=envelope.user,
        agent=envelope.agent,
        project=envelope.project,
        tags=data.tags or (),
        text=data.content,
        confidence=data.confidence,
        rule=data.rule,
        consolidator=data.consolidator,
        written_from=data.written_from,
        status="active",
        stale="",
        retracted="",
        merged_into=None,
        underlying=None,
        recorded_at=envelope.recorded_at,
        revised_at=envelope.recorded_at,
        version=event.version,
        position=event.position,
    )


def _changes(event: AnyEvent, data: ObservationEvent) -> dict[str, object]:
    match data:
        case ObservationRevised():
            return _worded(event, data)
        case ObservationMarkedStale(why):
            return {"stale": why}
        case ObservationRefreshed():
            return {"stale": ""}
        case ObservationRetracted(why, by):
            return {"status": "retracted", "retracted": why, "merged_into": by}
        case ObservationRestored():
            return {"status": "active", "retracted": "", "merged_into": None}
        case ObservationFormed() | EvidenceAdded() | EvidenceWithdrawn():
            return {}
        case _:
            assert_never(data)


def _worded(event: AnyEvent, data: ObservationRevised) -> dict[str, object]:
    fields = {name: getattr(data, name) for name in ("confidence", "rule", "consolidator", "written_from")}
    changes = {name: value for name, value in fields.items() if value is not None}
    return changes | {"text": data.content, "stale": "", "revised_at": event.envelope.recorded_at}


CHANGING_EVIDENCE = (ObservationFormed, EvidenceAdded, EvidenceWithdrawn)


def supports(events: Sequence[AnyEvent]) -> dict[str, tuple[Support, int]]:
    """Return the sources by id after these events, each with the position of the event that last changed the source."""
    by_source: dict[str, tuple[Support, int]] = {}
    for event in events:
        for support in changed_evidence(event.data, {source: known for source, (known, _) in by_source.items()}):
            by_source[support.source] = (support, event.position)
    return by_source


def changed_evidence(data: ObservationEvent, known: dict[str, Support]) -> list[Support]:
    """Return the sources that an event adds, puts back or withdraws, in their state after the event."""
    if isinstance(data, ObservationFormed | EvidenceAdded):
        return [Support(evidence.source, evidence.at) for evidence in data.evidence]
    if isinstance(data, EvidenceWithdrawn):
        return [replace(known[source], withdrawn=data.why) for source in data.sources if source in known]
    return []


# --- events that are no longer possible after earlier events became void -----------------------------------------------


def admits(observation: ObservationState | None, data: EventData) -> bool:
    """Return True if a recorded event is possible in this state, which earlier events that became void may have changed."""
    if observation is None:
        return isinstance(data, ObservationFormed)
    status = observation.underlying or observation.status
    if isinstance(data, ObservationRetracted) and data.why in FOLLOWING:
        return status == "active"
    # As in ``memories/rules.py``, a decision for what is already so fits too.
    fits_both = isinstance(data, ObservationRestored | ObservationRetracted | EvidenceAdded | EvidenceWithdrawn)
    return status == "active" or (fits_both and status == "retracted")
