"""Which part of a session's window is summarized next, how short the summary has to be, and what stands in without a model.

A leaf stands for messages, a condensed summary for summaries of one depth. The rules and numbers are seahorse's; otherwise
than there, nothing is reordered (only neighbors are condensed), a condensed summary has a greatest size as well, a fallback
is never condensed, and nothing is replaced by what is not smaller. The models are called by the caller, outside of any lock:
what is here only says whom to summarize and judges the answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType

from msgspec import Struct

from ledger.domain import escalation
from ledger.domain.assembly import ASSISTANT, FRESH_TAIL, answers, is_turn
from ledger.domain.escalation import Attempt
from ledger.domain.window import CONDENSED, FALLBACK, LEAF, SUMMARY, Ranges, WindowItem

CONTEXT_THRESHOLD = (3, 4)
"""The part of the budget, as a fraction, from which on a window is to be compacted."""

LEAF_FANOUT = 8
CONDENSED_FANOUT = 4
CONDENSED_FANOUT_HARD = 2
"""Fewest messages of a leaf, summaries of a condensed one, and these where the window has to shrink."""

FORCED_FANOUT = 2
"""Fewest messages of a leaf where the window has to shrink."""

LEAF_CHUNK_TOKENS = 20_000
"""What one summary is written from, at most; a longer message or tool exchange is a chunk by itself."""

MIN_TOKENS = 2_000
"""Fewest tokens of a condensed run at the window's beginning, and of a leaf that the next message cut short."""

WIDENED_FANOUT = 8
PRECEDING = 2
"""Most fallbacks that one new leaf takes over; earlier summaries given as context."""

ELEMENT_TOKENS = 100
"""About what a window needs around each summary, so that many short ones are too much as well."""

EXPAND_TOKENS = 4_000
ITERATIONS = 20
"""What expanding a summary returns at most; how many runs one call of ``compact_until_under`` applies at most."""

SKIPS: Mapping[str, str] = MappingProxyType(
    {
        "nothing_old": "everything of that kind lies in the fresh tail or, when forced, in the last user turn",
        "held": "the only messages outside of it belong to tool calls whose results lie inside",
        "too_few": "nowhere are enough messages, or summaries of one depth",
        "too_small": "the summaries that begin the window are too few for their depth and too short without it",
        "too_large": "no two neighbors fit what one summary is written from",
        "apart": "enough summaries of a depth, but messages or other summaries lie between them",
        "fallback_only": "the only summaries outside the tail are fallbacks, which are never condensed",
        "no_model": "a condensed summary needs a model, and there is none",
        "refused": "no answer of the model was accepted at any level",
        "no_improvement": "the new summary is not smaller than what it would replace",
    }
)
"""Why nothing is compacted: the codes in ``Skip.why``, and the last three for a caller whose run came to nothing."""


class Run(Struct, frozen=True):
    """Items that one new summary of ``kind`` and ``depth`` is to stand for, oldest first, with nothing between them.

    ``tokens`` is what they take in the window. ``context``, for a leaf, are up to two summaries before them, to be told to the
    summarizer and not summarized. A leaf over fallbacks is written from the messages in ``ranges``, not from their texts;
    where these are more than a summarizer takes (``readable`` false) it is not asked, and the new leaf is a fallback too.
    """

    kind: str
    depth: int
    items: tuple[WindowItem, ...]
    tokens: int
    context: tuple[WindowItem, ...] = ()
    readable: bool = True

    @property
    def summaries(self) -> tuple[str, ...]:
        """The ids of the summaries that leave the window."""
        return tuple(item.id for item in self.items if item.is_summary)

    @property
    def ranges(self) -> Ranges:
        """From the first message that the items stand for to the last: what the session hid between them is not meant."""
        ends = [last for item in self.items for _, last in item.ranges or ((item.place, item.place),)]
        return ((self.items[0].place, max(ends)),)

    @property
    def messages(self) -> int:
        return sum(item.messages for item in self.items)

    @property
    def source_tokens(self) -> int:
        """Tokens of the underlying messages."""
        return sum(item.source_tokens if item.is_summary else item.tokens for item in self.items)

    @property
    def input_tokens(self) -> int:
        """Tokens of what the summary is written from: messages for a leaf, summaries for a condensed one."""
        return self.source_tokens if self.kind == LEAF else self.tokens

    def attempts(self, budget: int | None = None) -> tuple[Attempt, ...]:
        """How a model is to be asked for a summary of a window with this budget; empty where it is not."""
        if not self.readable:
            return ()
        most = self.tokens if budget is None else escalation.most(budget) + 1
        return escalation.attempts(self.kind, self.input_tokens, below=min(self.tokens, most))


