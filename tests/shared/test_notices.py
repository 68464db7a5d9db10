"""The thread of a process that listens for all its tenants."""

from __future__ import annotations

import gc
import logging
import threading
import time
from pathlib import Path

import pytest
from servers import until
from shared_rows import write

pytest.importorskip("psycopg", reason="the driver psycopg is not installed")

from ledger import Ledger
from ledger.log.shared import listening, notifying
from ledger.log.shared.connections import LostError, MessageConnection, Row, pool_of
from ledger.log.shared.port import OnNews, Tip
from ledger.log.shared.postgres import PostgresLog
from tools.shared.server import Server

THREAD = "memory-ledger listener"
LONGEST_WAIT_SECONDS = 30


@pytest.fixture
def no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only notices call a follower, after the first call."""
    monkeypatch.setattr(listening, "POLL_SECONDS", 3600.0)


def listeners() -> int:
    return sum(thread.name == THREAD for thread in threading.enumerate())


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, tip: Tip | None) -> None:
        self.calls += 1


def test_a_process_has_one_thread_and_one_connection_for_all_its_tenants(server: Server) -> None:
    database = server.new_database()
    url = server.url(database)
    counters = [Counter() for _ in range(5)]
    stops = [PostgresLog(url, f"t{number}", "ada").follow(counter) for number, counter in enumerate(counters)]
    assert until(lambda: all(counter.calls for counter in counters))
    assert listeners() == 1
    count = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND query LIKE 'LISTEN%'"
    assert server.sql(count) == [(1,)]
    for stop in stops:
        stop()
    assert until(lambda: listeners() == 0)
    assert until(lambda: server.sql(count) == [(0,)])


def test_a_follower_hears_of_commits_of_other_machines_of_its_tenant_alone(
    shared_url: str, tenant: str, no_poll: None
) -> None:
    ada, bob = PostgresLog(shared_url, tenant, "ada"), PostgresLog(shared_url, tenant, "bob")
    other = PostgresLog(shared_url, f"{tenant}, another", "ada")
    heard, heard_elsewhere, last = Counter(), Counter(), threading.Event()
    stops = [
        ada.follow(heard),
        other.follow(heard_elsewhere),
        PostgresLog(shared_url, "the last", "x").follow(lambda tip: last.set()),
    ]
    assert until(lambda: heard.calls and heard_elsewhere.calls and last.is_set())
    assert until(lambda: server_listens(bob))
    before = heard.calls, heard_elsewhere.calls
    write(ada, "of ada")
    last.clear()
    write(PostgresLog(shared_url, "the last", "y"), "1")
    assert last.wait(LONGEST_WAIT_SECONDS)
    assert (heard.calls, heard_elsewhere.calls) == before
    write(bob, "of bob")
    assert until(lambda: heard.calls > before[0])
    assert heard_elsewhere.calls == before[1]
    for stop in stops:
        stop()


def test_a_follower_of_a_listener_that_runs_already_is_called_at_once(
    shared_url: str, tenant: str, no_poll: None
) -> None:
    first, second = Counter(), Counter()
    stops = [PostgresLog(shared_url, tenant, "ada").follow(first)]
    assert until(lambda: server_listens(PostgresLog(shared_url, tenant, "ada")) and first.calls)
    stops.append(PostgresLog(shared_url, tenant, "bob").follow(second))
    assert until(lambda: second.calls)
    for stop in stops:
        stop()


def test_commits_of_many_tenants_are_told_together_after_the_commits(
    shared_url: str, tenant: str, no_poll: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "REST_SECONDS", 0.5)
    logs = [PostgresLog(shared_url, f"{tenant} {number}", "ada") for number in range(20)]
    heard = [Counter() for _ in logs]
    stops = [PostgresLog(shared_url, log.tenant, "bob").follow(each) for log, each in zip(logs, heard, strict=True)]
    assert until(lambda: all(each.calls for each in heard))
    assert until(lambda: server_listens(logs[0]))
    notifier = notifying.notifier_of(shared_url)
    before, calls, commits = notifier.messages, [each.calls for each in heard], 0
    for _ in range(5):
        for log in logs:
            write(log, "of ada")
            commits += 1
    assert until(lambda: all(each.calls > call for each, call in zip(heard, calls, strict=True)))
    assert notifier.messages - before < commits / 5
    for stop in stops:
        stop()


def test_a_commit_gives_no_notice_itself(shared_url: str, tenant: str) -> None:
    """Because a notice holds a lock of the whole server until its transaction is on the disk."""
    log, sent = PostgresLog(shared_url, tenant, "ada"), list[str]()
    ask = MessageConnection.ask

    def noted(self: MessageConnection, statements: str, seconds: float) -> list[list[Row]]:
        sent.append(statements)
        return ask(self, statements, seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MessageConnection, "ask", noted)
        write(log, "1")
        assert until(lambda: any("pg_notify" in statements for statements in sent))
    told = [statements for statements in sent if "pg_notify" in statements]
    assert all("synchronous_commit = off" in statements and "ledger." not in statements for statements in told)


def test_a_commit_stands_when_its_notice_cannot_be_sent(
    shared_url: str, tenant: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log, heard = PostgresLog(shared_url, tenant, "ada"), Counter()
    stop = PostgresLog(shared_url, tenant, "bob").follow(heard)

    def fail(*_: object) -> None:
        raise LostError("the connection was cut")

    monkeypatch.setattr(notifying.Notifier, "_send", fail)
    with caplog.at_level(logging.INFO, "ledger"):
        write(log, "1")
        before = heard.calls
        assert until(lambda: heard.calls > before)
        assert until(lambda: "within a second only" in caplog.text)
    stop()


def test_the_thread_that_tells_ends_when_nobody_writes(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifying, "IDLE_SECONDS", 0.05)
    url = server.url(server.new_database())
    for text in "12":
        write(PostgresLog(url, "acme", "ada"), text)
        notifier = notifying.notifier_of(url)
        assert until(lambda: notifier._thread is None)  # noqa: B023 - called before the next turn
    assert (notifier.messages, notifier._connection) == (2, None)


def server_listens(log: PostgresLog) -> bool:
    """Return True as soon as a commit reaches a follower after its first call, when the listener's connection listens."""
    heard = threading.Event()
    stop = PostgresLog(log._url, "the first", "x").follow(lambda tip: heard.set())
    assert heard.wait(LONGEST_WAIT_SECONDS)
    heard.clear()
    write(PostgresLog(log._url, "the first", "y"), "1")
    is_heard = heard.wait(0.2)
    stop()
    return is_heard


