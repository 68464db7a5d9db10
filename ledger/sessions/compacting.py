"""Compaction: older items of a session's window give way to a summary, which is written outside of any lock.

What is to be summarized is chosen on a snapshot, the summarizer is asked, and under the lock the window is looked at again:
if anything that was summarized is no longer there as it was, the summary is dropped, and the log says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain import compaction
from ledger.domain.assembly import FRESH_TAIL
from ledger.domain.compaction import ITERATIONS, LEAF_CHUNK_TOKENS, Run, Skip
from ledger.domain.errors import ConflictError, ModelError, NotFoundError, RejectedError
from ledger.domain.events import CompactionSkipped
from ledger.domain.message import readable
from ledger.domain.session import Session as State
from ledger.domain.window import CONDENSED, FALLBACK, LEAF, Ranges, WindowItem
from ledger.engine.work import Who, Work
from ledger.language.asking import check_seconds
from ledger.language.summarizing import (
    PROMPTS,
    TIMEOUT_SECONDS,
    ModelAttempt,
    NamedSummarizer,
    SummaryRequest,
    answer_of,
    as_summarizer,
    emit_attempts,
)
from ledger.sessions import answers, reading, summary_writes, writing
from ledger.sessions.conversation import Conversation
from ledger.sessions.summary_writes import Sources, Written, check_in_use, of_messages, of_summaries, record
from ledger.sessions.window import OpenWindow
from ledger.sessions.writing import invalidate
from ledger.store.lease import Lease, leased
from projections.core.rows import Connection
from projections.views import erasures, summaries
from projections.views.summaries import Summary

REBUILT_TOKENS = 2 * LEAF_CHUNK_TOKENS  # a leaf may be of one message more than a chunk
FORWARD_TOKENS = 2 * LEAF_CHUNK_TOKENS  # of a long window so much is looked at, from its beginning
SUMMARY_CHARS = 64 * 1024  # of a summary, however few tokens somebody counts in it


class Seen(Struct, frozen=True):
    """A window on one snapshot: as many of its first items as one compaction can concern, and how many of these are of the
    fresh tail."""

    items: tuple[WindowItem, ...]
    protect: int


def compact(
    conversation: Conversation,
    asker: Who,
    budget: int | None = None,
    *,
    summarizer: Any = None,
    force: bool = False,
    timeout: float = TIMEOUT_SECONDS,
) -> answers.CompactionReport:
    """One leaf over the oldest messages outside the newest 32 items, where there are 8 of them or 20,000 tokens; then,
    while the window takes more than three quarters of ``budget`` (or once, with ``force``), whatever shortens it more.

    Meant for every turn. ``summarizer`` stands in for the ledger's; without any a leaf is the cut beginning of its
    messages, marked "fallback". The summarizer is asked outside of any lock, for at most ``timeout`` seconds a time;
    where it raises nothing is replaced. One compaction of a session runs at a time, in all processes. The report says
    what was made, and why nothing more was. ``RejectedError`` inside a batch, and for a budget below 1.
    """
    bound = _whole(budget) if budget is not None else None

    def steps(compactor: Compactor) -> None:
        compactor.step(leaf_only=True)
        if bound is None:
            if force:
                compactor.step()
            return
        for _ in range(ITERATIONS - 1):
            if not compaction.is_due(compactor.tokens(), bound):
                break
            if not compactor.step():
                return
        if force and not compactor.made:
            compactor.step()

    return _compacting(conversation, steps, bound, summarizer, timeout, asker, force=False)


def compact_until_under(
    conversation: Conversation, asker: Who, budget: int, *, summarizer: Any = None, timeout: float = TIMEOUT_SECONDS
) -> answers.CompactionReport:
    """Compacts until the window takes no more than ``budget`` tokens, the fresh tail too, up to the last user turn; in
    at most 20 steps. ``under`` in the report says whether it came to that."""
    bound = _whole(budget)

    def steps(compactor: Compactor) -> None:
        for _ in range(ITERATIONS):
            if compactor.tokens() <= bound or not compactor.step():
                return

    return _compacting(conversation, steps, bound, summarizer, timeout, asker, force=True)


def rebuild_summary(
    conversation: Conversation, asker: Who, id: str, *, summarizer: Any = None, timeout: float = TIMEOUT_SECONDS
) -> answers.Summary:
    """Writes a summary again from the same sources, by another summarizer perhaps, and puts it in the place of the old
    one, which stays in the log. What was written from the old one stands for nothing any more.

    ``RejectedError`` without a summarizer, for a summary that does not stand, where no answer was short enough, and with a
    key, for asked again there is nothing to rebuild; ``ModelError`` where it failed. Nothing is changed then.
    """
    if asker.key is not None:
        raise RejectedError(
            "summaries.rewrite() has no idempotency_key: the summary it wrote is in summaries.list(), with what it replaces"
        )
    _check_patience(conversation, timeout)
    writing.check_kept_in(conversation)
    writer = _writer_of(conversation, summarizer)
    if writer is None:
        raise RejectedError(
            "summaries.rewrite() needs a summarizer: give one, or open the ledger with one", rule="model"
        )
    row, sources, texts, seen, size = _to_rebuild(conversation, id)
    tries = compaction.attempts(row.kind, size)
    model_attempts = list[ModelAttempt]()

    def kept(why: str) -> None:
        """What was asked in vain is recorded too, by a command of its own."""
        calls = tuple(model_attempts)
        model_attempts.clear()
        if calls:
            _record_calls(conversation, asker, writer, calls, sources.ranges, why)

    try:
        written = _ask(conversation, writer, row.kind, tries, texts, [], timeout, None, model_attempts)
    except ModelError:
        kept("failed")
        raise
    if written is None:
        kept("refused")
        raise RejectedError(
            f"no answer of {writer.name!r:.60} was short enough for a summary", rule="refused", subject=row.id
        )
    made = ""

    def body(work: Work) -> str:
        nonlocal made
        state = writing.known(conversation, work)
        now = reading.summary_row(work.connection(), state, row.id)
        check_in_use(now, "rewritten")
        if erasures.last(work.connection()) != seen:
            raise ConflictError("something was erased while the summary was written, which may repeat it; ask again")
        everything = summaries.of_session(work.connection(), state.row)
        invalidate(work, state, everything, {row.id}, "rewritten")
        made = record(work, state, sources, written, replaces=row.id)
        emit_attempts(work, writer, model_attempts, sources.ranges, made)
        return state.id

    try:
        conversation.writer.run("session.summaries.rewrite", asker, body, (conversation.name, id, writer.name))
    except (RejectedError, ConflictError, NotFoundError):
        kept("moved")
        raise
    return summary_writes.summary_now_of(conversation, made)


def _to_rebuild(conversation: Conversation, id: str) -> tuple[Summary, Sources, list[str], int, int]:
    """A summary that stands, what it is of and their texts, the last erasure until here, and the tokens of it all."""
    with conversation.reading() as (connection, state):
        row = reading.summary_row(connection, conversation.needed(state), id)
        check_in_use(row, "rewritten")
        known = {each.id: each for each in summaries.of_session(connection, row.session)}
        underlying = tuple(known[each] for each in row.summaries if each in known)
        sources = Sources(row.ranges, row.messages, row.source_tokens, row.earliest, row.latest, underlying)
        texts = _source_texts(conversation, connection, row.session, row.kind, sources)
        seen = erasures.last(connection)
    size = sum(each.tokens for each in underlying) if row.kind == CONDENSED else row.source_tokens
    if size > REBUILT_TOKENS:
        raise RejectedError(
            f"the summary {row.id} is of {size:,} tokens, and {REBUILT_TOKENS:,} can be rewritten at once; invalidate it"
            " and compact again, in parts",
            rule="size",
            subject=row.id,
            limit=REBUILT_TOKENS,
            requested=size,
        )
    return row, sources, texts, seen, size


def _record_calls(
    conversation: Conversation,
    asker: Who,
    writer: NamedSummarizer,
    model_attempts: Sequence[ModelAttempt],
    ranges: Ranges,
    why: str,
) -> None:
    """Calls that came to nothing, in a command of their own."""

    def body(work: Work) -> str:
        state = writing.known(conversation, work)
        emit_attempts(work, writer, model_attempts, ranges, why=why)
        return state.id

    conversation.writer.run("session.compact", asker, body)


# --- one compaction ------------------------------------------------------------------------------------------------


def _compacting(
    conversation: Conversation,
    steps: Callable[[Compactor], None],
    bound: int | None,
    given: Any,
    timeout: float,
    asker: Who,
    *,
    force: bool,
) -> answers.CompactionReport:
    _check_patience(conversation, timeout)
    writer = _writer_of(conversation, given)
    if asker.key is not None:
        raise RejectedError("a compaction has no idempotency_key: called again it goes on from where the window is")
    if conversation.kept_out:
        return _report(conversation, [], [answers.CompactionSkip(why=conversation.kept_out, kind="")], None, bound, 0)
    with conversation.reading() as (_, state):
        conversation.needed(state)
    work = f"compact {state.id}"  # type: ignore[union-attr]
    with leased(conversation.engine.store, work, timeout + 30) as lease:
        before = _window_size(conversation)
        if lease is None:
            skipped = [answers.CompactionSkip(why="under_way", kind="")]
            return _report(conversation, [], skipped, before, bound, 0)
        compactor = Compactor(conversation, lease, writer, asker, timeout, force=force)
        steps(compactor)
        return _report(conversation, compactor.made, compactor.skipped, before, bound, compactor.calls)


def _check_patience(conversation: Conversation, timeout: object) -> None:
    """``RejectedError`` where no model can be waited for: under the lock of a batch, or for a time that is none."""
    if conversation.writer.batching:
        raise RejectedError(
            "a compaction asks a model and takes its time, so it cannot be part of a batch", rule="batch"
        )
    check_seconds(timeout)


def _writer_of(conversation: Conversation, given: Any) -> NamedSummarizer | None:
    return as_summarizer(given) if given is not None else conversation.engine.summarizer


def _window_size(conversation: Conversation) -> tuple[int, int]:
    """Tokens and items of the window."""
    with conversation.reading() as (connection, state):
        window = OpenWindow(connection, conversation.needed(state))
        return window.tokens, window.count


def _report(
    conversation: Conversation,
    made: list[str],
    skipped: list[answers.CompactionSkip],
    before: tuple[int, int] | None,
    bound: int | None,
    calls: int,
) -> answers.CompactionReport:
    with conversation.reading() as (connection, state):
        if state is None or before is None:
            return answers.CompactionReport(session=conversation.name, skipped=tuple(skipped), budget=bound)
        window = OpenWindow(connection, state)
        rows = [
            reading.summary_shown(conversation, connection, reading.summary_row(connection, state, id)) for id in made
        ]
        return answers.CompactionReport(
            session=conversation.name,
            created=tuple(rows),
            skipped=tuple(skipped),
            tokens_before=before[0],
            tokens_after=window.tokens,
            items_before=before[1],
            items_after=window.count,
            budget=bound,
            under=None if bound is None else window.tokens <= bound,
            calls=calls,
            position=state.position,
        )


# --- texts -----------------------------------------------------------------------------------------------------


def _source_texts(
    conversation: Conversation, connection: Connection, row: int, kind: str, sources: Sources
) -> list[str]:
    """What a summary is written from, each message or summary as one text."""
    if kind == CONDENSED:
        return [_summary_text(conversation, connection, each) for each in sources.summaries]
    return list(_message_texts(conversation, connection, row, sources))


def _message_texts(conversation: Conversation, connection: Connection, row: int, sources: Sources) -> Iterator[str]:
    for each, texts in reading.all_texts(conversation, connection, row, sources.ranges):
        name = f"{each.role} {speaker}" if (speaker := texts.event.data.speaker) else each.role
        yield f"{name} ({each.time[:16]}): {readable(texts.content, texts.parts)}"


def _summary_text(conversation: Conversation, connection: Connection, each: Summary) -> str:
    content = reading.summary_shown(conversation, connection, each).content or ""
    return f"{each.earliest[:16]} to {each.latest[:16]}, {each.messages} messages: {content}"


def _ask(
    conversation: Conversation,
    writer: NamedSummarizer,
    kind: str,
    tries: Any,
    texts: list[str],
    previous: list[str],
    timeout: float,
    counted: Callable[[], None] | None,
    model_attempts: list[ModelAttempt],
) -> Written | None:
    """The first answer that is short enough; None where none is. Into ``model_attempts`` goes each call of a language model."""
    attempt = compaction.following(tries)
    while attempt is not None:
        asked = SummaryRequest(
            kind=kind,
            level=attempt.level,
            texts=tuple(texts),
            previous=tuple(previous),
            target_tokens=attempt.target_tokens,
            temperature=attempt.temperature,
            prompt_version=PROMPTS[kind],
        )
        if counted is not None:
            counted()
        text = answer_of(writer, asked, timeout, model_attempts)
        tokens = conversation.counter.of_text(text)
        accepted = len(text) <= SUMMARY_CHARS and compaction.accepts(attempt, text, tokens)
        if model_attempts and not accepted:
            model_attempts[-1] = replace(model_attempts[-1], outcome="too_long" if text else "empty")
        if accepted:
            return Written(kind, attempt.level, text, tokens, conversation.counter.name, writer.name, PROMPTS[kind])
        attempt = compaction.following(tries, attempt, text)
    return None


class _TakenOver(Exception):
    """The lease ran out, and somebody else compacts the session."""


class Compactor:
    """One compaction of one session under way: what it made, and what it passed over."""

    def __init__(
        self,
        session: Conversation,
        lease: Lease,
        writer: NamedSummarizer | None,
        asker: Who,
        timeout: float,
        *,
        force: bool,
    ) -> None:
        self.session, self.lease, self.writer, self.asker, self.timeout = session, lease, writer, asker, timeout
        self.force = force
        self.made: list[str] = []
        self.skipped: list[answers.CompactionSkip] = []
        self.calls = self._erased = 0
        self._attempts: list[ModelAttempt] = []  # of the summary under way
        self._read: Ranges = ()
        self._passed: set[Run] = set()  # what came to nothing is not tried again
        self._ended = False  # the summarizer failed, or somebody else changed the window

    def tokens(self) -> int:
        """What the window takes."""
        return _window_size(self.session)[0]

    def step(self, *, leaf_only: bool = False) -> bool:
        """Makes one summary, if any can be made; whether the window changed."""
        if self._ended:
            return False
        with self.session.reading() as (connection, state):
            seen = seen_of(OpenWindow(connection, self.session.needed(state)))
        if leaf_only:
            found = compaction.leaf_run(seen.items, protect=seen.protect)
            if isinstance(found, Skip):
                self._skip(found.why, LEAF, found.messages, found.tokens)
                return False
            return self._comes_off(found)
        tried = False
        for run in compaction.runs(seen.items, protect=seen.protect, force=self.force):
            tried = True
            if self._comes_off(run):
                return True
            if self._ended:
                return False
        if not tried:
            self._skip_all(seen)
        return False

    def _comes_off(self, run: Run) -> bool:
        if run in self._passed:
            return False
        why = self._try(run)
        if why:
            self._passed.add(run)
        self._ended = why in ("failed", "moved", "under_way")
        return not why

    def _skip_all(self, seen: Seen) -> None:
        for found in (
            compaction.leaf_run(seen.items, protect=seen.protect, force=self.force),
            compaction.condensed_run(seen.items, protect=0 if self.force else seen.protect, hard=self.force),
        ):
            if isinstance(found, Skip):
                self._skip(found.why, found.kind, found.messages, found.tokens)

    def _skip(self, why: str, kind: str, messages: int, tokens: int, error: str = "") -> str:
        skip = answers.CompactionSkip(why=why, kind=kind, messages=messages, tokens=tokens, error=error)
        if skip not in self.skipped:
            self.skipped.append(skip)
        return why

    def _try(self, run: Run) -> str:
        """Why a run came to nothing, or ""."""
        if run.kind == CONDENSED and self.writer is None:
            return self._skip("no_model", run.kind, run.messages, run.tokens)
        asked = self.calls
        self._attempts.clear()
        try:
            sources, written = self._write(run)
        except _TakenOver:
            if self._attempts and self.writer is not None:
                _record_calls(self.session, self.asker, self.writer, self._attempts, self._read, "under_way")
            return self._skip("under_way", run.kind, run.messages, run.tokens)
        except ModelError as error:
            self._record_skip("failed", run, error.kind)
            return self._skip("failed", run.kind, run.messages, run.tokens, error.kind)
        if sources is None:
            self._record_skip("moved", run, "")
            return self._skip("moved", run.kind, run.messages, run.tokens)
        if written is None or not compaction.improves(run, written.tokens):
            why = "refused" if written is None else "no_improvement"
            if self.calls > asked:
                self._record_skip(why, run, "")
            return self._skip(why, run.kind, run.messages, run.tokens)
        return self._record(run, sources, written)

    def _write(self, run: Run) -> tuple[Sources | None, Written | None]:
        """What the run is of, and its summary, written outside of the lock."""
        session = self.session
        with session.reading() as (connection, state):
            window = OpenWindow(connection, session.needed(state))
            sources, self._erased = sources_of(window, run), erasures.last(connection)
            if sources is None:
                return None, None
            self._read = sources.ranges
            tries = run.attempts if self.writer is not None else ()
            texts = _source_texts(session, connection, window.state.row, run.kind, sources) if tries else []
            before = {each.id for each in run.context}
            previous = [_summary_text(session, connection, each) for each in window.summaries if each.id in before]
            beginning: list[str] = []
            if run.kind == LEAF:
                beginning = texts or list(_beginning(_message_texts(session, connection, window.state.row, sources)))
        written = None
        if tries and self.writer is not None:
            more = (self.timeout, self._called, self._attempts)
            written = _ask(session, self.writer, run.kind, tries, texts, previous, *more)
        if written is None and run.kind == LEAF:
            text = compaction.fallback(beginning, run.messages)
            written = Written(LEAF, FALLBACK, text, session.counter.of_text(text), session.counter.name)
        return sources, written

    def _called(self) -> None:
        if not self.lease.renew():
            raise _TakenOver
        self.calls += 1

    def _record(self, run: Run, sources: Sources, written: Written) -> str:
        made = ""

        def body(work: Work) -> str:
            nonlocal made
            state = writing.known(self.session, work)
            connection = work.connection()
            there = erasures.last(connection) == self._erased  # a summary may repeat what was erased meanwhile
            if there and sources_of(OpenWindow(connection, state), run) == sources:
                made = record(work, state, sources, written)
                emit_attempts(work, self.writer, self._attempts, sources.ranges, made, "refused")
            else:
                self._emit_skip(work, state, "moved", run, "")
                emit_attempts(work, self.writer, self._attempts, sources.ranges, why="moved")
            return state.id

        self.session.writer.run("session.compact", self.asker, body)
        if not made:
            return self._skip("moved", run.kind, run.messages, run.tokens)
        self.made.append(made)
        return ""

    def _record_skip(self, why: str, run: Run, error: str) -> None:
        def body(work: Work) -> str:
            state = writing.known(self.session, work)
            self._emit_skip(work, state, why, run, error)
            emit_attempts(work, self.writer, self._attempts, self._read, why=why)
            return state.id

        self.session.writer.run("session.compact", self.asker, body)

    @staticmethod
    def _emit_skip(work: Work, state: State, why: str, run: Run, error: str) -> None:
        skipped = CompactionSkipped(why, run.kind, run.messages, run.tokens, error)
        work.emit(state.id, skipped, first=state.row)


def seen_of(window: OpenWindow) -> Seen:
    """The beginning of a window, unless all of it is short; the tail is then beyond, and nothing here is in it."""
    items, tokens = list[WindowItem](), 0
    for item in window.forwards():
        items.append(item)
        tokens += 0 if item.is_summary else item.tokens
        if tokens > FORWARD_TOKENS and window.count - len(items) > FRESH_TAIL:
            return Seen(tuple(items), 0)
    return Seen(tuple(items), FRESH_TAIL)


def sources_of(window: OpenWindow, run: Run) -> Sources | None:
    """What a run is of, if all of it is in the window as it was chosen."""
    if not run.summaries:
        found = of_messages(window, run.items[0].place, run.items[-1].place)
        whole = found is not None and (found.messages, found.tokens) == (len(run.items), run.tokens)
        return found if whole else None
    in_window = {each.id: each for each in window.summaries}
    if len(run.summaries) != len(run.items) or not all(each in in_window for each in run.summaries):
        return None
    return of_summaries(window.connection, window.state.row, [in_window[each] for each in run.summaries])


def _beginning(texts: Iterator[str]) -> Iterator[str]:
    """As many texts as a fallback can need."""
    size = 0
    for text in islice(texts, compaction.FALLBACK_BYTES):
        yield text
        size += len(text)
        if size > compaction.FALLBACK_BYTES:
            return


def _whole(budget: object) -> int:
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise RejectedError(f"budget is a whole number of tokens above 0, and {budget!r:.40} is not", rule="budget")
    return budget
