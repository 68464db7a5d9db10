"""The observations that one recall may show, on one snapshot: found by words, borne out by live sources, in ranked order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain import confidence as rules
from ledger.domain import observation as domain
from ledger.domain.question import Question
from ledger.log_reading import first_position
from ledger.recall.asked import Asked
from ledger.recall.packs import Item, Observation
from projections import observation_hits, observations, ranking
from projections.observation_hits import Hits, Wanted
from projections.observations import Proof
from projections.rows import TextIndex
from projections.stems import stem
from projections.text_hits import Rarity

POOL = 200  # observations that have words of the question, the best of which are looked at
DEEPER = 20_000  # ... where of those too few are borne out
TOGETHER = 25  # whose sources are looked up at a time
LISTED = 200  # with ``explain``; a receipt holds no more than 2,000 entries
WITHOUT = "observations are left out: the projection {!r} is parked; rebuild() folds it again"

Scope = Sequence[str | None] | None


class Door(Protocol):
    """What a search asks of the door: it is another one at a moment of the past."""

    _rarity: Rarity
    _valid: str | None

    def _schema(self) -> str: ...

    def _unseen(self, connection: Any, index: TextIndex) -> bool: ...

    def _observation_hits(self, connection: Any, expression: str, wanted: Wanted, limit: int) -> Hits: ...


class Borne(Struct, frozen=True):
    """One observation with the sources that bear it out, and how well it answers."""

    state: domain.Observation
    proofs: tuple[Proof, ...]
    words: float
    score: float = 0.0
    signals: dict[str, float] = {}

    @property
    def live(self) -> list[Proof]:
        return [each for each in self.proofs if each.live]

    @property
    def fresh(self) -> bool:
        """Whether nothing says that it is stale, and every source that it was worded from is live."""
        return not self.state.stale and {each.source for each in self.live}.issuperset(self.state.written_from)

    @property
    def confidence(self) -> int:
        """As its live sources bear it out, in millionths."""
        return rules.proven(self.state.rule, self.state.confidence, len(self.live))


def observed(borne: Borne, names: Mapping[str, str], now: str, rank: int) -> Item:
    """An observation as an entry of a pack; its trend is of ``now``."""
    state, live = borne.state, borne.live
    told = Observation(
        id=state.id,
        text=state.text,
        scope=state.scope,
        confidence=rules.shown(borne.confidence),
        proof_count=len(live),
        sources=tuple(each.source for each in live),
        freshness="fresh" if borne.fresh else "stale",
        times=tuple(each.at for each in live),
        status=state.status,
        user=state.user,
        project=names.get(state.project, state.project) if state.project else None,
        tags=state.tags,
        recorded_at=state.recorded_at,
        position=state.position,
    )
    return Item(
        rank=rank,
        score=round(borne.score, 6),
        source="observation",
        id=state.id,
        text=state.text,
        signals={name: round(value, 6) for name, value in borne.signals.items()},
        observation=told,
        trend=told.trend(now),
    )


def standing(connection: Any, ids: Sequence[str]) -> dict[str, Borne]:
    """These observations as they stand on a snapshot, whether or not a recall may show them."""
    rows = [row for each in ids if (row := first_position(connection, each)) is not None]
    states = [state for row in rows if (state := observations.get(connection, row)) is not None]
    proofs = observations.evidence(connection, [state.row for state in states])
    return {state.id: Borne(state, tuple(proofs[state.row]), 0.0) for state in states}


class Observing:
    """One search for observations. What was in the way is in ``warnings``; it never fails a recall."""

    def __init__(self, door: Door, connection: Any, asked: Asked, scope: Scope, question: Question) -> None:
        self._door, self._connection, self._asked, self._question = door, connection, asked, question
        self._wanted = Wanted(asked.user, scope)
        self._holding = door._valid or (asked.now if asked.statuses == ("active",) else None)
        self.warnings: tuple[str, ...] = ()

    def ranked(self) -> list[Borne]:
        """Those that may be shown, best first, in case some of the best repeat an item: more than are asked for."""
        if not self._asked.observations or not self._question.concepts:
            return []
        if stopped := observation_hits.parked(self._connection):
            self.warnings = tuple(WITHOUT.format(name) for name in stopped)
            return []
        if observation_hits.none(self._connection, self._door._schema()) and not self._unseen:
            return []
        wanted = LISTED if self._asked.explain else self._asked.observations + self._asked.k
        for limit in (POOL, DEEPER):
            found = self._found(limit)
            borne = self._borne(found, wanted)
            if len(borne) >= self._asked.observations or len(found) < limit:
                break
        return borne

    @property
    def _unseen(self) -> bool:
        return self._door._unseen(self._connection, observations.SEARCH)

    def _found(self, limit: int) -> list[tuple[float, domain.Observation]]:
        """What has words of the question, with how much they say, best first."""
        door, connection, schema = self._door, self._connection, self._door._schema()
        hits: Hits = []
        for expression in door._rarity.expressions(connection, observations.SEARCH, schema, self._question):
            hits = door._observation_hits(connection, expression, self._wanted, limit)
            if len(hits) >= min(limit, POOL // 2):
                break
        idf, mean = door._rarity.of(connection, observations.SEARCH, schema, unseen=self._unseen)
        terms = ranking.terms(self._question, stem, idf, mean)
        scored = [(ranking.word_score(state.text or "", terms, stem), state) for state, _ in hits]
        return sorted((each for each in scored if each[0] > 0), key=lambda each: (-each[0], each[1].row))

    def _borne(self, found: Sequence[tuple[float, domain.Observation]], wanted: int) -> list[Borne]:
        """Of these the best ``wanted`` that live sources bear out; the others are not looked at further than they have to be."""
        kept, best = list[Borne](), 0.0
        for some in _together(found):
            if len(kept) >= wanted and _score(some[0][0] / best, rules.ONE, rules.MOST_BOOST) < kept[wanted - 1].score:
                break
            borne = self._supported(some)
            best = best or (borne[0].words if borne else 0.0)  # the first has the most words
            kept = sorted(
                [*kept, *(_scored(each, best) for each in borne)], key=lambda each: (-each.score, each.state.row)
            )
        return kept[:wanted]

    def _supported(self, some: Sequence[tuple[float, domain.Observation]]) -> list[Borne]:
        proofs = observations.evidence(self._connection, [state.row for _, state in some])
        borne = [Borne(state, tuple(proofs[state.row]), words) for words, state in some]
        live = {each.source for one in borne for each in one.live}
        ended = (
            observation_hits.ended(self._connection, live, self._holding) if self._holding is not None else set[str]()
        )
        return [each for each in borne if _stands(each, ended)]


def _stands(borne: Borne, ended: set[str]) -> bool:
    """Whether it may be recalled: every source that it was worded from is live and holds, and so is at least one of all."""
    good = {each.source for each in borne.live} - ended
    return bool(good) and good.issuperset(borne.state.written_from)


def _together(
    found: Sequence[tuple[float, domain.Observation]],
) -> Iterator[Sequence[tuple[float, domain.Observation]]]:
    return (found[start : start + TOGETHER] for start in range(0, len(found), TOGETHER))


def _scored(borne: Borne, best: float) -> Borne:
    """Words as a part of what the best has, times confidence, and what the proof adds."""
    words, boost = borne.words / best, rules.proof_boost(len(borne.live))
    signals = {"text": words, "confidence": rules.shown(borne.confidence)}
    if boost:
        signals["proof"] = rules.shown(boost)
    return replace(borne, score=_score(words, borne.confidence, boost), signals=signals)


def _score(words: float, confidence: int, boost: int) -> float:
    return words * rules.shown(confidence) + rules.shown(boost)
