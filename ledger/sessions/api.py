"""``ledger.session(name)``, one conversation, and ``ledger.sessions``, all of a user's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from ledger import answers as ledger_answers
from ledger.domain import times
from ledger.domain.assembly import FRESH_TAIL
from ledger.domain.compaction import EXPAND_TOKENS
from ledger.domain.errors import NotFoundError, RejectedError
from ledger.domain.metadata import NO_PAIRS, checked
from ledger.domain.text import plural, texts
from ledger.domain.window import WindowItem
from ledger.engine.area import Area
from ledger.engine.paging import LIMIT, page
from ledger.engine.who import Who
from ledger.extraction import cursor
from ledger.extraction import sessions as session_extraction
from ledger.sessions import (
    answers,
    assembling,
    compacting,
    diagram,
    reading,
    reconciling,
    rewriting,
    searching,
    summary_writes,
    writing,
)
from ledger.sessions.assembled import Window
from ledger.sessions.conversation import Conversation, EveryConversation
from ledger.sessions.diagram import SummaryGraph
from ledger.sessions.search_answers import Expansion, GrepResult, Hit, Hits, Unexpanded
from ledger.sessions.transcripts import as_parts
from ledger.types import Cancel, Channel, Corpus, Metadata, Method, Page, Role, Since, SummaryStatus, Unit, WriteOptions

if TYPE_CHECKING:
    from ledger.engine.engine import Engine
    from ledger.types import ModelLike, SummarizerLike

SHARE, SUMMARY_SHARE, TIMEOUT_SECONDS, HITS = 0.25, 0.2, 120.0, 20
Scopes = Literal["both", "message", "summary"]


class SessionRead(Area):
    """One conversation as it can be read, now or as it was at a moment. Asking for one writes nothing."""

    __slots__ = ("_inner", "_project")

    def __init__(self, engine: Engine, scope: Who, name: str, project: str | None) -> None:
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
        """The name, alias or id that it was asked for by."""
        return self._inner.name

    @property
    def user(self) -> str:
        """Whose session it is."""
        return self._scope.user

    def info(self) -> answers.SessionInfo:
        """Return how the session stands: its names, how many messages, and what its window takes.

        Raises:
            NotFoundError: The session has no messages yet.
        """
        found = reading.get_info(self._inner)
        if found is None:
            raise NotFoundError(f"no session of this user has messages under the name {self.name!r:.60}")
        return found

    def messages(
        self,
        *,
        metadata: Metadata | None = None,
        limit: int = LIMIT,
        after: str | None = None,
        include_hidden: bool = False,
    ) -> Page[answers.Message]:
        """List messages in the order of time: the first page holds the newest, the next one those before.

        Args:
            metadata: Only messages that have each of these keys with this very value; None is a value too.
            include_hidden: Also what was truncated, replaced or cleared; each says so in ``hidden``.
        """

        def fetch(count: int, start: int | None) -> Sequence[answers.Message]:
            return reading.list_messages(self._inner, count, before=start, hidden=include_hidden, pairs=pairs)[::-1]

        pairs = checked(metadata)
        return page(
            "messages",
            self._filters(hidden=include_hidden, metadata=pairs),
            limit,
            after,
            fetch,
            _position,
            reverse=True,
        )

    def message(self, position: int) -> answers.Message:
        """Return one message, hidden or not.

        Args:
            position: Its position in the log, as ``Message.position`` says it.

        Raises:
            NotFoundError: This session has no message there.
        """
        found = reading.get_message(self._inner, position)
        if found is None:
            raise NotFoundError(f"the session {self.name!r:.60} has no message at the position {position!r:.40}")
        return found

    def items(self) -> tuple[WindowItem, ...]:
        """Return the messages and summaries that stand for the conversation now, oldest first, without their texts."""
        return tuple(reading.window_items(self._inner))

    @property
    def abstract(self) -> str:
        """The summary of the whole session that was set by hand; "" without one."""
        return reading.abstract(self._inner)

    @property
    def summaries(self) -> SummariesRead:
        """List the summaries of the session, and draw how one was written from others."""
        return SummariesRead(self._inner)

    def window(
        self,
        budget: int,
        *,
        unit: Unit = "tokens",
        query: str | None = None,
        share: float = SHARE,
        summary_share: float = SUMMARY_SHARE,
        among: Iterable[Corpus] = ("memories", "chunks", "turns"),
        tail: int = FRESH_TAIL,
        receipt: bool = False,
    ) -> Window:
        """Return what a model is given of the session: the newest messages that fit, with summaries in their place.

        It begins where a provider takes it, never with a tool's result without its call. The newest user message is always
        there whole. Where the turn that it began does not fit, the oldest tool results of that turn are shortened and marked;
        ``over_budget`` says where that is not enough. ``Window.render`` gives a provider's messages.

        Args:
            budget: The most that it may take, counted in ``unit``; 1 or more.
            unit: "tokens" or "chars".
            query: Also weave in what ``Ledger.context`` gives for this, without what the window shows.
            share: The part of the budget that what is remembered may take of what the last user turn leaves, from 0 and
                below 1.
            summary_share: The part of the budget that is kept for summaries, from 0 and below 1;
                ``Window.summaries_evicted`` says how many did not fit.
            among: What that is made of: "memories", "chunks", "turns".
            tail: A last user turn of at most so many items loses none of them, only parts of its tool results.
            receipt: Record what was delivered, so that ``reopen`` shows it again. Nothing else is written.
        """
        wanted = plural("among", among, get_args(Corpus))
        texts(query=query)
        return assembling.assemble(
            self._inner,
            budget,
            unit=unit,
            query=query,
            share=share,
            summary_share=summary_share,
            among=wanted,
            tail=tail,
            record=receipt,
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
    ) -> Hits:
        """List the messages and summaries of this session that a pattern matches, newest first.

        Args:
            pattern: Words, "a phrase", a beginning*, AND, OR, NOT and parentheses; or %any text%, inside of words too.
            scope: "both", "message" or "summary".
            role: Only messages of this role.
            include_hidden: Also messages that were hidden, and summaries that were replaced or invalidated.
        """
        asked = {"pattern": pattern, "scope": scope, "role": role, "since": since, "before": until}
        return _grep(self._inner, asked | {"hidden": include_hidden}, limit, after, self._filters(), everywhere=False)

    def expand(
        self,
        ids: str | int | Unexpanded | Iterable[str | int | Unexpanded],
        *,
        budget: int = EXPAND_TOKENS,
        unit: Unit = "tokens",
    ) -> Expansion:
        """Return the messages that summaries stand for, whole and in the order of time, as far as a budget reaches.

        What does not fit is listed in ``rest``, to be expanded in turn.

        Args:
            ids: Ids of summaries, positions of messages (45 or "45-67"), or the ``rest`` of an expansion; one or several.
            budget: The most that the messages may take, counted in ``unit``; a first message that is larger is given whole.
            unit: "tokens" or "chars".
        """
        return searching.expand(self._inner, ids, budget=budget, unit=unit)

    def _filters(self, **more: object) -> dict[str, Any]:
        return {"user": self.user, "session": self.name, **more}


class Session(SessionRead):
    """One conversation: append to it, read it, keep it within a model's window.

    It begins with its first message. One session belongs to one user; ``bind`` changes who acts in it.
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
        """Return the same session with other words for who acts in it.

        Args:
            actor: Who acts; None leaves it as it is, as for all of them.
            client: Through which program.
            channel: What kind of input: "user", "tool", "web", "agent" or "file".
            agent: For which agent.
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
        **options: Unpack[WriteOptions],
    ) -> answers.Message:
        """Add a message. One that a pattern keeps out, or that holds nothing but reasoning, says why in ``skipped``.

        Args:
            role: "user", "assistant", "system", "developer" or "tool".
            content: Its text.
            parts: Objects with a type: text, tool_use (id, name, arguments), tool_result (id, text), media (uri, mime),
                reasoning (text), or one of OpenAI chat completions or Anthropic messages. What else they have is kept as
                their ``extra``.
            tool_calls: Calls in the form of the OpenAI chat format.
            tool_call_id: Of which call the content is the result.
            token_count: What the model's own tokenizer counted; without it the ledger's counter does.
            model: Which model wrote it.
            speaker: The name of who wrote it, where several share a role.
            extra: Other fields of the message for its provider, as in {"openai": {"annotations": […]}}.
            metadata: Keys of your own, which no model is given: {"channel": "C024BE91L"}.

        Raises:
            RejectedError: The message says nothing, or has a field that is no JSON or larger than 512 KiB.
        """
        if tool_calls or tool_call_id:
            content, parts = as_parts(content, parts, tool_calls, tool_call_id)
        return writing.append(
            self._inner,
            self._scope.asker(options),
            role,
            content,
            parts=parts,  # type: ignore[arg-type]
            token_count=token_count,
            model=model,
            speaker=speaker,
            extra=extra,
            metadata=NO_PAIRS if metadata is None else metadata,
        )

    @property
    def summaries(self) -> Summaries:
        """List the summaries of the session, take one out of use, bring it back or write it again."""
        return Summaries(self._inner, self._scope)

    def reopen(self, receipt: str) -> Window:
        """Return the window that ``window(…, receipt=True)`` gave, as it was delivered; erased texts are None.

        Args:
            receipt: ``Window.receipt``.

        Raises:
            NotFoundError: This session has no such receipt.
        """
        found = assembling.reopen(self._inner, receipt)
        if found is None:
            raise NotFoundError(f"the session {self.name!r:.60} has no window with the receipt {receipt!r:.60}")
        return found

    def set_abstract(self, text: str, **options: Unpack[WriteOptions]) -> str:
        """Set the summary of the whole session, and return it.

        Args:
            text: At most 1 MiB of UTF-8; "" takes it away.
        """
        return writing.set_summary(self._inner, self._scope.asker(options), text)

    def compact(
        self,
        budget: int | None = None,
        *,
        until_under: bool = False,
        force: bool = False,
        summarizer: SummarizerLike | None = None,
        timeout: float = TIMEOUT_SECONDS,
        **options: Unpack[WriteOptions],
    ) -> answers.CompactionReport:
        """Put summaries in the place of older messages where there are enough of them; meant for every turn.

        Without a summarizer or a model a summary is the cut beginning of its messages, marked "fallback".

        Args:
            budget: Tokens that the window is meant for: it is shortened while it takes more than three quarters of them,
                also the newest 32 items where these alone do.
            until_under: Go on until it takes no more than ``budget``, the newest items too, up to the last user turn.
            force: One step more than is due.
            summarizer: Stands in for the ledger's: a function of a ``SummaryRequest``.
            timeout: Seconds to wait for one summary.
        """
        if not until_under:
            return compacting.compact(
                self._inner, self._scope.asker(options), budget, summarizer=summarizer, force=force, timeout=timeout
            )
        if budget is None or force:
            raise RejectedError("until_under goes on until the window fits a budget: give one, and no force")
        return compacting.compact_until_under(
            self._inner, self._scope.asker(options), budget, summarizer=summarizer, timeout=timeout
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
        """Find candidates for memories in the messages since the last time.

        Args:
            method: "model" or "rules"; None for the model if there is one.
            model: Another model than the ledger's, for this call.
            since: Go back to the messages behind this position first; 0 for the beginning.
            dry_run: Only show what the model proposes or the rules find, in ``dropped``; not even the calls are recorded.
            gate: Ask no model about small talk; without it, and with ``since``, also about what was passed over as such.
            timeout: Seconds to wait for one answer of the model.
            cancel: An event or a function that says when to give up.
        """
        if dry_run:
            if since is not None:
                raise RejectedError("a dry run shows what is found behind the cursor, which since would move")
            return session_extraction.preview(
                self._inner, using=method, model=model, timeout=timeout, cancelled=cancel, gate=gate
            )
        return session_extraction.extract(
            self._inner,
            self._scope.asker(options),
            using=method,
            model=model,
            since=since,
            timeout=timeout,
            cancelled=cancel,
            gate=gate,
        )

    def skip_extraction(
        self, *, parent: str | None = None, until: int | None = None, **options: Unpack[WriteOptions]
    ) -> answers.SessionInfo:
        """Pass over the beginning in later extractions, for a session that branched off another.

        Args:
            parent: The session it branched off: what both begin with is passed over.
            until: Pass over up to the message at this position; with both whichever comes first.
        """
        return cursor.skip_extraction(self._inner, self._scope.asker(options), parent, until)

    def reconcile(
        self, transcript: Iterable[Mapping[str, Any]], *, dry_run: bool = False, **options: Unpack[WriteOptions]
    ) -> answers.HistoryChange:
        """Bring the session to what a transcript kept elsewhere says: append what is missing, replace what differs.

        Args:
            transcript: Messages as objects with role and content, and parts, reasoning, model, speaker, created_at and
                token_count where there are any; those of OpenAI chat completions and Anthropic messages are read too, and
                their other fields kept as ``extra``. One without messages changes
                nothing, and ``skipped`` is "empty"; ``clear`` hides all.

        Raises:
            RejectedError: It is no list of messages; nothing changes.
        """
        return reconciling.reconcile(self._inner, self._scope.asker(options), transcript, dry_run=dry_run)

    def replace(self, messages: Iterable[Mapping[str, Any]], **options: Unpack[WriteOptions]) -> answers.HistoryChange:
        """Make these messages the whole history; what both have in common from the beginning stays as it is.

        Args:
            messages: As in ``reconcile``.
        """
        return reconciling.replace_messages(self._inner, self._scope.asker(options), messages)

    def truncate(self, keep: int, **options: Unpack[WriteOptions]) -> answers.HistoryChange:
        """Hide all but the newest messages; they stay in the log and readable with ``include_hidden``.

        Args:
            keep: How many stay; 0 hides all.

        Raises:
            RejectedError: ``keep`` is below 0.
        """
        return writing.truncate(self._inner, self._scope.asker(options), keep)

    def clear(self, **options: Unpack[WriteOptions]) -> answers.HistoryChange:
        """Begin the session again: hide every message, invalidate every summary, take the abstract away."""
        return writing.clear(self._inner, self._scope.asker(options))

    def add_alias(self, alias: str, **options: Unpack[WriteOptions]) -> answers.SessionInfo:
        """Give the session another name.

        Args:
            alias: A name that stands for a session with messages brings these along, if this one has none.

        Raises:
            ConflictError: Both sessions have messages.
        """
        return writing.add_alias(self._inner, self._scope.asker(options), alias)


class SummariesRead:
    """The summaries of one session."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Conversation) -> None:
        self._inner = inner

    def list(
        self, *, statuses: Iterable[SummaryStatus] = (), limit: int = LIMIT, after: str | None = None
    ) -> Page[answers.Summary]:
        """List summaries, newest first.

        Args:
            statuses: Only summaries of these statuses: "window", "under" (another was written from it), "replaced",
                "invalid", "erased"; none for every status.
        """
        wanted = plural("statuses", statuses, get_args(SummaryStatus))
        filters = {"user": self._inner.user, "session": self._inner.name, "statuses": wanted}

        def fetch(count: int, start: int | None) -> Sequence[answers.Summary]:
            return reading.newest_summaries(self._inner, wanted or get_args(SummaryStatus), count, start)

        return page("summaries", filters, limit, after, fetch, lambda each: each.position)

    def graph(self, *, include_replaced: bool = False) -> SummaryGraph:
        """Return the window with the summaries that each summary was written from; ``as_mermaid()`` gives a flowchart.

        Args:
            include_replaced: Also summaries that are out of use.

        Raises:
            NotFoundError: The session has no messages yet.
        """
        found = diagram.dag(self._inner, everything=include_replaced)
        if found is None:
            raise NotFoundError(f"no session of this user has messages under the name {self._inner.name!r:.60}")
        return found


