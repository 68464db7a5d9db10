"""An observation: formed of what several sources say, then supported by more, worded again, gone stale, retracted and restored.

none ──form──► active ──retire──► retracted ──restore──► active

It keeps its id through every wording. Which of its sources are live is no part of this state: a source is when its memory is
active, and that is asked when the observation is read. Its *proof* is the number of its distinct live sources, and what was
worded from a source that is no longer live is not recalled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.errors import RejectedError
from ledger.domain.events import (
    AnyEvent,
    Event,
    Evidence,
    EvidenceAdded,
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
WORDS = 30  # astrocyte: one sentence of thirty words, when a policy writes it
NO_EVIDENCE = "no_evidence"  # why it was retracted: none of its sources was live
EVIDENCE = 2_000  # sources of one observation


class Observation(Struct, frozen=True):
    """What folds out of one observation's events; the columns of its row, in order. ``stale`` says why, "" while it is fresh."""

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
    underlying: str | None  # the status that it would have, had its text not been erased
    recorded_at: str
    revised_at: str
    version: int
    position: int

    @property
    def scope(self) -> str:
        """Its tags, sorted and joined; "" where it speaks of all of its project."""
        return "|".join(sorted(self.tags))


class Support(Struct, frozen=True):
    """A source as the observation has it; one that was ``withdrawn`` (why: "asked", "contradicted") supports nothing until it
    is put back."""

    source: str
    at: str
    withdrawn: str = ""


# --- commands --------------------------------------------------------------------------------------------------------


class Revise(Struct, frozen=True):
    text: str
    reason: str
    confidence: int | None  # None, like the rule, for what it is
    rule: str | None
    consolidator: str
    written_from: tuple[str, ...] = ()
    why: str = ""


class Add(Struct, frozen=True):
    """More evidence; what was withdrawn stays so, unless this puts it back (``restores``)."""

    evidence: tuple[Evidence, ...]
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


class Restore(Struct, frozen=True):
    reason: str = ""


Command = Revise | Add | Withdraw | MarkStale | Refresh | Retire | Restore

# --- decide: every rule ----------------------------------------------------------------------------------------------

ALLOWED = {
    "active": ("revise", "add", "withdraw", "retract"),
    "retracted": ("withdraw", "add", "restore"),
    ERASED: (),
}


def decide(command: Command, observation: Observation, evidence: Sequence[Support]) -> list[Event]:
    """The events that a command leads to; none when what it asks for is already so."""
    match command, observation.status:
        case Revise(), "active":
            return _revision(command, observation)
        case Add(), "active" | "retracted":
            return _addition(command, evidence)
        case Withdraw(sources, why, reason), "active" | "retracted":
            live = {each.source for each in evidence if not each.withdrawn}
            gone = tuple(dict.fromkeys(each for each in sources if each in live))
            return [EvidenceWithdrawn(gone, why, reason)] if gone else []
        case MarkStale(why, reason), "active":
            return [] if observation.stale else [ObservationMarkedStale(why, reason)]
        case Refresh(why, consolidator), "active":
            return [ObservationRefreshed(why, consolidator)] if observation.stale else []
        case Retire(why, by, reason), "active":
            return [ObservationRetracted(why, by, reason)]
        case Restore(reason), "retracted":
            return [ObservationRestored(reason)]
        case (Retire(), "retracted") | (Restore(), "active"):
            return []
        case _:
            raise refusal(command, observation)


def refusal(command: Struct, observation: Observation) -> RejectedError:
    asked = {"MarkStale": "mark stale", "Retire": "retract"}.get(type(command).__name__, type(command).__name__.lower())
    allowed = ", ".join(ALLOWED[observation.status]) or "nothing any more"
    message = f"cannot {asked} {observation.id}: it is {observation.status}, which allows: {allowed}"
    return RejectedError(message, rule="transition", subject=observation.id)


def _revision(command: Revise, observation: Observation) -> list[Event]:
    confidence = observation.confidence if command.confidence is None else command.confidence
    rule = observation.rule if command.rule is None else command.rule
    wanted = (command.text, confidence, rule, command.written_from)
    known = (observation.text, observation.confidence, observation.rule, observation.written_from)
    if wanted == known and not observation.stale:
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


def _addition(command: Add, evidence: Sequence[Support]) -> list[Event]:
    known = {each.source: bool(each.withdrawn) for each in evidence}
    added: dict[str, Evidence] = {}
    for each in command.evidence:
        if each.source not in added and (each.source not in known or (known[each.source] and command.restores)):
            added[each.source] = each
    room = max(0, EVIDENCE - len(known)) + sum(each in known for each in added)
    kept = tuple(added.values())[:room]
    return [EvidenceAdded(kept, command.consolidator)] if kept else []


# --- evolve: only assignments ----------------------------------------------------------------------------------------

ObservationEvent = (
    ObservationFormed | ObservationRevised | EvidenceAdded | EvidenceWithdrawn | ObservationMarkedStale
    | ObservationRefreshed | ObservationRetracted | ObservationRestored
)  # fmt: skip


def evolve(observation: Observation | None, event: AnyEvent) -> Observation | None:
    """The observation after an event in effect. Unless it was formed there is nothing that an event could change."""
    data: ObservationEvent = event.data
    if observation is None:
        return _gone(_formed(event, data)) if isinstance(data, ObservationFormed) else None
    # Another ObservationFormed is an equal attempt, which adds its evidence, and stands in for the first should that fall.
    if observation.status == ERASED:  # folds on the underlying status, for a later wording may not have been erased
        observation = replace(observation, status=observation.underlying or "active", underlying=None)
    return _gone(replace(observation, version=event.version, position=event.position, **_changes(event, data)))


def _gone(observation: Observation) -> Observation:
    return (
        observation
        if observation.text is not None
        else replace(observation, status=ERASED, underlying=observation.status)
    )


def _formed(event: AnyEvent, data: ObservationFormed) -> Observation:
    envelope = event.envelope
    return Observation(
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
    given = {name: getattr(data, name) for name in ("confidence", "rule", "consolidator", "written_from")}
    changes = {name: value for name, value in given.items() if value is not None}
    return changes | {"text": data.content, "stale": "", "revised_at": event.envelope.recorded_at}


BEARING = (ObservationFormed, EvidenceAdded, EvidenceWithdrawn)  # what changes the evidence


def supports(events: Sequence[AnyEvent]) -> dict[str, tuple[Support, int]]:
    """The sources after all of these events in effect, each with the position that it stands from as it is."""
    found: dict[str, tuple[Support, int]] = {}
    for event in events:
        for support in changed_evidence(event.data, {source: each for source, (each, _) in found.items()}):
            found[support.source] = (support, event.position)
    return found


def changed_evidence(data: ObservationEvent, known: dict[str, Support]) -> list[Support]:
    """The sources that an event adds, puts back or withdraws, as they are after it."""
    if isinstance(data, ObservationFormed | EvidenceAdded):
        return [Support(each.source, each.at) for each in data.evidence]
    if isinstance(data, EvidenceWithdrawn):
        return [replace(known[each], withdrawn=data.why) for each in data.sources if each in known]
    return []


# --- legality under fold-without: which later events no longer make sense ---------------------------------------------


def admits(observation: Observation | None, data: Event) -> bool:
    """Whether an event recorded earlier still makes sense on this state, once others before it are void."""
    if observation is None:
        return isinstance(data, ObservationFormed)
    status = observation.underlying or observation.status
    needed = {ObservationRestored: ("retracted",), EvidenceAdded: ("active", "retracted")}
    if isinstance(data, EvidenceWithdrawn):
        return True
    return status in needed.get(type(data), ("active",))
