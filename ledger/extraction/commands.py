"""The extraction commands: memories from a turn or a session, by rules or by a model."""

from __future__ import annotations

from typing import Any

import msgspec

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.reads import load, read_stream
from ledger.core.steps import check_call
from ledger.core.work import Outcome, Work
from ledger.domain.errors import ConflictError, NotFoundError, RejectedError
from ledger.english import first_person
from ledger.events import MODEL_EXTRACTOR, CandidatesExtracted, Dropped
from ledger.extraction import answers
from ledger.extraction import rule_findings as found_in
from ledger.extraction import sessions as session_extraction
from ledger.extraction.asking import Asker, ExtractionRun, meant_model
from ledger.extraction.turns import all_lines, extract_turn, is_open, preview_turn
from ledger.interactions import rules as interaction_rules
from ledger.interactions.commands import caused_by_response
from ledger.interactions.rules import ERASED, InteractionState
from ledger.memories.shown import memories_shown
from ledger.models.asking import check_outside
from ledger.sessions.conversation import Conversation
from ledger.types import Cancel
from projections.views import quarantine


def extract(
    engine: Engine,
    asker: Who,
    id: str,
    *,
    method: str | None = None,
    model: object = None,
    dry_run: bool = False,
    gate: bool = True,
    timeout: float | None = None,
    cancel: Cancel | None = None,
) -> answers.ExtractionReport:
    """Extract memories from an interaction, or from the messages of a session since the last extraction.

    The model ``model`` is asked, or the ledger's model. Without a model, and with ``method="rules"``, the extraction rules
    search. For a session see ``Session.extract``. ``dry_run`` only shows the findings in an interaction. The gate is a cheap
    check that keeps a model from being asked about texts without anything to remember; ``gate=False`` leaves the check out. An
    interaction that was extracted already returns its earlier results, unless the gate closed it and this call is without the
    gate.

    Raises:
        ModelError: The model failed, which is recorded.
        NotFoundError: This user has no such interaction or session.
        RejectedError: An argument does not fit an interaction or a session.
    """
    if isinstance(id, str) and id.startswith("s_"):
        if dry_run:
            raise RejectedError(
                "a dry run is allowed for an interaction only; for a session, extract() reports the memories it kept, "
                "and undo() voids them"
            )
        conversation = Conversation(engine, asker, id)
        if conversation.id is None:
            raise NotFoundError(f"no session of this user has the id {id!r:.40}")
        return session_extraction.extract(
            conversation, asker, method=method, model=model, timeout=timeout, cancel=cancel, gate=gate
        )
    meant = meant_model(engine, method, model)
    check_call(timeout, cancel)
    with engine.reading() as connection:
        subject = load(connection, id, "i", asker.user)
        if subject is None:
            raise NotFoundError(f"no interaction of this user has the id {id!r:.40}")
        lines = all_lines(connection, subject) if dry_run and meant is None else []
        open_to_model = meant is not None and is_open(subject, gate=gate)
    if dry_run and meant is not None:
        done = preview_turn(engine, subject, model_asker(engine, meant, subject, timeout, cancel), gate=gate)
        return answers.ExtractionReport(
            interaction=subject.id,
            extractor=MODEL_EXTRACTOR,
            dropped=tuple(done.dropped),
            skipped=done.skipped,
            calls=done.calls,
            dry_run=True,
        )
    if dry_run:
        rows = tuple(session_extraction.found_by_rules(lines))
        return answers.ExtractionReport(
            interaction=subject.id, extractor=first_person.EXTRACTOR, dropped=rows, dry_run=True
        )
    if subject.extraction == "done" and not open_to_model and asker.key is None:
        return _extraction_report(engine, subject, asker.user)
    asker = caused_by_response(engine, subject, asker)
    if open_to_model and subject.extraction not in ("waiting", ERASED):
        check_outside(engine.writer)
        ask = model_asker(engine, meant, subject, timeout, cancel)
        done, outcome = extract_turn(engine, subject, asker, ask, gate=gate)
        return _extraction_report(engine, subject, asker.user, done, replayed=outcome.replayed)
    return _extraction_report(engine, subject, asker.user, replayed=extract_by_rules(engine, subject, asker).replayed)


def model_asker(
    engine: Engine, model: Any, subject: InteractionState, timeout: float | None = None, cancel: Cancel | None = None
) -> Asker:
    return Asker(engine, model, subject.user or "", subject.project, timeout, cancel)


def extract_by_rules(engine: Engine, subject: InteractionState, asker: Who) -> Outcome:
    with engine.reading() as connection:
        lines = all_lines(connection, subject)
    findings = found_in.by_rules(lines)

    def body(work: Work) -> str:
        current: InteractionState | None = work.at_row(subject.row, "i")
        if current is None:
            raise NotFoundError(f"the interaction {subject.id} was undone")
        work.project, work.session = current.project, current.session
        if current.extraction != "done":
            is_held = any(quarantine.held(work.rows, at) for at in (current.prompt_at, current.response_at))
            kept, dropped = found_in.record_rules(
                work, lines, findings, lambda line: (current.id,), current.memories_used, quarantined=is_held
            )
            data = CandidatesExtracted(
                first_person.EXTRACTOR, tuple(id for id, _ in kept), tuple(left_out for left_out, _ in dropped)
            )
            for event in interaction_rules.decide(interaction_rules.RecordExtraction(data), current):
                work.emit(current.id, event, first=current.row)
        return current.id

    return engine.writer.run("extract", asker, body, subject.id)


def _extraction_report(
    engine: Engine, subject: InteractionState, user: str, done: ExtractionRun | None = None, *, replayed: bool = False
) -> answers.ExtractionReport:
    with engine.reading() as connection:
        events = [event for event in read_stream(connection, subject.id) if isinstance(event.data, CandidatesExtracted)]
        if not events:
            raise ConflictError(f"the interaction {subject.id} changed during the extraction; call extract() again")
        data: CandidatesExtracted = events[-1].data
        states = [state for id in data.kept if (state := load(connection, id, "m", user)) is not None]
        kept = tuple(memories_shown(connection, states))
    done = done or ExtractionRun(kept=[], superseded=[], dropped=[])
    return answers.ExtractionReport(
        interaction=subject.id,
        extractor=data.extractor,
        kept=kept,
        dropped=(*map(_dropped, data.dropped), *done.dropped),
        superseded=tuple(done.superseded),
        retracted=tuple(done.retracted),
        relations=done.relations,
        skipped=done.skipped,
        calls=done.calls,
        replayed=replayed,
    )


def _dropped(value: Dropped) -> dict[str, Any]:
    options: dict[str, object] = msgspec.to_builtins(value)
    return options | {"reason": options.pop("why")}
