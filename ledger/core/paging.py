"""The pages of a listing: their limit, their start, and the cursor of the next page."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar, cast

from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.ids import absent
from ledger.types import Page

T = TypeVar("T")
LIMIT, CAP = 50, 1_000
Key = int | str
K = TypeVar("K", bound=Key)


def page(
    listing: str,
    filters: Mapping[str, object],
    limit: int,
    after: str | None,
    fetch: Callable[[int, K | None], Sequence[T]],
    key: Callable[[T], K],
    *,
    oldest_first: bool = False,
    preceding: Callable[[K], Iterator[T]] | None = None,
) -> Page[T]:
    """Read one page of a listing.

    ``fetch(count, start)`` returns at most ``count`` items after the item whose ``key`` is ``start``, which is None for the
    first page. The cursor names its listing, its filters, its order and the last item, so items added at the other end move
    nothing. With ``preceding`` each page has its items in the opposite order, so that further pages come before it:
    ``preceding(key)`` yields all items before an item, in the order of the page.
    """
    count, more = checked_limit(limit), {"oldest_first": True} if oldest_first else {}
    mark = _mark(listing, {**filters, **more})
    start = cast("K | None", None if after is None else _opened(after, mark))
    if count == 0:
        return Page()
    items = fetch(count + 1, start)
    cursor = _cursor(mark, key(items[count - 1])) if len(items) > count else None
    items = items[:count]
    if preceding is not None:
        return Page(items[::-1], cursor, before=partial(preceding, key(items[-1])) if cursor is not None else None)
    follow = lambda cursor: page(listing, filters, limit, cursor, fetch, key, oldest_first=oldest_first)  # noqa: E731
    return Page(items, cursor, follow)


def of_all(items: Sequence[T], key: Callable[[T], K]) -> Callable[[int, K | None], Sequence[T]]:
    """Return a ``fetch`` for a listing that is short enough to be read whole; it refuses a cursor whose item is gone."""

    def fetch(count: int, start: K | None) -> Sequence[T]:
        if start is None:
            return items[:count]
        place = next((number for number, item in enumerate(items) if key(item) == start), None)
        if place is None:
            raise RejectedError("the item at this cursor is not listed any more: list again from the beginning")
        return items[place + 1 : place + 1 + count]

    return fetch


def found(what: str, id: object, answer: T | None) -> T:
    """Return the answer; raise ``NotFoundError`` if it is None."""
    if answer is None:
        raise NotFoundError(absent(what, id))
    return answer


def checked_limit(limit: object) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise RejectedError(f"limit is a whole number from 0 to {CAP:,}, and {limit!r:.40} is not", rule="limit")
    if not 0 <= limit <= CAP:
        raise RejectedError(
            f"limit is from 0 to {CAP:,}, and {_short(limit)} is not; page.all() goes through every page", rule="limit"
        )
    return limit


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**12 else "that number"


def _mark(listing: str, filters: Mapping[str, object]) -> str:
    question = json.dumps([listing, dict(sorted(filters.items()))], default=str)
    return hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _cursor(mark: str, key: Key) -> str:
    return base64.urlsafe_b64encode(json.dumps([mark, key]).encode()).decode().rstrip("=")


def _opened(cursor: object, mark: str) -> Key:
    try:
        if not isinstance(cursor, str):
            raise TypeError
        decoded = json.loads(base64.urlsafe_b64decode(cursor.encode() + b"=" * (-len(cursor) % 4)))
        listing_mark, key = decoded
        if not isinstance(key, int | str) or isinstance(key, bool) or (isinstance(key, int) and abs(key) >= 2**63):
            raise TypeError
    except (TypeError, ValueError, binascii.Error, RecursionError):
        raise RejectedError(f"{cursor!r:.60} is not a cursor: pass the value of page.next") from None
    if listing_mark != mark:
        raise RejectedError(
            "this cursor belongs to another listing or other filters: pass it to the same call with the same filters"
        )
    return key
