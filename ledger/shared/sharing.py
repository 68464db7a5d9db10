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
from ledger.core.stopping import LOOK_SECONDS, Stopping
from ledger.domain.errors import DivergedError, LedgerError, RejectedError
from ledger.domain.text import check_text
from ledger.erasure import arriving, replicas
from ledger.log import replica_file
from ledger.log.event_store import EventStore
from ledger.log.replica_file import ReplicaRow
from ledger.log.rows import LogRow
from ledger.log.shared.joining import TAIL, Joining, check_links, check_same
from ledger.log.shared.port import SharedLog, Tail
from ledger.log.writing import SharedWriting, Transaction
from ledger.shared import following
from projections.core.projector import check_end

NAME_BYTES = 200  # of a tenant or a machine
REPORT_SECONDS = 1.0  # between two reports of a machine's position, while the position changes
ALIVE_SECONDS = 10.0  # between two reports of a machine that stands still
COPIED = 1_000  # rows written at once for a new machine
_log = logging.getLogger(__name__)


def connect(url: str, tenant: str | None, machine: str | None, listen_url: str = "") -> SharedLog:
    """Return the shared log at an address, for a machine whose name is that of its host if none is given.

    ``listen_url`` is the address for the connection that listens, if ``url`` leads to a pooler.

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
    return open_shared(url, tenant, machine, listen_url=listen_url)


# --- a file and its log --------------------------------------------------------------------------------------------------


def attach(store: EventStore, log: SharedLog) -> None:
    """Make a store the machine's copy of a shared log, before its first event is read or made.

    An empty file takes the whole log from one moment of it.

    Raises:
        RejectedError: The file is a copy of another tenant's log, or has a log of its own.
        DamagedError: The file had a log of its own, and its end was cut off.
        UnreachableError: The file is empty, and the log cannot be reached.
    """
    with store.snapshot() as connection:
        row = replica_file.read(connection)
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
    if row is None or row.machine != log.machine:
        with store.transact() as transaction:
            erased_through = row.erased_through if row is not None else 0
            replica_file.write(transaction.connection, ReplicaRow(log.tenant, log.machine, erased_through))
    if not position:
        log.report(0, 0)  # an erasure waits for this machine while it copies texts
        _copy(store, log)


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
        replica_file.write(transaction.connection, ReplicaRow(log.tenant, log.machine, tip.position))
    log.report(tip.position, tip.position)


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
        self._engine = engine
        self._stop: Callable[[], None] = lambda: None
        self._following, self._is_closed = threading.Lock(), False
        self._news = threading.Condition()
        self._reported, self._reported_at = (-1, -1), 0.0
        self._followed_at = 0.0
        self._process = os.getpid()

    def begin(self) -> None:
        """Fold the events that this machine has missed, and follow the log from here on."""
        joining = self._engine.store.shared
        assert joining is not None
        joining.fold = self._fold
        self.follow()
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

    def close(self) -> None:
        """Let go of the log. The store is closed by now, so that no command of another thread has the log's lock."""
        if os.getpid() == self._process:
            self.log.close()

    def _fold(self, transaction: Transaction) -> None:
        carry_out = partial(arriving.carry_out, self._engine, transaction)
        self._engine.writer.take_in(transaction, carry_out)

    def hear(self) -> bool:
        """Follow after news, unless a writer of this machine is active, who takes in the same events; return True then."""
        if self._engine.store.is_busy and time.monotonic() < self._followed_at + REPORT_SECONDS:
            return True
        self.follow()
        return False

    def follow(self) -> None:
        """Take in what other machines wrote, report this machine's position, and purge its files after erasures.

        An error is logged and kept in ``failure``; the next call tries again. While a writer of this machine is active,
        nothing is taken in, because the writer does so itself.
        """
        if not self._following.acquire(blocking=False):
            return
        if self._is_closed:
            self._following.release()
            return
        self._followed_at = time.monotonic()
        try:
            self.catch_up()
            self.failure = None
            self._report()
            if replicas.settle(self._engine):
                self._report()
        except LedgerError as error:
            if type(error) is not type(self.failure):
                _log.warning("this machine cannot follow the shared log (%s): %s", type(error).__name__, error)
            self.failure = error
        finally:
            self._following.release()
            with self._news:
                self._news.notify_all()

    def catch_up(self) -> None:
        """Take in the events behind this file's end.

        The events are read without any lock: the log only grows, and an erasure that is carried out meanwhile is still to come
        for this file. The shared log is not locked.

        Raises:
            DivergedError: The file has events that the shared log does not have.
            UnreachableError: The log cannot be reached.
        """
        store = self._engine.store
        is_cut, joining = True, store.shared
        assert joining is not None
        while is_cut:
            position, head = store.head()
            tail = self.log.tail(position, TAIL)
            check_same(position, head, tail)
            if not tail.rows or not store.write_now(partial(_take_in, joining, tail), durable=False):
                break
            is_cut = tail.is_cut
            self._engine.writer.after_commit()

    def _report(self) -> None:
        position, _ = self._engine.store.head()
        with self._engine.store.snapshot() as connection:
            row = replica_file.read(connection)
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


class _Following:
    """The call that follows the log while the ledger is in use; after a ledger that nobody closes it stops itself."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = ref(sharing)
        self.stop: Callable[[], None] = lambda: None  # settable

    def __call__(self) -> bool:
        if (alive := self._sharing()) is not None:
            return alive.hear()
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
