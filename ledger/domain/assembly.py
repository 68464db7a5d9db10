"""What of a session's window fits a budget of tokens, and what of that a model's provider accepts.

The turn under way comes first: the newest user message whole, then its newest steps. A share is kept for summaries, which
stand for what was said before; the other messages follow, newest first, up to the first that does not fit. The window is
read from its newest item backwards, and no further than the budget reaches: it may be 100,000 items long. What was not
looked at is left out as a whole, which the caller can state from the window's totals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.errors import RejectedError
from ledger.domain.window import WindowItem

FRESH_TAIL = 32
"""The newest items, messages and summaries alike, that are taken first and are never compacted unless forced."""

USER, ASSISTANT, TOOL, SYSTEM = "user", "assistant", "tool", "system"

SHORTEST = 64
"""What a shortened tool result takes at the least, with its mark: tokens, or four times as many characters."""

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "budget": "the next older item does not fit; older ones were not looked at, as after a budget spent exactly",
        "tail_trimmed": "the fresh tail alone is over the budget: its oldest items are left out",
        "turn_over_budget": "the last user turn (or its user message and last step, if it is longer than the tail) is over the"
        " budget with its tool results shortened",
        "results_shortened": "the oldest tool results of the last user turn are shortened; the log has them whole",
        "turn_trimmed": "the last user turn is longer than the tail and over the budget: its oldest steps are left out",
        "summaries_evicted": "not all summaries fit the share that is kept for them and what the messages leave",
        "unsafe_start": "a cut left tool calls or results at the beginning, whose user turn is gone",
        "mid_turn": "the first message makes tool calls: its turn began in a summary, or with what did not fit",
        "orphan_result": "a tool result whose call is not among the messages before it",
        "unanswered_call": "a tool call without its result, not at the end: the call is left out, its message is not",
    }
)
"""Why a fitted window is as it is; the codes that stand in ``Fitted.reasons`` and ``Dropped.why``."""


class Dropped(Struct, frozen=True):
    """An item that was looked at and is not among the chosen ones, and why."""

    item: WindowItem
    why: str


class Fitted(Struct, frozen=True):
    """A window for a model, oldest first, and how it came about.

    The items' ``calls`` and ``results`` are what may be given to a provider: those left out of a message that is itself kept
    are gone from them. ``shortened`` says how many tokens the items at these positions may take, and their ``tokens`` are
    that. ``tokens`` is the sum of the items' own. ``looked_at`` counts the messages that were read, which are the newest.
    """

    items: tuple[WindowItem, ...]
    tokens: int
    over_budget: bool = False
    reasons: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    shortened: Mapping[int, int] = MappingProxyType({})
    summaries_evicted: int = 0
    looked_at: int = 0


class Turn(Struct, frozen=True):
    """The turn under way, oldest first: the user message that began it, where the window has that, and the steps that stay.

    ``least`` are the tokens that it takes with all tool results but those of the last step shortened, ``whole`` without.
    ``left_out`` are the oldest steps that were looked at; it is ``complete`` where all were.
    """

    messages: tuple[WindowItem, ...]
    least: int
    whole: int
    left_out: tuple[WindowItem, ...] = ()
    complete: bool = True

    @property
    def looked_at(self) -> int:
        """How many of the newest messages were read; a request that was not reached among them was found apart."""
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
    """As much of the window as ``budget`` tokens hold; more only where the last user turn cannot take less.

    ``request`` is the newest user message and ``summaries`` are all of the window, for which ``kept`` tokens stay free of
    messages. The turn that ``request`` began comes first: its oldest tool results are shortened, down to ``shortest`` tokens,
    where it does not fit whole; where it is longer than ``tail`` items, its oldest steps are left out then. Older messages
    follow, newest first, up to the first that does not fit, then summaries, those first that stand for most messages.

    Raises RejectedError (rule "budget") for a budget under 1, and (rule "tail") for a tail under 1.
    """
    for name, given in (("budget", budget), ("tail", tail)):
        if given < 1:
            raise RejectedError(
                f"a {name} of {given:,} holds nothing; it is at least 1", rule=name, limit=1, requested=given
            )
    window = (item for item in newest_first if not item.is_summary)
    share = min(kept, _tokens(summaries))
    turn = turn_of(window, request, max(1, budget - share), tail=tail, shortest=shortest)
    messages, sizes = _shortened(turn, max(1, budget - share), shortest)
    dropped = [Dropped(item, "turn_trimmed") for item in turn.left_out]
    spent, whole = _tokens(messages), turn.complete and not turn.left_out
    reasons = ["turn_over_budget"] if spent > budget else []
    older, last = _older(window, budget - spent, share, tail - turn.looked_at) if whole else ([], None)
    if last is not None:
        reasons.append(last.why)
        dropped.append(last)
    stood, evicted = _best(summaries, budget - spent - _tokens(older))
    chosen = sorted([*stood, *older, *messages], key=lambda item: (item.place, item.position))
    begun = _begun(chosen, [*evicted, *(each.item for each in dropped)])
    dropped += [Dropped(item, "unsafe_start") for item in chosen[begun]]
    unsafe = bool(chosen[begun])
    del chosen[begun]
    items, orphans = paired(chosen)
    reasons += [
        *(["results_shortened"] if sizes else []),
        *(["turn_trimmed"] if not whole else []),
        *(["summaries_evicted"] if evicted else []),
        *(["unsafe_start"] if unsafe else []),
        *(["mid_turn"] if _is_mid_turn(items) else []),
        *(["orphan_result"] if orphans or _lost(chosen, items, "results") else []),
        *(["unanswered_call"] if _lost(chosen, items, "calls") else []),
    ]
    total = _tokens(items)
    return Fitted(
        items=items,
        tokens=total,
        over_budget=total > budget,
        reasons=tuple(reasons),
        dropped=(*dropped, *orphans, *(Dropped(item, "summaries_evicted") for item in evicted)),
        shortened={item.position: sizes[item.position] for item in items if item.position in sizes},
        summaries_evicted=len(evicted),
        looked_at=turn.looked_at + len(older) + (last is not None),
    )


def _older(window: Iterator[WindowItem], free: int, share: int, fresh: int) -> tuple[list[WindowItem], Dropped | None]:
    """What stands before the turn, newest first, and the first that does not fit: one of the ``fresh`` newest, or older."""
    older: list[WindowItem] = []
    while (free > 0 or len(older) < fresh) and (item := next(window, None)) is not None:
        if item.tokens > free - share:
            return older, Dropped(item, "tail_trimmed" if len(older) < fresh else "budget")
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
) -> Turn:
    """The turn under way, as much of it as has to stay or could be in ``room`` tokens with its tool results shortened.

    Without a user message the last message is what has to stay, with the call that it answers. A turn of more than ``tail``
    items may lose its oldest steps.
    """
    steps = list[WindowItem]()  # newest first
    begun = least = 0  # how many items the last step has; what the turn takes with shortened results
    complete, own = request is None, request.tokens if request is not None else 0
    for item in newest_first:
        if request is not None and item.place == request.place:
            complete = True
            break
        steps.append(item)
        least += item.tokens if not begun else _floor(item, shortest)
        if not begun and item.role == ASSISTANT:
            begun = len(steps)
        if request is None and (not item.results or len(steps) >= tail):
            break
        if len(steps) >= tail and begun and own + least > room:
            break
    begun = begun or min(len(steps), 1)
    stay = len(steps)
    if not complete or len(steps) + 1 > tail:
        stay, spent = begun, own + _tokens(steps[:begun])
        for count, item in enumerate(steps[begun:], begun + 1):
            spent += _floor(item, shortest)
            if spent > room:
                break
            if not item.results:
                stay = count
        else:
            stay = len(steps)
    messages = (*((request,) if request is not None else ()), *reversed(steps[:stay]))
    return Turn(
        messages=messages,
        least=own + _tokens(steps[:begun]) + sum(_floor(item, shortest) for item in steps[begun:stay]),
        whole=_tokens(messages),
        left_out=tuple(reversed(steps[stay:])),
        complete=complete,
    )


def _shortened(turn: Turn, room: int, shortest: int) -> tuple[list[WindowItem], dict[int, int]]:
    """The turn's messages with their oldest tool results as short as the room asks for, and the new sizes by position."""
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
    """What is left of a message whose tool results are shortened as far as can be."""
    return min(item.tokens, shortest * len(item.results)) if item.results else item.tokens


