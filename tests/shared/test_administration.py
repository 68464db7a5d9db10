"""The administration of shared logs: in the command line and in the doctor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import run
from shared_rows import write

from tools.shared.double import Machines

pytest.importorskip("psycopg", reason="the driver psycopg is not installed")

from ledger import Ledger, RejectedError, shared
from ledger.domain.errors import UnreachableError
from ledger.log.shared.postgres import PostgresLog
from tools.shared.server import Server


def answer(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_database_is_prepared_and_its_machines_are_listed_and_forgotten(server: Server) -> None:
    url = server.url(server.new_database(prepared=False))
    assert answer("shared", "prepare", "--log", url) == {"version": 1}
    log = PostgresLog(url, "acme", "ada")
    write(log, "1", "2", "3")
    log.report(1, 0)
    where = ("--log", url, "--tenant", "acme")
    (replica,) = answer("shared", "replicas", *where)
    assert {name: replica[name] for name in ("machine", "position", "lag", "erasures_pending")} == {
        "machine": "ada",
        "position": 1,
        "lag": 2,
        "erasures_pending": 0,
    }
    assert answer("shared", "forget", "ada", "--reason", "it was replaced", *where) == {"forgotten": "ada"}
    assert answer("shared", "replicas", *where) == []
    assert run("shared", "forget", "ada", "--reason", "it was replaced", *where).exit_code == 3


def test_a_host_that_cannot_be_one_is_a_server_that_cannot_be_reached(tmp_path: Path) -> None:
    url = "postgresql://app@ledger..example/x"
    for call in (
        lambda: shared.prepare(url),
        lambda: shared.replicas(url, "acme"),
        lambda: Ledger.open(tmp_path / "a.db", log=url, tenant="acme"),
    ):
        with pytest.raises(UnreachableError, match="cannot be reached"):
            call()


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
def test_a_text_that_postgresql_cannot_keep_is_rejected(shared_url: str, tenant: str, text: str) -> None:
    with pytest.raises(RejectedError):
        shared.forget(shared_url, tenant, text, reason="it was replaced")
    with pytest.raises(RejectedError):
        shared.forget(shared_url, tenant, "ada", reason=text)
    with pytest.raises(RejectedError):
        shared.prepare(shared_url, role=text)


def test_a_ledger_is_shared_and_comes_back_after_the_log_lost_its_end(server: Server, tmp_path: Path) -> None:
    database = server.new_database()
    url, path = server.url(database), tmp_path / "memory.db"
    with Ledger.open(path, user="ada") as ledger:
        ledger.remember("Ada likes green tea")
        end = ledger.position
    where = ("--log", url, "--tenant", "acme", "--db", str(path))
    assert answer("shared", "share", "ada", *where) == {"position": end}
    with Ledger.open(path, user="ada", log=url, tenant="acme", machine="ada") as ledger:
        ledger.remember("Ada plays the cello")
    lose_end(server, database)
    report = answer("shared", "rejoin", *where)
    assert (report["common"], report["position"], len(report["lost"])) == (end, end, 1)
    with Ledger.open(path, user="ada", log=url, tenant="acme", machine="ada") as ledger:
        assert [memory.content for memory in ledger.memories.list()] == ["Ada likes green tea"]


def lose_end(server: Server, database: str) -> None:
    """Take the last event out of every log, as a failover to a standby does that lacked it."""
    server.sql(
        "SET session_replication_role = replica; DELETE FROM ledger.events AS e USING ledger.logs AS l"
        " WHERE e.tenant = l.tenant AND e.position = l.position; UPDATE ledger.logs AS l SET (position, head) ="
        " (SELECT position, head FROM ledger.events WHERE tenant = l.tenant ORDER BY position DESC LIMIT 1)",
        database=database,
    )


def test_the_log_and_the_tenant_may_come_from_the_environment(shared_url: str, tenant: str) -> None:
    environment = {"LEDGER_LOG_URL": shared_url, "LEDGER_LOG_TENANT": tenant}
    assert run("shared", "replicas", environment=environment).exit_code == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("replicas",), "--log"),
        (("replicas", "--log", "postgresql://x/y"), "--tenant"),
        (("forget", "--log", "postgresql://x/y", "--tenant", "acme"), "--reason"),
    ],
)
def test_what_is_missing_is_asked_for(words: tuple[str, ...], why: str) -> None:
    result = run("shared", *words)
    assert result.exit_code == 2
    assert why in result.stderr


@pytest.mark.parametrize("action", ["prepare", "share", "rejoin", "replicas", "forget"])
def test_an_address_of_another_database_is_refused_before_what_is_missing(action: str) -> None:
    refused = run("shared", action, "--log", "mysql://x/y")
    assert refused.exit_code == 4 and "a shared log is a database of PostgreSQL" in refused.stderr


def test_a_log_that_cannot_be_reached_is_named() -> None:
    result = run("shared", "prepare", "--log", "postgresql://x@/y?host=/nowhere")
    assert result.exit_code == 4
    assert "cannot be reached" in result.stderr


# --- the doctor ------------------------------------------------------------------------------------------------------


def told(report: Any) -> list[tuple[str, str]]:
    return [(finding.level, finding.found) for finding in report.findings if finding.what == "shared log"]


def test_the_doctor_names_the_log_that_a_file_follows(machines: Machines) -> None:
    machines.open("a").remember("Ada likes green tea")
    (finding,) = told(Ledger.doctor(machines.path("a")))
    name = "this file is the copy of the machine 'a' of the log of 'acme'"
    assert finding == ("ok", f"{name}, purged of all erasures that it knows")


def test_the_doctor_names_an_erasure_of_which_a_file_is_not_purged(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = machines.open("a"), machines.open("b")
    memory = a.remember("Ada likes green tea")
    machines.news()
    a.erase(memory.id, reason="she asked")
    with monkeypatch.context() as patch:
        patch.setattr("ledger.erasure.replicas.settle", lambda engine: False)
        machines.news("b")
    (level, text), *_ = told(b.maintenance.doctor())
    assert (level, "may hold texts of 1 erasure" in text) == ("warning", True)


def test_the_doctor_names_machines_that_are_away(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = machines.open("a"), machines.open("b")
    machines.news()
    b.close()
    a.remember("Ada likes green tea")
    machines.news("a")
    assert ("ok", "2 machines follow it") in told(a.maintenance.doctor())
    monkeypatch.setattr("ledger.shared.health.AWAY_MINUTES", -1.0)
    levels = [text for level, text in told(a.maintenance.doctor()) if level == "warning"]
    assert len(levels) == 1
    assert levels[0].startswith("the machine 'b' last reported at")


def test_the_doctor_says_that_the_log_cannot_be_reached(machines: Machines) -> None:
    a = machines.open("a")
    machines.server.is_away = True
    report = a.maintenance.doctor()
    assert report.ok
    assert ("warning", "the shared log cannot be reached") in told(report)


def test_a_file_with_a_log_of_its_own_says_nothing_of_a_shared_one(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "a.db") as ledger:
        assert told(ledger.maintenance.doctor()) == []
