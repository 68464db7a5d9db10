"""The machines of the tests and of the random lives over a real server: they lag, lose connections and hear news at a word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ledger.domain.errors import UnreachableError
from ledger.log.envelope import LogRow
from ledger.log.shared.connections import LostError, MessageConnection
from ledger.log.shared.port import OnNews, Publication, Replica, SharedBlob, Tail, Tip
from ledger.log.shared.postgres import PostgresLog
from tools.shared.double import LOST_AFTER, LOST_BEFORE, UNKNOWN, UNKNOWN_BEFORE, Machines
from tools.shared.server import Server

ALL = 10**6  # rows


class Broken:
    """A connection that is lost before or after it sends what commits."""

    def __init__(self, connection: MessageConnection, *, sends: bool) -> None:
        self._connection, self._sends = connection, sends
        self.messages = connection.messages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def ask(self, statements: str, seconds: float) -> object:
        if self._sends:
            self._connection.ask(statements, seconds)
        self._connection.close()
        raise LostError("the connection was cut")


class RealLog(PostgresLog):
    """A machine's log in PostgreSQL, whose next failure, news and absence are at the word of a test."""

    def __init__(self, server: RealServer, machine: str, *, busy_seconds: float) -> None:
        super().__init__(server.url, server.tenant, machine, timeout_seconds=busy_seconds)
        self.server, self.failure, self.is_closed = server, "", False
        self._followers: list[OnNews] = []
        self._is_settling_late = False  # the next outcome is not settled in time

    def _reach(self) -> None:
        if self.server.is_away:
            raise UnreachableError("the shared log cannot be reached")

    def lock(self, position: int, head: bytes, limit: int) -> Tail:
        self._reach()
        self.server.messages.append("lock")
        return super().lock(position, head, limit)

    def publish(self, publication: Publication) -> None:
        self.server.messages.append("publish")
        if self.server.is_away:
            self.release()
        self._reach()
        super().publish(publication)

    def append(self, publication: Publication) -> bool:
        self._reach()
        self.server.messages.append("append")
        return super().append(publication)

    def _commit(self, publication: Publication, ahead: str, seconds: float) -> None:
        failure, self.failure = self.failure, ""
        if failure and self._held is not None:
            sends = failure in (LOST_AFTER, UNKNOWN)
            self._held = Broken(self._held, sends=sends)  # type: ignore[assignment]
        if failure in (UNKNOWN, UNKNOWN_BEFORE):
            self._is_settling_late = True
        else:
            assert failure in ("", LOST_BEFORE, LOST_AFTER)
        super()._commit(publication, ahead, seconds)
        after, self.server.after_next = self.server.after_next, None
        if after is not None:
            after()

    def _settle(self, publication: Publication, lost: LostError, seconds: float) -> None:
        is_late, self._is_settling_late = self._is_settling_late, False
        super()._settle(publication, lost, 0.0 if is_late else seconds)

    def tail(self, position: int, limit: int) -> Tail:
        self._reach()
        return super().tail(position, limit)

    def begin(self, limit: int) -> Tail:
        self._reach()
        return super().begin(limit)

    def report(self, position: int, erased_through: int) -> None:
        self._reach()
        super().report(position, erased_through)

    def replicas(self) -> list[Replica]:
        self._reach()
        machines, silent = super().replicas(), self.server.silent_seconds
        return [replace(each, silent_seconds=each.silent_seconds + silent) for each in machines]

    def follow(self, on_news: OnNews) -> Callable[[], None]:
        self._followers.append(on_news)
        return lambda: self._followers.remove(on_news)

    def news(self) -> None:
        for on_news in list(self._followers):
            while on_news(None):
                pass

    def close(self) -> None:
        super().close()
        self.is_closed = True


class RealServer:
    """One tenant's log in a database of its own, with the words of the double's server."""

    def __init__(self, server: Server, tenant: str = "acme") -> None:
        self.server, self.tenant, self.is_away, self.silent_seconds = server, tenant, False, 0.0
        self.database = server.new_database()
        self.url = server.url(self.database)
        self.messages: list[str] = []
        self.after_next: Callable[[], object] | None = None
        self._log = PostgresLog(self.url, tenant, "the test")

    @property
    def rows(self) -> list[LogRow]:
        return list(self._log.tail(0, ALL).rows)

    @property
    def blobs(self) -> dict[str, SharedBlob]:
        return {blob.id: blob for blob in self._log.tail(0, ALL).blobs}

    @property
    def tip(self) -> Tip:
        return self._log.tail(0, 1).tip

    @property
    def holder(self) -> object:
        """Return the session that has a transaction open, or None."""
        sql = f"SELECT pid FROM pg_stat_activity WHERE datname = '{self.database}' AND state = 'idle in transaction'"
        return next(iter(self.server.sql(sql)), None)

    @property
    def replicas(self) -> dict[str, tuple[int, int]]:
        return {replica.machine: (replica.position, replica.erased_through) for replica in self._log.replicas()}

    @property
    def leases(self) -> dict[str, str]:
        return dict(self.server.sql("SELECT work, holder FROM ledger.leases", database=self.database))

    def end_idle_session(self) -> None:
        self.server.sql(
            f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{self.database}'"
            " AND state = 'idle in transaction'"
        )

    def lose_end(self, events: int) -> None:
        """Take out the last events, as a failover does to a standby that lacked them."""
        end = self.tip.position - events
        self.server.sql(
            f"SET session_replication_role = replica; DELETE FROM ledger.events WHERE position > {end};"
            f" UPDATE ledger.logs SET (position, head) = (SELECT position, head FROM ledger.events WHERE position = {end})",
            database=self.database,
        )

    def forget(self, machine: str) -> None:
        self._log.forget(machine, "a test")


class RealMachines(Machines):
    """Machines over a real server."""

    def __init__(self, folder: Path, server: Server, **arguments: Any) -> None:
        super().__init__(folder, **arguments)
        self.server = RealServer(server)  # type: ignore[assignment]

    def log_of(self, machine: str, busy_seconds: float = 5.0) -> Any:
        return RealLog(self.server, machine, busy_seconds=busy_seconds)  # type: ignore[arg-type]
