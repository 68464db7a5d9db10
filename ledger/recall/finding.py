"""The search for the hits of a recall on one snapshot, by words and by vectors, and their ranking.

A ``ScoredText`` is the part of a hit that the ranking reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from heapq import nlargest
from itertools import islice, pairwise
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.snapshot import ENOUGH, Snapshot, believed
from ledger.domain import confidence as confidence_rules
from ledger.english import spelling
from ledger.english.dates import day_words
from ledger.english.porter import stem
from ledger.english.question import Question, any_of, quoted
from ledger.english.words import indexed_words, unspaced
from ledger.memories.rules import MemoryState
from ledger.policy.rules import PolicyState
from ledger.recall import rubino
from ledger.recall.asked import RecallRequest
from projections.core.conditions import Scope
from projections.core.rows import TextIndex, Values
from projections.search import memory_hits as search
from projections.search import passages, ranking
from projections.search.passages import NUMBER_BITS, PassageRow
from projections.search.ranking import ScoredText
from projections.search.text_hits import BLOCK, MATCHED, Words, of_rows
from projections.views import control, memories, sessions

if TYPE_CHECKING:
    from ledger.core.reading_engine import ReadingEngine
    from ledger.vectors.embedding import QueryVector as Sought

POOL = 200  # the most rows of each index that are read, the best first
SCORED, TIMES = 80, 4  # the most memories of the pool that are scored: 80, or four times the limit
# Scoring ends with a block of hits whose best score is below this part of the last score within the limit.
FAR = 0.9
T = TypeVar("T")


class RecallHit(Struct):
    """A memory or passage that a search found, with the ``candidate`` that is ranked in its place."""

    candidate: ScoredText
    memory: MemoryState | None = None
    passage: PassageRow | None = None


class Finder:
    """A search of a ledger, now or at a moment of the past; ``sought`` is the question as a vector, or None."""

    def __init__(
        self,
        engine: ReadingEngine,
        snapshot: Snapshot,
        request: RecallRequest,
        scope: Scope,
        question: Question,
        sought: Sought | None,
    ) -> None:
        self._rarity, self._vectors, self._snapshot = engine.rarity, engine.vectors, snapshot
        self._connection, self._request, self._scope = snapshot.connection, request, scope
        self._question, self._sought = question, sought
        self.policy = control.policy(snapshot.connection, request.user)
        at = snapshot.valid or (request.now if request.statuses == ("active",) else None)
        statuses = believed(snapshot.valid, request.statuses)
        self.memories = search.MemoryScope(request.user, at, scope, request.kinds, statuses, request.metadata)
        self.passages = passages.PassageScope(
            request.user, request.corpora, scope, request.metadata, request.now, request.namespace
        )
        self.warnings: tuple[str, ...] = ()
        self._seen: dict[TextIndex, Words] = {}
        self._terms: dict[TextIndex, ranking.Terms] = {}

    def ranked(self) -> list[RecallHit]:
        """Return the hits, best first; ``warnings`` then says which parts of the search were not possible."""
        request = self._request
        if not request.limit:
            return []
        hits = self._by_words()
        if request.scored and (widened := self._widened()) is not None:
            self._question = widened
            self._terms.clear()
            hits = self._by_words()
        self._add_nearest(hits)
        if not request.scored:
            return self._filled_up(_in_order(hits, rubino.by_rank([hit.candidate for hit in hits])))
        around = self._around(hits) if request.lends else {}
        self._set_roles(hits)
        self._add_cosines(hits)
        order = ranking.by_score([hit.candidate for hit in hits], self._question, around)
        return _in_order(hits, order)

    # --- by words ------------------------------------------------------------------------------------------------

    def _by_words(self) -> list[RecallHit]:
        hits, pieces = list[RecallHit](), list[RecallHit]()
        if not self._question.concepts:
            return hits
        if "memories" in self._request.among:
            make = partial(of_memory, policy=self.policy, now=self._request.now)
            hits = self._best(search.SEARCH, partial(self._snapshot.memory_hits, wanted=self.memories), make)
        if self._request.corpora:
            passage_hits = partial(self._snapshot.passage_hits, wanted=self.passages)
            pieces = self._best(passages.PASSAGE_SEARCH, passage_hits, of_passage)
        return hits + _best_of_each_text(pieces)

    def _widened(self) -> Question | None:
        """Return the question with stored words added to each unknown word; None if every word is known.

        A word that no hit has is searched for alone. If no searched text has the word either, the word is unknown, and the
        most similar words with the same beginning are added. Only words of searched texts are added, so that no words of other
        users are seen.
        """
        met = {terms.concepts[at] for terms in self._terms.values() for at in terms.met.concepts}
        concepts = list(self._question.concepts)
        for at, forms in enumerate(concepts):
            word = forms[0]
            is_known = frozenset(map(stem, forms)) in met or not word.isalpha() or unspaced(word)
            if len(word) < spelling.LEAST_CHARS or is_known or self._words_of(any_of([forms]), 1):
                continue
            stored = self._words_of(f"{quoted(word[: spelling.HEAD_CHARS])} *", POOL)
            concepts[at] = (*forms, *spelling.nearest(word, stored))
        return replace(self._question, concepts=tuple(concepts)) if concepts != list(self._question.concepts) else None

    def _words_of(self, expression: str, limit: int) -> set[str]:
        """Return the words of the best searched texts that an expression finds."""
        texts = list[str]()
        if "memories" in self._request.among:
            hits = self._snapshot.memory_hits(expression, wanted=self.memories, limit=limit)
            texts += [" ".join((memory.content or "", *memory.entities, *memory.tags)) for memory, _ in hits]
        if self._request.corpora:
            pieces = self._snapshot.passage_hits(expression, wanted=self.passages, limit=limit)
            texts += [f"{piece.above or ''} {piece.text}" for piece, _ in pieces]
        return {word for text in texts for word in indexed_words(text)}

    def _best(
        self, index: TextIndex, hits: Callable[..., Iterator[tuple[T, float]]], make: Callable[..., RecallHit]
    ) -> list[RecallHit]:
        """Return the best hits of an index with their scores: every hit that can be within the limit."""
        request, words, matches = self._request, self._words(index), list[RecallHit]()
        if not words.texts and not self._snapshot.forgets:
            return matches
        pool = most = max(POOL, request.limit)
        alone = request.scored and (index is search.SEARCH or not request.lends)
        if alone:  # otherwise the whole pool is needed: turns lend each other scores, and rubino's ranking fuses ranks
            most = min(pool, max(SCORED, TIMES * request.limit))
        enough = request.limit if words.indexed <= MATCHED else min(most, ENOUGH)
        for expression in words.narrowed(self._question):
            hits_of = islice(hits(expression, limit=pool), most)
            # Dates, and words of scripts without spaces, are weighed differently in the index.
            ends = alone and not self._question.days and not self._terms_of(index).runs
            matches = self._scored(hits_of, index, make, ends=ends)
            if len(matches) >= enough:
                break
        return matches

    def _scored(
        self, hits: Iterator[tuple[T, float]], index: TextIndex, make: Callable[..., RecallHit], *, ends: bool
    ) -> list[RecallHit]:
        """Return the scored hits. With ``ends`` the search stops after a block in which no hit can be within the limit."""
        limit, scored, least = self._request.limit, list[RecallHit](), 0.0
        while block := [make(row, bm25=score) for row, score in islice(hits, BLOCK)]:
            self._score(block, index)
            scored += block
            if ends and max(hit.candidate.words for hit in block) < least:
                break
            if ends and len(scored) >= limit:
                least = FAR * nlargest(limit, (hit.candidate.words for hit in scored))[-1]
        return scored

    def _words(self, index: TextIndex) -> Words:
        if index not in self._seen:
            seen = self._snapshot
            self._seen[index] = self._rarity.seen(self._connection, index, seen.schema, unseen=seen.forgets)
        return self._seen[index]

    def idf(self, stems: Iterable[str]) -> float:
        """Return the rarity (idf) among memories of the most frequent of some stems."""
        return self._words(search.SEARCH).idf(stems)

    def _terms_of(self, index: TextIndex) -> ranking.Terms:
        if index not in self._terms:
            words = self._words(index)
            self._terms[index] = ranking.terms(self._question, stem, words.idf, words.mean)
        return self._terms[index]

    def _score(self, hits: Iterable[RecallHit], index: TextIndex) -> None:
        """Set the score of each hit's words, and their share of the question."""
        terms = self._terms_of(index)
        for hit in hits:
            score, share = ranking.word_score(hit.candidate.text, terms)
            if not score and hit.candidate.corpus == "turn" and hit.passage is not None:
                score, share = ranking.word_score(day_words(hit.passage.time), terms)
                score *= ranking.DAY
            hit.candidate.words, hit.candidate.share = score, share

    def score_of(self, text: str) -> float:
        """Return the score of the words of a turn's or chunk's text."""
        return ranking.word_score(text, self._terms_of(passages.PASSAGE_SEARCH))[0]

    def score_among(self, text: str) -> float:
        """Return the score of a text's words by their rarity in the indexes that are searched, the highest of them."""
        indexes = [search.SEARCH] * ("memories" in self._request.among) + [passages.PASSAGE_SEARCH] * bool(
            self._request.corpora
        )
        return max(ranking.word_score(text, self._terms_of(index))[0] for index in indexes)

    def memories_at(self, rows: Collection[int]) -> list[MemoryState]:
        """Return the memories at these rows that the request searches."""
        return [memories.from_row(row) for row in self._rows_of("m", rows)]

    def set_shares(self, hits: Sequence[RecallHit]) -> None:
        """Set the share of the question that each memory has, for memories that no search found."""
        self._score(hits, search.SEARCH)

    def _around(self, hits: list[RecallHit]) -> dict[str, list[int]]:
        """Return the turns of each session with hits, in their order. The neighbors of a hit are added to the hits."""
        groups: dict[str, list[ScoredText]] = {}
        for hit in hits:
            if hit.candidate.group is not None:
                groups.setdefault(hit.candidate.group, []).append(hit.candidate)
        around, known = {}, {hit.candidate.key for hit in hits if hit.passage is not None}
        hidden = self._hidden(hits)
        fresh: set[int] = set()
        for session, turns in groups.items():
            best = [turn.key for turn in sorted(turns, key=lambda turn: -turn.words)]
            keys = around[session] = passages.turns_around(self._connection, session, best, hidden.get(session, ()))
            turns_hit = set(best)
            for left, right in pairwise(keys):
                if left in turns_hit or right in turns_hit:
                    fresh.update({left, right} - known)
        rows = [turn << NUMBER_BITS for turn in sorted(fresh)]
        hits += [of_passage(row) for row in passages.of_keys(self._connection, rows, self.passages)]
        return around

    def _hidden(self, hits: Iterable[RecallHit]) -> dict[str, list[tuple[int, int]]]:
        """Return the hidden ranges of the sessions in which messages were found."""
        messages = (hit.passage for hit in hits if hit.passage is not None and hit.passage.corpus == passages.MESSAGE)
        rows = {message.id: message.subject for message in messages}
        return {
            id: [(part.first, part.last) for part in sessions.hidden(self._connection, row)] for id, row in rows.items()
        }

    def _set_roles(self, hits: Iterable[RecallHit]) -> None:
        """Set the role of each message: "prompt" for the user, else "response"."""
        messages = [hit for hit in hits if hit.passage is not None and hit.passage.corpus == passages.MESSAGE]
        roles = sessions.roles(self._connection, {hit.candidate.position for hit in messages}) if messages else {}
        for hit in messages:
            hit.candidate.role = "prompt" if roles.get(hit.candidate.position) == "user" else "response"

    # --- by vectors ----------------------------------------------------------------------------------------------

    def _rows_of(self, letter: str, rows: Collection[int]) -> list[Values]:
        """Return the rows of memories ("m") or passages ("p") that are searched."""
        source, condition = (
            (search.SOURCE, self.memories.condition())
            if letter == "m"
            else (passages.SOURCE, self.passages.condition())
        )
        return of_rows(self._connection, source, rows, *condition)

    def _add_nearest(self, hits: list[RecallHit]) -> None:
        """Add the hits that only their vectors found. The nearest passage of a turn counts."""
        if self._sought is None or self._vectors is None:
            return

        def keep(letter: str, rows: Collection[int]) -> Collection[int]:
            return [row[0] for row in self._rows_of(letter, rows)]

        nearest = self._vectors.hits(
            self._connection, self._sought, self._request.user, self._request.letters, POOL, keep
        )
        self.warnings = nearest.warnings
        known = {(_letter(hit.candidate), hit.candidate.key): hit for hit in hits}
        for letter, index in (("m", search.SEARCH), ("p", passages.PASSAGE_SEARCH)):
            cosines = {row: cosine for corpus, row, cosine in nearest.hits if corpus == letter}
            fresh: dict[int, RecallHit] = {}
            for row in sorted(self._rows_of(letter, cosines), key=lambda row: cosines[row[0]]):
                hit = (
                    of_memory(memories.from_row(row), self.policy, self._request.now)
                    if letter == "m"
                    else of_passage(passages.passage(row))
                )
                known_hit = known.get((letter, hit.candidate.key), hit)
                known_hit.candidate.cosine = max(known_hit.candidate.cosine or -1.0, cosines[row[0]])
                if known_hit is hit:
                    hit.candidate.cosine = cosines[row[0]]
                    fresh[hit.candidate.key] = hit
            self._score(fresh.values(), index)
            hits += fresh.values()

    def _add_cosines(self, hits: Sequence[RecallHit]) -> None:
        if self._sought is None or self._vectors is None:
            return
        lacking = [hit.candidate for hit in hits if hit.candidate.cosine is None]
        for letter in self._request.letters:
            candidates = [candidate for candidate in lacking if _letter(candidate) == letter]
            rows = [candidate.row for candidate in candidates]
            cosines = self._vectors.cosines(self._connection, self._sought, self._request.user, letter, rows)
            for candidate in candidates:
                candidate.cosine = cosines.get(candidate.row)

    def cosines_among(self, rows: Sequence[int]) -> dict[tuple[int, int], float]:
        """Return the cosine of every two of these memories that both have a vector, by their rows, the smaller first."""
        if self._sought is None or self._vectors is None or len(rows) < 2:
            return {}
        return self._vectors.cosines_among(self._connection, self._sought, self._request.user, "m", rows)

    # --- rubino's tail -------------------------------------------------------------------------------------------

    def _filled_up(self, ranked: list[RecallHit]) -> list[RecallHit]:
        request, filters, missing = self._request, self.memories, self._request.limit - len(ranked)
        if "memories" not in request.among or missing <= 0:
            return ranked
        near = rubino.near_in_graph(self._connection, request, filters)
        states = {row[0]: memories.from_row(row) for row in self._rows_of("m", [row for row, _ in near])}
        known = {hit.memory.row for hit in ranked if hit.memory is not None}
        for state, signals in rubino.tail(self._connection, request, filters, states, near, known, missing):
            ranked.append(of_memory(state, self.policy, request.now))
            ranked[-1].candidate.signals = signals
        return ranked


