"""The search for the hits of a recall on one snapshot, by words and by vectors, and their ranking.

A ``ScoredText`` is the part of a hit that the ranking reads.

Turns go with their facts: a turn is shown while every memory that came from the turn holds. If one of several facts was
retracted, invalidated or replaced, or does not hold at the time of the search, the whole turn stays out, because no rule can say
which of its words that fact was.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from heapq import nlargest
from itertools import islice, pairwise
from typing import TYPE_CHECKING, ClassVar, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ledger.core.engine import Snapshot
from ledger.core.reads import believed_statuses
from ledger.domain import confidence as confidence_rules
from ledger.domain.policy import PolicyState
from ledger.english.dates import day_words
from ledger.english.question import Question, any_of, quoted
from ledger.english.words import (
    HEAD_CHARS,
    LEAST_CHARS,
    ROOT_CHARS,
    STOP_WORDS,
    indexed_words,
    kin_of,
    nearest,
    stem,
    unspaced,
)
from ledger.memories.state import MemoryState
from ledger.recall.request import CONTEXT, RecallRequest
from ledger.vectors import part as vector_part
from projections.core.rows import Scope, TextIndex, Values
from projections.search import memory_hits as search
from projections.search import observation_hits, passages, ranking
from projections.search.passages import NUMBER_BITS, PassageRow
from projections.search.ranking import ScoredText
from projections.search.text_hits import BLOCK, MATCHED, Words, of_rows
from projections.views import control, memories, quarantine, sessions

if TYPE_CHECKING:
    from ledger.core.engine import ReadingEngine
    from ledger.vectors.embedding import QueryVector as Sought


from projections.search import memory_hits
from projections.search.memory_hits import MemoryScope
from projections.search.observation_hits import ObservationScope
from projections.search.passages import PassageScope

POOL = 200  # the most rows of each index that are read, the best first
SCORED, TIMES = 80, 4  # the most memories of the pool that are scored: 80, or four times the limit
# Scoring ends with a block of hits whose best score is below this part of the last score within the limit.
FAR = 0.9
RARE_CHARS = 4  # the fewest characters of a rare word
Key = tuple[str, int]
Turn = tuple[str, int | None]
"""The id of an interaction and None, or the id of a session and the position of a message."""

T = TypeVar("T")


class RecallHit(Struct):
    """A memory or passage that a search found, with the ``candidate`` that is ranked in its place."""

    candidate: ScoredText
    memory: MemoryState | None = None
    passage: PassageRow | None = None


def key_of(hit: RecallHit) -> Key:
    """Return the key by which a memory or a text is recognized, so that it stands only once in an answer."""
    return (hit.candidate.corpus, hit.candidate.key)


def is_turn(hit: RecallHit) -> bool:
    return hit.candidate.corpus == passages.TURN


def turn_of(row: PassageRow) -> Turn:
    return (row.id, row.position if row.corpus == passages.MESSAGE else None)


class Holding(Struct, frozen=True):
    """The memories that hold for a search: of the ``statuses``, and valid ``at`` a time if there is one."""

    statuses: tuple[str, ...]
    at: str | None

    def holds(self, memory: MemoryState) -> bool:
        """Return True if a memory is active, or of a status that is searched, and holds at the time."""
        is_valid = self.at is None or (
            memory.valid_from <= self.at and (memory.valid_to is None or memory.valid_to > self.at)
        )
        return is_valid and memory.status in ("active", *self.statuses)


def ended_turns(connection: sqlite3.Connection, turns: Collection[Turn], holding: Holding) -> set[Turn]:
    """Return the turns of which a memory came that does not hold."""
    return {turn for turn, cited in citing_memories(connection, turns).items() if not all(map(holding.holds, cited))}


def citing_memories(connection: sqlite3.Connection, turns: Collection[Turn]) -> dict[Turn, list[MemoryState]]:
    """Return the memories that cite each turn.

    Memories that were never believed are left out, and memories in whose place another memory cites the same turn, as after a
    merge.
    """
    if not turns:
        return {}
    positions = [position for _, position in turns if position is not None]
    cited = dict[Turn, list[MemoryState]]()
    for source, memory in memories.citing(connection, sorted({id for id, _ in turns}), positions):
        if memory.status == "candidate" or (memory.before == "candidate" and memory.status != "superseded"):
            continue
        is_message = source.startswith("s_") and memory.origin is not None
        turn = (source, memory.origin.position if is_message and memory.origin is not None else None)
        if turn in turns:
            cited.setdefault(turn, []).append(memory)
    for of_turn in cited.values():
        ids = {memory.id for memory in of_turn}
        of_turn[:] = [memory for memory in of_turn if memory.superseded_by not in ids]
    return cited


def may_observe(snapshot: Snapshot, request: RecallRequest, question: Question) -> bool:
    """Return True if a request wants observations and there may be observations that match its question."""
    if not request.most_observations or not question.concepts:
        return False
    if snapshot.is_past or "observations" in observation_hits.suspended(snapshot.connection):
        return True
    return not observation_hits.none(snapshot.connection, snapshot.schema)


class Finder:
    """A search of a ledger, now or at a moment of the past, ranked by ``score/3``.

    Another ranking is a subclass (``recall/rubino.py``).

    Attributes:
        numeric: True if figures of a question are telling words.
        newer_first: True if a newer statement moves before an older one that says nearly the same, and weak matches are cut.
    """

    numeric: ClassVar[bool] = True
    newer_first: ClassVar[bool] = True

    def __init__(
        self,
        engine: ReadingEngine,
        snapshot: Snapshot,
        request: RecallRequest,
        scope: Scope,
        question: Question,
        sought: Sought | None,
    ) -> None:
        """Begin a search; ``sought`` is the question as a vector, or None."""
        self._rarity, self._vectors, self._snapshot = engine.rarity, engine.parts.get(vector_part.SEARCH), snapshot
        self._connection, self._request, self._scope = snapshot.connection, request, scope
        self._question, self._sought = question, sought
        self.policy: PolicyState = control.policy(snapshot.connection, request.user)
        at = snapshot.valid or (request.now if request.statuses == ("active",) else None)
        statuses = believed_statuses(snapshot.valid, request.statuses)
        self.memories: MemoryScope = search.MemoryScope(
            request.user, at, scope, request.kinds, statuses, request.metadata
        )
        self.holding: Holding = Holding(statuses, at)
        self.passages: PassageScope = passages.PassageScope(
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
        if (widened := self._widened(len(hits))) is not None:
            self._question = widened
            self._terms.clear()
            hits = self._by_words()
        self._add_nearest(hits)
        around = self._around(hits) if request.lends else {}
        if request.packing != CONTEXT:  # a context gives the memories that took the place of a turn
            hits = self._without_ended(hits)
        self.set_roles(hits)
        self._add_cosines(hits)
        weight = self._vectors.weight if self._vectors is not None else ranking.VECTOR
        order = ranking.by_score([hit.candidate for hit in hits], self._question, around, weight)
        return in_order(hits, order)

    def is_weighed_alone(self, index: TextIndex) -> bool:
        """Return True if the score of a hit of an index depends on no other hit: turns lend each other scores."""
        return index is search.SEARCH or not self._request.lends

    def is_hit(self, candidate: ScoredText) -> bool:
        """Return True if a text that the index found is a candidate: it has a word of the question, as scores count words."""
        return bool(candidate.words)

    def score_of_rank(self, rank: int) -> float | None:
        """Return the score of an observation among the items by its rank alone; None if its words count."""
        return None

    def _without_ended(self, hits: Sequence[RecallHit]) -> list[RecallHit]:
        """Return the hits without the turns of which a memory came that does not hold."""
        of_hits = {key_of(hit): turn_of(hit.passage) for hit in hits if is_turn(hit) and hit.passage is not None}
        ended = ended_turns(self._connection, set(of_hits.values()), self.holding)
        return [hit for hit in hits if of_hits.get(key_of(hit)) not in ended]

    def held(self) -> int:
        """Return the number of texts in quarantine that have a word of the question, counted up to ``POOL`` of an index."""
        if not self._question.concepts or not quarantine.is_used(self._connection, self._request.user):
            return 0
        expression, number = any_of(self._question.concepts), 0
        if "memories" in self._request.among:
            wanted = replace(self.memories, held=True)
            number += sum(1 for _ in memories_matching(self._snapshot, expression, wanted=wanted, limit=POOL))
        if self._request.corpora:
            hits = passages_matching(self._snapshot, expression, wanted=replace(self.passages, held=True), limit=POOL)
            number += len({piece.turn for piece, _ in hits})
        return number

    # --- by words ------------------------------------------------------------------------------------------------

    def _by_words(self) -> list[RecallHit]:
        hits, pieces = list[RecallHit](), list[RecallHit]()
        if not self._question.concepts:
            return hits
        if "memories" in self._request.among:
            make = partial(of_memory, policy=self.policy, now=self._request.now)
            hits = self._best(search.SEARCH, partial(memories_matching, self._snapshot, wanted=self.memories), make)
        if self._request.corpora:
            passage_hits = partial(passages_matching, self._snapshot, wanted=self.passages)
            pieces = self._best(passages.PASSAGE_SEARCH, passage_hits, of_passage)
        return hits + _best_of_each_text(pieces)

    def _widened(self, found: int) -> Question | None:
        """Return the question with stored words added; None if there are none to add.

        A word that no hit has is searched for alone. If no searched text has the word either, the word is unknown, and words of
        its family are added, or without any the most similar words with the same beginning. If fewer than ``limit`` texts were
        ``found``, the families of all words are added.

        The words of families are of the index, and bring nothing where no searched text has them. Of the similar words the
        nearest are chosen, so only words of searched texts are compared, and no words of other users are seen.
        """
        met = {terms.concepts[at] for terms in self._terms.values() for at in terms.met.concepts}
        concepts, related = list(self._question.concepts), set[str]()
        for at, forms in enumerate(concepts):
            word = forms[0]
            if not word.isalpha() or unspaced(word) or len(word) < ROOT_CHARS:
                continue
            is_known = frozenset(map(stem, forms)) in met or self._is_searched(any_of([forms]))
            if is_known and found >= self._request.limit:
                continue
            kin = self._kin_of(word)
            related.update(kin)
            if not kin and not is_known and len(word) >= LEAST_CHARS:
                stored = self._words_of(f"{quoted(word[:HEAD_CHARS])} *")
                kin = nearest(word, stored)
            concepts[at] = (*forms, *(form for form in kin if form not in forms))
        if concepts == list(self._question.concepts):
            return None
        return replace(self._question, concepts=tuple(concepts), kin=frozenset(related))

    def _kin_of(self, word: str) -> Sequence[str]:
        """Return words of the family of a word, which some text of the indexes has."""
        head = stem(word)[:ROOT_CHARS]
        if len(head) < ROOT_CHARS or not head.isascii():
            return ()
        return kin_of(word, set[str]().union(*(self._words(index).beginning(head) for index in self._indexes)))

    @property
    def _indexes(self) -> list[TextIndex]:
        """Return the text indexes that are searched."""
        passage_index = [passages.PASSAGE_SEARCH] if self._request.corpora else []
        return [search.SEARCH, *passage_index] if "memories" in self._request.among else passage_index

    def _is_searched(self, expression: str) -> bool:
        """Return True if a searched text matches an expression."""
        snapshot, request = self._snapshot, self._request
        return ("memories" in request.among and is_any_memory(snapshot, expression, self.memories)) or (
            bool(request.corpora) and is_any_passage(snapshot, expression, self.passages)
        )

    def _words_of(self, expression: str) -> set[str]:
        """Return the words of the best searched texts that an expression finds."""
        texts = list[str]()
        if "memories" in self._request.among:
            hits = memories_matching(self._snapshot, expression, wanted=self.memories, limit=POOL)
            texts += [" ".join((memory.content or "", *memory.entities, *memory.tags)) for memory, _ in hits]
        if self._request.corpora:
            pieces = passages_matching(self._snapshot, expression, wanted=self.passages, limit=POOL)
            texts += [f"{piece.above or ''} {piece.text}" for piece, _ in pieces]
        return {word for text in texts for word in indexed_words(text)}

    def _best(
        self, index: TextIndex, hits: Callable[..., Iterator[tuple[T, float]]], make: Callable[..., RecallHit]
    ) -> list[RecallHit]:
        """Return the best hits of an index with their scores: every hit that can be within the limit."""
        request, words, matches = self._request, self._words(index), list[RecallHit]()
        if not words.texts and not self._snapshot.is_past:
            return matches
        words.count_all(self._question)
        pool = most = max(POOL, request.limit)
        alone = self.is_weighed_alone(index)
        if alone:  # otherwise the whole pool is needed
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
            scored += [hit for hit in block if self.is_hit(hit.candidate)]
            if ends and max(hit.candidate.words for hit in block) < least:
                break
            if ends and len(scored) >= limit:
                least = FAR * nlargest(limit, (hit.candidate.words for hit in scored))[-1]
        return scored

    def _words(self, index: TextIndex) -> Words:
        if index not in self._seen:
            seen = self._snapshot
            self._seen[index] = self._rarity.seen(self._connection, index, seen.schema, unseen=seen.is_past)
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

    def rare(self, text: str, most: int) -> list[str]:
        """Return the telling words of a text that from two to ``most`` turns or chunks have."""
        words, told = self._words(passages.PASSAGE_SEARCH), dict.fromkeys(indexed_words(text))
        return [
            word
            for word in told
            if len(word) >= RARE_CHARS and word not in STOP_WORDS and 1 < words.number(stem(word)) <= most
        ]

    def score_of(self, text: str) -> float:
        """Return the score of the words of a turn's or chunk's text."""
        return ranking.word_score(text, self._terms_of(passages.PASSAGE_SEARCH))[0]

    def score_among(self, text: str) -> float:
        """Return the score of a text's words by their rarity in the indexes that are searched, the highest of them."""
        return max(ranking.word_score(text, self._terms_of(index))[0] for index in self._indexes)

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
        for session, of_session in groups.items():
            best = [turn.key for turn in sorted(of_session, key=lambda turn: -turn.words)]
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

    def set_roles(self, hits: Iterable[RecallHit]) -> None:
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


