"""The base class of a ledger and its namespaces, the errors for unknown names, and pages.

Users bring names from mem0, Zep, LangMem and ChromaDB. Only a name that is not there reads the tables of these names, which
offer no second way to do anything. A page of a listing has a limit, a start, and the cursor of the next page.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ledger.core.call import Who
from ledger.domain import times
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.ids import absent
from ledger.domain.late import name_as_known
from ledger.types import Page, Since

if TYPE_CHECKING:
    from ledger.core.engine import ReadingEngine


def callback(progress: Callable[[int, int], None] | None) -> Callable[[int, int], None] | None:
    """Return a progress callback, called with (done, total); raise ``RejectedError`` if it cannot be called."""
    if progress is not None and not callable(progress):
        raise RejectedError(f"progress takes a function of two numbers, done and total, not {progress!r:.40}")
    return progress


class Area:
    """A ledger or a namespace, with its engine and its user. It refers to no ledger, so there are no cycles of references."""

    __slots__ = ("_engine", "_scope")

    _engine: ReadingEngine

    def __init__(self, engine: ReadingEngine, scope: Who | None = None) -> None:
        if scope is None:
            raise TypeError(f"{type(self).__name__} cannot be made directly: Ledger.open(path) opens a ledger")
        self._engine, self._scope = engine, scope

    def _bounds(self, since: Since | None, until: Since | None) -> dict[str, str]:
        """Return the bounds that are not None as stored times; a duration counts back from the present of the engine."""
        bounds = {name: value for name, value in (("since", since), ("until", until)) if value is not None}
        return {name: times.since(name, value, self._engine.now()) for name, value in bounds.items()}

    def __init_subclass__(cls) -> None:
        """Name the methods after the class that users know, as an error about their arguments shows them."""
        name_as_known(cls)

    if not TYPE_CHECKING:  # a type checker must still report an unknown name, and the call of a namespace, as an error

        def __getattr__(self, name: str) -> object:
            raise attribute_error(self, name)

        def __call__(self, *_: object, **__: object) -> None:
            raise call_error(type(self))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._engine.path!r} user={self._scope.user!r}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be pickled: open the ledger there by its path")


# --- names of other products -----------------------------------------------------------------------------------------

_SEARCH = "ledger.recall(question) searches"
_CHANGE = "ledger.supersede(id, text) records a new fact, and ledger.revise(id, text) another wording"
_REMOVE = "ledger.retract(id) takes a memory out of use, and ledger.erase(id) removes its text for good"
_RECORD = "ledger.remember(text) records a statement, and ledger.add(messages) a conversation"
_LIST = "ledger.memories.list() lists memories"
CALLS = {
    "search": _SEARCH,
    "query_memories": _SEARCH,
    "get": "ledger.memories.get(id) returns a memory",
    "get_all": _LIST,
    "list": _LIST,
    "memory": f"ledger.memories.get(id) returns a memory, and {_LIST}",
    "add_memory": _RECORD,
    "put": _RECORD,
    "save": _RECORD,
    "store": _RECORD,
    "update": _CHANGE,
    "upsert": _CHANGE,
    "delete": _REMOVE,
    "forget": _REMOVE,
    "delete_all": "ledger.erase(types.EVERYTHING) removes all texts of the user for good",
    "audit": "ledger.history.audit() lists events",
    "log": "ledger.history.audit() lists events, newest first, and ledger.history.log() reads them in order",
    "diff": "ledger.history.diff(…) compares two moments",
    "what_if": "ledger.history.what_if(…) shows what would be believed without something",
}
"""Calls that neither a ledger nor ``ledger.memories`` has."""

HINTED = ("Ledger", "PastLedger", "Memories")  # the classes on which users type the calls of CALLS

CALLED = {
    "History": "ledger.why(id) says why something is believed, ledger.history.events(id) lists all of its events, and "
    "ledger.history.audit(subject=id) says who recorded them",
    "Ledger": "ledger.recall(question) searches, and ledger.remember(text) records",
    "Sessions": "ledger.session(name) is one conversation",
}
"""Hints for objects that users call, by the name of the class; other namespaces list their calls."""


class UnknownCallError(AttributeError):
    """The call of another product's method on a ledger; the message names our method."""


def attribute_error(owner: object, name: str) -> AttributeError:
    """Return the error for an attribute that a ledger or a namespace does not have."""
    kind = type(owner).__name__.removesuffix("Read")
    if _writes(type(owner), name):
        known = kind.removeprefix("Past")
        return AttributeError(f"{known} has no {name!r} as of a moment: it only reads; call it on the open ledger")
    if kind in HINTED and (hint := CALLS.get(name)) is not None:
        return UnknownCallError(f"{kind} has no {name!r}: {hint}")
    return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=owner)


def _writes(kind: type, name: str) -> bool:
    """Return True if a class only reads the past, and its class that also writes has the call."""
    reads = next((base for base in kind.__mro__[:2] if base.__name__.endswith("Read")), None)
    if reads is None or (kind is not reads and kind.__name__ != "PastLedger"):
        return False
    writing: list[type] = reads.__subclasses__()
    return any(hasattr(wider, name) for wider in writing)


def call_error(kind: type) -> TypeError:
    """Return the error for a ledger or a namespace that was called like a method."""
    name = kind.__name__.removesuffix("Read")
    own = (call for call in dir(kind) if not call.startswith("_") and callable(getattr(kind, call)))
    return TypeError(f"{name} cannot be called: {CALLED.get(name) or 'its calls are ' + ', '.join(own)}")


# --- pages -----------------------------------------------------------------------------------------------------------

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
