"""The choice of the part of a session's window that is summarized next.

A leaf is a summary of messages; a condensed summary is a summary of summaries of one depth. The rules and numbers are those of
seahorse, with four differences: only neighbors are condensed, so nothing is reordered; a condensed summary has a greatest size
too; a fallback is never condensed; items are replaced only by a smaller summary. This module only chooses the items and judges
the answer. The caller calls the models, outside of any lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from ledger.sessions.rules import escalation
from ledger.sessions.rules.assembly import ASSISTANT, FRESH_TAIL, answers, is_turn
from ledger.sessions.rules.escalation import Attempt
from ledger.sessions.rules.window import CONDENSED, LEAF, SUMMARY, UNWRITTEN, Ranges, WindowItem

CONTEXT_THRESHOLD = (3, 4)
"""The part of the budget, as a fraction, above which a window is to be compacted."""

LEAF_FANOUT = 8
CONDENSED_FANOUT = 4
CONDENSED_FANOUT_HARD = 2
"""The fewest messages of a leaf; the fewest summaries of a condensed summary, also if the window has to shrink."""

FORCED_FANOUT = 2
"""The fewest messages of a leaf if the window has to shrink."""

LEAF_CHUNK_TOKENS = 20_000
"""The most tokens of the input of one summary; a longer message or tool exchange is a chunk by itself."""

MIN_TOKENS = 2_000
"""The fewest tokens of a condensed run at the window's beginning, and of a leaf that the next message cut short."""

WIDENED_FANOUT = 8
PRECEDING = 2
"""The most fallbacks that one new leaf replaces; the number of earlier summaries that the summarizer gets as context."""

ELEMENT_TOKENS = 100
"""About the tokens that a window needs around each summary, so that many short summaries count as too much as well."""

TAIL_PART = 4
"""Beside excerpts the newest messages keep a quarter of the budget word for word (our choice)."""

EXPAND_TOKENS = 4_000
ITERATIONS = 20
"""The most tokens that expanding a summary returns; the most runs that one call of ``compact_until_under`` applies."""

SKIPS: Mapping[str, str] = MappingProxyType(
    {
        "nothing_old": "everything of that kind lies in the fresh tail or, when forced, in the last user turn",
        "held": "the only messages outside the fresh tail belong to tool calls whose results lie inside",
        "too_few": "nowhere are enough messages, or summaries of one depth",
        "too_small": "the summaries that begin the window are too few for their depth and too short without it",
        "too_large": "two neighbors together are larger than the input of one summary",
        "apart": "enough summaries of a depth, but messages or other summaries lie between them",
        "fallback_only": "the only summaries outside the tail are fallbacks, which are never condensed",
        "no_model": "a condensed summary needs a model, and there is none",
        "refused": "no answer of the model was accepted at any level",
        "no_improvement": "the new summary is not smaller than the items that it would replace",
        "over_budget": "nothing more can be summarized, and the window with the frame of its summaries is over the budget",
        "out_of_steps": "one call takes at most 20 steps, and the window is still over the budget: call again",
    }
)
"""The codes in ``Skip.why`` with their meanings; the last five are for a caller whose run failed or whose budget is too small."""


