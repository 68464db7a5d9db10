"""The ``add`` call: messages appended to a session, captured as turns, reinforced, extracted and consolidated.

Each step is a command of its own, because no model is asked under the writer's lock. Each step looks up the pending work itself,
so the same call after a crash does the rest. All commands share a correlation id.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.guarding import as_warnings
from ledger.core.reads import NOWHERE, id_of_filter, read_event
from ledger.core.steps import Stopping
from ledger.domain import confidence as confidence_rules
from ledger.domain.errors import RejectedError
from ledger.domain.ids import uuid7
from ledger.domain.metadata import NO_PAIRS, Pairs, checked
from ledger.domain.policy import REVIEW, TURNS, PolicyState
from ledger.domain.text import counted, one_of
from ledger.events import (
    AnyEvent,
    InteractionCaptured,
    MemoryCaptured,
    MessageAppended,
    ModelCalled,
    ModelCallFailed,
    ObservationFormed,
    ObservationRevised,
    ResponseAttached,
    SessionOpened,
    TextQuarantined,
)
from ledger.extraction import lines as turns
from ledger.extraction import rule_findings as found_in
from ledger.extraction import sessions as session_extraction
from ledger.extraction.answers import Added, Noted
from ledger.extraction.asking import ExtractionRun, meant_model
from ledger.extraction.noting import Notes, noted, of_admission, of_extraction, of_messages, of_wishes
from ledger.interactions import policy as reinforcement
from ledger.interactions.commands import Progress, try_reinforcement
from ledger.memories import admission_rules as admitting
from ledger.models.port import Model
from ledger.observations import consolidating
from ledger.review import conflict_policy
from ledger.review.commands import CONFLICTS, record
from ledger.sessions import continuing as going_on
from ledger.sessions.continuing import Continued
from ledger.sessions.conversation import Conversation, session_name
from ledger.sessions.rules import turns as turn_rules
from ledger.sessions.rules.aligning import KnownPrefix
from ledger.sessions.transcripts import Outside
from ledger.types import Metadata
from projections.core.rows import Connection
from projections.views import audit, control, interactions, memories, projects

ENOUGH_CHANGED = 12  # new or changed sources before ``add`` asks a model to consolidate; the jobs need fewer
EXTRACTING = ("auto", "model", "rules", "off")


def _held(texts: int) -> Iterator[str]:
    if texts:
        yield f"{counted(texts, 'text')} in quarantine: nothing is learned from it"


_CHAT = "the text was taken for one message; a chat is a list: [{'role': 'user', 'content': …}, …]"


class _Steps(Struct):
    """The steps of a call that are done, which are reported to the caller's function."""

    progress: Progress | None
    total: int
    done: int = 0

    def step(self) -> None:
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, max(self.done, self.total))


class AddRequest(Struct, frozen=True, kw_only=True):
    """Messages to add, and the choices for the steps that follow.

    Attributes:
        messages: A text, a message, or a list of messages as OpenAI or Anthropic has them.
        session: The conversation's name; None for the idempotency key as its name, or without a key for a new session.
        project: The project of the session.
        extract: "auto", "model", "rules" or "off"; True for "auto" and False for "off".
        metadata: Keys of the caller for the captured turns.
        dry_run: True to only return the results that the call would have.
    """

    messages: object
    session: str | None = None
    project: str | None = None
    extract: str | bool = "auto"
    metadata: Metadata = NO_PAIRS
    dry_run: bool = False


