"""How a model is asked for a summary, how short that has to be, and the cut text that stands in where no answer is."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ledger.domain.window import AGGRESSIVE, LEAF, NORMAL

LEAF_TARGET, LEAF_TARGET_AGGRESSIVE = 1_200, 640
CONDENSED_TARGET, CONDENSED_TARGET_AGGRESSIVE = 2_000, 1_000
NORMAL_PERCENT, AGGRESSIVE_PERCENT = 35, 20
TEMPERATURE = 0.3
"""The targets in tokens, and as a percentage of what is summarized, the smaller counts; the temperature to ask with."""

OVER_PART = 5
"""An answer may be a fifth over its target (ours): a model that meets it so nearly has done what it was asked."""

BUDGET_PART, FEWEST_TOKENS = 5, 100
"""A summary for a budget has at most a fifth of it, the share that a window keeps for summaries, or 100 tokens."""

FALLBACK_BYTES = 2_048
"""Bytes of the text in a fallback."""


class Attempt(Struct, frozen=True):
    """One call of a model: how short its answer has to be, and how freely it is asked."""

    level: str
    target_tokens: int
    temperature: float


def attempts(kind: str, input_tokens: int, *, below: int | None = None) -> tuple[Attempt, ...]:
    """The calls of a model in their order; ``following`` says which of them is next.

    35 % of what is summarized and at most 1,200 tokens (condensed: 2,000), then 20 % and 640 (1,000); each once more at
    temperature 0 if the answer was empty. ``below`` is what any accepted answer has to be shorter than, such as what it
    replaces. When none is accepted, a leaf becomes a ``fallback`` and a condensed run is skipped ("refused"): a fallback is
    no summary.
    """
    sizes = (
        ((LEAF_TARGET, NORMAL_PERCENT), (LEAF_TARGET_AGGRESSIVE, AGGRESSIVE_PERCENT))
        if kind == LEAF
        else ((CONDENSED_TARGET, NORMAL_PERCENT), (CONDENSED_TARGET_AGGRESSIVE, AGGRESSIVE_PERCENT))
    )
    found = list[Attempt]()
    for level, (limit, percent) in zip((NORMAL, AGGRESSIVE), sizes, strict=True):
        target = min(limit, input_tokens * percent // 100)
        target = target if below is None else min(target, (below - 1) * OVER_PART // (OVER_PART + 1))
        if target > 0:
            found += [Attempt(level, target, TEMPERATURE), Attempt(level, target, 0.0)]
    return tuple(found)


def most(budget: int) -> int:
    """The most tokens of a summary in a window with this budget."""
    return max(FEWEST_TOKENS, budget // BUDGET_PART)


def following(tries: Sequence[Attempt], done: Attempt | None = None, text: str = "") -> Attempt | None:
    """The attempt to make after ``done``, whose answer ``text`` was not accepted; the first one without it. None: give up."""
    if done is None:
        return next(iter(tries), None)
    later = tries[tries.index(done) + 1 :]
    return next((each for each in later if each.level != done.level or not text.strip()), None)


def accepts(attempt: Attempt, text: str, tokens: int) -> bool:
    """Whether an answer of so many tokens is a summary: it says something, and is at most a fifth over its target."""
    return bool(text.strip()) and 0 < tokens <= attempt.target_tokens + attempt.target_tokens // OVER_PART


def fallback(texts: Iterable[str], count: int) -> str:
    """The beginning of the messages' texts, up to 2,048 bytes and never half a character, and of how many it is.

    No more of ``texts`` is read than that needs.
    """
    taken, size = list[str](), 0
    for text in texts:
        taken.append(text)
        size += len(text) + 1  # at least as many bytes
        if size > FALLBACK_BYTES:
            break
    beginning = _cut("\n".join(taken), FALLBACK_BYTES)
    return f"{beginning}\n[Truncated from {count} messages]"


def _cut(text: str, most: int) -> str:
    """As much of a text as so many bytes of UTF-8 hold, ending where a reader sees one character end and the next begin."""
    end = size = 0
    while end < len(text) and (size := size + len(text[end].encode("utf-8", "surrogatepass"))) <= most:
        end += 1
    whole = end
    while 0 < whole < len(text) and _joined(text, whole):
        whole -= 1
    return text[: whole or end]  # one endless cluster: between two code points, then


def _joined(text: str, at: int) -> bool:
    """Whether the character at a place belongs to the one before: a mark, what a joiner joins, the second half of a flag."""
    before, after = text[at - 1], text[at]
    if _is_flag(before) and _is_flag(after):
        begun = at
        while begun and _is_flag(text[begun - 1]):
            begun -= 1
        return (at - begun) % 2 == 1
    return (
        "\u200d" in (before, after)
        or unicodedata.category(after).startswith("M")
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin
        or "\U000e0020" <= after <= "\U000e007f"  # tags, of regional flags
    )


def _is_flag(sign: str) -> bool:
    return "\U0001f1e6" <= sign <= "\U0001f1ff"