class CompactionRun(Struct, frozen=True):
    """Successive items that one new summary of ``kind`` and ``depth`` shall replace, oldest first.

    ``tokens`` is the size of the items in the window. ``context``, for a leaf, are up to two summaries before the items; the
    summarizer reads them and does not summarize them. A leaf in the place of fallbacks is written from the messages in
    ``ranges``, and not from the texts of the fallbacks. If these messages are larger than a summarizer's input, ``readable`` is
    False: no summarizer is called, and the new leaf is a fallback too. ``spared`` is about the number of tokens of XML elements
    that the window no longer needs; it is 0 except for ``mixed_runs``.
    """

    kind: str
    depth: int
    items: tuple[WindowItem, ...]
    tokens: int
    context: tuple[WindowItem, ...] = ()
    readable: bool = True
    spared: int = 0

    @property
    def summaries(self) -> tuple[str, ...]:
        """Return the ids of the summaries that leave the window."""
        return tuple(item.id for item in self.items if item.is_summary)

    @property
    def ranges(self) -> Ranges:
        """Return a single range from the first to the last message that the items stand for; it may contain hidden messages."""
        ends = [last for item in self.items for _, last in item.ranges or ((item.place, item.place),)]
        return ((self.items[0].place, max(ends)),)

    @property
    def messages(self) -> int:
        return sum(item.messages for item in self.items)

    @property
    def source_tokens(self) -> int:
        """Return the number of tokens of the underlying messages."""
        return sum(item.source_tokens if item.is_summary else item.tokens for item in self.items)

    @property
    def input_tokens(self) -> int:
        """Return the number of tokens of the input: of messages for a leaf, of summaries for a condensed summary."""
        return self.source_tokens if self.kind == LEAF else self.tokens

    def attempts(self, budget: int | None = None) -> tuple[Attempt, ...]:
        """Return the calls of a model for a summary in a window with this budget; empty if no model is called."""
        if not self.readable:
            return ()
        size = self.tokens + self.spared
        most = size if budget is None else escalation.most(budget) + 1
        return escalation.attempts(self.kind, self.input_tokens + self.spared, below=min(size, most))


class Skip(Struct, frozen=True):
    """The reason why nothing can be compacted (``why`` is a code of ``SKIPS``), and the size of the items considered."""

    why: str
    kind: str
    messages: int = 0
    tokens: int = 0


def is_due(tokens: int, budget: int) -> bool:
    """Return True if a window of so many tokens has to be compacted for this budget."""
    part, whole = CONTEXT_THRESHOLD
    return tokens * whole > budget * part


def improves(run: CompactionRun, tokens: int) -> bool:
    """Return True if a summary of so many tokens is smaller than the items that it would replace."""
    return 0 < tokens < run.tokens + run.spared


def tail_of(newest_first: Iterable[WindowItem], budget: int) -> tuple[int, int]:
    """Return the number and the tokens of the newest messages that stay beside excerpts: a quarter of the budget, at most 32."""
    count = spent = 0
    for item in newest_first:
        if item.is_summary or count == FRESH_TAIL or (spent + item.tokens) * TAIL_PART > budget:
            break
        count, spent = count + 1, spent + item.tokens
    return count, spent


def excerpt_tokens(tokens: int, run: CompactionRun, waiting: int, excerpts: Iterable[WindowItem]) -> int:
    """Return the size of an excerpt among others: its part of ``tokens`` by what it stands for, and what the others leave.

    Args:
        tokens: The room for all excerpts of the window.
        run: The items that the excerpt stands for.
        waiting: The tokens of the messages that later excerpts will stand for.
        excerpts: The other excerpts of the window.
    """
    others = list(excerpts)
    stood_for = run.source_tokens + waiting + sum(item.source_tokens for item in others)
    own = tokens * run.source_tokens // max(1, stood_for)
    left = tokens - _tokens(others) - tokens * waiting // max(1, stood_for)
    return max(own, left)


def near(items: Sequence[WindowItem], budget: int) -> int | None:
    """Return the number of the newest items that stay if the fresh tail alone takes more than three quarters of a budget.

    As many items stay as half of the budget holds, so that not every turn is compacted. None means that the tail is small enough.
    """
    if not is_due(_tokens(items[-FRESH_TAIL:]), budget):
        return None
    count = spent = 0
    for item in reversed(items):
        spent += item.tokens
        if spent * 2 > budget:
            break
        count += 1
    return count