class Skip(Struct, frozen=True):
    """Nothing to compact, and ``why`` (``SKIPS``); the messages and tokens that were looked at for it."""

    why: str
    kind: str
    messages: int = 0
    tokens: int = 0


def is_due(tokens: int, budget: int) -> bool:
    """Whether a window of so many tokens is over the part of the budget from which on it is compacted."""
    part, whole = CONTEXT_THRESHOLD
    return tokens * whole > budget * part


def improves(run: Run, tokens: int) -> bool:
    """Whether a summary of so many tokens is smaller than what it would replace; otherwise the run is skipped."""
    return 0 < tokens < run.tokens


def near(items: Sequence[WindowItem], budget: int) -> int | None:
    """How many of the newest items stay where the fresh tail alone is over three quarters of a budget: what half of it holds,
    so that not every turn is compacted. None where the tail is not over."""
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
) -> Iterator[Run]:
    """All that could be compacted now, in the order to try it: the first that comes off changes the window.

    Messages first, then summaries, then fallbacks that lie side by side; so those are only widened where the window holds
    nothing else to shorten, or a model refuses what it does. With ``force`` each goes further into the tail, and with
    ``entered``, of which so many items stay. ``hard`` also condenses two neighbors. Last, when nothing older can be
    shortened, comes the turn that the user message at the index ``request`` began; that message itself is in no run.
    """
    request = newest_request(items) if request is None else request
    seen = set[tuple[str, int, int]]()
    tail = 0 if force else protect if entered is None else entered
    closer = force or entered is not None
    fewest = FORCED_FANOUT if closer else LEAF_FANOUT
    for found in (
        leaf_runs(items, protect=protect, request=request),
        leaf_runs(items, force=True, request=request) if force else (),
        leaf_runs(items, protect=tail, request=request, fewest=fewest) if closer and not force else (),
        condensed_runs(items, protect=tail, hard=force),
        condensed_runs(items, protect=tail, hard=True) if hard else (),
        widened_runs(items, protect=tail, again=force),
        leaf_runs(items, protect=tail, request=request, fewest=1) if closer and not force else (),
        turn_runs(items, protect=tail, request=request, fewest=fewest),
    ):
        for run in found:
            name = (run.kind, run.items[0].place, len(run.items))
            if run.readable and name in seen:
                continue
            seen.add(name)
            yield run


def newest_request(items: Sequence[WindowItem]) -> int:
    """The index of the newest user message, whose turn is under way; one behind the last item where there is none."""
    return next((at for at in range(len(items) - 1, -1, -1) if is_turn(items[at])), len(items))


# --- leaves ----------------------------------------------------------------------------------------------------------


def leaf_run(
    items: Sequence[WindowItem], *, protect: int = FRESH_TAIL, force: bool = False, request: int | None = None
) -> Run | Skip:
    """The oldest messages of a window (oldest first) that make a leaf, or why there are none.

    That is a stretch of messages with no summary between, outside the newest ``protect`` items and before the newest user
    message: at least 8, or as many as 20,000 tokens hold. With ``force`` only that message and what follows it is protected,
    and two messages, or one of 2,000 tokens, are enough. A shorter stretch is passed over. A call and its results are never
    in and outside a run where both are short enough to be in one. Only where no message is older than the newest user
    message, a run may lie behind it.
    """
    request = newest_request(items) if request is None else request
    found = next(leaf_runs(items, protect=protect, force=force, request=request), None)
    old = [item for item in items[:request] if not item.is_summary]
    if found is None and not old:
        found = next(turn_runs(items, protect=protect, request=request), None)
    if found is not None:
        return found
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
) -> Iterator[Run]:
    """Every run older than the newest user message that ``leaf_run`` might have chosen, the oldest first. No two overlap: all
    of them can be applied at once."""
    request = newest_request(items) if request is None else request
    yield from _leaves(items, 0, _border(items, protect, force, request), FORCED_FANOUT if force else fewest)


