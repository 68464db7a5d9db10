"""Replay: the log up to a position as a ledger at a new path, for reading or as a branch that continues on its own."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress

from msgspec.structs import replace

from ledger.care import answers
from ledger.care.copying import ATTEMPTS, ErasedMeanwhile, copy_log, erased_since, erasing_before, known_end
from ledger.care.opening import OpenRequest, open_engine
from ledger.core.call import Who
from ledger.core.engine import Engine, Instant, committed, position_of
from ledger.core.reads import FoldReading, read_event, with_present_id
from ledger.core.steps import Stopping
from ledger.core.work import Body, Work
from ledger.domain.errors import ConflictError, NotFoundError, StorageError
from ledger.domain.text import check_reason
from ledger.events import LEDGER_STREAM, AnyEvent, ContentErased, LedgerBranched, LedgerCreated
from ledger.history.bisecting import check_between_commands
from ledger.history.supposing import Without, origin_of
from ledger.log.event_store import EventStore
from ledger.log.inspection import ErasedLater, erased_later, mark_copy
from ledger.log.lease import free_place, in_the_making
from ledger.log.paths import StrPath
from ledger.proof.sealed import head_at
from ledger.proof.verifying import verify
from ledger.undo import distrusting, undoing
from ledger.undo.answers import DistrustReport, UndoReport
from projections.core import shadow
from projections.core.projector import belongs_to, check_end

Progress = Callable[[int, int], None]
Voided = UndoReport | DistrustReport


class _Stopped(Exception):
    """The signal that a replay had to stop; nothing of it is kept."""


def replay(
    engine: Engine,
    asker: Who,
    path: StrPath,
    *,
    until: Instant | None = None,
    branch: bool = False,
    without: Without = None,
    reason: str = "",
    progress: Progress | None = None,
    stopping: Stopping,
) -> answers.ReplayReport:
    """Make a ledger of the log up to a moment, at a free path.

    The new ledger appears at the path when it is verified, or not at all. A ledger for reading has the same log: the
    same ids, bytes and heads. A branch continues with a LedgerBranched event and repeats the later erasures that took
    texts of its log.

    Args:
        engine: The engine of the ledger.
        asker: Who makes the replay.
        path: A path where nothing exists.
        until: The moment or position; None for the end of the log.
        branch: True for a branch.
        without: A command, event or origin, as in ``history.what_if``, made void in the branch.
        reason: Why the branch is made.
        progress: Called with (steps done, steps).
        stopping: The condition that ends the replay early.
    """
    if engine.writer.batching:
        raise ConflictError("replay() cannot run inside a batch; leave the batch first")
    started, reason, branch = time.monotonic(), check_reason("reason", reason), branch or without is not None
    place = free_place(path, "a replay")
    with committed(engine) as connection:
        (last,) = connection.execute("SELECT max(position) FROM main.events").fetchone()
        position = position_of(engine, connection, until) if until is not None else min(last, known_end(connection))
        if branch:
            check_between_commands(connection, position, "a branch begins behind a whole one")

    def go_on() -> None:
        if stopping.why:
            raise _Stopped

    def step(done: int, total: int) -> None:
        go_on()
        if progress is not None:
            progress(done, total)

    for _ in range(ATTEMPTS):
        replayed = _ReplayInProgress(engine, position, step, go_on)
        with suppress(ErasedMeanwhile):
            with suppress(_Stopped), in_the_making(place, "a replay", of=engine.store) as part:
                replayed.copy(part, for_reading=not branch)
                if branch:
                    replayed.branch(part, asker, reason, without)
                replayed.check(part)
                step(2 * position, 2 * position)
                replayed.check_erased()
                replayed.is_whole = True
            return replayed.report(place, stopping.why, time.monotonic() - started)
    raise ConflictError(
        f"texts were erased during each of {ATTEMPTS} attempts to copy the log, so no copy was kept; call replay() again"
    )


class _ReplayInProgress:
    """A replay whose copy is not finished yet, with the facts for its report."""

    def __init__(self, engine: Engine, position: int, step: Progress, go_on: Callable[[], None]) -> None:
        self.engine, self.position, self.step, self.go_on = engine, position, step, go_on
        self.is_whole, self.events, self.head = False, 0, b""
        self.created: LedgerCreated = engine.created
        self.parent: str | None = None
        self.later: list[tuple[ErasedLater, AnyEvent]] = []
        self.voided: Voided | None = None

    # --- the log and its projections -----------------------------------------------------------------------

    def copy(self, part: str, *, for_reading: bool) -> None:
        """Copy the log up to the position, and fold its projections."""
        with self.engine.store.snapshot() as source, closing(EventStore.open(part)) as target:
            check_end(source)
            copied = copy_log(source, target, lambda done, _: self.step(done, 2 * self.position), self.position)
            if copied < self.position:
                raise StorageError(f"the log is damaged: position {copied + 1} is of a kind that no version wrote")
            self.head = head_at(source, self.position) or b""
            self.later = list(_erased_later(source, self.position))
        with closing(sqlite3.connect(part, isolation_level=None)) as made:
            for setting in ("journal_mode = OFF", "synchronous = OFF"):
                made.execute(f"PRAGMA {setting}").fetchone()
            first = read_event(made, 1)
            assert first is not None
            self.created, secret = with_present_id(made, first.data), bytes.fromhex(first.data.secret)
            log, place = FoldReading(lambda: made), (self.position, self.head)
            shadow.fold_into(made, log, secret, self.created.ledger_id, *place, progress=self._folded)
            if for_reading:
                mark_copy(made, (row for row, _ in self.later))

    def _folded(self, done: int, total: int) -> None:
        self.step(total + done, 2 * total)

    def check(self, part: str) -> None:
        """Check the whole new file; raise StorageError for the first problem."""
        with closing(EventStore.open(part, readonly=True)) as store, store.snapshot() as connection:
            report = verify(connection, part, full=True, folded=False, progress=lambda *_: self.go_on())
            problems = report.problems
            if head_at(connection, self.position) != self.head:
                problems = (*problems, f"position {self.position}: its head is another than in the ledger")
        if problems:
            raise StorageError(f"the replayed log is damaged, so no file was kept: {problems[0]}")
        self.events = report.events

    def check_erased(self) -> None:
        """Raise ErasedMeanwhile if texts were erased after they were copied, so that the copy is made again."""
        with self.engine.store.snapshot() as source:
            if list(_erased_later(source, self.position)) != self.later:
                raise ErasedMeanwhile

    # --- a branch ------------------------------------------------------------------------------------------------

    def branch(self, part: str, asker: Who, reason: str, without: Without) -> None:
        """Make the copy a ledger with its own id, repeat the later erasures, and make ``without`` void."""
        clock, random = self.engine.clock, self.engine.random
        self.parent = self.created.ledger_id
        own = replace(self.created, ledger_id=random(16).hex())
        with closing(EventStore.open(part)) as store:
            writer = Engine(store, self.created, asker, clock, random).writer
            writer.run("replay", asker, self._branched(own.ledger_id, reason))
            for _, event in self.later:
                self.go_on()
                who = replace(asker, user=event.envelope.user or "", client="replay")
                writer.run("erase", who, self._erased_again(event))
        self.created = own
        # Opening the file also completes the erasures.
        with closing(open_engine(part, OpenRequest(clock=clock, random=random))) as engine:
            self.go_on()
            if without is not None:
                self.voided = _make_void(engine, asker, without, reason)

    def _branched(self, own: str, reason: str) -> Body:
        def body(work: Work) -> str:
            work.emit(LEDGER_STREAM, LedgerBranched(own, self.parent or "", self.position, self.head.hex(), reason))
            work.afterwards.append(lambda events: belongs_to(work.transaction.connection, own))
            return LEDGER_STREAM

        return body

    def _erased_again(self, event: AnyEvent) -> Body:
        """Return a command that records the same erasure in the branch, for the rows that the branch has.

        The rows were copied without their texts. The command only changes ``erased_by`` of these rows to the position of the
        erasure in the branch.
        """
        data: ContentErased = event.data
        targets = tuple(target for target in data.targets if target.position <= self.position)
        kept = tuple(place for place in data.kept if place <= self.position)

        def set_erased_by(work: Work, events: Sequence[AnyEvent]) -> None:
            connection, transaction = work.transaction.connection, work.transaction
            for target in targets:
                (state,) = connection.execute(
                    "SELECT state FROM events WHERE position = ?", (target.position,)
                ).fetchone()
                transaction.redact(target.position, state, events[0].position)

        def body(work: Work) -> str:
            work.user = event.envelope.user
            work.emit(LEDGER_STREAM, replace(data, targets=targets, blobs=(), kept=kept))
            work.afterwards.append(lambda events: set_erased_by(work, events))
            return LEDGER_STREAM

        return body

    # --- the report ----------------------------------------------------------------------------------------------

    def report(self, place: str, stopped: str, seconds: float) -> answers.ReplayReport:
        voided, taken = self.voided, (target.position for _, event in self.later for target in event.data.targets)
        return answers.ReplayReport(
            path=place,
            ledger_id=self.created.ledger_id,
            parent=self.parent,
            position=self.position,
            head=self.head.hex(),
            events=self.events,
            erased_later=len({place for place in taken if place <= self.position}),
            voided=voided.events if voided is not None else 0,
            dependents=voided.dependents if voided is not None else (),
            seconds=seconds,
            stopped=stopped if not self.is_whole else "",
        )


def _make_void(engine: Engine, asker: Who, without: str | int | Mapping[str, str], reason: str) -> Voided:
    if (origin := origin_of(without)) is not None:
        kind, name = origin
        report = distrusting.distrust(engine, asker, name, kind=kind, reason=reason, exclusive=True)
        if not report.events:
            raise NotFoundError(
                f"no event in effect at that moment is from the {kind or 'origin'} {name!r:.60}: history.audit shows who wrote"
            )
        return report
    assert not isinstance(without, Mapping)
    return undoing.undo(engine, asker, without, reason, cascade=True, exclusive=True)


def _erased_later(source: sqlite3.Connection, position: int) -> Iterator[tuple[ErasedLater, AnyEvent]]:
    """Yield the erasures after a position that erased texts at or before the position, as stored and decoded."""
    yield from erased_since(source, position)
    yield from erasing_before(erased_later(source), position)
