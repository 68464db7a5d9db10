"""The commands on observations: write one by hand, word it again, retire and restore it, and withdraw what supports them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from ledger import answers
from ledger.documents import answers as document_answers
from ledger.documents import queries as of_documents
from ledger.domain import confidence as rules
from ledger.domain import observation as domain
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.events import (
    AnyEvent,
    EvidenceWithdrawn,
    ObservationFormed,
    ObservationRetracted,
)
from ledger.domain.ids import message_place
from ledger.domain.observation import TEXT_BYTES, Observation
from ledger.domain.text import check_reason, check_text, tag_list
from ledger.engine.engine import Engine
from ledger.engine.log_reading import read_all, read_stream
from ledger.engine.who import Who
from ledger.engine.work import Outcome, Work
from ledger.interactions import queries as of_interactions
from ledger.memories import commands as of_memories
from ledger.memories.sources import own, source_list
from ledger.observations import answers as observation_answers
from ledger.observations import queries as observation_queries
from ledger.policies import evidence as rules_of_evidence
from ledger.policies.evidence import BY_HAND
from ledger.store.reading import read_tip
from projections.core.rows import Connection
from projections.views import audit, control, observations

GIVEN = "given/1"  # the confidence is as somebody gave it
SourceAnswer = answers.Memory | answers.Interaction | document_answers.Chunk | document_answers.Document | None


def observe(
    engine: Engine,
    asker: Who,
    text: str,
    source: str | Iterable[str],
    *,
    confidence: float = rules.BY_HAND / rules.ONE,
    project: str | None = None,
    tags: Iterable[str] = (),
    why: str = "",
) -> observation_answers.Observation:
    """Writes an observation by hand, without a model: what several sources have in common, in your words.

    ``source`` are memories, interactions, chunks and messages in use, one at least: proof is what an observation is. Those of
    another project are refused, unless it is of none. ``confidence`` is from 0.5 to 1. Where an active observation of this scope
    (project and tags) has these words already, the sources become evidence of that one, which comes back ``absorbed``.
    """
    check_text("text", text, max_bytes=TEXT_BYTES)
    given, labels, why = source_list(source, messages=True), tag_list(tags) if tags else (), check_reason("why", why)
    believed = rules.millionths("confidence", confidence, low=rules.LEAST_OBSERVATION)
    if not given:
        raise RejectedError(
            "an observation needs a source: the id of what supports it, a memory, interaction, chunk or message"
        )

    def body(work: Work) -> str:
        work.project = project_of = work.project_named(project)
        sources = tuple(dict.fromkeys(_source_id(work, each, project_of) for each in given))
        evidence = rules_of_evidence.dated(work, sources)
        formed = ObservationFormed(text, believed, GIVEN, BY_HAND, evidence, sources, labels, why)
        known = rules_of_evidence.duplicate(work, project_of, labels, text)
        if known is not None:
            _absorb(work, known, formed)
            return known.id
        stream = work.new_id("o")
        work.emit(stream, formed)
        return stream

    arguments = (text, given, believed, project, labels, why)
    return _observed(engine, asker.user, engine.writer.run("observations.add", asker, body, arguments))


def revise(
    engine: Engine, asker: Who, id: str, content: str, reason: str = ""
) -> answers.Memory | observation_answers.Observation:
    """Another wording for the same memory or observation, which keeps its id; ``supersede`` is for another fact.

    An observation's new wording is taken to be made from all of its live sources; without any it is refused.
    """
    if not _is_observation(id):
        return of_memories.revise(engine.writer, asker, id, content, reason)
    reason = check_reason("reason", reason)
    check_text("content", content, max_bytes=TEXT_BYTES)

    def body(work: Work, state: Observation) -> None:
        cited = [each.source for each in observations.support_of(work.rows, state.row) if not each.withdrawn]
        alive = rules_of_evidence.live(work, cited)
        if state.status == "active":
            if not alive:
                raise RejectedError(
                    f"cannot revise {state.id}: no source of it is in use, so there is nothing to word it from; "
                    "restore one, or retract it",
                    rule="evidence",
                    subject=state.id,
                )
            rules_of_evidence.refuse_duplicate(work, state, content, "revise")
        written = tuple(each for each in cited if each in alive)
        command = domain.Revise(content, "curated", None, None, BY_HAND, written, reason)
        rules_of_evidence.emit(work, state, command)

    return _change_observation(engine, "revise", id, body, asker, (id, content, reason))


def retract(engine: Engine, asker: Who, id: str, reason: str = "") -> answers.Memory | observation_answers.Observation:
    """Takes a memory or an observation out of use without a judgement; ``restore`` brings it back."""
    if not _is_observation(id):
        return of_memories.retract(engine.writer, asker, id, reason)
    command = domain.Retire("curated", reason=check_reason("reason", reason))

    def body(work: Work, state: Observation) -> None:
        rules_of_evidence.emit(work, state, command)

    return _change_observation(engine, "retract", id, body, asker, (id, reason))


def restore(engine: Engine, asker: Who, id: str, reason: str = "") -> SourceAnswer | observation_answers.Observation:
    """Back to the status before it was superseded, invalidated, rejected or retracted; an observation, active again.

    A memory, and an interaction, a chunk, a document or a message as well, is a source again wherever it was withdrawn: the
    observations count it, and those that were retracted for want of evidence are active again. All of it is one append.
    """
    if _is_observation(id):
        return _restore_observation(engine, id, reason, asker)
    if isinstance(id, str) and (id[:2] in ("i_", "c_", "d_") or message_place(id) is not None):
        return _restore_source(engine, id, reason, asker)
    return of_memories.restore(engine.writer, asker, id, reason)


def _restore_observation(engine: Engine, id: str, reason: str, asker: Who) -> observation_answers.Observation:
    reason = check_reason("reason", reason)

    def body(work: Work, state: Observation) -> None:
        if state.status == "retracted":
            rules_of_evidence.refuse_duplicate(work, state, state.text or "", "restore")
        rules_of_evidence.emit(work, state, domain.Restore(reason))

    return _change_observation(engine, "restore", id, body, asker, (id, reason))


def _restore_source(engine: Engine, id: str, reason: str, asker: Who) -> SourceAnswer:
    reason = check_reason("reason", reason)

    def body(work: Work) -> str:
        source = own(work, source_list(id, messages=True)[0])
        sources = rules_of_evidence.to_withdraw(work, source)
        rules_of_evidence.put_back(work, sources, rules_of_evidence.live(work, sources), reason)
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
        return None  # a message: the caller reads it from its session
    with engine.snapshot() as snapshot:
        found = of_interactions.get(snapshot, asker.user, source)
    return msgspec.structs.replace(found, replayed=outcome.replayed) if found is not None else None


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
    """These memories, interactions, chunks or documents support no observation any more, however many those are.

    An observation with another live source goes stale until its wording has been looked at again; one without is retracted.
    What is withdrawn already stays so, and nothing is appended. The sources themselves stay as they are; ``restore(id)``
    of one puts it back. All of it is one append; more than 50,000 events are ``RejectedError`` unless it is ``exclusive``:
    nobody else can write until it is done. A ``dry_run`` only says what it would do.
    """
    reason, given = check_reason("reason", reason), source_list(ids, messages=True)
    if not given:
        raise RejectedError("withdraw needs at least one source by its id")
    if dry_run:
        return _would_withdraw(engine, given, asker.user)
    named: list[str] = []

    def body(work: Work) -> str:
        named[:] = dict.fromkeys(each for one in given for each in rules_of_evidence.to_withdraw(work, one))
        rules_of_evidence.withdraw(work, named, reason, exclusive=exclusive)
        return "ledger"

    outcome = engine.writer.run("observations.withdraw", asker, body, (given, reason))
    return _withdrawal(engine, outcome, tuple(named), given, asker.user)


def _would_withdraw(engine: Engine, given: Sequence[str], user: str) -> observation_answers.WithdrawalReport:
    with engine.reading() as connection:
        named: dict[str, None] = {}
        for each in given:
            sources = observations.sources_named(connection, each, user)
            if not sources:
                raise rules_of_evidence.no_source(each)
            named |= dict.fromkeys(sources)
        found = [observations.get(connection, row) for row in observations.supported_by(connection, [*named])]
        states = [each for each in found if each is not None and each.status != domain.ERASED]
        evidence = observations.evidence(connection, [each.row for each in states])
        position = read_tip(connection.cursor())[0]
    active = [each for each in states if each.status == "active"]
    left = {each.id for each in active if any(e.live and e.source not in named for e in evidence[each.row])}
    return observation_answers.WithdrawalReport(
        sources=tuple(named),
        observations=tuple(each.id for each in states),
        retracted=tuple(each.id for each in active if each.id not in left),
        stale=tuple(each.id for each in active if each.id in left),
        position=position,
        dry_run=True,
    )


def _withdrawal(
    engine: Engine, outcome: Outcome, named: tuple[str, ...], given: tuple[str, ...], user: str
) -> observation_answers.WithdrawalReport:
    """What the log says of it: the same for whoever asks again with the key, or finished it."""
    with engine.reading() as connection:
        events = _events_of(connection, outcome)
        touched = {event.first: event.stream for event in events if isinstance(event.data, EvidenceWithdrawn)}
        retracted = {event.first: event.stream for event in events if isinstance(event.data, ObservationRetracted)}
        others = [observations.get(connection, row) for row in touched if row not in retracted]
        left = observations.supported_by(connection, named)
        if outcome.replayed:
            named = tuple(source for each in given for source in observations.sources_named(connection, each, user))
        failed = [observations.get(connection, row) for row in left]
    return observation_answers.WithdrawalReport(
        sources=tuple(dict.fromkeys(named)),
        observations=tuple(touched.values()),
        retracted=tuple(retracted.values()),
        stale=tuple(each.id for each in others if each is not None and each.status == "active" and each.stale),
        failed=tuple((each.id, "it still counts one of these sources") for each in failed if each is not None),
        position=max((event.position for event in events), default=outcome.position),
        command_id=events[0].envelope.command_id if events else None,
        replayed=outcome.replayed,
        absorbed=not outcome.replayed and not touched,
    )


# --- the common road -----------------------------------------------------------------------------------------


def _change_observation(
    engine: Engine, verb: str, id: str, body: Callable[[Work, Observation], None], asker: Who, arguments: object
) -> observation_answers.Observation:
    def on_observation(work: Work) -> str:
        state: Observation = work.load(id, "o")
        work.need("quarantine")
        work.project = state.project
        body(work, state)
        return state.id

    return _observed(engine, asker.user, engine.writer.run(verb, asker, on_observation, arguments))


def _observed(engine: Engine, user: str, outcome: Outcome) -> observation_answers.Observation:
    answer = observation_queries.get(engine, user, outcome.subject)
    if answer is None:
        raise NotFoundError(f"the observation {outcome.subject} was undone meanwhile")
    return replace(answer, replayed=outcome.replayed, absorbed=outcome.absorbed, warnings=outcome.warnings)


def _is_observation(id: object) -> bool:
    return isinstance(id, str) and id.startswith("o_")


def _source_id(work: Work, given: str, project: str | None) -> str:
    """The full id of a source that an observation of this project may have."""
    if given[0] not in rules_of_evidence.KINDS and message_place(given) is None:
        raise RejectedError(
            "an observation rests on memories (m_…), interactions (i_…), chunks (c_…) and messages (s_…:POSITION), "
            f"and not on {given:.40}"
        )
    source = own(work, given)
    if project is None:
        return source
    other = observations.project_of(work.connection(), source)
    if other not in (None, *work.together(project)):
        raise RejectedError(
            f"the source {source} is of another project; an observation rests on what is of its own project, or of none",
            rule="evidence",
            subject=source,
        )
    return source


def _absorb(work: Work, known: Observation, formed: ObservationFormed) -> None:
    """The sources support what is there already; if that was stale, it is worded from them now.

    The attempt is recorded whole, once an actor unless it adds evidence: should the first forming fall, it stands in for it.
    """
    work.absorbed = True
    supports = {each.source: each for each in observations.support_of(work.rows, known.row)}
    added = [each.source for each in formed.evidence if each.source not in supports or supports[each.source].withdrawn]
    if (count := len(supports.keys() | set(added))) > domain.EVIDENCE:
        raise RejectedError(
            f"{known.id} says the same and would have {count:,} sources; at most {domain.EVIDENCE:,} are allowed",
            rule="size",
            subject=known.id,
            limit=domain.EVIDENCE,
            requested=count,
        )
    if added or work.who.actor not in _formed_by(work, known):
        work.emit(known.id, formed, first=known.row)
    sources = {each.source for each in supports.values() if not each.withdrawn} | {*added}
    alive = sources & rules_of_evidence.live(work, known.written_from)
    if known.stale or not alive.issuperset(known.written_from):
        text, written = known.text or "", formed.written_from
        command = domain.Revise(text, "curated", None, None, BY_HAND, written)
        rules_of_evidence.emit(work, known, command)


def _formed_by(work: Work, known: Observation) -> set[str | None]:
    """Whose forming of it is in effect."""
    connection = work.connection()
    events = read_stream(connection, known.id, 2**62)
    out = control.voided(connection, events[0].position, events[-1].position)
    formed = (event for event in events if isinstance(event.data, ObservationFormed) and event.position not in out)
    return {event.envelope.actor for event in formed}


def _events_of(connection: Connection, outcome: Outcome) -> list[AnyEvent]:
    """Everything that a command recorded."""
    if not outcome.events and not outcome.replayed:
        return []
    return read_all(connection, audit.command_at(connection, outcome.position))