def _best(summaries: Sequence[WindowItem], room: int) -> tuple[list[WindowItem], list[WindowItem]]:
    """The summaries that fit, those first that stand for most messages (the newer of two), and the others."""
    fits, evicted = list[WindowItem](), list[WindowItem]()
    for item in sorted(summaries, key=lambda item: (item.messages, item.place), reverse=True):
        fits_still = item.tokens <= room
        (fits if fits_still else evicted).append(item)
        room -= item.tokens if fits_still else 0
    return fits, evicted


def _begun(chosen: Sequence[WindowItem], missing: Sequence[WindowItem]) -> slice:
    """The messages that no provider takes at the beginning: up to one that stands by itself, or comes directly after the
    summary of what was before it, with nothing ``missing`` between."""
    first = next((at for at, item in enumerate(chosen) if not item.is_summary), len(chosen))
    gap = max((item.place for item in missing if first < len(chosen) and item.place < chosen[first].place), default=0)
    if first and chosen[first - 1].place > gap:
        return slice(first, first)
    return slice(first, first + _safe_start(chosen[first:]))


def _tokens(items: Iterable[WindowItem]) -> int:
    return sum(item.tokens for item in items)


def is_turn(item: WindowItem) -> bool:
    """Whether a user's turn begins here: a user message, other than one that only carries tool results."""
    return not item.is_summary and item.role == USER and not item.results


