"""The server at work, on a loopback address or one that was named."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence

from fastapi import FastAPI

from ledger import AsyncLedger, Settings
from ledger.doors.background import making_vectors
from ledger.doors.http.app import make_app
from ledger.doors.listening import closing_all, listen, own_names
from ledger.doors.outages import log_to_stderr
from ledger.doors.tokens import TokenFile
from ledger.doors.web_server import ConnectionBounds, WebServer

PORT = 8766


class Server(WebServer):
    """A server that ends the open streams of events first when it stops, for they would never end by themselves.

    Args:
        app: The application of ``make_app``.
        bounds: The bounds of connections.
        ready: Called when the server listens.
    """

    def __init__(
        self, app: FastAPI, *, bounds: ConnectionBounds | None = None, ready: Callable[[], None] | None = None
    ) -> None:
        super().__init__(app, bounds=bounds, ready=ready)
        self._streams = app.state.door.streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then stop as usual."""
        self._streams.ending.set()
        await super().shutdown(sockets)


def serve(
    settings: Settings,
    *,
    host: str,
    port: int,
    names: Sequence[str] = (),
    read_only: bool = False,
    ready: Callable[[], None] | None = None,
) -> None:
    """Open the ledger and serve it until SIGINT or SIGTERM.

    Args:
        settings: The path, and all else that a ledger is opened with. A token names the user of each request.
        host: The host to listen on.
        port: The port to listen on.
        names: More names by which requests reach the server.
        read_only: Offer nothing that writes.
        ready: Called when the server listens.

    Raises:
        RejectedError: Nothing can listen there (rule ``listen``), or a name has no allowed form; no ledger was opened.
    """
    log_to_stderr()
    own_names(host, port, names)  # refuses a name before anything listens
    sockets = listen(host, port)

    async def run() -> None:
        opening = AsyncLedger.open(settings.path, settings=settings, readonly=read_only, create=not read_only)
        async with opening as ledger, making_vectors(ledger, settings, read_only=read_only):
            await server_of(
                ledger, host=host, port=port, read_only=read_only, ready=ready, log_url=settings.log_url
            ).serve(sockets)

    with closing_all(sockets):
        asyncio.run(run())


def server_of(
    ledger: AsyncLedger,
    *,
    host: str,
    port: int,
    names: Sequence[str] = (),
    read_only: bool = False,
    bounds: ConnectionBounds | None = None,
    ready: Callable[[], None] | None = None,
    log_url: str | None = None,
) -> Server:
    """Return the server over an open ledger, not yet started."""
    own = own_names(host, port, names)
    app = make_app(ledger, TokenFile(ledger.path), names=own, read_only=read_only, log_url=log_url)
    return Server(app, bounds=bounds, ready=ready)
