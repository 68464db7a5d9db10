"""The observations that one recall may show, on one snapshot: found by words, supported by live sources, in ranked order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain import confidence as rules
from ledger.domain import observation as domain
from ledger.domain.question import Question
from ledger.domain.text import normalise
from ledger.engine.log_reading import first_position
from ledger.observations.answers import Observation
from ledger.observations.queries import observation_answers
from ledger.recall.asked import Asked
from ledger.recall.packs import Item
from projections.core.rows import Connection
from projections.search import observation_hits, ranking
from projections.search.observation_hits import Hits, Wanted
from projections.search.stems import stem
from projections.views import observations

if TYPE_CHECKING:
    from ledger.engine.engine import Engine
    from ledger.engine.snapshot import Snapshot

POOL = 60  # observations that have words of the question, the best of which are looked at
DEEPER = 20_000  # ... where of those too few are supported
TOGETHER = 10  # whose sources are looked up at a time
LISTED = 200  # with ``explain``; a receipt holds no more than 2,000 entries
FEWEST, SHARE = 3, (3, 10)  # of the question's telling words so many are enough, or so large a share (ours, measured)
WITHOUT = "observations are left out: the projection {!r} is suspended; maintenance.rebuild() makes it again"

MOST_BOOST = rules.shown(rules.proof_boost(rules.BOOSTED_PROOFS + 1))

Scope = Sequence[str | None] | None
Scored = tuple[float, float, domain.Observation]  # what its words say of the question, and of how much of it


class Supported(Struct, frozen=True):
    """One observation with its sources as they are, and how well it answers."""

    row: int
    answer: Observation
    words: float = 0.0
    match: float = 0.0
    score: float = 0.0
    signals: dict[str, float] = {}


def current(connection: Connection, ids: Sequence[str], as_of: str) -> dict[str, Supported]:
    """These observations as they stand on a snapshot, whether or not a recall may show them."""
    rows = [row for each in ids if (row := first_position(connection, each)) is not None]
    states = [state for row in rows if (state := observations.get(connection, row)) is not None]
    proofs_of = observation_answers(connection, states, as_of)
    return {each.id: Supported(state.row, each) for state, each in zip(states, proofs_of, strict=True)}


def observed(supported: Supported, rank: int) -> Item:
    """An observation as an entry of a pack."""
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
    """One search for observations. What was in the way is in ``warnings``; it never fails a recall."""

    def __init__(self, engine: Engine, snapshot: Snapshot, asked: Asked, scope: Scope, question: Question) -> None:
        self._rarity, self._snapshot, self._connection = engine.rarity, snapshot, snapshot.connection
        self._asked, self._question = asked, question
        self._wanted = Wanted(asked.user, scope)
        self._holding = snapshot.valid or (asked.now if asked.statuses == ("active",) else None)
        self.warnings: tuple[str, ...] = ()

    def ranked(self, contents: Callable[[], Collection[str]] = tuple) -> list[Supported]:
        """Those that may be shown, best first: as many as are asked for, besides those whose words are among the ``contents``
        already."""
        if not self._asked.observations or not self._question.concepts:
            return []
        stopped = observation_hits.suspended(self._connection)
        unseen = self._snapshot.forgets
        none = "observations" not in stopped and not unseen
        if none and observation_hits.none(self._connection, self._snapshot.schema):
            return []
        if stopped:
            self.warnings = tuple(WITHOUT.format(name) for name in stopped)
            return []
        known, supported = contents(), list[Supported]()
        for limit in (LISTED if self._asked.explain else max(POOL, 2 * self._asked.observations), DEEPER):
            found, all_of_them = self._found(limit, unseen=unseen)
            supported = self._best(found, known)
            if all_of_them or len(_scores_left(supported, known)) >= self._asked.observations:
                break
        return supported[:LISTED]

    def _found(self, limit: int, *, unseen: bool) -> tuple[list[Scored], bool]:
        """What has words of the question, with how much they say, best first; and whether there are no others."""
        connection, schema = self._connection, self._snapshot.schema
        hits: Hits = []
        words = self._rarity.seen(connection, observations.SEARCH, schema, unseen=unseen)
        for expression in words.expressions(self._question):
            hits = self._snapshot.observation_hits(expression, self._wanted, limit)
            if len(hits) >= POOL // 2:
                break
        terms = ranking.terms(self._question, stem, words.idf, words.mean)
        near = [state for state, _ in hits if _is_near(state.text or "", terms)]
        scored = [(*ranking.word_score(state.text or "", terms), state) for state in near]
        scored = [each for each in scored if each[0] > 0 and each[1] >= (self._asked.min_match or 0)]
        return sorted(scored, key=lambda each: (-each[0], -each[2].row)), len(hits) < limit

    def _best(self, found: Sequence[Scored], known: Collection[str]) -> list[Supported]:
        """Of these the ones that live sources support, best first; no others are looked at than may be among the best."""
        kept, best, enough = list[Supported](), 0.0, self._asked.observations
        for some in _together(found):
            new = _scores_left(kept, known)
            if not self._asked.explain and len(new) >= enough and some[0][0] / best + MOST_BOOST < new[enough - 1]:
                break
            supported = self._supported(some)
            best = best or (supported[0].words if supported else 0.0)  # the first has the most words
            kept = sorted(
                [*kept, *(_scored(each, best) for each in supported)], key=lambda each: (-each.score, -each.row)
            )
        return kept

    def _supported(self, some: Sequence[Scored]) -> list[Supported]:
        answer = observation_answers(self._connection, [state for *_, state in some], self._asked.now)
        cited = {source for each in answer for source in (*each.written_from, *_live(each))}
        ended = (
            observation_hits.ended(self._connection, cited, self._holding) if self._holding is not None else set[str]()
        )
        return [
            Supported(state.row, each, words, match)
            for (words, match, state), each in zip(some, answer, strict=True)
            if each.freshness == "fresh"
            and not each.quarantined
            and ended.isdisjoint(each.written_from)
            and not ended.issuperset(_live(each))
        ]


def _is_near(text: str, terms: ranking.Terms) -> bool:
    """Whether it has more of the question than a word that happens to be in both."""
    found, of = ranking.matched(text, terms), len(terms.concepts) + len(terms.runs)
    return found >= FEWEST or found * SHARE[1] >= of * SHARE[0] > 0


def _scores_left(supported: Sequence[Supported], known: Collection[str]) -> list[float]:
    """The best score of each text that is not said already, best first."""
    found: dict[str, float] = {}
    for each in supported:
        found.setdefault(normalise(each.answer.content or ""), each.score)
    return [score for text, score in found.items() if text not in known]


def _live(observation: Observation) -> list[str]:
    return [each.id for each in observation.sources if each.live]


def _together(found: Sequence[Scored]) -> Iterator[Sequence[Scored]]:
    return (found[start : start + TOGETHER] for start in range(0, len(found), TOGETHER))


def _scored(supported: Supported, best: float) -> Supported:
    """Words as a part of what the best has, times confidence, and what the proof adds."""
    words, boost = supported.words / best, rules.shown(rules.proof_boost(supported.answer.proof_count))
    signals = {"text": words, "confidence": supported.answer.confidence, **({"proof": boost} if boost else {})}
    return replace(supported, score=words * supported.answer.confidence + boost, signals=signals)
