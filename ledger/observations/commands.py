"""The commands on observations: write by hand, revise, retract, restore, and withdraw sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.reads import read_all, read_stream
from ledger.core.work import Outcome, Work
from ledger.documents import answers as document_answers
from ledger.documents import queries as of_documents
from ledger.domain import confidence as confidence_rules
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.ids import message_place
from ledger.domain.text import check_reason, check_text, tag_list
from ledger.events import AnyEvent, EvidenceWithdrawn, ObservationFormed, ObservationRetracted
from ledger.interactions import queries as of_interactions
from ledger.interactions.answers import Interaction
from ledger.log.reading import read_tip
from ledger.memories import answers
from ledger.memories import commands as of_memories
from ledger.memories.sources import own, source_list
from ledger.observations import answers as observation_answers
from ledger.observations import queries as observation_queries
from ledger.observations import rules as observation_rules
from ledger.observations.policy import (
    BY_HAND,
    KINDS,
    dated,
    duplicate,
    emit,
    live,
    no_source,
    put_back,
    refuse_duplicate,
    to_withdraw,
    withdraw,
)
from ledger.observations.rules import TEXT_BYTES, ObservationState
from projections.core.rows import Connection
from projections.views import audit, control, observations

GIVEN = "given/1"  # the name of the rule "the confidence is the one that the caller passed"
SourceAnswer = answers.Memory | Interaction | document_answers.Chunk | document_answers.Document | None


def observe(
    engine: Engine,
    asker: Who,
    text: str,
    source: str | Iterable[str],
    *,
    confidence: float = confidence_rules.BY_HAND / confidence_rules.ONE,
    project: str | None = None,
    tags: Iterable[str] = (),
    why: str = "",
) -> observation_answers.Observation:
    """Record an observation written by hand: the caller's text states what several sources have in common.

    ``source`` are the ids of memories, interactions, chunks and messages in use, at least one. Sources of another project are
    refused, unless the observation has no project. ``confidence`` is from 0 to 1. If an active observation of this scope
    (project and tags) has the same text, the sources become evidence of that observation, and the answer is ``absorbed``.
    """
    check_text("text", text, max_bytes=TEXT_BYTES)
    source_ids, labels, why = (
        source_list(source, messages=True),
        tag_list(tags) if tags else (),
        check_reason("why", why),
    )
    millionths = confidence_rules.millionths("confidence", confidence)
    if not source_ids:
        raise RejectedError(
            "an observation needs a source: the id of what supports it, a memory, interaction, chunk or message"
        )

    def body(work: Work) -> str:
        work.project = project_of = work.project_named(project)
        sources = tuple(dict.fromkeys(_source_id(work, id, project_of) for id in source_ids))
        evidence = dated(work, sources)
        formed = ObservationFormed(text, millionths, GIVEN, BY_HAND, evidence, sources, labels, why)
        known = duplicate(work, project_of, labels, text)
        if known is not None:
            _absorb(work, known, formed)
            return known.id
        stream = work.new_id("o")
        work.emit(stream, formed)
        return stream

    arguments = (text, source_ids, millionths, project, labels, why)
    return _observed(engine, asker.user, engine.writer.run("observations.add", asker, body, arguments))


def revise(
    engine: Engine, asker: Who, id: str, content: str, reason: str = ""
) -> answers.Memory | observation_answers.Observation:
    """Give a memory or an observation another wording under the same id. A new fact needs ``supersede``.

    All live sources of an observation count as sources of its new wording. Without a live source the revision is refused.
    """
    if not _is_observation(id):
        return of_memories.revise(engine.writer, asker, id, content, reason)
    reason = check_reason("reason", reason)
    check_text("content", content, max_bytes=TEXT_BYTES)

    def body(work: Work, state: ObservationState) -> None:
        cited = [support.source for support in observations.support_of(work.rows, state.row) if not support.withdrawn]
        alive = live(work, cited)
        if state.status == "active":
            if not alive:
                raise RejectedError(
                    f"cannot revise {state.id}: none of its sources is in use, and a wording needs a live source; "
                    "restore a source, or retract the observation",
                    rule="evidence",
                    subject=state.id,
                )
            refuse_duplicate(work, state, content, "revise")
        written = tuple(source for source in cited if source in alive)
        command = observation_rules.ReviseObservation(content, "curated", None, None, BY_HAND, written, reason)
        emit(work, state, command)

    return _change_observation(engine, "revise", id, body, asker, (id, content, reason))


def retract(engine: Engine, asker: Who, id: str, reason: str = "") -> answers.Memory | observation_answers.Observation:
    """Take a memory or an observation out of use without saying that it is wrong; ``restore`` undoes the change."""
    if not _is_observation(id):
        return of_memories.retract(engine.writer, asker, id, reason)
    command = observation_rules.Retire("curated", reason=check_reason("reason", reason))

    def body(work: Work, state: ObservationState) -> None:
        emit(work, state, command)

    return _change_observation(engine, "retract", id, body, asker, (id, reason))


def restore(engine: Engine, asker: Who, id: str, reason: str = "") -> SourceAnswer | observation_answers.Observation:
    """Return a memory or observation to its status before it was superseded, invalidated, rejected or retracted.

    A memory, interaction, chunk, document or message that was withdrawn as a source becomes a source again: its observations
    count the source, and those that were retracted for want of evidence become active again. All of this is one append.
    """
    if _is_observation(id):
        return _restore_observation(engine, id, reason, asker)
    if isinstance(id, str) and (id[:2] in ("i_", "c_", "d_") or message_place(id) is not None):
        return _restore_source(engine, id, reason, asker)
    return of_memories.restore(engine.writer, asker, id, reason)


def _restore_observation(engine: Engine, id: str, reason: str, asker: Who) -> observation_answers.Observation:
    reason = check_reason("reason", reason)

    def body(work: Work, state: ObservationState) -> None:
        if state.status == "retracted":
            refuse_duplicate(work, state, state.text or "", "restore")
        emit(work, state, observation_rules.RestoreObservation(reason))

    return _change_observation(engine, "restore", id, body, asker, (id, reason))


def _restore_source(engine: Engine, id: str, reason: str, asker: Who) -> SourceAnswer:
    reason = check_reason("reason", reason)

    def body(work: Work) -> str:
        source = own(work, source_list(id, messages=True)[0])
        sources = to_withdraw(work, source)
        put_back(work, sources, live(work, sources), reason)
        return source

    outcome = engine.writer.run("restore", asker, body, (id, reason))
    source = outcome.subject
    if source[0] == "c":
        with engine.snapshot() as snapshot:
            return of_documents.get_chunk(snapshot, asker.user, source)
    if source[0] == "d":
        with engine.snapshot() as snapshot:
            return of_documents.get(snapshot, asker.user, source)
    if source[0] == "s":
        return None  # the caller reads a message from its session
    with engine.snapshot() as snapshot:
        interaction = of_interactions.get(snapshot, asker.user, source)
    return msgspec.structs.replace(interaction, replayed=outcome.replayed) if interaction is not None else None


# --- withdrawing sources -------------------------------------------------------------------------------------


def withdraw_source(
    engine: Engine,
    asker: Who,
    ids: str | Iterable[str],
    reason: str = "",
    *,
    exclusive: bool = False,
    dry_run: bool = False,
) -> observation_answers.WithdrawalReport:
    """Withdraw memories, interactions, chunks, documents or messages from all observations that they support.

    An observation with another live source is stale until its wording is checked. An observation without another live source is
    retracted. If all sources are already withdrawn, nothing is appended. The sources do not change, and ``restore(id)``
    puts a source back. All of this is one append. ``RejectedError`` refuses more than 50,000 events unless ``exclusive``, which
    keeps other writers waiting until they are done. A ``dry_run`` only returns the expected effect.
    """
    reason, ids_given = check_reason("reason", reason), source_list(ids, messages=True)
    if not ids_given:
        raise RejectedError("withdraw needs the id of at least one source, and none was given")
    if dry_run:
        return _would_withdraw(engine, ids_given, asker.user)
    named: list[str] = []

    def body(work: Work) -> str:
        named[:] = dict.fromkeys(source for id in ids_given for source in to_withdraw(work, id))
        withdraw(work, named, reason, exclusive=exclusive)
        return "ledger"

    outcome = engine.writer.run("observations.withdraw", asker, body, (ids_given, reason))
    return _withdrawal(engine, outcome, tuple(named), ids_given, asker.user)


def _would_withdraw(engine: Engine, ids: Sequence[str], user: str) -> observation_answers.WithdrawalReport:
    with engine.reading() as connection:
        named: dict[str, None] = {}
        for id in ids:
            sources = observations.sources_named(connection, id, user)
            if not sources:
                raise no_source(id)
            named |= dict.fromkeys(sources)
        supported = [observations.get(connection, row) for row in observations.supported_by(connection, [*named])]
        states = [state for state in supported if state is not None and state.status != observation_rules.ERASED]
        evidence = observations.evidence(connection, [state.row for state in states])
        position = read_tip(connection.cursor())[0]
    active = [state for state in states if state.status == "active"]
    proven = {
        state.id for state in active if any(item.live and item.source not in named for item in evidence[state.row])
    }
    return observation_answers.WithdrawalReport(
        sources=tuple(named),
        observations=tuple(state.id for state in states),
        retracted=tuple(state.id for state in active if state.id not in proven),
        stale=tuple(state.id for state in active if state.id in proven),
        position=position,
        dry_run=True,
    )


def _withdrawal(
    engine: Engine, outcome: Outcome, named: tuple[str, ...], ids: tuple[str, ...], user: str
) -> observation_answers.WithdrawalReport:
    """Return the report from the command's events, so that a repetition with the same key gets the same report."""
    with engine.reading() as connection:
        events = _events_of(connection, outcome)
        touched = {event.first: event.stream for event in events if isinstance(event.data, EvidenceWithdrawn)}
        retracted = {event.first: event.stream for event in events if isinstance(event.data, ObservationRetracted)}
        remaining = [observations.get(connection, row) for row in touched if row not in retracted]
        still_supported = observations.supported_by(connection, named)
        if outcome.replayed:
            named = tuple(source for id in ids for source in observations.sources_named(connection, id, user))
        failed = [observations.get(connection, row) for row in still_supported]
    return observation_answers.WithdrawalReport(
        sources=tuple(dict.fromkeys(named)),
        observations=tuple(touched.values()),
        retracted=tuple(retracted.values()),
        stale=tuple(state.id for state in remaining if state is not None and state.status == "active" and state.stale),
        failed=tuple((state.id, "it still counts one of these sources") for state in failed if state is not None),
        position=max((event.position for event in events), default=outcome.position),
        command_id=events[0].envelope.command_id if events else None,
        replayed=outcome.replayed,
        absorbed=not outcome.replayed and not touched,
    )


