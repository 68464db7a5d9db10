"""The commands on interactions and on policies: capture, attach a response, reinforce, extract, run what is pending."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ledger import answers
from ledger.domain import confidence as rules
from ledger.domain import interaction as domain
from ledger.domain import metadata as pairs_of
from ledger.domain.errors import AmbiguousIdError, NotFoundError, RejectedError, SuspendedError
from ledger.domain.events import (
    NOTHING,
    AnyEvent,
    InteractionCaptured,
    MemoryReinforced,
    ReinforcementEvaluated,
    ResponseAttached,
)
from ledger.domain.ids import LENGTH
from ledger.domain.interaction import TEXT_BYTES, Interaction
from ledger.domain.memory import Memory
from ledger.domain.metadata import NO_PAIRS
from ledger.domain.text import check_json, check_text, text_list
from ledger.engine.engine import Engine
from ledger.engine.log_reading import find_row, read_all, read_event
from ledger.engine.snapshot import answer_texts, load
from ledger.engine.who import Who
from ledger.engine.work import Outcome, Work
from ledger.interactions import queries
from ledger.interactions.lines import Line
from ledger.interactions.tying import Turn, is_tied
from ledger.memories import commands as of_memories
from ledger.policies import reinforcement
from ledger.types import Metadata
from projections.core.rows import Connection
from projections.views import audit, confidence, control, quarantine

Progress = Callable[[int, int], None]


def capture(
    engine: Engine,
    asker: Who,
    prompt: str,
    response: str = "",
    *,
    response_summary: str = "",
    project: str | None = None,
    session_id: str | None = None,
    memories_used: Iterable[str] = (),
    chunks_used: Iterable[str] = (),
    context_pack: object = None,
    reinforce: bool = True,
    append: bool = False,
    metadata: Metadata = NO_PAIRS,
) -> answers.Interaction:
    """Records a turn in one append; what it restates is then reinforced in a second one, which may fail without harm.

    It may come before the answer exists: ``attach_response`` adds it. ``memories_used`` are the memories that were
    put before the model, so that what it repeats of them counts as an echo and never as evidence; ``chunks_used``
    the chunks of documents, kept as they are given. With ``append`` the prompt and the response are messages of the
    session too, in the same append; their texts are stored once, with the interaction.
    """
    check_text("prompt", prompt, max_bytes=TEXT_BYTES)
    if not isinstance(reinforce, bool):
        raise RejectedError(f"reinforce must be true or false, not {reinforce!r:.40}")
    if append and not (session_id or "").strip():
        raise RejectedError("append needs a session: the one that the messages are appended to")
    pack = _json({} if context_pack is None else check_json("context_pack", context_pack))
    given = (prompt, response, response_summary, project, session_id, pack, reinforce)
    captured = InteractionCaptured(
        prompt=prompt,
        response=_text("response", response),
        summary=_text("response_summary", response_summary),
        memories_used=text_list("memories_used", memories_used) if memories_used else (),
        chunks_used=text_list("chunks_used", chunks_used) if chunks_used else (),
        context=pack,
        reinforce=reinforce,
        metadata=pairs_of.event_form(pairs_of.checked(metadata)),
    )
    skipped = engine.keeps_out(session_id or "") if append else ""
    turn = Turn(engine.counter, engine.keeps_out, prompt, response) if append and not skipped else None

    about = (project, session_id)
    arguments = (given, captured.memories_used, captured.chunks_used, *((append,) if append else ()))
    arguments += (captured.metadata,) if captured.metadata is not NOTHING else ()
    outcome, unknown = _record(engine, asker, captured, about, arguments, turn)
    if engine.writer.batching and not outcome.replayed:  # nothing has happened since, so nothing need be read
        answer = {"response": response, "summary": response_summary}
        texts_of = [prompt, answer, msgspec.json.decode(pack)]
        if outcome.redacted:
            texts_of = engine.writer.guard.cleaned(texts_of, {})
        found = answers.interaction(outcome.state, outcome.names, *texts_of)
        return msgspec.structs.replace(found, skipped=skipped, warnings=_warnings(unknown))
    return msgspec.structs.replace(_react(engine, outcome, asker), skipped=skipped)


def capture_line(engine: Engine, asker: Who, line: Line, content: tuple[int, ...]) -> tuple[bool, tuple[str, ...]]:
    """Capture one checked line of an import, of which nobody reads an answer; return whether it was known, and warnings.

    Args:
        engine: The engine.
        asker: Who imports, with the key of the line's place.
        line: The line.
        content: The digest of what it says, without secrets: the arguments for which the key stands.
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
    return outcome.replayed, _warnings(unknown)


