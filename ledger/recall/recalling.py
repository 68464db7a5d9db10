"""Recall: the memories, chunks and turns that answer a question, packed within a budget."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ledger.core.call import Who
from ledger.core.engine import Engine, ReadingEngine, Snapshot
from ledger.core.reads import LIST_CAP, NOWHERE, id_of_filter
from ledger.domain.errors import LedgerError
from ledger.domain.text import counted
from ledger.english import question
from ledger.english.question import Question
from ledger.log.reading import read_tip
from ledger.recall import ordering, packs, reopening
from ledger.recall.finding import Finder, may_observe, warnings_of
from ledger.recall.observing import Observing, among_items, beside
from ledger.recall.ordering import items_of, nowhere_warning, searched_in
from ledger.recall.packs import Pack
from ledger.recall.request import AMONG_ITEMS, RecallRequest, checked
from ledger.recall.rubino import RubinoFinder
from ledger.recall.unasked import by_shares_of
from ledger.vectors import part as vector_part
from projections.core.projector import text_indexes
from projections.core.rows import Connection
from projections.core.sqlite import any_waits
from projections.search import passages
from projections.search.passages import VALUE
from projections.search.passages import PassageRow as PassageRow
from projections.search.ranking import RUBINO, SCORE

if TYPE_CHECKING:
    from ledger.vectors.embedding import QueryVector as Sought

_VISIBLE = re.compile(r"[^\s\x00-\x1f\x7f]")  # a model returns neighbors even for a question without such a character
FINDERS: dict[str, type[Finder]] = {SCORE: Finder, RUBINO: RubinoFinder}
_TEXT_INDEXES = [index for _, index in text_indexes()]
RANKED = 1_000  # candidates that ``explain`` lists: with observations they stay below the 2,000 entries of a receipt


def recall(engine: ReadingEngine, request: RecallRequest, receipt: Who | None = None) -> Pack:
    """Return the answers to a question, best first: at most ``limit`` items within ``budget``.

    Candidates are never found. With ``project``, texts of that project and of no project are searched; without a project, or with
    "", all texts of the user. ``packing`` is "greedy" (an item that does not fit is passed over), "prefix" (up to the first that
    does not fit) or "shares" (ATOCore's: trusted state, identity and preference, project, the rest). ``ranking`` is
    "score/3" (words and, with an embedder, vectors in one score) or "rubino/1" (reciprocal ranks). ``explain`` lists up to
    1,000 ranked candidates. Nothing is written, except a ``receipt`` of the pack for ``reopen()``.

    Observations stand beside the items in their own list. Only fresh observations of the same user and project are given,
    worded from live sources. They are ranked by words x confidence + 0.025 for each source beyond the first (at most 0.1). They
    take only room that the items leave, at most a fifth of the budget, and never repeat an item. With
    ``observations="items"`` observations are ranked among the items.
    """
    request = checked(request)
    pack, about = packed(engine, request)
    return replace(pack, receipt=reopening.recorded(engine, request, about, pack, receipt)) if receipt else pack


def packed(engine: ReadingEngine, request: RecallRequest) -> tuple[Pack, str | None]:
    """Return the pack, and the id of the project that the request is about."""
    ranked_by = FINDERS[request.ranking]
    asked_question = question.read(request.question, numeric=ranked_by.numeric)
    sought = sought_of(engine, request, asked_question)
    with searchable(engine) as snapshot:
        connection = snapshot.connection
        tip = read_tip(connection.cursor())
        about = id_of_filter(connection, request.user, "p", request.project)
        scope = searched_in(connection, request.user, request.project, about)
        finder = ranked_by(engine, snapshot, request, scope, asked_question, sought)
        ranked, weak = ordering.ordered(finder, request, asked_question)
        shown = ranked[:RANKED] if request.explain else ranked[: request.limit]
        items = items_of(connection, shown, {request.user: finder.policy})
        is_observing = may_observe(snapshot, request, asked_question)
        observing = Observing(engine, snapshot, request, scope, asked_question) if is_observing else None
        if request.observations == AMONG_ITEMS:
            best = max((hit.candidate.words for hit in ranked), default=0.0)
            supported = observing.ranked() if observing is not None else []
            items = among_items(request, finder, items, best, supported)[:RANKED]
        searched = searched_among(engine, connection, finder, request, tip)
        warnings = (*warnings_of(snapshot), *nowhere_warning(about, request.project), *finder.warnings)
        warnings = (*warnings, *held_warning(finder, request, len(ranked)))
        if request.packing == "shares":
            pack = by_shares_of(finder, snapshot, request, scope, items, searched, warnings)
        else:
            pack = packs.packed(request, items, searched, warnings)
        if request.explain:
            pack = packs.with_weak(pack, items_of(connection, weak[: RANKED - len(items)]))
        if observing is not None:
            if request.observations != AMONG_ITEMS:
                pack = beside(request, observing, pack)
            pack = replace(pack, warnings=(*pack.warnings, *observing.warnings))
    return replace(pack, seen=tip[0]), about if about != NOWHERE else None


def held_warning(finder: Finder, request: RecallRequest, found: int) -> tuple[str, ...]:
    """Return a warning about matching texts in quarantine if fewer texts were found than the request asks for."""
    if found >= request.limit or not (held := finder.held()):
        return ()
    return (f"{counted(held, 'text')} with words of the question left out, in quarantine: see guards.quarantined()",)


def sought_of(engine: ReadingEngine, request: RecallRequest, asked_question: Question) -> Sought | None:
    """Return the question as a vector, or None without an embedder.

    Names of speakers are left out, because a name says whose turn is meant and nothing about the topic.
    """
    vectors = engine.parts.get(vector_part.SEARCH)
    if vectors is None or not request.limit or not _VISIBLE.search(request.question):
        return None
    whole = request.question[: question.READ_CHARS]
    if "turns" not in request.among:
        return vectors.ask(whole, request.user, request.letters)
    with engine.reading() as connection:
        names = passages.speakers(connection, asked_question, request.user)
    text = " ".join(word for word in asked_question.words if word not in names) if names else whole
    return vectors.ask(text or whole, request.user, request.letters)


@contextmanager
def searchable(engine: ReadingEngine) -> Iterator[Snapshot]:
    """Yield a snapshot whose indexes include all waiting texts. Usually none wait, and the first snapshot serves."""
    with engine.snapshot() as snapshot:
        if not isinstance(engine, Engine) or not (engine.store.is_own or any_waits(snapshot.connection, _TEXT_INDEXES)):
            yield snapshot
            return
    index_texts(engine)
    with engine.snapshot() as snapshot:
        yield snapshot


def index_texts(engine: ReadingEngine) -> None:
    """Move the waiting texts into their indexes.

    If another process writes just now, or without write access, the texts keep waiting and are searched apart.
    """
    if not isinstance(engine, Engine):  # every index of a moment is complete
        return
    with engine.reading(stale=True) as connection:
        late = any_waits(connection, _TEXT_INDEXES)
    if (late or engine.store.is_own) and not engine.store.readonly:
        with suppress(LedgerError):
            engine.index_waiting()


# --- items ---------------------------------------------------------------------------------------------------


def values_about(engine: ReadingEngine, user: str, query: str, namespace: tuple[str, ...]) -> dict[int, float]:
    """Return the ``match`` of the values below a namespace that answer a question, by row, best first, at most 500."""
    request = checked(
        RecallRequest(
            question=query,
            user=user,
            now=engine.now(),
            among=("values",),
            limit=LIST_CAP,
            observations=0,
            namespace=namespace,
        )
    )
    asked_question = question.read(request.question, numeric=Finder.numeric)
    sought = sought_of(engine, request, asked_question)
    with searchable(engine) as snapshot:
        finder = Finder(engine, snapshot, request, None, asked_question, sought)
        ranked, _ = ordering.ordered(finder, request, asked_question)
    hits = ranked[:LIST_CAP]
    return {hit.passage.subject: round(hit.candidate.match, 6) for hit in hits if hit.passage is not None}


def searched_among(
    engine: ReadingEngine, connection: Connection, finder: Finder, request: RecallRequest, seen: tuple[int, bytes]
) -> int:
    """Return the number of memories, turns and chunks that are searched."""
    filters, number = replace(finder.memories, at=engine.valid), 0
    if "m" in request.letters:
        number += engine.counts.memories(connection, filters, seen)
    if "p" in request.letters:
        with_values = VALUE in request.corpora  # which expire, so that a number counts at one time only
        scope = finder.passages if with_values else replace(finder.passages, now="")
        number += engine.counts.passages(connection, scope, seen)
    return number