def turn_runs(
    items: Sequence[WindowItem], *, protect: int = FRESH_TAIL, request: int, fewest: int = LEAF_FANOUT
) -> Iterator[Run]:
    """The runs within the turn under way, for when nothing older is left: neither the user message that began it, nor its
    last call with the results, nor any of the newest ``protect`` items."""
    newest_first = range(len(items) - 1, request, -1)
    step = next((at for at in newest_first if items[at].role == ASSISTANT), len(items) - 1)
    yield from _leaves(items, request + 1, min(step, _outside(items, protect)), fewest)


def _leaves(items: Sequence[WindowItem], start: int, border: int, fewest: int) -> Iterator[Run]:
    pairs = list(answers(items))
    last = {call: at for call, at, _ in pairs}
    walls = [at for at, item in enumerate(items) if item.kind == SUMMARY and at < border]
    written = [at for at in walls if items[at].level != FALLBACK]
    for wall in (*sorted({at for at in (*walls, *_held(pairs, border)) if at >= start}), border):
        for first, stop in _chunks(items, start, wall, last, fewest):
            yield _leaf(items, first, stop, written)
        start = wall + 1


def _leaf(items: Sequence[WindowItem], first: int, stop: int, written: Sequence[int], *, readable: bool = True) -> Run:
    """``written`` are the indexes of the summaries that can be context; a fallback would tell half a sentence."""
    chosen, end = tuple(items[first:stop]), bisect_left(written, first)
    context = tuple(items[at] for at in written[max(0, end - PRECEDING) : end])
    return Run(LEAF, 0, chosen, _tokens(chosen), context, readable)


def _border(items: Sequence[WindowItem], protect: int, force: bool, request: int) -> int:
    """Where the messages end that may be summarized: before the newest user message, and the tail unless forced."""
    if not force:
        return min(request, _outside(items, protect))
    newest_first = range(len(items) - 1, -1, -1)
    return min(request, next((at for at in newest_first if not items[at].is_summary), 0))


def _outside(items: Sequence[WindowItem], protect: int) -> int:
    """Where the protected end of the window begins."""
    return max(0, len(items) - max(0, protect))


def _held(pairs: Sequence[tuple[int, int, str]], border: int) -> set[int]:
    """Messages before the border whose call is answered after it, or that answer such a call: they wait for the rest.

    Left where they are, they go into a later run together; without its call a result in the tail could not be given to a
    model.
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
    """A stretch of messages cut into what one leaf each is written from, as half-open ranges of indexes.

    A chunk ends before the message that would take it over 20,000 tokens; but a few short ones before a long message are
    taken along with it, for between two leaves they would never be summarized.
    """
    begun, tokens, at = start, 0, start
    while at < end:
        stop = _together(items, at, end, last)
        more = _tokens(items[at:stop])
        if tokens + more > LEAF_CHUNK_TOKENS and (at - begun >= LEAF_FANOUT or tokens >= MIN_TOKENS):
            yield begun, at
            begun, tokens = at, 0
        tokens, at = tokens + more, stop
        if tokens >= LEAF_CHUNK_TOKENS:
            yield begun, at
            begun, tokens = at, 0
    if at - begun >= fewest or (fewest <= FORCED_FANOUT and tokens >= MIN_TOKENS):
        yield begun, at


def _together(items: Sequence[WindowItem], at: int, end: int, last: Mapping[int, int]) -> int:
    """Where what cannot be cut off from a message ends: after the last result of its calls, and of those between.

    Only if all that but its longest message fits a chunk, and only up to a summary. Otherwise the message is by itself: both
    sides are old, so both are in a summary soon, and until then assembly leaves out a result without its call.
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


