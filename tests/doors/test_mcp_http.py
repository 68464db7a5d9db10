"""MCP over HTTP: a token names the user, and only requests that mean this server are answered."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import needs
import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

import httpx2
import mcp_client as agents
from absence import without
from command_line import run
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_client import McpCaller
from places import ROOT

from ledger import AsyncLedger, BusyError, LedgerError, NewerFormatError, StorageError, SuspendedError
from ledger.doors.mcp import serving
from ledger.doors.mcp.server import make_server
from ledger.doors.mcp.serving import app_of
from ledger.doors.tokens import TokenFile
from ledger.doors.web_server import WebServer

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@asynccontextmanager
async def listening(path: Path, *, with_tokens: bool = True, **options: Any) -> AsyncIterator[str]:
    """Yield the address of a server that listens on a free port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        async with await AsyncLedger.open(path) as ledger:
            server = make_server(ledger, tokens=TokenFile(path) if with_tokens else None, **options)
            app = app_of(server, "127.0.0.1", port, TokenFile(path) if with_tokens else None)
            web = WebServer(app, lifespan="on")
            serving = asyncio.create_task(web.serve(sockets=[listener]))
            while not web.started:
                await asyncio.sleep(0.01)
            try:
                yield f"http://127.0.0.1:{port}/mcp"
            finally:
                web.should_exit = True
                await serving


@asynccontextmanager
async def with_token(url: str, token: str, protocol: str) -> AsyncIterator[McpCaller]:
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(url, http_client=http), mode=protocol) as client,
    ):
        yield McpCaller(client, [])


def played(story: Callable[[str], Awaitable[None]], path: Path, **options: Any) -> None:
    async def play() -> None:
        async with listening(path, **options) as url:
            await story(url)

    asyncio.run(play())


@pytest.mark.parametrize("protocol", agents.PROTOCOLS)
def test_a_token_reaches_its_users_memory_and_no_other(path: Path, protocol: str) -> None:
    tokens = TokenFile(path)
    ada, ben = tokens.make("laptop", "ada").token, tokens.make("phone", "ben").token

    async def story(url: str) -> None:
        async with with_token(url, ada, protocol) as agent, with_token(url, ben, protocol) as stranger:
            id = (await agent.call("remember", content="The user drinks green tea."))["id"]
            assert len((await agent.call("recall", question="tea"))["items"]) == 1
            assert (await stranger.call("recall", question="tea", scope="everywhere"))["items"] == []
            for tool in ("why", "history"):
                assert "of this user has the id" in await stranger.error(tool, id=id)
            assert "of this user has the id" in await stranger.error("forget", id=id, reason="mine now")
            with pytest.raises(Exception, match="no memory of this user"):
                await stranger.client.read_resource(f"ledger://memory/{id}")

    played(story, path)
    with agents.opened(path) as ledger:
        assert ledger.history.audit(type="MemoryCaptured")[0].client == "mcp/laptop"


def test_an_agent_of_one_user_neither_sees_nor_moves_the_turns_of_another(path: Path) -> None:
    tokens = TokenFile(path)
    ada, ben = tokens.make("laptop", "ada").token, tokens.make("phone", "ben").token
    said = {"ada": "My sister Lea is allergic to peanuts.", "ben": "My brother Tom lives in Oslo."}
    for user, text in said.items():
        with agents.opened(path, user) as ledger:
            ledger.add([{"role": "user", "content": text}], session="monday", extract="off")
    with agents.opened(path, "ben") as ledger:
        memory = ledger.remember("The user rides a red bicycle.")

    async def story(url: str) -> None:
        async with with_token(url, ada, agents.STATELESS) as agent, with_token(url, ben, agents.STATELESS) as stranger:
            of_ada, of_ben = await agent.call("unread"), await stranger.call("unread")
            assert said["ada"] in of_ada["content"] and said["ben"] not in of_ada["content"]
            assert said["ben"] in of_ben["content"] and said["ada"] not in of_ben["content"]
            assert (of_ada["more"], of_ben["more"], of_ben["held_until"]) == (0, 0, None)
            assert "no token of a reading" in await agent.error("learn", token=of_ben["token"])
            wrong = {"id": memory.id, "ended": True, "reason": "not mine"}
            assert "no memory of this user" in await agent.error("correct", **wrong)
            fact = {"content": "The user's sister Lea is allergic to peanuts", "said_by": "user", "messages": [1]}
            learned = await agent.call("learn", token=of_ada["token"], add=[{**fact, "quote": "Lea is allergic"}])
            assert (len(learned["learned"]), learned["more"]) == (1, 0)
            assert (await agent.call("unread"))["token"] == ""
            assert "Lea" not in await stranger.text("context", question="Lea?")
            assert (await stranger.call("context", question="Lea?"))["unread"] == 1
            assert (await stranger.call("learn", token=of_ben["token"]))["turns"] == 1

    played(story, path)


