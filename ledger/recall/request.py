"""A checked recall request: the texts to search, the ranking, and the budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.reads import LIST_CAP
from ledger.domain import tokens
from ledger.domain.errors import RejectedError
from ledger.domain.kinds import KINDS, SYNONYMS
from ledger.domain.metadata import NO_PAIRS, Pairs
from ledger.domain.metadata import checked as checked_pairs
from ledger.domain.text import check_text, check_word, flags, one_of, text_list
from ledger.memories.state import ERASED, STATUSES
from ledger.types import Packing
from projections.search.ranking import RANKINGS, SCORE

QUERY_BYTES = 1024 * 1024
AMONG = ("memories", "chunks", "turns", "values")
CORPORA: dict[str, tuple[str, ...]] = {  # a turn was captured, a message appended to a session
    "chunks": ("chunk",),
    "turns": ("turn", "message"),
    "values": ("value",),
}
UNITS: dict[str, Callable[[str], int]] = {"chars": len, "tokens": tokens.estimate}
PACKINGS = get_args(Packing)
CONTEXT = "context"  # the packing of ledger.context(), which callers cannot name
NEVER = "candidate"  # the status of memories that no recall finds
OBSERVATIONS, MOST_OBSERVATIONS = 3, 50  # the default number of observations beside the items, and the most
AMONG_ITEMS = "items"  # instead of a number: observations are ranked among the items
WEIGHT, MOST_WEIGHT = 1.5, 10  # the default weight of an observation among the items, as in astrocyte, and the most


class RecallRequest(Struct, frozen=True, kw_only=True):
    """A request to recall, with the defaults of the public call. ``checked`` refuses a request that is not valid.

    Attributes:
        question: The question, or the topic of the next prompt.
        user: The user whose texts are searched.
        now: The time for confidences and validity.
        project: Search texts of this project and of no project; None or "" for all texts.
        kinds: Search only memories of these kinds.
        statuses: Search memories with these statuses, () for all; candidates are never found.
        among: The texts to search: "memories", "chunks", "turns", "values".
        limit: The most items, 0 to 500.
        budget: The largest size of the pack, counted in ``unit``; None for no bound.
        unit: "tokens" or "chars".
        packing: "greedy", "prefix" or "shares"; a context has a packing of its own.
        ranking: "score/3" or "rubino/1".
        metadata: Search only texts that have each of these keys with this value.
        min_match: The least ``match`` of an item or observation, 0 to 1; None for the ranking's own floor.
        observations: The most observations beside the items, 0 to 50; "items" to rank them among the items.
        observation_weight: The weight of an observation among the items, 0 to 10.
        explain: True to list the ranked candidates with their signals.
        namespace: Search only values of this namespace and of those below it.
    """

    question: str
    user: str
    now: str
    project: str | None = None
    kinds: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ("active",)
    among: tuple[str, ...] = ("memories", "chunks")
    limit: int = 20
    budget: int | None = None
    unit: str = "tokens"
    packing: str = "greedy"
    ranking: str = SCORE
    metadata: Pairs = NO_PAIRS
    min_match: float | None = None
    observations: int | str = OBSERVATIONS
    observation_weight: float = WEIGHT
    explain: bool = False
    namespace: tuple[str, ...] = ()

    @property
    def lends(self) -> bool:
        """Return True if turns lend their neighbors a part of their scores; in a context each turn is ranked alone."""
        return "turns" in self.among and self.packing != CONTEXT

    @property
    def most_observations(self) -> int:
        """Return the most observations that the pack may show."""
        return self.observations if isinstance(self.observations, int) else min(self.limit, MOST_OBSERVATIONS)

    @property
    def corpora(self) -> tuple[str, ...]:
        """Return the corpora of passages that are searched."""
        return tuple(corpus for name in self.among for corpus in CORPORA.get(name, ()))

    @property
    def letters(self) -> tuple[str, ...]:
        """Return the letters of the vector corpora that are searched: "m" for memories, "p" for passages."""
        return (*(("m",) if "memories" in self.among else ()), *(("p",) if self.corpora else ()))


def checked(request: RecallRequest) -> RecallRequest:
    """Return the request with its texts in the form that is searched and recorded.

    With kinds only memories are searched. An observation is active and has neither kind nor metadata, so a request with kinds,
    metadata or without the status "active" gets no observations.

    Raises:
        RejectedError: A value is not valid.
    """
    question = check_text("question", request.question, max_bytes=QUERY_BYTES, blank_allowed=True)
    among, budget = text_list("among", request.among), size("budget", request.budget)
    kinds = tuple(check_word("a kind", kind, KINDS, SYNONYMS) for kind in text_list("kinds", request.kinds))
    if not among:
        raise RejectedError(f"among must name at least one of {', '.join(AMONG)}")
    # A receipt stores these names, and no erasure reaches them: so only known names pass.
    for corpus in among:
        one_of("among", corpus, AMONG)
    project = "" if request.project is None else check_text("project", request.project, blank_allowed=True)
    one_of("unit", request.unit, tuple(UNITS))
    if request.packing != CONTEXT:
        one_of("packing", request.packing, PACKINGS)
    one_of("ranking", request.ranking, RANKINGS)
    if request.packing == "shares" and budget is None:
        raise RejectedError('packing="shares" divides a budget, so it needs one: pass budget=')
    for argument, number, most in (
        ("limit", request.limit, LIST_CAP),
        ("observations", request.observations, MOST_OBSERVATIONS),
    ):
        if argument == "observations" and number == AMONG_ITEMS:
            continue
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= most:
            besides = f' or "{AMONG_ITEMS}"' if argument == "observations" else ""
            raise RejectedError(
                f"{argument} must be a whole number from 0 to {most}{besides}, but {number!r:.40} was given",
                rule="limit",
            )
    flags(explain=request.explain)
    if request.min_match is not None:
        _within("min_match", request.min_match, 1)
    _within("observation_weight", request.observation_weight, MOST_WEIGHT)
    if request.observation_weight != WEIGHT and request.observations != AMONG_ITEMS:
        raise RejectedError(f'observation_weight counts among the items: add observations="{AMONG_ITEMS}"')
    statuses, metadata = _statuses(request.statuses), checked_pairs(request.metadata)
    without_observations = bool(kinds or metadata or "active" not in statuses)
    return replace(
        request,
        question=question,
        project=project if project.strip() else None,
        kinds=kinds,
        statuses=statuses,
        among=("memories",) if kinds else among,
        metadata=metadata,
        observations=0 if without_observations else request.observations,
    )


def _within(argument: str, number: object, most: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number <= most:
        raise RejectedError(f"{argument} must be a number from 0 to {most}, but {number!r:.40} was given")


def _statuses(statuses: tuple[str, ...]) -> tuple[str, ...]:
    """Return the statuses that are searched; () stands for all in which a memory was believed."""
    names = text_list("statuses", statuses)
    for name in names:
        if name == NEVER:
            raise RejectedError("a candidate is not recalled before it is promoted: see review()", rule="trust")
        one_of("statuses", name, [status for status in STATUSES if status != NEVER])
    return names or tuple(name for name in STATUSES if name not in (NEVER, ERASED))


def size(argument: str, number: object) -> int | None:
    if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 0):
        raise RejectedError(f"{argument} must be a whole number from 0, but {number!r:.40} was given")
    return number
