"""A server's bounds: no client without a token takes its connections, its memory or its time, and every refusal arrives."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra http")
pytest.importorskip("uvicorn", reason="needs the extra http")

from command_line import run
from http_server import HttpServer, served
from places import ROOT
from threads import together

from ledger import Ledger
from ledger.doors.gate import BODY_BYTES
from ledger.doors.http import bodies
from ledger.doors.tokens import TokenFile
from ledger.doors.web_server import ConnectionBounds

QUICK = ConnectionBounds(head_seconds=0.3, body_seconds=0.6, rest_seconds=0.3, read_seconds=0.6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Ledger.open(tmp_path / "memory.db"):
        return tmp_path / "memory.db"


@pytest.fixture
def token(path: Path) -> str:
    return TokenFile(path).make("app", "ada", channel="user").token


@contextmanager
def connected(server: HttpServer) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port_of(server)), timeout=20) as connection:
        yield connection


def port_of(server: HttpServer) -> int:
    return int(server.url.rpartition(":")[2])


def head(server: HttpServer, *lines: str, token: str = "") -> bytes:
    """Return the head of a POST of /remember."""
    own = [f"Host: 127.0.0.1:{port_of(server)}", "Content-Type: application/json"]
    own += [f"Authorization: Bearer {token}"] if token else []
    return "\r\n".join(["POST /remember HTTP/1.1", *own, *lines, "", ""]).encode()


def answer(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of what a connection sends before it ends; (0, {}) for nothing."""
    data = b""
    try:
        while part := connection.recv(65_536):
            data += part
    except ConnectionResetError:
        pass
    if not data:
        return 0, {}
    status, body = int(data.split()[1]), data.partition(b"\r\n\r\n")[2]
    return status, json.loads(body)


def test_a_client_is_answered_while_more_silent_connections_are_open_than_the_server_takes(
    path: Path, token: str
) -> None:
    bounds = ConnectionBounds(connections=8, head_seconds=60)
    with served(path, bounds=bounds) as server, ExitStack() as open_ones:
        silent = [open_ones.enter_context(connected(server)) for _ in range(40)]
        with server.client(token) as http:
            assert http.get("/memories/list").status_code == 200
        assert len(server.server.server_state.connections) <= bounds.connections + 1
        assert answer(silent[0]) == (0, {})


def test_a_connection_without_room_for_it_is_refused_while_requests_are_under_way(path: Path, token: str) -> None:
    with served(path, bounds=ConnectionBounds(connections=2)) as server, ExitStack() as open_ones:
        for _ in range(2):
            busy = open_ones.enter_context(connected(server))
            busy.sendall(head(server, "Content-Length: 100", token=token) + b"{")
            time.sleep(0.1)
        status, refused = answer(open_ones.enter_context(connected(server)))
        assert (status, refused["error"]) == (503, "Unavailable")


def test_a_silent_connection_and_a_slow_head_end(path: Path) -> None:
    with served(path, bounds=QUICK) as server, connected(server) as silent, connected(server) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nHost:")
        assert answer(silent) == (0, {})
        status, refused = answer(slow)
        assert (status, refused["error"]) == (408, "TooSlow") and "head" in refused["message"]


def test_a_head_that_comes_byte_by_byte_ends_too(path: Path) -> None:
    with served(path, bounds=QUICK) as server, connected(server) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\n")
        with pytest.raises(OSError):
            for _ in range(100):
                slow.sendall(b"X")
                time.sleep(0.05)


def test_a_slow_body_ends(path: Path, token: str) -> None:
    with served(path, bounds=QUICK) as server, connected(server) as slow:
        slow.sendall(head(server, "Content-Length: 100", token=token) + b"{")
        status, refused = answer(slow)
        assert (status, refused["error"]) == (408, "TooSlow") and "body" in refused["message"]


def test_a_client_that_reads_no_answer_is_let_go(path: Path, token: str) -> None:
    with Ledger.open(path, user="ada") as ledger:
        for number in range(60):
            ledger.remember(f"{number} " + "x" * 100_000)
    asked = f"GET /memories/list?limit=1000 HTTP/1.1\r\nHost: {{}}\r\nAuthorization: Bearer {token}\r\n\r\n"
    with served(path, bounds=QUICK) as server, connected(server) as deaf:
        deaf.sendall(asked.format(f"127.0.0.1:{port_of(server)}").encode())
        end = time.monotonic() + 20
        while not server.server.server_state.connections and time.monotonic() < end:
            time.sleep(0.01)
        while server.server.server_state.connections and time.monotonic() < end:
            time.sleep(0.05)
        assert not server.server.server_state.connections


@pytest.mark.parametrize(
    "lines", [("Content-Length: 3",), (f"Content-Length: {2 * BODY_BYTES}",), ("Transfer-Encoding: chunked",)]
)
def test_without_a_token_nothing_of_a_body_is_waited_for(path: Path, lines: tuple[str, ...]) -> None:
    with served(path, bounds=QUICK) as server, connected(server) as connection:
        connection.sendall(head(server, *lines))
        status, refused = answer(connection)
        assert (status, refused["error"]) == (401, "NoToken")


