"""The commands on interactions and on policies: capture, attach a response, reinforce, extract, run what is pending."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Unpack

import msgspec

from ledger import answers
from ledger.domain import confidence as rules
from ledger.domain import interaction as domain
from ledger.domain.errors import NotFound, Rejected
from ledger.domain.events import (
    LEDGER_STREAM,
    AnyEvent,
    CandidatesExtracted,
    InteractionCaptured,
    MemoryCaptured,
    MemoryReinforced,
    PolicyAdopted,
    ReinforcementEvaluated,
    ResponseAttached,
)
from ledger.domain.extraction import EXTRACTOR
from ledger.domain.ids import LENGTH
from ledger.domain.interaction import TEXT_BYTES, Interaction
from ledger.domain.memory import Memory
from ledger.domain.policy import adopted
from ledger.domain.text import check_json, check_text
from ledger.domain.times import moment
from ledger.event_store import EventStore
from ledger.log_reading import read_event
from ledger.memory_writes import By, check_chunks, text_list, who
from ledger.merge_writes import MergeWrites
from ledger.policies import expiry, extraction, reinforcement
from ledger.reads import Reads
from ledger.sessions.tying import Turn, is_tied
from ledger.work import Outcome, Who, Work
from projections import audit, confidence, control, interactions

Progress = Callable[[int, int], None]


class InteractionWrites(MergeWrites, Reads):
    """The half of the library door that takes in what was said and lets the policies look at it."""

    _store: EventStore

    def capture(
        self,
        prompt: str,
        response: str = "",
        *,
        response_summary: str = "",
        project: str | None = None,
        session_id: str | None = None,
        memories_used: Iterable[str] = (),
        chunks_used: Iterable[str] = (),
        context_pack: Any = None,
        reinforce: bool = True,
        append: bool = False,
        **by: Unpack[By],
    ) -> answers.Interaction:
        """Records a turn in one append; what it restates is then reinforced in a second one, which may fail without harm.

        It may come before the answer exists: ``attach_response`` adds it. ``memories_used`` are the memories that were
        put before the model, so that what it repeats of them counts as an echo and never as evidence; ``chunks_used``
        the chunks of documents, kept as they are given. With ``append`` the prompt and the response are messages of the
        session too, in the same append; their texts are stored once, with the interaction.
        """
        check_text("prompt", prompt, max_bytes=TEXT_BYTES)
        if not isinstance(reinforce, bool):
            raise Rejected(f"reinforce must be true or false, not {reinforce!r:.40}")
        if append and not (session_id or "").strip():
            raise Rejected("append needs a session_id: the session that the messages are appended to")
        pack = _json("context_pack", {} if context_pack is None else context_pack)
        given = (prompt, response, response_summary, project, session_id, pack, reinforce)
        captured = InteractionCaptured(
            prompt=prompt,
            response=_text("response", response),
            response_summary=_text("response_summary", response_summary),
            memories_used=text_list("memories_used", memories_used) if memories_used else (),
            chunks_used=text_list("chunks_used", chunks_used) if chunks_used else (),
            context_pack=pack,
            reinforce=reinforce,
        )
        skipped = self._keeps_out(session_id or "") if append else ""
        turn = Turn(self._counter, self._keeps_out, prompt, response) if append and not skipped else None

        def body(work: Work) -> str:
            work.project = work.project_named(project)
            work.session = work.session_named(session_id)
            work.need("interactions")
            _check_used(work, captured.memories_used)
            check_chunks(work, captured.chunks_used)
            stream = work.new_id("i")
            work.emit(stream, self._with_bodies(work, captured))
            if turn is not None:
                turn.emit(work, stream)
            return stream

        told = who(self._default, by)
        arguments = (given, captured.memories_used, captured.chunks_used, *((append,) if append else ()))
        outcome = self._writer.run("capture", told, body, arguments)
        if self._writer.batching and not outcome.replayed:  # nothing has happened since, so nothing need be read
            answer = {"response": response, "response_summary": response_summary}
            found = answers.interaction(outcome.state, outcome.names, prompt, answer, msgspec.json.decode(pack))
            return msgspec.structs.replace(found, skipped=skipped)
        return msgspec.structs.replace(self._react(outcome, told), skipped=skipped)

    def attach_response(
        self,
        id: str,
        response: str = "",
        *,
        response_summary: str = "",
        memories_used: Iterable[str] = (),
        chunks_used: Iterable[str] = (),
        **by: Unpack[By],
    ) -> answers.Interaction:
        """The answer to a prompt captured before; an interaction has one response, and it stays."""
        attached = ResponseAttached(
            response=_text("response", response),
            response_summary=_text("response_summary", response_summary),
            memories_used=text_list("memories_used", memories_used),
            chunks_used=text_list("chunks_used", chunks_used),
        )
        if not attached.response and not attached.response_summary:
            raise Rejected("attach_response needs a response or a response_summary, and both are blank")
        turn = Turn(self._counter, self._keeps_out, response=response) if response else None

        def body(work: Work) -> str:
            subject: Interaction = work.load(id, "i")
            work.project, work.session = subject.project, subject.session
            _check_used(work, attached.memories_used)
            check_chunks(work, attached.chunks_used)
            for event in domain.decide(domain.Attach(self._with_bodies(work, attached)), subject):
                work.emit(subject.id, event, first=subject.row)
            if turn is not None and is_tied(work, subject):
                turn.emit(work, subject.id)
            return subject.id

        told = who(self._default, by)
        return self._react(self._writer.run("attach_response", told, body, (id, attached)), told)

    def _capture_line(self, line: Any, by: By) -> answers.Interaction:
        """One line of an import, as a capture."""
        told = {name: getattr(line, name) for name in ("response_summary", "project", "session_id", "memories_used")}
        pack = line.context_pack | ({"line_id": line.line_id} if line.line_id else {})
        return self.capture(line.prompt, line.response, chunks_used=line.chunks_used, context_pack=pack, **told, **by)

    def _with_bodies(self, work: Work, data: Any) -> Any:
        large = {
            name: body
            for name in ("prompt", "response", "response_summary")
            if (text := getattr(data, name, "")) and (body := self._writer.body(work, text)) is not text
        }
        return msgspec.structs.replace(data, **large) if large else data

    def _react(self, outcome: Outcome, told: Who) -> answers.Interaction:
        """Reinforcement follows the capture as a command of its own, and its failure is recorded, not raised."""
        subject: Interaction = outcome.state
        if subject.reinforcement == "pending" and not outcome.replayed and not self._writer.batching:
            cause = outcome.events[-1].envelope.event_id if outcome.events else None
            self._try_reinforcement(subject, cause, told.correlation_id)
        answer = self._interaction(subject.id, told.user, replayed=outcome.replayed)
        if answer is None:
            raise NotFound(f"the interaction {subject.id} was undone meanwhile")
        return answer

    # --- reinforcement -------------------------------------------------------------------------------------------

    def reinforce(
        self, id: str, delta: float | None = None, *, source: str | None = None, **by: Unpack[By]
    ) -> answers.Memory | answers.Reinforcement:
        """One more reason to believe an active memory: + 0.02 unless told otherwise; the same ``source`` counts once.

        With the id of an interaction, looks again which memories its response restates, and counts those that it has not
        counted yet, by what the policy says.
        """
        if not isinstance(id, str) or not id.startswith("i_"):
            return self._reinforce_memory(id, delta, source=source, by=by)
        if delta is not None or source is not None:
            raise Rejected(
                "an interaction reinforces by the policy in force and is its own source: give no delta and no source"
            )
        told = who(self._default, by)
        with self._read("interactions") as connection:
            subject = self._load(connection, id, "i", told.user)
        if subject is None:
            raise NotFound(f"no interaction of this user has the id {id!r:.40}")
        return self._reinforce_by(subject, None, told)

    def _try_reinforcement(
        self, subject: Interaction, cause: str | None, correlation: str | None
    ) -> answers.Reinforcement | None:
        told = _policy_who(subject, reinforcement.ACTOR, cause, correlation)
        try:
            return self._reinforce_by(subject, cause, told)
        except Exception as error:
            if _distrusted(error):
                return None
            self._record_failure(subject, told, domain.RecordFailure("reinforcement", type(error).__name__))
            return None

    def _reinforce_by(self, subject: Interaction, cause: str | None, told: Who) -> answers.Reinforcement:
        with self._read("memories", "search", "interactions") as connection:
            policy = control.policy(connection, told.user)
            text = "\n".join(part for part in self._answer_texts(connection, subject).values() if part)
            found = reinforcement.evaluate(connection, told.user, subject.project, text, policy.matcher)
        evaluated: list[ReinforcementEvaluated] = []

        def body(work: Work) -> str:
            current: Interaction = work.at_row(subject.row, "i")
            if current is None:
                raise NotFound(f"the interaction {subject.id} was undone")
            work.project, work.session = current.project, current.session
            self._writer.need("confidence")
            evaluated.append(reinforcement.record(work, current, found, work.policy()))
            return current.id

        outcome = self._writer.run("reinforce", told, body, subject.id)
        with self._read("audit", "confidence") as connection:
            events = list(outcome.events) or self._events_of_command(connection, outcome)
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
            echoes=report.echoes,
            left_over=report.left_over,
            replayed=outcome.replayed,
        )

    @staticmethod
    def _events_of_command(connection: Any, outcome: Outcome) -> list[AnyEvent]:
        """What a repeated command appended the first time."""
        entry = audit.at(connection, outcome.position) if outcome.replayed else None
        entries = audit.of_command(connection, entry.command_id) if entry is not None else []
        events = (read_event(connection, each.position) for each in entries)
        return [event for event in events if event is not None]

    def _record_failure(self, subject: Interaction, told: Who, command: domain.RecordFailure) -> None:
        def body(work: Work) -> str:
            current: Interaction | None = work.at_row(subject.row, "i")
            if current is not None and not work.beyond(current):
                work.project, work.session = current.project, current.session
                for event in domain.decide(command, current):
                    work.emit(current.id, event, first=current.row)
            return subject.id

        self._writer.run(command.work, told, body)

    # --- extraction ----------------------------------------------------------------------------------------------

    def extract(self, id: str, *, preview: bool = False, **by: Unpack[By]) -> answers.ExtractionReport:
        """Applies the extraction rules to an interaction; what is new becomes candidates for review.

        ``preview`` only shows what the rules find. An interaction that was extracted already returns what it came to.
        """
        told = who(self._default, by)
        with self._read("interactions", "memories") as connection:
            subject = self._load(connection, id, "i", told.user)
            if subject is None:
                raise NotFound(f"no interaction of this user has the id {id!r:.40}")
            found = extraction.search(self._answer_texts(connection, subject))
        if preview:
            return self._preview(subject, found)
        replayed = False
        if subject.extraction != "done" or told.key is not None:
            replayed = self._extract(subject, told).replayed
        return self._extraction_report(subject, told.user, replayed=replayed)

    def _extract(self, subject: Interaction, told: Who) -> Outcome:
        with self._read("interactions") as connection:
            found = extraction.search(self._answer_texts(connection, subject))

        def body(work: Work) -> str:
            current: Interaction | None = work.at_row(subject.row, "i")
            if current is None:
                raise NotFound(f"the interaction {subject.id} was undone")
            work.project, work.session = current.project, current.session
            if current.extraction != "done":
                extraction.record(work, current, found)
            return current.id

        return self._writer.run("extract", told, body, subject.id)

    def _preview(self, subject: Interaction, found: Any) -> answers.ExtractionReport:
        rows = tuple({"kind": each.kind, "content": each.content, "rule": each.rule, "field": each.field,
                      "start": each.start, "end": each.end, "reason": getattr(each, "reason", "")}
                     for each in (*found.kept, *found.dropped))  # fmt: skip
        return answers.ExtractionReport(
            interaction=subject.id, extractor=EXTRACTOR, kept=(), dropped=rows, preview=True
        )

    def _extraction_report(self, subject: Interaction, user: str, *, replayed: bool) -> answers.ExtractionReport:
        with self._read("memories", "interactions") as connection:
            events = [
                event for event in self._stream(connection, subject.id) if isinstance(event.data, CandidatesExtracted)
            ]
            data: CandidatesExtracted = events[-1].data
            states = [state for each in data.kept if (state := self._load(connection, each, "m", user)) is not None]
            kept = tuple(self._memories(connection, states))
        dropped = tuple(msgspec.to_builtins(each) for each in data.dropped)
        return answers.ExtractionReport(
            interaction=subject.id, extractor=data.extractor, kept=kept, dropped=dropped, replayed=replayed
        )

    # --- policies ------------------------------------------------------------------------------------------------

    def adopt_policy(self, *, by: By | None = None, **parameters: Any) -> dict[str, Any]:
        """Changes the policy of one user from here on: matcher, gain, echo_gain, matches_a_turn, extract, expire."""
        told = who(self._default, by or By())

        def body(work: Work) -> str:
            policy = work.policy()
            changed = adopted(policy, parameters)
            if changed != policy:
                work.emit(LEDGER_STREAM, PolicyAdopted(msgspec.structs.asdict(changed)))
            return LEDGER_STREAM

        self._writer.run("adopt_policy", told, body, parameters)
        return self.policy(user=told.user)

    def run_policies(self, *, as_of: Any = None, progress: Progress | None = None) -> answers.PolicyReport:
        """Does what is pending for every user: reinforcement, extraction, the expiry of what has faded, and a look for
        conflicts and near duplicates, of which it records and proposes those that are new.

        What a crash prevented is pending, and so is what failed fewer than three times. ``as_of`` is the moment for
        which fading is judged (now); ``progress`` is called with (done, found so far).
        """
        judged = self._writer.now() if as_of is None else moment("as_of", as_of)
        counts = dict.fromkeys(("interactions", "memories", "extracted", "candidates", "expired", "failures"), 0)
        for subject in self._pending("reinforcement", progress):
            if subject.user is None:  # erased: nobody's
                continue
            report = self._try_reinforcement(subject, None, None)
            counts["interactions"] += report is not None
            counts["memories"] += len(report.reinforced) if report is not None else 0
            counts["failures"] += report is None
        for subject in self._pending("extraction", progress):
            self._run_extraction(subject, counts)
        counts["expired"] = self._expire(judged)
        counts["conflicts"], counts["merges"] = self._look_for_conflicts(), self._look_for_merges()
        return answers.PolicyReport(
            reinforced_interactions=counts["interactions"],
            reinforced_memories=counts["memories"],
            extracted_interactions=counts["extracted"],
            candidates=counts["candidates"],
            expired=counts["expired"],
            conflicts=counts["conflicts"],
            merges=counts["merges"],
            failures=counts["failures"],
        )

    def _pending(self, work: str, progress: Progress | None) -> Iterable[Interaction]:
        after, done = 0, 0
        while page := self._pending_page(work, after):
            for subject in page:
                yield subject
                done += 1
                if progress is not None:
                    progress(done, done + len(page))
            after = page[-1].row

    def _pending_page(self, work: str, after: int) -> Sequence[Interaction]:
        with self._read("interactions") as connection:
            return interactions.pending(connection, work, after=after)

    def _run_extraction(self, subject: Interaction, counts: dict[str, int]) -> None:
        told = _policy_who(subject, extraction.ACTOR, None, None)
        with self._read() as connection:
            wanted = control.policy(connection, told.user).extract
        if not wanted or subject.user is None:
            return
        try:
            events = self._extract(subject, told).events
            counts["candidates"] += sum(isinstance(event.data, MemoryCaptured) for event in events)
            counts["extracted"] += 1
        except Exception as error:
            counts["failures"] += 1
            if _distrusted(error):
                return
            self._record_failure(subject, told, domain.RecordFailure("extraction", type(error).__name__, EXTRACTOR))

    def _expire(self, as_of: str) -> int:
        with self._read("memories") as connection:
            faded = [memory for memory in expiry.faded(connection, as_of) if memory.user is not None]
            users = {memory.user for memory in faded if memory.user is not None}
            wanted = {user for user in users if control.policy(connection, user).expire}
        return sum(self._expire_one(memory, memory.user, as_of) for memory in faded if memory.user in wanted)

    def _expire_one(self, memory: Memory, user: str | None, as_of: str) -> bool:
        told = Who(user=user or "", actor=expiry.ACTOR)
        try:
            done = self._writer.run("expire", told, lambda work: expiry.record(work, memory, as_of), memory.id)
        except Rejected as refusal:
            if _distrusted(refusal):
                return False
            raise
        return bool(done.events)


def _distrusted(error: Exception) -> bool:
    """Whether nothing may be written for a policy or a session; the turn stays pending until it is trusted."""
    return isinstance(error, Rejected) and error.rule == "trust"


def _policy_who(subject: Interaction, actor: str, cause: str | None, correlation: str | None) -> Who:
    return Who(user=subject.user or "", actor=actor, causation_id=cause, correlation_id=correlation)


def _check_used(work: Work, used: Sequence[str]) -> None:
    for each in used:
        if (
            len(each) == LENGTH
            and each.startswith("m_")
            and work.find(each, "m") is None
            and work.known_elsewhere(each)
        ):
            raise Rejected(
                f"the memory {each} belongs to another user; a command acts on one user's memory", rule="user"
            )


def _text(name: str, text: str) -> str:
    return check_text(name, text, max_bytes=TEXT_BYTES, blank_allowed=True) if text else ""


def _json(name: str, value: Any) -> msgspec.Raw:
    check_json(name, value)
    return msgspec.Raw(msgspec.json.encode(value))
