"""A shared log in memory: several machines in one process, with the failures of a network and a server at a test's word."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ledger import Ledger
from ledger.domain.errors import BusyError, ConflictError, UnknownOutcomeError, UnreachableError
from ledger.log.envelope import GENESIS, LogRow
from ledger.log.shared.port import BETWEEN, OnNews, Publication, Replica, SharedBlob, Tail, Tip
from tools import inside

LOST_BEFORE = "lost before"  # the connection is lost before the server has the commit
LOST_AFTER = "lost after"  # it is lost after the server has the commit, and comes back
UNKNOWN = "unknown"  # it is lost after the server has the commit, and does not come back in time
UNKNOWN_BEFORE = "unknown before"  # it is lost before the server has the commit, and does not come back in time


@dataclass
class Server:
    """The log of one tenant, and the machines that follow it."""

    tenant: str = "acme"
    rows: list[LogRow] = field(default_factory=list)
    blobs: dict[str, SharedBlob] = field(default_factory=dict)
    holder: object = None  # the session that holds the lock
    is_away: bool = False
    replicas: dict[str, tuple[int, int]] = field(default_factory=dict)  # machine -> position, erased through
    silent_seconds: float = 0.0  # since the last report of each machine
    leases: dict[str, str] = field(default_factory=dict)
    guard: Any = field(default_factory=threading.Condition)
    messages: list[str] = field(default_factory=list)  # kind of each message that a command sent
    after_next: Callable[[], object] | None = None  # called once after the next publish has let the lock go

    @property
    def tip(self) -> Tip:
        return Tip(len(self.rows), self.rows[-1].head) if self.rows else Tip(0, GENESIS)

    def head_at(self, position: int) -> bytes | None:
        if position > len(self.rows):
            return None
        return self.rows[position - 1].head if position else GENESIS

    def end_idle_session(self) -> None:
        """Take the lock from a holder that was idle for too long."""
        with self.guard:
            self.holder = None
            self.guard.notify_all()

    def lose_end(self, events: int) -> None:
        """Fail over to a standby that lacks the last events."""
        del self.rows[len(self.rows) - events :]

    def tail(self, position: int, limit: int) -> Tail:
        rows = self.rows[position : position + limit]
        last = rows[-1].position if rows else position
        blobs = [blob for blob in self.blobs.values() if position < blob.position <= last]
        is_cut = last < len(self.rows)
        return Tail(self.tip, self.head_at(position), rows, blobs, is_cut)

    def apply(self, publication: Publication) -> None:
        for row in publication.rows:
            assert row.position == len(self.rows) + 1
            assert all((old.stream, old.version) != (row.stream, row.version) for old in self.rows)
            self.rows.append(row)
        for blob in publication.blobs:
            assert blob.id not in self.blobs
            self.blobs[blob.id] = blob
        for position, state, by in publication.redactions:
            assert self.rows[by - 1].type == "ContentErased"
            self.rows[position - 1] = replace(self.rows[position - 1], state=state, erased_by=by)
        for blob_id, by in publication.erased_blobs:
            if self.blobs[blob_id].data is not None:
                self.blobs[blob_id] = self.blobs[blob_id]._replace(data=None, erased_by=by)
        assert self.tip == publication.after

    def forget(self, machine: str) -> None:
        for key in [key for key in self.replicas if key.partition(BETWEEN)[0] == machine]:
            del self.replicas[key]


class Double:
    """The shared log as one machine sees it."""

    def __init__(self, server: Server, machine: str, *, busy_seconds: float = 5.0) -> None:
        self.server, self.tenant, self.machine, self.file = server, server.tenant, machine, ""
        self.busy_seconds = busy_seconds
        self.failure = ""  # of the next publish
        self.is_closed = False
        self._session: object = None
        self._followers: list[OnNews] = []

    def _reach(self) -> Server:
        if self.server.is_away:
            raise UnreachableError("the shared log cannot be reached")
        return self.server

    # --- the protocol --------------------------------------------------------------------------------------------

    def lock(self, position: int, head: bytes, limit: int) -> Tail:
        server = self._reach()
        server.messages.append("lock")
        with server.guard:
            if not server.guard.wait_for(lambda: server.holder is None, self.busy_seconds):
                raise BusyError("another machine kept the lock of the shared log for longer than the timeout")
            tail = server.tail(position, limit)
            if not tail.is_cut:
                server.holder = self._session = object()
        return tail

    def publish(self, publication: Publication) -> None:
        self.server.messages.append("publish")
        self._publish(publication)

    def _publish(self, publication: Publication) -> None:
        failure, self.failure = self.failure, ""
        server = self.server
        with server.guard:
            lost = server.holder is not self._session
            if server.is_away:
                self._end()
                raise UnreachableError("the shared log cannot be reached")
            if failure in (LOST_AFTER, UNKNOWN) and not lost:
                server.apply(publication)
            if failure in (UNKNOWN, UNKNOWN_BEFORE):
                self._end()
                raise UnknownOutcomeError("the connection was lost during the commit; repeat it with the same key")
            if lost or failure in (LOST_BEFORE, LOST_AFTER):  # settled under a lock that was taken again
                there = server.head_at(publication.after.position)
                if there != publication.after.head:
                    if server.tip != publication.before:
                        self._end()
                        raise ConflictError("another machine wrote meanwhile; nothing of this commit is there")
                    server.apply(publication)
            else:
                assert server.tip == publication.before
                server.apply(publication)
            self._end()
        after, server.after_next = server.after_next, None
        if after is not None:
            after()

    def append(self, publication: Publication) -> bool:
        server = self._reach()
        server.messages.append("append")
        with server.guard:
            if not server.guard.wait_for(lambda: server.holder is None, self.busy_seconds):
                raise BusyError("another machine kept the lock of the shared log for longer than the timeout")
            if server.tip != publication.before:
                return False
            server.holder = self._session = object()
        self._publish(publication)
        return True

    def release(self) -> None:
        with self.server.guard:
            self._end()

    def _end(self) -> None:
        if self.server.holder is self._session:
            self.server.holder = None
            self.server.guard.notify_all()
        self._session = None

    def tail(self, position: int, limit: int) -> Tail:
        server = self._reach()
        with server.guard:
            return server.tail(position, limit)

    def begin(self, limit: int) -> Tail:
        self.report(0, 0)
        return self.tail(0, limit)

    @contextmanager
    def snapshot(self) -> Iterator[tuple[Tip, Iterator[LogRow], Iterator[SharedBlob]]]:
        server = self._reach()
        yield server.tip, iter(list(server.rows)), iter(list(server.blobs.values()))

    # --- following -----------------------------------------------------------------------------------------------

    def follow(self, on_news: OnNews) -> Callable[[], None]:
        self._followers.append(on_news)
        return lambda: self._followers.remove(on_news)

    def news(self) -> None:
        """Tell the ledgers of this machine that the log may have grown."""
        for on_news in list(self._followers):
            while on_news(None):
                pass

    def report(self, position: int, erased_through: int) -> None:
        replicas = self._reach().replicas
        if self.file:
            replicas.pop(self.machine, None)
        replicas[f"{self.machine}{BETWEEN}{self.file}" if self.file else self.machine] = (position, erased_through)

    def replicas(self) -> Sequence[Replica]:
        server = self._reach()
        acts = [row.position for row in server.rows if row.type == "ContentErased"]
        return [
            Replica(
                key.partition(BETWEEN)[0],
                position,
                through,
                datetime.now(UTC),
                len(server.rows) - position,
                sum(at > through for at in acts),
                server.silent_seconds,
                key.partition(BETWEEN)[2],
            )
            for key, (position, through) in sorted(server.replicas.items())
        ]

    # --- leases --------------------------------------------------------------------------------------------------

    def take_lease(self, work: str, holder: str, seconds: float) -> bool:
        return self._reach().leases.setdefault(work, holder) == holder

    def renew_lease(self, work: str, holder: str, seconds: float) -> bool:
        return self._reach().leases.get(work) == holder

    def give_back_lease(self, work: str, holder: str) -> None:
        if self.server.leases.get(work) == holder:
            del self.server.leases[work]

    def close(self) -> None:
        self.is_closed = True


class Machines:
    """Machines that share one log, each with a file of its own in one folder."""

    def __init__(self, folder: Path, **arguments: Any) -> None:
        self.folder, self.server, self.arguments = folder, Server(), arguments
        self.logs: dict[str, Double] = {}
        self.open_ones: list[Ledger] = []

    def path(self, machine: str) -> Path:
        return self.folder / f"{machine}.db"

    def open(self, machine: str, *, busy_seconds: float = 5.0, **arguments: Any) -> Ledger:
        log = self.logs[machine] = self.log_of(machine, busy_seconds)
        given: dict[str, Any] = {"user": "ada", "actor": "ada", **self.arguments, **arguments}
        ledger = Ledger.open(self.path(machine), log=log, **given)
        self.open_ones.append(ledger)
        return ledger

    def log_of(self, machine: str, busy_seconds: float = 5.0) -> Double:
        """Return the log as a machine sees it."""
        return Double(self.server, machine, busy_seconds=busy_seconds)

    def news(self, *machines: str) -> None:
        for machine in machines or self.logs:
            self.logs[machine].news()

    def close(self) -> None:
        for ledger in self.open_ones:
            ledger.close()


def assert_equal(*ledgers: Ledger) -> None:
    """Check that the machines have the same log and the same rows, that a rebuild gives these rows, and that all is sound."""
    heads = {inside.store(ledger).head() for ledger in ledgers}
    assert len(heads) == 1
    digests = {ledger.proof.digest() for ledger in ledgers} | {inside.rebuild(ledger).digest for ledger in ledgers}
    assert len(digests) == 1
    assert [ledger.proof.verify(full=True).problems for ledger in ledgers] == [()] * len(ledgers)
