"""The news of shared logs: one thread and one connection of a process listen and ask, and a few threads call the followers."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache

from ledger.domain.errors import LedgerError
from ledger.log.shared.connections import (
    MessageConnection,
    await_any,
    check_format,
    is_ready,
    pool_of,
    text_literal,
)
from ledger.log.shared.port import OnNews, Tip
from ledger.log.shared.schema import CHANNEL, FORMAT

POLL_SECONDS = 1.0  # after which the ends of all logs are asked for, and everybody is called
ASK_SECONDS = 5.0  # the longest wait for these ends
REST_SECONDS = 0.005  # between two looks while this process writes, whose own commits wake the listener too
CONNECT_SECONDS = 2.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 10.0  # between two attempts to connect
CALLERS = 8  # threads at most; each call takes in a part of a log, so that none keeps a thread for long

_logger = logging.getLogger("ledger")


@dataclass(frozen=True, slots=True)
class Follower:
    """A function to call after commits to a tenant's log, except for those of its own machine, whose file has them."""

    tenant: str
    own: str  # the notice of its machine's commits
    on_news: OnNews
    calling: AbstractContextManager[bool] = field(default_factory=threading.RLock)  # held during each call

    def is_meant(self, notices: set[str]) -> bool:
        return any(notice != self.own and notice.partition(_BETWEEN)[0] == self.tenant for notice in notices)


_BETWEEN = "\t"  # which no tenant has in its name


def notice_of(tenant: str, machine: str) -> str:
    """Return the payload of the notice that a commit of a machine sends."""
    return f"{tenant}{_BETWEEN}{machine}"


def ends_sql(tenants: Iterable[str]) -> str:
    """Return the statement that reads the ends of the logs of many tenants.

    Row security shows one tenant at a time, so each turn of the loop names the next. OFFSET keeps the planner from another
    order.
    """
    names = ", ".join(text_literal(tenant) for tenant in tenants)
    return (
        f"SELECT own, position, encode(head, 'hex') FROM unnest(ARRAY[{names}]::text[]) AS asked (tenant),"
        " LATERAL (SELECT set_config('ledger.tenant', asked.tenant, true) AS own OFFSET 0) AS named,"
        " LATERAL (SELECT position, head FROM ledger.logs WHERE tenant = own OFFSET 0) AS ends"
        f" WHERE NOT EXISTS (SELECT FROM ledger.format WHERE version > {FORMAT})"
    )


