"""The server at work: over stdio, or over HTTP on a loopback address or one that was named."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
from collections.abc import Callable, Sequence

from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from ledger import AsyncLedger, RejectedError, Settings
from ledger.core.settings import INSIDE_MODEL
from ledger.core.shell import shell_options, with_options
from ledger.doors.background import making_vectors
from ledger.doors.gate import Gate
from ledger.doors.listening import address, closing_all, is_loopback, listen, own_names
from ledger.doors.mcp.server import MemoryServer, make_server
from ledger.doors.outages import log_to_stderr
from ledger.doors.tokens import TokenFile
from ledger.doors.web_server import WebServer

PORT = 8765
PATH = "/mcp"
SESSIONS, IDLE_SECONDS = 100, 30 * 60.0  # of protocol 2025-11-25; the later one has none


def serve(
    settings: Settings,
    *,
    project: str | None = None,
    folder: str = "",
    read_only: bool = False,
    reviewer: bool = False,
    http: str | None = None,
    names: Sequence[str] = (),
    without_token: bool = False,
    ready: Callable[[str, int], None] | None = None,
) -> None:
    """Open the ledger and serve MCP until the client leaves or the process is stopped.

    Args:
        settings: The path, the user, and all else that a ledger is opened with.
        project: The project of new memories; None for that of the folder.
        folder: The folder that the agent works in; "" for none.
        read_only: Offer no tool that writes.
        reviewer: Offer the decisions that a person has to consent to.
        http: The address to listen on, as "HOST:PORT", "HOST" or "PORT"; "" for 127.0.0.1:8765; None for stdio.
        names: More names by which requests over HTTP reach the server.
        without_token: Serve everybody who reaches the loopback address as the user of the settings.
        ready: Called with the host and the port when the server listens over HTTP.
    """
    if os.environ.get(INSIDE_MODEL):
        raise RejectedError(
            "this process was started by a ledger's model command, whose agent gets no memory to change"
        )
    if read_only and reviewer:
        raise RejectedError("a reviewer decides, which writes: give --read-only or --reviewer")
    host, port = _address(settings, http, names, without_token=without_token)
    sockets = listen(host, port) if http is not None else []

    async def run() -> None:
        opening = AsyncLedger.open(settings.path, settings=settings, readonly=read_only, create=not read_only)
        async with opening as ledger, making_vectors(ledger, settings, read_only=read_only):
            tokens = TokenFile(ledger.path) if http is not None and not without_token else None
            server = make_server(
                ledger,
                user=settings.user,
                project=project,
                folder=folder,
                read_only=read_only,
                reviewer=reviewer,
                tokens=tokens,
                learn_tokens_a_day=settings.learn_tokens_a_day,
            )
            if http is None:
                for ignored in (await ledger.projects.of(folder, project=project)).ignored:
                    told = with_options(ignored, shell_options(ledger.path, settings.user or None))
                    sys.stderr.write(f"memory-ledger: {told}\n")  # which the client keeps in its log
                _close_on_signals(ledger)
                await server.run_stdio_async()
                return
            log_to_stderr()
            app = app_of(server, host, port, tokens, names)
            listens = functools.partial(ready, host, port) if ready is not None else None
            await WebServer(app, lifespan="on", ready=listens).serve(sockets)

    with closing_all(sockets):
        asyncio.run(run())


def _address(settings: Settings, http: str | None, names: Sequence[str], *, without_token: bool) -> tuple[str, int]:
    """Return the host and the port to listen on; refuse options that do not go together, before anything listens."""
    if http is None and without_token:
        raise RejectedError(
            "--without-token is for --http; over stdio the person starts the server and no token is needed"
        )
    if http is None and names:
        raise RejectedError("--name is for --http: over stdio no request names a host")
    host, port = address(http or "", PORT, is_named=bool(names))
    own_names(host, port, names)
    if http is not None and without_token and not is_loopback(host):
        raise RejectedError(
            f"without tokens only a loopback address may be served, and {host} is none; `memory-ledger token make NAME` makes "
            "a token"
        )
    if http is not None and not without_token and settings.names_user:
        raise RejectedError(
            "over HTTP each token names its user, so --user (or LEDGER_USER) says nothing; make a token with "
            "`memory-ledger token make NAME --user …`, or serve one user with --without-token"
        )
    return host, port


def _close_on_signals(ledger: AsyncLedger) -> None:
    """Close the ledger and end the process on SIGINT and SIGTERM.

    The SDK's thread that reads standard input cannot be interrupted, so to cancel the server would wait for a line.
    """
    loop, closing = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def stop(number: int) -> None:
        task = loop.create_task(ledger.aclose())
        closing.add(task)  # the loop itself holds no task
        task.add_done_callback(lambda _: end(number))

    def end(number: int) -> None:
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        # A loop of asyncio takes no handler of a signal on Windows.
        signal.signal(number, lambda number, _: loop.call_soon_threadsafe(stop, number))


def app_of(server: MemoryServer, host: str, port: int, tokens: TokenFile | None, names: Sequence[str] = ()) -> ASGIApp:
    """Return the application of a server over HTTP, behind the gate that looks at the head of each request."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        transport_security=security(host, port, names),
        max_sessions=SESSIONS,
        session_idle_timeout=IDLE_SECONDS,
    )
    return Gate(app, names=None, tokens=tokens, is_open=lambda path: path != PATH)


def security(host: str, port: int, names: Sequence[str] = ()) -> TransportSecuritySettings:
    """Return the check of Host and Origin."""
    own = own_names(host, port, names)
    return TransportSecuritySettings(allowed_hosts=[*own.hosts], allowed_origins=[*own.origins])
