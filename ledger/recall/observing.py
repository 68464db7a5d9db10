"""The search for the observations of a recall on one snapshot, by words, their ranking, and their room beside the items.

Only observations with live sources are given.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.reads import believed_statuses, first_position
from ledger.domain import confidence as confidence_rules
from ledger.domain.text import fenced, normalise
from ledger.english.question import Question
from ledger.english.words import stem
from ledger.observations import rules as observation_rules
from ledger.observations.answers import Observation
from ledger.observations.queries import observation_answers
from ledger.recall.finding import Finder, Holding, Turn, ended_turns, observations_matching
from ledger.recall.packs import OBSERVATIONS, Item, Pack, contents_of, measured, sizes
from ledger.recall.request import UNITS, RecallRequest
from projections.core.rows import Connection, Scope
from projections.search import observation_hits, ranking
from projections.search.observation_hits import Hits, ObservationScope
from projections.views import observations

if TYPE_CHECKING:
    from ledger.core.engine import ReadingEngine, Snapshot

POOL = 60  # the most matching observations that are read first, the best of them
DEEPER = 20_000  # the most that are read if too few of the first have live sources
TOGETHER = 10  # the number of observations whose sources are read together
LISTED = 200  # the pool with ``explain``: a receipt holds at most 2,000 entries
FEWEST, SHARE = 3, (3, 10)  # an observation is near with 3 words of the question, or with 3 in 10 of them (measured)
WITHOUT = "observations are left out: the projection {!r} is suspended; maintenance.rebuild() makes it again"

OBSERVATIONS_PERCENT = 20
"""The largest part of the budget, in percent, that observations take of the room that the items leave."""

MOST_BOOST = confidence_rules.shown(confidence_rules.proof_boost(confidence_rules.BOOSTED_PROOFS + 1))

# (score of the observation's words, their share of the question, observation)
Scored = tuple[float, float, observation_rules.ObservationState]


class Supported(Struct, frozen=True):
    """An observation with its current sources and its score."""

    row: int
    answer: Observation
    words: float = 0.0
    match: float = 0.0
    score: float = 0.0
    signals: dict[str, float] = {}


def current(connection: Connection, ids: Sequence[str], as_of: str) -> dict[str, Supported]:
    """Return some observations as they stand on a snapshot, by id, even if a recall may not show them."""
    rows = [row for id in ids if (row := first_position(connection, id)) is not None]
    states = [state for row in rows if (state := observations.get(connection, row)) is not None]
    answered = observation_answers(connection, states, as_of)
    return {answer.id: Supported(state.row, answer) for state, answer in zip(states, answered, strict=True)}


def among_items(
    request: RecallRequest, finder: Finder, items: Sequence[Item], best: float, supported: Sequence[Supported]
) -> list[Item]:
    """Return the items with the observations in their ranked order, as astrocyte fuses them: with a weight.

    An observation's words are compared with those of the ``best`` item, by their rarity among the searched texts. In reciprocal
    ranks the observations are a list of their own. An observation that repeats an item is left out.
    """
    contents = {normalise(item.whole or "") for item in items}
    fresh = [entry for entry in supported if normalise(entry.answer.content or "") not in contents]
    words = [finder.score_among(entry.answer.content or "") or entry.words for entry in fresh]
    best = best or max(words, default=0.0) or 1.0
    mixed, weight = list(items), request.observation_weight
    for rank, (entry, own) in enumerate(zip(fresh, words, strict=True), 1):
        if (score := finder.score_of_rank(rank)) is None:
            entry = _scored(replace(entry, words=own), best)
        else:
            entry = replace(entry, score=score, signals={"text": score})
        signals = entry.signals | {"observation": weight}
        mixed.append(observed(replace(entry, score=weight * entry.score, signals=signals), 0))
    mixed.sort(key=lambda item: -item.score)
    return [replace(item, rank=rank) for rank, item in enumerate(mixed, 1)]


def observed(supported: Supported, rank: int) -> Item:
    """Return an observation as an entry of a pack."""
    return Item(
        rank=rank,
        score=round(supported.score, 6),
        match=round(supported.match, 6),
        source="observation",
        id=supported.answer.id,
        content=supported.answer.content,
        signals={name: round(value, 6) for name, value in supported.signals.items()},
        observation=supported.answer,
    )


class Observing:
    """A search for observations; a search that is not possible adds a warning to ``warnings`` and never fails a recall."""

    def __init__(
        self, engine: ReadingEngine, snapshot: Snapshot, request: RecallRequest, scope: Scope, question: Question
    ) -> None:
        self._rarity, self._snapshot, self._connection = engine.rarity, snapshot, snapshot.connection
        self._request, self._question = request, question
        self._wanted = ObservationScope(request.user, scope)
        self._holding = snapshot.valid or (request.now if request.statuses == ("active",) else None)
        self.warnings: tuple[str, ...] = ()

    def ranked(self, contents: Callable[[], Collection[str]] = tuple) -> list[Supported]:
        """Return the observations with live sources, best first.

        Observations whose text is among ``contents`` do not count against the limit, because the pack leaves them out.
        """
        stopped = observation_hits.suspended(self._connection)
        if stopped:
            self.warnings = tuple(WITHOUT.format(name) for name in stopped)
            return []
        known, supported, unseen = contents(), list[Supported](), self._snapshot.is_past
        for limit in (LISTED if self._request.explain else max(POOL, 2 * self._request.most_observations), DEEPER):
            scored, all_of_them = self._found(limit, unseen=unseen)
            supported = self._best(scored, known)
            if all_of_them or len(_scores_left(supported, known)) >= self._request.most_observations:
                break
        return supported[:LISTED]

    def _found(self, limit: int, *, unseen: bool) -> tuple[list[Scored], bool]:
        """Return the matching observations with their scores, best first, and True if the index has no more."""
        connection, schema = self._connection, self._snapshot.schema
        hits: Hits = []
        words = self._rarity.seen(connection, observations.SEARCH, schema, unseen=unseen)
        for expression in words.expressions(self._question):
            hits = observations_matching(self._snapshot, expression, self._wanted, limit)
            if len(hits) >= POOL // 2:
                break
        terms = ranking.terms(self._question, stem, words.idf, words.mean)
        near = [state for state, _ in hits if _is_near(state.text or "", terms)]
        scored = [(*ranking.word_score(state.text or "", terms), state) for state in near]
        scored = [entry for entry in scored if entry[0] > 0 and entry[1] >= (self._request.min_match or 0)]
        return sorted(scored, key=lambda entry: (-entry[0], -entry[2].row)), len(hits) < limit

    def _best(self, scored: Sequence[Scored], known: Collection[str]) -> list[Supported]:
        """Return the observations with live sources, best first.

        The search stops as soon as no later observation can be among the best.
        """
        kept, best, enough = list[Supported](), 0.0, self._request.most_observations
        for batch in _together(scored):
            new = _scores_left(kept, known)
            if not self._request.explain and len(new) >= enough and batch[0][0] / best + MOST_BOOST < new[enough - 1]:
                break
            supported = self._supported(batch)
            best = best or (supported[0].words if supported else 0.0)  # the first has the most words
            kept = sorted(
                [*kept, *(_scored(entry, best) for entry in supported)],
                key=lambda entry: (-entry.score, -entry.row),
            )
        return kept

    def _supported(self, batch: Sequence[Scored]) -> list[Supported]:
        answers = observation_answers(self._connection, [state for *_, state in batch], self._request.now)
        cited = {source for answer in answers for source in (*answer.written_from, *_live(answer))}
        ended = (
            observation_hits.ended(self._connection, cited, self._holding) if self._holding is not None else set[str]()
        )
        said = {source: _turn(source) for source in cited if source[:2] in ("i_", "s_")}
        holding = Holding(believed_statuses(self._snapshot.valid, self._request.statuses), self._holding)
        fallen = ended_turns(self._connection, set(said.values()), holding)
        ended |= {source for source, turn in said.items() if turn in fallen}
        return [
            Supported(state.row, answer, words, match)
            for (words, match, state), answer in zip(batch, answers, strict=True)
            if answer.freshness == "fresh"
            and not answer.quarantined
            and ended.isdisjoint(answer.written_from)
            and not ended.issuperset(_live(answer))
        ]


def _is_near(text: str, terms: ranking.Terms) -> bool:
    """Return True if a text shares more with the question than a single word by chance."""
    matches, concepts = ranking.matched(text, terms), len(terms.concepts) + len(terms.runs)
    return matches >= FEWEST or matches * SHARE[1] >= concepts * SHARE[0] > 0


def _scores_left(supported: Sequence[Supported], known: Collection[str]) -> list[float]:
    """Return the best score of each text that is not in ``known``, best first."""
    best_scores: dict[str, float] = {}
    for entry in supported:
        best_scores.setdefault(normalise(entry.answer.content or ""), entry.score)
    return [score for text, score in best_scores.items() if text not in known]


def _turn(source: str) -> Turn:
    id, _, position = source.partition(":")
    return (id, int(position) if position else None)


def _live(observation: Observation) -> list[str]:
    return [source.id for source in observation.sources if source.live]


def _together(scored: Sequence[Scored]) -> Iterator[Sequence[Scored]]:
    return (scored[start : start + TOGETHER] for start in range(0, len(scored), TOGETHER))


def _scored(supported: Supported, best: float) -> Supported:
    """Return an observation with its score.

    The score is the observation's word score as a share of the best word score, times its confidence, plus a boost for
    several sources.
    """
    words = supported.words / best
    boost = confidence_rules.shown(confidence_rules.proof_boost(supported.answer.proof_count))
    signals = {"text": words, "confidence": supported.answer.confidence, **({"proof": boost} if boost else {})}
    return replace(supported, score=words * supported.answer.confidence + boost, signals=signals)


# --- observations beside the items -----------------------------------------------------------------------------------


def beside(request: RecallRequest, observing: Observing, pack: Pack) -> Pack:
    """Return the pack with the best observations that a search finds, beside its items."""
    supported = observing.ranked(lambda: contents_of(pack))
    if not supported:
        return pack
    return with_observations(
        request, pack, [observed(observation, rank) for rank, observation in enumerate(supported, 1)]
    )


def with_observations(request: RecallRequest, pack: Pack, candidates: Sequence[Item]) -> Pack:
    """Return the pack with the best observations that fit beside its items.

    Observations never displace an item. An observation that repeats a text of the pack is left out.
    """
    room = room_for_observations(request.budget, pack.used + UNITS[request.unit](fenced([], f"\n{OBSERVATIONS}")))
    marked, already, used, considered = list[Item](), contents_of(pack), 0, 0
    for item, size in zip(candidates, sizes(candidates, request.unit), strict=True):
        words = normalise(item.content or "")
        if words in already:
            why = "repeated"
        elif considered == request.most_observations:
            why = "rank"
        else:
            considered += 1
            why = "budget" if room is not None and used + size > room else ""
        if why == "rank" and not request.explain:
            break
        marked.append(replace(item, cut=why))
        if not why:
            already.add(words)
            used += size
    shown, cut = tuple(item for item in marked if not item.cut), tuple(item for item in marked if item.cut)
    return measured(replace(pack, observations=shown, cut=(*pack.cut, *cut)))


def room_for_observations(budget: int | None, used: int) -> int | None:
    """Return the room for observations beside items that use a part of the budget; None without a budget."""
    return None if budget is None else max(0, min(budget * OBSERVATIONS_PERCENT // 100, budget - used))
