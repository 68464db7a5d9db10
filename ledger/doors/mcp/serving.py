"""The server at work: over stdio, or over HTTP on a loopback address or one that was named."""

from __future__ import annotations

import asyncio
import signal
from ipaddress import ip_address

from mcp.server.transport_security import TransportSecuritySettings

from ledger import AsyncLedger, RejectedError, Settings
from ledger.doors.mcp.server import make_server
from ledger.doors.tokens import TokenFile

HOST, PORT = "127.0.0.1", 8765
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def serve(
    settings: Settings,
    *,
    project: str | None = None,
    read_only: bool = False,
    reviewer: bool = False,
    http: str | None = None,
    without_token: bool = False,
) -> None:
    """Open the ledger and serve MCP until the client leaves or the process is stopped.

    Args:
        settings: The path, the user, and all else that a ledger is opened with.
        project: The project of new memories; None for none.
        read_only: Offer no tool that writes.
        reviewer: Offer the decisions that a person has to consent to.
        http: The address to listen on, as "HOST:PORT", "HOST" or "PORT"; "" for 127.0.0.1:8765; None for stdio.
        without_token: Serve everybody who reaches the loopback address as the user of the settings.
    """
    if read_only and reviewer:
        raise RejectedError("a reviewer decides, which writes: give --read-only or --reviewer")
    if http is None and without_token:
        raise RejectedError(
            "--without-token is for --http; over stdio the person starts the server and no token is needed"
        )
    host, port = address(http or "")
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

    async def run() -> None:
        opening = AsyncLedger.open(settings.path, settings=settings, readonly=read_only, create=not read_only)
        async with opening as ledger:
            _close_on_signals(ledger)
            tokens = TokenFile(ledger.path) if http is not None and not without_token else None
            server = make_server(ledger, project=project, read_only=read_only, reviewer=reviewer, tokens=tokens)
            if http is None:
                await server.run_stdio_async()
            else:
                await server.run_streamable_http_async(host=host, port=port, transport_security=security(host, port))

    asyncio.run(run())


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
        loop.add_signal_handler(number, stop, number)


def address(text: str) -> tuple[str, int]:
    """Return the host and the port of "HOST:PORT", "HOST", "PORT" or ""; an IPv6 address stands in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = ("", text) if text.isdigit() else (text, "")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise RejectedError(
            f"{text!r:.60} is no address to listen on; HOST:PORT, HOST and PORT are, as 127.0.0.1:{PORT}"
        )
    host = host.removeprefix("[").removesuffix("]") or HOST
    if host in ("0.0.0.0", "::"):
        raise RejectedError(
            f"{host} is every address of this machine, and a request has to name the one it was sent to (Host); "
            "name an address, or put a proxy with TLS before the loopback address"
        )
    return host, int(port or PORT)


def is_loopback(host: str) -> bool:
    """Return True if only programs on this machine can reach the host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def security(host: str, port: int) -> TransportSecuritySettings:
    """Return the check of Host and Origin: of a loopback address its names, else the name that was given."""
    name = f"[{host}]" if ":" in host else host
    names = {*LOOPBACK, name} if is_loopback(host) else {name}
    hosts = sorted(f"{name}:{port}" for name in names) + sorted(names if port in (80, 443) else ())
    return TransportSecuritySettings(
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts],
    )
