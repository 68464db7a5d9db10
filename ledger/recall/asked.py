"""A checked recall request: the texts to search, the ranking, and the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import get_args

from msgspec import Struct

from ledger.core.snapshot import LIST_CAP
from ledger.domain import tokens
from ledger.domain.errors import RejectedError
from ledger.domain.metadata import NO_PAIRS, Pairs
from ledger.domain.metadata import checked as checked_pairs
from ledger.domain.text import check_text, check_word, flags, one_of, text_list
from ledger.memories import rules as memory_domain
from ledger.types import Packing
from projections.search.ranking import RANKINGS, SCORE

QUERY_BYTES = 1024 * 1024
AMONG = ("memories", "chunks", "turns")
CORPORA = {"chunks": ("chunk",), "turns": ("turn", "message")}  # a turn was captured, a message appended to a session
UNITS: dict[str, Callable[[str], int]] = {"chars": len, "tokens": tokens.estimate}
PACKINGS = get_args(Packing)
CONTEXT = "context"  # the packing of ledger.context(), which callers cannot name
NEVER = "candidate"
MOST_OBSERVATIONS = 50


class RecallRequest(Struct, frozen=True, kw_only=True):
    query: str
    user: str
    project: str | None
    kinds: tuple[str, ...]
    among: tuple[str, ...]
    statuses: tuple[str, ...]
    k: int
    budget: int | None
    unit: str
    packing: str
    ranking: str
    explain: bool
    now: str  # the time for confidences and validity
    observations: int = 0
    metadata: Pairs = NO_PAIRS
    min_match: float | None = None

    @property
    def scored(self) -> bool:
        """Return True if candidates are ranked by a score of their texts, not by their places in lists."""
        return self.ranking == SCORE

    @property
    def lends(self) -> bool:
        """Return True if turns lend their neighbors a part of their scores. In a context each turn is ranked alone."""
        return "turns" in self.among and self.packing != CONTEXT

    @property
    def corpora(self) -> tuple[str, ...]:
        """Return the corpora of passages that are searched."""
        return tuple(corpus for name in self.among for corpus in CORPORA.get(name, ()))

    @property
    def letters(self) -> tuple[str, ...]:
        """Return the letters of the vector corpora that are searched: "m" for memories, "p" for passages."""
        return (*(("m",) if "memories" in self.among else ()), *(("p",) if self.corpora else ()))


def checked(
    *,
    query: object,
    user: str,
    project: str | None,
    among: str | Iterable[str],
    k: int,
    budget: int | None,
    unit: str,
    now: str,
    observations: int,
    kinds: str | Iterable[str] = (),
    status: str | Iterable[str] = "active",
    packing: str = "greedy",
    ranking: str = SCORE,
    explain: bool = False,
    metadata: Pairs = NO_PAIRS,
    min_match: float | None = None,
) -> RecallRequest:
    text = check_text("query", query, max_bytes=QUERY_BYTES, blank_allowed=True)
    places, bound = text_list("among", among), size("budget", budget)
    only = tuple(
        check_word("a kind", kind, memory_domain.KINDS, memory_domain.SYNONYMS) for kind in text_list("kinds", kinds)
    )
    if not places:
        raise RejectedError(f"among must name at least one of {', '.join(AMONG)}")
    # A receipt stores these names, and no erasure reaches them: so only known names pass.
    for place in places:
        one_of("among", place, (*AMONG, "all"))
    name = "" if project is None else check_text("project", project, blank_allowed=True)
    one_of("unit", unit, tuple(UNITS))
    if packing != CONTEXT:
        one_of("packing", packing, PACKINGS)
    one_of("ranking", ranking, RANKINGS)
    if packing == "shares" and bound is None:
        raise RejectedError('packing="shares" divides a budget, so it needs one: pass budget=')
    for argument, number, most in (("limit", k, LIST_CAP), ("observations", observations, MOST_OBSERVATIONS)):
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= most:
            raise RejectedError(
                f"{argument} must be a whole number from 0 to {most}, but {number!r:.40} was given", rule="limit"
            )
    flags(explain=explain)
    if min_match is not None and (
        isinstance(min_match, bool) or not isinstance(min_match, int | float) or not 0 <= min_match <= 1
    ):
        raise RejectedError(f"min_match must be a number from 0 to 1, but {min_match!r:.40} was given")
    statuses, pairs = _statuses(status), checked_pairs(metadata)
    bare = bool(only or pairs or "active" not in statuses)  # an observation is active, without a kind and metadata
    return RecallRequest(
        query=text,
        user=user,
        project=name if name.strip() else None,
        kinds=only,
        among=("memories",) if only else AMONG if "all" in places else places,
        statuses=statuses,
        k=k,
        budget=bound,
        unit=unit,
        packing=packing,
        ranking=ranking,
        explain=explain,
        now=now,
        observations=0 if bare else observations,
        metadata=pairs,
        min_match=min_match,
    )


def _statuses(status: str | Iterable[str]) -> tuple[str, ...]:
    names = text_list("status", status)
    if names == ("all",):
        return tuple(name for name in memory_domain.STATUSES if name not in (NEVER, memory_domain.ERASED))
    for name in names:
        if name == NEVER:
            raise RejectedError("a candidate is not recalled before it is promoted: see review()", rule="trust")
        one_of("status", name, (*memory_domain.STATUSES, "all"))
    if not names:
        raise RejectedError('statuses must name at least one status, such as "active", or "all"')
    return names


def size(argument: str, number: object) -> int | None:
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 0):
        raise RejectedError(f"{argument} must be a whole number from 0, but {number!r:.40} was given")
    return number
