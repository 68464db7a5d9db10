"""The one connection and thread of a process that listen for news of shared logs."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ledger.log.shared.connections import MessageConnection, await_any, check_format, is_ready
from ledger.log.shared.port import OnNews
from ledger.log.shared.schema import CHANNEL

POLL_SECONDS = 1.0  # after which everybody is called even without a notice
REST_SECONDS = 0.005  # between two looks while this process writes, whose own commits wake the listener too
CONNECT_SECONDS = 2.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 10.0  # between two attempts to connect

_logger = logging.getLogger("ledger")


@dataclass(frozen=True, slots=True)
class Follower:
    """A function to call after commits to a tenant's log, except for those of its own machine, whose file has them."""

    tenant: str
    own: str  # the notice of its machine's commits
    on_news: OnNews
    calling: Any = field(default_factory=threading.RLock)  # held during each call

    def is_meant(self, notices: set[str]) -> bool:
        return any(notice != self.own and notice.partition(_BETWEEN)[0] == self.tenant for notice in notices)


_BETWEEN = "\t"  # which no tenant has in its name


def notice_of(tenant: str, machine: str) -> str:
    """Return the payload of the notice that a commit of a machine sends."""
    return f"{tenant}{_BETWEEN}{machine}"


class Listener:
    """A thread that calls the followers of a tenant after a commit of another machine, and every follower once a second.

    The thread runs while a follower is registered. Without a connection it still calls every follower once a second.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()  # of what follows
        self._registered: dict[object, Follower] = {}
        self._thread: threading.Thread | None = None
        self._waker: tuple[int, int] = (-1, -1)  # a pipe
        self._connection: MessageConnection | None = None  # this and the rest are the thread's alone
        self._connect_at, self._pause, self._polled_at = 0.0, FIRST_PAUSE_SECONDS, 0.0
        self._again = set[object]()  # the followers that were busy

    def add(self, tenant: str, machine: str, on_news: OnNews) -> Callable[[], None]:
        """Register a function; return the way to take it out again, which waits for the end of a running call.

        Whoever takes a function out must hold no lock that the function needs.
        """
        token, follower = object(), Follower(tenant, notice_of(tenant, machine), on_news)
        with self._lock:
            self._registered[token] = follower
            if self._thread is None:
                self._waker = os.pipe()
                self._thread = threading.Thread(target=self._run, name="memory-ledger listener", daemon=True)
                self._thread.start()

        def stop() -> None:
            with self._lock:
                self._registered.pop(token, None)
                if not self._registered and self._thread is not None:
                    os.write(self._waker[1], b"\0")
            with follower.calling:
                pass

        return stop

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._registered:
                    self._end()
                    return
            notices = self._awaited()
            if time.monotonic() >= self._polled_at + POLL_SECONDS:
                notices, self._polled_at = None, time.monotonic()
            if self._call(notices):
                await_any((self._waker[0],), REST_SECONDS)

    def _end(self) -> None:
        for descriptor in self._waker:
            os.close(descriptor)
        if self._connection is not None:
            self._connection.close()
        self._connection, self._thread = None, None
        self._connect_at, self._pause = 0.0, FIRST_PAUSE_SECONDS

    def _awaited(self) -> set[str] | None:
        """Return the notices of up to a second, or until a busy follower is called again; None if a notice may be missed."""
        seconds = max(0.0, self._polled_at + POLL_SECONDS - time.monotonic())
        if self._again:
            seconds = 0.0
        try:
            if self._connection is None:
                if (left := self._connect_at - time.monotonic()) > 0:
                    await_any((self._waker[0],), min(left, seconds))
                    self._drain()
                    return set()
                self._connection = self._connected()
                return None
            notices = set(self._connection.notices(self._waker[0], seconds))
            self._drain()
            return notices
        except Exception as error:  # whatever it is, the followers are still called once a second
            _logger.info("the connection that listens for news of shared logs is away: %s", error)
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self._connect_at = time.monotonic() + self._pause
            self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
            return set()

    def _drain(self) -> None:
        """Read the byte that woke the thread; a function may have been registered since, and then the thread goes on."""
        if is_ready(self._waker[0], 0, writing=False):
            os.read(self._waker[0], 1024)

    def _connected(self) -> MessageConnection:
        connection = MessageConnection(self._url, CONNECT_SECONDS)
        try:
            check_format(connection, CONNECT_SECONDS)
            connection.ask(f"LISTEN {CHANNEL}", CONNECT_SECONDS)
        except BaseException:
            connection.close()
            raise
        self._pause = FIRST_PAUSE_SECONDS
        return connection

    def _call(self, notices: set[str] | None) -> bool:
        """Call the followers that the notices mean, or all of them; return True if this process writes to one of their logs."""
        with self._lock:
            registered = list(self._registered.items())
        again, self._again, writes = self._again, set(), False
        for token, follower in registered:
            writes = writes or (notices is not None and follower.own in notices)
            if notices is not None and token not in again and not follower.is_meant(notices):
                continue
            with follower.calling:
                if token in self._registered:
                    try:
                        if follower.on_news():
                            self._again.add(token)
                    except Exception:  # of one ledger; the others still want to hear
                        _logger.exception("a ledger could not follow its shared log")
        return writes or bool(self._again)


@cache
def _listener(url: str, process: int) -> Listener:
    return Listener(url)


def listener_of(url: str) -> Listener:
    """Return the listener of this process for a URL."""
    return _listener(url, os.getpid())