def runs(
    items: Sequence[WindowItem],
    *,
    protect: int = FRESH_TAIL,
    force: bool = False,
    request: int | None = None,
    entered: int | None = None,
    hard: bool = False,
    excerpts: bool = False,
) -> Iterator[CompactionRun]:
    """Yield every run that could be compacted now, in the order in which a caller should try them.

    Messages come first, then summaries, then neighboring fallbacks. So fallbacks are replaced only if the window has nothing else
    to shorten, or if a model refuses the other runs. The turn under way follows, and with ``force``, summaries of any depth.

    Args:
        items: The window, oldest item first.
        protect: The number of newest items that stay.
        force: True to compact the tail too.
        request: The index of the user message that began the turn under way; that message is in no run.
        entered: The number of newest items that stay if a part of the tail is compacted too; None to compact no part of it.
        hard: True to condense two neighbors too.
        excerpts: True if the summaries are excerpts: a leaf takes the excerpts before its messages with it, so that one excerpt
            stands for all of them.
    """
    request = newest_request(items) if request is None else request
    seen = set[tuple[str, int, int]]()
    tail = 0 if force else protect if entered is None else entered
    closer = force or entered is not None
    fewest = FORCED_FANOUT if closer else LEAF_FANOUT
    for candidates in (
        leaf_runs(items, protect=protect, request=request),
        leaf_runs(items, force=True, request=request) if force else (),
        leaf_runs(items, protect=tail, request=request, fewest=fewest) if closer and not force else (),
        condensed_runs(items, protect=tail, hard=force),
        condensed_runs(items, protect=tail, hard=True) if hard else (),
        widened_runs(items, protect=tail, again=force),
        leaf_runs(items, protect=tail, request=request, fewest=1) if closer and not force else (),
        turn_runs(items, protect=tail, request=request, fewest=fewest),
        mixed_runs(items) if force else (),
    ):
        for run in candidates:
            run = with_excerpts(items, run) if excerpts else run
            name = (run.kind, run.items[0].place, len(run.items))
            if run.readable and not run.spared and name in seen:
                continue
            seen.add(name)
            yield run


def with_excerpts(items: Sequence[WindowItem], run: CompactionRun) -> CompactionRun:
    """Return a run of messages with the excerpts and fallbacks directly before it, as many as one input holds."""
    if run.kind != LEAF or run.items[0].is_summary:
        return run
    first = start = items.index(run.items[0])
    tokens = run.source_tokens
    while (
        start and items[start - 1].level in UNWRITTEN and tokens + items[start - 1].source_tokens <= LEAF_CHUNK_TOKENS
    ):
        start -= 1
        tokens += items[start].source_tokens
    chosen = (*items[start:first], *run.items)
    return replace(run, items=chosen, tokens=_tokens(chosen))


def newest_request(items: Sequence[WindowItem]) -> int:
    """Return the index of the newest user message, which began the turn under way; without one, the number of items."""
    return next((at for at in range(len(items) - 1, -1, -1) if is_turn(items[at])), len(items))


# --- leaves ----------------------------------------------------------------------------------------------------------


def leaf_run(
    items: Sequence[WindowItem], *, protect: int = FRESH_TAIL, force: bool = False, request: int | None = None
) -> CompactionRun | Skip:
    """Return the oldest messages of a window (oldest first) that can become a leaf, or the reason why there are none.

    A leaf is written from successive messages without a summary between them, outside the newest ``protect`` items and before
    the newest user message. At least 8 messages are needed, or messages of 20,000 tokens. With ``force`` only the newest user
    message and the items after it are protected, and two messages, or one of 2,000 tokens, are enough. A run never separates a
    call from its results if both are short enough for one run. Messages after the newest user message are chosen only if there is
    no older message.
    """
    request = newest_request(items) if request is None else request
    run = next(leaf_runs(items, protect=protect, force=force, request=request), None)
    old = [item for item in items[:request] if not item.is_summary]
    if run is None and not old:
        run = next(turn_runs(items, protect=protect, request=request), None)
    if run is not None:
        return run
    border = _border(items, protect, force, request)
    held = _held(list(answers(items)), border)
    old = [item for item in items[:border] if not item.is_summary]
    why = "nothing_old" if not old else "held" if len(held) == len(old) else "too_few"
    return Skip(why, LEAF, len(old), _tokens(old))


def leaf_runs(
    items: Sequence[WindowItem],
    *,
    protect: int = FRESH_TAIL,
    force: bool = False,
    request: int | None = None,
    fewest: int = LEAF_FANOUT,
) -> Iterator[CompactionRun]:
    """Yield every run that ``leaf_run`` might choose and that is older than the newest user message, oldest first.

    No two runs overlap, so all of them can be applied at once.
    """
    request = newest_request(items) if request is None else request
    yield from _leaves(items, 0, _border(items, protect, force, request), FORCED_FANOUT if force else fewest)


