"""The option ``--shared``: each ledger that a test opens for writing gets a shared log, of a tenant for each file.

A process that a test starts keeps ledgers with logs of their own. ``shared_exceptions`` lists the tests that cannot hold.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import pytest
from shared_exceptions import reason_of

from ledger.care import backing_up, opening, replaying
from ledger.domain.errors import LedgerError
from ledger.log.shared.port import ReplicaRow, SharedLog, read_replica_row
from ledger.shared import files, sharing
from tools.shared.double import Double, Server

if TYPE_CHECKING:
    from tools.shared import server as real

DEFAULT = opening.OpenRequest()
_ = backing_up, replaying, files  # these open their files themselves, with the function that is not patched


class Logs(Protocol):
    """The shared logs of a run, each under the name of its tenant."""

    def of(self, tenant: str, machine: str) -> SharedLog: ...

    def knows(self, tenant: str) -> bool: ...


class LogsInMemory:
    """Logs in this process, with neither threads nor a server."""

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}

    def of(self, tenant: str, machine: str) -> SharedLog:
        return Double(self.servers.setdefault(tenant, Server(tenant)), machine)

    def knows(self, tenant: str) -> bool:
        return tenant in self.servers

    def close(self) -> None:
        self.servers.clear()


class LogsInPostgres:
    """Logs in one database of a real server, which starts with the first ledger."""

    def __init__(self) -> None:
        self.server: real.Server | None = None
        self.url, self.tenants = "", set[str]()

    def of(self, tenant: str, machine: str) -> SharedLog:
        if self.server is None:
            from tools.shared.server import Server as RealServer

            self.server = RealServer()
            self.url = self.server.url(self.server.new_database())
        self.tenants.add(tenant)
        return sharing.connect(self.url, tenant, machine)

    def knows(self, tenant: str) -> bool:
        return tenant in self.tenants

    def close(self) -> None:
        if self.server is not None:
            self.server.close()


class SharedEverywhere:
    """The pytest plugin of a run over shared logs."""

    def __init__(self, kind: str) -> None:
        self.logs = LogsInMemory() if kind == "memory" else LogsInPostgres()
        self.numbers = itertools.count(1)
        self.open_engine = opening.open_engine
        opening.open_engine = self.open_shared

    def open_shared(self, path: str | os.PathLike[str], request: opening.OpenRequest = DEFAULT) -> Any:
        settings = request.settings
        names_log = request.log is not None or request.tenant is not None or request.machine is not None
        if not names_log and not request.readonly and getattr(settings, "log_url", None) is None:
            log = self.log_of(path)
            request = msgspec.structs.replace(request, log=log)
        return self.open_engine(path, request)

    def log_of(self, path: Any) -> SharedLog | None:
        """Return the log that a file follows, or a new one; None if it takes none, follows another, or cannot be read."""
        try:
            name = os.path.abspath(os.fspath(path))
            has_events, row = _read(name)
        except (TypeError, ValueError, UnicodeError, OSError, sqlite3.Error):
            return None  # opening it says what is wrong
        if row is not None and row.machine == name:
            return self.logs.of(row.tenant, name) if self.logs.knows(row.tenant) else None
        if row is not None:  # a copy of another test's file, which must not follow that one
            _leave_log(name)
        log = self.logs.of(f"tenant {next(self.numbers)}", name)
        if has_events:
            try:
                files.share_file(name, log)
            except LedgerError:
                return None
        return log

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if reason := reason_of(item.nodeid, in_memory=isinstance(self.logs, LogsInMemory)):
                item.add_marker(pytest.mark.skip(reason=f"over a shared log: {reason}"))

    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        if isinstance(self.logs, LogsInMemory) and (nextitem is None or nextitem.path != item.path):
            self.logs.close()  # of thousands of tests nobody needs the logs; an open ledger keeps its own

    def pytest_unconfigure(self) -> None:
        opening.open_engine = self.open_engine
        self.logs.close()


def _leave_log(name: str) -> None:
    """Make a machine's file a ledger of its own."""
    with closing(sqlite3.connect(name)) as connection, connection:
        connection.execute("DROP TABLE replica")


def _read(name: str) -> tuple[bool, ReplicaRow | None]:
    """Return True if a file has events, and the log that the file follows."""
    if not Path(name).exists():
        return False, None
    with closing(sqlite3.connect(f"{Path(name).as_uri()}?mode=ro", uri=True)) as connection:
        row = read_replica_row(connection)
        with suppress(sqlite3.OperationalError):
            return connection.execute("SELECT 1 FROM events LIMIT 1").fetchone() is not None, row
    return False, row
