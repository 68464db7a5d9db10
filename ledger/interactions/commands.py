"""The commands on interactions: capture a turn, attach a response, reinforce memories, and record failures of policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.reads import find_row, load, read_all, read_event, texts_at
from ledger.core.work import Outcome, Work
from ledger.domain import confidence as confidence_rules
from ledger.domain import metadata as pairs_of
from ledger.domain.errors import AmbiguousIdError, NotFoundError, RejectedError, SuspendedError
from ledger.domain.ids import LENGTH
from ledger.domain.metadata import NO_PAIRS
from ledger.domain.text import check_json, check_text, flags, plural, text_list
from ledger.events import (
    NOTHING,
    AnyEvent,
    InteractionCaptured,
    MemoryReinforced,
    ReinforcementEvaluated,
    ResponseAttached,
)
from ledger.interactions import answers, queries
from ledger.interactions import policy as reinforcement
from ledger.interactions import rules as interaction_rules
from ledger.interactions.asked import CaptureRequest
from ledger.interactions.lines import ImportedLine
from ledger.interactions.rules import TEXT_BYTES, InteractionState
from ledger.interactions.tying import TiedTurn, is_tied
from ledger.memories.state import MemoryState
from ledger.types import Metadata
from projections.core.rows import Connection
from projections.views import audit, confidence, control, quarantine

Progress = Callable[[int, int], None]


def capture(engine: Engine, asker: Who, request: CaptureRequest) -> answers.Interaction:
    """Record a turn in one append, then reinforce the memories that the response restates in a second append.

    A failure of the reinforcement is recorded, and the turn stays. A response may also be added later by ``attach_response``.
    With ``append`` the prompt and the response become messages of the session in the same append; their texts are stored once,
    with the interaction.
    """
    prompt = check_text("prompt", request.prompt, max_bytes=TEXT_BYTES)
    response, summary = request.response, request.summary
    project, session, reinforce, append = request.project, request.session, request.reinforce, request.append
    memories_used = plural("memories_used", request.memories_used)
    chunks_used = plural("chunks_used", request.chunks_used)
    flags(reinforce=reinforce, extract=request.extract)
    if append and not (session or "").strip():
        raise RejectedError("append=True needs a session, to which the messages are appended")
    pack = _json({} if request.context is None else check_json("context", request.context))
    texts_and_settings = (prompt, response, summary, project, session, pack, reinforce)
    captured = InteractionCaptured(
        prompt=prompt,
        response=_text("response", response),
        summary=_text("summary", summary),
        memories_used=text_list("memories_used", memories_used) if memories_used else (),
        chunks_used=text_list("chunks_used", chunks_used) if chunks_used else (),
        context=pack,
        reinforce=reinforce,
        metadata=pairs_of.event_form(pairs_of.checked(request.metadata)),
        extract=request.extract,
    )
    skipped = engine.keeps_out(session or "") if append else ""
    turn = TiedTurn(engine.counter, engine.keeps_out, prompt, response) if append and not skipped else None

    about = (project, session)
    arguments = (texts_and_settings, captured.memories_used, captured.chunks_used, *((append,) if append else ()))
    arguments += (captured.metadata,) if captured.metadata is not NOTHING else ()
    arguments += ("no extraction",) if not captured.extract else ()
    outcome, unknown = _record(engine, asker, captured, about, arguments, turn)
    if engine.writer.batching and not outcome.replayed:  # in a batch nobody else writes, so the answer needs no read
        answer = {"response": response, "summary": summary}
        texts_of = [prompt, answer, msgspec.json.decode(pack)]
        if outcome.warnings:
            texts_of = engine.writer.guard.cleaned(texts_of, {})
        shown = answers.interaction(outcome.state, outcome.names, *texts_of)
        return msgspec.structs.replace(shown, skipped=skipped, warnings=(*_warnings(unknown), *outcome.warnings))
    return msgspec.structs.replace(_react(engine, outcome, asker), skipped=skipped)


def capture_line(
    engine: Engine, asker: Who, line: ImportedLine, content: tuple[int, ...]
) -> tuple[bool, tuple[str, ...]]:
    """Capture a checked line of an import; return True if the line was known, and the warnings.

    The function builds no answer, because an import does not read one.

    Args:
        engine: The engine.
        asker: The identity of the import, with the key of the line's place.
        line: The line.
        content: The digest of the line without secrets, which stands for the arguments of the command.
    """
    pack = _json(line.context_pack | ({"line_id": line.line_id} if line.line_id else {}))
    captured = InteractionCaptured(
        prompt=line.prompt,
        response=line.response,
        summary=line.response_summary,
        memories_used=text_list("memories_used", line.memories_used) if line.memories_used else (),
        chunks_used=text_list("chunks_used", line.chunks_used) if line.chunks_used else (),
        context=pack,
        metadata=pairs_of.event_form(line.metadata),
    )
    outcome, unknown = _record(engine, asker, captured, (line.project, line.session_id), content)
    if outcome.replayed and captured.memories_used:
        with engine.snapshot() as snapshot:
            unknown = _unknown(snapshot.connection, outcome.state.memories_used, asker.user)
    return outcome.replayed, (*_warnings(unknown), *outcome.warnings)


def _record(
    engine: Engine,
    asker: Who,
    captured: InteractionCaptured,
    about: tuple[str | None, str | None],
    arguments: object,
    turn: TiedTurn | None = None,
) -> tuple[Outcome, list[str]]:
    """Append a turn; return the outcome, and the entries of ``memories_used`` that are not memories of this user.

    ``about`` is the name of the project and the name of the session.
    """
    unknown: list[str] = []

    def body(work: Work) -> str:
        project, session = about
        work.project = work.project_named(project)
        work.session = work.session_named(session)
        work.need("interactions", "quarantine")
        data = captured
        if captured.memories_used:
            used, unknown[:] = _used(work, captured.memories_used)
            data = msgspec.structs.replace(captured, memories_used=used)
        stream = work.new_id("i")
        work.emit(stream, _with_bodies(work, data))
        if turn is not None:
            turn.emit(work, stream)
        return stream

    return engine.writer.run("capture", asker, body, arguments), unknown


def attach_response(
    engine: Engine,
    asker: Who,
    id: str,
    response: str = "",
    *,
    summary: str = "",
    memories_used: Iterable[str] = (),
    chunks_used: Iterable[str] = (),
    metadata: Metadata = NO_PAIRS,
) -> answers.Interaction:
    """Add the response to a turn that was captured without a response; the response cannot be replaced."""
    attached = ResponseAttached(
        response=_text("response", response),
        summary=_text("summary", summary),
        memories_used=text_list("memories_used", memories_used),
        chunks_used=text_list("chunks_used", chunks_used),
        metadata=pairs_of.event_form(pairs_of.checked(metadata)),
    )
    if not attached.response and not attached.summary:
        raise RejectedError("both the response and its summary are blank; at least one of them is needed")
    turn = TiedTurn(engine.counter, engine.keeps_out, response=response) if response else None

    def body(work: Work) -> str:
        subject: InteractionState = work.load(id, "i")
        work.need("quarantine")
        work.project, work.session = subject.project, subject.session
        used, _ = _used(work, attached.memories_used)
        data = msgspec.structs.replace(attached, memories_used=used)
        for event in interaction_rules.decide(interaction_rules.Attach(_with_bodies(work, data)), subject):
            work.emit(subject.id, event, first=subject.row)
        if turn is not None and is_tied(work, subject):
            turn.emit(work, subject.id)
        return subject.id

    return _react(engine, engine.writer.run("interactions.add_response", asker, body, (id, attached)), asker)


def warnings_of(engine: Engine, user: str, line: ImportedLine) -> tuple[str, ...]:
    """Return the warnings that the capture of a checked line would return."""
    unknown = list(line.memories_used)
    with engine.snapshot() as snapshot:
        for id in line.memories_used:
            with suppress(AmbiguousIdError):
                if find_row(snapshot.connection, id, "m", user) is not None:
                    unknown.remove(id)
    return _warnings(unknown)


def _with_bodies(work: Work, data: Any) -> Any:
    """Return the event's data with its long texts moved to the table of long texts."""
    large = {
        name: body
        for name in ("prompt", "response", "summary")
        if (text := getattr(data, name, "")) and (body := work.body(text)) is not text
    }
    return msgspec.structs.replace(data, **large) if large else data