def _safe_start(items: Sequence[WindowItem]) -> int:
    """Where the chosen items begin for a provider: at a summary, or a message that neither makes nor answers tool calls.

    Directly after a summary calls are safe, because it stands for the turn they belong to. Where neither a summary nor a user
    message is left (within a turn longer than what fits) any assistant message will do: less of the turn would be worse.
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
    """Whether a message that is still there has fewer calls or results than it had."""
    had = {item.place: getattr(item, field) for item in before if not item.is_summary}
    return any(getattr(item, field) != had[item.place] for item in after if not item.is_summary)


# --- calls and their results -----------------------------------------------------------------------------------------


def answers(items: Iterable[WindowItem]) -> Iterator[tuple[int, int, str]]:
    """Each tool result that answers a call before it, as (index of the call's item, index of the result's, id).

    The nearest call of that id is meant, for providers count from ``call_0`` in every turn; a call has one answer.
    """
    asked: dict[str, int] = {}
    for at, item in enumerate(items):
        if item.role == ASSISTANT:
            for name in item.calls:
                asked[name] = at
        elif item.results:
            for name in item.results:
                if (call := asked.pop(name, None)) is not None:
                    yield call, at, name


def paired(items: Sequence[WindowItem]) -> tuple[tuple[WindowItem, ...], tuple[Dropped, ...]]:
    """The items with only such calls and results as belong together, and the tool messages that had none of them.

    A call that nothing answers stays in the last message, or in the one after which only its own other results follow:
    its result is still to come. What a message says besides stays in any case; done twice it changes nothing.
    """
    pairs = list(answers(items))
    answering: dict[int, list[str]] = {}
    answered: dict[int, set[str]] = {}
    for call, at, name in pairs:
        answered.setdefault(call, set()).add(name)
        answering.setdefault(at, []).append(name)
    waiting = _waiting(items, pairs)
    kept, dropped = list[WindowItem](), list[Dropped]()
    for at, item in enumerate(items):
        if item.is_summary:
            kept.append(item)
        elif item.role == TOOL and at not in answering:
            dropped.append(Dropped(item, "orphan_result"))
        else:
            whole = dict.fromkeys(item.calls if item.role == ASSISTANT else ())
            calls = tuple(name for name in whole if at == waiting or name in answered.get(at, ()))
            results = tuple(answering.get(at, ()))
            same = (calls, results) == (item.calls, item.results)
            kept.append(item if same else replace(item, calls=calls, results=results))
    return tuple(kept), tuple(dropped)


def _waiting(items: Sequence[WindowItem], pairs: Iterable[tuple[int, int, str]]) -> int:
    """The index of the message at the end whose calls may still get results; -1 if there is none."""
    callers: dict[int, set[int]] = {}
    for call, at, _ in pairs:
        callers.setdefault(at, set()).add(call)
    own: set[int] | None = None
    for at in range(len(items) - 1, -1, -1):
        item = items[at]
        if item.is_summary or (item.role == TOOL and at not in callers):
            continue
        if item.role == ASSISTANT:
            return at if own is None or own == {at} else -1
        if item.role != TOOL or (own is not None and callers[at] != own):
            return -1
        own = callers[at]
    return -1
