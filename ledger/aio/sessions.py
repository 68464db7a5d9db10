"""A session and the sessions of a user, with calls that are awaited.

``tools/pages/async_classes.py`` writes this file; the plain classes have the whole help.
"""

# fmt: off

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.aio.area import AsyncArea

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Literal, Unpack

    from ledger.aio.pages import AsyncHits, AsyncPage
    from ledger.extraction.answers import ExtractionReport
    from ledger.sessions.answers import CompactionReport, HistoryChange, Message, SessionInfo, Summary
    from ledger.sessions.api import Session, SessionRead, Sessions, SessionsRead, Summaries, SummariesRead
    from ledger.sessions.assembled import Window
    from ledger.sessions.diagram import SummaryGraph
    from ledger.sessions.rules.window import WindowItem
    from ledger.sessions.search_answers import Expansion, Unexpanded
    from ledger.types import (
        Cancel, Channel, Corpus, Json, Metadata, Method, ModelLike, Role, Since, SummarizerLike, SummaryStatus, Unit,
        WriteOptions,
    )


class AsyncSessionRead(AsyncArea):
    """A conversation for reading, now or at a moment of the past. Requesting a conversation writes nothing."""

    __slots__ = ()

    _sync: SessionRead

    async def id(self) -> str | None:
        """Return the session's id (``s_…``); None while the session has no messages."""
        return await self._read(lambda: self._sync.id)

    @property
    def name(self) -> str:
        """Return the name, alias or id by which the session was requested."""
        return self._sync.name

    @property
    def user(self) -> str:
        """Return the user to whom the session belongs."""
        return self._sync.user

    async def info(self) -> SessionInfo:
        """Return the state of the session: its names, counts and the size of its window."""
        return await self._read(lambda: self._sync.info())

    async def messages(
        self, *, metadata: Metadata | None = None, limit: int = 50, after: str | None = None,
        include_hidden: bool = False, oldest_first: bool = False,
    ) -> AsyncPage[Message]:
        """List messages in the order of time."""
        return self._page(await self._read(lambda: self._sync.messages(
            metadata=metadata, limit=limit, after=after, include_hidden=include_hidden, oldest_first=oldest_first,
        )))

    async def message(self, position: int | str) -> Message:
        """Return a message, hidden or not."""
        return await self._read(lambda: self._sync.message(position))

    async def items(self) -> tuple[WindowItem, ...]:
        """Return the messages and summaries of the window, oldest first, without their texts."""
        return await self._read(lambda: self._sync.items())

    async def abstract(self) -> str:
        """Return the summary of the whole session that a person wrote, or ""."""
        return await self._read(lambda: self._sync.abstract)

    @property
    def summaries(self) -> AsyncSummariesRead:
        """Return the summaries of the session, to list them and to draw their graph."""
        return AsyncSummariesRead(self._sync.summaries, self._threads)

    async def window(
        self, budget: int, *, unit: Unit = "tokens", query: str | None = None, share: float = 0.25,
        summary_share: float = 0.2, among: Iterable[Corpus] = ("memories", "chunks", "turns"), tail: int = 32,
        receipt: bool = False,
    ) -> Window:
        """Return the part of the session for a model: the newest messages that fit, and summaries of older messages."""
        return await self._read(lambda: self._sync.window(
            budget, unit=unit, query=query, share=share, summary_share=summary_share, among=among, tail=tail,
            receipt=receipt,
        ))

    async def grep(
        self, pattern: str, *, scope: Literal['both', 'message', 'summary'] = "both", role: Role | None = None,
        since: Since | None = None, until: Since | None = None, limit: int = 20, after: str | None = None,
        include_hidden: bool = False, order: Literal['newest', 'relevance'] = "newest", oldest_first: bool = False,
    ) -> AsyncHits:
        """List the messages and summaries of this session that a pattern matches, newest first."""
        return self._hits(await self._read(lambda: self._sync.grep(
            pattern, scope=scope, role=role, since=since, until=until, limit=limit, after=after,
            include_hidden=include_hidden, order=order, oldest_first=oldest_first,
        )))

    async def expand(
        self, ids: str | int | Unexpanded | Iterable[str | int | Unexpanded], *, budget: int = 4000,
        unit: Unit = "tokens",
    ) -> Expansion:
        """Return the whole messages behind summaries or positions, oldest first, as many as a budget holds."""
        return await self._read(lambda: self._sync.expand(ids, budget=budget, unit=unit))


