"""The public interface of sessions: ``ledger.session(name)`` and ``ledger.sessions``, which is all of a user's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from msgspec.structs import asdict, replace

from ledger.core.area import CAP, LIMIT, Area, page
from ledger.core.call import Who
from ledger.domain import times
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.metadata import NO_PAIRS, checked
from ledger.domain.text import plural, texts
from ledger.extraction import answers as ledger_answers
from ledger.extraction import cursor
from ledger.extraction import sessions as session_extraction
from ledger.sessions import (
    answers,
    assembling,
    compacting,
    diagram,
    expanding,
    grepping,
    reading,
    reconciling,
    rewriting,
    summary_writes,
    writing,
)
from ledger.sessions.assembled import Window
from ledger.sessions.conversation import Conversation, EveryConversation
from ledger.sessions.diagram import SummaryGraph
from ledger.sessions.grepping import GrepRequest
from ledger.sessions.rules.assembly import FRESH_TAIL
from ledger.sessions.rules.compaction import EXPAND_TOKENS
from ledger.sessions.rules.message import draft as message_draft
from ledger.sessions.rules.window import WindowItem
from ledger.sessions.search_answers import Expansion, GrepResult, Hit, Hits, Unexpanded
from ledger.sessions.transcripts import as_parts, to_append
from ledger.types import (
    Cancel,
    Channel,
    Corpus,
    Json,
    Metadata,
    Method,
    Page,
    Role,
    Since,
    SummaryStatus,
    Unit,
    WriteOptions,
)
from projections.core.rows import Start

if TYPE_CHECKING:
    from ledger.core.engine import ReadingEngine
    from ledger.types import ModelLike, SummarizerLike

SUMMARY_SHARE, TIMEOUT_SECONDS, HITS = 0.2, 120.0, 20
Scopes = Literal["both", "message", "summary"]
Orders = Literal["newest", "relevance"]


class SessionRead(Area):
    """A conversation for reading, now or at a moment of the past. Requesting a conversation writes nothing."""

    __slots__ = ("_inner", "_project")

    def __init__(self, engine: ReadingEngine, scope: Who, name: str, project: str | None) -> None:
        super().__init__(engine, scope)
        self._project = project
        self._inner = Conversation(engine, scope, name, project)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} user={self.user!r}>"

    @property
    def id(self) -> str | None:
        """The session's id (``s_…``); None while the session has no messages."""
        return self._inner.id

    @property
    def name(self) -> str:
        """The name, alias or id by which the session was requested."""
        return self._inner.name

    @property
    def user(self) -> str:
        """The user to whom the session belongs."""
        return self._scope.user

    def info(self) -> answers.SessionInfo:
        """Return the state of the session: its names, counts and the size of its window.

        Raises:
            NotFoundError: The session has no messages yet.
        """
        info = reading.get_info(self._inner)
        if info is None:
            raise NotFoundError(f"no session of this user has messages under the name {self.name!r:.60}")
        return info

    def messages(
        self,
        *,
        metadata: Metadata | None = None,
        limit: int = LIMIT,
        after: str | None = None,
        include_hidden: bool = False,
        oldest_first: bool = False,
    ) -> Page[answers.Message]:
        """List messages in the order of time.

        The first page holds the newest messages, the next page the messages before them; ``all`` begins with the oldest.

        Args:
            metadata: Only messages that have all of these keys with exactly these values; None is a value too.
            include_hidden: Include truncated, replaced and cleared messages; their ``hidden`` has the reason.
            oldest_first: Begin with the page of the oldest messages; a cursor belongs to one order.
        """

        def fetch(count: int, place: int | None) -> Sequence[answers.Message]:
            if isinstance(place, str):
                raise RejectedError("this cursor names no message: pass the value of page.next")
            start = Start(place, oldest_first)
            return reading.list_messages(self._inner, count, start, hidden=include_hidden, pairs=pairs)

        def preceding(position: int) -> Iterator[answers.Message]:
            pages = self.messages(metadata=metadata, limit=CAP, include_hidden=include_hidden, oldest_first=True)
            return takewhile(lambda message: message.position < position, pages.all())

        pairs = checked(metadata)
        return page(
            "messages",
            self._filters(hidden=include_hidden, metadata=pairs),
            limit,
            after,
            fetch,
            _position,
            oldest_first=oldest_first,
            preceding=None if oldest_first else preceding,
        )

    def message(self, position: int | str) -> answers.Message:
        """Return a message, hidden or not.

        Args:
            position: The position in the log, as in ``Message.position``, or the id of the message.

        Raises:
            NotFoundError: This session has no such message.
        """
        message = reading.get_message(self._inner, position)
        if message is None:
            place = "with the id" if isinstance(position, str) else "at the position"
            raise NotFoundError(f"the session {self.name!r:.60} has no message {place} {position!r:.40}")
        return message

    def items(self) -> tuple[WindowItem, ...]:
        """Return the messages and summaries of the window, oldest first, without their texts."""
        return tuple(reading.window_items(self._inner))

    @property
    def abstract(self) -> str:
        """The summary of the whole session that a person wrote, or ""."""
        return reading.abstract(self._inner)

    @property
    def summaries(self) -> SummariesRead:
        """The summaries of the session, to list them and to draw their graph."""
        return SummariesRead(self._inner)

    def window(
        self,
        budget: int,
        *,
        unit: Unit = "tokens",
        question: str | None = None,
        share: float | None = None,
        summary_share: float = SUMMARY_SHARE,
        among: Iterable[Corpus] = ("memories", "chunks", "turns"),
        tail: int = FRESH_TAIL,
        receipt: bool = False,
    ) -> Window:
        """Return the part of the session for a model: the newest messages that fit, and summaries of older messages.

        The window begins with a message that a provider accepts, never with a tool's result without its call. The newest user
        message is always included whole. If its turn does not fit, the oldest tool results of the turn are shortened and marked;
        ``over_budget`` is True if that is not enough. ``Window.render`` returns a provider's messages.

        Args:
            budget: The most that the window may take, counted in ``unit``; 1 or more.
            unit: "tokens" or "chars".
            question: A text about which memories are added, as ``Ledger.context`` returns them, without those in the window.
            share: The part of the budget that memories may take of the room that the last user turn leaves, from 0 and below 1;
                with a question a quarter if None. Given without a question, the memories are the rules, goals and preferences
                of this session, what its summaries left out, and the latest.
            summary_share: The part of the budget that is kept for summaries, from 0 and below 1; ``Window.summaries_evicted`` is
                the number of summaries that did not fit.
            among: The sources of the memories: "memories", "chunks", "turns".
            tail: A last user turn of at most so many items loses no item, only parts of its tool results.
            receipt: True to record the window, so that ``reopen`` returns the same window. Nothing else is written.

        Raises:
            RejectedError: An argument is out of range, or a receipt was requested for a session that a pattern keeps out.
        """
        corpora = plural("among", among, get_args(Corpus))
        texts(question=question)
        return assembling.assemble(
            self._inner,
            budget,
            unit=unit,
            question=question,
            share=share,
            summary_share=summary_share,
            among=corpora,
            tail=tail,
            receipt=receipt,
        )

    def grep(
        self,
        pattern: str,
        *,
        scope: Scopes = "both",
        role: Role | None = None,
        since: Since | None = None,
        until: Since | None = None,
        limit: int = HITS,
        after: str | None = None,
        include_hidden: bool = False,
        order: Orders = "newest",
        oldest_first: bool = False,
    ) -> Hits:
        """List the messages and summaries of this session that a pattern matches, newest first.

        Args:
            pattern: Words, "a phrase", a beginning*, AND, OR, NOT and parentheses; or %any text%, inside of words too. Words that
                no text has are looked for inside of words, and ``hint`` says so.
            scope: "both", "message" or "summary".
            role: Only messages of this role.
            include_hidden: Include hidden messages, and summaries that were replaced or invalidated.
            order: "newest", or "relevance" for the best of at most 10,000 matches first, by BM25.
        """
        request = GrepRequest(
            pattern=pattern,
            scope=scope,
            role=role,
            since=since,
            until=until,
            include_hidden=include_hidden,
            order=order,
            oldest_first=oldest_first,
        )
        return _grep(self._inner, request, limit, after, self._filters())

    def expand(
        self,
        ids: str | int | Unexpanded | Iterable[str | int | Unexpanded],
        *,
        budget: int = EXPAND_TOKENS,
        unit: Unit = "tokens",
    ) -> Expansion:
        """Return the whole messages behind summaries or positions, oldest first, as many as a budget holds.

        Messages that do not fit are listed in ``rest``, which a next call can expand.

        Args:
            ids: Ids of summaries, positions of messages (45 or "45-67"), or the ``rest`` of an expansion; one or several.
            budget: The most that the messages may take, counted in ``unit``; a first message that is larger is returned whole.
            unit: "tokens" or "chars".
        """
        return expanding.expand(self._inner, ids, budget=budget, unit=unit)

    def _filters(self, **more: object) -> dict[str, Any]:
        return {"user": self.user, "session": self.name, **more}