class Summaries(SummariesRead):
    """The summaries of one session, with what changes them."""

    __slots__ = ("_scope",)

    def __init__(self, inner: Conversation, scope: Who) -> None:
        super().__init__(inner)
        self._scope = scope

    def invalidate(
        self, id: str, *, subtree: bool = False, reason: str = "", **options: Unpack[WriteOptions]
    ) -> answers.HistoryChange:
        """Take a summary out of use, and what was written from it; what it was written from is in the window again.

        Args:
            subtree: Also every summary that it was written from, so that the messages themselves are.
        """
        return summary_writes.invalidate_summary(self._inner, self._scope.asker(options), id, reason, subtree=subtree)

    def restore(self, id: str, *, reason: str = "", **options: Unpack[WriteOptions]) -> answers.Summary:
        """Bring an invalidated summary back into the window.

        Raises:
            RejectedError: Not all that it stands for is in the window: hidden meanwhile, or another summary stands for it.
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
        """Write a summary again from the same sources; the new one takes its place.

        Args:
            summarizer: Who writes it: a function of a ``SummaryRequest``; None for the ledger's.
            timeout: Seconds to wait for one answer.

        Raises:
            RejectedError: There is no summarizer, or no answer was short enough.
            ModelError: The summarizer failed.
        """
        return rewriting.rewrite(self._inner, self._scope.asker(options), id, summarizer=summarizer, timeout=timeout)


class SessionsRead(Area):
    """The sessions of a user, now or as they were at a moment."""

    def list(
        self, *, project: str | None = None, limit: int = LIMIT, after: str | None = None
    ) -> Page[answers.SessionInfo]:
        """List sessions, the one that began last first.

        Args:
            project: Only those of this project; "" for those of no project.
        """

        def fetch(count: int, start: str | None) -> Sequence[answers.SessionInfo]:
            return reading.list_sessions(self._engine, self._scope.user, project=project, limit=count, after=start)

        return page("sessions", {"user": self._scope.user, "project": project}, limit, after, fetch, _id)

    def get(self, name: str) -> answers.SessionInfo:
        """Return how one session stands.

        Args:
            name: Its name, an alias or its id.

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
    ) -> Hits:
        """List the messages and summaries of all sessions that a pattern matches, newest first.

        Args:
            pattern: Words, "a phrase", a beginning*, AND, OR, NOT and parentheses; or %any text%, inside of words too.
            scope: "both", "message" or "summary".
            role: Only messages of this role.
            include_hidden: Also messages that were hidden, and summaries that were replaced or invalidated.
        """
        asked = {"pattern": pattern, "scope": scope, "role": role, "since": since, "before": until}
        every = EveryConversation(self._engine, self._scope)
        filters = {"user": self._scope.user}
        return _grep(every, asked | {"hidden": include_hidden}, limit, after, filters, everywhere=True)


class Sessions(SessionsRead):
    """The sessions of a user."""


def _grep(
    inner: Conversation,
    asked: dict[str, Any],
    limit: int,
    after: str | None,
    filters: dict[str, Any],
    *,
    everywhere: bool,
) -> Hits:
    now = inner.engine.writer.now()
    since, until = asked["since"], asked["before"]
    bounds = {
        "since": times.since("since", since, now) if since is not None else None,
        "before": times.since("until", until, now) if until is not None else None,
    }
    places: dict[int, int] = {}
    first: GrepResult | None = None

    def fetch(count: int, start: int | None) -> Sequence[Hit]:
        nonlocal first
        behind: dict[str, Any] = {} if start is None else {"after": start}
        found: GrepResult = searching.grep_messages(
            inner, **asked | bounds, limit=count, everywhere=everywhere, **behind
        )
        first = first or found
        places.update(zip((each.position for each in found.hits), found.places, strict=True))
        return found.hits

    found = page("grep", asked | filters, limit, after, fetch, lambda hit: places[hit.position])
    return Hits(found, first)


def _id(answer: Any) -> str:
    return str(answer.id)


def _position(answer: Any) -> int:
    return int(answer.position)
