"""The one connection and thread of a process that listen for news of shared logs."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from functools import cache

from ledger.domain.errors import LedgerError
from ledger.log.shared.connections import Connection, LostError, RefusedError, await_any, check_format, is_ready
from ledger.log.shared.schema import CHANNEL

POLL_SECONDS = 1.0  # after which everybody is called even without a notice
CONNECT_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 10.0  # between two attempts to connect

_logger = logging.getLogger("ledger")
OnNews = Callable[[], None]


class Listener:
    """A thread that calls the functions of a tenant after each notice for it, and every function once a second.

    The thread runs while a function is registered. Without a connection it still calls every function once a second.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()  # of what follows
        self._registered: dict[object, tuple[str, OnNews]] = {}
        self._thread: threading.Thread | None = None
        self._waker: tuple[int, int] = (-1, -1)  # a pipe
        self._calling = threading.RLock()  # held during each call
        self._connection: Connection | None = None  # this and the rest are the thread's alone
        self._connect_at, self._pause, self._polled_at = 0.0, POLL_SECONDS, 0.0

    def add(self, tenant: str, on_news: OnNews) -> Callable[[], None]:
        """Register a function; return the way to take it out again, which waits for the end of a running call.

        Whoever takes a function out must hold no lock that the function needs.
        """
        token = object()
        with self._lock:
            self._registered[token] = (tenant, on_news)
            if self._thread is None:
                self._waker = os.pipe()
                self._thread = threading.Thread(target=self._run, name="memory-ledger listener", daemon=True)
                self._thread.start()

        def stop() -> None:
            with self._lock:
                self._registered.pop(token, None)
                if not self._registered and self._thread is not None:
                    os.write(self._waker[1], b"\0")
            with self._calling:
                pass

        return stop

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._registered:
                    self._end()
                    return
            tenants = self._awaited()
            if time.monotonic() >= self._polled_at + POLL_SECONDS:
                tenants, self._polled_at = None, time.monotonic()
            self._call(tenants)

    def _end(self) -> None:
        for descriptor in self._waker:
            os.close(descriptor)
        if self._connection is not None:
            self._connection.close()
        self._connection, self._thread = None, None
        self._connect_at, self._pause = 0.0, POLL_SECONDS

    def _awaited(self) -> set[str] | None:
        """Return the tenants of the notices of up to a second; None if a notice may have been missed."""
        seconds = max(0.0, self._polled_at + POLL_SECONDS - time.monotonic())
        try:
            if self._connection is None:
                if time.monotonic() < self._connect_at:
                    await_any((self._waker[0],), seconds)
                    self._drain()
                    return set()
                self._connection = self._connected()
                return None
            tenants = self._connection.notices(self._waker[0], seconds)
            self._drain()
            return set(tenants)
        except (LostError, RefusedError, LedgerError) as error:
            _logger.info("the connection that listens for news of shared logs is away: %s", error)
            self._connection = None
            self._connect_at = time.monotonic() + self._pause
            self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
            return set()

    def _drain(self) -> None:
        """Read the byte that woke the thread; a function may have been registered since, and then the thread goes on."""
        if is_ready(self._waker[0], 0, writing=False):
            os.read(self._waker[0], 1024)

    def _connected(self) -> Connection:
        connection = Connection(self._url, CONNECT_SECONDS)
        try:
            check_format(connection, CONNECT_SECONDS)
            connection.ask(f"LISTEN {CHANNEL}", CONNECT_SECONDS)
        except BaseException:
            connection.close()
            raise
        self._pause = POLL_SECONDS
        return connection

    def _call(self, tenants: set[str] | None) -> None:
        with self._lock:
            registered = list(self._registered.items())
        for token, (tenant, on_news) in registered:
            if tenants is not None and tenant not in tenants:
                continue
            with self._calling:
                if token in self._registered:
                    try:
                        on_news()
                    except Exception:  # of one ledger; the others still want to hear
                        _logger.exception("a ledger could not follow its shared log")


@cache
def _listener(url: str, process: int) -> Listener:
    return Listener(url)


def listener_of(url: str) -> Listener:
    """Return the listener of this process for a URL."""
    return _listener(url, os.getpid())
