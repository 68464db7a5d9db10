"""The HTTP server for tests, on a thread of this process and a free port, and a client that reads server-sent events."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from ledger import AsyncLedger
from ledger.doors.http.serving import Server, server_of
from ledger.doors.web_server import ConnectionBounds

SECONDS = 30


class HttpServer(NamedTuple):
    """A server that listens, the event loop that it runs in, and the function that stops it."""

    url: str
    server: Server
    ledger: AsyncLedger
    stop: Callable[[], None]

    def client(self, token: str, **headers: str) -> httpx2.Client:
        return httpx2.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {token}", **headers}, timeout=SECONDS
        )


@contextmanager
def served(
    path: Path,
    *,
    read_only: bool = False,
    pulse: float | None = None,
    clock: Callable[[], datetime] | None = None,
    bounds: ConnectionBounds | None = None,
) -> Iterator[HttpServer]:
    """Yield a server over the ledger at a path."""
    begun, problem = threading.Event(), list[BaseException]()
    running: list[HttpServer] = []

    async def run() -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            async with AsyncLedger.open(path, readonly=read_only, clock=clock) as ledger:
                server = server_of(ledger, host="127.0.0.1", port=port, read_only=read_only, bounds=bounds)
                if pulse is not None:
                    server.config.app.state.door.streams.pulse = pulse  # type: ignore[union-attr]
                serving = asyncio.ensure_future(server.serve(sockets=[listener]))
                while not server.started and not serving.done():
                    await asyncio.sleep(0.01)

                def stop() -> None:
                    server.should_exit = True
                    thread.join(SECONDS)
                    assert not thread.is_alive()

                running.append(HttpServer(f"http://127.0.0.1:{port}", server, ledger, stop))
                begun.set()
                await serving

    def main() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            problem.append(error)
        finally:
            begun.set()

    thread = threading.Thread(target=main)
    thread.start()
    assert begun.wait(SECONDS)
    try:
        assert running, problem
        yield running[0]
    finally:
        if running:
            running[0].stop()
    assert not problem, problem


class Sent(NamedTuple):
    """A server-sent event; one without data moves the place of the reader only."""

    id: int | None
    event: str
    data: Any


def sent_events(response: httpx2.Response) -> Iterator[Sent]:
    """Yield the events of a stream; a comment is left out."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields |= {name: value} if name and not line.startswith(":") else {}
        elif fields:
            data = json.loads(fields["data"]) if "data" in fields else None
            yield Sent(int(fields["id"]) if "id" in fields else None, fields.get("event", ""), data)
            fields = {}
