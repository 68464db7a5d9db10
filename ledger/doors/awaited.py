"""Calls of a ledger for a contract whose methods are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def to_the_end(write: Callable[[], T]) -> T:
    """Run a write on a thread and return its result.

    A task that is cancelled meanwhile, also again and again, ends when the write has ended. So its caller never repeats or undoes
    a write that is under way.
    """
    work = asyncio.ensure_future(asyncio.to_thread(write))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({work})
        if not work.cancelled():
            work.exception()  # the cancelled task has nobody to report an error to
        raise