def test_a_client_that_sends_more_than_the_rest_of_a_body_reads_the_refusal(path: Path) -> None:
    with served(path, bounds=QUICK) as server, connected(server) as connection:
        connection.sendall(head(server, f"Content-Length: {100 * BODY_BYTES}"))
        sent = 0
        with pytest.raises(OSError):
            while sent < 100 * BODY_BYTES:
                sent += connection.send(b"x" * 65_536)
                time.sleep(0.002)
        status, refused = answer(connection)
        assert (status, refused["error"]) == (401, "NoToken") and sent < 100 * BODY_BYTES


def test_a_request_that_says_two_lengths_is_refused_and_what_follows_is_not_read(path: Path, token: str) -> None:
    with served(path) as server, connected(server) as connection:
        smuggled = b"0\r\n\r\n" + head(server, "Content-Length: 2", token=token) + b"{}"
        connection.sendall(head(server, "Content-Length: 5", "Transfer-Encoding: chunked", token=token) + smuggled)
        status, refused = answer(connection)
        assert (status, refused["error"]) == (400, "InvalidRequest") and "Transfer-Encoding" in refused["message"]


def test_what_is_no_http_is_refused_as_json(path: Path) -> None:
    with served(path) as server, connected(server) as connection:
        connection.sendall(b"HELO\r\n\r\n")
        assert answer(connection)[1]["error"] == "InvalidRequest"


def test_a_body_of_unknown_names_is_decoded_up_to_the_first_one_and_off_the_event_loop(
    path: Path, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops: list[bool] = []
    decode_off = bodies.run_in_threadpool

    async def seen(function: Any, *arguments: Any) -> Any:
        def there() -> Any:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                loops.append(False)
            else:
                loops.append(True)
            return function(*arguments)

        return await decode_off(there)

    monkeypatch.setattr(bodies, "run_in_threadpool", seen)
    many = ",".join(f'"k{number}":1' for number in range(300_000))
    with served(path) as server, server.client(token, **{"Content-Type": "application/json"}) as http:
        refused = http.post("/remember", content='{"content":"Ada drinks tea.",' + many + "}")
        first = http.post("/remember", content='{"content":"Ada drinks tea.","k0":1, ' + "this is no JSON")
        assert refused.status_code == 422 and refused.text == first.text and "unknown field `k0`" in refused.text
        assert loops == [False, False]


def test_bodies_under_way_have_a_bound_together(path: Path, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledger.doors.gate.BODIES_BYTES", 100_000)
    with served(path) as server, ExitStack() as open_ones:
        first, second = (open_ones.enter_context(connected(server)) for _ in range(2))
        for connection in (first, second):
            connection.sendall(head(server, "Content-Length: 90000", "Connection: close", token=token))
        first.sendall(b"{" + b" " * 70_000)
        time.sleep(0.3)
        second.sendall(b"{" + b" " * 70_000)
        status, refused = answer(second)
        assert (status, refused["error"]) == (503, "Unavailable")
        first.sendall(b" " * (90_000 - 70_001 - 1) + b"}")
        assert answer(first)[0] == 422
        with server.client(token) as http:
            assert http.post("/remember", json={"content": "x" * 90_000}).status_code == 201


def test_a_port_in_use_is_one_line_and_exit_code_1_and_no_ledger_is_made(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        for words in (("serve", place), ("mcp", "--http", place)):
            refused = run(*words, db=tmp_path / "memory.db")
            said = f"memory-ledger: nothing can listen on {re.escape(place)}: .*address (already|is) in use\n"
            assert refused.exit_code == 1 and re.fullmatch(said, refused.stderr)
    assert not (tmp_path / "memory.db").exists()


def test_1_100_silent_sockets_stop_no_server_and_fill_no_log(path: Path, token: str) -> None:
    """The server runs in a process of its own, under a limit of 512 open files."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1_400:
        pytest.skip("the limit of open files is too low for so many sockets")
    limited = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512)); "
    limited += "sys.argv[0] = 'memory-ledger'; runpy.run_module('ledger', run_name='__main__')"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-c", limited, "serve", str(port), "--db", str(path)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1_400) if soft != resource.RLIM_INFINITY else soft, hard))
    try:
        with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE) as server, ExitStack() as open_ones:
            try:
                assert server.stderr is not None and b"listening" in server.stderr.readline()
                sockets = [open_ones.enter_context(socket.socket()) for _ in range(1_100)]

                def connect(part: int) -> None:
                    for one in sockets[part::4]:
                        one.settimeout(30)
                        one.connect(("127.0.0.1", port))

                assert together(*(lambda part=part: connect(part) for part in range(4))) == []
                import httpx2

                held = {"Authorization": f"Bearer {token}"}
                for number in range(3):
                    fact = {"content": f"Fact number {number}."}
                    made = httpx2.post(f"http://127.0.0.1:{port}/remember", json=fact, headers=held, timeout=30)
                    assert made.status_code == 201, made.text
                assert len(os.listdir(f"/proc/{server.pid}/fd")) < 300
                with socket.create_connection(("127.0.0.1", port), timeout=20) as leaving:
                    lines = [f"POST /remember HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}"]
                    lines += ["Content-Type: application/json\r\nContent-Length: 90000\r\n\r\n{"]
                    leaving.sendall("\r\n".join(lines).encode())
                    time.sleep(0.2)
            finally:
                server.terminate()
                log = server.communicate(timeout=60)[1]
        assert len(log.splitlines()) <= 1, log[:2_000]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
