"""The answers of searching a session: the hits of a grep, and the messages that summaries stand for."""

from __future__ import annotations

from typing import Any

from ledger.core.call import Answer
from ledger.sessions.answers import Message
from ledger.types import Page


class Hit(Answer, frozen=True, kw_only=True):
    """A message or summary (``kind``) that a pattern matches, identified by its ``position``.

    ``occurred_at`` is the time of a message; a summary covers the time from ``occurred_at`` to ``until``. ``id``,
    ``summary_kind``, ``depth``, ``level`` and ``status`` are fields of a summary, as in ``Summary``; ``role`` and ``hidden`` are
    fields of a message. ``snippet`` shows the first matching place, and ``spans`` are the matching places within the snippet.
    ``score`` is the number of matching places in the text.
    """

    kind: str  # "message" or "summary"
    position: int
    session: str | None
    occurred_at: str
    until: str
    snippet: str
    spans: tuple[tuple[int, int], ...]
    score: int
    tokens: int
    role: str | None = None
    hidden: str = ""
    quarantined: bool = False  # True if recall does not return the text; grep still shows the text
    id: str | None = None
    summary_kind: str | None = None
    depth: int | None = None
    level: str | None = None
    status: str | None = None


class GrepResult(Answer, frozen=True, kw_only=True):
    """The ``hits`` of a grep, in the requested order.

    ``total`` is the number of all matches if ``is_exact``, else the number of matches so far. ``searched`` is the number of
    messages and summaries that were searched. ``hint`` names another place to search if nothing was found.
    """

    hits: tuple[Hit, ...] = ()
    places: tuple[int, ...] = ()  # the places of the hits, after which ``grep(after=)`` continues
    total: int = 0
    searched: int = 0
    is_exact: bool = True
    hint: str = ""


class Hits(Page[Hit]):
    """A page of hits.

    ``total`` is the number of matches from this page on if ``is_exact``, else there may be more. ``searched`` is the number of
    messages and summaries that were searched. ``hint`` names another place to search if nothing was found.
    """

    __slots__ = ("hint", "is_exact", "searched", "total")

    def __init__(self, page: Page[Hit], result: GrepResult) -> None:
        super().__init__(page._items, page._next, page._follow)
        self.total: int = result.total
        self.searched: int = result.searched
        self.is_exact: bool = result.is_exact
        self.hint: str = result.hint

    def __reduce__(self) -> tuple[Any, ...]:
        result = GrepResult(total=self.total, searched=self.searched, is_exact=self.is_exact, hint=self.hint)
        return type(self), (Page(self._items, self._next), result)


class Unexpanded(Answer, frozen=True, kw_only=True):
    """Messages that did not fit an expansion: the positions ``first`` to ``last``, their number and their tokens.

    ``summary`` is the id of a summary if the messages are all messages that it stands for, else None.
    """

    first: int
    last: int
    messages: int
    tokens: int
    summary: str | None = None

    @property
    def name(self) -> str:
        """Return the id or the positions by which to expand the messages."""
        return self.summary if self.summary is not None else f"{self.first}-{self.last}"


class Expansion(Answer, frozen=True, kw_only=True):
    """The whole messages behind summaries or positions, oldest first; hidden messages have their reason.

    ``used`` is the size of the messages, in tokens or characters (``unit``). ``rest`` lists the messages that did not fit, by
    summary or by positions. ``over_budget`` is True if the first message alone takes more than the ``budget``. ``unknown`` are
    the requested ids and positions that this session does not have.
    """

    messages: tuple[Message, ...]
    rest: tuple[Unexpanded, ...] = ()
    unknown: tuple[str | int, ...] = ()
    used: int = 0
    budget: int = 0
    unit: str = "tokens"
    over_budget: bool = False
