"""Commands through a pooler in transaction mode: PgBouncer where it is installed, and a small one that changes connections.

PgBouncer gives a client often the same connection again. The small pooler gives each transaction another one, so that whatever
a command left in a session would be missed.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from servers import until
from shared_rows import locked, publication, rows_after, states, write

pytest.importorskip("psycopg", reason="the driver psycopg is not installed")

from ledger import Ledger, shared
from ledger.core.settings import Settings
from ledger.domain.errors import ConflictError
from ledger.log.shared import listening
from ledger.log.shared.connections import pool_of
from ledger.log.shared.postgres import PostgresLog
from tools.shared.lives import Life
from tools.shared.real import RealMachines
from tools.shared.server import ROLE, Server

LONGEST_WAIT_SECONDS = 30
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
CONFIGURATION = """
[databases]
* = host={server}
[pgbouncer]
pool_mode = transaction
unix_socket_dir = {folder}
listen_port = 5432
auth_type = trust
auth_file = {folder}/users
default_pool_size = 4
"""


class SmallPooler:
    """A pooler that gives each transaction the connection that was idle for the longest time, of at least two.

    Attributes:
        handed_out: The number of the server's connection for each transaction.
    """

    def __init__(self, folder: Path, server: Server) -> None:
        self._server, self._idle = f"{server.socket}/.s.PGSQL.5432", dict[bytes, deque[tuple[int, socket.socket]]]()
        self._numbers, self._lock, self.handed_out = itertools.count(), threading.Lock(), list[int]()
        self._sockets, self._threads = list[socket.socket](), list[threading.Thread]()
        self._door = self._kept(socket.socket(socket.AF_UNIX))
        self._door.bind(str(folder / ".s.PGSQL.5432"))
        self._door.listen(64)
        self._start(self._welcome)

    def close(self) -> None:
        """End the thread of each client, then close every socket."""
        self._door.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()  # nobody else is let in
        for each in self._sockets:
            with suppress(OSError):  # the other side has closed it
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()

    def _start(self, target: Callable[..., None], *args: socket.socket) -> None:
        self._threads.append(threading.Thread(target=target, args=args))
        self._threads[-1].start()

    def _kept(self, each: socket.socket) -> socket.socket:
        self._sockets.append(each)
        return each

    def _welcome(self) -> None:
        with suppress(OSError):
            while True:
                self._start(self._serve, self._kept(self._door.accept()[0]))

    def _serve(self, client: socket.socket) -> None:
        """Pass messages of a client on until one side ends; a transaction that is open then ends with its connection."""
        held: tuple[int, socket.socket] | None = None
        with closing(client), suppress(OSError):
            length = client.recv(4)
            startup = length + _read(client, struct.unpack("!I", length)[0] - 4)
            number, first, greeting = self._connect(startup)
            self._give_back(startup, (number, first))
            client.sendall(greeting)
            while (kind := client.recv(1)) not in (b"", b"X"):
                message = kind + _body(client)
                if held is None:
                    held = self._take(startup)
                    self.handed_out.append(held[0])
                held[1].sendall(message)
                if _relay(held[1], client)[-1:] == b"I":
                    self._give_back(startup, held)
                    held = None
        if held is not None:
            held[1].close()

    def _connect(self, startup: bytes) -> tuple[int, socket.socket, bytes]:
        connection = self._kept(socket.socket(socket.AF_UNIX))
        connection.connect(self._server)
        connection.sendall(startup)
        return next(self._numbers), connection, _relay(connection)

    def _take(self, startup: bytes) -> tuple[int, socket.socket]:
        with self._lock:
            if len(idle := self._idle.setdefault(startup, deque())) > 1:
                return idle.popleft()
        return self._connect(startup)[:2]

    def _give_back(self, startup: bytes, connection: tuple[int, socket.socket]) -> None:
        with self._lock:
            self._idle.setdefault(startup, deque()).append(connection)


def _read(source: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        if not (part := source.recv(size - len(content))):
            raise OSError("the other side has ended")
        content += part
    return content


def _body(source: socket.socket) -> bytes:
    length = _read(source, 4)
    return length + _read(source, struct.unpack("!I", length)[0] - 4)


def _relay(source: socket.socket, target: socket.socket | None = None) -> bytes:
    """Pass the messages of a server on up to the one that it is ready, and return them."""
    passed = b""
    while True:
        message = (kind := _read(source, 1)) + _body(source)
        if target is not None:
            target.sendall(message)
        passed = message if target is not None else passed + message
        if kind == b"Z":
            return passed


@pytest.fixture(params=["small", "PgBouncer"])
def pooler(request: pytest.FixtureRequest, server: Server) -> Iterator[Any]:
    """The folder with the socket of a pooler in front of the server, and the small pooler itself."""
    if request.param == "PgBouncer" and PGBOUNCER is None:
        pytest.skip("PgBouncer is not installed")
    with tempfile.TemporaryDirectory(prefix="pool") as name, ExitStack() as ends:
        folder = Path(name)
        if request.param == "small":
            yield folder, ends.enter_context(closing(SmallPooler(folder, server)))
            return
        assert PGBOUNCER is not None
        owner = server.data.stat().st_uid
        (folder / "pgbouncer.ini").write_text(
            CONFIGURATION.format(server=server.socket, folder=folder), encoding="utf-8"
        )
        (folder / "users").write_text(f'"{ROLE}" ""', encoding="utf-8")
        os.chown(folder, owner, -1)
        process = subprocess.Popen(
            [PGBOUNCER, "-q", str(folder / "pgbouncer.ini")], user=owner, stderr=subprocess.DEVNULL
        )
        try:
            assert until((folder / ".s.PGSQL.5432").exists)
            yield folder, None
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def pooled_url(pooler: Any, server: Server) -> str:
    """The URL of a new database through the pooler, which also made its tables."""
    url = url_of(pooler, server.new_database(prepared=False))
    shared.prepare(url)
    return url


@pytest.fixture
def no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only notices call a follower, after the first call."""
    monkeypatch.setattr(listening, "POLL_SECONDS", 3600.0)