class Session(SessionRead):
    """A conversation to which messages are appended, and which is kept within a model's window.

    A session begins with its first message and belongs to one user. ``bind`` changes the actor.
    """

    __slots__ = ()

    def bind(
        self,
        *,
        actor: str | None = None,
        client: str | None = None,
        channel: Channel | None = None,
        agent: str | None = None,
    ) -> Session:
        """Return the same session with another actor, client, channel or agent.

        Args:
            actor: The person or program that acts; None keeps the value, for every argument.
            client: The program through which the actor acts.
            channel: The kind of input: "user", "tool", "web", "agent" or "file".
            agent: The agent for which the actor acts.
        """
        scope = self._scope.bound({"actor": actor, "client": client, "channel": channel, "agent": agent})
        return Session(self._engine, scope, self.name, self._project)

    def append(
        self,
        role: Role,
        content: str = "",
        *,
        parts: Iterable[Mapping[str, Any]] = (),
        tool_calls: Iterable[Mapping[str, Any]] = (),
        tool_call_id: str | None = None,
        token_count: int | None = None,
        model: str = "",
        speaker: str = "",
        extra: Mapping[str, Any] | None = None,
        metadata: Metadata | None = None,
        raw: Json = None,
        **options: Unpack[WriteOptions],
    ) -> answers.Message:
        """Add a message and return it.

        A message that a pattern keeps out, or that has only reasoning, is not stored; ``skipped`` has the reason. With
        ``expected=0`` the session must have no messages.

        Args:
            role: "user", "assistant", "system", "developer" or "tool".
            content: The text of the message.
            parts: Objects with a type: text, tool_use (id, name, arguments), tool_result (id, text), media (uri, mime),
                reasoning (text), or a type of OpenAI chat completions or Anthropic messages. Their other fields are kept as
                their ``extra``.
            tool_calls: Calls in the form of the OpenAI chat format.
            tool_call_id: The id of the call whose result the content is.
            token_count: The count of the model's own tokenizer; without it the ledger's counter counts.
            model: The model that wrote the message.
            speaker: The name of the author, if several persons share a role.
            extra: Other fields of the message for its provider, as in {"openai": {"annotations": […]}}.
            metadata: Keys of your own, which no model gets: {"channel": "C024BE91L"}.
            raw: JSON of your own, at most 10 MiB, that ``Message.raw`` returns equal, such as another program's form of the
                message. In the place of a secret it has a mark, within the same text of the JSON. No window, search or
                extraction reads it. A message with raw may say nothing else.

        Raises:
            RejectedError: The message has no content, or a field that is not JSON or larger than 512 KiB.
        """
        if tool_calls or tool_call_id:
            content, parts = as_parts(content, parts, tool_calls, tool_call_id)
        return writing.append(
            self._inner,
            self._scope.asker(options),
            message_draft(role, content, parts, speaker=speaker, extra=extra, has_raw=raw is not None),
            token_count=token_count,
            model=model,
            metadata=NO_PAIRS if metadata is None else metadata,
            raw=raw,
        )

    def extend(
        self, messages: Iterable[Mapping[str, Any] | answers.Message], **options: Unpack[WriteOptions]
    ) -> answers.HistoryChange:
        """Add several messages in one append, which one undo takes back.

        With ``expected=0`` the session must have no messages.

        Args:
            messages: At most 5,000, as in ``reconcile``; an object may have ``raw`` as in ``append``. Blank messages are left
                out.

        Raises:
            RejectedError: One of them is no message; nothing is appended.
            ConflictError: The session changed after ``expected``, or has messages although 0 was expected.
        """
        return writing.extend(self._inner, self._scope.asker(options), *to_append(messages))

    @property
    def summaries(self) -> Summaries:
        """The summaries of the session, to list, invalidate, restore and rewrite them."""
        return Summaries(self._inner, self._scope)

    def reopen(self, receipt: str) -> Window:
        """Return the window that ``window(…, receipt=True)`` returned at that time; erased texts are None.

        Args:
            receipt: The ``receipt`` of the window.

        Raises:
            NotFoundError: This session has no such receipt.
        """
        window = assembling.reopen(self._inner, receipt)
        if window is None:
            raise NotFoundError(f"the session {self.name!r:.60} has no window with the receipt {receipt!r:.60}")
        return window

    def set_abstract(self, text: str, **options: Unpack[WriteOptions]) -> str:
        """Set the summary of the whole session, and return it.

        Args:
            text: At most 1 MiB of UTF-8; "" removes the summary.
        """
        return writing.set_summary(self._inner, self._scope.asker(options), text)

    def set_metadata(
        self, metadata: Metadata | None = None, *, unset: Iterable[str] = (), **options: Unpack[WriteOptions]
    ) -> answers.SessionInfo:
        """Set keys of the session's metadata, or remove keys; other keys keep their values.

        A session without messages begins with its metadata.

        Args:
            metadata: Keys with their new values, as in {"channel": "C024BE91L"}.
            unset: Keys to remove.

        Raises:
            RejectedError: The metadata is nested or too large, or a pattern keeps the session out.
        """
        pairs = {} if metadata is None else metadata
        return writing.set_metadata(self._inner, self._scope.asker(options), pairs, unset)

    def compact(
        self,
        budget: int | None = None,
        *,
        until_under: bool = False,
        force: bool = False,
        summarizer: SummarizerLike | None = None,
        timeout: float = TIMEOUT_SECONDS,
        extract: bool = False,
        **options: Unpack[WriteOptions],
    ) -> answers.CompactionReport:
        """Put summaries in the place of older messages if there are enough; you may call this in every turn.

        Without a summarizer or a model a summary is an excerpt: the weightiest sentences of its messages, word for word, as many
        as the budget has room for. If no sentence fits, it is the cut beginning of the messages, marked "fallback".

        Args:
            budget: The tokens that the window is meant for. The window is shortened while it takes more than three quarters of
                them; the newest 32 items are shortened too if these alone take more.
            until_under: True to continue until ``window(budget)`` holds everything; the newest items are shortened too, up to the
                last user turn. If that is not enough, ``under`` of the report is False and ``skipped`` has the reason.
            force: True to make one step more than is due; the newest items are shortened too.
            summarizer: A function of a ``SummaryRequest``, to use in place of the ledger's summarizer.
            timeout: The most seconds to wait for a summary.
            extract: True to first look for memories in the messages that leave the window, as ``extract()`` does, unless the
                user's policy is against it. A failure of the model is in ``skipped`` as "unread".

        Raises:
            RejectedError: The call is inside a batch, the budget is below 1, or ``until_under`` comes without a budget or with
                ``force``.
        """
        asker = self._scope.asker(options)
        leaving = partial(session_extraction.extract_leaving, self._inner, asker) if extract else None
        if not until_under:
            return compacting.compact(
                self._inner,
                asker,
                budget,
                summarizer=summarizer,
                force=force,
                timeout=timeout,
                leaving=leaving,
            )
        if budget is None or force:
            raise RejectedError(
                "until_under compacts until the window fits a budget: give a budget, and leave force out"
            )
        return compacting.compact_until_under(
            self._inner, asker, budget, summarizer=summarizer, timeout=timeout, leaving=leaving
        )

    def extract(
        self,
        *,
        method: Method | None = None,
        model: ModelLike | None = None,
        since: int | None = None,
        dry_run: bool = False,
        gate: bool = True,
        timeout: float | None = None,
        cancel: Cancel | None = None,
        **options: Unpack[WriteOptions],
    ) -> ledger_answers.ExtractionReport:
        """Find candidates for memories in the messages since the last extraction.

        Args:
            method: "model" or "rules"; None for the model if there is one.
            model: Another model than the ledger's, for this call.
            since: A position after which the messages are read again; 0 for the beginning.
            dry_run: True to only show the proposals of the model or the rules, in ``dropped``; not even the calls are recorded.
            gate: True to call no model for small talk. If False together with ``since``, skipped small talk is read too.
            timeout: The most seconds to wait for an answer of the model.
            cancel: An event or a function that ends the extraction.

        Raises:
            RejectedError: ``dry_run`` comes with ``since``.
        """
        if dry_run:
            if since is not None:
                raise RejectedError(
                    "a dry run reads after the cursor and moves nothing, but since moves the cursor; leave one of them out"
                )
            return session_extraction.preview(
                self._inner, method=method, model=model, timeout=timeout, cancel=cancel, gate=gate
            )
        return session_extraction.extract(
            self._inner,
            self._scope.asker(options),
            method=method,
            model=model,
            since=since,
            timeout=timeout,
            cancel=cancel,
            gate=gate,
        )

    def skip_extraction(
        self, *, parent: str | None = None, until: int | None = None, **options: Unpack[WriteOptions]
    ) -> answers.SessionInfo:
        """Leave the beginning of the session out of later extractions, for a session that branched off another session.

        Args:
            parent: The session from which this session branched off; their common beginning is left out.
            until: The position of the last message to leave out. With both arguments the earlier end applies.
        """
        return cursor.skip_extraction(self._inner, self._scope.asker(options), parent, until)

    def reconcile(
        self,
        transcript: Iterable[Mapping[str, Any] | answers.Message],
        *,
        dry_run: bool = False,
        **options: Unpack[WriteOptions],
    ) -> answers.HistoryChange:
        """Make the session equal to a transcript that is kept elsewhere.

        Missing messages are appended, messages that differ are replaced, and another name of a message's model is corrected. A
        message with the same role and content in the same place stays with its time, if the transcript has another time.

        Args:
            transcript: Messages as objects with role and content, and optionally parts, reasoning, model, speaker, created_at and
                token_count. Messages of OpenAI chat completions and Anthropic are read too, and their other fields kept as
                ``extra``. A ``Message`` of a session or its ``to_dict()`` is read too. An empty transcript changes nothing, and
                ``skipped`` is "empty"; ``clear`` hides all messages.

        Raises:
            RejectedError: The transcript is not a list of messages; nothing changes.
        """
        return reconciling.reconcile(self._inner, self._scope.asker(options), transcript, dry_run=dry_run)

    def replace(
        self, messages: Iterable[Mapping[str, Any] | answers.Message], **options: Unpack[WriteOptions]
    ) -> answers.HistoryChange:
        """Make these messages the whole history; messages in common at the beginning stay.

        Args:
            messages: As in ``reconcile``.
        """
        return reconciling.replace_messages(self._inner, self._scope.asker(options), messages)

    def truncate(self, keep: int, **options: Unpack[WriteOptions]) -> answers.HistoryChange:
        """Hide all but the newest messages; hidden messages stay in the log, and ``include_hidden`` shows them.

        Args:
            keep: The number of messages that stay; 0 hides all.

        Raises:
            RejectedError: ``keep`` is below 0.
        """
        return writing.truncate(self._inner, self._scope.asker(options), keep)

    def remove_last(self, count: int = 1, **options: Unpack[WriteOptions]) -> answers.HistoryChange:
        """Hide the newest messages, as many as there are up to ``count``; an undo brings them back.

        Args:
            count: The number of messages to remove; 1 or more.

        Raises:
            RejectedError: ``count`` is below 1.
        """
        return writing.remove_last(self._inner, self._scope.asker(options), count)

    def clear(self, **options: Unpack[WriteOptions]) -> answers.HistoryChange:
        """Begin the session again: hide every message, invalidate every summary, remove the abstract."""
        return writing.clear(self._inner, self._scope.asker(options))

    def add_alias(self, alias: str, **options: Unpack[WriteOptions]) -> answers.SessionInfo:
        """Give the session another name.

        Args:
            alias: The new name. If a session with messages has this name and this session has no messages, those messages come
                to this session.

        Raises:
            ConflictError: Both sessions have messages.
            RejectedError: The messages are those of "main", which many clients share; or a pattern keeps this session or the name
                out.
        """
        return writing.add_alias(self._inner, self._scope.asker(options), alias)