def test_one_statement_a_second_asks_for_all_tenants(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "POLL_SECONDS", 0.05)
    url, heard = server.url(server.new_database()), [list[Tip | None]() for _ in range(40)]
    ends = [write(PostgresLog(url, f"tenant {number}", "bob"), *"123"[: number % 3 + 1]) for number in range(40)]
    logs = [PostgresLog(url, f"tenant {number}", "ada") for number in range(40)]
    stops = [log.follow(tips.append) for log, tips in zip(logs, heard, strict=True)]
    empty = PostgresLog(url, "empty", "ada").follow((of_empty := list[Tip | None]()).append)
    assert until(lambda: all(len(tips) > 4 for tips in heard))
    asked, calls = pool_of(url).messages, sum(len(tips) for tips in heard)
    assert until(lambda: sum(len(tips) for tips in heard) > calls + 400)
    assert pool_of(url).messages - asked < 30
    assert [tips[-1] for tips in heard] == ends
    assert set(of_empty) == {None}
    for stop in (*stops, empty):
        stop()


def test_the_long_call_of_one_follower_does_not_hold_up_the_news_of_another(shared_url: str, tenant: str) -> None:
    go_on, heard = threading.Event(), Counter()

    def wait(tip: Tip | None) -> None:
        go_on.wait(LONGEST_WAIT_SECONDS)

    stops = [PostgresLog(shared_url, f"{tenant} {number}", "ada").follow(wait) for number in range(5)]
    stops.append(PostgresLog(shared_url, tenant, "ada").follow(heard))
    assert until(lambda: heard.calls)
    before = heard.calls
    write(PostgresLog(shared_url, tenant, "bob"), "1")
    assert until(lambda: heard.calls > before)
    assert not go_on.is_set()
    go_on.set()
    for stop in stops:
        stop()


