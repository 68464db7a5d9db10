"""The candidates of one recall on one snapshot: found by words and by vectors, with their neighbors, in ranked order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from heapq import nlargest
from itertools import islice, pairwise
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain import confidence as rules
from ledger.domain import spelling
from ledger.domain.memory import Memory
from ledger.domain.passages import day_words
from ledger.domain.policy import Policy
from ledger.domain.question import Question, any_of, indexed_words, quoted, unspaced
from ledger.engine.snapshot import ENOUGH, Snapshot, believed
from ledger.recall import rubino
from ledger.recall.asked import Asked
from ledger.vectors.embedding import Asked as Sought
from projections.core.rows import TextIndex, Values
from projections.search import memory_hits as search
from projections.search import passages, ranking
from projections.search.passages import NUMBER_BITS, Passage
from projections.search.ranking import Candidate
from projections.search.stems import stem
from projections.search.text_hits import BLOCK, MATCHED, Words, of_rows
from projections.views import control, memories, sessions

if TYPE_CHECKING:
    from ledger.engine.engine import Engine

POOL = 200  # the best of each corpus by the index that are looked at
SCORED, TIMES = 80, 4  # of them so many memories are scored at the most, or so many times as are wanted
FAR = 0.9  # a block whose best has less than so much of what the last of the wanted has is the last that is looked at
T = TypeVar("T")
Scope = Sequence[str | None] | None  # the ids of the projects that are searched, None for none of them


class Found(Struct):
    """One candidate with what it stands for."""

    candidate: Candidate
    memory: Memory | None = None
    passage: Passage | None = None


class Finder:
    """One search, of a ledger or of a moment of it. ``sought`` is the question as a vector, where the ledger has a model."""

    def __init__(
        self, engine: Engine, snapshot: Snapshot, asked: Asked, scope: Scope, question: Question, sought: Sought | None
    ) -> None:
        self._rarity, self._vectors, self._snapshot = engine.rarity, engine.vectors, snapshot
        self._connection, self._asked, self._scope = snapshot.connection, asked, scope
        self._question, self._sought = question, sought
        self.policy = control.policy(snapshot.connection, asked.user)
        at = snapshot.valid or (asked.now if asked.statuses == ("active",) else None)
        statuses = believed(snapshot.valid, asked.statuses)
        self.memories = search.Wanted(asked.user, at, scope, asked.kinds, statuses, asked.metadata)
        self.passages = passages.Wanted(asked.user, asked.corpora, scope, asked.metadata)
        self.warnings: tuple[str, ...] = ()
        self._seen: dict[TextIndex, Words] = {}
        self._terms: dict[TextIndex, ranking.Terms] = {}

    def ranked(self) -> list[Found]:
        """The candidates, best first; what was in the way of finding them is in ``warnings``."""
        asked = self._asked
        if not asked.k:
            return []
        found = self._by_words()
        if asked.scored and (widened := self._widened()) is not None:
            self._question = widened
            self._terms.clear()
            found = self._by_words()
        self._add_nearest(found)
        if not asked.scored:
            return self._filled_up(_in_order(found, rubino.by_rank([each.candidate for each in found])))
        around = self._around(found) if asked.lends else {}
        self._set_roles(found)
        self._add_cosines(found)
        order = ranking.by_score([each.candidate for each in found], self._question, around)
        return _in_order(found, order)

    # --- by words ------------------------------------------------------------------------------------------------

    def _by_words(self) -> list[Found]:
        found, pieces = list[Found](), list[Found]()
        if not self._question.concepts:
            return found
        if "memories" in self._asked.among:
            make = partial(of_memory, policy=self.policy, now=self._asked.now)
            found = self._best(search.SEARCH, partial(self._snapshot.memory_hits, wanted=self.memories), make)
        if self._asked.corpora:
            hits = partial(self._snapshot.passage_hits, wanted=self.passages)
            pieces = self._best(passages.PASSAGE_SEARCH, hits, of_passage)
        return found + _best_of_each_text(pieces)

    def _widened(self) -> Question | None:
        """Return the question with stored words for each of its words that nothing searched has; None where it has them all.

        A word that no candidate has is looked for by itself, and then the words of texts that begin as it does: only texts
        that are searched, so that nobody else's words count.
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
        """Return the words of the best texts that an expression finds among what is searched."""
        texts = list[str]()
        if "memories" in self._asked.among:
            hits = self._snapshot.memory_hits(expression, wanted=self.memories, limit=limit)
            texts += [" ".join((memory.content or "", *memory.entities, *memory.tags)) for memory, _ in hits]
        if self._asked.corpora:
            pieces = self._snapshot.passage_hits(expression, wanted=self.passages, limit=limit)
            texts += [f"{piece.above or ''} {piece.text}" for piece, _ in pieces]
        return {word for text in texts for word in indexed_words(text)}

    def _best(
        self, index: TextIndex, hits: Callable[..., Iterator[tuple[T, float]]], make: Callable[..., Found]
    ) -> list[Found]:
        """The best hits of an index, with what their words say: as many as can be among what is wanted."""
        asked, words, found = self._asked, self._words(index), list[Found]()
        if not words.texts and not self._snapshot.forgets:
            return found
        pool = most = max(POOL, asked.k)
        alone = asked.scored and (index is search.SEARCH or not asked.lends)
        if alone:  # turns lend each other their scores, and rubino's ranking fuses ranks
            most = min(pool, max(SCORED, TIMES * asked.k))
        enough = asked.k if words.indexed <= MATCHED else min(most, ENOUGH)
        for expression in words.narrowed(self._question):
            hits_of = islice(hits(expression, limit=pool), most)
            # a date, and words without spaces, count in another way than in the index
            ends = alone and not self._question.days and not self._asked_of(index).runs
            found = self._scored(hits_of, index, make, ends=ends)
            if len(found) >= enough:
                break
        return found

    def _scored(
        self, hits: Iterator[tuple[T, float]], index: TextIndex, make: Callable[..., Found], *, ends: bool
    ) -> list[Found]:
        """The hits; where it ``ends``, up to a block of which none can be among what is wanted."""
        k, found, least = self._asked.k, list[Found](), 0.0
        while some := [make(row, bm25=score) for row, score in islice(hits, BLOCK)]:
            self._score(some, index)
            found += some
            if ends and max(each.candidate.words for each in some) < least:
                break
            if ends and len(found) >= k:
                least = FAR * nlargest(k, (each.candidate.words for each in found))[-1]
        return found

    def _words(self, index: TextIndex) -> Words:
        if index not in self._seen:
            seen = self._snapshot
            self._seen[index] = self._rarity.seen(self._connection, index, seen.schema, unseen=seen.forgets)
        return self._seen[index]

    def idf(self, stems: Iterable[str]) -> float:
        """How rare the commonest of some stems is among memories."""
        return self._words(search.SEARCH).idf(stems)

    def _asked_of(self, index: TextIndex) -> ranking.Terms:
        if index not in self._terms:
            words = self._words(index)
            self._terms[index] = ranking.terms(self._question, stem, words.idf, words.mean)
        return self._terms[index]

    def _score(self, found: Iterable[Found], index: TextIndex) -> None:
        """Of each candidate what its words say of the question."""
        terms = self._asked_of(index)
        for each in found:
            score, share = ranking.word_score(each.candidate.text, terms)
            if not score and each.candidate.corpus == "turn" and each.passage is not None:
                score, share = ranking.word_score(day_words(each.passage.time), terms)
                score *= ranking.DAY
            each.candidate.words, each.candidate.share = score, share

    def score_of(self, text: str) -> float:
        """How well the words of a text of a turn or chunk answer."""
        return ranking.word_score(text, self._asked_of(passages.PASSAGE_SEARCH))[0]

    def memories_at(self, rows: Collection[int]) -> list[Memory]:
        """Those of these memories that are searched."""
        return [memories.from_row(row) for row in self._rows_of("m", rows)]

    def set_shares(self, found: Sequence[Found]) -> None:
        """How much of the question each memory has that nobody asked for."""
        self._score(found, search.SEARCH)

    def _around(self, found: list[Found]) -> dict[str, list[int]]:
        """The turns of each session among the candidates in their order; those next to a candidate become one."""
        groups: dict[str, list[Candidate]] = {}
        for each in found:
            if each.candidate.group is not None:
                groups.setdefault(each.candidate.group, []).append(each.candidate)
        around, known = {}, {each.candidate.key for each in found if each.passage is not None}
        hidden = self._hidden(found)
        fresh: set[int] = set()
        for session, turns in groups.items():
            best = [each.key for each in sorted(turns, key=lambda each: -each.words)]
            keys = around[session] = passages.turns_around(self._connection, session, best, hidden.get(session, ()))
            hit = set(best)
            for left, right in pairwise(keys):
                if left in hit or right in hit:
                    fresh.update({left, right} - known)
        rows = [turn << NUMBER_BITS for turn in sorted(fresh)]
        found += [of_passage(row) for row in passages.of_keys(self._connection, rows, self.passages)]
        return around

    def _hidden(self, found: Iterable[Found]) -> dict[str, list[tuple[int, int]]]:
        """What is hidden of the sessions that messages were found in."""
        messages = (
            each.passage for each in found if each.passage is not None and each.passage.corpus == passages.MESSAGE
        )
        rows = {each.id: each.subject for each in messages}
        return {
            id: [(each.first, each.last) for each in sessions.hidden(self._connection, row)] for id, row in rows.items()
        }

    def _set_roles(self, found: Iterable[Found]) -> None:
        """Who speaks in a message: a person as in a prompt, or not."""
        messages = [each for each in found if each.passage is not None and each.passage.corpus == passages.MESSAGE]
        roles = sessions.roles(self._connection, {each.candidate.position for each in messages}) if messages else {}
        for each in messages:
            each.candidate.role = "prompt" if roles.get(each.candidate.position) == "user" else "response"

    # --- by vectors ----------------------------------------------------------------------------------------------

    def _rows_of(self, letter: str, rows: Collection[int]) -> list[Values]:
        """Those of these rows of memories ("m") or passages ("p") that are searched."""
        source, wanted = (
            (search.SOURCE, self.memories.condition())
            if letter == "m"
            else (passages.SOURCE, self.passages.condition())
        )
        return of_rows(self._connection, source, rows, *wanted)

    def _add_nearest(self, found: list[Found]) -> None:
        """Adds what only its vector found; of a turn the nearest passage counts."""
        if self._sought is None or self._vectors is None:
            return

        def keep(letter: str, rows: Collection[int]) -> Collection[int]:
            return [row[0] for row in self._rows_of(letter, rows)]

        nearest = self._vectors.hits(self._connection, self._sought, self._asked.user, self._asked.letters, POOL, keep)
        self.warnings = nearest.warnings
        known = {(_letter(each.candidate), each.candidate.key): each for each in found}
        for letter, index in (("m", search.SEARCH), ("p", passages.PASSAGE_SEARCH)):
            cosines = {row: cosine for corpus, row, cosine in nearest.hits if corpus == letter}
            fresh: dict[int, Found] = {}
            for row in sorted(self._rows_of(letter, cosines), key=lambda row: cosines[row[0]]):
                each = (
                    of_memory(memories.from_row(row), self.policy, self._asked.now)
                    if letter == "m"
                    else of_passage(passages.passage(row))
                )
                other = known.get((letter, each.candidate.key), each)
                other.candidate.cosine = max(other.candidate.cosine or -1.0, cosines[row[0]])
                if other is each:
                    each.candidate.cosine = cosines[row[0]]
                    fresh[each.candidate.key] = each
            self._score(fresh.values(), index)
            found += fresh.values()

    def _add_cosines(self, found: Sequence[Found]) -> None:
        if self._sought is None or self._vectors is None:
            return
        lacking = [each.candidate for each in found if each.candidate.cosine is None]
        for letter in self._asked.letters:
            some = [each for each in lacking if _letter(each) == letter]
            rows = [each.row for each in some]
            cosines = self._vectors.cosines(self._connection, self._sought, self._asked.user, letter, rows)
            for each in some:
                each.cosine = cosines.get(each.row)

    def cosines_among(self, rows: Sequence[int]) -> dict[tuple[int, int], float]:
        """Return the cosine of every two of these memories that both have a vector, by their rows, the smaller first."""
        if self._sought is None or self._vectors is None or len(rows) < 2:
            return {}
        return self._vectors.cosines_among(self._connection, self._sought, self._asked.user, "m", rows)

    # --- rubino's tail -------------------------------------------------------------------------------------------

    def _filled_up(self, ranked: list[Found]) -> list[Found]:
        asked, wanted, missing = self._asked, self.memories, self._asked.k - len(ranked)
        if "memories" not in asked.among or missing <= 0:
            return ranked
        near = rubino.near_in_graph(self._connection, asked, wanted)
        states = {row[0]: memories.from_row(row) for row in self._rows_of("m", [row for row, _ in near])}
        known = {each.memory.row for each in ranked if each.memory is not None}
        for state, signals in rubino.tail(self._connection, asked, wanted, states, near, known, missing):
            ranked.append(of_memory(state, self.policy, asked.now))
            ranked[-1].candidate.signals = signals
        return ranked