def _record(
    engine: Engine,
    asker: Who,
    captured: InteractionCaptured,
    about: tuple[str | None, str | None],
    arguments: object,
    turn: Turn | None = None,
) -> tuple[Outcome, list[str]]:
    """Appends a turn ``about`` a project and a session; with it the memories it names that are none."""
    unknown: list[str] = []

    def body(work: Work) -> str:
        project, session_id = about
        work.project = work.project_named(project)
        work.session = work.session_named(session_id)
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
    response_summary: str = "",
    memories_used: Iterable[str] = (),
    chunks_used: Iterable[str] = (),
    metadata: Metadata = NO_PAIRS,
) -> answers.Interaction:
    """The answer to a prompt captured before; an interaction has one response, and it stays."""
    attached = ResponseAttached(
        response=_text("response", response),
        summary=_text("response_summary", response_summary),
        memories_used=text_list("memories_used", memories_used),
        chunks_used=text_list("chunks_used", chunks_used),
        metadata=pairs_of.event_form(pairs_of.checked(metadata)),
    )
    if not attached.response and not attached.summary:
        raise RejectedError("a response is added by a response or a summary, and both are blank")
    turn = Turn(engine.counter, engine.keeps_out, response=response) if response else None

    def body(work: Work) -> str:
        subject: Interaction = work.load(id, "i")
        work.need("quarantine")
        work.project, work.session = subject.project, subject.session
        used, _ = _used(work, attached.memories_used)
        given = msgspec.structs.replace(attached, memories_used=used)
        for event in domain.decide(domain.Attach(_with_bodies(work, given)), subject):
            work.emit(subject.id, event, first=subject.row)
        if turn is not None and is_tied(work, subject):
            turn.emit(work, subject.id)
        return subject.id

    return _react(engine, engine.writer.run("interactions.add_response", asker, body, (id, attached)), asker)


def warnings_of(engine: Engine, user: str, line: Line) -> tuple[str, ...]:
    """What the capture of a checked line would warn of."""
    unknown = list(line.memories_used)
    with engine.snapshot() as snapshot:
        for each in line.memories_used:
            with suppress(AmbiguousIdError):
                if find_row(snapshot.connection, each, "m", user) is not None:
                    unknown.remove(each)
    return _warnings(unknown)


def _with_bodies(work: Work, data: Any) -> Any:
    large = {
        name: body
        for name in ("prompt", "response", "summary")
        if (text := getattr(data, name, "")) and (body := work.body(text)) is not text
    }
    return msgspec.structs.replace(data, **large) if large else data


def _react(engine: Engine, outcome: Outcome, asker: Who) -> answers.Interaction:
    """Reinforcement follows the capture as a command of its own, and its failure is recorded, not raised."""
    subject: Interaction = outcome.state
    if subject.reinforcement == "pending" and not outcome.replayed and not engine.writer.batching:
        try_reinforcement(engine, subject, asker.correlation_id)
    if engine.after_capture is not None and not outcome.replayed and not engine.writer.batching:
        engine.after_capture()
    try:
        answer, warnings = _shown(engine, asker, subject.id)
    except SuspendedError as error:  # its own event may have done that: it is recorded, and nobody is to repeat it
        with engine.reading() as connection:
            answer = queries.recorded(connection, subject, outcome.names)
        warnings = (f"{subject.id} is recorded, but {error}",)
    return msgspec.structs.replace(answer, replayed=outcome.replayed, warnings=warnings)


def _shown(engine: Engine, asker: Who, id: str) -> tuple[answers.Interaction, tuple[str, ...]]:
    with engine.snapshot() as snapshot:
        answer = queries.get(snapshot, asker.user, id)
        if answer is None:
            raise NotFoundError(f"the interaction {id} was undone meanwhile")
        return answer, _warnings(_unknown(snapshot.connection, answer.memories_used, asker.user))


# --- reinforcement -------------------------------------------------------------------------------------------


def reinforce(
    engine: Engine, asker: Who, id: str, delta: float | None = None, *, source: str | None = None
) -> answers.Memory | answers.Reinforcement:
    """One more reason to believe an active memory: + 0.02 unless asker otherwise; the same ``source`` counts once.

    With the id of an interaction, looks again which memories its response restates, and counts those that it has not
    counted yet, by what the policy says.
    """
    if not isinstance(id, str) or not id.startswith("i_"):
        return of_memories.reinforce(engine.writer, asker, id, delta, source=source)
    if delta is not None or source is not None:
        raise RejectedError(
            "an interaction reinforces by the current policy and is its own source: give no amount and no source"
        )
    with engine.reading() as connection:
        subject = load(connection, id, "i", asker.user)
    if subject is None:
        raise NotFoundError(f"no interaction of this user has the id {id!r:.40}")
    return _reinforce_by(engine, subject, reacting(engine, subject, asker))


def try_reinforcement(
    engine: Engine, subject: Interaction, correlation: str | None = None
) -> answers.Reinforcement | None:
    asker = policy_who(engine, subject, reinforcement.ACTOR, correlation)
    try:
        return _reinforce_by(engine, subject, asker)
    except Exception as error:
        if has_to_wait(error):
            return None
        record_failure(engine, subject, asker, domain.RecordFailure("reinforcement", type(error).__name__))
        return None


