"""What of a session's window fits a budget of tokens, and what of that a model's provider accepts.

The window is read from its newest item backwards, and no further than the budget reaches: it may be 100,000 items long. What
is taken is one stretch without gaps, up to the newest item; everything older than where reading stopped is left out as a
whole, which the caller can state from the window's totals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.errors import RejectedError
from ledger.domain.window import WindowItem

FRESH_TAIL = 32
"""The newest items, messages and summaries alike, that are taken first and are never compacted unless forced."""

USER, ASSISTANT, TOOL, SYSTEM = "user", "assistant", "tool", "system"

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "budget": "the next older item does not fit; older ones were not looked at, as after a budget spent exactly",
        "tail_trimmed": "the fresh tail alone is over the budget: its oldest items are left out",
        "turn_over_budget": "the last user turn (or its last step, if it began before the tail) is over the budget, and whole",
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
    are gone from them. ``tokens`` is the sum of the items' own. ``looked_at`` counts the items that were read, which are the
    newest of the window: all older ones are left out too.
    """

    items: tuple[WindowItem, ...]
    tokens: int
    over_budget: bool = False
    reasons: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    looked_at: int = 0


def fit(newest_first: Iterable[WindowItem], budget: int, *, tail: int = FRESH_TAIL) -> Fitted:
    """As much of the window's end as ``budget`` tokens hold; more only where the last user turn alone is more.

    The newest ``tail`` items come first. If they are over the budget, and a user message among them with all that follows it
    is too, that turn is kept whole (``over_budget``); otherwise their oldest are left out until they fit. If they are not,
    older items follow up to the first that does not fit. Of a last turn that began before the tail at least the last call
    and its results are kept: the turn may be of any length, and no provider takes it whole.

    Raises RejectedError (rule "budget") for a budget under 1, and (rule "tail") for a tail under 1.
    """
    for name, given in (("budget", budget), ("tail", tail)):
        if given < 1:
            raise RejectedError(
                f"a {name} of {given:,} holds nothing; it is at least 1", rule=name, limit=1, requested=given
            )
    window = iter(newest_first)
    chosen = list(islice(window, tail))  # newest first, until it is all there
    looked_at, spent = len(chosen), _tokens(chosen)
    reasons, dropped = list[str](), list[Dropped]()
    if spent > budget:
        kept, why = _trimmed(chosen, budget)
        reasons.append(why)
        dropped += [Dropped(item, why) for item in chosen[kept:]]
        del chosen[kept:]
    else:
        while spent < budget and (item := next(window, None)) is not None:
            looked_at += 1
            if spent + item.tokens > budget:
                reasons.append("budget")
                dropped.append(Dropped(item, "budget"))
                break
            spent += item.tokens
            chosen.append(item)
    chosen.reverse()
    begun = _safe_start(chosen)
    dropped += [Dropped(item, "unsafe_start") for item in chosen[:begun]]
    items, orphans = paired(chosen[begun:])
    reasons += [
        *(["unsafe_start"] if begun else []),
        *(["mid_turn"] if _is_mid_turn(items) else []),
        *(["orphan_result"] if orphans or _lost(chosen[begun:], items, "results") else []),
        *(["unanswered_call"] if _lost(chosen[begun:], items, "calls") else []),
    ]
    total = _tokens(items)
    return Fitted(items, total, total > budget, tuple(reasons), (*dropped, *orphans), looked_at)


def _tokens(items: Iterable[WindowItem]) -> int:
    return sum(item.tokens for item in items)


def _trimmed(newest_first: Sequence[WindowItem], budget: int) -> tuple[int, str]:
    """How many of a tail over the budget are kept, from the newest, and why no more.

    Of a turn that began before the tail, what has to stay is its last step: the newest call with its results.
    """
    counted = list(enumerate(newest_first, start=1))
    step = next((count for count, item in counted if item.role == ASSISTANT), 0)
    turn = next((count for count, item in counted if is_turn(item)), step)
    spent = fits = 0
    for count, item in counted:
        spent += item.tokens
        if spent > budget:
            break
        fits = count
    return (turn, "turn_over_budget") if turn > fits else (fits, "tail_trimmed")


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
        plain = item.is_summary or not (item.role == TOOL or item.results or item.calls)
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