def turn_runs(
    items: Sequence[WindowItem], *, protect: int = FRESH_TAIL, request: int, fewest: int = LEAF_FANOUT
) -> Iterator[CompactionRun]:
    """Yield the runs within the turn under way, for a window without older messages.

    A run contains neither the user message that began the turn, nor the turn's last call with the results, nor any of the newest
    ``protect`` items.
    """
    newest_first = range(len(items) - 1, request, -1)
    step = next((at for at in newest_first if items[at].role == ASSISTANT), len(items) - 1)
    yield from _leaves(items, request + 1, min(step, _outside(items, protect)), fewest)


def _leaves(items: Sequence[WindowItem], start: int, border: int, fewest: int) -> Iterator[CompactionRun]:
    pairs = list(answers(items))
    last = {call: at for call, at, _ in pairs}
    walls = [at for at, item in enumerate(items) if item.kind == SUMMARY and at < border]
    written = [at for at in walls if items[at].level not in UNWRITTEN]
    for wall in (*sorted({at for at in (*walls, *_held(pairs, border)) if at >= start}), border):
        for first, stop in _chunks(items, start, wall, last, fewest):
            yield _leaf(items, first, stop, written)
        start = wall + 1


def _leaf(
    items: Sequence[WindowItem], first: int, stop: int, written: Sequence[int], *, readable: bool = True
) -> CompactionRun:
    """Return the run of a leaf for the items from ``first`` to ``stop``.

    ``written`` are the indexes of the summaries that can be context. Fallbacks are no context: they end within a sentence.
    """
    chosen, end = tuple(items[first:stop]), bisect_left(written, first)
    context = tuple(items[at] for at in written[max(0, end - PRECEDING) : end])
    return CompactionRun(LEAF, 0, chosen, _tokens(chosen), context, readable)


def _border(items: Sequence[WindowItem], protect: int, force: bool, request: int) -> int:
    """Return the index up to which messages may be summarized: the newest user message or, unless forced, the tail."""
    if not force:
        return min(request, _outside(items, protect))
    newest_first = range(len(items) - 1, -1, -1)
    return min(request, next((at for at in newest_first if not items[at].is_summary), 0))


def _outside(items: Sequence[WindowItem], protect: int) -> int:
    """Return the index at which the protected end of the window begins."""
    return max(0, len(items) - max(0, protect))


def _held(pairs: Sequence[tuple[int, int, str]], border: int) -> set[int]:
    """Return the messages before the border whose calls are answered after the border, and the other results of such calls.

    These messages stay until a later run takes all of them, because no provider accepts a result without its call.
    """
    waiting = [at for call, at, _ in pairs if call < border <= at]
    reached, partners = set(waiting), dict[int, list[int]]()
    for call, at, _ in pairs if waiting else ():
        partners.setdefault(call, []).append(at)
        partners.setdefault(at, []).append(call)
    while waiting:
        new = [at for at in partners[waiting.pop()] if at not in reached]
        reached.update(new)
        waiting += new
    return {at for at in reached if at < border}


def _chunks(
    items: Sequence[WindowItem], start: int, end: int, last: Mapping[int, int], fewest: int
) -> Iterator[tuple[int, int]]:
    """Yield the inputs of leaves in a stretch of messages, as half-open ranges of indexes.

    A chunk ends before the message with which it would have more than 20,000 tokens. But a few short messages are joined with the
    long message after them, because alone between two leaves they would never be summarized.
    """
    first, tokens, at = start, 0, start
    while at < end:
        stop = _together(items, at, end, last)
        more = _tokens(items[at:stop])
        if tokens + more > LEAF_CHUNK_TOKENS and (at - first >= LEAF_FANOUT or tokens >= MIN_TOKENS):
            yield first, at
            first, tokens = at, 0
        tokens, at = tokens + more, stop
        if tokens >= LEAF_CHUNK_TOKENS:
            yield first, at
            first, tokens = at, 0
    if at - first >= fewest or (fewest <= FORCED_FANOUT and tokens >= MIN_TOKENS):
        yield first, at