def test_the_tokens_that_one_users_agent_reads_in_a_day_count_for_no_other_user(path: Path) -> None:
    tokens = TokenFile(path)
    ada, ben = tokens.make("laptop", "ada").token, tokens.make("phone", "ben").token
    for user in ("ada", "ben"):
        with agents.opened(path, user) as ledger:
            for number in range(9):
                text = f"My friend number {number} works at the harbour. {'Really. ' * 150}"
                ledger.add([{"role": "user", "content": text}], session="monday", extract="off")

    async def story(url: str) -> None:
        async with with_token(url, ada, agents.STATELESS) as agent, with_token(url, ben, agents.STATELESS) as stranger:
            assert (await agent.call("unread", budget=3_000))["token"]
            assert (await agent.call("unread", budget=3_000))["held_until"].endswith("T00:00:00.000000Z")
            assert (await stranger.call("unread", budget=3_000))["token"]

    played(story, path, learn_tokens_a_day=4_000)


def test_a_request_without_a_token_or_with_a_revoked_token_is_refused(path: Path) -> None:
    tokens = TokenFile(path)
    token = tokens.make("laptop", "ada").token

    async def story(url: str) -> None:
        async with httpx2.AsyncClient(headers=HEADERS) as http:
            for headers in ({}, {"authorization": "Basic YWRh"}, {"authorization": "Bearer mlt_guessed"}):
                assert (await http.post(url, json=LIST, headers=headers)).status_code == 401
            held = {"authorization": f"Bearer {token}"}
            assert (await http.post(url, json=LIST, headers=held)).status_code != 401
            tokens.revoke("laptop")
            assert (await http.post(url, json=LIST, headers=held)).status_code == 401

    played(story, path)


def test_a_token_that_brings_a_users_words_elsewhere_brings_an_agents_here(path: Path) -> None:
    token = TokenFile(path).make("chat", "ada", channel="user").token

    async def story(url: str) -> None:
        async with with_token(url, token, agents.STATELESS) as agent:
            added = await agent.call("add", messages=[{"role": "user", "content": "I live in Lisbon."}])
            assert not added["learned"] and added["proposed"]

    played(story, path)
    with agents.opened(path) as ledger:
        assert {entry.channel for entry in ledger.history.audit(client="mcp/chat")} == {"agent"}


def test_a_session_cannot_be_taken_over_with_another_token(path: Path) -> None:
    tokens = TokenFile(path)
    ada, ben = (tokens.make(name, name).token for name in ("ada", "ben"))
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}

    async def story(url: str) -> None:
        async with httpx2.AsyncClient(headers=HEADERS) as http:
            begun = await http.post(url, json=begin, headers={"authorization": f"Bearer {ada}"})
            session = {"mcp-session-id": begun.headers["mcp-session-id"]}
            taken = await http.post(url, json=LIST, headers=session | {"authorization": f"Bearer {ben}"})
            assert taken.status_code == 404

    played(story, path)


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_a_request_that_means_another_host_or_comes_from_a_page_is_refused(path: Path, version: str) -> None:
    async def story(url: str) -> None:
        port = url.split(":")[2].split("/")[0]
        async with httpx2.AsyncClient(headers=HEADERS | {"mcp-protocol-version": version}) as http:
            for host in ("evil.example", f"evil.example:{port}", "127.0.0.1:1", "127.0.0.1.evil.example:80"):
                assert (await http.post(url, json=LIST, headers={"host": host})).status_code == 421, host
            for origin in ("http://evil.example", "null", "http://localhost:1", "http://localhost.evil.example"):
                assert (await http.post(url, json=LIST, headers={"origin": origin})).status_code == 403, origin
            own = await http.post(url, json=LIST, headers={"origin": f"http://127.0.0.1:{port}"})
            assert own.status_code not in (403, 421)

    played(story, path, with_tokens=False)


