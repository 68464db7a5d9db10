"""Does a response restate a memory? The three versions of the rule, and the filter that finds the memories to ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from ledger.domain.errors import RejectedError
from ledger.domain.text import stems

# Every number here is ATOCore's (SEEDS 1b). A released version never changes: an event that names "stems/3" must mean
# the same for ever, so another rule is another version.

DEFAULT_MATCHER = "stems/3"

MIN_CONTENT_CHARS = 12
"""substring/1: a memory shorter than this never matches; it would occur by accident."""

WINDOW_CHARS = 80
"""substring/1: this many characters from the memory's beginning must occur in the response."""

SHARE_PERCENT = 70
"""stems/2, and stems/3 for a short memory: the share of the memory's stems that must occur."""

SHORT_STEMS = 15
"""stems/3: a memory of at most this many stems is short."""

LONG_MIN_OVERLAP = 12
"""stems/3: a long memory needs at least this many stems in common, and also LONG_SHARE_PERCENT of its own."""

LONG_SHARE_PERCENT = 35


@dataclass(frozen=True, slots=True)
class Match:
    """The evidence of a match: how much of the memory the response holds.

    ``overlap`` of ``total`` units (stems; characters of the window for substring/1); ``fraction`` is their quotient in
    millionths, rounded half even.
    """

    overlap: int
    total: int
    fraction: int


class Response:
    """A text in which memories are looked for, prepared once for any number of them."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def normalised(self) -> str:
        """Lower case, each run of whitespace one space: what substring/1 searches."""
        return _lowered(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        """What stems/2 and stems/3 search."""
        return stems(self.text)


def match(version: str, response: Response, content: str) -> Match | None:
    """The match of a memory's content in the response under that version of the rule, or None.

    Raises RejectedError for a version that does not exist.
    """
    if version not in MATCHERS:
        raise RejectedError(f"there is no matcher {version!r}; there are {', '.join(MATCHERS)}")
    return MATCHERS[version](response, content)


def _substring_1(response: Response, content: str) -> Match | None:
    wanted = _lowered(content)
    window = wanted[:WINDOW_CHARS]
    if len(wanted) < MIN_CONTENT_CHARS or window not in response.normalised:
        return None
    return Match(len(window), len(window), 1_000_000)


def _stems_2(response: Response, content: str) -> Match | None:
    return _overlap(response, stems(content), needed_stems_2)


def _stems_3(response: Response, content: str) -> Match | None:
    return _overlap(response, stems(content), needed_stems_3)


MATCHERS: Mapping[str, Callable[[Response, str], Match | None]] = MappingProxyType(
    {"substring/1": _substring_1, "stems/2": _stems_2, "stems/3": _stems_3}
)


def needed_stems_2(total: int) -> int:
    """How many of a memory's ``total`` stems a response must hold under stems/2."""
    return _at_least(SHARE_PERCENT, total)


def needed_stems_3(total: int) -> int:
    """How many of a memory's ``total`` stems a response must hold under stems/3."""
    if total <= SHORT_STEMS:
        return _at_least(SHARE_PERCENT, total)
    return max(LONG_MIN_OVERLAP, _at_least(LONG_SHARE_PERCENT, total))


def prefix_stems(content: str) -> tuple[str, ...]:
    """The few stems of a memory of which every text that matches it under stems/2 or stems/3 holds at least one.

    An index from these stems to memories therefore misses none (the prefix filter of set-similarity joins): of n stems,
    t needed, a text that holds none of n - t + 1 of them holds at most t - 1. The longest stems are taken, being the
    rarest. substring/1 is not covered.
    """
    # t is that of stems/3, which never needs more than stems/2: for n > 15, ceil(0.7 n) >= 12 and >= ceil(0.35 n).
    own = sorted(stems(content))
    own.sort(key=len, reverse=True)  # stable: equal lengths stay in alphabetical order
    return tuple(own[: len(own) - needed_stems_3(len(own)) + 1]) if own else ()


def _overlap(response: Response, own: frozenset[str], needed: Callable[[int], int]) -> Match | None:
    overlap, total = len(own & response.stems), len(own)
    if not total or overlap < needed(total):
        return None
    return Match(overlap, total, _millionths(overlap, total))


def _at_least(percent: int, total: int) -> int:
    return -(-percent * total // 100)


def _millionths(part: int, whole: int) -> int:
    quotient, rest = divmod(part * 1_000_000, whole)
    return quotient + (2 * rest > whole or (2 * rest == whole and quotient % 2))


def _lowered(text: str) -> str:
    return " ".join(text.lower().split())
