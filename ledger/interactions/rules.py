"""The life cycle of an interaction: a prompt, its response, and the state of its reinforcement and extraction."""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain import metadata as pairs_of
from ledger.domain.errors import RejectedError
from ledger.domain.times import moment
from ledger.events import (
    AnyEvent,
    CandidatesExtracted,
    EventData,
    ExtractionFailed,
    InteractionCaptured,
    ReinforcementEvaluated,
    ReinforcementFailed,
    ResponseAttached,
)
from ledger.log.events import NOTHING

ERASED = "erased"
HANDED_IN = "handed_in/1"  # the matcher of a denial that an agent read in a turn; the turn's answer was not evaluated
ATTEMPTS = 3  # after so many failures a reinforcement or extraction is repeated only by a call

WORK_STATUSES = ("waiting", "pending", "done", "undone", "failed", "off", ERASED)
"""The statuses of the reinforcement and of the extraction of an interaction."""

TEXT_BYTES = 10 * 1024 * 1024


class Denial(Struct, frozen=True):
    """A memory that the response denies, and the position of the event that records the denial."""

    memory: str
    position: int


class InteractionState(Struct, frozen=True, gc=False):
    """The state that results from the events of one interaction; the fields are the columns of its row, in order.

    The texts stay in the log; ``prompt_at`` and ``response_at`` are the positions of the events that hold them. ``reinforcement``
    and ``extraction`` are "waiting" (for a response), "pending", "done", "undone" (done, then undone: only a call repeats the
    work), "failed" (after the last attempt), "off", or "erased" (no text remains to be read).
    """

    row: int
    id: str
    user: str | None
    agent: str | None
    project: str | None
    session: str | None
    client: str | None
    occurred_at: str | None  # the time as the caller wrote it, with its offset
    time: str  # UTC: occurred_at, or recorded_at
    recorded_at: str
    memories_used: tuple[str, ...]
    chunks_used: tuple[str, ...]
    prompt_at: int
    response_at: int | None
    reinforcement: str
    extraction: str
    extractor: str  # the rules or the model whose extraction counts last; "" for none
    reinforcement_attempts: int  # consecutive failed attempts
    extraction_attempts: int
    denials: tuple[Denial, ...]
    metadata: str | None
    version: int
    position: int


class Attach(Struct, frozen=True):
    attached: ResponseAttached


class RecordReinforcement(Struct, frozen=True):
    evaluated: ReinforcementEvaluated


class RecordExtraction(Struct, frozen=True):
    extracted: CandidatesExtracted


class RecordFailure(Struct, frozen=True):
    """A command that records a failed attempt of a policy; ``error`` is the kind of the exception, never its text."""

    work: str  # "reinforcement" or "extraction"
    error: str
    extractor: str = ""


Command = Attach | RecordReinforcement | RecordExtraction | RecordFailure


def decide(command: Command, interaction: InteractionState) -> list[EventData]:
    if interaction.extraction == ERASED:
        if isinstance(command, RecordFailure):
            return []
        raise RejectedError(f"{interaction.id} was erased, which allows no command any more", subject=interaction.id)
    match command:
        case Attach(attached):
            if interaction.response_at is not None:
                raise RejectedError(
                    f"cannot attach a response to {interaction.id}: it already has a response, which stays; "
                    "capture a new interaction instead",
                    rule="transition",
                    subject=interaction.id,
                )
            if attached.metadata is not NOTHING:
                known, new = pairs_of.of_row(interaction.metadata), pairs_of.of_event(attached.metadata)
                pairs_of.check_size("metadata", known | new, known)
            return [attached]
        case RecordReinforcement(evaluated):
            return [evaluated]
        case RecordExtraction(extracted):
            return [extracted]
        case RecordFailure("reinforcement", error):
            return [ReinforcementFailed(error)]
        case RecordFailure(_, error, extractor):
            return [ExtractionFailed(extractor, error)]
        case _:
            assert_never(command)


InteractionEvent = (
    InteractionCaptured | ResponseAttached | ReinforcementEvaluated | ReinforcementFailed | CandidatesExtracted
    | ExtractionFailed
)  # fmt: skip


