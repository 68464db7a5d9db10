"""The web server of the doors that listen on a network. Needs uvicorn, which the extras of these doors bring.

uvicorn has a time limit for a connection between two requests, and none for a silent connection, a slow head, a slow body and
a client that does not read. ``BoundedProtocol`` counts connections and bytes, and ``WebServer`` looks ten times a second for
connections whose time is over.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import json
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Literal, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from ledger.log import platform

CLOSE_SECONDS = 5  # that requests under way have when the server stops
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_logger = logging.getLogger("ledger")


@dataclass(frozen=True)
class ConnectionBounds:
    """The bounds of the connections of a server.

    Attributes:
        connections: The most connections. A process may open ``files`` files, of which three quarters stay for the ledger and
            for connections that were accepted and are not counted yet.
        head_seconds: The time for the head of a request, from its connection or from the answer before it.
        body_seconds: The time for a body.
        rest_seconds: The time that an answered request has for the rest of its body, so that its client reads the answer.
        rest_bytes: The bytes of such a rest after which the connection takes no further request.
        read_seconds: The time that a client has to read any part of an answer, or to leave after the last.
    """

    connections: int = 256
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    rest_seconds: float = 1.0
    rest_bytes: int = 64 * 1024
    read_seconds: float = 30.0

    @property
    def most(self) -> int:
        """Return the most connections under the limit of open files of this process."""
        files = platform.most_open_files()
        return self.connections if files is None else max(1, min(self.connections, files // 4))


@dataclass
class OpenConnections:
    """The connections of a server that wait for the head of a request, oldest first."""

    bounds: ConnectionBounds
    waiting: dict[BoundedProtocol, None] = field(default_factory=dict)


class _UntilRead:
    """A transport that ends the answer instead of the connection while ``has_rest()``, because its client still sends."""

    def __init__(self, transport: asyncio.Transport, has_rest: Callable[[], bool]) -> None:
        self._transport, self._has_rest = transport, has_rest

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)

    def close(self) -> None:
        if self._has_rest() and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()


class BoundedProtocol(H11Protocol):
    """A connection with an end: every step of a request has a time, and the oldest silent connection makes room for a new one.

    Args:
        config: The settings of the server, as uvicorn has them.
        server_state: The connections and tasks of the server.
        app_state: The state of the application's lifespan.
        among: The connections that wait for a head.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        among: OpenConnections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._among, self._bounds = among, among.bounds
        self._step: tuple[object, ...] = ()
        self._since, self._rest = 0.0, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, or refuse it if so many are open already and none of them is silent."""
        self._wire = transport
        super().connection_made(cast("asyncio.Transport", _UntilRead(transport, self._has_rest)))
        if len(self.connections) > self._bounds.most:
            silent = next(iter(self._among.waiting), None) or next(filter(BoundedProtocol.is_unread, self._all()), None)
            if silent is None:
                self._refuse(503, "Unavailable", "the server has no room for another connection; try again later")
                return
            self._among.waiting.pop(silent, None)
            silent.transport.abort()
        self.look(time.monotonic())

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._among.waiting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; of the body of a request that has its answer only a few, and pass over those after them.

        A connection that is closed while bytes come in takes the answer away from its client, so the answer ends first and the
        connection when the time of the rest is over.
        """
        if self._has_rest():
            before, self._rest = self._rest, self._rest + len(data)
            if self._rest > self._bounds.rest_bytes:
                if before <= self._bounds.rest_bytes:
                    self.transport.close()
                return
        super().data_received(data)
        self.look(time.monotonic())

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request of HTTP as every other refusal."""
        self._refuse(400, "InvalidRequest", msg)

    def look(self, now: float) -> None:
        """End the connection if the time of its step is over.

        Args:
            now: The time in seconds of the monotonic clock.
        """
        unread, state = self.transport.get_write_buffer_size(), self.conn.their_state
        step = (self.cycle, state, self._has_rest(), self.transport.is_closing(), unread)
        if step != self._step:
            self._step, self._since = step, now
            if not self._has_rest():
                self._rest = 0
        waits = state is h11.IDLE and not self.transport.is_closing()
        if not waits:
            self._among.waiting.pop(self, None)
        elif self not in self._among.waiting:
            self._among.waiting[self] = None
        spent = now - self._since
        if unread or self.transport.is_closing():
            if spent > self._bounds.read_seconds:
                self.transport.abort()
        elif self._has_rest():
            if spent > self._bounds.rest_seconds:
                self.end()
        elif self.conn.our_state is h11.CLOSED:
            self.end()
        elif waits and spent > self._bounds.head_seconds:
            self._be_late("head", self._bounds.head_seconds)
        elif state is h11.SEND_BODY and spent > self._bounds.body_seconds:
            self._be_late("body", self._bounds.body_seconds)

    def end(self) -> None:
        """Close the connection after what was written."""
        self._among.waiting.pop(self, None)
        if self.cycle is not None:
            self.cycle.disconnected = True
        self._wire.close()

    def is_unread(self) -> bool:
        """Return True if a client leaves its answer unread."""
        return self.transport.get_write_buffer_size() > 0 and not self.transport.is_closing()

    def _all(self) -> Iterator[BoundedProtocol]:
        return iter(cast("set[BoundedProtocol]", self.connections))

    def _has_rest(self) -> bool:
        """Return True if a request has its answer and not yet the end of its body."""
        return self.cycle is not None and self.cycle.response_complete and self.conn.their_state is h11.SEND_BODY

    def _be_late(self, part: str, seconds: float) -> None:
        begun = part == "body" or len(self.conn.trailing_data[0]) > 0
        if begun:
            self._refuse(408, "TooSlow", f"the {part} of a request has to come within {seconds:g} seconds")
        else:
            self.end()

    def _refuse(self, status: int, error: str, message: str) -> None:
        """Write a refusal without the application, and close the connection."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = json.dumps({"error": error, "message": message}).encode()
            head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            self.transport.write(head.encode() + body)
        self.end()


