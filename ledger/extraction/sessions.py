"""Extraction from a session, piece by piece after a cursor, by a model or by rules.

A piece is read on a snapshot, and a model is asked outside the writer's lock. Under the lock the piece is checked again: if
messages were hidden, texts erased or the cursor moved meanwhile, no finding is recorded. The results of a piece are one append:
the new memories, the ends of the memories that they replace, the record of the model's call, and the move of the cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.reads import load
from ledger.core.steps import check_call, is_called_off
from ledger.core.work import Work
from ledger.domain.errors import ModelError, RejectedError
from ledger.english.extractor import EXTRACTOR, Extracted, Extraction
from ledger.english.extractor import DroppedFinding as Passed
from ledger.english.salience import GATE
from ledger.events import MODEL_EXTRACTOR, CandidatesExtracted, Dropped, ExtractionCursorMoved, ExtractionFailed
from ledger.extraction import answers, wishing
from ledger.extraction import rule_findings as found_in
from ledger.extraction.applying import TurnsBatch
from ledger.extraction.asking import (
    LEASE_SECONDS,
    Asker,
    ExtractionRun,
    ModelProposals,
    Unanswered,
    count,
    emit_failure,
    meant_model,
    proposed,
    record_call,
    record_unread,
    restore,
)
from ledger.extraction.cursor import move_back
from ledger.extraction.lines import EXTRACTED, NOT_SALIENT, ConversationLine
from ledger.extraction.pieces import PieceRead, is_as_read, read_piece
from ledger.extraction.policy import finding
from ledger.interactions import rules as interaction_rules
from ledger.interactions.rules import ERASED, InteractionState
from ledger.log.lease import HeldLease, leased
from ledger.memories.shown import memories_shown
from ledger.models.asking import check_outside, check_trusted
from ledger.models.port import Model
from ledger.sessions import writing
from ledger.sessions.conversation import Conversation
from ledger.sessions.rules.session import SessionState as State
from ledger.types import Cancel
from projections.views import control
from projections.views.interactions import BY_RULES

PIECES = 10_000  # the most pieces of one call
FAILURES = 3  # the failed attempts on a session after which the jobs wait for new messages
MOVED = 3  # the most attempts on a piece that changes while it is read


def extract(
    conversation: Conversation,
    asker: Who,
    *,
    method: str | None = None,
    model: object = None,
    since: int | None = None,
    timeout: float | None = None,
    cancel: Cancel | None = None,
    gate: bool = True,
) -> answers.ExtractionReport:
    """Extract memories from the messages since the last extraction, in the order in which they were recorded.

    A model (``model``, or the ledger's model) is asked once for each piece of some turns, up to 4,000 tokens. If the lines of the
    user in a piece hold nothing to remember, no model is asked; without the ``gate`` a model is asked all the same. Without a
    model, and with ``method="rules"``, the extraction rules search. The table of admission gives a finding its status; with
    ``admit="review"`` every finding is a candidate. A statement of the assistant alone, or through another channel than the
    user's, is always a candidate. If the model fails, the cursor stays, and the report has the reason in ``failure``. ``since``
    first moves the cursor back to a position, so that the messages after it are searched again. ``timeout`` is in seconds for one
    attempt; None for the timeout of the settings, or 60. Hidden messages and messages of tools are skipped.

    Raises:
        RejectedError: A model would be asked inside a batch; an idempotency key was given, which is not needed because a second
            call continues from the cursor; or ``since`` lies ahead of the cursor.
    """
    meant = meant_model(conversation.present, method, model)
    if asker.key is not None:
        raise RejectedError(
            "the extraction of a session takes no idempotency_key: a second call continues from the cursor anyway"
        )
    check_call(timeout, cancel)
    if meant is not None:
        check_outside(conversation.writer)
    if conversation.kept_out:
        return answers.ExtractionReport(session=conversation.name, extractor="", stopped=conversation.kept_out)
    if since is not None:
        move_back(conversation, since, asker)
    with conversation.reading() as (_, state):
        if state is None:
            return answers.ExtractionReport(session=conversation.name, extractor=_extractor(meant))
    return _extraction_report(
        conversation, run_extraction(conversation, asker, meant, timeout, cancel, gate=gate), meant
    )


def preview(
    conversation: Conversation,
    *,
    method: str | None = None,
    model: object = None,
    timeout: float | None = None,
    cancel: Cancel | None = None,
    gate: bool = True,
) -> answers.ExtractionReport:
    """Return in ``dropped`` the findings of a model or the rules after the cursor; nothing is recorded, not even the calls."""
    meant = meant_model(conversation.present, method, model)
    check_call(timeout, cancel)
    with conversation.reading() as (_, state):
        start = state.cursor if state is not None else None
    done, failure = ExtractionRun(dropped=[]), ""
    while start is not None and (
        read := read_piece(conversation, model=meant is not None, gate=gate, by_itself=False, start=start)
    ):
        start, done.messages = read.piece.to, done.messages + len(read.rows)
        if meant is None:
            done.dropped += found_by_rules(read.piece.lines)
        elif read.piece.why != EXTRACTED:
            done.skipped += len(read.rows)
        else:
            done.calls += 1
            asker = Asker(conversation.present, meant, conversation.user, read.state.project, timeout, cancel)
            try:
                done.dropped += proposed(asker.ask(read.piece.lines))
            except (Unanswered, ModelError) as failed:
                failure = failed.error.kind if isinstance(failed, Unanswered) else failed.kind
                break
    return answers.ExtractionReport(
        session=conversation.name,
        extractor=_extractor(meant),
        dropped=tuple(done.dropped),
        messages=done.messages,
        skipped=done.skipped,
        calls=done.calls,
        failure=failure,
        stopped="cancelled" if failure == "Cancelled" else "",
        dry_run=True,
    )


def run_extraction(
    conversation: Conversation,
    asker: Who,
    model: Model | None,
    timeout: float | None = None,
    cancel: Cancel | None = None,
    *,
    by_itself: bool = False,
    pieces: int = PIECES,
    gate: bool = True,
    until: int = 2**62,
) -> ExtractionRun:
    """Search the pieces after the cursor, up to the position ``until``."""
    if model is None:
        return Extractor(conversation, asker, by_itself=by_itself).run(pieces, until)
    with conversation.reading() as (_, state):
        work = f"extract {conversation.needed(state).id}"
    with leased(conversation.present.store, work, LEASE_SECONDS) as lease:
        if lease is None:
            return ExtractionRun(stopped="under_way")
        extractor = Extractor(conversation, asker, model, lease, timeout, cancel, by_itself=by_itself, gate=gate)
        return extractor.run(pieces, until)


def extract_leaving(conversation: Conversation, asker: Who, until: int) -> tuple[tuple[str, ...], str]:
    """Extract from the messages up to a position, before a summary takes their place, if the user's policy wants it.

    Return the new memories and the kind of the model's failure; after a failure the cursor stays, so that a later search reads
    the messages.
    """
    with conversation.reading() as (connection, _):
        if not control.wants(connection, conversation.user, "extract"):
            return (), ""
    found = run_extraction(
        conversation, asker, meant_model(conversation.present, None, None), by_itself=True, until=until
    )
    return tuple(found.kept), found.failure


def _extraction_report(
    conversation: Conversation, extracted: ExtractionRun, model: Model | None
) -> answers.ExtractionReport:
    with conversation.engine.reading() as connection:
        state = conversation.state(connection)
        states = [load(connection, id, "m", conversation.user) for id in extracted.kept]
        kept = memories_shown(connection, [state for state in states if state is not None])
    return answers.ExtractionReport(
        session=conversation.name,
        extractor=_extractor(model),
        kept=tuple(kept),
        dropped=tuple(extracted.dropped),
        superseded=tuple(extracted.superseded),
        retracted=tuple(extracted.retracted),
        relations=extracted.relations,
        messages=extracted.messages,
        skipped=extracted.skipped,
        calls=extracted.calls,
        failure=extracted.failure,
        stopped=extracted.stopped,
        cursor=state.cursor if state is not None else 0,
    )


def _extractor(model: Model | None) -> str:
    return EXTRACTOR if model is None else MODEL_EXTRACTOR


def found_by_rules(lines: Sequence[ConversationLine]) -> list[dict[str, Any]]:
    """Return the findings of the rules, each with its message."""
    extraction = found_in.by_rules(lines)
    findings: list[Extracted | Passed] = [*extraction.kept, *extraction.dropped]
    pairs = ((extracted, lines[int(extracted.field)]) for extracted in findings)
    return [finding(extracted) | {"field": line.field, "position": line.position} for extracted, line in pairs]


class Extractor:
    """A run over a session: piece after piece, until no piece is left, a piece fails, or enough pieces were done."""

    def __init__(
        self,
        session: Conversation,
        asker: Who,
        model: Model | None = None,
        lease: HeldLease | None = None,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        *,
        by_itself: bool,
        gate: bool = True,
    ) -> None:
        self.session = session
        self.engine: Engine = session.present
        self.asker = asker
        self.model = model
        self.lease = lease
        self.timeout = timeout
        self.cancel = cancel
        self.by_itself = by_itself
        self.gate = gate
        self.done: ExtractionRun = ExtractionRun(kept=[], superseded=[], dropped=[])

    def run(self, pieces: int, until: int = 2**62) -> ExtractionRun:
        moved = 0
        while self.done.pieces < pieces and not self.done.stopped and not self.done.failure:
            read = read_piece(
                self.session,
                model=self.model is not None,
                gate=self.gate,
                by_itself=self.by_itself,
                until=until,
            )
            if read is None:
                return self.done
            if is_called_off(self.cancel):
                self.done.stopped = "cancelled"
                return self.done
            if self._piece(read):
                moved = 0
                continue
            moved += 1
            if moved == MOVED:
                self.done.stopped = "moved"
        if self.done.pieces >= pieces:
            self.done.stopped = "enough"
        return self.done

    def _piece(self, read: PieceRead) -> bool:
        """Record a piece; return False if the piece changed since it was read."""
        if read.piece.why != EXTRACTED:
            return self._append(read, lambda work, state: self._record_skipped(work, state, read))
        if self.model is None:
            extraction = found_in.by_rules(read.piece.lines)
            return self._append(read, lambda work, state: self._by_rules(work, state, read, extraction))
        return self._by_model(read, self.model)

    def _append(
        self, read: PieceRead, record: Callable[[Work, State], None], instead: Callable[[Work], None] | None = None
    ) -> bool:
        recorded = False
        before = deepcopy(self.done)

        def body(work: Work) -> str:
            nonlocal recorded
            restore(self.done, before)
            state = writing.known(self.session, work)
            recorded = is_as_read(work, state, read)
            if recorded:
                record(work, state)
            elif instead is not None:
                instead(work)
            return state.id

        try:
            self.session.writer.run("session.extract", self.asker, body)
        except BaseException:
            self.done = before
            raise
        if recorded:
            self.done.pieces += 1
            self.done.messages += len(read.rows)
        return recorded

    def _record_skipped(self, work: Work, state: State, read: PieceRead) -> None:
        piece = read.piece
        gate = GATE if piece.why == NOT_SALIENT else ""
        work.emit(state.id, ExtractionCursorMoved(read.start, piece.to, piece.why, gate), first=state.row)
        close(work, piece.ended, gate or MODEL_EXTRACTOR, (), ())
        self.done.skipped += len(piece.lines)

    # --- by rules --------------------------------------------------------------------------------------------------

    def _by_rules(self, work: Work, state: State, read: PieceRead, extraction: Extraction) -> None:
        piece = read.piece
        injected = memories_used(work, piece.lines)
        kept, dropped = found_in.record_rules(work, piece.lines, extraction, sources_in(state.id), injected)
        ids, left_out = tuple(id for id, _ in kept), tuple(left for left, _ in dropped)
        moved = ExtractionCursorMoved(read.start, piece.to, EXTRACTED, EXTRACTOR, ids, left_out)
        work.emit(state.id, moved, first=state.row)
        close(work, piece.ended, EXTRACTOR, kept, dropped)
        wishing.heed(work, state.row, piece.lines)
        self.done.kept += ids
        self.done.dropped += [_shown(left) for left in left_out]

    # --- by a model --------------------------------------------------------------------------------------------------

    def _by_model(self, read: PieceRead, model: Model) -> bool:
        lines = read.piece.lines
        if self.lease is not None and not self.lease.renew():
            self.done.stopped = "under_way"
            return True
        check_trusted(self.engine, self.asker, read.state.id)
        self.done.calls += 1
        asker = Asker(self.engine, model, self.session.user, read.state.project, self.timeout, self.cancel)
        try:
            answer = asker.ask(lines)
        except ModelError as refused:  # the model was not called
            self.done.calls -= 1
            self.done.failure = refused.kind
            return True
        except Unanswered as failed:
            self._failed(read, model, failed)
            return True
        return self._append(
            read,
            lambda work, state: self._apply(work, state, read, answer),
            lambda work: record_unread(work, answer, lines),
        )

    def _apply(self, work: Work, state: State, read: PieceRead, answer: ModelProposals) -> None:
        piece = read.piece
        batch = TurnsBatch(work, sources_in(state.id), memories_used(work, piece.lines))
        results = batch.apply(answer.seen, answer.relations, piece.lines)
        record_call(work, answer, piece.lines, results, batch.cited)
        moved = ExtractionCursorMoved(read.start, piece.to, EXTRACTED, MODEL_EXTRACTOR)
        work.emit(state.id, moved, first=state.row)
        close(work, piece.ended, MODEL_EXTRACTOR, batch.of_line, ())
        count(self.done, batch, results, answer)

    def _failed(self, read: PieceRead, model: Model, failed: Unanswered) -> None:
        """Record a failed call; the cursor stays, and the attempt counts unless it was cancelled."""
        self.done.failure = failed.error.kind
        if failed.error.kind == "Cancelled":
            self.done.stopped = "cancelled"

        def body(work: Work) -> str:
            state = writing.known(self.session, work)
            emit_failure(work, model, failed, read.piece.lines)
            if failed.error.kind != "Cancelled":
                work.emit(state.id, ExtractionFailed(MODEL_EXTRACTOR, failed.error.kind), first=state.row)
            return state.id

        self.session.writer.run("session.extract", self.asker, body)


def sources_in(session: str) -> Callable[[ConversationLine], tuple[str, ...]]:
    """Return a function that returns the sources of a memory from a line: the captured turn with the text, and the session."""
    return lambda line: (session,) if line.interaction is None else (line.interaction, session)


def memories_used(work: Work, lines: Sequence[ConversationLine]) -> list[str]:
    """Return the memories that the model had been shown in the captured turns among some lines."""
    ids: dict[str, None] = {}
    for id in dict.fromkeys(line.interaction for line in lines if line.interaction is not None):
        turn: InteractionState | None = work.find(id, "i")
        ids |= dict.fromkeys(turn.memories_used if turn is not None else ())
    return list(ids)


def close(
    work: Work,
    ended: Sequence[str],
    extractor: str,
    kept: Sequence[tuple[str, ConversationLine]],
    dropped: Sequence[tuple[Dropped, ConversationLine]],
) -> None:
    """Record that the captured turns whose answers were searched as messages are extracted."""
    for id in ended:
        turn: InteractionState | None = work.find(id, "i")
        if turn is None or turn.extraction == ERASED:
            continue
        if turn.extraction == "done" and not (turn.extractor.startswith(BY_RULES) and extractor == MODEL_EXTRACTOR):
            continue
        ids = tuple(memory for memory, line in kept if line.interaction == id)
        left_out = tuple(replace(left, position=0) for left, line in dropped if line.interaction == id)
        command = interaction_rules.RecordExtraction(CandidatesExtracted(extractor, ids, left_out))
        for event in interaction_rules.decide(command, turn):
            work.emit(turn.id, event, first=turn.row)


def _shown(dropped: Dropped) -> dict[str, Any]:
    names = ("rule", "field", "start", "end", "memory", "position")
    return {name: getattr(dropped, name) for name in names} | {"reason": dropped.why}
