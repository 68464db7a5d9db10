"""What becomes of a commit whose connection, server or machine fails, with a real server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import needs
import pytest
from shared_rows import erasing, locked, publication, rows_after, states, write

pytest.importorskip("psycopg", reason="the driver psycopg is not installed")

from ledger.domain.errors import ConflictError, LedgerError, UnknownOutcomeError, UnreachableError
from ledger.log.envelope import link
from ledger.log.shared.connections import LostError, MessageConnection
from ledger.log.shared.postgres import PostgresLog
from tools.shared.server import Server

AWAY = "postgresql://app@/postgres?host=/nowhere"


@pytest.fixture
def ada(shared_url: str, tenant: str) -> PostgresLog:
    return PostgresLog(shared_url, tenant, "ada", timeout_seconds=5)


@pytest.fixture
def bob(shared_url: str, tenant: str) -> PostgresLog:
    return PostgresLog(shared_url, tenant, "bob", timeout_seconds=5)


def end_sessions(server: Server) -> None:
    """End every session that has a transaction open, as a lost network does."""
    server.sql(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE application_name = 'memory-ledger' AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
    )


def lose(monkeypatch: pytest.MonkeyPatch, *, sends: bool, times: int = 1) -> None:
    """Lose the connection at the next messages that commit: after the server has answered, or before anything is sent."""
    ask, left = MessageConnection.ask, [times]

    def broken(self: MessageConnection, statements: str, seconds: float) -> object:
        if not ("pg_notify" in statements and left[0]):
            return ask(self, statements, seconds)
        left[0] -= 1
        if sends:
            ask(self, statements, seconds)
        self.close()
        raise LostError("the test cut the connection")

    monkeypatch.setattr(MessageConnection, "ask", broken)


@pytest.mark.parametrize("sends", [True, False], ids=["after the commit", "before the commit"])
def test_a_commit_whose_answer_was_lost_is_there_once(
    ada: PostgresLog, monkeypatch: pytest.MonkeyPatch, sends: bool
) -> None:
    lose(monkeypatch, sends=sends)
    write(ada, "of ada")
    assert states(ada.tail(0, 5)) == ["of ada"]


@pytest.mark.parametrize("sends", [True, False], ids=["after the commit", "before the commit"])
def test_a_commit_that_is_lost_again_while_it_is_settled_is_there_once(
    ada: PostgresLog, monkeypatch: pytest.MonkeyPatch, sends: bool
) -> None:
    lose(monkeypatch, sends=sends, times=3)
    write(ada, "of ada")
    assert states(ada.tail(0, 5)) == ["of ada"]


def test_a_lost_erasure_without_new_events_is_done_again(ada: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    write(ada, "secret")
    write(ada, by := erasing((1, "[gone]")), type_="ContentErased")
    tail = locked(ada)
    lose(monkeypatch, sends=False)
    ada.publish(publication(tail.tip, [], (), [(1, "[gone]", 2)]))
    assert states(ada.tail(0, 5)) == ["[gone]", by]


def test_a_session_that_ended_before_the_commit_writes_if_nobody_else_did(server: Server, ada: PostgresLog) -> None:
    tail = locked(ada)
    end_sessions(server)
    ada.publish(publication(tail.tip, rows_after(tail.tip, "of ada")))
    assert states(ada.tail(0, 5)) == ["of ada"]


def test_a_session_that_ended_conflicts_with_who_wrote_meanwhile(
    server: Server, ada: PostgresLog, bob: PostgresLog
) -> None:
    tail = locked(ada)
    end_sessions(server)
    write(bob, "of bob")
    with pytest.raises(ConflictError, match="nothing of this command was written"):
        ada.publish(publication(tail.tip, rows_after(tail.tip, "of ada")))
    assert states(ada.tail(0, 5)) == ["of bob"]
    write(ada, "of ada")
    assert states(ada.tail(0, 5)) == ["of bob", "of ada"]


def test_a_holder_that_pauses_loses_the_lock_to_another(shared_url: str, tenant: str, bob: PostgresLog) -> None:
    ada = PostgresLog(shared_url, tenant, "ada", timeout_seconds=5, idle_seconds=0.2)
    tail = locked(ada)
    write(bob, "of bob")  # waits until the server has ended the session of ada
    with pytest.raises(ConflictError):
        ada.publish(publication(tail.tip, rows_after(tail.tip, "of ada")))
    assert states(bob.tail(0, 5)) == ["of bob"]


def test_a_release_after_a_lost_connection_is_silent(server: Server, ada: PostgresLog) -> None:
    locked(ada)
    end_sessions(server)
    ada.release()
    write(ada, "of ada")
    assert states(ada.tail(0, 5)) == ["of ada"]


def test_connections_that_the_server_closed_are_replaced(server: Server, ada: PostgresLog) -> None:
    write(ada, "1")
    server.sql("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'memory-ledger'")
    write(ada, "2")
    assert states(ada.tail(0, 5)) == ["1", "2"]


def test_a_server_that_cannot_be_reached_is_named_as_such(tenant: str) -> None:
    log = PostgresLog(AWAY, tenant, "ada", timeout_seconds=1)
    calls: list[Callable[[], object]] = [
        lambda: locked(log),
        lambda: log.tail(0, 5),
        log.replicas,
        lambda: log.report(1, 1),
        lambda: log.take_lease("work", "ada-1", 5),
        lambda: log.snapshot().__enter__(),
    ]
    for call in calls:
        with pytest.raises(UnreachableError, match="nothing was written"):
            call()
    log.give_back_lease("work", "ada-1")
    log.release()


def test_a_follower_of_a_server_that_is_away_polls_all_the_same(tenant: str) -> None:
    polled = threading.Semaphore(0)
    stop = PostgresLog(AWAY, tenant, "ada").follow(lambda tip: polled.release())
    try:
        assert all(polled.acquire(timeout=30) for _ in range(3))
    finally:
        stop()


@needs.signals
def test_a_server_that_does_not_answer_is_given_up_in_time(server: Server, shared_url: str, tenant: str) -> None:
    log = PostgresLog(shared_url, tenant, "ada", timeout_seconds=0.5)
    tail = locked(log)
    ((session,),) = server.sql("SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'")
    os.kill(session, signal.SIGSTOP)
    try:
        with pytest.raises(UnknownOutcomeError, match="repeat the command with the same key"):
            log.publish(publication(tail.tip, rows_after(tail.tip, "of ada")))
    finally:
        os.kill(session, signal.SIGCONT)


@needs.signals
def test_a_machine_that_is_killed_under_the_lock_leaves_nothing_and_frees_it(
    shared_url: str, tenant: str, bob: PostgresLog
) -> None:
    program = (
        "import sys, time\nfrom shared_rows import locked\nfrom ledger.log.shared.postgres import PostgresLog\n"
        "log = PostgresLog(sys.argv[1], sys.argv[2], 'ada')\nlocked(log)\nprint('locked', flush=True)\ntime.sleep(600)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", program, shared_url, tenant], stdout=subprocess.PIPE, text=True, env=environment
    ) as ada:
        assert ada.stdout is not None
        assert ada.stdout.readline() == "locked\n"
        ada.kill()
    write(bob, "of bob")
    assert states(bob.tail(0, 5)) == ["of bob"]


# --- a standby that only reads ---------------------------------------------------------------------------------------


@pytest.fixture
def standby(server: Server) -> Callable[..., None]:
    """Let new sessions of a database only read, as those of a standby do."""

    def turn(url: str, *, on: bool) -> None:
        database = url.partition("@/")[2].partition("?")[0]
        server.sql(f"ALTER DATABASE {database} SET default_transaction_read_only = {'on' if on else 'off'}")
        server.sql(
            f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{database}'"
            " AND application_name = 'memory-ledger'"
        )

    return turn


def test_a_standby_takes_no_command_and_is_read(server: Server, standby: Callable[..., None]) -> None:
    url = server.url(server.new_database())
    log = PostgresLog(url, "acme", "ada", timeout_seconds=1)
    write(log, "1")
    standby(url, on=True)
    with pytest.raises(UnreachableError, match="takes no command now"):
        locked(log)
    assert states(log.tail(0, 5)) == ["1"]
    standby(url, on=False)
    write(log, "2")
    assert states(log.tail(0, 5)) == ["1", "2"]


def test_a_commit_that_only_a_standby_could_settle_has_an_unknown_outcome(
    server: Server, standby: Callable[..., None]
) -> None:
    url = server.url(server.new_database())
    log = PostgresLog(url, "acme", "ada", timeout_seconds=0.5)
    write(log, "1")
    tail = locked(log)
    standby(url, on=True)
    with pytest.raises(UnknownOutcomeError):
        log.publish(publication(tail.tip, rows_after(tail.tip, "2")))


# --- a server that crashes -------------------------------------------------------------------------------------------


def test_a_server_that_stays_away_during_a_commit_leaves_its_outcome_unknown(
    mortal_server: Server, tenant: str
) -> None:
    url = mortal_server.url(mortal_server.new_database())
    log = PostgresLog(url, tenant, "ada", timeout_seconds=0.5)
    tail = locked(log)
    mortal_server.stop()
    try:
        with pytest.raises(UnknownOutcomeError):
            log.publish(publication(tail.tip, rows_after(tail.tip, "of ada")))
        with pytest.raises(UnreachableError):
            locked(log)
    finally:
        mortal_server.start()
    write(log, "of ada")
    assert states(log.tail(0, 5)) == ["of ada"]


def test_of_a_server_that_crashes_in_a_loop_no_acknowledged_commit_is_lost(mortal_server: Server, tenant: str) -> None:
    url = mortal_server.url(mortal_server.new_database())
    over, failed = threading.Event(), []
    acknowledged: dict[str, list[str]] = {"ada": [], "bob": []}

    def live(machine: str) -> None:
        log = PostgresLog(url, tenant, machine, timeout_seconds=20)
        number = 0
        while not over.is_set():
            number += 1
            try:
                write(log, f"{machine} {number}")
                acknowledged[machine].append(f"{machine} {number}")
            except (ConflictError, UnreachableError):
                pass
            except LedgerError as error:
                failed.append(error)

    threads = [threading.Thread(target=live, args=(machine,)) for machine in acknowledged]
    for thread in threads:
        thread.start()
    for _ in range(4):
        over.wait(0.3)
        mortal_server.stop("immediate")
        mortal_server.start()
    over.wait(0.3)
    over.set()
    for thread in threads:
        thread.join()
    tail = PostgresLog(url, tenant, "eve").tail(0, 10**6)
    assert failed == []
    assert all(len(texts) > 4 for texts in acknowledged.values())
    recorded = states(tail)
    assert len(recorded) == len(set(recorded))
    for machine, texts in acknowledged.items():
        assert [text for text in recorded if text.startswith(machine) and text in set(texts)] == texts
    head = bytes(32)
    for row in tail.rows:
        head = link(head, row.position, row.stream, row.version, row.type, row.digest)
        assert row.head == head
