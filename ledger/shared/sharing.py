"""A machine's part in a shared log: attach its file to the log, follow the log, and purge the file after erasures elsewhere."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from weakref import ref

from ledger.core.engine import Engine
from ledger.core.steps import LOOK_SECONDS, Stopping
from ledger.domain.errors import DivergedError, LedgerError, RejectedError, UnreachableError
from ledger.domain.text import check_text
from ledger.erasure import redacting, replicas
from ledger.log.envelope import GENESIS, LogRow
from ledger.log.event_store import EventStore
from ledger.log.shared.joining import TAIL, Joining, check_links, check_same
from ledger.log.shared.port import (
    SERVER,
    TIMEOUT_SECONDS,
    ReplicaRow,
    SharedLog,
    Tail,
    Tip,
    note_erased_through,
    read_replica_row,
    replica_row_of,
    write_replica_row,
)
from ledger.log.writing import SharedWriting, Transaction
from ledger.shared import following
from projections.core.projector import check_end

NAME_BYTES = 200  # of a tenant or a machine
REPORT_SECONDS = 1.0  # between two reports of a machine's position, while the position changes
ALIVE_SECONDS = 10.0  # between two reports of a machine that stands still
WARN_SECONDS = 600.0  # between two warnings of an error that lasts
COPIED = 1_000  # rows written at once for a new machine
_log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]


def connect(
    url: str, tenant: str | None, machine: str | None, listen_url: str = "", timeout_seconds: float | None = None
) -> SharedLog:
    """Return the shared log at an address, for a machine whose name is that of its host if none is given.

    ``listen_url`` is the address for the connection that listens, if ``url`` leads to a pooler. ``timeout_seconds`` is the
    longest wait of a command for the log; None is the default.

    Raises:
        RejectedError: The address is not one of PostgreSQL, the tenant is missing, or a name is blank.
    """
    from ledger.log.shared.opening import check_driver, open_shared

    check_driver(url)
    if tenant is None:
        raise RejectedError(
            "a shared log holds the logs of many tenants: name yours with tenant=… or LEDGER_LOG_TENANT", rule="shared"
        )
    machine = socket.gethostname() if machine is None else machine
    for label, name in (("tenant", tenant), ("machine", machine)):
        check_text(label, name, max_bytes=NAME_BYTES)
    if machine == SERVER:
        raise RejectedError(f"the machine {SERVER!r} was asked for, which stands for the server", rule="machine")
    timeout = TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds
    return open_shared(url, tenant, machine, timeout_seconds=timeout, listen_url=listen_url)


# --- a file and its log --------------------------------------------------------------------------------------------------


def attach(store: EventStore, log: SharedLog, *, wait: bool = True) -> None:
    """Make a store the machine's copy of a shared log, before its first event is read or made.

    An empty file takes the whole log from one moment of it; without ``wait`` only the first events of a long log.

    Raises:
        RejectedError: The file is a copy of another tenant's log, or has a log of its own.
        DamagedError: The file had a log of its own, and its end was cut off.
        UnreachableError: The file is empty, and the log cannot be reached.
    """
    with store.snapshot() as connection:
        row = read_replica_row(connection)
        if row is None:
            check_end(connection)
    position, _ = store.head()
    if row is not None and row.tenant != log.tenant:
        raise RejectedError(
            f"{store.path} is a copy of the log of the tenant {row.tenant!r:.60}, and {log.tenant!r:.60} was asked for:"
            " give each tenant a file of its own",
            rule="tenant",
        )
    if row is None and position:
        raise RejectedError(
            f"{store.path} has a log of its own, of {position:,} events: shared.share(path, url, tenant) makes it the shared"
            " log, or name a file that does not exist yet",
            rule="shared",
        )
    store.shared = Joining(log)
    if row is None or row != _own(store, log, row):
        with store.transact() as transaction:  # another process of this machine may have been faster
            row = _own(store, log, read_replica_row(transaction.connection))
            write_replica_row(transaction.connection, row)
    log.file = row.file
    if not position:
        tail = log.begin(TAIL)  # an erasure waits for this machine while it copies texts
        if tail.is_cut and wait:
            _copy(store, log)
        else:
            _copy_first(store, log, tail)


def _own(store: EventStore, log: SharedLog, row: ReplicaRow | None) -> ReplicaRow:
    """Return the row of a file with the name of this machine and an id of the file."""
    erased_through, file, number = (row.erased_through, row.file, row.number) if row is not None else (0, "", 0)
    return replica_row_of(store.path, ReplicaRow(log.tenant, log.machine, erased_through, file, number))


def _copy_first(store: EventStore, log: SharedLog, tail: Tail) -> None:
    """Write the first events of the shared log, or all, into an empty file."""
    with store.transact() as transaction:
        if transaction.position:
            return  # another process of this machine was faster
        check_links(0, GENESIS, tail)
        for blob in tail.blobs:
            transaction.put_blob(blob.id, blob.data, blob.erased_by)
        transaction.append_rows(tail.rows)
        # A text of these events that is erased behind them is erased again when the rest is folded.
        note_erased_through(transaction.connection, 0 if tail.is_cut else tail.tip.position)


def _copy(store: EventStore, log: SharedLog) -> None:
    """Write the whole shared log into an empty file, in one transaction; the tables of the projections are folded later."""
    with log.snapshot() as (tip, rows, blobs), store.transact() as transaction:
        if transaction.position:
            return  # another process of this machine was faster
        for blob in blobs:
            transaction.put_blob(blob.id, blob.data, blob.erased_by)
        for part in _parted(rows):
            last = part[-1].position == tip.position
            check_links(transaction.position, transaction.head, Tail(tip, transaction.head, part, is_cut=not last))
            transaction.append_rows(part)
        # The snapshot holds no text that was erased before it.
        note_erased_through(transaction.connection, tip.position)


def _parted(rows: Iterator[LogRow]) -> Iterator[list[LogRow]]:
    while part := list(islice(rows, COPIED)):
        yield part


# --- an open ledger ------------------------------------------------------------------------------------------------------


class Sharing:
    """The shared log of an open ledger.

    Attributes:
        log: The shared log.
        failure: The error that keeps this machine from following the log; None while it follows.
    """

    def __init__(self, engine: Engine, log: SharedLog) -> None:
        self.log = log
        self.failure: LedgerError | None = None
        self._engine, self._end = engine, 0
        self._stop: Callable[[], None] = lambda: None
        self._following, self._is_closed = threading.Lock(), False
        self._news = threading.Condition()
        self._reported, self._reported_at = (-1, -1), 0.0
        self._followed_at = 0.0
        self._failing_since, self._warned_at = 0.0, 0.0
        self._process = os.getpid()

    def begin(self, *, wait: bool = True, progress: Progress | None = None) -> None:
        """Fold the events that this machine has missed, and follow the log from here on.

        Args:
            wait: False folds the first thousand events at most, and leaves the others to the threads that follow.
            progress: Called with (events folded, events that were missed) before each thousand of them.
        """
        joining, store = self._engine.store.shared, self._engine.store
        assert joining is not None
        joining.fold = self._fold
        first, _ = store.head()
        while self.follow() and wait:
            if progress is not None:
                progress(store.head()[0] - first, self._end - first)
        following = _Following(self)
        following.stop = self._stop = self.log.follow(following)

    def stop(self) -> None:
        """Stop following, after a call under way; a second call and a call in a forked child do nothing."""
        if os.getpid() != self._process:
            return  # the thread and the connections are the parent's
        stop, self._stop = self._stop, lambda: None
        stop()
        with self._following:
            self._is_closed = True

    @property
    def behind(self) -> int | None:
        """Return the number of events that this file lacks, as the log was last seen; None if it was not seen yet."""
        return max(self._end - self._engine.store.head()[0], 0) if self._end else None

    def close(self) -> None:
        """Let go of the log. The store is closed by now, so that no command of another thread has the log's lock."""
        if os.getpid() == self._process:
            self.log.close()

    def _fold(self, transaction: Transaction) -> None:
        carry_out = partial(redacting.carry_out, self._engine, transaction)
        self._engine.writer.take_in(transaction, carry_out)

    def hear(self, tip: Tip | None = None) -> bool:
        """Follow after news, and return True if there is more to take in.

        ``tip`` is the end of the log if it is known. While a writer of this machine is active, it takes in the same events.
        """
        if self._engine.store.is_busy and time.monotonic() < self._followed_at + REPORT_SECONDS:
            return True
        return self.follow(tip)

    def follow(self, tip: Tip | None = None) -> bool:
        """Take in a part of what other machines wrote, report this machine's position, and purge its files after erasures.

        Return True if the log has more. A log that is known to end at ``tip``, where the file ends, is not asked.

        An error is logged and kept in ``failure``; the next call tries again. While a writer of this machine is active,
        nothing is taken in, because the writer does so itself.
        """
        if not self._following.acquire(blocking=False):
            return False
        if self._is_closed:
            self._following.release()
            return False
        self._followed_at, is_cut = time.monotonic(), False
        self._end = tip.position if tip is not None else self._end
        try:
            if tip is None or tip != self._engine.store.head():
                is_cut = self._catch_up()
            self._heal()
            self._report()
            if replicas.settle(self._engine):
                self._report()
        except LedgerError as error:
            self._fail(error)
        finally:
            self._following.release()
            with self._news:
                self._news.notify_all()
        return is_cut

    def _fail(self, error: LedgerError) -> None:
        """Keep an error, and warn of it: when it begins, when its type changes, and again after each ``WARN_SECONDS``."""
        now, before = time.monotonic(), self.failure
        if before is None:
            self._failing_since = now
        if type(error) is not type(before) or now >= self._warned_at + WARN_SECONDS:
            self._warned_at, name, lasts = now, type(error).__name__, now - self._failing_since
            _log.warning("this machine cannot follow the shared log (%s, for %d s): %s", name, lasts, error)
        self.failure = error

    def _heal(self) -> None:
        if self.failure is not None:
            lasted = time.monotonic() - self._failing_since
            _log.warning("this machine follows the shared log again, after %d s", lasted)
        self.failure = None

    def _catch_up(self) -> bool:
        """Take in the next events behind this file's end; return True if the log has more.

        The events are read without any lock: the log only grows, and an erasure that is carried out meanwhile is still to come
        for this file. The shared log is not locked.

        Raises:
            DivergedError: The file has events that the shared log does not have.
            UnreachableError: The log cannot be reached.
        """
        store = self._engine.store
        joining = store.shared
        assert joining is not None
        position, head = store.head()
        tail = self.log.tail(position, TAIL)
        self._end = tail.tip.position
        check_same(position, head, tail)
        if not tail.rows or not store.write_now(partial(_take_in, joining, tail), durable=False):
            return False
        self._engine.writer.after_commit()
        return tail.is_cut

    def _report(self) -> None:
        position, _ = self._engine.store.head()
        with self._engine.store.snapshot() as connection:
            row = read_replica_row(connection)
        report = (position, row.erased_through if row is not None else 0)
        pause = REPORT_SECONDS if report != self._reported else ALIVE_SECONDS
        if report[1] != self._reported[1] or time.monotonic() >= self._reported_at + pause:
            self.log.report(*report)
            self._reported, self._reported_at = report, time.monotonic()

    def wait(self, position: int, stopping: Stopping) -> None:
        """Return when this machine's file holds the log up to a position.

        Raises:
            BusyError: The time is over, or the wait was cancelled.
            DivergedError: The file has events that the shared log does not have.
            UnreachableError: The time is over, and the log cannot be reached.
        """
        self._check_same()
        while self._engine.store.head()[0] < position:
            self.follow()
            if isinstance(self.failure, DivergedError):
                raise self.failure
            if self._engine.store.head()[0] >= position:
                return
            if stopping.why:
                raise self.failure or following.late(self._engine, position, stopping)
            with self._news:
                self._news.wait(LOOK_SECONDS)

    def _check_same(self) -> None:
        """Raise ``DivergedError`` if the file's history is not that of the log; a log that is away is not asked again."""
        if isinstance(self.failure, UnreachableError):
            return
        position, head = self._engine.store.head()
        try:
            check_same(position, head, self.log.tail(position, 1))
        except DivergedError as error:
            self._fail(error)
            raise
        except UnreachableError:  # the file has what it has; the wait says so if it needs more
            if isinstance(self.failure, DivergedError):
                raise self.failure from None


class _Following:
    """The call that follows the log while the ledger is in use; after a ledger that nobody closes it stops itself."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = ref(sharing)
        self.stop: Callable[[], None] = lambda: None  # settable

    def __call__(self, tip: Tip | None) -> bool:
        if (alive := self._sharing()) is not None:
            return alive.hear(tip)
        self.stop()
        return False


def _take_in(joining: SharedWriting, tail: Tail, transaction: Transaction) -> None:
    """Take in the part of a tail that the file does not have yet."""
    known = [row for row in tail.rows if row.position <= transaction.position]
    if known and known[-1].position < transaction.position:
        return  # a writer has taken in more meanwhile
    behind = tail.rows[len(known) :]
    blobs = [blob for blob in tail.blobs if blob.position > transaction.position]
    head_there = known[-1].head if known else tail.head_there
    joining.take_in(transaction, Tail(tail.tip, head_there, behind, blobs, tail.is_cut))
