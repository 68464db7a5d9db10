"""Pages of listings whose further pages are awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, overload

from ledger.types import Page

if TYPE_CHECKING:
    from ledger.sessions.search_answers import Hit, Hits

T = TypeVar("T")
Read = Callable[[Callable[[], tuple[T, ...]]], Awaitable[tuple[T, ...]]]


class AsyncPage(Sequence[T]):
    """A part of a listing, in order. ``next`` is the cursor of the next page (``after=page.next``), None at the end."""

    __slots__ = ("_page", "_read")

    def __init__(self, page: Page[T], read: Read[T]) -> None:
        self._page, self._read = page, read

    @property
    def next(self) -> str | None:
        """Return the cursor of the next page, or None at the end."""
        return self._page.next

    async def all(self) -> AsyncIterator[T]:
        """Yield the items of this and every further page. Each page is read when it is reached, without blocking."""
        for item in self._page:
            yield item
        items, size = self._page.all(), max(1, len(self._page))
        for _ in islice(items, len(self._page)):
            pass
        while part := await self._read(lambda: tuple(islice(items, size))):
            for item in part:
                yield item

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self._page[index]

    def __len__(self) -> int:
        return len(self._page)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, AsyncPage):
            return (tuple(self), self.next) == (tuple(other), other.next)
        return self._page == other

    def __hash__(self) -> int:
        return hash(self._page)

    def __repr__(self) -> str:
        return f"<Async{repr(self._page)[1:]}"


class AsyncHits(AsyncPage["Hit"]):
    """A page of hits, with ``total``, ``is_exact``, ``searched`` and ``hint`` as in ``Hits``."""

    __slots__ = ("hint", "is_exact", "searched", "total")

    def __init__(self, page: Hits, read: Read[Hit]) -> None:
        super().__init__(page, read)
        self.total, self.searched, self.is_exact, self.hint = page.total, page.searched, page.is_exact, page.hint