class WebServer(uvicorn.Server):
    """A server that says once it listens, and that a signal stops without ending the process.

    Args:
        app: The application.
        lifespan: "on" for an application that has to be started and stopped.
        bounds: The bounds of connections.
        ready: Called when the server listens.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        lifespan: Literal["on", "off"] = "off",
        bounds: ConnectionBounds | None = None,
        ready: Callable[[], None] | None = None,
    ) -> None:
        among = OpenConnections(bounds or ConnectionBounds())
        config = uvicorn.Config(
            app,
            http=cast("type[asyncio.Protocol]", functools.partial(BoundedProtocol, among=among)),
            ws="none",
            lifespan=lifespan,
            backlog=max(1, among.bounds.most // 4),  # so many are accepted at once, before any is counted
            log_level="error",  # a warning says that a client sent no HTTP, as often as clients like
            access_log=False,  # an address may hold the name of a person
            server_header=False,
            timeout_graceful_shutdown=CLOSE_SECONDS,
        )
        super().__init__(config)
        self._ready, self._told_at = ready, float("-inf")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        asyncio.get_running_loop().set_exception_handler(self._of_loop)
        await super().startup(sockets)
        if self.started and self._ready is not None:
            self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Look at every connection, ten times a second."""
        now = time.monotonic()
        for connection in [*self.server_state.connections]:
            cast("BoundedProtocol", connection).look(now)
        return await super().on_tick(counter)

    def _of_loop(self, loop: asyncio.AbstractEventLoop, problem: dict[str, object]) -> None:
        """Say on one line, and once in a minute, that no connection can be accepted."""
        error, now = problem.get("exception"), time.monotonic()
        if not (isinstance(error, OSError) and error.errno in OUT_OF_FILES):
            loop.default_exception_handler(problem)
        elif now - self._told_at > 60:
            self._told_at = now
            _logger.error("no connection can be accepted: %s", error.strerror)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM without raising them again, so that the ledger is closed."""
        if threading.current_thread() is not threading.main_thread():
            yield  # Python lets only the main thread set signal handlers
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        # A loop of asyncio takes no handler of a signal on Windows.
        before = [signal.signal(number, self.handle_exit) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)
