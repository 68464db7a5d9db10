"""The calls of a model for a summary, the sizes that an answer may have, and the cut text in place of a missing answer."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ledger.sessions.rules.window import AGGRESSIVE, LEAF, NORMAL

LEAF_TARGET, LEAF_TARGET_AGGRESSIVE = 1_200, 640
CONDENSED_TARGET, CONDENSED_TARGET_AGGRESSIVE = 2_000, 1_000
NORMAL_PERCENT, AGGRESSIVE_PERCENT = 35, 20
TEMPERATURE = 0.3
"""The targets, in tokens and as a percentage of the input; the smaller applies. The temperature is that of a first call."""

OVER_PART = 5
"""An answer may be a fifth longer than its target, because a model does not count tokens. Our own number."""

BUDGET_PART, FEWEST_TOKENS = 5, 100
"""A summary takes at most a fifth of a budget (the share that a window keeps for summaries), but may always take 100 tokens."""

FALLBACK_BYTES, FEWEST_BYTES = 2_048, 16
"""The most bytes of the text in a fallback, and the number of bytes below which it is not shortened for a budget."""


class Attempt(Struct, frozen=True):
    """A call of a model, with the size that its answer may have and the temperature."""

    level: str
    target_tokens: int
    temperature: float


def attempts(kind: str, input_tokens: int, *, below: int | None = None) -> tuple[Attempt, ...]:
    """Return the possible calls of a model in order; ``following`` chooses the next call.

    The first target is 35 % of the input and at most 1,200 tokens (condensed: 2,000), the second 20 % and at most 640 (1,000).
    Each target is tried a second time at temperature 0 if the answer was empty. If no answer is accepted, a leaf becomes a
    ``fallback``, and a condensed run is skipped ("refused"), because a fallback is no summary.

    Args:
        kind: "leaf" or "condensed".
        input_tokens: The number of tokens of the text to summarize.
        below: An accepted answer has fewer tokens than this, such as the size of the items that the summary replaces.
    """
    sizes = (
        ((LEAF_TARGET, NORMAL_PERCENT), (LEAF_TARGET_AGGRESSIVE, AGGRESSIVE_PERCENT))
        if kind == LEAF
        else ((CONDENSED_TARGET, NORMAL_PERCENT), (CONDENSED_TARGET_AGGRESSIVE, AGGRESSIVE_PERCENT))
    )
    calls = list[Attempt]()
    for level, (limit, percent) in zip((NORMAL, AGGRESSIVE), sizes, strict=True):
        target = min(limit, input_tokens * percent // 100)
        target = target if below is None else min(target, (below - 1) * OVER_PART // (OVER_PART + 1))
        if target > 0:
            calls += [Attempt(level, target, TEMPERATURE), Attempt(level, target, 0.0)]
    return tuple(calls)


def most(budget: int) -> int:
    """Return the most tokens of a summary in a window with this budget."""
    return max(FEWEST_TOKENS, budget // BUDGET_PART)


def following(tries: Sequence[Attempt], done: Attempt | None = None, text: str = "") -> Attempt | None:
    """Return the attempt after ``done``, whose answer ``text`` was not accepted; None after the last attempt.

    Without ``done`` the first attempt is returned.
    """
    if done is None:
        return next(iter(tries), None)
    later = tries[tries.index(done) + 1 :]
    return next((attempt for attempt in later if attempt.level != done.level or not text.strip()), None)


def accepts(attempt: Attempt, text: str, tokens: int) -> bool:
    """Return True if an answer of so many tokens is a summary: not blank, and at most a fifth over its target."""
    return bool(text.strip()) and 0 < tokens <= attempt.target_tokens + attempt.target_tokens // OVER_PART


def fallback(texts: Iterable[str], count: int, most: int = FALLBACK_BYTES) -> str:
    """Return the beginning of the messages' texts, up to ``most`` bytes, with a note of the number of messages.

    The text never ends within a character. Only as many of the ``texts`` are read as needed.
    """
    first_texts, size = list[str](), 0
    for text in texts:
        first_texts.append(text)
        size += len(text) + 1  # the text has at least as many bytes as characters
        if size > most:
            break
    beginning = _cut("\n".join(first_texts), most)
    return f"{beginning}\n[Truncated from {count} messages]"


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text, at most ``most`` bytes of UTF-8, cut between two characters as a reader sees them."""
    end = size = 0
    while end < len(text) and (size := size + len(text[end].encode("utf-8", "surrogatepass"))) <= most:
        end += 1
    whole = end
    while 0 < whole < len(text) and _joined(text, whole):
        whole -= 1
    return text[: whole or end]  # a text of one endless cluster is cut between two code points


def _joined(text: str, at: int) -> bool:
    """Return True if the character at an index belongs to the character before it.

    Such a character is a mark, a character next to a joiner, or the second half of a flag.
    """
    before, after = text[at - 1], text[at]
    if _is_flag(before) and _is_flag(after):
        start = at
        while start and _is_flag(text[start - 1]):
            start -= 1
        return (at - start) % 2 == 1
    return (
        "\u200d" in (before, after)
        or unicodedata.category(after).startswith("M")
        or "\U0001f3fb" <= after <= "\U0001f3ff"  # skin
        or "\U000e0020" <= after <= "\U000e007f"  # tags, of regional flags
    )


def _is_flag(sign: str) -> bool:
    return "\U0001f1e6" <= sign <= "\U0001f1ff"
