"""Extraction from one captured turn by a model, asked outside of any lock and applied in one append."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.reads import event_data, read_event, text_of, texts_at
from ledger.core.work import Outcome, Work
from ledger.domain.errors import NotFoundError
from ledger.english.salience import GATE, GATES
from ledger.events import MODEL_EXTRACTOR, CandidatesExtracted
from ledger.extraction import lines as turns
from ledger.extraction.applying import TurnsBatch
from ledger.extraction.asking import (
    Asker,
    ExtractionRun,
    ModelProposals,
    Unanswered,
    count,
    emit_failure,
    is_quarantined,
    proposed,
    record_call,
    record_unread,
    restore,
)
from ledger.extraction.lines import EXTRACTED, ConversationLine
from ledger.interactions import rules as interaction_rules
from ledger.interactions.rules import InteractionState
from ledger.models.asking import check_trusted
from ledger.models.port import Model
from projections.core.rows import Connection
from projections.views import erasures


def extract_turn(
    engine: Engine, subject: InteractionState, caller: Who, asker: Asker, *, gate: bool = True
) -> tuple[ExtractionRun, Outcome]:
    """Ask a model about a captured turn, and apply its answer in one append with the end of the turn's extraction.

    Return the results and the outcome of the command. Without the ``gate`` the model is also asked about a turn that seems to
    hold nothing to remember.

    Raises:
        ModelError: The model failed, which is recorded and counts as an attempt.
    """
    done = ExtractionRun(kept=[], superseded=[], dropped=[])
    with engine.reading() as connection:
        lines = turn_lines(connection, subject)
        erased = erasures.last(connection)
    piece = turns.piece(lines, 0, whole=True, model=True, gate=gate)
    answer: ModelProposals | None = None
    if piece.why == EXTRACTED:
        check_trusted(engine, caller, subject.session)
        done.calls = 1
        try:
            answer = asker.ask(lines)
        except Unanswered as failed:
            _fail_turn(engine, subject, caller, asker.model, failed, lines)
            raise failed.error from failed.__cause__
    else:
        done.skipped = len(lines)

    begun = deepcopy(done)

    def body(work: Work) -> str:
        restore(done, begun)
        current: InteractionState | None = work.at_row(subject.row, "i")
        if current is None and answer is None:
            raise NotFoundError(f"the interaction {subject.id} was undone")
        work.project, work.session = subject.project, subject.session
        unchanged = current is not None and is_open(current, gate=gate)
        unchanged = unchanged and current is not None and current.response_at == subject.response_at
        unchanged = unchanged and not is_quarantined(work.connection(), [line.text_at for line in lines])
        if answer is not None and (not unchanged or erasures.last(work.connection()) != erased):
            record_unread(work, answer, lines)
        elif current is not None and unchanged:
            _close_turn(work, current, answer, lines, done)
        return subject.id

    return done, engine.writer.run("extract", caller, body, subject.id)


def is_open(turn: InteractionState, *, gate: bool) -> bool:
    """Return True if a captured turn is still to be searched; without the ``gate``, also a turn that the gate closed."""
    return turn.extraction != "done" or (not gate and turn.extractor.startswith(GATES))


def preview_turn(engine: Engine, subject: InteractionState, asker: Asker, *, gate: bool = True) -> ExtractionRun:
    """Return a model's proposals for a captured turn, in ``dropped``; nothing is recorded, not even the call."""
    done = ExtractionRun(dropped=[])
    with engine.reading() as connection:
        lines = turn_lines(connection, subject)
    if turns.piece(lines, 0, whole=True, model=True, gate=gate).why != EXTRACTED:
        done.skipped = len(lines)
        return done
    done.calls = 1
    try:
        done.dropped += proposed(asker.ask(lines))
    except Unanswered as failed:
        raise failed.error from failed.__cause__
    return done


def turn_lines(connection: Connection, subject: InteractionState) -> list[ConversationLine]:
    """Return the lines of a turn that a model is shown.

    A summary is left out if the whole answer is there, and so are texts in quarantine.
    """
    lines = all_lines(connection, subject)
    whole = any(line.field == "response" for line in lines)
    lines = [line for line in lines if not (whole and line.field == "summary")]
    return [line for line in lines if not is_quarantined(connection, (line.text_at,))]


def all_lines(connection: Connection, subject: InteractionState) -> list[ConversationLine]:
    """Return the lines of a turn, each with the channel through which its text came in."""
    prompt = text_of(connection, event_data(connection, subject.prompt_at).prompt)
    texts = {"prompt": prompt} | texts_at(connection, subject.response_at, "response", "summary")
    return [
        replace(line, channel=event.envelope.channel)
        for line in turns.of_interaction(subject, texts)
        if (event := read_event(connection, line.text_at)) is not None
    ]


def _close_turn(
    work: Work,
    current: InteractionState,
    answer: ModelProposals | None,
    lines: Sequence[ConversationLine],
    done: ExtractionRun,
) -> None:
    extractor, kept = GATE, tuple[str, ...]()
    if answer is not None:
        batch = TurnsBatch(work, lambda line: (current.id,), current.memories_used)
        results = batch.apply(answer.seen, answer.relations, lines)
        record_call(work, answer, lines, results)
        count(done, batch, results, answer)
        extractor, kept = MODEL_EXTRACTOR, tuple(batch.kept)
    command = interaction_rules.RecordExtraction(CandidatesExtracted(extractor, kept))
    for event in interaction_rules.decide(command, current):
        work.emit(current.id, event, first=current.row)


def _fail_turn(
    engine: Engine,
    subject: InteractionState,
    asker: Who,
    model: Model,
    failed: Unanswered,
    lines: Sequence[ConversationLine],
) -> None:
    def body(work: Work) -> str:
        current: InteractionState | None = work.at_row(subject.row, "i")
        if current is not None:
            work.project, work.session = current.project, current.session
            emit_failure(work, model, failed, lines)
            if failed.error.kind != "Cancelled":
                command = interaction_rules.RecordFailure("extraction", failed.error.kind, MODEL_EXTRACTOR)
                for event in interaction_rules.decide(command, current):
                    work.emit(current.id, event, first=current.row)
        return subject.id

    engine.writer.run("extract", replace(asker, key=None), body)
