"""Server-sent events: the user's own events of the log, as they are committed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

import msgspec
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ledger import AsyncLedger, LedgerError, RejectedError
from ledger.answers import LogEntry

STREAMS, STREAMS_OF_A_USER = 32, 8  # at a time; each has a thread that looks for new events
PULSE_SECONDS = 15.0  # after which a quiet stream shows a sign of life, so that proxies keep it open


@dataclass
class Streams:
    """The open streams of a server.

    Attributes:
        ending: Set when the server stops; every stream then ends.
        pulse: Seconds between two signs of life of a quiet stream.
    """

    ending: asyncio.Event = field(default_factory=asyncio.Event)
    pulse: float = PULSE_SECONDS
    open: Counter[str] = field(default_factory=Counter)

    def enter(self, user: str) -> None:
        """Count a stream of a user.

        Raises:
            RejectedError: So many streams are open already.
        """
        if self.open.total() >= STREAMS or self.open[user] >= STREAMS_OF_A_USER:
            raise RejectedError(
                f"a stream was asked for, {self.open[user]} of this user are open, and {STREAMS_OF_A_USER} of one user or "
                f"{STREAMS} of all users may be; close one first",
                rule="streams",
                limit=STREAMS_OF_A_USER,
            )
        self.open[user] += 1

    def leave(self, user: str) -> None:
        self.open[user] -= 1
        if not self.open[user]:
            del self.open[user]


class EventStream(StreamingResponse):
    """The events of a user as an answer that goes on until the client leaves, the server stops or the token is revoked.

    The log has the events of all users; those of others are left out here. The id of an event is its position. A quiet stream
    sends now and then an id without an event, so that a client that comes back begins there.

    Args:
        ledger: The ledger.
        user: The user whose events are sent.
        streams: The open streams, among which this one is counted until it ends.
        after: The position after which the events begin.
        types: Only events of these types; none for all.
        valid: Returns False once the token was revoked.
    """

    def __init__(
        self,
        ledger: AsyncLedger,
        user: str,
        streams: Streams,
        *,
        after: int,
        types: Sequence[str],
        valid: Callable[[], bool],
    ) -> None:
        streams.enter(user)
        self._user, self._streams, self._position, self._valid = user, streams, after, valid
        self._entries = cast("AsyncGenerator[LogEntry]", ledger.history.follow(after, types=types))
        self._next: asyncio.Future[LogEntry] | None = None
        super().__init__(self._messages(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, and end the thread behind them however the sending ends."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.leave(self._user)
            if self._next is not None:
                self._next.cancel()
                await asyncio.gather(self._next, return_exceptions=True)
            await self._entries.aclose()

    async def _messages(self) -> AsyncIterator[bytes]:
        yield b": the events of this user\n\n"
        sent, ending = self._position, asyncio.ensure_future(self._streams.ending.wait())
        try:
            while True:
                if self._next is None:
                    self._next = asyncio.ensure_future(anext(self._entries))
                both: list[asyncio.Future[LogEntry] | asyncio.Future[Literal[True]]] = [self._next, ending]
                await asyncio.wait(both, timeout=self._streams.pulse, return_when=asyncio.FIRST_COMPLETED)
                if ending.done():
                    return
                if not self._next.done():
                    if not self._valid():
                        return
                    yield b":\n\n" if self._position == sent else b"id: %d\n\n" % self._position
                    sent = self._position
                    continue
                try:
                    entry = self._next.result()
                except (
                    StopAsyncIteration,
                    LedgerError,
                ):  # the ledger was closed, or the file failed: a new request says why
                    return
                self._next, self._position = None, entry.position
                if entry.user == self._user:
                    if not self._valid():
                        return
                    yield _message(entry)
                    sent = entry.position
        finally:
            ending.cancel()


def _message(entry: LogEntry) -> bytes:
    """Return an event as a server-sent event; JSON has no line break, so the data is one line."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (entry.position, entry.type.encode(), msgspec.json.encode(entry))