def _in_order(hits: Iterable[RecallHit], order: Iterable[ScoredText]) -> list[RecallHit]:
    by_id = {id(hit.candidate): hit for hit in hits}
    return [by_id[id(candidate)] for candidate in order]


def of_memory(state: MemoryState, policy: PolicyState, now: str, bm25: float = 0.0) -> RecallHit:
    """Return a memory as a hit. Its searched text is its content with its entities and tags."""
    believed = confidence_rules.effective(
        state.confidence,
        decays=state.status == "active" and policy.decays(state.kind),
        reference_count=state.reference_count,
        active_at=state.active_at,
        as_of=now,
    )
    candidate = ScoredText(
        key=state.row,
        corpus="memory",
        text=" ".join((state.content or "", *state.entities, *state.tags)),
        position=state.row,
        row=state.row,
        bm25=bm25,
        time=state.valid_from,
        kind=state.kind,
        confidence=believed,
    )
    return RecallHit(candidate, memory=state)


def of_passage(row: PassageRow, bm25: float = 0.0) -> RecallHit:
    """Return a passage as a hit. A message is ranked as a turn; the text of a chunk includes the headings above it."""
    candidate = ScoredText(
        key=row.turn,
        corpus=passages.TURN if row.corpus == passages.MESSAGE else row.corpus,
        text=row.text if row.above is None else f"{row.above} {row.text}",
        position=row.position,
        row=row.row,
        bm25=bm25,
        group=row.session,
        role=row.field,
        speaker=row.speaker or "",
        whole=row.whole,
        time=row.time,
    )
    return RecallHit(candidate, passage=row)


def _letter(candidate: ScoredText) -> str:
    return "m" if candidate.corpus == "memory" else "p"


def _best_of_each_text(hits: Iterable[RecallHit]) -> list[RecallHit]:
    """Return the best passage of each text, the first of equal ones."""
    best: dict[int, RecallHit] = {}
    for hit in hits:
        known = best.get(hit.candidate.key)
        if known is None or (hit.candidate.words, -hit.candidate.row) > (known.candidate.words, -known.candidate.row):
            best[hit.candidate.key] = hit
    return list(best.values())