def _together(items: Sequence[WindowItem], at: int, end: int, last: Mapping[int, int]) -> int:
    """Return the end of the messages that belong together with the message at ``at``.

    These are the messages up to the last result of its calls and of the calls between. They stay together only if all but the
    longest message fit a chunk, and only up to a summary. Otherwise the message is alone: the call and the result are soon in
    summaries, and until then assembly leaves a result without its call out.
    """
    reach = after = at
    tokens = longest = 0
    while after <= reach:
        tokens += items[after].tokens
        longest = max(longest, items[after].tokens)
        if tokens - longest > LEAF_CHUNK_TOKENS:
            return at + 1
        answered = last.get(after, after)
        reach = max(reach, answered if answered < end else after)
        after += 1
    return after


# --- condensed summaries ---------------------------------------------------------------------------------------------


def condensed_run(
    items: Sequence[WindowItem], *, protect: int = FRESH_TAIL, hard: bool = False
) -> CompactionRun | Skip:
    """Return the summaries of one depth that are condensed next, or the reason why there are none.

    The summaries at the beginning of the window come first, if they have together at least 2,000 tokens (at most 20,000 are
    condensed). Otherwise the oldest four neighbors of the least depth with so many neighbors outside the tail are chosen; with
    ``hard`` two to four. Fallbacks, single summaries, and summaries with other items between them are never condensed.
    """
    run = next(condensed_runs(items, protect=protect, hard=hard), None)
    if run is not None:
        return run
    fewest = CONDENSED_FANOUT_HARD if hard else CONDENSED_FANOUT
    old = [item for item in items[: _outside(items, protect)] if item.is_summary]
    real = [item for item in old if item.level not in UNWRITTEN]
    depths = [item.depth for item in real]
    if not real:
        why = "fallback_only" if old else "nothing_old"
    elif max(map(depths.count, depths)) >= fewest:
        adjacent = any(stop - first >= fewest for first, stop in _neighbors(items, protect))
        why = "too_large" if adjacent else "apart"
    else:
        first, stop = next(_neighbors(items, protect))
        long = _tokens(items[first:stop]) >= MIN_TOKENS
        why = "too_few" if first or stop < CONDENSED_FANOUT_HARD else "too_large" if long else "too_small"
    return Skip(why, CONDENSED, sum(item.messages for item in old), _tokens(old))


def condensed_runs(
    items: Sequence[WindowItem], *, protect: int = FRESH_TAIL, hard: bool = False
) -> Iterator[CompactionRun]:
    """Yield every run that ``condensed_run`` might choose, in its order; the first two may overlap."""
    fewest = CONDENSED_FANOUT_HARD if hard else CONDENSED_FANOUT
    groups = list(_neighbors(items, protect))
    opening = None
    if groups and groups[0][0] == 0:
        stop = _within(items, 0, groups[0][1])
        if stop >= CONDENSED_FANOUT_HARD and _tokens(items[:stop]) >= MIN_TOKENS:
            opening = _condensed(items, 0, stop)
            yield opening
    for first, end in sorted(groups, key=lambda group: items[group[0]].depth):
        while end - first >= fewest:
            stop = _within(items, first, min(end, first + CONDENSED_FANOUT))
            if stop - first >= fewest:
                if (run := _condensed(items, first, stop)) != opening:
                    yield run
                first = stop
            else:
                first += 1


def mixed_runs(items: Sequence[WindowItem]) -> Iterator[CompactionRun]:
    """Yield runs of two to four neighboring summaries of any depth, oldest first, for a window that nothing else makes smaller.

    The new summary may be longer than its sources, because the window needs one XML element for it instead of several.
    """
    can_be_condensed = [item.is_summary and item.level not in UNWRITTEN for item in items]
    for is_summary, group in groupby(range(len(items)), can_be_condensed.__getitem__):
        places = list(group)
        for first in places[::CONDENSED_FANOUT] if is_summary else ():
            stop = _within(items, first, min(places[-1] + 1, first + CONDENSED_FANOUT))
            if stop - first >= CONDENSED_FANOUT_HARD:
                yield _condensed(items, first, stop, spared=ELEMENT_TOKENS * (stop - first - 1))