def evolve(interaction: InteractionState | None, event: AnyEvent) -> InteractionState | None:
    data: InteractionEvent = event.data
    if interaction is None:
        return _captured(event, data) if isinstance(data, InteractionCaptured) else None
    now = replace(interaction, version=event.version, position=event.position)
    match data:
        case InteractionCaptured():
            return now
        case ResponseAttached():
            ready = "pending" if data.response or data.summary else ERASED
            return replace(
                now,
                response_at=event.position,
                memories_used=_united(now.memories_used, data.memories_used),
                chunks_used=_united(now.chunks_used, data.chunks_used),
                reinforcement="off" if now.reinforcement == "off" else ready,
                extraction="off" if now.extraction == "off" and ready != ERASED else ready,
                reinforcement_attempts=0,
                extraction_attempts=0,
                metadata=pairs_of.changed(now.metadata, data.metadata),
            )
        case _ if now.extraction == ERASED:
            return now
        case ReinforcementEvaluated():
            denials = (Denial(denied.memory, event.position) for denied in data.denied)
            if data.matcher == HANDED_IN:
                return replace(now, denials=(*now.denials, *denials))
            return replace(now, reinforcement="done", reinforcement_attempts=0, denials=(*now.denials, *denials))
        case CandidatesExtracted():
            return replace(now, extraction="done", extractor=data.extractor, extraction_attempts=0)
        case ReinforcementFailed():
            attempt = now.reinforcement_attempts + 1
            return replace(
                now, reinforcement=_after_failure(now.reinforcement, attempt), reinforcement_attempts=attempt
            )
        case ExtractionFailed():
            attempt = now.extraction_attempts + 1
            return replace(now, extraction=_after_failure(now.extraction, attempt), extraction_attempts=attempt)
        case _:
            assert_never(data)


def without(interaction: InteractionState | None, event: AnyEvent) -> InteractionState | None:
    """Return the interaction after a void event: a void evaluation or extraction leaves the work "undone", not "pending"."""
    if interaction is not None and isinstance(event.data, CandidatesExtracted):
        return replace(interaction, extraction=_undone(interaction.extraction))
    if interaction is not None and isinstance(event.data, ReinforcementEvaluated) and event.data.matcher != HANDED_IN:
        return replace(interaction, reinforcement=_undone(interaction.reinforcement))
    return interaction


def _undone(status: str) -> str:
    return "undone" if status in ("pending", "failed") else status


def _captured(event: AnyEvent, data: InteractionCaptured) -> InteractionState:
    envelope = event.envelope
    answered = bool(data.response or data.summary)
    erased = not answered and None in (data.prompt, data.response, data.summary)
    ready = "pending" if answered else ERASED if erased else "waiting"
    return InteractionState(
        row=event.first,
        id=event.stream,
        user=envelope.user,
        agent=envelope.agent,
        project=envelope.project,
        session=envelope.session,
        client=envelope.client,
        occurred_at=envelope.occurred_at,
        time=moment("occurred_at", envelope.occurred_at) if envelope.occurred_at else envelope.recorded_at,
        recorded_at=envelope.recorded_at,
        memories_used=data.memories_used,
        chunks_used=data.chunks_used,
        prompt_at=event.position,
        response_at=event.position if answered or None in (data.response, data.summary) else None,
        reinforcement=ready if data.reinforce else "off",
        extraction=ready if data.extract or ready == ERASED else "off",
        extractor="",
        reinforcement_attempts=0,
        extraction_attempts=0,
        denials=(),
        metadata=None if data.metadata is NOTHING else pairs_of.row_of(data.metadata),
        version=event.version,
        position=event.position,
    )


def _after_failure(status: str, attempt: int) -> str:
    """Return the status after a failed attempt; a failure on request does not switch on the jobs."""
    if status == "off":
        return status
    return "failed" if attempt >= ATTEMPTS else "pending"


def _united(known: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return (*known, *(id for id in more if id not in known))


def admits(interaction: InteractionState | None, data: EventData) -> bool:
    """Return True if a recorded event is possible in this state, which earlier events that became void may have changed."""
    return interaction is not None or isinstance(data, InteractionCaptured)
