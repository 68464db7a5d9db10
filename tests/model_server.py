"""An OpenAI-compatible server on the loopback that answers as it is told: well, slowly, with errors, by half, or nonsense."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Reply:
    """The answer to one request."""

    def __init__(self, text: str = "", status: int = 200, **told: Any) -> None:
        self.text, self.status = text, status
        self.headers: dict[str, str] = told.get("headers", {})
        self.finish: str = told.get("finish", "stop")
        self.seconds: float = told.get("seconds", 0.0)
        self.raw: bytes | None = told.get("raw")  # instead of an answer
        self.dropped: bool = told.get("dropped", False)  # the connection, amid the answer

    def body(self, model: str) -> bytes:
        if self.raw is not None:
            return self.raw
        if self.status != 200:
            return json.dumps({"error": {"message": "sk-secret is wrong", "type": "t", "code": "c"}}).encode()
        message = {"role": "assistant", "content": self.text}
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        usage = {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150}
        told = {
            "id": "x",
            "object": "chat.completion",
            "created": 1,
            "model": model,
            "choices": [choice],
            "usage": usage,
        }
        return json.dumps(told).encode()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies: list[Reply] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def say(self, *replies: Reply) -> None:
        """Set the next replies and forget the requests so far; the last reply is repeated."""
        self.replies, self.requests, self.keys = list(replies), [], []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever was not waited for has gone."""


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(asked | {"path": self.path})
        self.server.keys.append(self.headers.get("Authorization"))
        replies = self.server.replies
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        self.server.over.wait(reply.seconds)
        body = reply.body(asked["model"])
        self.send_response(reply.status)
        for name, value in ({"Content-Type": "application/json"} | reply.headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if reply.dropped:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            time.sleep(0.01)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
