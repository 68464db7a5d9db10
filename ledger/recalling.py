"""Recall: the memories, chunks and turns that answer a question, ranked, within a budget, each with its reasons."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import date
from itertools import pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ledger import answers, embedding
from ledger.domain import confidence as rules
from ledger.domain import question, tokens
from ledger.domain.errors import LedgerError, Rejected
from ledger.domain.memory import Memory
from ledger.domain.question import Question
from ledger.domain.text import check_text
from ledger.embedding import VectorSearch
from ledger.packs import Item, Pack, Passage
from ledger.reads import LIST_CAP, NOWHERE, Reads, _statuses, listed, named
from ledger.recorders import read_tip
from projections import context, documents, graph, memories, passages, projects, ranking, search, sqlite
from projections.passages import Passage as PassageRow
from projections.projector import text_indexes
from projections.ranking import RANKINGS, Candidate
from projections.stems import stem
from projections.text_hits import Rarity, of_rows

POOL = 200  # candidates of each corpus that are ranked
ENOUGH = 100  # ... or so many, where others of the best are not of this user, project or time
QUERY_BYTES = 1024 * 1024
AMONG = ("memories", "chunks", "turns")
CORPORA = {"chunks": "chunk", "turns": "turn"}
UNITS: dict[str, Callable[[str], int]] = {"chars": len, "tokens": tokens.estimate}
PACKINGS = ("prefix", "shares")
PROFILE_KINDS, PROFILE_CHARS = ("user_profile", "identity", "preference"), 1375  # rubino's limit (SEEDS 2b)
CONTEXT_KINDS, CONTEXT_ITEMS = ("project", "env"), 10  # rubino's project context (SEEDS 2b)
SHARED_ITEMS = 50  # of what a pack by shares holds whether or not it answers the question


class Asked(Struct, frozen=True, kw_only=True):
    """A recall as it was asked for, checked."""

    query: str
    user: str
    project: str | None
    kinds: tuple[str, ...]
    among: tuple[str, ...]
    statuses: tuple[str, ...]
    k: int
    budget: int | None
    unit: str
    packing: str
    ranking: str
    explain: bool
    now: str  # confidences and validity are of this time


class Found(Struct):
    """One candidate with what it stands for."""

    candidate: Candidate
    memory: Memory | None = None
    passage: PassageRow | None = None


class Recalling(Reads):
    """The part of the library door that searches."""

    _rarity: Rarity
    _vectors: VectorSearch | None
    _counted: tuple[tuple[int, str], int] = ((0, ""), 0)

    def recall(
        self,
        query: str,
        *,
        user: str | None = None,
        project: str | None = None,
        kinds: str | Iterable[str] = (),
        among: str | Iterable[str] = ("memories", "chunks"),
        status: str | Iterable[str] = "active",
        k: int = 20,
        budget: int | None = None,
        unit: str = "chars",
        packing: str = "prefix",
        ranking: str = "score/1",
        explain: bool = False,
        receipt: bool = False,
    ) -> Pack:
        """What answers a question, best first: at most ``k`` entries within ``budget``, counted in ``unit`` (chars or tokens).

        Searched ``among`` active memories that hold now and the chunks of documents, unless "turns" (what was captured) is
        named too, or "all"; with ``kinds`` memories of these only, and ``status`` finds hidden ones too, candidates never.
        With a project: what is of it or of none; without: all of the user's. ``packing`` is "prefix" (up to the first that
        does not fit) or "shares" (ATOCore's: trusted state, identity and preference, project, the rest). ``ranking`` is
        "score/1" (words and, where there are any, vectors in one score), "rrf/1" (reciprocal ranks) or "rubino/1".
        ``explain`` lists every candidate that was ranked, with its signals. Nothing is written but, where it is asked for,
        a ``receipt``: what was given, for ``reopen()``.
        """
        asked = _asked(
            query, self._user(user), project, kinds, among, status, k, budget, unit, packing, ranking, explain,
            self._writer.now(),
        )  # fmt: skip
        pack, about = self._packed(asked)
        return replace(pack, receipt=self._recorded(asked, about, pack)) if receipt else pack

    def _packed(self, asked: Asked) -> tuple[Pack, str | None]:
        """The pack, and the id of the project that it is about."""
        self._take_in_texts()
        told = question.read(asked.query)
        sought = self._sought(asked, told)
        with self._read(*_needs(asked)) as connection:
            seen, _ = read_tip(connection.cursor())
            scope = None if asked.project is None else [None, named(connection, asked.user, "p", asked.project)]
            ranked, warnings = self._ranked(connection, asked, scope, told, sought)
            items = self._items(connection, ranked if asked.explain else ranked[: asked.k])
            if asked.packing == "shares":
                items = [*self._shared(connection, asked, scope, items)]
            searched = self._searched(connection, asked, scope, seen)
        pack = _pack(asked, items, searched, (*self._recall_warnings(), *warnings))
        return replace(pack, seen=seen), scope[1] if scope is not None and scope[1] != NOWHERE else None

    def _recorded(self, asked: Asked, project: str | None, pack: Pack) -> str:
        raise Rejected(
            "a receipt is written, and this is a moment of the past: recall of the ledger itself", rule="readonly"
        )

    # --- candidates ----------------------------------------------------------------------------------------------------

    def _sought(self, asked: Asked, told: Question) -> embedding.Asked | None:
        """The question as a vector, without the names of who speaks: they say whose turn is meant, not what about."""
        if self._vectors is None or not asked.k:
            return None
        text, letters = asked.query[: question.READ_CHARS], _letters(asked)
        if "turns" in asked.among:
            with self._read("passages") as connection:
                names = passages.speakers(connection, told, asked.user)
            text = " ".join(word for word in told.words if word not in names) if names else text
        return self._vectors.ask(text or asked.query[: question.READ_CHARS], asked.user, letters)

    def _ranked(
        self,
        connection: Any,
        asked: Asked,
        scope: Sequence[str | None] | None,
        told: Question,
        sought: embedding.Asked | None,
    ) -> tuple[list[Found], tuple[str, ...]]:
        """The candidates in the order of their scores, and what was in the way of finding them."""
        if not asked.k:
            return [], ()
        found, warnings = self._by_words(connection, asked, scope, told), tuple[str, ...]()
        if sought is not None and self._vectors is not None:
            nearest = self._vectors.hits(
                connection, sought, asked.user, _letters(asked), POOL, self._keep(connection, asked, scope)
            )
            warnings = nearest.warnings
            self._add_nearest(connection, asked, scope, told, found, nearest.hits)
        if asked.ranking == "score/1":
            beside = self._beside(connection, found)
            self._add_cosines(connection, asked, sought, found)
            order = ranking.by_score([each.candidate for each in found], told, beside)
        else:
            weight, kinds = (ranking.RUBINO_WEIGHT, ranking.RUBINO_KINDS) if asked.ranking == "rubino/1" else (1.0, {})
            order = ranking.by_rank(
                [each.candidate for each in found], dict.fromkeys(("text", "vector"), weight), kinds
            )
        by_id = {id(each.candidate): each for each in found}
        ranked = [by_id[id(each)] for each in order]
        if asked.ranking == "rubino/1" and "memories" in asked.among and len(ranked) < asked.k:
            ranked += self._tail(connection, asked, scope, ranked)
        return ranked, warnings

    def _tail(
        self, connection: Any, asked: Asked, scope: Sequence[str | None] | None, ranked: Sequence[Found]
    ) -> list[Found]:
        """What rubino fills up with, never above a direct hit: memories near in the graph, then the newest."""
        missing, wanted = asked.k - len(ranked), self._wanted(asked, scope)
        at, known = wanted.at or asked.now, {each.memory.row for each in ranked if each.memory is not None}
        near = graph.neighbourhood(
            connection, asked.query[: question.READ_CHARS], asked.user, at=at, limit=2 * asked.k, projects=scope
        )
        states = {
            row[0]: memories.from_row(row) for row in self._rows_of(connection, asked, scope, "m", [r for r, _ in near])
        }
        tail = [(states[row], {"graph": 1 / (1 + hops)}) for row, hops in near if row in states and row not in known]
        known |= {state.row for state, _ in tail}
        newest = memories.listing(
            connection,
            user=asked.user,
            statuses=wanted.statuses,
            kinds=asked.kinds,
            projects=scope,
            limit=len(known) + missing,
            valid=wanted.at,
        )
        tail += [(state, {"recency": 1.0}) for state in newest if state.row not in known]
        found = [(self._of_memory(state, 0.0, asked.now), signals) for state, signals in tail[:missing]]
        for each, signals in found:
            each.candidate.signals = signals
        return [each for each, _ in found]

    def _keep(self, connection: Any, asked: Asked, scope: Sequence[str | None] | None) -> Any:
        """Which of some rows are wanted ones, as the search by vectors asks it."""

        def keep(corpus: str, rows: Collection[int]) -> Collection[int]:
            return [row[0] for row in self._rows_of(connection, asked, scope, corpus, rows)]

        return keep

    def _rows_of(
        self, connection: Any, asked: Asked, scope: Sequence[str | None] | None, letter: str, rows: Collection[int]
    ) -> list[Any]:
        """Those of these rows of memories ("m") or passages ("p") that are searched."""
        if letter == "m":
            return of_rows(connection, search.SOURCE, rows, *self._wanted(asked, scope).condition())
        return of_rows(
            connection, passages.SOURCE, rows, *passages.Wanted(asked.user, _corpora(asked), scope).condition()
        )

    def _add_nearest(
        self,
        connection: Any,
        asked: Asked,
        scope: Sequence[str | None] | None,
        told: Question,
        found: list[Found],
        hits: Sequence[tuple[str, int, float]],
    ) -> None:
        """Adds what only its vector found; of a turn the nearest passage counts."""
        known = {(_letter(each.candidate), each.candidate.key): each for each in found}
        fresh: list[Found] = []
        for letter, index in (("m", search.SEARCH), ("p", passages.PASSAGE_SEARCH)):
            cosines = {row: cosine for corpus, row, cosine in hits if corpus == letter}
            some: list[Found] = []
            for row in self._rows_of(connection, asked, scope, letter, cosines):
                each = (
                    self._of_memory(memories.from_row(row), 0.0, asked.now)
                    if letter == "m"
                    else _of_passage(PassageRow(*row), 0.0)
                )
                each.candidate.cosine = cosines[each.candidate.row]
                other = known.get((letter, each.candidate.key))
                if other is None:
                    some.append(each)
                else:
                    other.candidate.cosine = max(other.candidate.cosine or -1.0, cosines[each.candidate.row])
            self._score(connection, some, told, index)
            fresh += some
        nearest: dict[tuple[str, int], Found] = {}
        for each in sorted(fresh, key=lambda each: each.candidate.cosine or -1.0):
            nearest[_letter(each.candidate), each.candidate.key] = each
        found += nearest.values()

    def _add_cosines(
        self, connection: Any, asked: Asked, sought: embedding.Asked | None, found: Sequence[Found]
    ) -> None:
        if sought is None or self._vectors is None:
            return
        for letter in _letters(asked):
            some = [
                each.candidate for each in found if _letter(each.candidate) == letter and each.candidate.cosine is None
            ]
            cosines = self._vectors.cosines(connection, sought, asked.user, letter, [each.row for each in some])
            for each in some:
                each.cosine = cosines.get(each.row)

    def _by_words(
        self, connection: Any, asked: Asked, scope: Sequence[str | None] | None, told: Question
    ) -> list[Found]:
        expression, pool = told.expression, max(POOL, asked.k)
        if not expression:
            return []
        found: list[Found] = []
        if "memories" in asked.among:
            wanted = self._wanted(asked, scope)
            hits = self._memory_hits(connection, expression, wanted, pool)
            found += [self._of_memory(state, score, asked.now) for state, score in hits]
            self._score(connection, found, told, search.SEARCH)
        if corpora := _corpora(asked):
            those = passages.Wanted(asked.user, corpora, scope)
            rows = [_of_passage(row, score) for row, score in self._passage_hits(connection, expression, those, pool)]
            self._score(connection, rows, told, passages.PASSAGE_SEARCH)
            found += _best_of_each_text(rows)
        return found

    def _score(self, connection: Any, found: Sequence[Found], told: Question, index: Any) -> None:
        """Of each candidate what its words say of the question."""
        idf, mean = self._rarity.of(connection, index, self._schema(), unseen=self._unseen(connection, index))
        terms = ranking.terms(told, stem, idf, mean)
        for each in found:
            each.candidate.words = ranking.word_score(each.candidate.text, terms, stem)

    def _beside(self, connection: Any, found: list[Found]) -> dict[str, list[int]]:
        """The turns of each session among the candidates in their order; those next to a candidate become one."""
        sessions: dict[str, list[Candidate]] = {}
        for each in found:
            if each.candidate.group is not None:
                sessions.setdefault(each.candidate.group, []).append(each.candidate)
        beside, known = {}, {each.candidate.key for each in found if each.passage is not None}
        fresh: set[int] = set()
        for session, turns in sessions.items():
            best = [each.key for each in sorted(turns, key=lambda each: -each.words)]
            keys = beside[session] = passages.turns_around(connection, session, best)
            hit = set(best)
            for left, right in pairwise(keys):
                if left in hit or right in hit:
                    fresh.update({left, right} - known)
        found += [_of_passage(row, 0.0) for row in passages.first_of_turns(connection, sorted(fresh))]
        return beside

    def _wanted(self, asked: Asked, scope: Sequence[str | None] | None) -> search.Wanted:
        at = self._valid or (asked.now if asked.statuses == ("active",) else None)
        return search.Wanted(asked.user, at, scope, asked.kinds, self._believed(asked.statuses))

    @staticmethod
    def _of_memory(state: Memory, bm25: float, now: str) -> Found:
        believed = rules.effective(
            state.confidence,
            active=state.status == "active",
            reference_count=state.reference_count,
            active_at=state.active_at,
            as_of=now,
        )
        candidate = Candidate(
            key=state.row,
            corpus="memory",
            text=state.content or "",
            position=state.row,
            row=state.row,
            bm25=bm25,
            day=_day(state.valid_from),
            kind=state.kind,
            confidence=believed,
        )
        return Found(candidate, memory=state)

    # --- what the moment of an earlier time answers otherwise ------------------------------------------------------------

    def _memory_hits(
        self, connection: Any, expression: str, wanted: search.Wanted, limit: int
    ) -> list[tuple[Memory, float]]:
        return search.matching(
            connection, expression, wanted, limit=limit, schema=self._schema(), enough=min(limit, ENOUGH)
        )

    def _passage_hits(
        self, connection: Any, expression: str, wanted: passages.Wanted, limit: int
    ) -> list[tuple[PassageRow, float]]:
        return passages.matching(
            connection, expression, wanted, limit=limit, schema=self._schema(), enough=min(limit, ENOUGH)
        )

    def _unseen(self, connection: Any, index: Any) -> bool:
        """Whether there may be texts that the index does not have."""
        return sqlite.waiting(connection, index) > 0

    def _schema(self) -> str:
        """Where the text indexes lie: in the file, or where this process folded its own."""
        return "temp" if self._store.folded_privately else "main"

    def _recall_warnings(self) -> tuple[str, ...]:
        return ()

    def _take_in_texts(self) -> None:
        """Lets the indexes take what waits for them; where somebody is writing, or nobody can, those few are searched apart."""
        with self._read() as connection:
            late = sum(sqlite.waiting(connection, index) for _, index in text_indexes())
        if late and not self._store.readonly:
            with suppress(LedgerError):
                self._writer.index_waiting()

    # --- packs ---------------------------------------------------------------------------------------------------------

    def _items(self, connection: Any, found: Sequence[Found]) -> list[Item]:
        shown = self._memories(connection, [each.memory for each in found if each.memory is not None])
        told = {each.id: each for each in shown}
        rows = [each.passage for each in found if each.passage is not None]
        names = projects.names(connection, {each for row in rows for each in (row.project, row.session)})
        above = documents.places(connection, [row.position for row in rows if row.corpus == "chunk"])
        items = []
        for rank, each in enumerate(found, 1):
            memory = told[each.memory.id] if each.memory is not None else None
            passage = _passage(each.passage, names, above) if each.passage is not None else None
            items.append(
                Item(
                    rank=rank,
                    score=round(each.candidate.score, 6),
                    source=each.candidate.corpus,
                    id=memory.id if memory is not None else passage.id if passage is not None else "",
                    text=memory.content if memory is not None else passage.text if passage is not None else None,
                    signals={name: round(value, 6) for name, value in each.candidate.signals.items()},
                    memory=memory,
                    passage=passage,
                )
            )
        return items

    def _shared(
        self, connection: Any, asked: Asked, scope: Sequence[str | None] | None, items: Sequence[Item]
    ) -> list[Item]:
        """The items in ATOCore's bands, behind the trusted state, and with them what is packed though nobody asked for it."""
        known = {item.id for item in items}
        standing = self._standing(connection, asked.user, asked.project) if asked.project is not None else []
        more: list[Memory] = []
        for kinds, where in ((("identity", "preference", "user_profile"), scope), ((), scope[1:] if scope else None)):
            if kinds or where:
                more += memories.listing(
                    connection,
                    user=asked.user,
                    statuses=("active",),
                    kinds=kinds,
                    projects=where,
                    limit=SHARED_ITEMS,
                    valid=self._valid or asked.now,
                )
        more.sort(key=lambda state: (-state.confidence, -state.row))
        unasked = [each for each in {state.id: state for state in more}.values() if each.id not in known]
        found = [
            Found(replace(self._of_memory(state, 0.0, asked.now).candidate, signals={"unasked": 1.0}), state)
            for state in unasked
        ]
        together = [*standing, *items[: asked.k], *self._items(connection, found)]
        bands = [_band(item, asked.project is not None) for item in together]
        return [replace(together[at], rank=rank) for rank, at in enumerate(context.in_order(bands), 1)]

    def _standing(self, connection: Any, owner: str, project: str) -> list[Item]:
        """The trusted state of a project."""
        state = self._project_state(connection, owner, project)
        if state is None:
            return []
        names = answers.StateEntry.__struct_fields__
        rows = projects.state_history(connection, state.row, None, None)
        entries = [answers.StateEntry(**dict(zip(names, row, strict=True))) for row in rows]
        return [of_state(state.id, entry) for entry in entries if entry.to_position is None]

    def _searched(self, connection: Any, asked: Asked, scope: Sequence[str | None] | None, seen: int) -> int:
        """Among how many memories, turns and chunks; counted once while nothing is written."""
        wanted = replace(self._wanted(asked, scope), at=self._valid)
        those = passages.Wanted(asked.user, _corpora(asked), scope)
        what = (wanted.condition() if "memories" in asked.among else None, those.condition() if those.corpora else None)
        if self._counted[0] != (seen, repr(what)):
            number = search.count(connection, wanted) if what[0] is not None else 0
            number += passages.count(connection, those) if what[1] is not None else 0
            self._counted = ((seen, repr(what)), number)
        return self._counted[1]

    # --- what is always worth knowing ------------------------------------------------------------------------------------

    def user_profile(self, *, user: str | None = None, budget: int = PROFILE_CHARS) -> Pack:
        """What is known of the user: active user_profile, identity and preference memories, newest first, within 1,375
        characters unless told otherwise."""
        return self._newest(self._user(user), PROFILE_KINDS, None, LIST_CAP, _budget(budget))

    def project_context(self, project: str, *, user: str | None = None, budget: int | None = None) -> Pack:
        """What is known of a project: its trusted state, then its ten newest memories of the kinds project and env."""
        check_text("project", project, max_bytes=1024)
        return self._newest(self._user(user), CONTEXT_KINDS, project, CONTEXT_ITEMS, _budget(budget))

    def _newest(self, owner: str, kinds: Sequence[str], project: str | None, limit: int, budget: int | None) -> Pack:
        now = self._writer.now()
        with self._read("memories", "projects") as connection:
            scope = [named(connection, owner, "p", project)] if project is not None else None
            standing = self._standing(connection, owner, project) if project is not None else []
            found = memories.listing(
                connection,
                user=owner,
                statuses=self._believed(("active",)),
                kinds=kinds,
                projects=scope,
                limit=limit,
                valid=self._valid or now,
            )
            items = self._items(connection, [self._of_memory(each, 0.0, now) for each in found])
        together = [replace(item, rank=rank) for rank, item in enumerate((*standing, *items), 1)]
        reasons = context.prefix([len(item.text or "") for item in together], budget)
        return finished(together, reasons, searched=len(together), budget=budget, unit="chars")


def _asked(
    query: str,
    user: str,
    project: str | None,
    kinds: str | Iterable[str],
    among: str | Iterable[str],
    status: str | Iterable[str],
    k: int,
    budget: int | None,
    unit: str,
    packing: str,
    ranking: str,
    explain: bool,
    now: str,
) -> Asked:
    check_text("query", query, max_bytes=QUERY_BYTES, blank_allowed=True)
    places = _names("among", among)
    places = AMONG if places == ("all",) else places
    only = _names("kinds", kinds)
    for each in places:
        _one_of("among", each, (*AMONG, "all"))
    statuses = _statuses(status) or ("active", "superseded", "invalid", "retracted")
    if "candidate" in statuses:
        raise Rejected("a candidate is never recalled before it is promoted: see review()", rule="trust")
    _one_of("unit", unit, tuple(UNITS))
    _one_of("packing", packing, PACKINGS)
    _one_of("ranking", ranking, RANKINGS)
    if packing == "shares" and _budget(budget) is None:
        raise Rejected("packing by shares shares a budget out, so it needs one")
    return Asked(
        query=query,
        user=user,
        project=project if project is not None and project.strip() else None,
        kinds=only,
        among=("memories",) if only else places,
        statuses=statuses,
        k=listed(k, LIST_CAP),
        budget=_budget(budget),
        unit=unit,
        packing=packing,
        ranking=ranking,
        explain=explain,
        now=now,
    )


def _names(what: str, given: str | Iterable[str]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        check_text(what, name, max_bytes=1024)
    return names


def _one_of(what: str, given: object, allowed: Sequence[str]) -> None:
    if given not in allowed:
        raise Rejected(f"no {what} is called {given!r:.40}; there are: {', '.join(allowed)}")


def _budget(budget: int | None) -> int | None:
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 0):
        raise Rejected(f"a budget is a whole number from 0, and {budget!r:.40} is not")
    return budget


def _letters(asked: Asked) -> tuple[str, ...]:
    """The corpora of vectors that are searched."""
    return (*(("m",) if "memories" in asked.among else ()), *(("p",) if _corpora(asked) else ()))


def _letter(candidate: Candidate) -> str:
    return "m" if candidate.corpus == "memory" else "p"


def _corpora(asked: Asked) -> tuple[str, ...]:
    return tuple(CORPORA[each] for each in asked.among if each in CORPORA)


def _needs(asked: Asked) -> tuple[str, ...]:
    """The projections that a recall reads."""
    searched = (
        *(("search",) if "memories" in asked.among else ()),
        *(("passages", "documents") if _corpora(asked) else ()),
    )
    return ("memories", "projects", *searched)


def _of_passage(row: PassageRow, bm25: float) -> Found:
    candidate = Candidate(
        key=row.turn,
        corpus=row.corpus,
        text=row.text,
        position=row.position,
        row=row.row,
        bm25=bm25,
        group=row.session,
        role=row.field,
        whole=row.whole,
        day=_day(row.time),
    )
    return Found(candidate, passage=row)


def _best_of_each_text(found: Iterable[Found]) -> list[Found]:
    """The best passage of each text stands for it."""
    best: dict[int, Found] = {}
    for each in found:
        known = best.get(each.candidate.key)
        if known is None or each.candidate.words > known.candidate.words:
            best[each.candidate.key] = each
    return list(best.values())


def _day(time: str) -> date | None:
    try:
        return date.fromisoformat(time[:10])
    except ValueError:
        return None


def _passage(row: PassageRow, names: dict[str, str], above: dict[int, tuple[str, tuple[str, ...]]]) -> Passage:
    document, heading_path = above.get(row.position, (None, ()))
    return Passage(
        id=row.id,
        field=row.field,
        start=row.start,
        end=row.until,
        text=row.text,
        user=row.user,
        project=names.get(row.project, row.project) if row.project else None,
        session_id=names.get(row.session, row.session) if row.session else None,
        occurred_at=row.time,
        position=row.position,
        document=document,
        heading_path=heading_path,
    )


def of_state(project: str, entry: answers.StateEntry) -> Item:
    text = f"{entry.category}: {entry.key} = {entry.value}"
    return Item(rank=0, score=0.0, source="state", id=project, text=text, signals={"trusted": 1.0}, state=entry)


def _band(item: Item, in_project: bool) -> str:
    if item.source == "state":
        return "state"
    if item.memory is not None and item.memory.kind in ("identity", "preference", "user_profile"):
        return "identity"
    return "project" if in_project and item.memory is not None and item.memory.project is not None else context.REST


def _pack(asked: Asked, items: Sequence[Item], searched: int, warnings: tuple[str, ...]) -> Pack:
    size = UNITS[asked.unit]
    if asked.packing == "shares" and asked.budget is not None:
        items = [replace(item, text=context.shortened(item.text or "")) for item in items]
        bands = [_band(item, asked.project is not None) for item in items]
        reasons = context.by_shares(bands, [size(item.text or "") for item in items], asked.budget)
    else:
        within, beyond = items[: asked.k], items[asked.k :] if asked.explain else ()
        reasons = context.prefix([size(item.text or "") for item in within], asked.budget)
        items, reasons = [*within, *beyond], [*reasons, *["rank"] * len(beyond)]
    return finished(items, reasons, searched=searched, budget=asked.budget, unit=asked.unit, warnings=warnings)


def finished(
    items: Sequence[Item],
    reasons: Sequence[str],
    *,
    searched: int,
    budget: int | None,
    unit: str,
    warnings: tuple[str, ...] = (),
) -> Pack:
    told = [replace(item, cut=why) for item, why in zip(items, reasons, strict=True)]
    kept = tuple(item for item in told if not item.cut)
    return Pack(
        items=kept,
        cut=tuple(item for item in told if item.cut),
        searched=searched,
        budget=budget,
        used=sum(UNITS[unit](item.text or "") for item in kept),
        unit=unit,
        warnings=warnings,
    )
