"""Assembly: the choice of the part of a session's window that fits a budget of tokens and that a provider accepts.

The turn under way is chosen first: the newest user message whole, then its newest steps. A share of the budget is kept for
summaries, which stand for older messages. The other messages follow, newest first, up to the first that does not fit. The
window is read backwards from its newest item, and only as far as the budget reaches, because a window can have 100,000
items. Items that were not read are left out; the caller counts them from the totals of the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.errors import RejectedError
from ledger.sessions.rules.window import EXCERPT, WindowItem

FRESH_TAIL = 32
"""The number of newest items (messages and summaries) that are chosen first, and that are compacted only by force."""

USER, ASSISTANT, TOOL, SYSTEM = "user", "assistant", "tool", "system"

SHORTEST = 64
"""The least size of a shortened tool result with its mark: tokens, or four times as many characters."""

FEWEST = 24
"""The least size of a part of the first message that does not fit, with its mark: tokens, or four times as many characters."""

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "budget": "the next older item does not fit; older ones were not looked at, as after a budget spent exactly",
        "tail_trimmed": "the fresh tail alone is over the budget: its oldest items are left out",
        "turn_over_budget": "the last user turn (or its user message and last step, if it is longer than the tail) is over the"
        " budget with its tool results shortened",
        "results_shortened": "the oldest tool results of the last user turn are shortened; the log has them whole",
        "turn_trimmed": "the last user turn is longer than the tail and over the budget: its oldest steps are left out",
        "summaries_evicted": "not all summaries fit the share that is kept for them and the room that the messages leave",
        "excerpts_shortened": "excerpts have only their weightiest lines, as many as the room that the messages leave holds",
        "message_shortened": "the next older message does not fit: the window has its weightiest sentences",
        "step_shortened": "the next older tool calls do not fit with their results: the oldest results are shortened",
        "unsafe_start": "a cut left tool calls or results at the beginning, whose user turn is gone",
        "mid_turn": "the first message makes tool calls: its turn began in a summary, or with messages that did not fit",
        "orphan_result": "a tool result has no call among the messages before it",
        "unanswered_call": "a tool call before the end has no result: the call is left out, its message stays",
    }
)
"""The codes in ``Fitted.reasons`` and ``Dropped.why``, each with its meaning."""


class DroppedItem(Struct, frozen=True):
    """An item that was read and not chosen, with the reason (a code of ``REASONS``)."""

    item: WindowItem
    why: str


class Fitted(Struct, frozen=True):
    """A window for a model, oldest item first, with the reasons for what it lacks.

    ``calls`` and ``results`` of an item are only those that a provider accepts. ``shortened`` holds, by the position of an item
    (a message with tool results, an excerpt, or the first message that does not fit whole), the number of tokens that the item
    may take, which is also the item's ``tokens``. ``tokens`` is the sum of the items' tokens.
    ``looked_at`` is the number of the newest messages that were read.
    """

    items: tuple[WindowItem, ...]
    tokens: int
    over_budget: bool = False
    reasons: tuple[str, ...] = ()
    dropped: tuple[DroppedItem, ...] = ()
    shortened: Mapping[int, int] = MappingProxyType({})
    summaries_evicted: int = 0
    looked_at: int = 0


class CurrentTurn(Struct, frozen=True):
    """The turn under way, oldest message first.

    ``messages`` are the user message that began the turn, if the window has it, and the steps that fit. ``least`` is the number
    of tokens of the turn if all tool results except those of the last step are shortened; ``whole`` is the number of tokens
    without shortening. ``left_out`` are the oldest steps that were read and do not fit. The turn is ``complete`` if all its
    steps were read.
    """

    messages: tuple[WindowItem, ...]
    least: int
    whole: int
    left_out: tuple[WindowItem, ...] = ()
    complete: bool = True

    @property
    def looked_at(self) -> int:
        """Return the number of the newest messages that were read.

        The user message counts only if the reading reached it.
        """
        return len(self.messages) + len(self.left_out) - (not self.complete)


def fit(
    newest_first: Iterable[WindowItem],
    budget: int,
    *,
    request: WindowItem | None = None,
    summaries: Sequence[WindowItem] = (),
    kept: int = 0,
    tail: int = FRESH_TAIL,
    shortest: int = SHORTEST,
) -> Fitted:
    """Return as much of the window as the budget holds; more only if the last user turn cannot take less.

    The turn that ``request`` began comes first. If the turn does not fit whole, its oldest tool results are shortened. If it
    still does not fit and is longer than ``tail`` items, its oldest steps are left out. Older messages follow, newest first, up
    to the first that does not fit. Then come the summaries, those that stand for most messages first; excerpts are shortened to
    the room. What is left goes to a part of the first message that does not fit. If it calls a tool or is a result, all of its
    step back to a message that may begin a window is taken together, with shortened results, or nothing of it.

    Args:
        newest_first: The items of the window; summaries among them are ignored.
        budget: The most tokens (or characters, if the items are measured in characters).
        request: The newest user message.
        summaries: All summaries of the window.
        kept: The number of tokens that messages leave free for the summaries.
        tail: A turn of at most so many items keeps all its steps.

    Raises:
        RejectedError: ``budget`` (rule "budget") or ``tail`` (rule "tail") is below 1.
    """
    _check_bounds(budget=budget, tail=tail)
    window = (item for item in newest_first if not item.is_summary)
    share = min(kept, _tokens(summaries))
    turn = turn_of(window, request, max(1, budget - share), tail=tail, shortest=shortest)
    messages, sizes = _shortened(turn, max(1, budget - share), shortest)
    dropped = [DroppedItem(item, "turn_trimmed") for item in turn.left_out]
    spent, whole, results_shortened = _tokens(messages), turn.complete and not turn.left_out, bool(sizes)
    reasons = ["turn_over_budget"] if spent > budget else []
    fresh = tail - turn.looked_at
    older, last = _older(window, budget - spent, share, fresh) if whole else ([], None)
    fitting, evicted = _best(summaries, budget - spent - _tokens(older), shortest)
    sizes |= {item.position: item.tokens for item in fitting if item not in summaries}
    excerpts_shortened = bool(sizes.keys() & {item.position for item in fitting})
    left = budget - spent - _tokens(older) - _tokens(fitting)
    if last is not None and last.item.tokens <= left:  # the summaries need less than was kept for them
        more, last = _older(chain([last.item], window), left, 0, fresh - len(older))
        older, left = [*older, *more], left - _tokens(more)
    beginning = _beginning(older, last, window, fitting, left, shortest)
    if last is not None:
        reasons.append(last.why)
        dropped += [DroppedItem(item, last.why) for item in beginning.read]
        dropped += [] if beginning.fits else [last]
    if beginning.fits:
        older[len(older) - beginning.known :] = beginning.items
        sizes |= {item.position: item.tokens for item in beginning.cut}
        reasons += beginning.reasons
    signs = {
        "results_shortened": results_shortened,
        "excerpts_shortened": excerpts_shortened,
        "turn_trimmed": not whole,
        "summaries_evicted": bool(evicted),
    }
    return _accepted(
        [*fitting, *older, *messages],
        dropped,
        evicted,
        budget=budget,
        reasons=[*reasons, *(reason for reason, holds in signs.items() if holds)],
        sizes=sizes,
        looked_at=turn.looked_at + len(older) + (last is not None and not beginning.fits) + len(beginning.read),
    )


def _accepted(
    items: Iterable[WindowItem],
    dropped: list[DroppedItem],
    evicted: Sequence[WindowItem],
    *,
    budget: int,
    reasons: Sequence[str],
    sizes: Mapping[int, int],
    looked_at: int,
) -> Fitted:
    """Return the chosen items in order, without those that no provider accepts."""
    chosen = sorted(items, key=lambda item: (item.place, item.position))
    unaccepted = _unaccepted_start(chosen, [*evicted, *(drop.item for drop in dropped)])
    unsafe = [DroppedItem(item, "unsafe_start") for item in chosen[unaccepted]]
    del chosen[unaccepted]
    kept, orphans = paired(chosen)
    signs = {
        "unsafe_start": bool(unsafe),
        "mid_turn": _is_mid_turn(kept),
        "orphan_result": bool(orphans) or _lost(chosen, kept, "results"),
        "unanswered_call": _lost(chosen, kept, "calls"),
    }
    total = _tokens(kept)
    return Fitted(
        items=kept,
        tokens=total,
        over_budget=total > budget,
        reasons=(*reasons, *(reason for reason, holds in signs.items() if holds)),
        dropped=(*dropped, *unsafe, *orphans, *(DroppedItem(item, "summaries_evicted") for item in evicted)),
        shortened={item.position: sizes[item.position] for item in kept if item.position in sizes},
        summaries_evicted=len(evicted),
        looked_at=looked_at,
    )


def _check_bounds(**least_one: int) -> None:
    for name, value in least_one.items():
        if value < 1:
            raise RejectedError(
                f"the {name} must be at least 1, and {value:,} was asked", rule=name, limit=1, requested=value
            )


def _older(
    window: Iterator[WindowItem], free: int, share: int, fresh: int
) -> tuple[list[WindowItem], DroppedItem | None]:
    """Return the items before the turn that fit, newest first, and the first item that does not fit.

    An item among the ``fresh`` newest is dropped as "tail_trimmed", an older one as "budget".
    """
    older: list[WindowItem] = []
    while (free > 0 or len(older) < fresh) and (item := next(window, None)) is not None:
        if item.tokens > free - share:
            return older, DroppedItem(item, "tail_trimmed" if len(older) < fresh else "budget")
        free -= item.tokens
        older.append(item)
    return older, None


def turn_of(
    newest_first: Iterator[WindowItem],
    request: WindowItem | None,
    room: int,
    *,
    tail: int = FRESH_TAIL,
    shortest: int = SHORTEST,
) -> CurrentTurn:
    """Return the turn under way, as much of it as fits the room with its tool results shortened.

    The last step always stays. Without a user message the last message stays, with the call that it answers. A turn of more than
    ``tail`` items may lose its oldest steps.

    Args:
        newest_first: The messages, newest first.
        request: The user message that began the turn; None if the window has none.
        room: The number of tokens that the turn may take.
        tail: A turn of at most so many items loses no step.
        shortest: The least tokens of a shortened tool result.
    """
    steps = list[WindowItem]()  # newest first
    last_step = least = 0  # the number of items of the last step; the tokens of the turn with shortened results
    complete, request_tokens = request is None, request.tokens if request is not None else 0
    for item in newest_first:
        if request is not None and item.place == request.place:
            complete = True
            break
        steps.append(item)
        least += item.tokens if not last_step else _floor(item, shortest)
        if not last_step and item.role == ASSISTANT:
            last_step = len(steps)
        if request is None and (not item.results or len(steps) >= tail):
            break
        if len(steps) >= tail and last_step and request_tokens + least > room:
            break
    last_step = last_step or min(len(steps), 1)
    stay = len(steps)
    if not complete or len(steps) + 1 > tail:
        stay, spent = last_step, request_tokens + _tokens(steps[:last_step])
        for count, item in enumerate(steps[last_step:], last_step + 1):
            spent += _floor(item, shortest)
            if spent > room:
                break
            if not item.results:
                stay = count
        else:
            stay = len(steps)
    messages = (*((request,) if request is not None else ()), *reversed(steps[:stay]))
    return CurrentTurn(
        messages=messages,
        least=request_tokens
        + _tokens(steps[:last_step])
        + sum(_floor(item, shortest) for item in steps[last_step:stay]),
        whole=_tokens(messages),
        left_out=tuple(reversed(steps[stay:])),
        complete=complete,
    )


def _shortened(turn: CurrentTurn, room: int, shortest: int) -> tuple[list[WindowItem], dict[int, int]]:
    """Return the messages of the turn, and the new sizes of the shortened messages by position.

    The oldest tool results are shortened first, as far as the room requires.
    """
    over, sizes = turn.whole - room, dict[int, int]()
    messages = list[WindowItem]()
    for item in turn.messages:
        less = min(over, item.tokens - _floor(item, shortest))
        if less > 0:
            sizes[item.position] = item.tokens - less
            item, over = replace(item, tokens=item.tokens - less), over - less
        messages.append(item)
    return messages, sizes


def _floor(item: WindowItem, shortest: int) -> int:
    """Return the number of tokens of a message whose tool results are shortened as far as possible."""
    return min(item.tokens, shortest * len(item.results)) if item.results else item.tokens


def _best(summaries: Sequence[WindowItem], room: int, shortest: int) -> tuple[list[WindowItem], list[WindowItem]]:
    """Return the summaries that fit and the summaries that do not fit.

    Summaries that stand for more messages come first, and of equal summaries the newer. Excerpts divide the rest by what they
    stand for; a part below ``shortest`` is not enough.
    """
    fitting, evicted = list[WindowItem](), list[WindowItem]()
    elastic = [item for item in summaries if item.level == EXCERPT]
    for item in sorted(summaries, key=lambda item: (item.messages, item.place), reverse=True):
        if item.level == EXCERPT:
            continue
        fits = item.tokens <= room
        (fitting if fits else evicted).append(item)
        room -= item.tokens if fits else 0
    stood_for = sum(item.source_tokens for item in elastic)
    for item in sorted(elastic, key=lambda item: item.tokens / max(1, item.source_tokens)):
        part = min(item.tokens, room * item.source_tokens // max(1, stood_for))
        fits = part == item.tokens or part >= shortest
        (fitting if fits else evicted).append(item if part == item.tokens or not fits else replace(item, tokens=part))
        stood_for -= item.source_tokens
        room -= part if fits else 0
    return fitting, evicted


class Beginning(Struct, frozen=True):
    """The oldest messages of a window, the newest first, as much of them as the room holds.

    ``known`` is the number of those that fitted already. ``shortened`` are the positions of those that are cut, and ``read`` the
    messages that were read and are not among them. If the beginning does not fit, there are no items.
    """

    items: tuple[WindowItem, ...] = ()
    known: int = 0
    shortened: frozenset[int] = frozenset()
    read: tuple[WindowItem, ...] = ()

    @property
    def fits(self) -> bool:
        return bool(self.items)

    @property
    def cut(self) -> list[WindowItem]:
        """Return the items that were cut to the room."""
        return [item for item in self.items if item.position in self.shortened]

    @property
    def reasons(self) -> list[str]:
        shortened = {"message_shortened" if _is_plain(item) else "step_shortened" for item in self.cut}
        return sorted(shortened)  # "message_shortened" stands first


def _beginning(
    older: Sequence[WindowItem],
    dropped: DroppedItem | None,
    window: Iterator[WindowItem],
    summaries: Sequence[WindowItem],
    room: int,
    shortest: int,
) -> Beginning:
    """Return the first message that does not fit, and those around it without which it cannot begin a window, cut to the room.

    These are the steps after it, up to a message that may begin a window, and the messages before it, back to such a message or
    to a summary. The oldest results are cut first, to their beginning, then a message to its weightiest sentences, and what
    fits already last.
    """
    if dropped is None:
        return Beginning()
    after = list(takewhile(lambda item: not _is_plain(item), reversed(older)))
    group, fewest = after[::-1], shortest * FEWEST // SHORTEST
    room += _tokens(group)
    least, item = sum(_floor(known, shortest) for known in group), dropped.item
    read = list[WindowItem]()
    while True:
        group.append(item)
        least += min(item.tokens, fewest) if _is_plain(item) else _floor(item, shortest)
        if least > room:
            return Beginning(read=tuple(read))
        if _is_plain(item):
            break
        before, item_place = next(window, None), item.place
        if before is not None:
            read.append(before)
        first = before.place if before is not None else 0
        if any(first < summary.place < item_place for summary in summaries):
            break
        if before is None:
            return Beginning(read=tuple(read))
        item = before
    over, cut, items = _tokens(group) - room, set[int](), list[WindowItem]()
    fitted = {item.position for item in after}
    for item in sorted(group, key=lambda item: (item.position in fitted, _is_plain(item), item.place)):
        less = min(over, item.tokens - (min(item.tokens, fewest) if _is_plain(item) else _floor(item, shortest)))
        if less > 0:
            item, over = replace(item, tokens=item.tokens - less), over - less
            cut.add(item.position)
        items.append(item)
    items.sort(key=lambda item: item.place, reverse=True)
    inside = {item.position for item in items}
    unused = tuple(item for item in read if item.position not in inside)
    return Beginning(tuple(items), len(after), frozenset(cut), unused)


def _is_plain(item: WindowItem) -> bool:
    """Return True if a window may begin with a message: it calls no tool, and is no result."""
    return not (item.calls or item.results or item.role == TOOL)


def _unaccepted_start(chosen: Sequence[WindowItem], missing: Sequence[WindowItem]) -> slice:
    """Return the slice of the messages that no provider accepts at the beginning of a conversation.

    The slice is empty if the first message directly follows a summary of the messages before it (no ``missing`` item between).
    """
    first = next((at for at, item in enumerate(chosen) if not item.is_summary), len(chosen))
    gap = max((item.place for item in missing if first < len(chosen) and item.place < chosen[first].place), default=0)
    if first and chosen[first - 1].place > gap:
        return slice(first, first)
    return slice(first, first + _safe_start(chosen[first:]))


def _tokens(items: Iterable[WindowItem]) -> int:
    return sum(item.tokens for item in items)


def is_turn(item: WindowItem) -> bool:
    """Return True if a turn of the user begins with this item: a user message that is more than tool results."""
    return not item.is_summary and item.role == USER and not item.results


def _safe_start(items: Sequence[WindowItem]) -> int:
    """Return the index of the first item that a provider accepts at the beginning.

    Such an item is a summary, or a message without tool calls and results. If there is neither a summary nor a user message
    (within a turn that is longer than the budget), any assistant message counts, so that less of the turn is dropped.
    """
    within = not any(item.is_summary or is_turn(item) for item in items)
    for at, item in enumerate(items):
        plain = item.is_summary or is_turn(item) or not (item.role == TOOL or item.results or item.calls)
        if plain or (within and item.role == ASSISTANT):
            return at
    return len(items)


def _is_mid_turn(items: Iterable[WindowItem]) -> bool:
    first = next((item for item in items if not item.is_summary), None)
    return first is not None and bool(first.calls)


def _lost(before: Iterable[WindowItem], after: Iterable[WindowItem], field: str) -> bool:
    """Return True if a message that stays has fewer calls or results than before."""
    had = {item.place: getattr(item, field) for item in before if not item.is_summary}
    return any(getattr(item, field) != had[item.place] for item in after if not item.is_summary)


# --- calls and their results -----------------------------------------------------------------------------------------


def answers(items: Iterable[WindowItem]) -> Iterator[tuple[int, int, str]]:
    """Yield (index of the call's item, index of the result's item, id) of each tool result that answers an earlier call.

    A result answers the nearest earlier call with its id, because providers count from ``call_0`` in every turn. A call has only
    one answer.
    """
    callers: dict[str, int] = {}
    for at, item in enumerate(items):
        if item.role == ASSISTANT:
            for name in item.calls:
                callers[name] = at
        elif item.results:
            for name in item.results:
                if (call := callers.pop(name, None)) is not None:
                    yield call, at, name


def paired(items: Sequence[WindowItem]) -> tuple[tuple[WindowItem, ...], tuple[DroppedItem, ...]]:
    """Return the items with only the calls and results that belong together, and the tool messages that answer no call.

    A call without an answer stays if its result may still come: in the last message, or in a message that only its own results
    follow. The other contents of a message always stay. A second application changes nothing.
    """
    pairs = list(answers(items))
    answering: dict[int, list[str]] = {}
    answered: dict[int, set[str]] = {}
    for call, at, name in pairs:
        answered.setdefault(call, set()).add(name)
        answering.setdefault(at, []).append(name)
    waiting = _waiting(items, pairs)
    kept, dropped = list[WindowItem](), list[DroppedItem]()
    for at, item in enumerate(items):
        if item.is_summary:
            kept.append(item)
        elif item.role == TOOL and at not in answering:
            dropped.append(DroppedItem(item, "orphan_result"))
        else:
            whole = dict.fromkeys(item.calls if item.role == ASSISTANT else ())
            calls = tuple(name for name in whole if at == waiting or name in answered.get(at, ()))
            results = tuple(answering.get(at, ()))
            same = (calls, results) == (item.calls, item.results)
            kept.append(item if same else replace(item, calls=calls, results=results))
    return tuple(kept), tuple(dropped)


def _waiting(items: Sequence[WindowItem], pairs: Iterable[tuple[int, int, str]]) -> int:
    """Return the index of the last message whose calls may still get results, or -1."""
    callers: dict[int, set[int]] = {}
    for call, at, _ in pairs:
        callers.setdefault(at, set()).add(call)
    last_callers: set[int] | None = None
    for at in range(len(items) - 1, -1, -1):
        item = items[at]
        if item.is_summary or (item.role == TOOL and at not in callers):
            continue
        if item.role == ASSISTANT:
            return at if last_callers is None or last_callers == {at} else -1
        if item.role != TOOL or (last_callers is not None and callers[at] != last_callers):
            return -1
        last_callers = callers[at]
    return -1
