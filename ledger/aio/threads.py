"""The threads behind an ``AsyncLedger``: a few that read, more that work, and the ledger's one writer thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar, cast

from ledger.core.batches import waits_for_itself
from ledger.core.guarding import Unscanned
from ledger.domain.errors import RejectedError

if TYPE_CHECKING:
    from ledger.core.batches import CommitQueue
    from ledger.types import Cancel

T = TypeVar("T")
READERS = 4  # threads for reads, which share the 15 connections of one open ledger with everything else
WORKERS = 32  # threads for calls that search before they write, ask a model, or care for the file
_END = object()


class Threads:
    """The threads of one open ledger. A call returns to the task that awaits it, in whatever event loop the task runs.

    Args:
        queue: The queue of the ledger's writer thread; None if nothing may be decided there: the ledger is only read, or its
            user's own scanners take time.
    """

    def __init__(self, queue: CommitQueue | None) -> None:
        self._queue = queue
        self._readers = ThreadPoolExecutor(READERS, "ledger-reader")
        self._workers = ThreadPoolExecutor(WORKERS, "ledger-worker")
        self._followers: set[ThreadPoolExecutor] = set()
        self._closing = threading.Event()
        self._batching: set[int] = set()  # identifiers of the threads that are inside a batch

    async def read(self, call: Callable[[], T]) -> T:
        """Run a short read on a reading thread."""
        self._check_usable()
        return await _on(self._readers, call)

    async def work(self, call: Callable[[], T]) -> T:
        """Run a call on a working thread. Its commands wait there for the writer thread; a cancelled await stops nothing."""
        self._check_usable()
        return await asyncio.shield(_on(self._workers, call))

    async def decide(self, call: Callable[[], T]) -> T:
        """Run one command whole on the writer thread, in a group; a cancelled await stops nothing."""
        return await self._decided(call, alone=False)

    async def _decided(self, call: Callable[[], T], *, alone: bool) -> T:
        self._check_usable()
        if self._queue is None:
            return await self.work(call)
        from ledger.aio.commands import TaskCommand

        queued = TaskCommand(call, alone=alone)
        self._queue.submit(queued)
        try:
            return cast("T", await queued.settled)
        except Unscanned:  # a working thread scans the texts first, while the others' commands go on
            return await self.work(call)

    async def batch(self, call: Callable[[], T]) -> T:
        """Run a batch whole on the writer thread, alone; from inside it no awaited call of this ledger is taken."""

        def whole() -> T:
            thread = threading.get_ident()
            self._batching.add(thread)
            try:
                return call()
            finally:
                self._batching.discard(thread)

        return await self._decided(whole, alone=True)

    async def wait(self, call: Callable[[Cancel], T], cancel: Cancel | None) -> T:
        """Run a call that waits on a thread of its own; the thread ends with the await."""
        async for answer in self.iterate(lambda stop: iter((call(stop),)), cancel):
            return answer
        raise _closed()

    async def iterate(self, begin: Callable[[Cancel], Iterator[T]], cancel: Cancel | None) -> AsyncIterator[T]:
        """Iterate on a thread of the iteration's own, which ends with the iteration or the ledger."""
        from ledger.core.steps import check_call, is_called_off

        self._check_usable()
        check_call(None, cancel)
        ended = threading.Event()
        stop = lambda: ended.is_set() or self._closing.is_set() or is_called_off(cancel)  # noqa: E731
        thread = ThreadPoolExecutor(1, "ledger-follower")
        self._followers.add(thread)
        try:
            items = await _on(thread, lambda: iter(begin(stop)))
            while True:
                try:
                    answer = _on(thread, lambda: next(items, _END))
                except RuntimeError:  # the thread ended with the ledger
                    return
                if (item := await answer) is _END:
                    return
                yield cast("T", item)
        finally:
            ended.set()
            thread.shutdown(wait=False)
            self._followers.discard(thread)

    async def close(self, close: Callable[[], None]) -> None:
        """Take no more calls, let those under way end, and close the ledger."""
        self._check_outside()
        self._closing.set()

        def end() -> None:
            for threads in (*self._followers, self._readers, self._workers):
                threads.shutdown()
            close()

        await asyncio.shield(asyncio.to_thread(end))

    def _check_usable(self) -> None:
        """Refuse a call after the end of the ledger, or from inside a batch, whose end it would wait for."""
        self._check_outside()
        if self._closing.is_set():
            raise _closed()

    def _check_outside(self) -> None:
        if threading.get_ident() in self._batching:
            raise waits_for_itself()


def _closed() -> RejectedError:
    return RejectedError("this ledger is closed; open it again", rule="closed")


def _on(threads: ThreadPoolExecutor, call: Callable[[], T]) -> asyncio.Future[T]:
    """Begin a call on a thread, with the context variables of the task."""
    return asyncio.get_running_loop().run_in_executor(threads, copy_context().run, call)
