"""``rubino/1``: the ranking of another product, as it was released; nothing here is used by ours.

Reciprocal ranks in the list by words and in the list by vectors, 3 / (60 + rank) each, times the weight of the kind. What is
missing to ``limit`` is filled up, never above a direct hit: memories near in the graph of names, then the newest.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.domain.memory import Memory
from ledger.domain.question import READ_CHARS
from ledger.recall.asked import Asked
from projections.core.rows import Connection
from projections.search.memory_hits import Wanted
from projections.search.ranking import Candidate, best_first
from projections.views import graph, memories

RANK_OFFSET = 60
WEIGHT = 3.0
KINDS = {"user_profile": 1.3, "preference": 1.2, "env": 1.1}


def by_rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates by their ranks in both lists, best first; each score is set."""
    for candidate in candidates:
        candidate.score, candidate.signals = 0.0, {}
    lists = {
        "text": best_first([each for each in candidates if each.bm25 > 0], "bm25"),
        "vector": best_first([each for each in candidates if each.cosine is not None], "cosine"),
    }
    for name, ranked in lists.items():
        for rank, candidate in enumerate(ranked, 1):
            candidate.signals[name] = WEIGHT / (RANK_OFFSET + rank)
            candidate.score += candidate.signals[name]
    for candidate in candidates:
        if (factor := KINDS.get(candidate.kind, 1.0)) != 1:
            candidate.signals["kind"] = factor
            candidate.score *= factor
    return best_first([each for each in candidates if each.score > 0], "score")


def tail(
    connection: Connection,
    asked: Asked,
    wanted: Wanted,
    states: dict[int, Memory],
    near: Sequence[tuple[int, int]],
    known: set[int],
    missing: int,
) -> list[tuple[Memory, dict[str, float]]]:
    """Return the memories that fill up the page, with their signals."""
    found = [(states[row], {"graph": 1 / (1 + hops)}) for row, hops in near if row in states and row not in known]
    known = known | {state.row for state, _ in found}
    newest = memories.listing(
        connection,
        user=asked.user,
        statuses=wanted.statuses,
        kinds=asked.kinds,
        projects=wanted.projects,
        limit=len(known) + missing,
        valid=wanted.at,
        metadata=asked.metadata,
    )
    found += [(state, {"recency": 1.0}) for state in newest if state.row not in known]
    return found[:missing]


def near_in_graph(connection: Connection, asked: Asked, wanted: Wanted) -> list[tuple[int, int]]:
    """Return the rows of memories near the names of the question, each with its distance."""
    text, at = asked.query[:READ_CHARS], wanted.at or asked.now
    return graph.neighborhood(connection, text, asked.user, at=at, limit=2 * asked.k, projects=wanted.projects)