def url_of(pooler: Any, database: str) -> str:
    return f"postgresql://{ROLE}@/{database}?host={pooler[0]}"


def test_machines_hear_of_each_other_by_a_direct_connection(
    tmp_path: Path, pooled_url: str, server: Server, no_poll: None
) -> None:
    database = pooled_url.partition("@/")[2].partition("?")[0]

    def opened(name: str) -> Ledger:
        path = tmp_path / f"{name}.db"
        settings = Settings.load(path, log_url=pooled_url, log_listen_url=server.url(database))
        return Ledger.open(path, settings=settings, tenant="acme", machine=name, user="ada", actor="ada")

    with opened("a") as a, opened("b") as b:
        listens = f"SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = '{database}'"
        assert until(lambda: server.sql(listens) == [(1,)])
        for number in range(3):
            position = a.remember(f"Ada likes tea number {number}").position
            assert until(lambda position=position: b.position >= position)  # type: ignore[misc]
        large = b.capture("Read this.", "word " * 60_000)
        memory = b.remember("Ada lives in Porto")
        a.wait(memory.position, LONGEST_WAIT_SECONDS)
        a.erase(memory.id, reason="she asked")
        a.undo(large.position)
        with a.batch():
            a.remember("Ada plays the cello")
            a.remember("Ada owns a boat")
        assert until(lambda: [act.state for act in a.erasures.list()] == ["completed"])
        with opened("c") as c:
            end = max(ledger.position for ledger in (a, b, c))
            for ledger in (a, b, c):
                ledger.wait(end, LONGEST_WAIT_SECONDS)
                assert ledger.proof.verify(full=True).problems == ()
            assert len({ledger.proof.digest() for ledger in (a, b, c)}) == 1
            names = [replica.machine for replica in shared.replicas(pooled_url, "acme")]
            assert names == ["a", "b", "c"]


@pytest.mark.parametrize("seed", range(2))
def test_machines_are_equal_after_a_random_life(tmp_path: Path, pooler: Any, server: Server, seed: int) -> None:
    machines: Any = RealMachines(tmp_path, server)
    machines.server.url = url_of(pooler, machines.server.database)
    life = Life(tmp_path, seed, machines)
    life.play(40)
    assert len(life.done) > 8


def test_the_two_messages_of_a_command_take_one_connection_and_the_next_command_another(
    pooler: Any, pooled_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if pooler[1] is None:
        pytest.skip("only the small pooler tells")
    monkeypatch.setattr(PostgresLog, "_tell", lambda self: None)  # a transaction of another thread
    log = PostgresLog(pooled_url, "acme", "a")
    write(log, "1")
    before = len(pooler[1].handed_out)
    write(log, "2")
    write(log, "3")
    first, second = pooler[1].handed_out[before:]  # a transaction each
    assert first != second


def test_a_holder_that_pauses_loses_the_lock_to_another(pooled_url: str) -> None:
    ada = PostgresLog(pooled_url, "acme", "ada", timeout_seconds=5, idle_seconds=0.2)
    bob = PostgresLog(pooled_url, "acme", "bob", timeout_seconds=5)
    tail = locked(ada)
    write(bob, "of bob")  # waits until the server has ended the session of ada
    with pytest.raises(ConflictError):
        ada.publish(publication(tail.tip, rows_after(tail.tip, "of ada")))
    assert states(bob.tail(0, 5)) == ["of bob"]


def test_a_holder_whose_connection_ends_lets_the_lock_go(pooled_url: str) -> None:
    ada = PostgresLog(pooled_url, "acme", "ada")
    locked(ada)
    assert ada._held is not None
    ada._held.close()  # as the end of its process does
    write(PostgresLog(pooled_url, "acme", "bob", timeout_seconds=5), "of bob")


def test_notices_that_a_pooler_sends_with_the_answers_of_commands_do_not_pile_up(
    tmp_path: Path, pooled_url: str
) -> None:
    with Ledger.open(tmp_path / "a.db", log=pooled_url, tenant="acme", machine="a", user="ada") as ledger:
        for number in range(20):  # the address to listen at is missing, so that connections of commands hear notices
            ledger.remember(f"Ada likes tea number {number}")
    idle = pool_of(pooled_url)._idle
    assert idle
    assert [connection._pg.notifies() for connection in idle] == [None] * len(idle)
