"""The time that a command waits: behind a network that swallows, a server that is full, and a thread that asks."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import probe
import pytest
from servers import messages_sent
from shared_rows import locked, write

pytest.importorskip("psycopg", reason="the driver psycopg is not installed")

from ledger import Ledger, shared
from ledger.core.settings import Settings
from ledger.domain.errors import BusyError, RejectedError, UnknownOutcomeError, UnreachableError
from ledger.log.shared.connections import GRACE_SECONDS, PARAMETERS, MessageConnection, Pool
from ledger.log.shared.opening import open_shared
from ledger.log.shared.postgres import PostgresLog
from tools.shared.server import Server

PORT = ".s.PGSQL.5432"


class Network:
    """A socket before a server's socket; while it ``swallows``, bytes go in and no answer comes back."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self._to = folder, f"{server.socket}/{PORT}"
        self.swallows, self.connections = False, 0
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / PORT))
        self._listening.listen()
        self._open = [self._listening]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database: str) -> str:
        return f"postgresql://app@/{database}?host={self.folder}"

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self.connections += 1
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._to)
                self._open += [client, server]
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not self.swallows:
                    target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture
def network(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[Network]:
    with closing(Network(tmp_path_factory.mktemp("n"), server)) as made:
        yield made


# --- a network that swallows -----------------------------------------------------------------------------------------


def test_a_command_waits_once_for_a_server_that_does_not_answer(
    network: Network, server: Server, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.log.shared.connections.GRACE_SECONDS", 0.1)
    monkeypatch.setattr(PostgresLog, "_tell", lambda self: None)  # by a connection of another thread
    log = PostgresLog(network.url(server.new_database()), tenant, "ada", timeout_seconds=1)
    write(log, "1")
    network.swallows, before = True, network.connections
    with pytest.raises(UnreachableError, match="did not answer in time"):
        log.tail(0, 5)
    assert network.connections == before


def test_a_thread_that_waits_behind_another_hears_that_the_log_does_not_answer(
    network: Network, server: Server, tmp_path: Path, tenant: str
) -> None:
    url = network.url(server.new_database())
    settings = Settings(log_url=url, log_tenant=tenant, log_machine="a", log_timeout=2.0)
    with Ledger.open(tmp_path / "a.db", user="ada", settings=settings, lock_timeout=0.3) as ledger:
        ledger.remember("Ada likes green tea")
        network.swallows = True
        with ThreadPoolExecutor(2) as threads:
            works = [threads.submit(ledger.remember, text) for text in ("Ada plays the cello", "Ada owns a boat")]
            errors = {type(error): str(error) for work in works if (error := work.exception()) is not None}
        network.close()
    assert set(errors) == {UnknownOutcomeError, BusyError}
    assert errors[BusyError].startswith("the shared log has not answered another command of this ledger")


def test_the_log_gives_up_before_those_who_wait_for_the_file_do() -> None:
    log = open_shared("postgresql://app@host/x", "acme", "ada")
    assert log._timeout + GRACE_SECONDS < 30


# --- a server that is full -------------------------------------------------------------------------------------------


def test_commands_of_many_threads_wait_for_the_few_connections_that_the_server_allows(server: Server) -> None:
    database = server.new_database()
    role = f"few_{database}"
    server.sql(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 2")
    shared.prepare(server.url(database), role=role)
    url = server.url(database, role)

    def work(number: int) -> None:
        log = PostgresLog(url, f"tenant {number}", "ada")
        for text in "12345":
            write(log, text)

    with ThreadPoolExecutor(12) as threads:
        assert [*threads.map(work, range(12))] == [None] * 12


def test_a_server_that_others_keep_full_is_busy_when_the_time_is_over(server: Server) -> None:
    database = server.new_database()
    role = f"one_{database}"
    server.sql(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1")
    shared.prepare(server.url(database), role=role)
    url = server.url(database, role)
    with closing(MessageConnection(url, 5)), pytest.raises(BusyError, match="took no more connections"):
        PostgresLog(url, "acme", "ada", timeout_seconds=0.2).tail(0, 5)
    write(PostgresLog(url, "acme", "ada"), "1")


def test_a_server_that_is_away_is_not_waited_for() -> None:
    pool = Pool("postgresql://app@127.0.0.1:1/x")
    with pytest.raises(UnreachableError):
        pool.ask("SELECT 1", 3600)


# --- the parameters of a connection ----------------------------------------------------------------------------------


def test_a_url_may_replace_each_time_out_of_a_connection(shared_url: str) -> None:
    given = {**dict.fromkeys(PARAMETERS, "7"), "application_name": "mine"}
    with closing(
        MessageConnection(f"{shared_url}&{'&'.join(f'{name}={value}' for name, value in given.items())}", 30)
    ) as made:
        assert made._connection.info.get_parameters() | given == made._connection.info.get_parameters()
    with closing(MessageConnection(shared_url, 30)) as made:
        assert made._connection.info.get_parameters() | PARAMETERS == made._connection.info.get_parameters()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app:ge@heim@127.0.0.1:1/x",
        "postgresql://app:ge/heim@127.0.0.1:1/x",
        "postgresql://app:ge?heim@h/x",
    ],
)
def test_a_password_with_a_sign_that_ends_it_is_refused_and_no_part_of_it_is_repeated(url: str) -> None:
    with pytest.raises(RejectedError, match="written as %2F and %40") as refused:
        shared.replicas(url, "acme")
    shown = repr(Settings(log_url=url, log_tenant="acme", origins={"log_url": "argument"}))
    for text in (str(refused.value), shown):
        assert "heim" not in text
    assert refused.value.__cause__ is None


def test_a_password_among_the_parameters_of_a_url_is_not_shown() -> None:
    url = "postgresql://app@host/x?password=geheim&sslmode=verify-full"
    shown = {setting.name: setting.value for setting in Settings(log_url=url).shown}
    assert shown["log_url"] == "postgresql://app@host/x?password=…&sslmode=verify-full"


def test_a_pool_counts_the_messages_of_commands_alone(shared_url: str, tenant: str) -> None:
    log = PostgresLog(shared_url, tenant, "ada")
    write(log, "1")
    before = messages_sent(shared_url)
    locked(log)
    log.release()
    assert messages_sent(shared_url) - before == 2


def test_the_address_to_listen_at_is_an_argument_too(shared_url: str, server: Server, tmp_path: Path) -> None:
    away = "postgresql://app@127.0.0.1:1/x"
    given = {"log": shared_url, "tenant": "acme", "machine": "a"}
    with Ledger.open(tmp_path / "a.db", log_listen_url=away, **given) as ledger:  # type: ignore[arg-type]
        ledger.remember("Ada likes green tea")
        assert probe.store(ledger).shared.log._listen_url == away
    with pytest.raises(RejectedError, match="without a log"):
        Ledger.open(tmp_path / "b.db", log_listen_url=shared_url)
