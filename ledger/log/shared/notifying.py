"""The notices of commits: a thread of a process sends them after the commits, many at once.

A notice inside of a commit would hold a lock of the whole server until the disk, and a synchronous standby, have the commit. A
notice that is lost costs a second, because every follower asks once a second.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from functools import cache

from ledger.domain.errors import LedgerError
from ledger.log.shared.connections import (
    GRACE_SECONDS,
    LostError,
    MessageConnection,
    Pool,
    RefusedError,
    pool_of,
    text_literal,
)

REST_SECONDS = 0.015  # between two messages; the commits meanwhile are told together
IDLE_SECONDS = 30.0  # without a commit, after which the thread ends and its connection is closed

Notice = tuple[str, str]  # a channel, and what is said there

_logger = logging.getLogger("ledger")


class Notifier:
    """A thread that sends notices by a connection of its own, whose commits wait for no disk.

    Attributes:
        messages: The number of messages that were sent.
    """

    def __init__(self, pool: Pool) -> None:
        self.messages: int = 0
        self._pool = pool
        self._news = threading.Condition()
        self._waiting: dict[Notice, None] = {}
        self._thread: threading.Thread | None = None
        self._connection: MessageConnection | None = None  # the thread's alone

    def add(self, *notices: Notice) -> None:
        """Send notices soon; one that waits already is sent once."""
        with self._news:
            self._waiting |= dict.fromkeys(notices)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="memory-ledger notifier", daemon=True)
                self._thread.start()
            self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                if not self._news.wait_for(lambda: self._waiting, IDLE_SECONDS):
                    self._close()
                    self._thread = None
                    return
                notices, self._waiting = self._waiting, {}
            try:
                self._send(notices)
            except (LostError, RefusedError, LedgerError) as error:
                _logger.info("other machines hear of a commit within a second only: %s", error)
                self._close()
            time.sleep(REST_SECONDS)

    def _send(self, notices: dict[Notice, None]) -> None:
        if self._connection is None:
            self._connection = self._pool.connect(GRACE_SECONDS)  # besides the pool, whose commands do not wait for it
        values = ", ".join(f"({text_literal(channel)}, {text_literal(said)})" for channel, said in notices)
        self.messages += 1
        self._connection.ask(
            "BEGIN; SET LOCAL synchronous_commit = off;"
            f" SELECT pg_notify(channel, said) FROM (VALUES {values}) AS notices (channel, said); COMMIT",
            GRACE_SECONDS,
        )

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


@cache
def _notifier(url: str, process: int) -> Notifier:
    return Notifier(pool_of(url))


def notifier_of(url: str) -> Notifier:
    """Return the notifier of this process for a URL."""
    return _notifier(url, os.getpid())