def _reinforce_by(engine: Engine, subject: Interaction, asker: Who) -> answers.Reinforcement:
    with engine.reading() as connection:
        policy = control.policy(connection, asker.user)
        texts = answer_texts(connection, subject) if not _is_quarantined(connection, subject) else {}
        text = "\n".join(part for part in texts.values() if part)
        about = (asker.user, subject.project, text, policy.matcher)
        found = reinforcement.evaluate(connection, engine.writer.secret, *about)
    evaluated: list[ReinforcementEvaluated] = []

    def body(work: Work) -> str:
        current: Interaction = work.at_row(subject.row, "i")
        if current is None:
            raise NotFoundError(f"the interaction {subject.id} was undone")
        work.project, work.session = current.project, current.session
        evaluated.append(reinforcement.record(work, current, found, work.policy()))
        return current.id

    outcome = engine.writer.run("interactions.reinforce", asker, body, subject.id)
    with engine.reading() as connection:
        events = list(outcome.events) or _events_of_command(connection, outcome)
        stored = [] if events else _last_evaluation(connection, subject)
        events = events or stored
        recorded = [event.data for event in events if isinstance(event.data, ReinforcementEvaluated)]
        blank = ReinforcementEvaluated(found.matcher, found.pool_size)
        report = next(iter((*recorded, *evaluated)), blank)
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
            (memory, rules.shown(step.confidence - step.delta), rules.shown(step.confidence))
            for memory, step in steps
            if step is not None
        ),
        echoes=sum(each.echo for each in report.matches),
        denied=tuple(each.memory for each in report.denied),
        left_over=report.left_over,
        replayed=outcome.replayed or bool(stored),
    )


def _last_evaluation(connection: Connection, subject: Interaction) -> list[AnyEvent]:
    """What the command appended that evaluated the interaction last, of those in effect."""
    name = ReinforcementEvaluated.__name__
    for each in audit.trail(connection, user=subject.user, subject=subject.id, type=name, limit=-1):
        if not control.voided(connection, each.position, each.position):
            return read_all(connection, audit.command_at(connection, each.position))
    return []


def _events_of_command(connection: Connection, outcome: Outcome) -> list[AnyEvent]:
    """What a repeated command appended the first time."""
    return read_all(connection, audit.command_at(connection, outcome.position)) if outcome.replayed else []


def record_failure(engine: Engine, subject: Interaction, asker: Who, command: domain.RecordFailure) -> None:
    def body(work: Work) -> str:
        current: Interaction | None = work.at_row(subject.row, "i")
        if current is not None:
            work.project, work.session = current.project, current.session
            for event in domain.decide(command, current):
                work.emit(current.id, event, first=current.row)
        return subject.id

    engine.writer.run("extract" if command.work == "extraction" else "interactions.reinforce", asker, body)


# --- policies ------------------------------------------------------------------------------------------------


def _is_quarantined(connection: Connection, subject: Interaction) -> bool:
    """Whether something of a turn is kept out of recall: then it is no evidence for anything either."""
    positions = [at for at in (subject.prompt_at, subject.response_at) if at is not None]
    return bool(quarantine.among(connection, positions))


def has_to_wait(error: Exception) -> bool:
    """Whether nothing may be written for a policy or a session, or nothing can be told; the turn stays pending until it is
    trusted, or until what is suspended was rebuilt."""
    return isinstance(error, SuspendedError) or (isinstance(error, RejectedError) and error.rule == "trust")


def policy_who(engine: Engine, subject: Interaction, actor: str, correlation: str | None = None) -> Who:
    """A policy that looks at an interaction by itself."""
    return reacting(engine, subject, Who(user=subject.user or "", actor=actor, correlation_id=correlation))


def reacting(engine: Engine, subject: Interaction, asker: Who) -> Who:
    """What is found in an answer reacts to the event that brought it, and falls with that, unless told otherwise."""
    if asker.causation_id is not None or subject.response_at is None:
        return asker
    with engine.reading() as connection:
        event = read_event(connection, subject.response_at)
    return msgspec.structs.replace(asker, causation_id=event.envelope.event_id) if event is not None else asker


def _used(work: Work, given: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
    """The memories that the model had been shown, each by its whole id; and those that are none of this user, which stay as
    they were given."""
    used, unknown = [], []
    for each in given:
        try:
            memory: Memory | None = work.find(each, "m")
        except AmbiguousIdError:
            memory = None
        if memory is None:
            unknown.append(each)
        used.append(each if memory is None else memory.id)
    return tuple(dict.fromkeys(used)), unknown


def _unknown(connection: Connection, used: Iterable[str], user: str) -> list[str]:
    """What was named as a memory and is none of this user."""
    return [each for each in used if len(each) != LENGTH or find_row(connection, each, "m", user) is None]


def _warnings(unknown: Iterable[str]) -> tuple[str, ...]:
    return tuple(
        f"memories_used: {each!r:.60} is no memory of this user; it is kept and not counted" for each in unknown
    )


def _text(name: str, text: str) -> str:
    return check_text(name, text, max_bytes=TEXT_BYTES, blank_allowed=True) if text else ""


def _json(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value)) if value != {} else NOTHING
