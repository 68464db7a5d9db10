"""The administration of shared logs: in the command line and in the doctor."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import probe
import pytest
from command_line import run
from shared_rows import write

from tools.shared.double import Machines

pytest.importorskip("psycopg", reason="the driver psycopg is not installed")

from ledger import Ledger, RejectedError, shared
from ledger.domain.errors import NotFoundError, StorageError, UnreachableError
from ledger.log.shared.postgres import PostgresLog
from ledger.log.shared.schema import FORMAT
from tools.shared.server import Server


def answer(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_database_is_prepared_and_its_machines_are_listed_and_forgotten(server: Server) -> None:
    url = server.url(server.new_database(prepared=False))
    assert answer("shared", "prepare", "--log", url) == {"version": FORMAT}
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


@pytest.mark.parametrize("action", ["prepare", "share", "rejoin", "replicas", "check", "forget"])
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


def test_the_doctor_names_the_log_that_a_file_follows_and_says_that_it_was_not_asked(machines: Machines) -> None:
    machines.open("a").remember("Ada likes green tea")
    of_file, of_log = told(Ledger.doctor(machines.path("a")))
    name = "this file is the copy of the machine 'a' of the log of 'acme'"
    assert of_file == ("ok", f"{name}, purged of all erasures that it knows")
    assert of_log == ("warning", "the shared log was not asked, because its address is not known here")


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


def test_the_doctor_names_machines_that_are_away(machines: Machines) -> None:
    a, b = machines.open("a"), machines.open("b")
    machines.news()
    b.close()
    a.remember("Ada likes green tea")
    machines.news("a")
    assert ("ok", "2 machines follow it; this file lags by 0") in told(a.maintenance.doctor())
    machines.server.silent_seconds = 3 * 3600
    levels = [text for level, text in told(a.maintenance.doctor()) if level == "warning"]
    assert len(levels) == 1
    assert levels[0].startswith("the machine 'b' last reported at")


def test_the_doctor_says_that_the_log_cannot_be_reached(machines: Machines) -> None:
    a = machines.open("a")
    reader = Ledger.open(machines.path("a"), readonly=True, log=machines.log_of("a"))
    machines.server.is_away = True
    for report in (a.maintenance.doctor(), reader.maintenance.doctor()):
        assert not report.ok
        assert ("problem", "the shared log cannot be reached") in told(report)
    reader.close()


def test_the_doctor_says_that_a_machine_has_not_followed_for_long(machines: Machines) -> None:
    a, b = machines.open("a"), machines.open("b")
    machines.news()
    a.remember("Ada likes green tea")
    assert b.maintenance.doctor().ok
    machines.server.silent_seconds = 3 * 3600
    assert a.maintenance.doctor().ok
    report = b.maintenance.doctor()
    assert not report.ok
    assert any(text.startswith("this machine lacks 1 events") for level, text in told(report) if level == "problem")


def test_the_doctor_says_that_a_file_has_events_that_the_log_has_not(machines: Machines) -> None:
    a, b = machines.open("a"), machines.open("b")
    a.remember("Ada likes green tea")
    machines.news()
    machines.server.lose_end(1)
    for ledger in (a, b):
        report = ledger.maintenance.doctor()
        assert not report.ok
        assert any("the shared log was set back" in text for level, text in told(report) if level == "problem")


def test_the_doctor_tells_an_error_of_the_follower_that_the_log_itself_does_not_show(machines: Machines) -> None:
    a = machines.open("a")
    probe.inside(a).sharing.failure = StorageError("the shared log is damaged: the event at position 7")
    report = a.maintenance.doctor()
    assert not report.ok
    text = "this ledger cannot follow the shared log: the shared log is damaged: the event at position 7"
    assert told(report)[-1] == ("problem", text)


def test_a_file_with_a_log_of_its_own_says_nothing_of_a_shared_one(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "a.db") as ledger:
        assert told(ledger.maintenance.doctor()) == []


def test_a_lasting_error_of_the_follower_is_logged_again_and_its_end_too(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machines.open("a")
    machines.server.is_away = True
    with caplog.at_level(logging.WARNING, "ledger"):
        machines.news("a")
        machines.news("a")
        assert caplog.text.count("cannot follow the shared log (UnreachableError") == 1
        monkeypatch.setattr("ledger.shared.sharing.WARN_SECONDS", -1.0)
        machines.news("a")
        assert caplog.text.count("cannot follow the shared log (UnreachableError") == 2
        machines.server.is_away = False
        machines.news("a")
    assert "follows the shared log again" in caplog.text


# --- a shell and a probe ---------------------------------------------------------------------------------------------


def checked(*words: str, code: int) -> dict[str, Any]:
    result = run("shared", "check", *words, "--json")
    assert result.exit_code == code, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def test_a_probe_hears_by_an_exit_code_whether_a_file_follows_the_log(server: Server, tmp_path: Path) -> None:
    database = server.new_database()
    url, path = server.url(database), tmp_path / "b.db"
    where = ("--db", str(path), "--log", url)
    with Ledger.open(path, user="ada", log=url, tenant="acme", machine="b") as ledger:
        ledger.remember("Ada likes green tea")
        end = ledger.position
    report = checked(*where, code=0)
    assert (report["position"], report["end"], report["behind_seconds"]) == (end, end, 0)
    with Ledger.open(tmp_path / "a.db", user="ada", log=url, tenant="acme", machine="a") as other:
        other.remember("Ada plays the cello")
    assert checked(*where, code=0)["end"] == end + 1
    server.sql("UPDATE ledger.replicas SET seen = seen - interval '3 hours' WHERE machine LIKE 'b%'", database=database)
    report = checked(*where, code=1)
    assert (report["end"], report["error"]) == (end + 1, "") and report["behind_seconds"] > 3 * 3600
    assert checked(*where, "--max-behind", "86400", code=0)["ok"]
    words = ("doctor", "--db", str(path))
    asked, unasked = run(*words, environment={"LEDGER_LOG_URL": url, "LEDGER_LOG_TENANT": "acme"}), run(*words)
    assert (asked.exit_code, unasked.exit_code) == (1, 0)
    assert "this machine lacks 1 events" in " ".join(asked.stdout.split())
    assert "nothing is wrong" not in unasked.stdout
    away = ("--db", str(path), "--log", "postgresql://app@127.0.0.1:1/x")
    assert checked(*away, code=1)["error"] == "UnreachableError"


def test_a_probe_hears_that_a_file_has_events_that_the_log_has_not(server: Server, tmp_path: Path) -> None:
    database = server.new_database()
    url, path = server.url(database), tmp_path / "b.db"
    with Ledger.open(path, user="ada", log=url, tenant="acme", machine="b") as ledger:
        ledger.remember("Ada likes green tea")
    lose_end(server, database)
    report = checked("--db", str(path), "--log", url, code=1)
    assert (report["error"], report["end"]) == ("DivergedError", None)


def test_a_probe_of_what_is_no_machines_file_is_refused(tmp_path: Path) -> None:
    url = "postgresql://app@127.0.0.1:1/x"
    with pytest.raises(NotFoundError):
        shared.check(tmp_path / "none.db", url)
    Ledger.open(tmp_path / "own.db").close()
    with pytest.raises(RejectedError, match="follows no shared log"):
        shared.check(tmp_path / "own.db", url)
    with pytest.raises(RejectedError, match="address of the shared log is not known"):
        shared.check(tmp_path / "own.db")