class Listener:
    """The followers of a process: they are called after a commit of another machine, and all of them once a second.

    A new follower is called at once. The thread runs while a follower is registered. Without a connection it still calls every
    follower once a second. A call that comes once a second has the end of the log, which one statement asks for all tenants.
    """

    def __init__(self, url: str, listen_url: str) -> None:
        self._url, self._listen_url = url, listen_url
        self._news = threading.Condition()  # of what follows
        self._registered: dict[object, Follower] = {}
        self._due: dict[object, Tip | None] = {}  # who is called next, with the end of the log if it is known
        self._called = set[object]()
        self._callers, self._idle_callers = 0, 0
        self._thread: threading.Thread | None = None
        self._waker: tuple[int, int] = (-1, -1)  # a pipe
        self._connection: MessageConnection | None = None  # this and the rest are the thread's alone
        self._connect_at, self._pause, self._polled_at = 0.0, FIRST_PAUSE_SECONDS, 0.0

    def add(self, tenant: str, machine: str, on_news: OnNews) -> Callable[[], None]:
        """Register a function; return the way to take it out again, which waits for the end of a running call.

        Whoever takes a function out must hold no lock that the function needs.
        """
        token, follower = object(), Follower(tenant, notice_of(tenant, machine), on_news)
        with self._news:
            self._registered[token] = follower
            self._call({token: None})
            if self._thread is not None:
                os.write(self._waker[1], b"\0")
            else:
                self._waker = os.pipe()
                self._thread = threading.Thread(target=self._run, name="memory-ledger listener", daemon=True)
                self._thread.start()

        def stop() -> None:
            with self._news:
                self._registered.pop(token, None)
                self._due.pop(token, None)
                if not self._registered and self._thread is not None:
                    os.write(self._waker[1], b"\0")
            with follower.calling:
                pass

        return stop

    # --- the thread that listens -----------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._news:
                if not self._registered:
                    self._end()
                    return
            notices = self._awaited()
            if notices is None or time.monotonic() >= self._polled_at + POLL_SECONDS:
                self._polled_at = time.monotonic()
                self._poll()
            elif self._tell(notices):
                await_any((self._waker[0],), REST_SECONDS)

    def _end(self) -> None:
        for descriptor in self._waker:
            os.close(descriptor)
        if self._connection is not None:
            self._connection.close()
        self._connection, self._thread = None, None
        self._connect_at, self._pause = 0.0, FIRST_PAUSE_SECONDS
        self._news.notify_all()

    def _awaited(self) -> set[str] | None:
        """Return the notices of up to a second; None if a notice may be missed."""
        seconds = max(0.0, self._polled_at + POLL_SECONDS - time.monotonic())
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
        connection = MessageConnection(self._listen_url, CONNECT_SECONDS)
        try:
            check_format(connection, CONNECT_SECONDS)
            connection.ask(f"LISTEN {CHANNEL}", CONNECT_SECONDS)
        except BaseException:
            connection.close()
            raise
        self._pause = FIRST_PAUSE_SECONDS
        return connection

    def _poll(self) -> None:
        """Call every follower with the end of its log."""
        with self._news:
            registered = list(self._registered.items())
        try:
            rows = pool_of(self._url).ask(
                f"BEGIN READ ONLY; {ends_sql({follower.tenant for _, follower in registered})}; COMMIT", ASK_SECONDS
            )[1]
            ends = {str(own, "utf-8"): Tip(int(at), bytes.fromhex(head.decode())) for own, at, head in rows}  # type: ignore[arg-type,union-attr]
        except LedgerError as error:
            _logger.info("the ends of the shared logs could not be asked for: %s", error)
            ends = {}  # so that each follower finds out for itself
        with self._news:
            self._call({token: ends.get(follower.tenant) for token, follower in registered})

    def _tell(self, notices: set[str]) -> bool:
        """Call the followers that the notices mean; return True if this process writes to one of the followed logs."""
        with self._news:
            followers = self._registered.items()
            self._call({token: None for token, follower in followers if follower.is_meant(notices)})
            return any(follower.own in notices for _, follower in followers)

    # --- the threads that call -------------------------------------------------------------------------------------

    def _call(self, news: Mapping[object, Tip | None]) -> None:
        """Let threads call followers; the caller has the lock. A follower that waits already is called once."""
        for token, tip in news.items():
            if token in self._registered:
                self._due[token] = tip if token not in self._due else None
        for _ in range(min(len(self._due) - self._idle_callers, CALLERS - self._callers)):
            self._callers += 1
            threading.Thread(target=self._work, name="memory-ledger follower", daemon=True).start()
        self._news.notify(len(self._due))

    def _work(self) -> None:
        while True:
            with self._news:
                while (token := next((each for each in self._due if each not in self._called), None)) is None:
                    if not self._registered:
                        self._callers -= 1
                        return
                    self._idle_callers += 1
                    self._news.wait()
                    self._idle_callers -= 1
                tip, follower = self._due.pop(token), self._registered[token]
                self._called.add(token)
            is_unfinished = False
            with follower.calling:
                if token in self._registered:
                    try:
                        is_unfinished = bool(follower.on_news(tip))
                    except Exception:  # of one ledger; the others still want to hear
                        _logger.exception("a ledger could not follow its shared log")
            if is_unfinished:
                time.sleep(REST_SECONDS)
            with self._news:
                self._called.discard(token)
                self._call({token: None} if is_unfinished else {})


@cache
def _listener(url: str, listen_url: str, process: int) -> Listener:
    return Listener(url, listen_url)


def listener_of(url: str, listen_url: str) -> Listener:
    """Return the listener of this process for the URL of commands and the URL to listen at."""
    return _listener(url, listen_url, os.getpid())
