"""The server at work, on a loopback address or one that was named."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from ledger import AsyncLedger, Settings
from ledger.doors.http.app import HttpDoor, make_app
from ledger.doors.listening import own_names
from ledger.doors.tokens import TokenFile

PORT = 8766
CLOSE_SECONDS = 5  # that requests under way have when the server stops


class Server(uvicorn.Server):
    """A server that ends the open streams of events first when it stops, for they would never end by themselves.

    Args:
        config: The settings of uvicorn.
        door: The ledger, its tokens and its streams.
        ready: Called when the server listens.
    """

    def __init__(self, config: uvicorn.Config, door: HttpDoor, ready: Callable[[], None] | None = None) -> None:
        super().__init__(config)
        self._door, self._ready = door, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        if self.started and self._ready is not None:
            self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM without raising them again, so that the ledger is closed."""
        if threading.current_thread() is not threading.main_thread():
            yield  # Python lets only the main thread set signal handlers
            return
        loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then stop as usual."""
        self._door.streams.ending.set()
        await super().shutdown(sockets)


def serve(
    settings: Settings, *, host: str, port: int, read_only: bool = False, ready: Callable[[], None] | None = None
) -> None:
    """Open the ledger and serve it until SIGINT or SIGTERM.

    Args:
        settings: The path, and all else that a ledger is opened with. A token names the user of each request.
        host: The host to listen on.
        port: The port to listen on.
        read_only: Offer nothing that writes.
        ready: Called when the server listens.
    """
    logging.getLogger("ledger").addHandler(logging.StreamHandler())  # the reasons of 503, for the operator

    async def run() -> None:
        opening = AsyncLedger.open(settings.path, settings=settings, readonly=read_only, create=not read_only)
        async with opening as ledger:
            await server_of(ledger, host=host, port=port, read_only=read_only, ready=ready).serve()

    asyncio.run(run())


def server_of(
    ledger: AsyncLedger, *, host: str, port: int, read_only: bool = False, ready: Callable[[], None] | None = None
) -> Server:
    """Return the server over an open ledger, not yet started."""
    app = make_app(ledger, TokenFile(ledger.path), names=own_names(host, port), read_only=read_only)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,  # an address may hold the name of a person
        server_header=False,
        timeout_graceful_shutdown=CLOSE_SECONDS,
    )
    return Server(config, app.state.door, ready)