def condensed_run(items: Sequence[WindowItem], *, protect: int = FRESH_TAIL, hard: bool = False) -> Run | Skip:
    """The summaries of one depth that are condensed next, or why there are none.

    First those that begin the window, if they have 2,000 tokens together (and up to 20,000); else the oldest four
    neighbors of the shallowest depth that has as many outside the tail, with ``hard`` two to four. Never a fallback, never
    one alone, and never two with anything between them.
    """
    found = next(condensed_runs(items, protect=protect, hard=hard), None)
    if found is not None:
        return found
    fewest = CONDENSED_FANOUT_HARD if hard else CONDENSED_FANOUT
    old = [item for item in items[: _outside(items, protect)] if item.is_summary]
    real = [item for item in old if item.level != FALLBACK]
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


def condensed_runs(items: Sequence[WindowItem], *, protect: int = FRESH_TAIL, hard: bool = False) -> Iterator[Run]:
    """Every run that ``condensed_run`` might have chosen, in its order; the first two may overlap."""
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


def _condensed(items: Sequence[WindowItem], first: int, stop: int) -> Run:
    chosen = tuple(items[first:stop])
    return Run(CONDENSED, chosen[0].depth + 1, chosen, _tokens(chosen))


def _neighbors(items: Sequence[WindowItem], protect: int) -> Iterator[tuple[int, int]]:
    """Summaries of one depth side by side outside the tail, none of them a fallback, as half-open ranges of indexes."""
    depths = [
        item.depth if item.is_summary and item.level != FALLBACK else None for item in items[: _outside(items, protect)]
    ]
    for depth, group in groupby(range(len(depths)), depths.__getitem__):
        places = list(group)
        if depth is not None:
            yield places[0], places[-1] + 1


def _within(items: Sequence[WindowItem], first: int, end: int) -> int:
    """How far the items from ``first`` on fit what one summary is written from."""
    tokens, stop = 0, first
    while stop < end and tokens + items[stop].tokens <= LEAF_CHUNK_TOKENS:
        tokens += items[stop].tokens
        stop += 1
    return stop


# --- fallbacks -------------------------------------------------------------------------------------------------------


def widened_runs(items: Sequence[WindowItem], *, protect: int = FRESH_TAIL, again: bool = False) -> Iterator[Run]:
    """Fallback leaves side by side that one new leaf over all their messages can stand for, in the order to try them.

    This keeps a window bounded where there is no model. It is for when no messages are left to summarize and nothing can be
    condensed, because what is read again from the messages is the beginning only, once more, unless a model reads it.

    First neighbors whose messages a summarizer can read at once, oldest first. With ``again`` also each fallback by
    itself, for a model that failed on it before. Then, whatever they stand for, up to eight neighbors that stand for the
    fewest messages together: so that old fallbacks are not widened over and over, and n of them take about n / 7 runs.
    """
    stretches = list(_fallbacks(items, protect))
    written = [at for at, item in enumerate(items) if item.is_summary and item.level != FALLBACK] if stretches else []
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
    """Fallback leaves side by side outside the tail, as half-open ranges of indexes."""
    border = _outside(items, protect)
    is_cut = [item.is_summary and item.level == FALLBACK and item.summary_kind == LEAF for item in items[:border]]
    for cut, group in groupby(range(border), is_cut.__getitem__):
        places = list(group)
        if cut:
            yield places[0], places[-1] + 1


def _readable(items: Sequence[WindowItem], first: int, end: int) -> int:
    """How far the messages under the fallbacks from ``first`` on fit what one summary is written from."""
    tokens, stop = 0, first
    while stop < end and tokens + items[stop].source_tokens <= LEAF_CHUNK_TOKENS:
        tokens += items[stop].source_tokens
        stop += 1
    return stop


def _tokens(items: Iterable[WindowItem]) -> int:
    return sum(item.tokens for item in items)