class AsyncSession(AsyncSessionRead):
    """A conversation to which messages are appended, and which is kept within a model's window."""

    __slots__ = ()

    _sync: Session

    def bind(
        self, *, actor: str | None = None, client: str | None = None, channel: Channel | None = None,
        agent: str | None = None,
    ) -> AsyncSession:
        """Return the same session with another actor, client, channel or agent."""
        return AsyncSession(self._sync.bind(actor=actor, client=client, channel=channel, agent=agent), self._threads)

    async def append(
        self, role: Role, content: str = "", *, parts: Iterable[Mapping[str, Any]] = (),
        tool_calls: Iterable[Mapping[str, Any]] = (), tool_call_id: str | None = None, token_count: int | None = None,
        model: str = "", speaker: str = "", extra: Mapping[str, Any] | None = None, metadata: Metadata | None = None,
        raw: Json = None, **options: Unpack[WriteOptions],
    ) -> Message:
        """Add a message and return it."""
        return await self._work(lambda: self._sync.append(
            role, content, parts=parts, tool_calls=tool_calls, tool_call_id=tool_call_id, token_count=token_count,
            model=model, speaker=speaker, extra=extra, metadata=metadata, raw=raw, **options,
        ))

    async def extend(
        self, messages: Iterable[Mapping[str, Any] | Message], **options: Unpack[WriteOptions],
    ) -> HistoryChange:
        """Add several messages in one append, which one undo takes back."""
        return await self._work(lambda: self._sync.extend(messages, **options))

    @property
    def summaries(self) -> AsyncSummaries:
        """Return the summaries of the session, to list, invalidate, restore and rewrite them."""
        return AsyncSummaries(self._sync.summaries, self._threads)

    async def reopen(self, receipt: str) -> Window:
        """Return the window that ``window(…, receipt=True)`` returned at that time; erased texts are None."""
        return await self._work(lambda: self._sync.reopen(receipt))

    async def set_abstract(self, text: str, **options: Unpack[WriteOptions]) -> str:
        """Set the summary of the whole session, and return it."""
        return await self._work(lambda: self._sync.set_abstract(text, **options))

    async def set_metadata(
        self, metadata: Metadata | None = None, *, unset: Iterable[str] = (), **options: Unpack[WriteOptions],
    ) -> SessionInfo:
        """Set keys of the session's metadata, or remove keys; other keys keep their values."""
        return await self._work(lambda: self._sync.set_metadata(metadata, unset=unset, **options))

    async def compact(
        self, budget: int | None = None, *, until_under: bool = False, force: bool = False,
        summarizer: SummarizerLike | None = None, timeout: float = 120.0, **options: Unpack[WriteOptions],
    ) -> CompactionReport:
        """Put summaries in the place of older messages if there are enough; you may call this in every turn."""
        return await self._work(lambda: self._sync.compact(
            budget, until_under=until_under, force=force, summarizer=summarizer, timeout=timeout, **options,
        ))

    async def extract(
        self, *, method: Method | None = None, model: ModelLike | None = None, since: int | None = None,
        dry_run: bool = False, gate: bool = True, timeout: float | None = None, cancel: Cancel | None = None,
        **options: Unpack[WriteOptions],
    ) -> ExtractionReport:
        """Find candidates for memories in the messages since the last extraction."""
        return await self._work(lambda: self._sync.extract(
            method=method, model=model, since=since, dry_run=dry_run, gate=gate, timeout=timeout, cancel=cancel,
            **options,
        ))

    async def skip_extraction(
        self, *, parent: str | None = None, until: int | None = None, **options: Unpack[WriteOptions],
    ) -> SessionInfo:
        """Leave the beginning of the session out of later extractions, for a session that branched off another session."""
        return await self._work(lambda: self._sync.skip_extraction(parent=parent, until=until, **options))

    async def reconcile(
        self, transcript: Iterable[Mapping[str, Any] | Message], *, dry_run: bool = False,
        **options: Unpack[WriteOptions],
    ) -> HistoryChange:
        """Make the session equal to a transcript that is kept elsewhere."""
        return await self._work(lambda: self._sync.reconcile(transcript, dry_run=dry_run, **options))

    async def replace(
        self, messages: Iterable[Mapping[str, Any] | Message], **options: Unpack[WriteOptions],
    ) -> HistoryChange:
        """Make these messages the whole history; messages in common at the beginning stay."""
        return await self._work(lambda: self._sync.replace(messages, **options))

    async def truncate(self, keep: int, **options: Unpack[WriteOptions]) -> HistoryChange:
        """Hide all but the newest messages; hidden messages stay in the log, and ``include_hidden`` shows them."""
        return await self._work(lambda: self._sync.truncate(keep, **options))

    async def remove_last(self, count: int = 1, **options: Unpack[WriteOptions]) -> HistoryChange:
        """Hide the newest messages, as many as there are up to ``count``; an undo brings them back."""
        return await self._work(lambda: self._sync.remove_last(count, **options))

    async def clear(self, **options: Unpack[WriteOptions]) -> HistoryChange:
        """Begin the session again: hide every message, invalidate every summary, remove the abstract."""
        return await self._work(lambda: self._sync.clear(**options))

    async def add_alias(self, alias: str, **options: Unpack[WriteOptions]) -> SessionInfo:
        """Give the session another name."""
        return await self._work(lambda: self._sync.add_alias(alias, **options))


