"""HTTP: a path answers as the command with ``--json``, a token names the user, and no request gets a 500."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import needs
import pytest

pytest.importorskip("fastapi", reason="needs the extra http")
pytest.importorskip("uvicorn", reason="needs the extra http")

import httpx2
from absence import without
from command_line import run
from door_story import told_changed_asked_and_undone
from http_server import sent_events, served
from places import ROOT
from starlette.requests import Request
from threads import together

from ledger import (
    BusyError,
    Ledger,
    LedgerError,
    NewerFormatError,
    StorageError,
    SuspendedError,
    __version__,
)
from ledger.doors.gate import BODY_BYTES
from ledger.doors.http.refusing import of_ledger
from ledger.doors.http.serving import Server
from ledger.doors.pytest_plugin import Clock
from ledger.doors.tokens import TokenFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Ledger.open(tmp_path / "memory.db"):
        return tmp_path / "memory.db"


@pytest.fixture
def tokens(path: Path) -> TokenFile:
    return TokenFile(path)


def test_an_answer_is_what_the_command_prints_with_json(path: Path, tokens: TokenFile) -> None:
    token = tokens.make("app", "ada", channel="user").token
    with served(path) as server, server.client(token) as http:
        said = {"messages": [{"role": "user", "content": "I live in Lisbon."}], "session": "monday"}
        assert http.post("/add", json=said).status_code == 201
        made = http.post("/remember", json={"content": "Ada drinks green tea.", "kind": "preference"}).json()
        asked = {
            ("memories", "list"): http.get("/memories/list"),
            ("memories", "get", made["id"]): http.get("/memories/get", params={"id": made["id"]}),
            ("why", made["id"]): http.get("/why", params={"id": made["id"]}),
            ("review",): http.get("/review"),
            ("conflicts", "list"): http.get("/conflicts/list"),
            ("observations", "list"): http.get("/observations/list"),
            ("interactions", "list"): http.get("/interactions/list"),
            ("documents", "list"): http.get("/documents/list"),
            ("projects", "list"): http.get("/projects/list"),
            ("sessions", "list"): http.get("/sessions/list"),
            ("session", "messages", "monday"): http.get("/session/messages", params={"name": "monday"}),
            ("history", "events", made["id"]): http.get("/history/events", params={"id": made["id"]}),
            ("history", "audit"): http.get("/history/audit"),
            ("recall", "tea"): http.post("/recall", json={"question": "tea"}),
            ("context", "tea"): http.post("/context", json={"question": "tea"}),
        }
        for words, response in asked.items():
            printed = run(*words, "--json", "--user", "ada", db=path)
            assert response.status_code == 200, (words, response.text)
            assert response.json() == json.loads(printed.stdout), words
        then = http.post("/recall", json={"question": "tea", "as_of": str(made["position"] - 1)}).json()
        assert then["items"] == [] and asked["recall", "tea"].json()["items"]


def test_a_token_reaches_its_users_memory_and_no_other(path: Path, tokens: TokenFile) -> None:
    ada, ben = tokens.make("laptop", "ada").token, tokens.make("phone", "ben").token
    with served(path) as server, server.client(ada) as http, server.client(ben) as stranger:
        id = http.post("/remember", json={"content": "Ada drinks green tea."}).json()["id"]
        for place in ("/why", "/memories/get", "/history/events"):
            assert http.get(place, params={"id": id}).status_code == 200
            refused = stranger.get(place, params={"id": id})
            assert refused.status_code == 404 and refused.json()["error"] == "NotFoundError"
        for place in ("/memories/list", "/history/audit", "/review"):
            assert stranger.get(place).json()["items"] == []
        assert stranger.post("/recall", json={"question": "tea"}).json()["items"] == []
        stolen = stranger.get("/memories/list", params={"user": "ada"})
        assert stolen.status_code == 422
        for name in ("user", "channel", "client", "actor"):
            assert stranger.post("/remember", json={"content": "x", name: "user"}).status_code == 422


def test_without_a_token_or_with_a_revoked_token_nothing_is_answered(path: Path, tokens: TokenFile) -> None:
    token = tokens.make("laptop", "ada").token
    with served(path) as server, httpx2.Client(base_url=server.url) as http:
        paths = http.get("/openapi.json").json()["paths"]
        assert http.get("/openapi.json").json()["paths"] == paths
        assert http.get("/health").json() == {"version": __version__, "writable": True, "up": True}
        for place, operations in paths.items():
            for method in operations if place != "/health" else ():
                for headers in ({}, {"authorization": "Basic YWRh"}, {"authorization": "Bearer mlt_guessed"}):
                    refused = http.request(method, place, headers=headers, params={"id": "m_x", "name": "x"}, json={})
                    assert refused.status_code == 401 and refused.headers["www-authenticate"] == "Bearer"
        held = {"authorization": f"Bearer {token}"}
        assert http.get("/memories/list", headers=held).status_code == 200
        tokens.revoke("laptop")
        assert http.get("/memories/list", headers=held).status_code == 401


def test_a_request_that_means_another_host_or_comes_from_a_page_is_refused(path: Path, tokens: TokenFile) -> None:
    token = tokens.make("laptop", "ada").token
    with served(path) as server, server.client(token) as http:
        port = server.url.rpartition(":")[2]
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1:1", "127.0.0.1.evil.example:80"):
            assert http.get("/memories/list", headers={"host": host}).status_code == 421, host
        for origin in ("http://evil.example", "null", "http://localhost:1", "http://localhost.evil.example"):
            assert http.get("/memories/list", headers={"origin": origin}).status_code == 403, origin
        assert http.get("/memories/list", headers={"origin": f"http://localhost:{port}"}).status_code == 200
        assert http.get("/docs").status_code == 404


def test_a_token_for_an_agent_gives_no_user_words_and_one_for_an_app_does(path: Path, tokens: TokenFile) -> None:
    agent, app = tokens.make("agent", "ada").token, tokens.make("app", "ben", channel="user").token
    said = {"messages": [{"role": "user", "content": "I live in Lisbon."}]}
    with served(path) as server, server.client(agent) as by_agent, server.client(app) as by_app:
        added = by_agent.post("/add", json=said).json()
        assert not added["learned"] and len(added["proposed"]) == 1
        added = by_app.post("/add", json=said).json()
        assert len(added["learned"]) == 1 and not added["proposed"]
        fact = {"content": "The tests need Docker.", "confidence": 1.0}
        assert by_agent.post("/remember", json=fact).json()["confidence"] == 0.6
        assert by_app.post("/remember", json=fact).json()["confidence"] == 1.0
        entries = by_agent.get("/history/audit", params={"type": "MemoryCaptured"}).json()["items"]
        assert {(entry["client"], entry["channel"]) for entry in entries if entry["command"] == "remember"} == {
            ("http/agent", "agent")
        }


def test_a_token_for_an_agent_has_its_cap_also_where_all_that_is_found_waits(path: Path, tokens: TokenFile) -> None:
    with Ledger.open(path, user="ada") as ledger:
        ledger.policy.set(admit="review")
    agent, app = tokens.make("agent", "ada").token, tokens.make("app", "ada", channel="user").token
    with served(path) as server, server.client(agent) as by_agent, server.client(app) as by_app:
        assert by_agent.post("/remember", json={"content": "Ada drinks tea."}).json()["confidence"] == 0.6
        assert by_app.post("/remember", json={"content": "Ada drinks milk."}).json()["confidence"] == 1.0


def test_a_key_makes_a_repeated_request_one_memory(path: Path, tokens: TokenFile) -> None:
    token = tokens.make("app", "ada").token
    with served(path) as server, server.client(token, **{"Idempotency-Key": "1"}) as http:
        answers = [http.post("/remember", json={"content": "Ada drinks green tea."}).json() for _ in range(2)]
        assert answers[0]["id"] == answers[1]["id"] and [answer["replayed"] for answer in answers] == [False, True]
        reused = http.post("/remember", json={"content": "Ada drinks coffee."})
        assert (reused.status_code, reused.json()["error"]) == (422, "KeyReusedError")


BAD: list[tuple[str, str, dict[str, Any], int]] = [
    ("GET", "/nowhere", {}, 404),
    ("DELETE", "/memories/list", {}, 405),
    ("GET", "/memories/list", {"params": {"after": "nonsense"}}, 422),
    ("GET", "/memories/list", {"params": {"limit": "1001"}}, 422),
    ("GET", "/memories/list", {"params": {"limit": "9" * 400}}, 422),
    ("GET", "/memories/list", {"params": {"as_of": "9" * 400}}, 422),
    ("GET", "/memories/list", {"params": {"as_of": "\x00"}}, 422),
    ("GET", "/memories/list", {"params": {"min_confidence": "nan"}}, 422),
    ("GET", "/memories/list", {"params": {"statuses": "nonsense"}}, 422),
    ("GET", "/memories/get", {"params": {"id": ""}}, 404),
    ("GET", "/memories/get", {"params": {"id": "m_\x00"}}, 404),
    ("GET", "/why", {}, 422),
    ("GET", "/history/audit", {"params": {"type": "Nonsense"}}, 422),
    ("GET", "/history/audit", {"params": {"since": "yesterday-ish"}}, 422),
    ("GET", "/history/follow", {"params": {"types": "Nonsense"}}, 422),
    ("GET", "/history/follow", {"params": {"after": -1}}, 422),
    ("GET", "/history/follow", {"headers": {"Last-Event-ID": "x"}}, 422),
    ("POST", "/remember", {"content": b"{"}, 422),
    ("POST", "/remember", {"content": b"\xff\xfe"}, 422),
    ("POST", "/remember", {"content": b'{"content": "\\ud800"}'}, 422),
    ("POST", "/remember", {"content": b'{"content": "x", "confidence": NaN}'}, 422),
    ("POST", "/remember", {"content": b'{"content": "x", "confidence": ' + b"9" * 5_000 + b"}"}, 422),
    ("POST", "/remember", {"content": b"[" * 100_000}, 422),
    ("POST", "/remember", {"json": {"content": ""}}, 422),
    ("POST", "/remember", {"json": {"content": "x", "valid_from": "\x00"}}, 422),
    ("POST", "/remember", {"json": {"content": "x", "metadata": {"a": {"b": 1}}}}, 422),
    ("POST", "/remember", {"json": {"content": "x", "metadata": {"a": 10**30}}}, 422),
    ("POST", "/add", {"json": {"messages": []}}, 422),
    ("POST", "/add", {"json": {"messages": [{"role": "system", "content": "x"}]}}, 422),
    ("POST", "/context", {"json": {"question": "x" * 10_001}}, 422),
    ("POST", "/context", {"json": {"question": "x", "budget": "9"}}, 422),
    ("POST", "/recall", {"json": {"question": "x", "budget": True}}, 422),
    ("POST", "/recall", {"json": {"question": "x", "limit": True}}, 422),
    ("POST", "/remember", {"json": {"content": "x", "confidence": True}}, 422),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("http") / "memory.db"
    token = TokenFile(path).make("app", "ada").token
    with served(path) as server, server.client(token) as http:
        yield http


@pytest.mark.parametrize(("method", "place", "options", "status"), BAD, ids=lambda value: str(value)[:40])
def test_a_wrong_request_is_refused_with_its_reason(
    shared: httpx2.Client, method: str, place: str, options: dict[str, Any], status: int
) -> None:
    refused = shared.request(method, place, **{"headers": {"content-type": "application/json"}} | options)
    assert refused.status_code in ((status, 400) if "content" in options else (status,)), refused.text
    assert {"error", "message"} <= refused.json().keys() and refused.json()["message"]


def test_a_slash_too_many_and_a_wrong_method_are_refused_as_json(shared: httpx2.Client) -> None:
    refused = shared.post("/recall/", json={"question": "tea"})
    assert (refused.status_code, refused.json()["error"]) == (404, "NotFound")
    refused = shared.delete("/memories/list")
    assert refused.status_code == 405 and refused.json()["message"] == "this path takes GET"


def test_a_body_that_is_too_large_is_refused_before_it_is_read(shared: httpx2.Client) -> None:
    """The answer says that the connection ends, so that a client sends its next request on another one."""
    head, piece = b'{"content": "', b"x" * 65_536
    for body in (head + b"x" * BODY_BYTES, (head, *[piece] * (BODY_BYTES // len(piece) + 1))) * 3:
        content = body if isinstance(body, bytes) else iter(body)
        refused = shared.post("/remember", content=content, headers={"content-type": "application/json"})
        assert refused.status_code == 413 and refused.json()["error"] == "TooLarge"
        assert refused.headers["connection"] == "close"


def test_a_refusal_repeats_no_text_of_the_request(shared: httpx2.Client) -> None:
    refused = shared.post("/remember", json={"content": "x", "confidence": "my-private-text", "no-such": 1})
    assert refused.status_code == 422 and "my-private-text" not in refused.text


def test_a_read_only_server_offers_nothing_that_writes(path: Path, tokens: TokenFile) -> None:
    token = tokens.make("app", "ada").token
    with served(path, read_only=True) as server, server.client(token) as http:
        assert http.post("/remember", json={"content": "x"}).status_code == 404
        assert "/add" not in http.get("/openapi.json").json()["paths"]
        assert http.get("/memories/list").status_code == 200


@needs.modes
def test_tokens_that_cannot_be_read_open_nothing_and_the_answer_names_no_file(path: Path, tokens: TokenFile) -> None:
    token = tokens.make("app", "ada").token
    Path(tokens.path).chmod(0o644)
    with served(path) as server, server.client(token) as http:
        refused = http.get("/memories/list")
        assert refused.status_code == 503 and str(path.parent) not in refused.text


def test_an_answer_has_the_text_for_the_prompt_as_the_command_prints_it(path: Path, tokens: TokenFile) -> None:
    token = tokens.make("app", "ada", channel="user").token
    with served(path) as server, server.client(token) as http:
        http.post("/remember", json={"content": "Ada drinks ```tea```.", "valid_from": "2026-03-02"})
        for place, words in (("/context", {"question": "tea"}), ("/recall", {"question": "tea"})):
            text = http.post(place, json=words).json()["text"]
            assert text == run(place[1:], "tea", "--prompt", "--user", "ada", db=path).stdout.rstrip("\n")
            assert text.startswith("````memory\n- 2 Mar 2026: Ada drinks ```tea```.")


LIKING = "Ada prefers green tea to black coffee."


def test_a_turn_is_captured_read_and_counted_once(path: Path, tokens: TokenFile) -> None:
    app, agent = tokens.make("app", "ada", channel="user").token, tokens.make("agent", "ada").token
    turn = {"prompt": "Where does it run?", "response": LIKING, "session": "monday"}
    with served(path) as server, server.client(app) as http, server.client(agent) as by_agent:
        fact = http.post("/remember", json={"content": LIKING, "kind": "preference", "confidence": 0.5}).json()
        assert by_agent.post("/capture", json=turn).json()["reinforcement"] == "off"
        kept = http.post("/capture", json=turn)
        assert (kept.status_code, kept.json()["reinforcement"]) == (201, "done")
        assert http.get("/interactions/get", params={"id": kept.json()["id"]}).json()["response"] == turn["response"]
        again = http.post("/interactions/reinforce", json={"id": kept.json()["id"]}).json()
        assert (again["replayed"], [id for id, _, _ in again["reinforced"]]) == (True, [fact["id"]])
        refused = by_agent.post("/interactions/reinforce", json={"id": kept.json()["id"]})
        assert (refused.status_code, refused.json()["error"]) == (403, "NotAllowed")
        supported = http.post("/reinforce", json={"id": fact["id"], "amount": 0.1}).json()
        assert supported["confidence"] == pytest.approx(0.62)
        assert by_agent.post("/reinforce", json={"id": fact["id"], "amount": 0.3}).json()["confidence"] == (
            pytest.approx(0.62)
        )


@pytest.mark.parametrize(("verb", "status"), [("promote", "active"), ("reject", "invalid")])
def test_only_a_token_that_brings_the_users_words_decides(
    path: Path, tokens: TokenFile, verb: str, status: str
) -> None:
    app, agent = tokens.make("app", "ada", channel="user").token, tokens.make("agent", "ada").token
    said = {"messages": [{"role": "user", "content": "I live in Lisbon."}]}
    with served(path) as server, server.client(app) as http, server.client(agent) as by_agent:
        id = by_agent.post("/add", json=said).json()["proposed"][0]["id"]
        refused = by_agent.post(f"/{verb}", json={"id": id})
        assert refused.status_code == 403 and "--channel user" in refused.json()["message"]
        assert http.post(f"/{verb}", json={"id": id, "reason": "she said so"}).json()["status"] == status
        assert http.post("/reject", json={"id": "m_nothing"}).status_code == 404


def test_a_client_takes_back_its_own_command_and_no_other(path: Path, tokens: TokenFile) -> None:
    app, other = (tokens.make(name, "ada", channel="user").token for name in ("app", "other"))
    with served(path) as server, server.client(app) as http, server.client(other) as stranger:
        fact = http.post("/remember", json={"content": LIKING, "kind": "preference", "confidence": 0.5}).json()
        turn = {"prompt": "And?", "response": LIKING}
        captured = http.post("/capture", json=turn).json()
        first = http.get("/history/events", params={"id": captured["id"]}).json()["items"][0]["position"]
        refused = stranger.post("/undo", json={"target": first, "cascade": True})
        assert refused.status_code == 422 and refused.json()["rule"] == "own_command"
        blocked = http.post("/undo", json={"target": first})
        assert (blocked.status_code, blocked.json()["error"]) == (409, "DependentsError")
        keyed, undo = {"Idempotency-Key": "u1"}, {"target": first, "cascade": True, "reason": "a test"}
        undone = http.post("/undo", json=undo, headers=keyed)
        assert undone.status_code == 200 and undone.json()["events"] >= 2
        assert http.post("/undo", json=undo, headers=keyed).json()["replayed"] is True
        assert http.get("/memories/get", params={"id": fact["id"]}).json()["confidence"] == 0.5
        with Ledger.open(path, user="ada") as person:
            rum = person.remember("Ada drinks rum.")
        refused = http.post("/undo", json={"target": rum.position})
        assert refused.status_code == 422 and "came through no client" in refused.json()["message"]


@needs.open_files_that_move
def test_the_health_of_a_server_tells_if_its_ledger_can_be_written(path: Path) -> None:
    with served(path) as server, httpx2.Client(base_url=server.url) as http:
        assert http.get("/health").json()["writable"] is True
        path.rename(path.with_name("moved.db"))
        end = time.monotonic() + 20
        while http.get("/health").json()["writable"] and time.monotonic() < end:
            time.sleep(0.2)
        assert http.get("/health").json() == {"version": __version__, "writable": False, "up": True}
        path.with_name("moved.db").rename(path)


def test_the_health_of_a_read_only_server_says_that_nothing_is_written(path: Path) -> None:
    with served(path, read_only=True) as server, httpx2.Client(base_url=server.url) as http:
        assert http.get("/health").json()["writable"] is False


@needs.open_files_that_move
def test_a_file_that_is_moved_away_is_503_without_a_path_and_the_log_of_the_server_names_it(
    path: Path, tokens: TokenFile
) -> None:
    headers = {"Authorization": f"Bearer {tokens.make('app', 'ada').token}"}
    with process(path) as (url, server):
        path.rename(path.with_name("moved.db"))
        refused = httpx2.post(f"{url}/remember", json={"content": "Ada drinks tea."}, headers=headers, timeout=30)
        assert refused.status_code == 503 and refused.json()["error"] == "StorageError"
        assert str(path.parent) not in refused.text and "memory.db" not in refused.text
        assert "its log says why" in refused.json()["message"]
        path.with_name("moved.db").rename(path)
        server.terminate()
        assert server.stderr is not None
        log = server.stderr.read().decode()
    assert "listening on http://127.0.0.1" in log and "drinks tea" not in log
    assert f"POST /remember: StorageError: {path} was renamed" in log


def test_a_server_that_cannot_listen_does_not_say_that_it_listens(path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        words = [sys.executable, "-m", "ledger", "serve", place, "--db", str(path)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (
        done.returncode != 0
        and re.search("address (already|is) in use", done.stderr)
        and "listening on" not in done.stderr
    )


@pytest.fixture
def ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server end as soon as it would listen."""

    async def serve(server: Server, sockets: object) -> None:
        assert server._ready is not None
        server._ready()

    monkeypatch.setattr(Server, "serve", serve)