def test_followers_with_more_to_take_in_than_there_are_threads_take_turns(shared_url: str, tenant: str) -> None:
    counters = [Counter() for _ in range(listening.CALLERS + 3)]

    def unfinished(counter: Counter) -> OnNews:
        return lambda tip: counter(tip) or True

    stops = [
        PostgresLog(shared_url, f"{tenant} {number}", "ada").follow(unfinished(counter))
        for number, counter in enumerate(counters)
    ]
    assert until(lambda: all(counter.calls > 20 for counter in counters))
    assert max(counter.calls for counter in counters) < 4 * min(counter.calls for counter in counters)
    for stop in stops:
        stop()
    assert until(lambda: not any(thread.name == "memory-ledger follower" for thread in threading.enumerate()))


def test_an_error_of_one_follower_is_logged_and_the_others_hear_all_the_same(
    shared_url: str, tenant: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(tip: Tip | None) -> None:
        raise ZeroDivisionError

    heard = Counter()
    with caplog.at_level(logging.ERROR, "ledger"):
        stops = [PostgresLog(shared_url, tenant, "ada").follow(each) for each in (fail, heard)]
        assert until(lambda: heard.calls > 2)
        for stop in stops:
            stop()
    assert "could not follow" in caplog.text


def test_a_follower_that_was_stopped_is_called_no_more(shared_url: str, tenant: str) -> None:
    first, second = Counter(), Counter()
    stop_first = PostgresLog(shared_url, tenant, "ada").follow(first)
    stop_second = PostgresLog(shared_url, tenant, "bob").follow(second)
    assert until(lambda: first.calls)
    stop_first()
    calls = first.calls
    seen = second.calls
    assert until(lambda: second.calls > seen + 1)
    assert first.calls == calls
    stop_second()


def test_a_follower_stops_while_another_is_called(shared_url: str, tenant: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(tip: Tip | None) -> None:
        begun.set()
        go_on.wait(LONGEST_WAIT_SECONDS)

    stop_one = PostgresLog(shared_url, tenant, "ada").follow(Counter())
    stop_slow = PostgresLog(shared_url, tenant, "bob").follow(wait)
    try:
        assert begun.wait(LONGEST_WAIT_SECONDS)
        stopping = threading.Thread(target=stop_one, daemon=True)
        stopping.start()
        stopping.join(10)
        assert not stopping.is_alive()
    finally:
        go_on.set()
        stop_slow()
        stop_one()


def test_a_ledger_that_nobody_closes_is_followed_no_more_when_it_is_gone(server: Server, tmp_path: Path) -> None:
    database = server.new_database()
    count = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND query LIKE 'LISTEN%'"
    ledger = Ledger.open(tmp_path / "a.db", log=server.url(database), tenant="acme", machine="a")
    assert until(lambda: server.sql(count) == [(1,)])
    del ledger

    def nobody_listens() -> bool:
        gc.collect()  # again and again, because a thread may still call the ledger's follower
        return server.sql(count) == [(0,)]

    assert until(nobody_listens)


def test_an_error_that_nobody_foresaw_does_not_end_the_listener(
    shared_url: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, failed = Counter(), threading.Event()

    def fail(*_: object) -> None:
        failed.set()
        raise ValueError("unforeseen")

    with monkeypatch.context() as patch:
        patch.setattr(listening, "MessageConnection", fail)
        stop = PostgresLog(shared_url, tenant, "ada").follow(heard)
        assert failed.wait(LONGEST_WAIT_SECONDS)
    assert until(lambda: heard.calls > 1)
    stop()


def test_a_follower_may_stop_itself(shared_url: str, tenant: str) -> None:
    called = threading.Event()

    def stop_at_once(tip: Tip | None) -> None:
        stop()
        called.set()

    stop = PostgresLog(shared_url, tenant, "ada").follow(stop_at_once)
    assert called.wait(LONGEST_WAIT_SECONDS)
    assert until(lambda: listeners() == 0)


def test_a_listener_whose_connection_ended_listens_again(server: Server, no_poll: None) -> None:
    database = server.new_database()
    url = server.url(database)
    heard = Counter()
    stop = PostgresLog(url, "acme", "ada").follow(heard)
    bob = PostgresLog(url, "acme", "bob")
    listens = f"SELECT pid FROM pg_stat_activity WHERE datname = '{database}' AND query LIKE 'LISTEN%'"
    assert until(lambda: server.sql(listens))
    server.sql(f"SELECT pg_terminate_backend(pid) FROM ({listens})")

    def hears() -> bool:
        before = heard.calls
        write(bob, "of bob")
        time.sleep(0.05)
        return heard.calls > before

    assert until(lambda: server.sql(listens))
    assert until(hears)
    stop()
