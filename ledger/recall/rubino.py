"""The ranking ``rubino/1``: the ranking of rubino as it was released. The product's own ranking does not use it.

A candidate scores 3 / (60 + rank) for its rank in the list by words and for its rank in the list by vectors, times the weight of
its kind. If there are fewer than ``limit`` direct hits, memories that are near in the graph of names follow, then the newest.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.english.question import READ_CHARS
from ledger.memories.rules import MemoryState
from ledger.recall.asked import RecallRequest
from projections.core.rows import Connection
from projections.search.memory_hits import MemoryScope
from projections.search.ranking import ScoredText, best_first
from projections.views import graph, memories
from projections.views.memories import MemoryFilter

RANK_OFFSET = 60
WEIGHT = 3.0
KINDS = {"user_profile": 1.3, "preference": 1.2, "env": 1.1}


def by_rank(candidates: Sequence[ScoredText]) -> list[ScoredText]:
    """Return the candidates by their ranks in both lists, best first, with their scores set."""
    for candidate in candidates:
        candidate.score, candidate.signals = 0.0, {}
    lists = {
        "text": best_first([candidate for candidate in candidates if candidate.bm25 > 0], "bm25"),
        "vector": best_first([candidate for candidate in candidates if candidate.cosine is not None], "cosine"),
    }
    for name, ranked in lists.items():
        for rank, candidate in enumerate(ranked, 1):
            candidate.signals[name] = WEIGHT / (RANK_OFFSET + rank)
            candidate.score += candidate.signals[name]
    for candidate in candidates:
        if (factor := KINDS.get(candidate.kind, 1.0)) != 1:
            candidate.signals["kind"] = factor
            candidate.score *= factor
    return best_first([candidate for candidate in candidates if candidate.score > 0], "score")


def tail(
    connection: Connection,
    request: RecallRequest,
    filters: MemoryScope,
    states: dict[int, MemoryState],
    near: Sequence[tuple[int, int]],
    known: set[int],
    missing: int,
) -> list[tuple[MemoryState, dict[str, float]]]:
    """Return the memories that fill up the page, with their signals."""
    fillers = [(states[row], {"graph": 1 / (1 + hops)}) for row, hops in near if row in states and row not in known]
    known = known | {state.row for state, _ in fillers}
    wanted = MemoryFilter(
        user=request.user,
        statuses=filters.statuses,
        kinds=request.kinds,
        projects=filters.projects,
        valid=filters.at,
        metadata=request.metadata,
    )
    newest = memories.listing(connection, wanted, limit=len(known) + missing)
    fillers += [(state, {"recency": 1.0}) for state in newest if state.row not in known]
    return fillers[:missing]


def near_in_graph(connection: Connection, request: RecallRequest, filters: MemoryScope) -> list[tuple[int, int]]:
    """Return the rows of memories near the names of the question, each with its distance."""
    text, at = request.query[:READ_CHARS], filters.at or request.now
    return graph.neighborhood(connection, text, request.user, at=at, limit=2 * request.limit, projects=filters.projects)
