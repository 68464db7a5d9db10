"""The web server of the doors that listen on a network. Needs uvicorn, which the extras of these doors bring."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import uvicorn
from starlette.types import ASGIApp

CLOSE_SECONDS = 5  # that requests under way have when the server stops


class WebServer(uvicorn.Server):
    """A server that says once it listens, and that a signal stops without ending the process.

    Args:
        app: The application.
        host: The host to listen on.
        port: The port to listen on.
        lifespan: "on" for an application that has to be started and stopped.
        ready: Called when the server listens.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str,
        port: int,
        lifespan: Literal["on", "off"] = "off",
        ready: Callable[[], None] | None = None,
    ) -> None:
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            ws="none",
            lifespan=lifespan,
            log_level="warning",
            access_log=False,  # an address may hold the name of a person
            server_header=False,
            timeout_graceful_shutdown=CLOSE_SECONDS,
        )
        super().__init__(config)
        self._ready = ready

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
