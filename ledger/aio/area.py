"""The base classes of the generated classes: a namespace, and the parts of ``AsyncLedger`` that no call of ``Ledger`` has."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar

from ledger.aio.threads import Threads
from ledger.domain.errors import RejectedError
from ledger.domain.late import name_as_known

if TYPE_CHECKING:
    from ledger.aio.opening import QueuedLedger
    from ledger.api import Ledger

T = TypeVar("T")
L = TypeVar("L", bound="OpenedLedger")
LAZY = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


class AsyncArea:
    """A ledger or a namespace whose calls are awaited: the same object of the plain ledger, and the threads that call it."""

    __slots__ = ("_sync", "_threads")

    _sync: object

    def __init__(self, sync: object, threads: Threads | None = None) -> None:
        if threads is None:
            raise TypeError(
                f"{type(self).__name__} cannot be made directly: await AsyncLedger.open(path) opens a ledger"
            )
        self._sync, self._threads = sync, threads

    def __init_subclass__(cls) -> None:
        """Let an error about the arguments of a call name the class that users know."""
        name_as_known(cls)

    def __repr__(self) -> str:
        return f"<Async{repr(self._sync)[1:]}"


class Opening(Coroutine[object, object, L]):
    """The opening of a ledger: awaited, it gives the ledger; after ``async with``, it also closes the ledger at the end.

    It is a coroutine in its own right, so that ``asyncio.run`` and ``create_task`` take it.
    """

    __slots__ = ("_coroutine", "_ledger")

    def __init__(self, coroutine: Coroutine[object, object, L]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[object, object, L]:
        return self._coroutine.__await__()

    def send(self, value: object) -> object:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> object:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    async def __aenter__(self) -> L:
        self._ledger: L = await self._coroutine
        return self._ledger

    async def __aexit__(self, *_: object) -> None:
        await self._ledger.aclose()

    if not TYPE_CHECKING:  # type checkers refuse a plain ``with`` by themselves

        def __enter__(self) -> Never:
            self.close()
            raise _needs_async_with()

        def __exit__(self, *_: object) -> None: ...


def _needs_async_with() -> TypeError:
    return TypeError("an AsyncLedger is closed by an await: write `async with AsyncLedger.open(path) as ledger`")


class OpenedLedger(AsyncArea):
    """An open ledger: what belongs to its opening, its end and its batches."""

    __slots__ = ()

    _sync: Ledger

    @classmethod
    def _opened(cls, name: str, opening: Callable[[type[QueuedLedger]], QueuedLedger]) -> Opening[Self]:
        async def begun() -> Self:
            from ledger.aio.opening import open_with_threads

            return cls(*await asyncio.to_thread(open_with_threads, opening))

        begun.__qualname__ = f"{cls.__name__}.{name}"  # for Python's warning about an opening that nobody awaits
        return Opening(begun())

    @classmethod
    async def _apart(cls, call: Callable[[type[Ledger]], T]) -> T:
        """Run a call of the plain class, about a file that is not open, on a thread of its own."""

        def run() -> T:
            from ledger.api import Ledger

            return call(Ledger)

        return await asyncio.to_thread(run)

    async def in_batch(self, function: Callable[[Ledger], T]) -> T:
        """Call a function with the plain ledger, whole on the writer thread, and return its answer after the one commit.

        Inside, the rules of ``Ledger.batch(whole=True)`` hold: an exception takes back everything, and nothing asks a model. All
        other writes wait meanwhile.

        Args:
            function: A function, not a coroutine function. It receives this ledger as a ``Ledger``, for the same user, and calls
                that one alone: an awaited call of this ledger from inside would wait for itself, and is refused.

        Raises:
            RejectedError: The function is a coroutine function, which would hold the lock over the work of other tasks; or it is
                a generator function or returns an iterator, which would run after the commit.
        """
        shown = f"{function!r:.60}"
        if not callable(function) or any(is_lazy(function) for is_lazy in LAZY):
            raise RejectedError(f"in_batch takes a plain function of the ledger, and {shown} is none", rule="batch")

        def in_commit() -> T:
            with self._sync.batch(whole=True) as ledger:
                answer = function(ledger)
                if isinstance(answer, Awaitable | Iterator | AsyncIterator):
                    if inspect.iscoroutine(answer):
                        answer.close()  # or Python warns that nobody awaited it
                    raise RejectedError(
                        f"in_batch takes a plain function of the ledger, and {shown} returned a {type(answer).__name__}, "
                        "which would run after the commit; nothing was written. Let it return list(…)",
                        rule="batch",
                    )
                return answer

        return await self._threads.batch(in_commit)

    def batch(self) -> Never:
        """Refuse a batch around awaits, because it would hold the lock over the work of other tasks; ``in_batch`` is allowed."""
        raise RejectedError(
            "batch() would hold the writer's lock over the awaits of other tasks; give the commands as one plain function: "
            "await ledger.in_batch(lambda plain: …)",
            rule="batch",
        )

    async def aclose(self) -> None:
        """Take no more calls, wait for those under way, and close the file. A second call does nothing."""
        await self._threads.close(self._sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    if not TYPE_CHECKING:  # type checkers refuse a plain ``with`` by themselves

        def __enter__(self) -> Never:
            raise _needs_async_with()

        def __exit__(self, *_: object) -> None: ...