@pytest.mark.parametrize("words", [["serve"], ["serve", "--quiet"]], ids=" ".join)
@pytest.mark.usefixtures("ended_at_once")
def test_a_server_without_a_ledger_makes_one_and_says_where(words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    line = f"memory-ledger: there was no ledger at {path}: a new one was made"
    assert run(*words, db=path).stderr.splitlines()[:1] == ([line] if "--quiet" not in words else [])
    assert path.exists()
    assert line not in run(*words, db=path).stderr


def test_a_server_that_only_reads_makes_no_ledger(tmp_path: Path) -> None:
    path = tmp_path / "typo.db"
    refused = run("serve", "--read-only", db=path)
    assert refused.exit_code == 3 and f"there is no ledger at {path}" in refused.stderr and not path.exists()


def test_a_body_without_its_content_type_is_refused_with_the_header_to_send(shared: httpx2.Client) -> None:
    refused = shared.post("/remember", content='{"content": "Ada drinks tea."}')
    assert refused.status_code == 422 and "Content-Type: application/json" in refused.json()["message"]


@pytest.mark.parametrize(
    "error",
    [
        BusyError("another process kept /srv/ada/memory.db.lock locked for longer than 5 seconds"),
        StorageError("/srv/ada/memory.db cannot be written: disk full"),
        NewerFormatError("/srv/ada/memory.db has format 9 of a newer version"),
        SuspendedError("the projection 'memories' is suspended: its fold raised in /srv/ada", projection="memories"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_answer_names_a_file_of_the_server(error: LedgerError) -> None:
    request = Request({"type": "http", "method": "POST", "path": "/add", "query_string": b"", "headers": []})
    refused = asyncio.run(of_ledger(request, error))
    assert refused.status_code == 503 and b"/srv" not in refused.body
    assert ("Retry-After" in refused.headers) is isinstance(error, BusyError)


# --- the stream of events --------------------------------------------------------------------------------------------


def test_the_events_of_a_user_come_as_they_are_committed_and_of_nobody_else(path: Path, tokens: TokenFile) -> None:
    ada, ben = tokens.make("laptop", "ada").token, tokens.make("phone", "ben").token
    with (
        served(path) as server,
        server.client(ada) as http,
        server.client(ben) as stranger,
        http.stream("GET", "/history/follow") as response,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        events = sent_events(response)
        stranger.post("/remember", json={"content": "Ben's secret garden."})
        made = http.post("/remember", json={"content": "Ada drinks green tea."}).json()
        event = next(events)
        assert (event.id, event.event) == (made["position"], "MemoryCaptured")
        assert event.data["data"]["content"] == "Ada drinks green tea." and event.data["user"] == "ada"


def test_a_client_that_comes_back_gets_what_it_missed_once(path: Path, tokens: TokenFile) -> None:
    token = tokens.make("laptop", "ada").token
    with served(path) as server, server.client(token) as http:
        made = [http.post("/remember", json={"content": f"Fact number {n}."}).json() for n in range(4)]
        positions = [memory["position"] for memory in made]
        with http.stream("GET", "/history/follow", params={"after": 0}) as response:
            events = sent_events(response)
            assert [next(events).id for _ in range(2)] == positions[:2]
        back = {"Last-Event-ID": str(positions[1])}
        with http.stream("GET", "/history/follow", params={"after": 0}, headers=back) as response:
            events = sent_events(response)
            assert [next(events).id for _ in range(2)] == positions[2:]


def test_a_quiet_stream_sends_the_place_it_has_reached(path: Path, tokens: TokenFile) -> None:
    ada, ben = tokens.make("laptop", "ada").token, tokens.make("phone", "ben").token
    with (
        served(path, pulse=0.2) as server,
        server.client(ada) as http,
        server.client(ben) as stranger,
        http.stream("GET", "/history/follow") as response,
    ):
        position = stranger.post("/remember", json={"content": "Ben's secret garden."}).json()["position"]
        assert next(sent_events(response)) == (position, "", None)


def test_a_revoked_token_ends_its_stream_before_the_next_event(path: Path, tokens: TokenFile) -> None:
    ada, other = tokens.make("laptop", "ada").token, tokens.make("phone", "ada").token
    with (
        served(path) as server,
        server.client(ada) as http,
        server.client(other) as second,
        http.stream("GET", "/history/follow") as response,
    ):
        tokens.revoke("laptop")
        second.post("/remember", json={"content": "Ada drinks green tea."})
        assert list(sent_events(response)) == []


def test_a_server_that_stops_ends_its_streams(path: Path, tokens: TokenFile) -> None:
    token = tokens.make("laptop", "ada").token
    with (
        served(path) as server,
        server.client(token) as http,
        http.stream("GET", "/history/follow") as response,
    ):
        events = sent_events(response)
        server.stop()
        assert list(events) == []


def test_a_stream_that_its_client_leaves_is_open_no_longer_and_few_are_allowed(path: Path, tokens: TokenFile) -> None:
    token = tokens.make("laptop", "ada").token
    with served(path) as server, server.client(token) as http:
        streams = server.server.config.app.state.door.streams  # type: ignore[union-attr]
        for _ in range(3):
            opened = [http.stream("GET", "/history/follow") for _ in range(8)]
            for stream in opened:
                assert stream.__enter__().status_code == 200
            refused = http.get("/history/follow")
            assert (refused.status_code, refused.json()["rule"]) == (422, "streams")
            for stream in opened:
                stream.__exit__(None, None, None)
            while streams.open.total():
                http.get("/memories/list")


# --- many writers, a kill, and a story -------------------------------------------------------------------------------


def test_twenty_racing_writers_lose_nothing(path: Path, tokens: TokenFile) -> None:
    held = [tokens.make(f"app{number}", f"user{number % 4}").token for number in range(20)]
    with served(path) as server:
        ids: dict[int, list[str]] = {}

        def write(number: int) -> None:
            with server.client(held[number]) as http:
                for turn in range(5):
                    made = http.post("/remember", json={"content": f"Writer {number} wrote number {turn}."})
                    assert made.status_code == 201, made.text
                    said = [{"role": "user", "content": f"This is turn {turn}."}]
                    added = http.post("/add", json={"messages": said, "session": f"s{number}", "extract": "off"})
                    assert added.status_code == 201, added.text
                    ids.setdefault(number, []).append(made.json()["id"])

        assert together(*(lambda number=number: write(number) for number in range(20))) == []
    with Ledger.open(path) as ledger:
        for user in range(4):
            own = ledger.bind(user=f"user{user}")
            kept = {memory.id for memory in own.memories.list(limit=1_000).all()}
            assert {id for number in range(user, 20, 4) for id in ids[number]} == kept
            assert {info.messages for info in own.sessions.list(limit=100)} == {5}
        assert ledger.proof.verify().ok


@contextmanager
def process(path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Yield the address of a server in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen(
        [sys.executable, "-m", "ledger", "serve", place, "--db", str(path)], cwd=ROOT, stderr=subprocess.PIPE
    )
    try:
        while server.poll() is None:
            try:
                assert httpx2.get(f"http://{place}/openapi.json", timeout=30).status_code == 200
                break
            except httpx2.ConnectError:
                time.sleep(0.05)
        yield f"http://{place}", server
    finally:
        server.kill()
        server.communicate()


def test_a_server_that_is_killed_loses_nothing_that_it_answered_and_a_retry_doubles_nothing(
    path: Path, tokens: TokenFile
) -> None:
    headers = {"Authorization": f"Bearer {tokens.make('app', 'ada').token}"}
    known: dict[int, str] = {}

    def write(url: str, number: int) -> None:
        fact = {"content": f"Fact number {number}."}
        made = httpx2.post(
            f"{url}/remember", json=fact, headers=headers | {"Idempotency-Key": f"k{number}"}, timeout=30
        )
        assert made.status_code == 201 and known.setdefault(number, made.json()["id"]) == made.json()["id"]

    with process(path) as (url, server):

        def write_until_killed(part: int) -> None:
            for number in range(part, 400, 4):
                try:
                    write(url, number)
                except httpx2.HTTPError:
                    return

        def kill() -> None:
            while len(known) < 12:
                time.sleep(0.005)
            server.kill()

        assert together(kill, *(lambda part=part: write_until_killed(part) for part in range(4))) == []
    answered = len(known)
    assert 12 <= answered < 400
    with process(path) as (url, _):
        for number in range(answered + 8):
            write(url, number)
    with Ledger.open(path, user="ada") as ledger:
        assert {memory.id for memory in ledger.memories.list(limit=1_000).all()} == set(known.values())
        assert ledger.proof.verify().ok


@needs.signals
def test_sigterm_ends_the_server_and_its_streams_with_exit_code_0(path: Path, tokens: TokenFile) -> None:
    headers = {"Authorization": f"Bearer {tokens.make('app', 'ada').token}"}
    with (
        process(path) as (url, server),
        httpx2.stream("GET", f"{url}/history/follow", headers=headers, timeout=30) as response,
    ):
        events = sent_events(response)
        server.terminate()
        assert list(events) == []
        assert server.wait(30) == 0
    assert not path.with_name("memory.db-wal").exists()


def test_the_story_of_three_days(tmp_path: Path, ledger_clock: Clock) -> None:
    path = tmp_path / "memory.db"
    token = TokenFile(path).make("chat", "ada", channel="user").token
    with (
        served(path, clock=ledger_clock) as server,
        server.client(token) as http,
        Ledger.open(path, user="ada", clock=ledger_clock) as person,
    ):

        def says(text: str) -> None:
            said = [{"role": "user", "content": text}]
            assert http.post("/add", json={"messages": said, "session": "chat", "extract": "off"}).status_code == 201

        told_changed_asked_and_undone(
            person,
            ledger_clock,
            tell=says,
            change=lambda _, text: says(text),
            ask=lambda: http.get("/session/messages", params={"name": "chat", "limit": 1}).text,
            subjects=lambda: [turn["id"] for turn in http.get("/interactions/list").json()["items"]],
        )


def test_two_homes_are_a_conflict_until_the_person_undoes_one(tmp_path: Path, ledger_clock: Clock) -> None:
    path = tmp_path / "memory.db"
    token = TokenFile(path).make("chat", "ada", channel="user").token
    with served(path, clock=ledger_clock) as server, server.client(token) as http:

        def says(text: str) -> dict[str, Any]:
            said = {"messages": [{"role": "user", "content": text}], "session": "chat"}
            return http.post("/add", json=said).json()

        def asked() -> list[str]:
            items = http.post("/context", json={"question": "Where does the user live?"}).json()["items"]
            return [item["content"] for item in items if item["source"] == "memory"]

        ledger_clock.set("2026-03-02T09:00Z")
        says("I live in Lisbon.")
        assert asked() == ["The user lives in Lisbon"]
        ledger_clock.set("2026-03-03T09:00Z")
        id = says("I live in Porto.")["learned"][0]["id"]
        ledger_clock.set("2026-03-04T09:00Z")
        assert asked() == ["The user lives in Porto", "The user lives in Lisbon"]
        (conflict,) = http.get("/conflicts/list").json()["items"]
        assert len(conflict["memories"]) == 2

        why = http.get("/why", params={"id": id}).json()
        assert why["provenance"]["quote"] == "I live in Porto" and "own_words" in why["admission"]
        assert why["steps"][0]["recorded_at"].startswith("2026-03-03")
        with Ledger.open(path, user="ada") as person:
            person.undo(why["steps"][0]["position"], reason="I only visited Porto")
        assert asked() == ["The user lives in Lisbon"]
        assert http.get("/conflicts/list").json()["items"] == []
        (step,) = http.get("/history/events", params={"id": id}).json()["items"][:1]
        assert step["in_effect"] is False
        then = {"question": "Where does the user live?", "as_of": "2026-03-03T10:00Z"}
        assert "The user lives in Porto" in http.post("/context", json=then).text


def test_without_the_library_the_command_and_the_import_name_the_line_to_install(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "fastapi", door="http")
    line = 'pip install "belief-ledger[http]"'
    refused = run("serve", db=path)
    assert refused.exit_code == 4 and line in refused.stderr
    with pytest.raises(ImportError) as error:
        import ledger.doors.http  # noqa: F401
    assert line in str(error.value)


def test_without_the_library_for_figures_the_server_has_all_but_them(
    path: Path, tokens: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "prometheus_client", door="http")
    monkeypatch.delitem(sys.modules, "http_server")
    from http_server import served as served_anew

    with served_anew(path) as server, server.client(tokens.make("app", "ada").token) as http:
        assert http.get("/metrics").status_code == 404
        assert http.get("/memories/list").status_code == 200


def test_an_agent_reads_turns_and_hands_in_what_they_say(path: Path, tokens: TokenFile) -> None:
    app, agent = tokens.make("app", "ada", channel="user").token, tokens.make("agent", "ada").token
    said = {"messages": [{"role": "user", "content": "My sister Lea is allergic to peanuts."}], "session": "monday"}
    with served(path) as server, server.client(app) as http, server.client(agent) as by_agent:
        assert http.post("/add", json=said).status_code == 201
        assert by_agent.get("/learning/count").json() == 1
        unread = by_agent.post("/learning/unread", json={"budget": 2_000}).json()
        assert "[1] user" in unread["content"]
        assert unread["turns"] == 1
        assert http.post("/learning/unread", json={}).json()["held_until"] is not None
        fact = {"content": "The user's sister Lea is allergic to peanuts.", "said_by": "user", "messages": [1]}
        handed_in = {"token": unread["token"], "answer": {"add": [fact | {"quote": "sister Lea is allergic"}]}}
        broken = by_agent.post("/learning/learn", json=handed_in | {"answer": "no JSON"})
        assert (broken.status_code, broken.json()["rule"]) == (422, "answer")
        (learned,) = by_agent.post("/learning/learn", json=handed_in).json()["learned"]
        assert learned["confidence"] == 0.6
        assert by_agent.post("/learning/learn", json=handed_in).json()["replayed"] is True
        assert http.get("/learning/count").json() == 0
        http.post("/add", json={"messages": [{"role": "user", "content": "Lea outgrew it."}], "session": "monday"})
        ended = {"id": learned["id"], "ended": True, "quote": "Lea outgrew it", "session": "monday"}
        assert by_agent.post("/learning/correct", json=ended).status_code == 200
        assert http.get("/memories/get", params={"id": learned["id"]}).json()["status"] == "retracted"
        assert by_agent.post("/learning/correct", json={"id": learned["id"]}).status_code == 422
