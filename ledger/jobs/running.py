"""The background work of a ledger: reinforcement, extraction, expiry, conflicts, merges, consolidation and vectors.

``run_policies`` does the work of each job as a whole. ``work`` is a worker that shares the work with other workers: a
job is divided into pieces, and a worker takes a lease on a piece, which all processes see. The lease only saves double
work. Nothing is recorded twice, whoever holds the lease, because each job checks that under the writer's lock.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.reads import first_position
from ledger.core.steps import Stopping
from ledger.domain.errors import LedgerError, ModelError, RejectedError
from ledger.domain.text import flags
from ledger.domain.times import moment
from ledger.english.extractor import EXTRACTOR
from ledger.events import MemoryCaptured
from ledger.extraction import commands as extraction_commands
from ledger.extraction import policy as extraction
from ledger.extraction import sessions as session_extraction
from ledger.extraction.asking import LEASE_SECONDS, meant_model
from ledger.extraction.pieces import is_left_to_session
from ledger.extraction.sessions import FAILURES, PIECES
from ledger.extraction.turns import extract_turn
from ledger.interactions import commands as interaction_commands
from ledger.interactions import rules
from ledger.interactions.commands import has_to_wait, policy_who
from ledger.interactions.rules import InteractionState
from ledger.jobs import answers
from ledger.log.lease import leased
from ledger.memories import expiry
from ledger.memories.shown import memories_shown
from ledger.memories.state import MemoryState
from ledger.models.asking import check_outside
from ledger.models.day import used_up_until
from ledger.models.port import DAY_EXHAUSTED, MODEL, NO_FAILURES, Model
from ledger.observations import consolidating
from ledger.observations.consolidating import Pending
from ledger.review.commands import CONFLICTS, MERGES, look_for
from ledger.sessions.conversation import Conversation
from ledger.values import commands as value_commands
from ledger.vectors import commands as vector_commands
from ledger.vectors import part as vector_part
from projections.views import control, interactions, sessions, values

Progress = Callable[[int, int], None]
SPAN = 1_024  # positions of the log whose interactions are one piece of work
CALLS_A_RUN = 200  # the most calls of a model in one run, for sessions and captured turns together
LOOK_SECONDS = 1.0  # the time between two checks of a waiting worker for new events
EXPIRY_SECONDS = 3_600.0  # the time after which a waiting worker judges decay again, although nothing was recorded
LONGEST_PAUSE = 60.0  # seconds that a worker waits after repeated failures


class JobsRun(Struct):
    """A pass through the jobs: the counts so far, the function to report progress to, and the reason to stop."""

    as_of: str
    stopping: Stopping
    progress: Progress | None = None
    hold: Callable[[], bool] = lambda: True  # renews the lease of the current piece; False if it was lost
    counts: dict[str, int] = {}
    done: int = 0
    found: int = 0
    stopped: str = ""
    waiting_until: str = ""  # a command as a model is not called before this time
    vectors_failure: str = ""

    def stop(self) -> bool:
        """Return True if the run has to end; to be called only if work is left, because the report will say so."""
        self.stopped = self.stopping.why
        return self.stopped != ""

    def add(self, **counts: int) -> None:
        for name, number in counts.items():
            self.counts[name] = self.counts.get(name, 0) + number

    def advance(self, done: int, found: int) -> None:
        """Add to the subjects done and the subjects found, and report both to the listener."""
        self.done, self.found = self.done + done, self.found + found
        if self.progress is not None:
            self.progress(self.done, max(self.done, self.found))

    def report(self) -> answers.JobReport:
        words = {"stopped": self.stopped, "waiting_until": self.waiting_until, "vectors_failure": self.vectors_failure}
        return answers.JobReport(**words, **self.counts)  # type: ignore[arg-type]


class Job(Struct, frozen=True):
    """A kind of work: ``pieces`` yields the pending pieces, and ``do`` does the part of a piece that is still pending."""

    name: str
    pieces: Callable[[JobsRun], Iterator[Any]]
    do: Callable[[Any, JobsRun], None]
    key: Callable[[Any], str] = str  # returns the name of a piece in its lease


def _whole(run: JobsRun) -> Iterator[str]:
    """Return the single piece of a job that workers do not share."""
    return iter(("all",))


ASKING = ("extraction", "consolidation")  # jobs that ask the model, if the ledger has a model
VECTORS = "vectors"  # the job that asks the embedder, if the ledger has an embedder
JOBS = ("reinforcement", "extraction", "expiry", "conflicts", "merges", "consolidation", VECTORS)


def _jobs(engine: Engine) -> tuple[Job, ...]:
    """Return every job, in an order in which each job finds the results of the jobs before it."""
    return (
        Job("reinforcement", lambda run: _spans(engine, "reinforcement"), partial(_reinforce_span, engine)),
        Job("extraction", lambda run: _to_extract(engine), partial(_extract_piece, engine)),
        Job("expiry", _whole, lambda piece, run: _expire(engine, run)),
        Job(
            "conflicts",
            _whole,
            lambda piece, run: run.add(conflicts=look_for(engine, CONFLICTS, run.stop)),
        ),
        Job("merges", _whole, lambda piece, run: run.add(merges=look_for(engine, MERGES, run.stop))),
        Job(
            "consolidation",
            lambda run: _to_consolidate(engine, run),
            partial(_consolidate_piece, engine),
            partial(_scope_key, engine),
        ),
        Job(VECTORS, partial(_to_embed, engine), partial(_make_vectors, engine), partial(_vectors_key, engine)),
    )


# --- interactions --------------------------------------------------------------------------------------------


def _spans(engine: Engine, work: str) -> Iterator[int]:
    """Yield the spans of ``SPAN`` positions with interactions that wait for a job; every worker gets the same spans."""
    after = -1
    while page := _pending(engine, work, after, limit=1):
        yield (span := page[0].row // SPAN)
        after = (span + 1) * SPAN - 1


def _pending(engine: Engine, work: str, after: int, limit: int = 100) -> Sequence[InteractionState]:
    with engine.reading() as connection:
        return interactions.pending(connection, work, after=after, limit=limit)


def _pending_within(engine: Engine, work: str, span: int, run: JobsRun) -> Iterator[InteractionState]:
    after = span * SPAN - 1
    while page := [turn for turn in _pending(engine, work, after) if turn.row // SPAN == span]:
        run.advance(0, len(page))
        for subject in page:
            if not run.hold() or run.stop():
                return  # without the lease, another worker has gone on with the piece
            if subject.user is not None:  # None: the interaction was erased
                yield subject
            run.advance(1, 0)
        after = page[-1].row


def _reinforce_span(engine: Engine, span: int, run: JobsRun) -> None:
    for subject in _pending_within(engine, "reinforcement", span, run):
        report = interaction_commands.try_reinforcement(engine, subject)
        if report is None:
            run.add(failures=1)
        else:
            run.add(reinforced_interactions=1, reinforced_memories=len(report.reinforced))


def _to_extract(engine: Engine) -> Iterator[int | str]:
    """Yield the ids of the sessions with messages that no extraction has searched, and then spans of interactions.

    An interaction that is part of a session is searched with the session.
    """
    after = 0
    while True:
        with engine.reading() as connection:
            page = sessions.unmined(connection, after=after)
        if not page:
            break
        yield from (state.id for state in page)
        after = page[-1].row
    yield from _spans(engine, "extraction")


def _extract_piece(engine: Engine, piece: int | str, run: JobsRun) -> None:
    if isinstance(piece, str):
        run.advance(0, 1)
        _extract_session(engine, piece, run)
        run.advance(1, 0)
        return
    for subject in _pending_within(engine, "extraction", piece, run):
        with engine.reading() as connection:
            extracts = control.wants(connection, subject.user or "", "extract")
            extracts = extracts and not is_left_to_session(connection, subject)
        if extracts:
            _run_extraction(engine, subject, run)


def _may_ask(engine: Engine, model: Model | None, run: JobsRun) -> bool:
    """Return False, and count what waits, if a model may not be called any more in this run."""
    if model is None:
        return True
    run.waiting_until = run.waiting_until or used_up_until(engine, model)
    may = not run.waiting_until and run.counts.get("calls", 0) < CALLS_A_RUN
    run.add(waiting=int(not may))
    return may


def _run_extraction(engine: Engine, subject: InteractionState, run: JobsRun) -> None:
    asker, model = policy_who(engine, subject, extraction.ACTOR), meant_model(engine, None, None)
    if not _may_ask(engine, model, run):
        return
    try:
        if model is not None:
            done, outcome = extract_turn(
                engine, subject, asker, extraction_commands.model_asker(engine, model, subject, cancel=run.stop)
            )
            run.add(calls=done.calls)
        else:
            outcome = extraction_commands.extract_by_rules(engine, subject, asker)
        kept = sum(isinstance(event.data, MemoryCaptured) for event in outcome.events)
        run.add(extracted_interactions=1, candidates=kept)
    except Exception as error:
        is_no_failure = isinstance(error, ModelError) and error.kind in NO_FAILURES
        run.add(failures=int(not is_no_failure), calls=int(isinstance(error, ModelError)))
        if not has_to_wait(error) and not isinstance(error, ModelError):  # a model's failure is recorded already
            failure = rules.RecordFailure("extraction", type(error).__name__, EXTRACTOR)
            interaction_commands.record_failure(engine, subject, asker, failure)


def _extract_session(engine: Engine, id: str, run: JobsRun) -> None:
    """Extract from the new messages of a session; messages that would need more calls than a run may make wait."""
    with engine.reading() as connection:
        first = first_position(connection, id)
        state = sessions.get(connection, first) if first is not None else None
        if state is None or state.user is None or not state.names:
            return
        if not control.wants(connection, state.user, "extract") or engine.keeps_out(*state.names):
            return
    if state.failures >= FAILURES:
        run.add(given_up=1)
        return
    model, asker = meant_model(engine, None, None), Who(user=state.user, actor=extraction.ACTOR)
    if not _may_ask(engine, model, run):
        return
    left = CALLS_A_RUN - run.counts.get("calls", 0) if model is not None else PIECES
    try:
        session = Conversation(engine, asker, id)
        report = session_extraction.run_extraction(session, asker, model, cancel=run.stop, by_itself=True, pieces=left)
    except LedgerError:
        run.add(failures=1)
        return
    run.add(sessions=int(report.pieces > 0), messages=report.messages, skipped=report.skipped, calls=report.calls)
    run.add(candidates=len(report.kept), failures=int(report.failure not in ("", *NO_FAILURES)))
    run.add(waiting=int(report.stopped in ("enough", "under_way", "moved") or report.failure == DAY_EXHAUSTED))
    if report.failure == DAY_EXHAUSTED:
        run.waiting_until = used_up_until(engine, model)


# --- expiry --------------------------------------------------------------------------------------------------


def _expire(engine: Engine, run: JobsRun) -> None:
    with engine.reading() as connection:
        faded = list(expiry.faded(connection, run.as_of))
        undecided = list(expiry.undecided(connection, run.as_of))
    ending = [(memory, expiry.ACTOR, expiry.record) for memory in faded]
    ending += [(memory, expiry.REJECTING, expiry.reject) for memory in undecided]
    for memory, actor, end in ending:
        if run.stop():
            return
        if memory.user is not None:
            run.add(
                expired=_expire_one(engine, memory, Who(user=memory.user, actor=actor), partial(end, as_of=run.as_of))
            )
    with engine.reading() as connection:
        over_values = values.expired(connection, run.as_of)
    for value in over_values:
        if run.stop():
            return
        if value.user is not None:
            run.add(values=int(value_commands.sweep(engine, value, run.as_of)))


def _expiring(engine: Engine, jobs: Sequence[Job], now: str) -> answers.JobReport:
    """Return a report of the memories that the expiry would end at a time; nothing is ended."""
    if [job.name for job in jobs] != ["expiry"]:
        raise RejectedError("a dry run needs jobs=['expiry']: no other job has a dry run")
    with engine.reading() as connection:
        ending = [*expiry.faded(connection, now), *expiry.undecided(connection, now)]
        over_values = values.expired(connection, now)
        expiring = tuple(memories_shown(connection, [memory for memory in ending if memory.user is not None]))
    return answers.JobReport(expired=len(expiring), expiring=expiring, values=len(over_values), dry_run=True)


def _expire_one(engine: Engine, memory: MemoryState, asker: Who, end: Callable[..., str]) -> bool:
    try:
        done = engine.writer.run("jobs.run", asker, lambda work: end(work, memory), memory.id)
    except RejectedError as refusal:
        if has_to_wait(refusal):
            return False
        raise
    return bool(done.events)


# --- consolidation -------------------------------------------------------------------------------------------


def _to_consolidate(engine: Engine, run: JobsRun) -> Iterator[Pending]:
    """Yield the projects of users with new sources. A job consolidates by no tags, because only a caller can choose tags."""
    scopes = consolidating.pending_scopes(engine)
    run.advance(0, len(scopes))
    yield from scopes


def _consolidate_piece(engine: Engine, pending: Pending, run: JobsRun) -> None:
    if not _may_ask(engine, engine.parts.get(MODEL), run):
        return
    counts = Counter(consolidating.consolidate_by_policy(engine, pending, run.stop))
    run.add(consolidated=counts["sources"], observations_formed=counts["formed"], failures=counts["failures"])
    run.add(observations_revised=counts["revised"] + counts["refreshed"], observations_retracted=counts["retracted"])
    run.advance(1, 0)


def _scope_key(engine: Engine, pending: Pending) -> str:
    """Return a key that names no user, because an erasure does not search the leases."""
    # The key is of the scope alone, without its new sources, because two consolidations of a scope read the same observations.
    scope = pending.scope
    return engine.writer.mac("lease", scope.user, scope.project or "").hex()


# --- vectors -------------------------------------------------------------------------------------------------


def _to_embed(engine: Engine, run: JobsRun) -> Iterator[vector_commands.TextsToEmbed]:
    try:
        work = vector_commands.pending(engine)
    except LedgerError as error:
        _record_vectors_failure(run, error)
        return
    if work is not None:
        run.advance(0, len(work.lacking))
        yield work


def _make_vectors(engine: Engine, work: vector_commands.TextsToEmbed, run: JobsRun) -> None:
    """Make the vectors of texts that lack one; a failure leaves them to the next run."""
    before = run.counts.get("vectors", 0)
    stopping = Stopping(cancel=lambda: run.stop() or not run.hold())
    try:
        for made in vector_commands.embed_pending(engine, work, stopping):
            run.add(vectors=made)
            run.advance(made, 0)
    except LedgerError as error:
        _record_vectors_failure(run, error)
    run.advance(len(work.lacking) - run.counts.get("vectors", 0) + before, 0)


def _record_vectors_failure(run: JobsRun, error: LedgerError) -> None:
    run.vectors_failure = str(error)
    run.add(failures=1)


def _vectors_key(engine: Engine, work: object) -> str:
    """Return the machine, because each machine of a shared log has vectors of its own."""
    shared = engine.store.shared
    return "" if shared is None else shared.log.machine


# --- running them --------------------------------------------------------------------------------------------


def run_policies(
    engine: Engine,
    *,
    as_of: object = None,
    only: Sequence[str] = (),
    dry_run: bool = False,
    stopping: Stopping | None = None,
    progress: Progress | None = None,
) -> answers.JobReport:
    """Do the pending work of every user.

    The jobs are: reinforcement, extraction, the expiry of memories whose confidence has decayed, a search that records
    conflicts and proposes merges of near duplicates, the consolidation of new memories, and the vectors of texts without
    one. Work that a crash prevented is pending, and so is work that failed fewer than three times.

    ``as_of`` is the time at which decay is judged, None for now; ``only`` names some of the jobs; ``progress`` is called
    with (subjects done, subjects found so far).

    Raises:
        RejectedError: A model would be asked inside a batch.
    """
    now = engine.now() if as_of is None else moment("now", as_of)
    flags(dry_run=dry_run)
    if dry_run:
        return _expiring(engine, _chosen(engine, only), now)
    run = JobsRun(now, stopping or Stopping(), progress, counts={})
    jobs = _chosen(engine, only)
    asks = meant_model(engine, None, None) is not None and any(job.name in ASKING for job in jobs)
    if asks or (engine.parts.get(vector_part.SEARCH) is not None and any(job.name == VECTORS for job in jobs)):
        check_outside(engine.writer)
    for job in jobs:
        for piece in job.pieces(run):
            if run.stop():
                return run.report()
            job.do(piece, run)
    return run.report()


def work(
    engine: Engine,
    *,
    follow: bool = False,
    only: Sequence[str] = (),
    stopping: Stopping | None = None,
    progress: Progress | None = None,
) -> Iterator[answers.JobReport]:
    """Do pending work beside other workers, each piece under a lease, and yield a report of each pass.

    With ``follow`` the worker waits for more work after each pass, until it is stopped. It checks for new events every
    second, judges decay once an hour, and waits up to a minute after failures. A worker that is killed leaves nothing
    half done, and its lease is free at once.

    Raises:
        RejectedError: The call is inside a batch.
    """
    if engine.writer.batching:
        raise RejectedError(
            "other workers cannot see into a batch, so work cannot share its pieces there; leave the batch first"
        )
    return _passes(engine, _chosen(engine, only), stopping or Stopping(), progress, follow=follow)


def run_after_capture(engine: Engine, only: Sequence[str]) -> None:
    """Run these jobs after each capture. A job that fails is recorded and stays pending; the capture itself succeeds."""
    jobs = tuple(job.name for job in _chosen(engine, only))
    if VECTORS in jobs:
        raise RejectedError(
            f"the job {VECTORS!r} would delay each capture by its model: leave it out of jobs_after_capture, and call"
            " jobs.run() later, or run a worker"
        )

    def run() -> None:
        with suppress(LedgerError):
            run_policies(engine, only=jobs)

    engine.after_capture = run


def _passes(
    engine: Engine, jobs: Sequence[Job], stopping: Stopping, progress: Progress | None, *, follow: bool
) -> Iterator[answers.JobReport]:
    failed = 0
    while True:
        seen = engine.position
        report = _share(engine, jobs, JobsRun(engine.now(), stopping, progress, counts={}))
        yield report
        if not follow or report.stopped:
            return
        failed = failed + 1 if report.failures else 0
        if failed:
            stopping.wait(min(LONGEST_PAUSE, LOOK_SECONDS * 2 ** min(failed, 10)))
        elif engine.position == seen:
            _wait(engine, seen, stopping, report.waiting_until)
        if stopping.why:
            return


def _share(engine: Engine, jobs: Sequence[Job], run: JobsRun) -> answers.JobReport:
    for job in jobs:
        for piece in job.pieces(run):
            if run.stop():
                return run.report()
            with leased(engine.store, f"{job.name}:{job.key(piece)}", LEASE_SECONDS) as lease:
                if lease is not None:
                    run.hold = lease.renew
                    job.do(piece, run)
    return run.report()


def _wait(engine: Engine, seen: int, stopping: Stopping, waiting_until: str) -> None:
    """Wait until an event was recorded, a command as a model may be called again, or it is time to judge decay again."""
    until = time.monotonic() + EXPIRY_SECONDS
    while engine.position == seen and time.monotonic() < until and not stopping.why:
        if waiting_until and engine.now() >= waiting_until:
            return
        stopping.wait(LOOK_SECONDS)


def _chosen(engine: Engine, only: Sequence[str]) -> list[Job]:
    jobs = _jobs(engine)
    if not isinstance(only, str | Sequence):
        raise RejectedError(f"only is a list of jobs ({', '.join(JOBS)}), and {only!r:.40} is not a list")
    names = (only,) if isinstance(only, str) else tuple(only)
    if unknown := [name for name in names if name not in JOBS]:
        raise RejectedError(f"no job is called {unknown[0]!r:.60}; the jobs are {', '.join(JOBS)}")
    if VECTORS in names and engine.parts.get(vector_part.SEARCH) is None:
        raise RejectedError(f"the job {VECTORS!r} needs a model: open the ledger with embedder=")
    return [job for job in jobs if not names or job.name in names]