def in_order(hits: Iterable[RecallHit], order: Iterable[ScoredText]) -> list[RecallHit]:
    by_id = {id(hit.candidate): hit for hit in hits}
    return [by_id[id(candidate)] for candidate in order]


def of_memory(state: MemoryState, policy: PolicyState, now: str, bm25: float = 0.0) -> RecallHit:
    """Return a memory as a hit. Its searched text is its content with its entities and tags."""
    believed = confidence_rules.effective(
        state.confidence,
        rule=policy.decay_of(state.kind) if state.status == "active" else None,
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


ENOUGH = 100  # hits to rank at least, because some of the best may be of another user, project or time
THEN = "texts, statuses and confidences are those of position {}; the scores take the rarity of a word from today's text index"


def memories_matching(
    snapshot: Snapshot, expression: str, wanted: MemoryScope, limit: int
) -> Iterator[tuple[MemoryState, float]]:
    """Return the matching memories, best first."""
    if snapshot.position is not None:
        return memory_hits.matching_then(snapshot.connection, expression, wanted, snapshot.position, limit=limit)
    least = min(limit, ENOUGH)
    return memory_hits.matching(
        snapshot.connection, expression, wanted, limit=limit, schema=snapshot.schema, enough=least
    )


def passages_matching(
    snapshot: Snapshot, expression: str, wanted: PassageScope, limit: int
) -> Iterator[tuple[PassageRow, float]]:
    """Return the matching passages, best first."""
    if snapshot.position is not None:
        return passages.matching_then(snapshot.connection, expression, wanted, snapshot.position, limit=limit)
    least = min(limit, ENOUGH)
    return passages.matching(snapshot.connection, expression, wanted, limit=limit, schema=snapshot.schema, enough=least)


def observations_matching(
    snapshot: Snapshot, expression: str, wanted: ObservationScope, limit: int
) -> observation_hits.Hits:
    """Return the matching observations, best first."""
    if snapshot.position is not None:
        return observation_hits.matching_then(snapshot.connection, expression, wanted, snapshot.position, limit=limit)
    return observation_hits.matching(snapshot.connection, expression, wanted, limit=limit, schema=snapshot.schema)


def is_any_memory(snapshot: Snapshot, expression: str, wanted: MemoryScope) -> bool:
    """Return True if a memory matches."""
    if snapshot.position is not None:
        return any(True for _ in memories_matching(snapshot, expression, wanted, limit=1))
    return memory_hits.any_matches(snapshot.connection, expression, wanted, schema=snapshot.schema)


def is_any_passage(snapshot: Snapshot, expression: str, wanted: PassageScope) -> bool:
    """Return True if a passage matches."""
    if snapshot.position is not None:
        return any(True for _ in passages_matching(snapshot, expression, wanted, limit=1))
    return passages.any_matches(snapshot.connection, expression, wanted, schema=snapshot.schema)


def warnings_of(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the warnings for a caller who searches."""
    return (THEN.format(snapshot.position),) if snapshot.position is not None else ()
