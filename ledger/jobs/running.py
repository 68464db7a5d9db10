"""What runs by itself: each policy is a job, done as a whole by ``run_policies``, or piece by piece by workers that share it.

A piece is what one worker does at a time, under a lease that all processes see. The lease only keeps two from doing the same
work: that nothing is recorded twice is decided under the writer's lock, by every job itself, whoever holds what.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct

from ledger import answers
from ledger.domain import interaction as domain
from ledger.domain.errors import LedgerError, ModelError, RejectedError
from ledger.domain.events import MemoryCaptured
from ledger.domain.extraction import EXTRACTOR
from ledger.domain.interaction import Interaction
from ledger.domain.memory import Memory
from ledger.domain.text import flags
from ledger.domain.times import moment
from ledger.engine.engine import Engine
from ledger.engine.log_reading import first_position
from ledger.engine.stopping import Stopping
from ledger.engine.who import Who
from ledger.extraction import commands as extraction_commands
from ledger.extraction import sessions as session_extraction
from ledger.extraction.asking import LEASE_SECONDS, meant_model
from ledger.extraction.pieces import is_left_to_session
from ledger.extraction.sessions import FAILURES, PIECES
from ledger.extraction.turns import extract_turn
from ledger.interactions import commands as interaction_commands
from ledger.interactions.commands import has_to_wait, policy_who
from ledger.language.asking import check_outside
from ledger.memories.queries import memories_shown
from ledger.merges import commands as merge_commands
from ledger.observations import consolidating
from ledger.observations.consolidating import Pending
from ledger.policies import expiry, extraction
from ledger.sessions.conversation import Conversation
from ledger.store.lease import leased
from projections.views import control, interactions, sessions

Progress = Callable[[int, int], None]
SPAN = 1_024  # positions of the log: the interactions in them are one piece of work
CALLS_A_RUN = 200  # of a model in one run, for what was said in sessions and captured turns
LOOK_SECONDS = 1.0  # how often a worker that follows looks for more
EXPIRY_SECONDS = 3_600.0  # ... and how often it judges again what has faded, where nothing else happens
LONGEST_PAUSE = 60.0  # after failures


class Run(Struct):
    """One going through the jobs: what was done so far, who wants to hear of it, and whether to go on."""

    as_of: str
    stopping: Stopping
    progress: Progress | None = None
    hold: Callable[[], bool] = lambda: True  # on to the lease of the piece under way
    counts: dict[str, int] = {}
    done: int = 0
    found: int = 0
    stopped: str = ""

    def stop(self) -> bool:
        """Whether it has to end, to be asked only where something is left to do: the report says so then."""
        self.stopped = self.stopping.why
        return self.stopped != ""

    def add(self, **counts: int) -> None:
        for name, number in counts.items():
            self.counts[name] = self.counts.get(name, 0) + number

    def tell(self, done: int, found: int) -> None:
        """So many more were found, and so many of them done."""
        self.done, self.found = self.done + done, self.found + found
        if self.progress is not None:
            self.progress(self.done, max(self.done, self.found))

    def report(self) -> answers.JobReport:
        return answers.JobReport(stopped=self.stopped, **self.counts)  # type: ignore[arg-type]


class Job(Struct, frozen=True):
    """A policy as it runs: ``pieces`` names what is pending, and ``do`` does what of a piece still is."""

    name: str
    pieces: Callable[[Run], Iterator[Any]]
    do: Callable[[Any, Run], None]
    key: Callable[[Any], str] = str  # of a piece, for its lease


def _whole(run: Run) -> Iterator[str]:
    """The one piece of a job that is not shared out."""
    return iter(("all",))


ASKING = ("extraction", "consolidation")  # these ask the model, if there is one
JOBS = ("reinforcement", "extraction", "expiry", "conflicts", "merges", "consolidation")


def _jobs(engine: Engine) -> tuple[Job, ...]:
    """Every job, in the order in which one feeds the next."""
    return (
        Job("reinforcement", lambda run: _spans(engine, "reinforcement"), partial(_reinforce_span, engine)),
        Job("extraction", lambda run: _to_extract(engine), partial(_extract_piece, engine)),
        Job("expiry", _whole, lambda piece, run: _expire(engine, run)),
        Job(
            "conflicts",
            _whole,
            lambda piece, run: run.add(conflicts=merge_commands.look_for_conflicts(engine, run.stop)),
        ),
        Job("merges", _whole, lambda piece, run: run.add(merges=merge_commands.look_for_merges(engine, run.stop))),
        Job(
            "consolidation",
            lambda run: _to_consolidate(engine, run),
            partial(_consolidate_piece, engine),
            partial(_scope_key, engine),
        ),
    )


# --- interactions --------------------------------------------------------------------------------------------


def _spans(engine: Engine, work: str) -> Iterator[int]:
    """Which spans of the log have interactions that wait for a policy; the same ones for every worker."""
    after = -1
    while page := _pending(engine, work, after, limit=1):
        yield (span := page[0].row // SPAN)
        after = (span + 1) * SPAN - 1


def _pending(engine: Engine, work: str, after: int, limit: int = 100) -> Sequence[Interaction]:
    with engine.reading() as connection:
        return interactions.pending(connection, work, after=after, limit=limit)


def _pending_within(engine: Engine, work: str, span: int, run: Run) -> Iterator[Interaction]:
    after = span * SPAN - 1
    while page := [each for each in _pending(engine, work, after) if each.row // SPAN == span]:
        run.tell(0, len(page))
        for subject in page:
            if not run.hold() or run.stop():
                return  # where it does not hold the piece any more, somebody else has gone on with it
            if subject.user is not None:  # erased: nobody's
                yield subject
            run.tell(1, 0)
        after = page[-1].row


def _reinforce_span(engine: Engine, span: int, run: Run) -> None:
    for subject in _pending_within(engine, "reinforcement", span, run):
        report = interaction_commands.try_reinforcement(engine, subject)
        if report is None:
            run.add(failures=1)
        else:
            run.add(reinforced_interactions=1, reinforced_memories=len(report.reinforced))


def _to_extract(engine: Engine) -> Iterator[int | str]:
    """The sessions in which something was said that nobody looked at, by their ids, and then spans of interactions: what of
    these is said in a session is looked at there."""
    after = 0
    while True:
        with engine.reading() as connection:
            page = sessions.unmined(connection, after=after)
        if not page:
            break
        yield from (state.id for state in page)
        after = page[-1].row
    yield from _spans(engine, "extraction")


def _extract_piece(engine: Engine, piece: int | str, run: Run) -> None:
    if isinstance(piece, str):
        run.tell(0, 1)
        _extract_session(engine, piece, run)
        run.tell(1, 0)
        return
    for subject in _pending_within(engine, "extraction", piece, run):
        with engine.reading() as connection:
            wanted = control.wants(connection, subject.user or "", "extract")
            wanted = wanted and not is_left_to_session(connection, subject)
        if wanted:
            _run_extraction(engine, subject, run)


def _run_extraction(engine: Engine, subject: Interaction, run: Run) -> None:
    asker, model = policy_who(engine, subject, extraction.ACTOR), meant_model(engine, None, None)
    if model is not None and run.counts.get("calls", 0) >= CALLS_A_RUN:
        run.add(waiting=1)
        return
    try:
        if model is not None:
            done, outcome = extract_turn(
                engine, subject, asker, extraction_commands.model_asker(engine, model, subject, cancelled=run.stop)
            )
            run.add(calls=done.calls)
        else:
            outcome = extraction_commands.extract_by_rules(engine, subject, asker)
        kept = sum(isinstance(event.data, MemoryCaptured) for event in outcome.events)
        run.add(extracted_interactions=1, candidates=kept)
    except Exception as error:
        called_off = isinstance(error, ModelError) and error.kind == "Cancelled"
        run.add(failures=int(not called_off), calls=int(isinstance(error, ModelError)))
        if not has_to_wait(error) and not isinstance(error, ModelError):  # that is recorded
            failure = domain.RecordFailure("extraction", type(error).__name__, EXTRACTOR)
            interaction_commands.record_failure(engine, subject, asker, failure)


def _extract_session(engine: Engine, id: str, run: Run) -> None:
    """What was said in a session and nobody looked at; where a model would be asked too often in one run, the rest waits."""
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
    left = CALLS_A_RUN - run.counts.get("calls", 0) if model is not None else PIECES
    if left <= 0:
        run.add(waiting=1)
        return
    try:
        session = Conversation(engine, asker, id)
        found = session_extraction.run_extraction(
            session, asker, model, cancelled=run.stop, by_itself=True, pieces=left
        )
    except LedgerError:
        run.add(failures=1)
        return
    run.add(sessions=int(found.pieces > 0), messages=found.messages, skipped=found.skipped, calls=found.calls)
    run.add(candidates=len(found.kept), failures=int(bool(found.failure) and found.stopped != "cancelled"))
    run.add(waiting=int(found.stopped in ("enough", "under_way", "moved")))


# --- fading --------------------------------------------------------------------------------------------------


def _expire(engine: Engine, run: Run) -> None:
    with engine.reading() as connection:
        faded = list(expiry.faded(connection, run.as_of))
        undecided = list(expiry.undecided(connection, run.as_of))
    over = [(memory, expiry.ACTOR, expiry.record) for memory in faded]
    for memory, actor, end in (*over, *((memory, expiry.REJECTING, expiry.reject) for memory in undecided)):
        if run.stop():
            return
        if memory.user is not None:
            run.add(
                expired=_expire_one(engine, memory, Who(user=memory.user, actor=actor), partial(end, as_of=run.as_of))
            )


def _expiring(engine: Engine, jobs: Sequence[Job], now: str) -> answers.JobReport:
    """Return the memories that the expiry would take at a time, and take none."""
    if [job.name for job in jobs] != ["expiry"]:
        raise RejectedError("only the expiry has a dry run: jobs=['expiry'], dry_run=True")
    with engine.reading() as connection:
        ending = [*expiry.faded(connection, now), *expiry.undecided(connection, now)]
        expiring = tuple(memories_shown(connection, [memory for memory in ending if memory.user is not None]))
    return answers.JobReport(expired=len(expiring), expiring=expiring, dry_run=True)


def _expire_one(engine: Engine, memory: Memory, asker: Who, end: Callable[..., str]) -> bool:
    try:
        done = engine.writer.run("jobs.run", asker, lambda work: end(work, memory), memory.id)
    except RejectedError as refusal:
        if has_to_wait(refusal):
            return False
        raise
    return bool(done.events)


# --- consolidation -------------------------------------------------------------------------------------------


def _to_consolidate(engine: Engine, run: Run) -> Iterator[Pending]:
    """The projects of users in which something is new; of tags nobody but a caller knows."""
    found = consolidating.pending_scopes(engine)
    run.tell(0, len(found))
    yield from found


def _consolidate_piece(engine: Engine, pending: Pending, run: Run) -> None:
    came = Counter(consolidating.consolidate_by_policy(engine, pending, run.stop))
    run.add(consolidated=came["sources"], observations_formed=came["formed"], failures=came["failures"])
    run.add(observations_revised=came["revised"] + came["refreshed"], observations_retracted=came["retracted"])
    run.tell(1, 0)


def _scope_key(engine: Engine, pending: Pending) -> str:
    """Names nobody: a lease is no event, and no erasure looks for it."""
    scope = pending.scope  # whatever is new in it: two consolidations of one scope would look at the same observations
    return engine.writer.mac("lease", scope.user, scope.project or "").hex()


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
    """Does what is pending for every user: reinforcement, extraction, the expiry of what has faded, a look for conflicts and
    near duplicates, of which it records and proposes those that are new, and the consolidation of new memories.
    ``RejectedError`` inside of ``batch`` where a model would be asked.

    What a crash prevented is pending, and so is what failed fewer than three times. ``as_of`` is the moment for
    which fading is judged (now); ``only`` names some of the jobs; ``progress`` is called with (done, found so far).
    """
    now = engine.writer.now() if as_of is None else moment("now", as_of)
    flags(dry_run=dry_run)
    if dry_run:
        return _expiring(engine, _chosen(engine, only), now)
    run = Run(now, stopping or Stopping(), progress, counts={})
    jobs = _chosen(engine, only)
    if meant_model(engine, None, None) is not None and any(job.name in ASKING for job in jobs):
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
    """Does what is pending next to other workers, each piece under a lease, and tells what each pass came to.

    With ``follow`` it then waits for more until it is stopped: it looks every second, judges once an hour what has faded,
    and waits up to a minute after failures. A worker that is killed leaves nothing half done, and its lease is free at once.
    ``RejectedError`` inside of ``batch``.
    """
    if engine.writer.batching:
        raise RejectedError(
            "work shares what it does with other workers, and they cannot see into a batch; leave it first"
        )
    return _passes(engine, _chosen(engine, only), stopping or Stopping(), progress, follow=follow)


def run_after_capture(engine: Engine, only: Sequence[str]) -> None:
    """Makes these jobs follow each capture; what fails in them is recorded and stays pending, and the capture stands."""
    jobs = tuple(job.name for job in _chosen(engine, only))

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
        report = _share(engine, jobs, Run(engine.writer.now(), stopping, progress, counts={}))
        yield report
        if not follow or report.stopped:
            return
        failed = failed + 1 if report.failures else 0
        if failed:
            stopping.wait(min(LONGEST_PAUSE, LOOK_SECONDS * 2 ** min(failed, 10)))
        elif engine.position == seen:
            _wait(engine, seen, stopping)
        if stopping.why:
            return


def _share(engine: Engine, jobs: Sequence[Job], run: Run) -> answers.JobReport:
    for job in jobs:
        for piece in job.pieces(run):
            if run.stop():
                return run.report()
            with leased(engine.store, f"{job.name}:{job.key(piece)}", LEASE_SECONDS) as lease:
                if lease is not None:
                    run.hold = lease.renew
                    job.do(piece, run)
    return run.report()


def _wait(engine: Engine, seen: int, stopping: Stopping) -> None:
    """Until something was recorded, or it is time to judge again what has faded."""
    until = time.monotonic() + EXPIRY_SECONDS
    while engine.position == seen and time.monotonic() < until and not stopping.why:
        stopping.wait(LOOK_SECONDS)


def _chosen(engine: Engine, only: Sequence[str]) -> list[Job]:
    jobs = _jobs(engine)
    if not isinstance(only, str | Sequence):
        raise RejectedError(f"only is a list of jobs ({', '.join(JOBS)}), and {only!r:.40} is none")
    wanted = (only,) if isinstance(only, str) else tuple(only)
    if unknown := [each for each in wanted if each not in JOBS]:
        raise RejectedError(f"no job is called {unknown[0]!r:.60}; there are: {', '.join(JOBS)}")
    return [job for job in jobs if not wanted or job.name in wanted]
