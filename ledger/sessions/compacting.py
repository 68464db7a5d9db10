"""Compaction: a summary takes the place of older items in a session's window.

The items are chosen on a snapshot, and the summarizer is called outside of any lock. Then the window is read again under the
writer's lock. If one of the items has changed, the summary is dropped, and a CompactionSkipped event is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.work import Work
from ledger.domain.errors import ModelError, RejectedError
from ledger.domain.tokens import MAX_TOKENS
from ledger.english.weighing import MessageToWeigh
from ledger.events import CompactionSkipped
from ledger.log.lease import HeldLease, leased
from ledger.models.port import NamedSummarizer
from ledger.models.summarizing import TIMEOUT_SECONDS, ModelAttempt, emit_attempts
from ledger.sessions import answers, reading, whole_window, writing
from ledger.sessions.assembling import note_size
from ledger.sessions.conversation import Conversation
from ledger.sessions.drafting import (
    check_patience,
    first_short_enough,
    record_calls,
    said_in,
    source_texts,
    summary_text,
    writer_of,
)
from ledger.sessions.rules import compaction, escalation, excerpts, rendering
from ledger.sessions.rules.assembly import FRESH_TAIL
from ledger.sessions.rules.compaction import ITERATIONS, LEAF_CHUNK_TOKENS, CompactionRun, Skip
from ledger.sessions.rules.escalation import FEWEST_TOKENS
from ledger.sessions.rules.rendering import Content
from ledger.sessions.rules.session import SessionState as State
from ledger.sessions.rules.window import CONDENSED, EXCERPT, FALLBACK, LEAF, SUMMARY, Ranges, WindowItem
from ledger.sessions.summary_writes import SummarySources, WrittenSummary, of_messages, of_summaries, record
from ledger.sessions.window import OpenWindow, of_summary
from projections.views import erasures

FORWARD_TOKENS = 2 * LEAF_CHUNK_TOKENS  # of a long window, only so many tokens are read, from the beginning


Leaving = Callable[[int], tuple[tuple[str, ...], str]]
"""A function that reads the messages up to a position for memories; it returns their ids, and the kind of a failure."""


class ExcerptSize(Struct, frozen=True):
    """The most tokens of an excerpt, and the function that measures all of it."""

    most: int
    whole: Callable[[str], int]


class SeenWindow(Struct, frozen=True):
    """The first items of a window on a snapshot, as many as a compaction can concern.

    ``protect`` is the number of the last items that belong to the fresh tail. ``request`` is the index of the newest user
    message, or the number of items if the message is not among the items.
    """

    items: tuple[WindowItem, ...]
    protect: int
    request: int


def compact(
    conversation: Conversation,
    asker: Who,
    budget: int | None = None,
    *,
    summarizer: object = None,
    force: bool = False,
    timeout: float = TIMEOUT_SECONDS,
    leaving: Leaving | None = None,
) -> answers.CompactionReport:
    """Put summaries in the place of older messages if there are enough messages; a caller may do so in every turn.

    First a leaf (a summary of messages) is made from the oldest messages outside the newest 32 items, if these are at least 8
    messages or 20,000 tokens. Then the window is shortened further while it takes more than 3/4 of ``budget``, or once
    with ``force``. If the newest 32 items alone take more than 3/4, the older of these are summarized too. Steps of the
    turn under way are summarized only if nothing older remains. The newest user message is never summarized.

    If the summarizer raises, nothing is replaced. Only one compaction of a session runs at a time, in all processes. The report
    lists the new summaries and the reasons why there are no more.

    Args:
        conversation: The session.
        asker: The identity of the caller.
        budget: The number of tokens that the window is meant to fit.
        summarizer: The summarizer to use in place of the ledger's. Without any summarizer a leaf is an excerpt of its
            messages.
        force: True to make one step more than is due, also over the newest items.
        timeout: The most seconds to wait for an answer of the summarizer.
        leaving: A function to call with the last position of each run before a summary takes its place.

    Raises:
        RejectedError: The call is inside a batch, or the budget is below 1.
    """
    bound = _whole(budget) if budget is not None else None

    def steps(compactor: Compactor) -> None:
        if bound is None or compactor.writer is not None:
            compactor.step(leaf_only=True)
        for _ in range(ITERATIONS - 1):
            if bound is None or not compaction.is_due(compactor.weight(), bound) or not compactor.step():
                break
        if force and (bound is None or not compactor.made):
            compactor.force = True
            compactor.step()

    return _compacting(conversation, steps, bound, summarizer, timeout, asker, leaving, force=False)


def compact_until_under(
    conversation: Conversation,
    asker: Who,
    budget: int,
    *,
    summarizer: object = None,
    timeout: float = TIMEOUT_SECONDS,
    leaving: Leaving | None = None,
) -> answers.CompactionReport:
    """Compact until ``window(budget)`` holds everything, in at most 20 steps.

    The fresh tail (the newest 32 items) is compacted too, up to the last user turn. If the window still leaves messages out,
    ``under`` in the report is False and ``skipped`` has the reason: "over_budget" or "out_of_steps", with the tokens that the
    window would need.
    """
    bound = _whole(budget)

    def steps(compactor: Compactor) -> None:
        why = "out_of_steps"
        for _ in range(ITERATIONS):
            if whole_window.holds_all(conversation, bound):
                return
            if not compactor.step():
                why = "over_budget"
                break
        else:
            if whole_window.holds_all(conversation, bound):
                return
        need = whole_window.needed(conversation)
        compactor.falls_short(why, need.messages, need.tokens)

    return _compacting(conversation, steps, bound, summarizer, timeout, asker, leaving, force=True)


# --- one compaction ------------------------------------------------------------------------------------------------


def _compacting(
    conversation: Conversation,
    steps: Callable[[Compactor], None],
    bound: int | None,
    summarizer: object,
    timeout: float,
    asker: Who,
    leaving: Leaving | None,
    *,
    force: bool,
) -> answers.CompactionReport:
    check_patience(conversation, timeout)
    writer = writer_of(conversation, summarizer)
    if asker.key is not None:
        raise RejectedError(
            "a compaction takes no idempotency_key, because a second call continues from the present window; leave the key out"
        )
    if conversation.kept_out:
        return _report(conversation, [], [answers.CompactionSkip(why=conversation.kept_out, kind="")], None, bound, 0)
    with conversation.reading() as (_, state):
        if state is None:
            return answers.CompactionReport(
                session=conversation.name, budget=bound, under=None if bound is None else True
            )
    work = f"compact {state.id}"
    with leased(conversation.present.store, work, timeout + 30) as lease:
        before = _window_size(conversation)
        if lease is None:
            skipped = [answers.CompactionSkip(why="under_way", kind="")]
            return _report(conversation, [], skipped, before, bound, 0)
        compactor = Compactor(conversation, lease, writer, asker, timeout, bound=bound, force=force)
        compactor.leaving = leaving
        steps(compactor)
        report = _report(conversation, compactor.made, compactor.skipped, before, bound, compactor.calls)
        return replace(report, remembered=tuple(compactor.remembered))


def _window_size(conversation: Conversation) -> tuple[int, int]:
    """Return the tokens and the number of items of the window."""
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
            under=None if bound is None else whole_window.holds_all(conversation, bound),
            calls=calls,
            position=state.position,
        )


class _TakenOver(Exception):
    """The signal that the lease ran out and another process compacts the session."""


class Compactor:
    """A running compaction of a session, with the summaries that it made and the items that it did not compact."""

    def __init__(
        self,
        session: Conversation,
        lease: HeldLease,
        writer: NamedSummarizer | None,
        asker: Who,
        timeout: float,
        *,
        bound: int | None,
        force: bool,
    ) -> None:
        self.session = session
        self.lease = lease
        self.writer = writer
        self.asker = asker
        self.timeout = timeout
        self.bound = bound
        self.force = force
        self.leaving: Leaving | None = None
        self.made: list[str] = []
        self.remembered: list[str] = []
        self.skipped: list[answers.CompactionSkip] = []
        self.calls: int = 0
        self._erased = 0
        self._attempts: list[ModelAttempt] = []  # the calls of a model for the present summary
        self._read: Ranges = ()
        self._failed_runs: set[CompactionRun] = set()  # these are not tried again
        self._ended = False  # True if the summarizer failed, or somebody else changed the window

    def falls_short(self, why: str, messages: int, tokens: int) -> None:
        self._skip(why, "", messages, tokens)

    def weight(self) -> int:
        """Return the number of tokens of the window, with the tokens of the XML elements around its summaries.

        An excerpt counts as 100 tokens, because a window shortens it where the messages need the room.
        """
        with self.session.reading() as (connection, state):
            window = OpenWindow(connection, self.session.needed(state))
            spared = sum(max(0, row.tokens - FEWEST_TOKENS) for row in window.summaries if row.level == EXCERPT)
            return window.tokens + compaction.ELEMENT_TOKENS * len(window.summaries) - spared

    def step(self, *, leaf_only: bool = False) -> bool:
        """Write the next summary if possible; return True if the window changed."""
        if self._ended:
            return False
        with self.session.reading() as (connection, state):
            seen = seen_of(OpenWindow(connection, self.session.needed(state)))
        if leaf_only:
            run_or_skip = compaction.leaf_run(seen.items, protect=seen.protect, request=seen.request)
            if isinstance(run_or_skip, Skip):
                self._skip(run_or_skip.why, LEAF, run_or_skip.messages, run_or_skip.tokens)
                return False
            return self._succeeds(run_or_skip)
        tried = False
        for run in self._runs(seen):
            tried = True
            if self._succeeds(run):
                return True
            if self._ended:
                return False
        if not tried:
            self._skip_all(seen)
        return False

    def _runs(self, seen: SeenWindow) -> Iterator[CompactionRun]:
        """Yield the runs to try; beside excerpts the newest messages that a quarter of the budget holds are the last."""
        bound, entered = self.bound, None
        excerpts = bound is not None and self.writer is None
        if bound is not None and seen.protect and not self.force:
            entered = compaction.near(seen.items, bound)
        if bound is not None and excerpts and seen.protect:
            stay, _ = compaction.tail_of(reversed(seen.items), bound)
            yield from compaction.runs(
                seen.items, protect=stay, request=seen.request, entered=stay, hard=True, excerpts=True
            )
        yield from compaction.runs(
            seen.items,
            protect=seen.protect,
            force=self.force,
            request=seen.request,
            entered=entered,
            hard=bound is not None,
            excerpts=excerpts,
        )

    def _succeeds(self, run: CompactionRun) -> bool:
        if run in self._failed_runs:
            return False
        why = self._try(run)
        if why:
            self._failed_runs.add(run)
        self._ended = why in ("failed", "moved", "under_way")
        return not why

    def _skip_all(self, seen: SeenWindow) -> None:
        for skip in (
            compaction.leaf_run(seen.items, protect=seen.protect, force=self.force, request=seen.request),
            compaction.condensed_run(seen.items, protect=0 if self.force else seen.protect, hard=self.force),
        ):
            if isinstance(skip, Skip):
                self._skip(skip.why, skip.kind, skip.messages, skip.tokens)

    def _skip(self, why: str, kind: str, messages: int, tokens: int, error: str = "") -> str:
        skip = answers.CompactionSkip(why=why, kind=kind, messages=messages, tokens=tokens, error=error)
        if skip not in self.skipped:
            self.skipped.append(skip)
        return why

    def _try(self, run: CompactionRun) -> str:
        """Summarize a run; return the reason why that failed, or ""."""
        if run.kind == CONDENSED and self.writer is None:
            return self._skip("no_model", run.kind, run.messages, run.tokens)
        if self.leaving is not None and run.kind == LEAF:
            found, failure = self.leaving(run.ranges[0][1])
            self.remembered += found
            if failure:
                self.leaving = None
                self._skip("unread", run.kind, run.messages, run.tokens, failure)
        calls_before = self.calls
        self._attempts.clear()
        try:
            sources, written = self._write(run)
        except _TakenOver:
            if self._attempts and self.writer is not None:
                record_calls(self.session, self.asker, self.writer, self._attempts, self._read, "under_way")
            return self._skip("under_way", run.kind, run.messages, run.tokens)
        except ModelError as error:
            self._record_skip("failed", run, error.kind)
            return self._skip("failed", run.kind, run.messages, run.tokens, error.kind)
        if sources is None:
            self._record_skip("moved", run, "")
            return self._skip("moved", run.kind, run.messages, run.tokens)
        if written is None or not compaction.improves(run, written.tokens):
            why = "refused" if written is None else "no_improvement"
            if self.calls > calls_before:
                self._record_skip(why, run, "")
            return self._skip(why, run.kind, run.messages, run.tokens)
        return self._record(run, sources, written)

    def _write(self, run: CompactionRun) -> tuple[SummarySources | None, WrittenSummary | None]:
        """Return the sources of a run and its summary, which is written outside of the writer's lock."""
        session = self.session
        with session.reading() as (connection, state):
            window = OpenWindow(connection, session.needed(state))
            sources, self._erased = sources_of(window, run), erasures.last(connection)
            if sources is None:
                return None, None
            self._read = sources.ranges
            tries = run.attempts(self.bound) if self.writer is not None else ()
            source = source_texts(session, connection, window.state.row, run.kind, sources) if tries else None
            context = {item.id for item in run.context}
            previous = [summary_text(session, connection, row) for row in window.summaries if row.id in context]
            is_leaf = run.kind == LEAF
            said = source.said if source is not None else self._said(window, run, sources) if is_leaf else ()
        written = None
        if source is not None and self.writer is not None:
            more = (self.timeout, self._called, self._attempts)
            source = replace(source, previous=previous)
            written = first_short_enough(session, self.writer, run.kind, tries, source, *more)
        if written is None and is_leaf:
            with session.reading() as (connection, state):
                size = self._size(OpenWindow(connection, session.needed(state)), run)
            counter = self.session.counter
            text = excerpts.excerpt(said, size.most, counter.of_text, size.whole)
            written = WrittenSummary(LEAF, EXCERPT, text, counter.of_text(text), counter.name, prompt=excerpts.RULE)
            written = (
                written if text else self._fallback([f"{message.head}{message.text}" for message in said], run.messages)
            )
        return sources, written

    def _said(self, window: OpenWindow, run: CompactionRun, sources: SummarySources) -> list[MessageToWeigh]:
        """Return the messages of a run; of excerpts that are too large to read again, those that they name."""
        session, ranges = self.session, sources.ranges
        if not run.readable:
            named = list[int]()
            for row in sources.summaries:
                content = reading.summary_shown(session, window.connection, row).content or ""
                named += excerpts.positions(content) if row.level == EXCERPT else [first for first, _ in row.ranges]
            ranges = tuple((at, at) for at in named if any(first <= at <= last for first, last in sources.ranges))
        return said_in(session, window.connection, window.state.row, ranges)

    def _size(self, window: OpenWindow, run: CompactionRun) -> ExcerptSize:
        """Return the size that the excerpt of a run may have: without a budget that of a model's summary, else what is left."""
        count = self.session.counter.of_text
        if self.bound is None:
            return ExcerptSize(min(escalation.LEAF_TARGET, run.source_tokens * escalation.NORMAL_PERCENT // 100), count)
        items = [of_summary(row) for row in window.summaries if row.id not in run.summaries]
        own = replace(run.items[0], kind=SUMMARY, id="y_" + "0" * 16, summary_kind=LEAF, depth=0, level=EXCERPT)
        own = replace(own, messages=run.messages, time=run.items[-1].time)
        items.append(own)
        frame = note_size(self.session, items, "tokens")
        elements = sum(count(rendering.summary_element(Content(item=item))) for item in items[:-1])
        written = sum(item.tokens for item in items if item.level != EXCERPT)
        messages = window.tokens - sum(row.tokens for row in window.summaries)
        messages -= sum(item.tokens for item in run.items if not item.is_summary)
        stay = min(messages, self._staying(window, run, self.bound))
        aim = self.bound if self.force else self.bound * 3 // 4
        room = aim - frame - elements - written - stay
        others = [item for item in items[:-1] if item.level == EXCERPT]
        most = compaction.excerpt_tokens(room, run, messages - stay, others)

        def whole(text: str) -> int:
            return count(rendering.summary_element(Content(item=own, content=text)))

        return ExcerptSize(max(most, whole("") + FEWEST_TOKENS), whole)

    def _staying(self, window: OpenWindow, run: CompactionRun, budget: int) -> int:
        """Return the tokens of the messages that stay beside excerpts: those of the tail and of the turn under way."""
        tail, _ = compaction.tail_of(window.backwards(), budget)
        request, end, tokens = window.request(), run.ranges[0][1], 0
        for count, item in enumerate(window.backwards()):
            is_turn = request is not None and item.place >= request.place
            if item.is_summary or item.place <= end or (count >= tail and not is_turn):
                break
            tokens += item.tokens
        return tokens

    def _fallback(self, beginning: Sequence[str], messages: int) -> WrittenSummary:
        """Return the cut beginning of the messages, at most as long as the budget lets a summary be."""
        counter, most = self.session.counter, escalation.most(self.bound) if self.bound is not None else MAX_TOKENS
        size = escalation.FALLBACK_BYTES
        while True:
            text = escalation.fallback(beginning, messages, size)
            tokens = counter.of_text(text)
            if tokens <= most or size < escalation.FEWEST_BYTES:
                return WrittenSummary(LEAF, FALLBACK, text, tokens, counter.name)
            size = min(size - 1, size * most // tokens)

    def _called(self) -> None:
        if not self.lease.renew():
            raise _TakenOver
        self.calls += 1

    def _record(self, run: CompactionRun, sources: SummarySources, written: WrittenSummary) -> str:
        made = ""

        def body(work: Work) -> str:
            nonlocal made
            made, state = "", writing.known(self.session, work)
            connection = work.connection()
            # A summary may repeat a text that was erased while it was written.
            is_unerased = erasures.last(connection) == self._erased
            if is_unerased and sources_of(OpenWindow(connection, state), run) == sources:
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

    def _record_skip(self, why: str, run: CompactionRun, error: str) -> None:
        def body(work: Work) -> str:
            state = writing.known(self.session, work)
            self._emit_skip(work, state, why, run, error)
            emit_attempts(work, self.writer, self._attempts, self._read, why=why)
            return state.id

        self.session.writer.run("session.compact", self.asker, body)

    @staticmethod
    def _emit_skip(work: Work, state: State, why: str, run: CompactionRun, error: str) -> None:
        skipped = CompactionSkipped(why, run.kind, run.messages, run.tokens, error)
        work.emit(state.id, skipped, first=state.row)


def seen_of(window: OpenWindow) -> SeenWindow:
    """Return the beginning of a window, or all of a short window.

    The beginning of a long window ends before the fresh tail, so none of its items is protected.
    """
    items, tokens, protect = list[WindowItem](), 0, FRESH_TAIL
    for item in window.forwards():
        items.append(item)
        tokens += 0 if item.is_summary else item.tokens
        if tokens > FORWARD_TOKENS and window.count - len(items) > FRESH_TAIL:
            protect = 0
            break
    request_item = window.request()
    request = next((at for at, item in enumerate(items) if item == request_item), len(items))
    return SeenWindow(tuple(items), protect, request)


def sources_of(window: OpenWindow, run: CompactionRun) -> SummarySources | None:
    """Return the sources of a run; None if the window no longer has all of them unchanged."""
    messages = [item for item in run.items if not item.is_summary]
    sources = of_messages(window, messages[0].place, messages[-1].place) if messages else None
    tokens = sum(item.tokens for item in messages)
    if messages and (sources is None or (sources.messages, sources.tokens) != (len(messages), tokens)):
        return None
    in_window = {row.id: row for row in window.summaries}
    if not all(id in in_window for id in run.summaries):
        return None
    rows = [in_window[id] for id in run.summaries]
    if not rows:
        return sources
    return of_summaries(window.connection, window.state.row, rows, sources)


def _whole(budget: object) -> int:
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise RejectedError(f"budget is a whole number of tokens above 0, and {budget!r:.40} is not", rule="budget")
    return budget
