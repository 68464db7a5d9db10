"""The recipe of a command: one append, decided under the writer's lock, written, folded and committed.

``Writer.run`` is the only way into the log. ``run``, ``_decide`` and ``append`` list its steps in order: the guards, the key, the
body, the expectation, trust, the guards again, the append, the fold. The steps that few commands take stand in ``steps.py``.

A command's body reads through ``Work`` and emits events. Nothing is written before the body has returned, so a refusal leaves
no trace but its own event.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial
from itertools import chain
from types import TracebackType
from typing import Any

from ledger.core import steps
from ledger.core.batches import CommandBatch, CommitQueue
from ledger.core.call import Clock, Random, Who, now
from ledger.core.guarding import HELD_CHARS, CommandTexts, Scans, Unscanned, as_warnings, watch
from ledger.core.reads import READER
from ledger.core.steps import ATTEMPTS
from ledger.core.work import Body, Means, Outcome, Work
from ledger.domain import ids
from ledger.domain.errors import RejectedError, SuspendedError
from ledger.domain.scan.scanner import Scanner
from ledger.events import (
    FORMAT,
    LEDGER_STREAM,
    AnyEvent,
    Envelope,
    LedgerUpgraded,
    MemoryQuarantined,
    Recorded,
    TextQuarantined,
)
from ledger.log.envelope import to_stored
from ledger.log.event_store import EventStore, Transaction, own_fold, refuse_fold
from ledger.log.writing import OutdatedError, Writing
from projections.core.projector import Projector, suspend
from projections.core.sqlite import SQLiteRows

_ALONE = ("erase", "maintenance.rebuild")  # commands that are never grouped
_log = logging.getLogger(__name__)  # logs ids, types and times, never a text


class Writer(Means):
    """The writing side of one open ledger: the tables under the lock, the clock, the ids and the open batch."""

    def __init__(
        self,
        store: EventStore,
        secret: bytes,
        ledger_id: str,
        clock: Clock,
        random: Random,
        scanners: Sequence[Scanner] = (),
    ) -> None:
        super().__init__(secret, clock, random, scanners)
        self.store = store
        self.writing: Writing = store.writing
        self.ledger_id = ledger_id
        self._own_turn, self._hopeful_turn = store.command(), store.command(hopes=True)
        self._refusals = steps.RefusalCounter()
        self.open_batch: CommandBatch | None = None
        self._is_grouping = False
        self._whole = _Whole(self._refusals)
        self.queue: CommitQueue | None = None  # of a ledger with group commit

    # --- one command ---------------------------------------------------------------------------------------------

    def run(
        self, command: str, who: Who, body: Body, arguments: object = None, *, texts: object | None = None
    ) -> Outcome:
        """Run a command's body under the lock; its events are one append, folded and committed with it.

        The guards scan ``texts``, or the arguments, before the lock is taken. If the body then needs further scans that take
        long, nothing is written, the scans are made, and the body runs again; so a body can run several times.

        Args:
            command: The name of the command in the log.
            who: The identity of the caller.
            body: The decision; it emits events and returns the subject.
            arguments: The arguments by which a repetition with the same idempotency key is recognised.
            texts: The texts that the body writes, in any structure, if they are not those of ``arguments``.
        """
        key = steps.given_key(self, command, who, arguments) if who.key is not None else None
        if self.writing.is_of_thread:  # a batch, or a group whose other commands wait
            room = HELD_CHARS if self._is_grouping else None  # without room the caller scans, and submits it again
            outcome = self._run(command, who, body, arguments, key, {}, room)
            self.after_commit()
            return outcome
        scans = self.guard.ahead(arguments if texts is None else texts)
        hopes = self.writing.shared is not None and command not in _ALONE and who.expected is None
        for room in (*(HELD_CHARS,) * ATTEMPTS, None):
            try:
                run = partial(self._run, command, who, body, arguments, key, scans, room)
                return self._alone(command, run, hopes=hopes)
            except Unscanned as missing:
                scans |= self.guard.made(missing.scans)
        raise AssertionError("unreachable: the last attempt scans under the lock")

    def _alone(self, command: str, run: Callable[..., Outcome], *, hopes: bool) -> Outcome:
        """Run one command of a thread that does not hold the lock, in a group with others if the ledger groups commits."""
        if self.queue is not None and command not in _ALONE:
            if own_fold.is_on:
                refuse_fold()
            return self.queue.call(run)
        outcome = self._hopeful(run) if hopes else run()
        self.after_commit()
        return outcome

    def _hopeful(self, run: Callable[..., Outcome]) -> Outcome:
        """Run a command without the lock of the shared log, and again with the lock if the log has to be asked first."""
        try:
            return run(hopes=True)
        except OutdatedError:  # the tables forget by themselves, because the next transaction sees a change
            self._refusals.forget()
            return run()

    def after_commit(self) -> None:
        """Index long texts, slice by slice, and catch up the user's own projections, if they fell behind."""
        while self.tables.are_many_waiting and not self.writing.is_of_thread:
            if not self.store.write_now(self.tables.index_slice, durable=False):
                break  # another writer is active; the texts keep waiting
        if (own := self.tables.own) is not None and own.waiting and not self.writing.is_own:
            own.after_command()

    def _run(
        self,
        command: str,
        who: Who,
        body: Body,
        arguments: object,
        given: steps.GivenKey | None,
        scans: Scans,
        room: int | None,
        *,
        hopes: bool = False,
    ) -> Outcome:
        refusal: RejectedError
        # The turn holds the lock; its end commits, or rolls everything back.
        with self._turn(hopes=hopes) as transaction, self.guard.held(scans, room=room):
            try:
                self.tables.begin(transaction)  # brings the tables to the end of the log, whoever wrote it
                return self._decide(transaction, command, who, body, given)
            except RejectedError as error:
                self.guard.check_all_scanned()
                refusal = error
                if (record := self._refusals.record(self, transaction, command, who, error, arguments)) is not None:
                    with self._apart(transaction):
                        self.append(record)
            except BaseException as error:
                if not transaction.deferred:  # a batch keeps the rows of its earlier commands
                    self.tables.forget()
                if (explained := self.store.explained(error, transaction.connection)) is not None:
                    raise explained from error
                raise
        raise refusal  # the event of the refusal is committed

    def _decide(
        self, transaction: Transaction, command: str, who: Who, body: Body, given: steps.GivenKey | None
    ) -> Outcome:
        """Take a command to its answer; each line is a step that is defined elsewhere."""
        with self.tables.closed():  # a decision reads no suspended projection
            self.guard.check_people(who)
            key = given.by(self.policy(who.user).secrets) if given is not None else None
            if key is not None and (known := steps.first_answer(self, key, command)) is not None:
                return known
            work = Work(self, transaction, command, who, self.now())
            subject = body(work)
            if who.expected is not None:
                steps.check_expected(work, who.expected)
            if distrusted := self.tables.distrusted():
                steps.check_trusted(work, distrusted)
            watched = watch(self.guard, work.emitted, CommandTexts(work.policy, work.large, work.taken))
            quarantined = steps.act_on_findings(work, watched) if watched is not None else 0
            bearer = steps.key_bearer(self, work, subject) if key is not None else subject
            self.guard.check_all_scanned()
        with self._apart(transaction):
            events = self.append(work, key, bearer)
            return self._outcome(work, subject, events, quarantined=quarantined > 0)

    def append(self, work: Work, key: steps.Key | None = None, bearer: str = LEDGER_STREAM) -> list[AnyEvent]:
        """Append the emitted events and fold them, both or neither."""
        if not work.emitted:
            return []
        if later := work.unannounced():
            self._announce(work, later)
        transaction = work.transaction
        events = self._write(work, key, bearer)
        try:
            self.tables.fold(transaction, events)
            if self.tables.projector.poisoned:
                self._suspend(transaction)
            for act in work.afterwards:
                act(events)
        except BaseException:
            transaction.spoil()  # events without their rows must not be committed, not even by a batch that goes on
            raise
        if work.who.expected is not None:  # what a call wrote itself is no change by somebody else
            work.who.expected.own.update(event.position for event in events)
        self.tables.learn(events)
        if _log.isEnabledFor(logging.DEBUG):
            for event in events:
                _log.debug("%s: %s at %d of %s", work.command, event.type, event.position, event.stream)
        return events

    def _write(self, work: Work, key: steps.Key | None, bearer: str) -> list[AnyEvent]:
        """Append each event in its envelope to the log; the last event on the stream ``bearer`` carries the key."""
        transaction, who, position = work.transaction, work.who, work.transaction.position
        versions: dict[str, int] = {}
        begun = {LEDGER_STREAM: 1}  # stream -> the position of its first event
        events: list[AnyEvent] = []
        stored, bound, command_id = [], [], ""
        bearing = (at for at, emitted in enumerate(work.emitted) if emitted[0] == bearer)
        last = max(bearing, default=-1) if key is not None else -1
        for at, (stream, first, data, project, occurred_at) in enumerate(work.emitted):
            position += 1
            new = not first and stream != LEDGER_STREAM
            version = versions.get(stream) or (1 if new else transaction.version(stream) + 1)
            versions[stream] = version + 1
            random = self.random(16)
            event_id = ids.uuid7(self.nanoseconds(work.recorded_at, position), random[:8])
            # a repeat answers with the state after the event that carries the key
            carried = key.key if key is not None and at == last else None
            envelope: Envelope[Any] = Envelope(
                event_id=event_id,
                schema=data.schema,
                recorded_at=work.recorded_at,
                occurred_at=occurred_at,
                begun=command_id or None,
                command=work.command,
                user=work.user,
                project=project,
                session=work.session,
                salt=random[8:].hex(),
                redactions=work.redactions.get(at, ()),
                data=data,
                **who.envelope,
            )
            if key is not None:
                envelope.arguments, envelope.key = key.arguments, carried.hex() if carried is not None else None
            command_id = command_id or event_id
            stored.append(to_stored(stream, version, envelope))
            bound.append(carried)
            begins = begun.setdefault(stream, first or position)
            events.append(Recorded(position, begins, stream, version, type(data).__name__, envelope, carried))
        for blob_id, content in work.blobs:
            transaction.put_blob(blob_id, content)
        transaction.append(stored, bound)
        return events

    def _announce(self, work: Work, later: int) -> None:
        """Record in the log that events follow which older products do not know; these go on reading and write no more."""
        upgrade = Work(self, work.transaction, "upgrade", Who(actor="ledger"), work.recorded_at)
        upgrade.emit(LEDGER_STREAM, LedgerUpgraded(FORMAT, READER, later))
        self.append(upgrade)

    def _suspend(self, transaction: Transaction) -> None:
        """Suspend the projections that could not fold an event; raise ``DamagedError`` if their own rows are to blame.

        A suspension is of this machine's tables, so a log that machines share has no event of it.
        """
        self.tables.flush()  # SQLite must see every row for the search for damage
        poisoned = self.tables.projector.poisoned
        if (damaged := self.store.find_damage(transaction.connection, {name for name, *_ in poisoned})) is not None:
            raise damaged
        self.tables.projector.poisoned = []
        work = Work(self, transaction, "suspend", Who(actor="ledger"), self.now())
        for name, at, error in poisoned:
            _log.warning("the projection %s is suspended at position %d (%s)", name, at, error)
            work.emit(LEDGER_STREAM, suspend(transaction.connection, name, at, error))
        if self.writing.shared is None:
            self.append(work)
        elif not transaction.deferred:
            self.tables.checkpoint(transaction)

    def take_in(self, transaction: Transaction, erased: Callable[[AnyEvent], None]) -> None:
        """Fold the events of other machines that were just written to the log; ``erased`` carries out each erasure."""
        self.tables.take_in(transaction, erased)
        if self.tables.projector.poisoned:
            self._suspend(transaction)

    def _outcome(self, work: Work, subject: str, events: Sequence[AnyEvent], *, quarantined: bool) -> Outcome:
        """Return the answer, read under the lock.

        A projection that this command suspended has no state to return. The command is committed all the same.
        """
        try:
            state = self.tables.subject(subject)
        except SuspendedError:
            state = None
        warnings: tuple[str, ...] = ()
        if work.redactions or quarantined:
            warnings = as_warnings(chain.from_iterable(work.redactions.values()), events if quarantined else ())
        if quarantined:  # the guards' events are no part of the answer
            events = [event for event in events if not isinstance(event.data, MemoryQuarantined | TextQuarantined)]
        return Outcome(
            subject,
            state,
            events,
            work.transaction.position,
            absorbed=work.absorbed,
            names=self.tables.names_of(state),
            policy=self.tables.policy(work.who.user),
            warnings=warnings,
        )

    # --- batches -------------------------------------------------------------------------------------------------

    def _turn(self, *, hopes: bool) -> AbstractContextManager[Transaction]:
        """Return the transaction of one command: the batch's if the caller owns a batch, else a new transaction."""
        if own_fold.is_on:
            refuse_fold()
        batch = self.open_batch
        return batch if batch is not None and batch.is_here else self._hopeful_turn if hopes else self._own_turn

    @property
    def batching(self) -> bool:
        """Return True if the caller is inside its own ``batch``."""
        return self.open_batch is not None and self.open_batch.is_here

    @contextmanager
    def batch(self, *, whole: bool = False) -> Iterator[None]:
        """Run many commands in one commit, which is split every 5 seconds or 10,000 events; every second if the log is shared.

        A ``whole`` batch is not split.

        The batch belongs to the thread, task and context that open it. A batch inside a batch of the same owner is a part of
        the outer batch, and an exception undoes this part alone.
        """
        batch = self.open_batch
        if batch is not None and batch.is_here:
            try:
                with batch.inside(whole=whole):
                    yield
            except BaseException:
                self._roll_back()
                raise
            return
        with self.store.command() as transaction:
            self.tables.begin(transaction)
            is_shared = self.writing.shared is not None
            batch = self.open_batch = CommandBatch(transaction, self._write_out, is_shared=is_shared, whole=whole)
            try:
                yield
                self._write_out(transaction)
            except BaseException:
                self._roll_back()
                raise
            finally:
                self.open_batch = None
                batch.end()
        self.after_commit()

    @contextmanager
    def group(self) -> Iterator[None]:
        """Run the commands of several callers in one commit. A command that fails is taken back alone."""
        try:
            with self.store.command():
                self._is_grouping = True
                try:
                    yield
                finally:
                    self._is_grouping = False
        except BaseException:
            self._refusals.forget()  # the tables forget by themselves, because the next transaction sees a change
            raise
        self.after_commit()

    def _apart(self, transaction: Transaction) -> AbstractContextManager[None]:
        """Take back what fails inside alone, if the command is in a group; else the end of its transaction takes it back."""
        return self._in_savepoint(transaction) if self._is_grouping else self._whole

    @contextmanager
    def _in_savepoint(self, transaction: Transaction) -> Iterator[None]:
        # The tables forget by themselves, because a savepoint that is taken back counts as a change.
        with self._whole, transaction.savepoint():
            yield

    def _roll_back(self) -> None:
        """Forget everything that was learned from what was rolled back."""
        self.tables.forget()
        self._refusals.forget()  # the same refusal is recorded again

    def write_waiting(self) -> None:
        """Write the rows and events that the caller's batch keeps back, so that they can be read, without a commit."""
        batch = self.open_batch
        if batch is not None and batch.is_here:
            self._write_out(batch.transaction)

    def _write_out(self, transaction: Transaction) -> None:
        self.tables.flush()
        if self.tables.projector.poisoned:
            self._suspend(transaction)
        self.tables.checkpoint(transaction)

    # --- for commands and jobs -----------------------------------------------------------------------------------

    @property
    def rows(self) -> SQLiteRows:
        return self.tables.rows

    @property
    def projector(self) -> Projector:
        return self.tables.projector

    def nanoseconds(self, recorded_at: str, position: int = 0) -> int:
        """Return the time for an id: the system's time, or with a user's clock the clock's time plus 1 µs per event before.

        A user's clock thereby gives the same ids in every run of a test.
        """
        if self.clock is now:
            return time.time_ns()
        return (round(datetime.fromisoformat(recorded_at).timestamp() * 1_000_000) + position) * 1_000

    def named(self, user: str, kind: str, name: str) -> str | None:
        """Return the id of a user's project or session by name, alias or id, under the lock."""
        return self.tables.named(user, kind, name)

    def attend(self, transaction: Transaction) -> None:
        """Work in this transaction from here, even if projections are suspended."""
        self.tables.attend(transaction)

    def forget_names(self) -> None:
        """Forget names, policies and distrust, which an act may have changed."""
        self.tables.forget_names()


class _Whole:
    """The context of a command that its transaction takes back whole after an error; the same refusal is recorded again."""

    __slots__ = ("_refusals",)

    def __init__(self, refusals: steps.RefusalCounter) -> None:
        self._refusals = refusals

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            self._refusals.forget()
