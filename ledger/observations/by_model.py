"""Consolidation by a language model: each call reads up to 20 new sources, and its results are one append."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from ledger.core.engine import Engine
from ledger.core.reads import event_data, find_row, load, text_of, texts_at
from ledger.core.work import Work
from ledger.domain.errors import ModelError, RejectedError
from ledger.domain.ids import message_place
from ledger.english import question
from ledger.events import LEDGER_STREAM
from ledger.interactions.rules import InteractionState
from ledger.log.reading import read_tip
from ledger.models import consolidator, models
from ledger.models.asking import ModelReply, ask, check_outside, check_trusted
from ledger.models.calls import KEPT, ActionOutcome, dropped, emit_call, emit_failure, joined
from ledger.models.consolidator import (
    CLAMPED,
    CONSOLIDATOR,
    OF_EACH,
    SHOWN,
    STALE_SHOWN,
    ConsolidationBatch,
    ConsolidationOutcome,
)
from ledger.models.day import check_day
from ledger.models.port import MODEL, Model, ModelRequest
from ledger.models.reading import Parsed, answered
from ledger.observations import rounds
from ledger.observations.grouping import GROUPING
from ledger.observations.policy import USER, SourcePiece
from ledger.observations.queries import withheld
from ledger.observations.rounds import INTERACTIONS, MESSAGES, ConsolidationRun, News, completed, emit_failed_run
from ledger.observations.rounds import cursor as cursor_of
from projections.core.rows import Connection
from projections.views import consolidations
from projections.views.consolidations import Sourced

NEW, CHARS = 20, 12_000  # new sources of one call, and characters of them
NEAREST = 15  # the most observations that a search by words returns, as in astrocyte


class _NothingWritten(Exception):
    """The signal that ends the command of a dry run before the command is committed."""


def consolidator_of(engine: Engine, method: str | None) -> str:
    """Return the consolidator of a method; without a method, the model if the ledger has one, else the rules."""
    if method == "model" and engine.parts.get(MODEL) is None:
        raise RejectedError("consolidation by a model needs a model: open the ledger with model=…", rule="model")
    return CONSOLIDATOR if method != "grouping" and engine.parts.get(MODEL) is not None else GROUPING


def by_model(engine: Engine, run: ConsolidationRun) -> None:
    """Ask the model about all new sources and stale observations, call by call; then reword by rules what is still stale."""
    if run.least > 1 and len((news := _for_model(engine, run)).pieces) + len(news.observations) < run.least:
        return
    while (news := _for_model(engine, run)).pieces or news.observations:
        if not _one_call(engine, run, news) or run.full or (run.left and run.stop()):
            break
    if not news.pieces and not news.observations:
        rounds.append(engine, run, news, [], [], news.head, 0)
    _reword_by_rules(engine, run)


def _for_model(engine: Engine, run: ConsolidationRun) -> News:
    """Return the new sources and the stale observations that the model was not yet asked about in this run."""
    with engine.reading() as connection:
        head, after = read_tip(connection.cursor())[0], cursor_of(connection, run)
        run.position = max(run.position, head)
        news = rounds.news_of(connection, run, set())
        conversational = run.over in (INTERACTIONS, MESSAGES)
        pieces = _whole_turns(connection, news.pieces, run.scope.user) if conversational else news.pieces
        aside = consolidations.put_aside(connection, run.scope)
        done = run.again  # no cursor excludes these sources in a dry run, or if the caller named the sources
        pieces = [piece for piece in pieces if piece.id not in aside and piece.id not in done]
        stale = [observation for observation in news.observations if observation.state.id not in run.worded]
    return News(head, after, pieces, stale)


def _whole_turns(connection: Connection, pieces: Sequence[SourcePiece], user: str) -> list[SourcePiece]:
    """Return each turn or message as a whole, instead of its sentences."""
    whole: dict[str, SourcePiece] = {}
    for piece in pieces:
        if piece.id not in whole:
            state = load(connection, piece.id, "i", user) if piece.id[0] == "i" else None
            spoken = _spoken_in(connection, state) if state is not None else ""
            spoken = _text_of_message(connection, piece.row) if piece.id[0] == "s" else spoken
            whole[piece.id] = replace(piece, text=spoken, speaker=USER, part=0)
    return [piece for piece in whole.values() if piece.text]


def _spoken_in(connection: Connection, state: InteractionState) -> str:
    prompt = text_of(connection, event_data(connection, state.prompt_at).prompt)
    answer = texts_at(connection, state.response_at, "response")["response"]
    return " ".join(f"{role}: {text}" for role, text in (("user", prompt), ("assistant", answer)) if text)


def _text_of_message(connection: Connection, message: int) -> str:
    name, text = rounds.words_of_message(connection, message)
    return f"{name or USER}: {text}" if text else ""


def _model_of(engine: Engine) -> Model:
    model = engine.parts.get(MODEL)
    assert model is not None  # ``consolidator_of`` has checked that there is a model
    return model


# --- one call ------------------------------------------------------------------------------------------------


def _one_call(engine: Engine, run: ConsolidationRun, news: News) -> bool:
    """Ask the model about the next sources and record its answer; return True if the run shall continue."""
    check_trusted(engine, run.asker, None)
    check_outside(engine.writer)
    check_day(engine, _model_of(engine))
    batch, upto, ranges = _batch(engine, run, news)
    request = models.with_settings(engine, consolidator.request(batch))
    try:
        completion = ask(_model_of(engine), request, cancelled=run.stop)
        parsed = answered(completion, consolidator.kinds())
    except ModelError as error:
        if not run.dry_run:
            _record_model_failure(engine, run, request, error, ranges, news.head)
        raise
    run.calls, run.looks = run.calls + 1, False
    answer = _record_answer(engine, run, news.after, batch, (request, completion, parsed, ranges), upto)
    if answer is None:  # another run was faster, or a source was erased meanwhile
        run.skipped["interrupted"] += 1
        return run.skipped["interrupted"] < 3
    for outcome, id, text, sources in answer.acted:
        run.count_step(outcome, id, text, sources)
    run.skipped.update(_skipped(answer, parsed.left_over))
    run.sources += batch.new
    run.again.update(piece.id for piece in batch.sources[: batch.new])
    run.worded.update(observation.state.id for observation in batch.observations[: batch.stale])
    run.left = len(news.pieces) - batch.new
    if run.progress is not None:
        run.progress(run.sources, run.sources + run.left)
    return True


def _batch(engine: Engine, run: ConsolidationRun, news: News) -> tuple[ConsolidationBatch, int, list[tuple[int, int]]]:
    """Return the batch of the next call, the log position that the run has reached after it, and the ranges that it reads."""
    new = _fitting(news.pieces, run)
    end = len(new) == len(news.pieces)
    upto = news.head if end else max(news.after, news.pieces[len(new)].position - 1)
    stale = news.observations[:STALE_SHOWN]
    with engine.reading() as connection:
        near = _nearest(engine, connection, run, new)
        held = withheld(connection, [observation.state for observation in near])
        fresh = [
            observation
            for observation in near
            if not observation.stale and observation.live and observation.state.id not in held
        ]
        fresh = fresh[: SHOWN - len(stale)]
        batch = ConsolidationBatch(list(new), len(new), [*stale, *fresh], len(stale))
        for number, observation in enumerate(stale, 1):
            batch.of_stale[number] = _with_sources_of(connection, run, batch, observation)
        streams = [piece.id for piece in batch.sources] + [seen.state.id for seen in batch.observations]
        ranges = joined(consolidations.positions(connection, streams))
    return batch, upto, list(ranges)


def _with_sources_of(
    connection: Connection, run: ConsolidationRun, batch: ConsolidationBatch, stale: Sourced
) -> list[int]:
    """Add up to four live sources of a stale observation to the batch, newest first, and return their numbers in the prompt."""
    known = {piece_shown.id: number for number, piece_shown in enumerate(batch.sources, 1)}
    numbers: list[int] = []
    for proof in reversed(stale.live):
        if proof.source not in known and (piece := _piece_of(connection, run, proof.source)) is not None:
            batch.sources.append(piece)
            known[proof.source] = len(batch.sources)
        if proof.source in known:
            numbers.append(known[proof.source])
        if len(numbers) == OF_EACH:
            break
    return numbers


def _piece_of(connection: Connection, run: ConsolidationRun, id: str) -> SourcePiece | None:
    if (place := message_place(id)) is not None:
        messages = consolidations.messages(connection, run.scope, among=[place[1]])
        return next(
            (SourcePiece(id, m.row, m.position, m.at, _text_of_message(connection, m.row), (), USER) for m in messages),
            None,
        )
    state = load(connection, id, id[0], run.scope.user) if id[0] in "mi" else None
    if state is None:
        return None
    if id[0] == "m":
        return SourcePiece(id, state.row, state.position, state.valid_from, state.content or "", state.entities)
    return SourcePiece(id, state.row, state.position, state.time, _spoken_in(connection, state), (), USER)


def _nearest(
    engine: Engine, connection: Connection, run: ConsolidationRun, new: Sequence[SourcePiece]
) -> list[Sourced]:
    """Return the observations of the scope that are nearest to any of these sources by words, best first."""
    scores: Counter[int] = Counter()
    for piece in new:
        sought = question.read(piece.text)
        if sought.concepts:
            matches = rounds.observations_with_words(engine, connection, sought, run.scope, NEAREST)
            scores.update(
                {row: 1_000_000 // (60 + rank) for rank, row in enumerate(matches, 1)}
            )  # reciprocal rank fusion
    rows = [row for row, _ in sorted(scores.items(), key=lambda scored: (-scored[1], scored[0]))]
    place = {row: number for number, row in enumerate(rows)}
    near = consolidations.sourced(connection, run.scope, rows)
    return sorted(near, key=lambda sourced: place[sourced.state.row])[:NEAREST]


# --- recording -----------------------------------------------------------------------------------------------


def _record_answer(
    engine: Engine,
    run: ConsolidationRun,
    after: int,
    batch: ConsolidationBatch,
    call: tuple[ModelRequest, ModelReply, Parsed, list[tuple[int, int]]],
    upto: int,
) -> ConsolidationOutcome | None:
    """Record the model's actions, the progress and the call in one append.

    Return None if nothing of the answer was used, because another run read the sources or a source was erased meanwhile.
    """
    request, completion, parsed, ranges = call
    done: list[ConsolidationOutcome] = []

    def body(work: Work) -> str:
        work.project = run.scope.project
        shown = [piece.id for piece in batch.sources] + [observation.state.id for observation in batch.observations]
        if rounds.overtaken(work, run, after):
            outcomes = [ActionOutcome(action.what, "overtaken") for action in parsed.actions]
        elif consolidator.erased_meanwhile(work, batch):
            outcomes = [ActionOutcome(action.what, consolidator.ERASED) for action in parsed.actions]
        else:
            answer = consolidator.take(work, run.scope, batch, parsed)
            answer.taken = consolidator.without_findings(work, [*answer.taken, *dropped(parsed)])
            done[:] = [answer]
            skipped = _skipped(answer, parsed.left_over)
            work.emit(LEDGER_STREAM, completed(run, upto, batch.new, answer.counts, skipped))
            outcomes = answer.taken
        left_over = parsed.left_over
        emit_call(work, completion, request, ranges=ranges, shown=shown, actions=outcomes, left_over=left_over)
        if run.dry_run:
            raise _NothingWritten
        return LEDGER_STREAM

    with suppress(_NothingWritten):
        outcome = engine.writer.run("consolidate", run.asker, body)
        run.position = max(run.position, outcome.position)
    return done[0] if done else None


def _record_model_failure(
    engine: Engine,
    run: ConsolidationRun,
    request: ModelRequest,
    error: ModelError,
    ranges: Sequence[tuple[int, int]],
    head: int,
) -> None:
    """Record a failed call and the failed run; the sources stay new."""

    def body(work: Work) -> str:
        if error.kind != "Cancelled":  # a cancelled call is not a failure of the model
            emit_failed_run(work, run, head, error.kind)
        emit_failure(work, request, error, model=_model_of(engine).name, ranges=ranges)
        return LEDGER_STREAM

    engine.writer.run("consolidate", run.asker, body)


# --- observations that the model left stale ------------------------------------------------------------------


def _reword_by_rules(engine: Engine, run: ConsolidationRun) -> None:
    """Reword each observation that the model left stale by rules: the text becomes that of a live source."""
    with engine.reading() as connection:
        rows = [find_row(connection, id, "o", run.scope.user) or 0 for id in sorted(run.worded)]
        observations = consolidations.sourced(connection, run.scope, rows) if rows else []
        # In a dry run the model's wordings are in no table, so the rows still say "stale".
        changed = {action.id for action in run.actions} if run.dry_run else set()
        still_stale = [
            observation
            for observation in observations
            if observation.stale and observation.live and observation.state.id not in changed
        ]
    if not still_stale:
        return
    resolving = replace(
        run,
        consolidator=GROUPING,
        limit=None,
        again=set(),
        looks=False,
        only=frozenset(observation.state.row for observation in still_stale),
    )
    rounds.by_rules(engine, resolving)
    run.position = max(run.position, resolving.position)


def _fitting(pieces: Sequence[SourcePiece], run: ConsolidationRun) -> Sequence[SourcePiece]:
    """Return the first of the new sources, as many as one call may have: at most 20, and 12,000 characters."""
    count, chars = 0, 0
    most = NEW if run.limit is None else max(1, min(NEW, run.limit - run.sources))
    for piece in pieces[:most]:
        chars += min(len(piece.text), consolidator.SOURCE_CHARS)
        if count and chars > CHARS:
            break
        count += 1
    return pieces[:count]


def _skipped(answer: ConsolidationOutcome, left_over: int) -> dict[str, int]:
    """Return the counts of actions that were not used, by reason; "clamped" counts reduced confidences of used actions."""
    skipped = Counter(action.outcome for action in answer.taken if action.outcome != KEPT)
    skipped["too_many"] += left_over
    skipped[CLAMPED] += answer.clamped
    return {why: count for why, count in sorted(skipped.items()) if count}
