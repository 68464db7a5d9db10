"""The address that a door listens on, and the requests that mean this address and no other."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address

from ledger import RejectedError

HOST = "127.0.0.1"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
EVERY = ("0.0.0.0", "::")  # the addresses that mean all of a machine's, or of a container's


@dataclass(frozen=True)
class OwnNames:
    """The values of the headers Host and Origin that mean a door. A web page of another origin can send none of these origins."""

    hosts: tuple[str, ...]
    origins: tuple[str, ...]


def address(text: str, port: int, *, is_named: bool = False) -> tuple[str, int]:
    """Return the host and the port of "HOST:PORT", "HOST", "PORT" or ""; an IPv6 address stands in brackets.

    Args:
        text: The text of a person.
        port: The port of a text without a port.
        is_named: True if the person gave the names by which requests reach the door.

    Raises:
        RejectedError: The text is no such address, is a file, or means every address of the machine and no name was given.
    """
    if os.path.isfile(text):
        raise RejectedError(f"{text!r:.60} is a file, and an address to listen on was asked for: --db names the ledger")
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, number = ("", text) if text.isdigit() else (text, "")
    if number and not (number.isascii() and number.isdigit() and 0 < int(number) < 65_536):
        raise RejectedError(f"{text!r:.60} is no address to listen on; HOST:PORT, HOST and PORT are, as {HOST}:{port}")
    host = host.removeprefix("[").removesuffix("]") or HOST
    if host in EVERY and not is_named:
        raise RejectedError(
            f"{host} is every address of this machine, and a request has to name the one it was sent to (Host); "
            "name an address, say with --name what requests name, or put a proxy with TLS before the loopback address"
        )
    return host, int(number or port)


def listen(host: str, port: int) -> list[socket.socket]:
    """Return the sockets that listen on an address: one, or one for each address of a name.

    Raises:
        RejectedError: Nothing can listen there (rule ``listen``), as if another program does.
    """
    sockets = list[socket.socket]()
    try:
        for family, _, _, _, place in dict.fromkeys(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)):
            sockets.append(socket.create_server(place[:2], family=family))
    except OSError as error:
        for listener in sockets:
            listener.close()
        number = error.errno or 0  # below 0 of a name that nobody knows
        known = getattr(socket, "errorTab", {})  # on Windows strerror knows no number of a socket
        why = (known.get(number) or (os.strerror(number) if number > 0 else str(error.strerror))).lower().rstrip(".")
        raise RejectedError(f"nothing can listen on {_bracketed(host)}:{port}: {why}", rule="listen") from None
    return sockets


@contextmanager
def closing_all(sockets: Sequence[socket.socket]) -> Iterator[None]:
    """Close the sockets at the end, whatever happens."""
    try:
        yield
    finally:
        for listener in sockets:
            listener.close()


def url(host: str, port: int) -> str:
    """Return the beginning of the address of a door."""
    return f"http://{_bracketed(host)}:{port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Return True if only programs on this machine can reach the host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def own_names(host: str, port: int, names: Sequence[str] = ()) -> OwnNames:
    """Return the names of a door: of a loopback address all loopback names, else the name that was given.

    Args:
        host: The host that the door listens on. If it is every address, the door has the loopback names.
        port: The port that the door listens on.
        names: More names, "NAME" or "NAME:PORT", such as those of a proxy or of a port that a container publishes.

    Raises:
        RejectedError: A name has no such form.
    """
    for name in names:
        if not re.fullmatch(r"([\w.-]+|\[[\da-fA-F:]+\])(:\d{1,5})?", name, re.ASCII):
            raise RejectedError(
                f"--name takes the NAME or the NAME:PORT that requests name, and {name!r:.60} is neither"
            )
    own = _bracketed(host)
    known = {*LOOPBACK} if host in EVERY else {*LOOPBACK, own} if is_loopback(host) else {own}
    hosts = sorted(f"{name}:{port}" for name in known) + sorted(known if port in (80, 443) else ())
    hosts += [each for name in map(str.lower, names) for each in (name, f"{name}:{port}")]
    hosts = list(dict.fromkeys(hosts))
    return OwnNames(tuple(hosts), tuple(f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts))