def _react(engine: Engine, outcome: Outcome, asker: Who) -> answers.Interaction:
    """Reinforce memories after a capture, as a command of its own, and return the answer of the capture.

    A failure of the reinforcement is recorded and not raised.
    """
    subject: InteractionState = outcome.state
    if subject.reinforcement == "pending" and not outcome.replayed and not engine.writer.batching:
        try_reinforcement(engine, subject, asker.correlation_id)
    if engine.after_capture is not None and not outcome.replayed and not engine.writer.batching:
        engine.after_capture()
    try:
        answer, warnings = _shown(engine, asker, subject.id)
    except SuspendedError as error:  # the turn is recorded even if its own event suspended a projection
        with engine.reading() as connection:
            answer = queries.recorded(connection, subject, outcome.names)
        warnings = (f"{subject.id} is recorded, but {error}",)
    return msgspec.structs.replace(answer, replayed=outcome.replayed, warnings=(*warnings, *outcome.warnings))


def _shown(engine: Engine, asker: Who, id: str) -> tuple[answers.Interaction, tuple[str, ...]]:
    with engine.snapshot() as snapshot:
        answer = queries.get(snapshot, asker.user, id)
        if answer is None:
            raise NotFoundError(f"the interaction {id} was undone while the command ran")
        return answer, _warnings(_unknown(snapshot.connection, answer.memories_used, asker.user))


