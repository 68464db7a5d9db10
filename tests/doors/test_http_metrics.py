"""``GET /metrics``: a monitor sees what the server did, what waits, and how the file is; labels are of a small set."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra http")
pytest.importorskip("prometheus_client", reason="needs the extra http")

import asyncio
import sqlite3
from contextlib import closing

import httpx2
from http_server import served
from prometheus_client.parser import text_string_to_metric_families

from ledger import AsyncLedger, Ledger
from ledger.doors.http import make_app
from ledger.doors.tokens import TokenFile

Sample = tuple[str, tuple[tuple[str, str], ...]]


def samples(text: str) -> dict[Sample, float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Ledger.open(tmp_path / "memory.db"):
        return tmp_path / "memory.db"


def test_each_path_is_counted_by_its_status_and_timed(path: Path) -> None:
    token = TokenFile(path).make("monitor", "ada", channel="user").token
    with served(path) as server, server.client(token) as http:
        for _ in range(3):
            assert http.post("/remember", json={"content": "Ada drinks tea."}).status_code == 201
        http.post("/recall", json={"question": "tea"})
        http.get("/why", params={"id": "m_nothing"})
        answer = http.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=")
        seen = samples(answer.text)
    counted = {key[1]: value for key, value in seen.items() if key[0] == "memory_ledger_requests_total"}
    assert counted == {
        (("path", "/remember"), ("status", "201")): 3,
        (("path", "/recall"), ("status", "200")): 1,
        (("path", "/why"), ("status", "404")): 1,
    }
    assert seen["memory_ledger_request_seconds_count", (("path", "/remember"),)] == 3
    assert 0 < seen["memory_ledger_request_seconds_sum", (("path", "/recall"),)] < 60


def test_unknown_paths_and_refused_requests_are_one_label(path: Path) -> None:
    token = TokenFile(path).make("monitor", "ada").token
    with served(path) as server, server.client(token) as http:
        for number in range(5):
            http.get(f"/nothing/{number}")
        assert httpx2.get(f"{server.url}/memories/list").status_code == 401
        seen = samples(http.get("/metrics").text)
    labels = {key[1] for key in seen if key[0] == "memory_ledger_requests_total"}
    assert labels == {(("path", "other"), ("status", "404")), (("path", "other"), ("status", "401"))}
    assert seen["memory_ledger_requests_total", (("path", "other"), ("status", "404"))] == 5


def test_the_figures_are_those_of_the_whole_file(path: Path) -> None:
    token = TokenFile(path).make("monitor", "ada").token
    with Ledger.open(path) as ledger:
        for user in ("ada", "bob"):
            mine = ledger.bind(user=user)
            mine.propose(f"{user} may like tea.")
        stats = ledger.maintenance.stats()
    with served(path) as server, server.client(token) as http:
        seen = samples(http.get("/metrics").text)
    assert seen["memory_ledger_log_position", ()] == stats.position
    assert seen["memory_ledger_waiting", (("work", "review"),)] == stats.pending["review"] == 2
    assert seen["memory_ledger_waiting", (("work", "extraction"),)] == 0
    assert seen["memory_ledger_file_bytes", (("file", "ledger"),)] >= 100_000
    assert seen["memory_ledger_suspended_projections", ()] == 0
    assert seen["memory_ledger_open_streams", ()] == 0
    assert not [key for key in seen if "shared_log" in key[0]]


def test_a_suspended_projection_is_counted(path: Path) -> None:
    token = TokenFile(path).make("monitor", "ada").token
    with served(path) as server, server.client(token) as http:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE projections SET suspended_at = 1, error = 'E' WHERE name = 'sessions'")
        assert samples(http.get("/metrics").text)["memory_ledger_suspended_projections", ()] == 1


def test_metrics_need_a_token_and_are_each_servers_own(path: Path, tmp_path: Path) -> None:
    token = TokenFile(path).make("monitor", "ada").token
    headers = {"Authorization": f"Bearer {token}"}

    async def counted(app: object) -> dict[Sample, float]:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://memory") as http:
            assert (await http.get("/metrics")).status_code == 401
            return samples((await http.get("/metrics", headers=headers)).text)

    async def run() -> None:
        async with AsyncLedger.open(path) as ledger:
            first, second = (make_app(ledger, TokenFile(path)) for _ in range(2))
            await counted(first)
            again = await counted(first)
            assert again["memory_ledger_requests_total", (("path", "/metrics"), ("status", "200"))] == 1
            assert ("memory_ledger_requests_total", (("path", "/metrics"), ("status", "200"))) not in await counted(
                second
            )

    asyncio.run(run())


def test_the_lag_behind_a_shared_log_is_shown(tmp_path: Path, shared_url: str, tenant: str) -> None:
    path = tmp_path / "a.db"
    with Ledger.open(path, log=shared_url, tenant=tenant, machine="a") as ledger:
        ledger.remember("Ada likes tea.")
    headers = {"Authorization": f"Bearer {TokenFile(path).make('monitor', 'ada').token}"}

    async def run(url: str) -> dict[Sample, float]:
        async with AsyncLedger.open(path, log=shared_url, tenant=tenant, machine="a") as ledger:
            app = make_app(ledger, TokenFile(path), log_url=url)
            async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://memory") as http:
                return samples((await http.get("/metrics", headers=headers)).text)

    seen = asyncio.run(run(shared_url))
    assert seen["memory_ledger_shared_log_up", ()] == 1
    assert seen["memory_ledger_shared_log_lag_events", ()] == 0
    assert seen["memory_ledger_shared_log_behind_seconds", ()] == 0
    assert seen["memory_ledger_shared_log_waiting_erasures", ()] == 0
    away = asyncio.run(run("postgresql://nobody@127.0.0.1:1/none"))
    assert away["memory_ledger_shared_log_up", ()] == 0
    assert ("memory_ledger_shared_log_lag_events", ()) not in away