@pytest.mark.parametrize("protocol", agents.PROTOCOLS)
@pytest.mark.parametrize(
    "problem",
    [
        BusyError("another process kept /srv/ada/memory.db.lock locked for longer than 5 seconds"),
        StorageError("/srv/ada/memory.db cannot be written: disk full"),
        NewerFormatError("/srv/ada/memory.db has format 9 of a newer version"),
        SuspendedError("the projection 'memories' is suspended: its fold raised in /srv/ada", projection="memories"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_no_answer_over_http_names_a_file_of_the_server_and_its_log_does(
    path: Path,
    protocol: str,
    problem: LedgerError,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    token = TokenFile(path).make("laptop", "ada").token

    async def broken(*_: object, **__: object) -> None:
        raise problem

    async def story(url: str) -> None:
        async with with_token(url, token, protocol) as agent:
            monkeypatch.setattr(AsyncLedger, "why", broken)
            monkeypatch.setattr("ledger.aio.ledger.AsyncSessions.get", broken)
            error = await agent.error("why", id="m_nope")
            fixed = "send the request again" if isinstance(problem, BusyError) else "its log says why to its operator"
            assert "/srv" not in error and fixed in error
            with pytest.raises(MCPError) as refused:
                await agent.client.read_resource("ledger://session/monday")
            assert "/srv" not in str(refused.value) and fixed in str(refused.value)

    with caplog.at_level(logging.ERROR, "ledger"):
        played(story, path)
    logged = [record.getMessage() for record in caplog.records if record.name == "ledger"]
    assert logged == [f"{what}: {type(problem).__name__}: {problem}" for what in ("why", "ledger://session")]


@needs.modes
def test_tokens_that_cannot_be_read_open_nothing_and_the_answer_names_no_file(path: Path) -> None:
    tokens = TokenFile(path)
    held = {"authorization": f"Bearer {tokens.make('laptop', 'ada').token}"}
    Path(tokens.path).chmod(0o644)

    async def story(url: str) -> None:
        async with httpx2.AsyncClient(headers=HEADERS | held) as http:
            refused = await http.post(url, json=LIST)
            assert refused.status_code == 503 and refused.json()["error"] == "Unavailable"
            assert str(path.parent) not in refused.text

    played(story, path)


def test_so_many_sessions_are_open_that_another_is_refused_and_one_that_ends_makes_room(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "SESSIONS", 2)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}

    async def story(url: str) -> None:
        async with httpx2.AsyncClient(headers=HEADERS) as http:
            begun = [await http.post(url, json=begin) for _ in range(3)]
            assert [answer.status_code for answer in begun] == [200, 200, 503]
            await http.delete(url, headers={"mcp-session-id": begun[0].headers["mcp-session-id"]})
            assert (await http.post(url, json=begin)).status_code == 200

    played(story, path, with_tokens=False)


def test_a_server_that_cannot_listen_does_not_say_that_it_listens(path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        words = [sys.executable, "-m", "ledger", "mcp", "--http", place, "--db", str(path)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and re.search("address (already|is) in use", done.stderr)
    assert "listening on" not in done.stderr and "Traceback" not in done.stderr


@needs.open_files_that_move
@needs.signals
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_says_that_it_listens_and_names_a_lost_file_in_its_log_alone(
    path: Path, number: signal.Signals
) -> None:
    token = TokenFile(path).make("laptop", "ada").token
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "ledger", "mcp", "--http", str(port), "--db", str(path)]

    async def story(url: str) -> str:
        async with with_token(url, token, agents.STATELESS) as agent:
            await agent.call("remember", content="The user drinks green tea.")
            path.rename(path.with_name("moved.db"))
            error = await agent.error("remember", content="The user drinks coffee.")
            path.with_name("moved.db").rename(path)
            return error

    with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            assert server.stderr.readline().endswith("memory.db: a new one was made\n")
            said = server.stderr.readline()
            assert said == f"memory-ledger: listening on http://127.0.0.1:{port}/mcp\n"
            error = asyncio.run(story(said.split()[-1]))
            server.send_signal(number)
            log = server.stderr.read()
            assert server.wait(timeout=60) == 0
        finally:
            server.kill()
    assert str(path.parent) not in error and "its log says why" in error
    assert f"remember: StorageError: {path} was renamed" in log and "Traceback" not in log and "coffee" not in log
    assert not path.with_name("memory.db-wal").exists()


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("--http", "--user", "ada"), "token make NAME --user"),
        (("--http", "10.0.0.1:80", "--without-token"), "only a loopback address may be served"),
        (("--without-token",), "--without-token is for --http"),
        (("--read-only", "--reviewer"), "give --read-only or --reviewer"),
        (("--http", "0.0.0.0:80"), "every address of this machine"),
    ],
)
def test_options_that_would_open_the_memory_too_far_are_refused(
    path: Path, words: tuple[str, ...], advice: str
) -> None:
    refused = run("mcp", *words, db=path)
    assert refused.exit_code == 4 and advice in " ".join(refused.stderr.split())
    assert not path.exists()


def test_without_the_sdk_the_command_names_the_extra(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "mcp", door="mcp")
    refused = run("mcp", db=path)
    assert refused.exit_code == 4 and 'pip install "belief-ledger[mcp]"' in refused.stderr
