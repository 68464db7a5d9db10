"""What searching a session answers: hits of a grep, and what a summary was written from."""

from __future__ import annotations

from typing import Any

from ledger.engine.answer import Answer
from ledger.sessions.answers import Message
from ledger.types import Page


class Hit(Answer, frozen=True, kw_only=True):
    """A message or summary (``kind``) that a pattern matches, known by its ``position``.

    ``occurred_at`` is when the message was said; of a summary ``occurred_at`` to ``until`` is the time that it covers. ``id``,
    ``summary_kind``, ``depth``, ``level`` and ``status`` are a summary's, as in ``Summary``; ``role`` and ``hidden`` a
    message's. ``snippet`` shows the first place that matches, ``spans`` where in the snippet there are some; ``score`` is in
    how many places the text has what was looked for.
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
    quarantined: bool = False  # kept out of recall, and shown here as it was said
    id: str | None = None
    summary_kind: str | None = None
    depth: int | None = None
    level: str | None = None
    status: str | None = None


class GrepResult(Answer, frozen=True, kw_only=True):
    """The ``hits`` of a grep, newest first. ``total`` is how many there are in all where it ``is_exact``, else there may be
    more. ``searched`` is among how many messages and summaries; ``hint`` says where to look where nothing was found."""

    hits: tuple[Hit, ...]
    places: tuple[int, ...] = ()  # of each hit: ``grep(after=)`` goes on behind it
    total: int
    searched: int
    is_exact: bool = True
    hint: str = ""


class Hits(Page[Hit]):
    """A page of hits. ``total`` is how many match from this page on where it ``is_exact``, else there may be more;
    ``searched`` among how many messages and summaries; ``hint`` says where to look where nothing was found."""

    __slots__ = ("hint", "is_exact", "searched", "total")

    def __init__(self, page: Page[Hit], found: GrepResult | None) -> None:
        super().__init__(page._items, page._next, page._follow)
        found = found if found is not None else GrepResult(hits=(), total=0, searched=0)
        self.total, self.searched, self.is_exact, self.hint = found.total, found.searched, found.is_exact, found.hint

    def __reduce__(self) -> tuple[Any, ...]:
        rest = GrepResult(hits=(), total=self.total, searched=self.searched, is_exact=self.is_exact, hint=self.hint)
        return type(self), (Page(self._items, self._next), rest)


class Unexpanded(Answer, frozen=True, kw_only=True):
    """What did not fit: the messages at the positions ``first`` to ``last``, how many with how many tokens; where they are
    all that a ``summary`` stands for, its id."""

    first: int
    last: int
    messages: int
    tokens: int
    summary: str | None = None

    @property
    def name(self) -> str:
        """What to expand it by."""
        return self.summary if self.summary is not None else f"{self.first}-{self.last}"


class Expansion(Answer, frozen=True, kw_only=True):
    """Messages whole, in the order in which they were said; a hidden one says so. ``used`` is what they take of the
    ``budget``, in tokens or characters (``unit``).

    ``rest`` is what is still to expand, by its summary's id or its positions. ``over_budget`` where the first message
    alone takes more than was allowed. ``unknown`` is what of the ids and positions asked for this session does not have.
    """

    messages: tuple[Message, ...]
    rest: tuple[Unexpanded, ...] = ()
    unknown: tuple[str | int, ...] = ()
    used: int = 0
    budget: int = 0
    unit: str = "tokens"
    over_budget: bool = False