def add(engine: Engine, asker: Who, request: AddRequest, stopping: Stopping, progress: Progress | None = None) -> Added:
    """Append messages and run the steps that follow; ``Ledger.add`` describes the call."""
    extract, metadata = _extract_checked(request.extract), checked(request.metadata)
    messages, session, dry_run = request.messages, request.session, request.dry_run
    if not isinstance(dry_run, bool):
        raise RejectedError(f"dry_run must be True or False, and {dry_run!r:.40} is neither")
    if engine.writer.batching:
        raise RejectedError(
            "add runs several commands, which a batch cannot hold; call add outside of the batch", rule="batch"
        )
    model = meant_model(engine, extract if extract in ("rules", "model") else None, None)
    lines, left_out = going_on.messages_of(messages)
    name = session_name(session) if session is not None else asker.key or ("" if dry_run else _new_name(engine))
    if not lines:
        why = (
            "there are no messages"
            if not left_out
            else f"nothing in {counted(left_out, 'message')} says anything to remember"
        )
        return Added(session=session or asker.key or "", left_out=left_out, reasons=(why,), dry_run=dry_run)
    conversation = Conversation(engine, asker, name or "a new session", request.project)
    if why := conversation.kept_out:
        return Added(
            session=name,
            left_out=left_out,
            dry_run=dry_run,
            reasons=(f"the session is {why}: nothing of it is stored",),
        )
    with engine.reading() as connection:
        policy = control.policy(connection, asker.user)
    call = _Call(conversation, asker, policy, extract, model, stopping, metadata)
    answer = call.preview(lines, new=not name) if dry_run else call.run(lines, progress)
    hints = (_CHAT,) if going_on.reads_as_chat(messages) else ()
    return replace(answer, session=name, left_out=left_out, reasons=(*answer.reasons, *hints))


def _extract_checked(extract: str | bool) -> str:
    name = "auto" if extract is True else "off" if extract is False else extract
    one_of("extract", name, EXTRACTING)
    return name


def _new_name(engine: Engine) -> str:
    return f"chat-{engine.now()[:10]}-{engine.writer.random(4).hex()}"