# --- shared steps --------------------------------------------------------------------------------------------


def _change_observation(
    engine: Engine, verb: str, id: str, body: Callable[[Work, ObservationState], None], asker: Who, arguments: object
) -> observation_answers.Observation:
    def on_observation(work: Work) -> str:
        state: ObservationState = work.load(id, "o")
        work.need("quarantine")
        work.project = state.project
        body(work, state)
        return state.id

    return _observed(engine, asker.user, engine.writer.run(verb, asker, on_observation, arguments))


def _observed(engine: Engine, user: str, outcome: Outcome) -> observation_answers.Observation:
    answer = observation_queries.get(engine, user, outcome.subject)
    if answer is None:
        raise NotFoundError(f"the observation {outcome.subject} was undone while the command ran")
    return replace(answer, replayed=outcome.replayed, absorbed=outcome.absorbed, warnings=outcome.warnings)


def _is_observation(id: object) -> bool:
    return isinstance(id, str) and id.startswith("o_")


def _source_id(work: Work, id: str, project: str | None) -> str:
    """Return the full id of a source; refuse a subject that cannot be a source of an observation of this project."""
    if id[0] not in KINDS and message_place(id) is None:
        raise RejectedError(
            "an observation rests on memories (m_…), interactions (i_…), chunks (c_…) and messages (s_…:POSITION), "
            f"and not on {id:.40}"
        )
    source = own(work, id)
    if project is None:
        return source
    project_of_source = observations.project_of(work.connection(), source)
    if project_of_source not in (None, *work.together(project)):
        raise RejectedError(
            f"the source {source} is of another project; an observation may rest on sources of its own project or of none",
            rule="evidence",
            subject=source,
        )
    return source