class SummariesRead:
    """The summaries of one session."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Conversation) -> None:
        self._inner = inner

    def list(
        self,
        *,
        statuses: Iterable[SummaryStatus] = (),
        limit: int = LIMIT,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> Page[answers.Summary]:
        """List summaries, newest first.

        Args:
            statuses: Only summaries of these statuses: "window", "under" (another summary was written from them), "replaced",
                "invalid", "erased"; empty for every status.
        """
        accepted = plural("statuses", statuses, get_args(SummaryStatus))
        filters = {"user": self._inner.user, "session": self._inner.name, "statuses": accepted}

        def fetch(count: int, place: int | None) -> Sequence[answers.Summary]:
            start = Start(place, oldest_first)
            return reading.list_summaries(self._inner, accepted or get_args(SummaryStatus), count, start)

        return page("summaries", filters, limit, after, fetch, _position, oldest_first=oldest_first)

    def graph(self, *, include_replaced: bool = False) -> SummaryGraph:
        """Return the window with the sources of each summary; ``as_mermaid()`` of the graph returns a flowchart.

        Args:
            include_replaced: Include summaries that are out of use.

        Raises:
            NotFoundError: The session has no messages yet.
        """
        graph = diagram.dag(self._inner, everything=include_replaced)
        if graph is None:
            raise NotFoundError(f"no session of this user has messages under the name {self._inner.name!r:.60}")
        return graph


class Summaries(SummariesRead):
    """The summaries of one session, with the commands that change them."""

    __slots__ = ("_scope",)

    def __init__(self, inner: Conversation, scope: Who) -> None:
        super().__init__(inner)
        self._scope = scope

    def add(
        self,
        content: str,
        sources: Iterable[str | int],
        *,
        token_count: int | None = None,
        model: str = "",
        **options: Unpack[WriteOptions],
    ) -> answers.Summary:
        """Record a summary that was written elsewhere, in the place of a stretch of the window; no model is asked.

        Args:
            content: The text, at most 1 MiB of UTF-8.
            sources: Every message that it stands for, by position or id; or the ids of the summaries that it was written from.
            token_count: The count of the model's own tokenizer; without it the ledger's counter counts.
            model: The model that wrote it.

        Raises:
            RejectedError: The sources are no stretch of the window, or are messages and summaries.
            NotFoundError: This session has no such message or summary.
        """
        entries = tuple(sources) if isinstance(sources, Iterable) and not isinstance(sources, str) else sources
        if not isinstance(entries, tuple) or not all(type(entry) in (str, int) for entry in entries):
            raise RejectedError(f"sources is a list of positions or ids, as in [45, 46], and {sources!r:.60} is not")
        return summary_writes.add_summary(
            self._inner, self._scope.asker(options), content, entries, token_count=token_count, model=model
        )

    def invalidate(
        self, id: str, *, subtree: bool = False, reason: str = "", **options: Unpack[WriteOptions]
    ) -> answers.HistoryChange:
        """Take a summary out of use, and every summary that was written from it; their sources are in the window again.

        Args:
            subtree: True to take every summary under it out of use too, so that the messages are in the window.
        """
        return summary_writes.invalidate_summary(self._inner, self._scope.asker(options), id, reason, subtree=subtree)

    def restore(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> answers.Summary:
        """Bring an invalidated summary back into the window.

        Raises:
            RejectedError: Not all sources of the summary are in the window: some are hidden, or another summary stands for them.
        """
        return summary_writes.restore_summary(self._inner, self._scope.asker(options), id, reason)

    def rewrite(
        self,
        id: str,
        *,
        summarizer: SummarizerLike | None = None,
        timeout: float = TIMEOUT_SECONDS,
        **options: Unpack[WriteOptions],
    ) -> answers.Summary:
        """Write a summary again from the same sources; the new summary takes the place of the old summary.

        Args:
            summarizer: A function of a ``SummaryRequest``; None for the ledger's summarizer.
            timeout: The most seconds to wait for an answer.

        Raises:
            RejectedError: There is no summarizer, or no answer was short enough.
            ModelError: The summarizer failed.
        """
        return rewriting.rewrite(self._inner, self._scope.asker(options), id, summarizer=summarizer, timeout=timeout)


class SessionsRead(Area):
    """The sessions of a user, now or as they were at a moment."""

    def list(
        self,
        *,
        project: str | None = None,
        metadata: Metadata | None = None,
        limit: int = LIMIT,
        after: str | None = None,
        oldest_first: bool = False,
    ) -> Page[answers.SessionInfo]:
        """List sessions, newest first.

        Args:
            project: Only sessions of this project; "" for sessions without a project.
            metadata: Only sessions that have all of these keys with exactly these values; None is a value too.
        """

        def fetch(count: int, start: str | None) -> Sequence[answers.SessionInfo]:
            return reading.list_sessions(
                self._engine,
                self._scope.user,
                project=project,
                pairs=pairs,
                limit=count,
                after=start,
                oldest_first=oldest_first,
            )

        pairs = checked(metadata)
        filters = {"user": self._scope.user, "project": project, "metadata": pairs}
        return page("sessions", filters, limit, after, fetch, _id, oldest_first=oldest_first)

    def get(self, name: str) -> answers.SessionInfo:
        """Return the state of a session.

        Args:
            name: A name, an alias or the id of the session.

        Raises:
            NotFoundError: This user has no such session.
        """
        return SessionRead(self._engine, self._scope, name, None).info()

    def grep(
        self,
        pattern: str,
        *,
        scope: Scopes = "both",
        role: Role | None = None,
        since: Since | None = None,
        until: Since | None = None,
        limit: int = HITS,
        after: str | None = None,
        include_hidden: bool = False,
        order: Orders = "newest",
        oldest_first: bool = False,
    ) -> Hits:
        """List the messages and summaries of all sessions that a pattern matches, newest first.

        Args:
            pattern: Words, "a phrase", a beginning*, AND, OR, NOT and parentheses; or %any text%, inside of words too. Words that
                no text has are looked for inside of words, and ``hint`` says so.
            scope: "both", "message" or "summary".
            role: Only messages of this role.
            include_hidden: Include hidden messages, and summaries that were replaced or invalidated.
            order: "newest", or "relevance" for the best of at most 10,000 matches first, by BM25.
        """
        request = GrepRequest(
            pattern=pattern,
            scope=scope,
            role=role,
            since=since,
            until=until,
            include_hidden=include_hidden,
            order=order,
            oldest_first=oldest_first,
            everywhere=True,
        )
        every = EveryConversation(self._engine, self._scope)
        filters = {"user": self._scope.user}
        return _grep(every, request, limit, after, filters)


class Sessions(SessionsRead):
    """The sessions of a user."""


def _grep(inner: Conversation, request: GrepRequest, limit: int, after: str | None, filters: dict[str, Any]) -> Hits:
    now, since, until = inner.engine.now(), request.since, request.until
    bounded = replace(
        request,
        since=times.since("since", since, now) if since is not None else None,
        until=times.since("until", until, now) if until is not None else None,
    )
    places: dict[int, int] = {}
    first: GrepResult | None = None

    def fetch(count: int, start: int | None) -> Sequence[Hit]:
        nonlocal first
        result = grepping.grep_messages(inner, bounded, limit=count, after=start)
        first = first or result
        places.update(zip((hit.position for hit in result.hits), result.places, strict=True))
        return result.hits

    hits = page("grep", asdict(request) | filters, limit, after, fetch, lambda hit: places[hit.position])
    return Hits(hits, first or GrepResult())


def _id(answer: Any) -> str:
    return str(answer.id)


def _position(answer: Any) -> int:
    return int(answer.position)
