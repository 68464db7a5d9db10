"""Pages of listings whose further pages are awaited."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Never, TypeVar, overload

from ledger.types import Page

if TYPE_CHECKING:
    from ledger.sessions.search_answers import Hit, Hits

T = TypeVar("T")
Read = Callable[[Callable[[], tuple[T, ...]]], Awaitable[tuple[T, ...]]]


EVERY_PAGE = "`async for item in page.all()` goes through this page and all further ones"


class _Items(AsyncIterator[T]):
    """The items of a page and of every further page."""

    __slots__ = ("_items",)

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items

    async def __anext__(self) -> T:
        return await anext(self._items)

    async def aclose(self) -> None:
        await self._items.aclose()

    if not TYPE_CHECKING:  # type checkers refuse a plain ``for`` by themselves

        def __iter__(self) -> Never:
            raise TypeError(
                f"the items of further pages are awaited: {EVERY_PAGE}, `for item in page` through this one"
            )


class AsyncPage(Sequence[T]):
    """A part of a listing, in order. ``next`` is the cursor of the next page (``after=page.next``), None at the end."""

    __slots__ = ("_page", "_read")

    def __init__(self, page: Page[T], read: Read[T]) -> None:
        self._page, self._read = page, read

    @property
    def next(self) -> str | None:
        """Return the cursor of the next page, or None at the end."""
        return self._page.next

    def all(self) -> AsyncIterator[T]:
        """Yield the items of this and every further page. Each page is read when it is reached, without blocking."""
        return _Items(self._all())

    async def _all(self) -> AsyncGenerator[T, None]:
        for item in self._page:
            yield item
        items, size = self._page.all(), max(1, len(self._page))
        for _ in islice(items, len(self._page)):
            pass
        while part := await self._read(lambda: tuple(islice(items, size))):
            for item in part:
                yield item

    def to_dict(self) -> dict[str, Any]:
        """Return the items and ``next`` as dictionaries, lists, strings and numbers, ready for JSON."""
        return self._page.to_dict()

    if not TYPE_CHECKING:  # type checkers refuse ``async for`` over a page by themselves

        def __aiter__(self) -> Never:
            raise TypeError(f"`for item in page` goes through this page; {EVERY_PAGE}")

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
        self.total: int = page.total
        self.searched: int = page.searched
        self.is_exact: bool = page.is_exact
        self.hint: str = page.hint
