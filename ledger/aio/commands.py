"""A command of a task in the queue of the writer thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

from ledger.core.batches import QueuedCommand


class TaskCommand(QueuedCommand):
    """A command whose task awaits ``settled``."""

    __slots__ = ("settled",)

    def __init__(self, call: Callable[[], object], *, alone: bool = False) -> None:
        super().__init__(call, alone=alone)
        self.settled: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    @classmethod
    def deliver(cls, settled: Sequence[Self]) -> None:
        """Give the answers of a group to the tasks that wait, with one call into each event loop."""
        loops: dict[asyncio.AbstractEventLoop, list[Self]] = {}
        for queued in settled:
            loops.setdefault(queued.settled.get_loop(), []).append(queued)
        for loop, commands in loops.items():
            with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
                loop.call_soon_threadsafe(_answer, commands)


def _answer(commands: Sequence[TaskCommand]) -> None:
    for queued in commands:
        if queued.settled.done():  # the await was cancelled; the command stands
            continue
        if queued.error is None:
            queued.settled.set_result(queued.answer())
        elif isinstance(queued.error, StopIteration):  # which a future does not take
            queued.settled.set_exception(RuntimeError("the function raised StopIteration"))
        else:
            queued.settled.set_exception(queued.error)