def _in_order(found: Iterable[Found], order: Iterable[Candidate]) -> list[Found]:
    by_id = {id(each.candidate): each for each in found}
    return [by_id[id(candidate)] for candidate in order]


def of_memory(state: Memory, policy: Policy, now: str, bm25: float = 0.0) -> Found:
    """A memory is searched by what it says, and by its entities and tags."""
    believed = rules.effective(
        state.confidence,
        decays=state.status == "active" and policy.decays(state.kind),
        reference_count=state.reference_count,
        active_at=state.active_at,
        as_of=now,
    )
    candidate = Candidate(
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
    return Found(candidate, memory=state)


def of_passage(row: Passage, bm25: float = 0.0) -> Found:
    """A message is ranked as the turn of a conversation that it is, a chunk by the headings above it too."""
    candidate = Candidate(
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
    return Found(candidate, passage=row)


def _letter(candidate: Candidate) -> str:
    return "m" if candidate.corpus == "memory" else "p"


def _best_of_each_text(found: Iterable[Found]) -> list[Found]:
    """The best passage of each text stands for it, the first of equals."""
    best: dict[int, Found] = {}
    for each in found:
        known = best.get(each.candidate.key)
        if known is None or (each.candidate.words, -each.candidate.row) > (known.candidate.words, -known.candidate.row):
            best[each.candidate.key] = each
    return list(best.values())
