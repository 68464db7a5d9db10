"""The ranking ``rubino/1``: the ranking of rubino as it was released. The product's own ranking does not use it.

A candidate scores 3 / (60 + rank) for its rank in the list by words and for its rank in the list by vectors, times the weight of
its kind. If there are fewer than ``limit`` direct hits, memories that are near in the graph of names follow, then the newest.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.english.question import READ_CHARS
from ledger.memories.state import MemoryState
from ledger.recall.finding import Finder, RecallHit, in_order, of_memory
from projections.core.rows import TextIndex
from projections.search.ranking import ScoredText, best_first
from projections.views import graph, memories
from projections.views.memories import MemoryFilter

RANK_OFFSET = 60
WEIGHT = 3.0
KINDS = {"user_profile": 1.3, "preference": 1.2, "env": 1.1}


class RubinoFinder(Finder):
    """A search that is ranked by ``rubino/1``."""

    numeric = False
    newer_first = False

    def ranked(self) -> list[RecallHit]:
        """Return the hits by their ranks, then the memories that fill up the page."""
        if not self._request.limit:
            return []
        hits = self._by_words()
        self._add_nearest(hits)
        hits = self._without_ended(hits)
        return self._filled_up(in_order(hits, by_rank([hit.candidate for hit in hits])))

    def is_weighed_alone(self, index: TextIndex) -> bool:
        """Return False: the rank of a hit depends on the other hits."""
        return False

    def is_hit(self, candidate: ScoredText) -> bool:
        """Return True: a text that the index found has a rank."""
        return True

    def score_of_rank(self, rank: int) -> float:
        """Return the score of an observation of a rank in a list of its own."""
        return WEIGHT / (RANK_OFFSET + rank)

    def _filled_up(self, ranked: list[RecallHit]) -> list[RecallHit]:
        missing = self._request.limit - len(ranked)
        if "memories" not in self._request.among or missing <= 0:
            return ranked
        known = {hit.memory.row for hit in ranked if hit.memory is not None}
        for state, signals in self._fillers(known, missing):
            ranked.append(of_memory(state, self.policy, self._request.now))
            ranked[-1].candidate.signals = signals
        return ranked

    def _fillers(self, known: set[int], missing: int) -> list[tuple[MemoryState, dict[str, float]]]:
        """Return the memories that fill up the page, with their signals: near in the graph of names, then the newest."""
        request, filters = self._request, self.memories
        near = graph.neighborhood(
            self._connection,
            request.question[:READ_CHARS],
            request.user,
            at=filters.at or request.now,
            limit=2 * request.limit,
            projects=filters.projects,
        )
        states = {state.row: state for state in self.memories_at([row for row, _ in near])}
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
        newest = memories.listing(self._connection, wanted, limit=len(known) + missing)
        fillers += [(state, {"recency": 1.0}) for state in newest if state.row not in known]
        return fillers[:missing]


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