# --- reinforcement -------------------------------------------------------------------------------------------


def reinforce_again(engine: Engine, asker: Who, id: str) -> answers.Reinforcement:
    """Search again for memories that a response restates, and reinforce the memories that it has not reinforced yet.

    The gain is that of the user's present policy.
    """
    with engine.reading() as connection:
        subject = load(connection, id, "i", asker.user)
    if subject is None:
        raise NotFoundError(f"no interaction of this user has the id {id!r:.40}")
    return _reinforce_by(engine, subject, caused_by_response(engine, subject, asker))


def try_reinforcement(
    engine: Engine, subject: InteractionState, correlation: str | None = None
) -> answers.Reinforcement | None:
    """Reinforce as the policy; record a failure and return None, or only return None if the work has to wait."""
    asker = policy_who(engine, subject, reinforcement.ACTOR, correlation)
    try:
        return _reinforce_by(engine, subject, asker)
    except Exception as error:
        if has_to_wait(error):
            return None
        record_failure(engine, subject, asker, interaction_rules.RecordFailure("reinforcement", type(error).__name__))
        return None


def _reinforce_by(engine: Engine, subject: InteractionState, asker: Who) -> answers.Reinforcement:
    with engine.reading() as connection:
        policy = control.policy(connection, asker.user)
        held = _is_quarantined(connection, subject)
        texts = {} if held else texts_at(connection, subject.response_at, "response", "summary")
        text = "\n".join(part for part in texts.values() if part)
        about = (asker.user, subject.project, text, policy.matcher)
        evaluation = reinforcement.evaluate(connection, engine.secret, *about)
    evaluated: list[ReinforcementEvaluated] = []

    def body(work: Work) -> str:
        current: InteractionState = work.at_row(subject.row, "i")
        if current is None:
            raise NotFoundError(f"the interaction {subject.id} was undone")
        work.project, work.session = current.project, current.session
        work.occurred_at = work.occurred_at or current.occurred_at  # the memory was restated at the time of the turn
        evaluated.append(reinforcement.record(work, current, evaluation, work.policy()))
        return current.id

    outcome = engine.writer.run("interactions.reinforce", asker, body, subject.id)
    with engine.reading() as connection:
        events = list(outcome.events) or _events_of_command(connection, outcome)
        stored = [] if events else _last_evaluation(connection, subject)
        events = events or stored
        recorded = [event.data for event in events if isinstance(event.data, ReinforcementEvaluated)]
        no_match = ReinforcementEvaluated(evaluation.matcher, evaluation.pool_size)
        report = next(iter((*recorded, *evaluated)), no_match)
        steps = [
            (event.stream, confidence.step(connection, event.first, event.position))
            for event in events
            if isinstance(event.data, MemoryReinforced)
        ]
    return answers.Reinforcement(
        interaction=subject.id,
        matcher=report.matcher,
        pool_size=report.pool_size,
        reinforced=tuple(
            (memory, confidence_rules.shown(step.confidence - step.delta), confidence_rules.shown(step.confidence))
            for memory, step in steps
            if step is not None
        ),
        echoes=sum(match.echo for match in report.matches),
        denied=tuple(denied.memory for denied in report.denied),
        left_over=report.left_over,
        replayed=outcome.replayed or bool(stored),
    )