class _Call:
    """A call of ``add``, for one session."""

    def __init__(
        self,
        session: Conversation,
        asker: Who,
        policy: PolicyState,
        extract: str,
        model: Model | None,
        stopping: Stopping,
        metadata: Pairs,
    ) -> None:
        self.session, self.engine, self.policy = session, session.present, policy
        self.extract, self.model, self.stopping, self.stopped = extract, model, stopping, ""
        self.metadata = metadata
        correlation = asker.correlation_id or uuid7(time.time_ns(), self.engine.writer.random(8))
        self.asker = replace(asker, correlation_id=correlation)

    @property
    def extracts(self) -> bool:
        return self.extract != "off" and (self.extract != "auto" or self.policy.extract)

    def run(self, lines: list[Outside], progress: Progress | None) -> Added:
        before = self.engine.position
        done = going_on.go_on(self.session, self.asker, lines, self.stopping, self.metadata)
        steps = _Steps(progress, 2)
        steps.step()
        since = done.first or before + 1
        self.asker = replace(self.asker, key=None, correlation_id=done.correlation or self.asker.correlation_id)
        self._reinforce(steps)
        run = self._extract()
        self._relate(since)
        steps.step()
        if self.engine.after_capture is not None and done.turns:
            self.engine.after_capture()
        answer = self._answer(since)
        replayed = done.replayed and not done.appended
        reasons_found = () if replayed else tuple(self._found(run))
        reasons = (*of_messages(done, len(lines)), *self._elsewhere(), *self._off(), *reasons_found, *answer.reasons)
        return replace(
            answer,
            known=len(lines) - answer.messages if done.replayed else done.known.count,
            reasons=reasons,
            stopped=done.stopped or self.stopped,
            replayed=replayed,
        )

    def _reinforce(self, steps: _Steps) -> None:
        """Reinforce by the pending turns of the session, including those that a killed call left."""
        id = self.session.id
        with self.engine.reading() as connection:
            pending = interactions.pending_in(connection, id) if id is not None else []
        steps.total = 2 + len(pending)
        for turn in pending:
            if self._is_over():
                return
            try_reinforcement(self.engine, turn, self.asker.correlation_id)
            steps.step()

    def _extract(self) -> ExtractionRun:
        if not self.extracts or self.session.id is None or self._is_over():
            return ExtractionRun()
        return session_extraction.run_extraction(
            self.session, self.asker, self.model, cancel=self._is_over, by_itself=True
        )

    def _is_over(self) -> bool:
        """Return True if the call has to end, and note the reason for the answer. Call this only while work is left."""
        self.stopped = self.stopped or self.stopping.why
        return bool(self.stopped)

    def _relate(self, since: int) -> None:
        """Search for conflicts of the new memories, and consolidate them, if the policy allows that."""
        with self.engine.reading() as connection:
            learned = any(
                isinstance(event.data, MemoryCaptured) and event.data.status == "active"
                for event in self._events(connection, since)
            )
            conflicts = (
                conflict_policy.search(connection, self.asker.user, after=since - 1)
                if learned and self.policy.conflicts
                else ()
            )
        if conflicts:
            record(self.engine, self.asker, CONFLICTS, conflicts)
        if not self.policy.consolidate or not (learned or self.policy.consolidate == TURNS) or self.stopping.why:
            return
        with self.session.reading() as (_, state):
            project = state.project if state is not None else None
        for pending in consolidating.pending_scopes(self.engine, self.asker.user):
            if pending.scope.project == project and not self._is_over():
                consolidating.consolidate_by_policy(
                    self.engine, pending, self._is_over, self.asker.correlation_id, least=ENOUGH_CHANGED
                )

    # --- results -----------------------------------------------------------------------------------------------------

    def _events(self, connection: Connection, since: int) -> Iterator[AnyEvent]:
        """Yield the events that the commands of this call recorded, in order."""
        entries = audit.trail(
            connection, user=self.asker.user, correlation_id=self.asker.correlation_id, first=since, limit=-1
        )
        for entry in reversed(entries):
            if (event := read_event(connection, entry.position)) is not None:
                yield event

    def _answer(self, since: int) -> Added:
        with self.engine.reading() as connection:
            events = list(self._events(connection, since))
            notes = Notes(connection, self.asker.user)
            for event in events:
                notes.take(event)
        kinds = [type(event.data) for event in events]
        held = kinds.count(TextQuarantined)
        return Added(
            session="",
            messages=kinds.count(MessageAppended),
            learned=tuple(notes.learned),
            proposed=tuple(notes.proposed),
            reinforced=tuple(notes.reinforced),
            contradicted=tuple(notes.contradicted.values()),
            changed=tuple(notes.contradicted[id] for id in notes.changed),
            new_session=SessionOpened in kinds,
            reasons=(*_held(held - len(notes.wishes)), *of_wishes(notes), *of_admission(notes)),
            turns=tuple(
                dict.fromkeys(e.stream for e in events if isinstance(e.data, InteractionCaptured | ResponseAttached))
            ),
            observations=kinds.count(ObservationFormed) + kinds.count(ObservationRevised),
            calls=kinds.count(ModelCalled) + kinds.count(ModelCallFailed),
            correlation_id=self.asker.correlation_id if events else None,
            warnings=as_warnings((redaction for event in events for redaction in event.envelope.redactions), events),
        )

    def _found(self, run: ExtractionRun) -> Iterator[str]:
        with self.engine.reading() as connection:
            yield from of_extraction(run, Notes(connection, self.asker.user), model=self.model is not None)

    def _elsewhere(self) -> Iterator[str]:
        """Yield a reason if the call names another project than the session's; a session stays in the project it began in."""
        if not self.session.project:
            return
        with self.session.reading() as (connection, state):
            place = projects.main(connection, state.project) if state is not None else None
            if state is not None and place != id_of_filter(connection, self.asker.user, "p", self.session.project):
                began = projects.names(connection, [place]).get(place or "", "")
                where = f"in the project {began!r}" if began else "without a project"
                yield f"the session began {where} and stays there: the given project was not used"

    def _off(self) -> Iterator[str]:
        if self.extract == "off":
            yield "extract is off: nothing was extracted; jobs.run() or session.extract() extracts later"
        elif not self.extracts:
            yield "the policy extracts nothing; policy.set(extract=True) changes it"

    # --- dry run ---------------------------------------------------------------------------------------------

    def preview(self, lines: list[Outside], *, new: bool) -> Added:
        plan = going_on.look(self.session, lines) if not new else going_on.ContinuationPlan(0, KnownPrefix(0), None, {})
        fresh = lines[plan.known.count :]
        drafts = [line.draft for line in fresh]
        places = turn_rules.places(drafts)
        answers = [
            draft.content
            for draft, place in zip(drafts, places, strict=True)
            if place is not None and place.field == "response" and (place.turn >= 0 or plan.turn is not None)
        ]
        done = Continued(plan.known)
        by_rules = self.extracts and self.model is None
        learned, proposed = self._found_by_rules(fresh) if by_rules else ((), ())
        reasons = [*of_messages(done, len(lines)), *self._off()]
        if by_rules and not learned and not proposed:
            reasons += self._found(ExtractionRun(messages=len(fresh)))
        elif self.extracts and self.model is not None and fresh:
            reasons.append("a dry run asks no model, so that it cannot tell what would be learned")
        reinforced, contradicted = self._restated(answers)
        return Added(
            session="",
            new_session=not plan.seen,
            messages=len(fresh),
            known=plan.known.count,
            learned=learned,
            proposed=proposed,
            reinforced=reinforced,
            contradicted=contradicted,
            reasons=tuple(reasons),
            dry_run=True,
        )

    def _found_by_rules(self, fresh: Sequence[Outside]) -> tuple[tuple[Noted, ...], tuple[Noted, ...]]:
        """Return the memories that the rules find in messages: the active ones, and the ones that wait for review."""
        texts = [
            turns.ConversationLine(
                position=0,
                text_at=0,
                role=line.draft.role,
                text=line.draft.content,
                time="",
                channel=self.asker.channel,
            )
            for line in fresh
            if line.draft.role in ("user", "assistant") and turn_rules.says(line.draft)
        ]
        most = self.policy.claim_confidence
        noted_memories: tuple[list[Noted], list[Noted]] = ([], [])
        for finding in found_in.by_rules(texts).kept:
            line = texts[int(finding.field)]
            row = found_in.rule_row(finding, line) if self.policy.admit != REVIEW else None
            waits = row is None or row.status != admitting.ACTIVE
            noted_memories[waits].append(
                Noted(
                    id="",
                    content=finding.content,
                    kind=finding.kind,
                    confidence=min(confidence_rules.shown(finding.confidence), most if line.role != "user" else 1.0),
                    why=f"{finding.rule} in what the {line.role} says" + (f"; {row.about}" if row and waits else ""),
                )
            )
        return tuple(noted_memories[0]), tuple(noted_memories[1])

    def _restated(self, answers: Sequence[str]) -> tuple[tuple[Noted, ...], tuple[Noted, ...]]:
        restated, denied = dict[str, Noted](), dict[str, Noted]()
        with self.engine.reading() as connection:
            state, user = self.session.state(connection), self.asker.user
            place = state.project if state is not None else id_of_filter(connection, user, "p", self.session.project)
            project = place if place is not NOWHERE else None
            for text in answers:
                about = (user, project, text, self.policy.matcher)
                evaluation = reinforcement.evaluate(connection, self.engine.secret, *about)
                for row, _ in evaluation.matches[: self.policy.max_matches]:
                    if (memory := memories.get(connection, row)) is not None:
                        restated[memory.id] = noted(memory, "an answer restates it")
                for row in evaluation.denied:
                    if (memory := memories.get(connection, row)) is not None:
                        denied[memory.id] = noted(memory, "an answer denies it")
        return tuple(restated.values()), tuple(denied.values())