def _condensed(items: Sequence[WindowItem], first: int, stop: int, *, spared: int = 0) -> CompactionRun:
    chosen = tuple(items[first:stop])
    depth = max(item.depth for item in chosen) + 1
    return CompactionRun(CONDENSED, depth, chosen, _tokens(chosen), spared=spared)


def _neighbors(items: Sequence[WindowItem], protect: int) -> Iterator[tuple[int, int]]:
    """Yield groups of neighboring summaries of one depth outside the tail, without fallbacks, as half-open ranges of indexes."""
    depths = [
        item.depth if item.is_summary and item.level not in UNWRITTEN else None
        for item in items[: _outside(items, protect)]
    ]
    for depth, group in groupby(range(len(depths)), depths.__getitem__):
        places = list(group)
        if depth is not None:
            yield places[0], places[-1] + 1


def _within(items: Sequence[WindowItem], first: int, end: int) -> int:
    """Return the end of the items from ``first`` on that fit the input of one summary."""
    tokens, stop = 0, first
    while stop < end and tokens + items[stop].tokens <= LEAF_CHUNK_TOKENS:
        tokens += items[stop].tokens
        stop += 1
    return stop


# --- fallbacks -------------------------------------------------------------------------------------------------------


def widened_runs(
    items: Sequence[WindowItem], *, protect: int = FRESH_TAIL, again: bool = False
) -> Iterator[CompactionRun]:
    """Yield runs of neighboring fallback leaves that one new leaf can replace, in the order in which to try them.

    These runs keep a window bounded without a model. They come after all messages and summaries, because without a model the new
    leaf has only the cut beginning of the messages again.

    Neighbors whose messages a summarizer can read at once come first, oldest first. With ``again`` each single fallback follows,
    for a model that failed on it before. Last come up to eight neighbors that together stand for the fewest messages, whatever
    their size. So old fallbacks are not replaced over and over, and n fallbacks take about n / 7 runs.
    """
    stretches = list(_fallbacks(items, protect))
    written = (
        [at for at, item in enumerate(items) if item.is_summary and item.level not in UNWRITTEN] if stretches else []
    )
    for first, end in stretches:
        while first < end:
            stop = _readable(items, first, min(end, first + WIDENED_FANOUT))
            if stop - first >= FORCED_FANOUT:
                yield _leaf(items, first, stop, written)
            first = max(stop, first + 1)
    if again:
        for first, end in stretches:
            yield from (_leaf(items, at, at + 1, written) for at in range(first, end))
    for first, end in stretches:
        size = min(end - first, WIDENED_FANOUT)
        if size >= FORCED_FANOUT:
            starts = range(first, end - size + 1)
            least = min(starts, key=lambda at: sum(item.messages for item in items[at : at + size]))
            yield _leaf(items, least, least + size, written, readable=False)


def _fallbacks(items: Sequence[WindowItem], protect: int) -> Iterator[tuple[int, int]]:
    """Yield groups of neighboring fallback leaves outside the tail, as half-open ranges of indexes."""
    border = _outside(items, protect)
    is_cut = [item.is_summary and item.level in UNWRITTEN and item.summary_kind == LEAF for item in items[:border]]
    for cut, group in groupby(range(border), is_cut.__getitem__):
        places = list(group)
        if cut:
            yield places[0], places[-1] + 1


def _readable(items: Sequence[WindowItem], first: int, end: int) -> int:
    """Return the end of the fallbacks from ``first`` on whose messages fit the input of one summary."""
    tokens, stop = 0, first
    while stop < end and tokens + items[stop].source_tokens <= LEAF_CHUNK_TOKENS:
        tokens += items[stop].source_tokens
        stop += 1
    return stop


def _tokens(items: Iterable[WindowItem]) -> int:
    return sum(item.tokens for item in items)