def _absorb(work: Work, known: ObservationState, formed: ObservationFormed) -> None:
    """Add the sources to the known observation with the same text; a stale wording counts as written from these sources now.

    The second ObservationFormed is recorded with all its evidence: it takes the place of the first if that becomes void. An
    attempt that adds no evidence is recorded only once for each actor.
    """
    work.absorbed = True
    supports = {support.source: support for support in observations.support_of(work.rows, known.row)}
    added = [item.source for item in formed.evidence if item.source not in supports or supports[item.source].withdrawn]
    if (count := len(supports.keys() | set(added))) > observation_rules.EVIDENCE:
        raise RejectedError(
            f"{known.id} says the same and would have {count:,} sources; at most {observation_rules.EVIDENCE:,} are allowed",
            rule="size",
            subject=known.id,
            limit=observation_rules.EVIDENCE,
            requested=count,
        )
    if added or work.who.actor not in _formed_by(work, known):
        work.emit(known.id, formed, first=known.row)
    sources = {support.source for support in supports.values() if not support.withdrawn} | {*added}
    alive = sources & live(work, known.written_from)
    if known.stale or not alive.issuperset(known.written_from):
        text, written = known.text or "", formed.written_from
        command = observation_rules.ReviseObservation(text, "curated", None, None, BY_HAND, written)
        emit(work, known, command)


def _formed_by(work: Work, known: ObservationState) -> set[str | None]:
    """Return the actors whose forming of the observation is in effect."""
    connection = work.connection()
    events = read_stream(connection, known.id, 2**62)
    out = control.voided(connection, events[0].position, events[-1].position)
    formed = (event for event in events if isinstance(event.data, ObservationFormed) and event.position not in out)
    return {event.envelope.actor for event in formed}


def _events_of(connection: Connection, outcome: Outcome) -> list[AnyEvent]:
    """Return all events of a command; empty for a command that recorded nothing."""
    if not outcome.events and not outcome.replayed:
        return []
    return read_all(connection, audit.command_at(connection, outcome.position))