class AsyncSummariesRead(AsyncArea):
    """The summaries of one session."""

    __slots__ = ()

    _sync: SummariesRead

    async def list(
        self, *, statuses: Iterable[SummaryStatus] = (), limit: int = 50, after: str | None = None,
        oldest_first: bool = False,
    ) -> AsyncPage[Summary]:
        """List summaries, newest first."""
        return self._page(await self._read(lambda: self._sync.list(
            statuses=statuses, limit=limit, after=after, oldest_first=oldest_first,
        )))

    async def graph(self, *, include_replaced: bool = False) -> SummaryGraph:
        """Return the window with the sources of each summary; ``as_mermaid()`` of the graph returns a flowchart."""
        return await self._read(lambda: self._sync.graph(include_replaced=include_replaced))


class AsyncSummaries(AsyncSummariesRead):
    """The summaries of one session, with the commands that change them."""

    __slots__ = ()

    _sync: Summaries

    async def add(
        self, content: str, sources: Iterable[str | int], *, token_count: int | None = None, model: str = "",
        **options: Unpack[WriteOptions],
    ) -> Summary:
        """Record a summary that was written elsewhere, in the place of a stretch of the window; no model is asked."""
        return await self._work(lambda: self._sync.add(
            content, sources, token_count=token_count, model=model, **options,
        ))

    async def invalidate(
        self, id: str, *, subtree: bool = False, reason: str = "", **options: Unpack[WriteOptions],
    ) -> HistoryChange:
        """Take a summary out of use, and every summary that was written from it; their sources are in the window again."""
        return await self._work(lambda: self._sync.invalidate(id, subtree=subtree, reason=reason, **options))

    async def restore(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> Summary:
        """Bring an invalidated summary back into the window."""
        return await self._work(lambda: self._sync.restore(id, reason=reason, **options))

    async def rewrite(
        self, id: str, *, summarizer: SummarizerLike | None = None, timeout: float = 120.0,
        **options: Unpack[WriteOptions],
    ) -> Summary:
        """Write a summary again from the same sources; the new summary takes the place of the old summary."""
        return await self._work(lambda: self._sync.rewrite(id, summarizer=summarizer, timeout=timeout, **options))


class AsyncSessionsRead(AsyncArea):
    """The sessions of a user, now or as they were at a moment."""

    __slots__ = ()

    _sync: SessionsRead

    async def list(
        self, *, project: str | None = None, metadata: Metadata | None = None, limit: int = 50,
        after: str | None = None, oldest_first: bool = False,
    ) -> AsyncPage[SessionInfo]:
        """List sessions, newest first."""
        return self._page(await self._read(lambda: self._sync.list(
            project=project, metadata=metadata, limit=limit, after=after, oldest_first=oldest_first,
        )))

    async def get(self, name: str) -> SessionInfo:
        """Return the state of a session."""
        return await self._read(lambda: self._sync.get(name))

    async def grep(
        self, pattern: str, *, scope: Literal['both', 'message', 'summary'] = "both", role: Role | None = None,
        since: Since | None = None, until: Since | None = None, limit: int = 20, after: str | None = None,
        include_hidden: bool = False, order: Literal['newest', 'relevance'] = "newest", oldest_first: bool = False,
    ) -> AsyncHits:
        """List the messages and summaries of all sessions that a pattern matches, newest first."""
        return self._hits(await self._read(lambda: self._sync.grep(
            pattern, scope=scope, role=role, since=since, until=until, limit=limit, after=after,
            include_hidden=include_hidden, order=order, oldest_first=oldest_first,
        )))


class AsyncSessions(AsyncSessionsRead):
    """The sessions of a user."""

    __slots__ = ()

    _sync: Sessions