def _last_evaluation(connection: Connection, subject: InteractionState) -> list[AnyEvent]:
    """Return the events of the last command that evaluated the interaction and is still in effect."""
    name = ReinforcementEvaluated.__name__
    for entry in audit.trail(connection, user=subject.user, subject=subject.id, type=name, limit=-1):
        if not control.voided(connection, entry.position, entry.position):
            return read_all(connection, audit.command_at(connection, entry.position))
    return []


def _events_of_command(connection: Connection, outcome: Outcome) -> list[AnyEvent]:
    """Return the events that the first run of a repeated command appended; empty for a command that is no repetition."""
    return read_all(connection, audit.command_at(connection, outcome.position)) if outcome.replayed else []


def record_failure(
    engine: Engine, subject: InteractionState, asker: Who, command: interaction_rules.RecordFailure
) -> None:
    """Record a failed reinforcement or extraction, unless the interaction was undone meanwhile."""

    def body(work: Work) -> str:
        current: InteractionState | None = work.at_row(subject.row, "i")
        if current is not None:
            work.project, work.session = current.project, current.session
            for event in interaction_rules.decide(command, current):
                work.emit(current.id, event, first=current.row)
        return subject.id

    engine.writer.run("extract" if command.work == "extraction" else "interactions.reinforce", asker, body)


# --- policies ------------------------------------------------------------------------------------------------


def _is_quarantined(connection: Connection, subject: InteractionState) -> bool:
    """Return True if the prompt or the response is in quarantine; such a turn must not reinforce memories."""
    positions = [at for at in (subject.prompt_at, subject.response_at) if at is not None]
    return bool(quarantine.among(connection, positions))


def has_to_wait(error: Exception) -> bool:
    """Return True if an error means that an origin is distrusted or a projection is suspended.

    The turn then stays pending until the origin is trusted again or the projection is rebuilt.
    """
    return isinstance(error, SuspendedError) or (isinstance(error, RejectedError) and error.rule == "trust")


def policy_who(engine: Engine, subject: InteractionState, actor: str, correlation: str | None = None) -> Who:
    """Return the identity of a policy that acts on an interaction."""
    return caused_by_response(engine, subject, Who(user=subject.user or "", actor=actor, correlation_id=correlation))


def caused_by_response(engine: Engine, subject: InteractionState, asker: Who) -> Who:
    """Return the asker with the event of the response as the cause, unless the asker has a cause.

    So an undo of the response also undoes the results.
    """
    if asker.causation_id is not None or subject.response_at is None:
        return asker
    with engine.reading() as connection:
        event = read_event(connection, subject.response_at)
    return msgspec.structs.replace(asker, causation_id=event.envelope.event_id) if event is not None else asker


def _used(work: Work, ids: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """Return the entries of ``memories_used`` with full ids, and the entries that are not memories of this user.

    The first tuple contains entries of the second kind too, unchanged.
    """
    used, unknown = [], []
    for id in ids:
        try:
            memory: MemoryState | None = work.find(id, "m")
        except AmbiguousIdError:
            memory = None
        if memory is None:
            unknown.append(id)
        used.append(id if memory is None else memory.id)
    return tuple(dict.fromkeys(used)), unknown


def _unknown(connection: Connection, used: Iterable[str], user: str) -> list[str]:
    """Return the entries of ``memories_used`` that are not memories of this user."""
    return [id for id in used if len(id) != LENGTH or find_row(connection, id, "m", user) is None]


def _warnings(unknown: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        f"memories_used: {id!r:.60} is not a memory of this user; it is recorded and not counted" for id in unknown
    )


def _text(name: str, text: str) -> str:
    return check_text(name, text, max_bytes=TEXT_BYTES, blank_allowed=True) if text else ""


def _json(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value)) if value != {} else NOTHING
