"""Recall: the memories, chunks and turns that answer a question, packed within a budget."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ledger.core.engine import Engine
from ledger.core.reading_engine import ReadingEngine
from ledger.core.snapshot import LIST_CAP, NOWHERE, Snapshot, believed, named
from ledger.core.who import Who
from ledger.domain.errors import LedgerError
from ledger.domain.ids import message_id
from ledger.domain.text import counted, one_of
from ledger.english import question
from ledger.english.question import Question
from ledger.log.reading import read_tip
from ledger.memories.shown import memories_shown
from ledger.memories.state import MemoryState
from ledger.policy.rules import PolicyState
from ledger.projects import answers
from ledger.projects.queries import find as find_project
from ledger.recall import matching, ordering, packs, reopening
from ledger.recall.finding import Finder, RecallHit, of_memory
from ledger.recall.observing import Observing, among_items, observed
from ledger.recall.packs import Item, Pack, Passage, spoken_by
from ledger.recall.request import AMONG_ITEMS, UNITS, RecallRequest, checked, size
from ledger.recall.rubino import RubinoFinder
from ledger.values.rules import labels_of
from projections.core.conditions import Scope
from projections.core.projector import text_indexes
from projections.core.rows import Connection
from projections.core.sqlite import any_waits
from projections.search import passages
from projections.search.passages import MESSAGE, VALUE
from projections.search.passages import PassageRow as PassageRow
from projections.search.ranking import RUBINO, SCORE
from projections.views import conflicts, control, documents, memories, projects, quarantine, sessions, values
from projections.views.memories import MemoryFilter

if TYPE_CHECKING:
    from ledger.vectors.embedding import QueryVector as Sought

CONTEXT_KINDS, CONTEXT_ITEMS = ("project", "env"), 10  # rubino's project context
_VISIBLE = re.compile(r"[^\s\x00-\x1f\x7f]")  # a model returns neighbors even for a question without such a character
SHARED_ITEMS = 50  # memories of general interest in a pack by shares
STATE_ITEMS = 500  # entries of a project's trusted state in a pack by shares
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
        about = named(connection, request.user, "p", request.project)
        scope = searched_in(connection, request.user, request.project, about)
        finder = ranked_by(engine, snapshot, request, scope, asked_question, sought)
        ranked, weak = ordering.ordered(finder, request, asked_question)
        shown = ranked[:RANKED] if request.explain else ranked[: request.limit]
        items = items_of(connection, shown, {request.user: finder.policy})
        observing = Observing(engine, snapshot, request, scope, asked_question)
        if request.observations == AMONG_ITEMS:
            best = max((hit.candidate.words for hit in ranked), default=0.0)
            items = among_items(request, finder, items, best, observing.ranked())[:RANKED]
        searched = searched_among(engine, connection, finder, request, tip)
        warnings = (*matching.warnings(snapshot), *nowhere_warning(about, request.project), *finder.warnings)
        warnings = (*warnings, *held_warning(finder, request, len(ranked)))
        if request.packing == "shares":
            trusted = _trusted_state(connection, request.user, request.project) if not request.metadata else []
            if len(trusted) > STATE_ITEMS:
                warnings = (
                    *warnings,
                    f"the project has {len(trusted):,} entries of trusted state; only {STATE_ITEMS} are considered",
                )
            trusted = trusted[:STATE_ITEMS]
            unasked = _unasked(finder, snapshot, request, scope, items)
            pack = packs.shared(request, trusted, items, unasked, searched, warnings)
        else:
            pack = packs.packed(request, items, searched, warnings)
        if request.explain:
            pack = packs.with_weak(pack, items_of(connection, weak[: RANKED - len(items)]))
        if request.observations == AMONG_ITEMS:
            pack = replace(pack, warnings=(*pack.warnings, *observing.warnings))
        else:
            pack = with_observations(request, observing, pack)
    return replace(pack, seen=tip[0]), about if about != NOWHERE else None


def held_warning(finder: Finder, request: RecallRequest, found: int) -> tuple[str, ...]:
    """Return a warning about matching texts in quarantine if fewer texts were found than the request asks for."""
    if found >= request.limit or not (held := finder.held()):
        return ()
    return (f"{counted(held, 'text')} with words of the question left out, in quarantine: see guards.quarantined()",)


def with_observations(request: RecallRequest, observing: Observing, pack: Pack) -> Pack:
    """Return the pack with the observations that stand beside its items."""
    supported = observing.ranked(lambda: packs.contents_of(pack))
    pack = replace(pack, warnings=(*pack.warnings, *observing.warnings))
    if not supported:
        return pack
    return packs.with_observations(
        request, pack, [observed(observation, rank) for rank, observation in enumerate(supported, 1)]
    )


def sought_of(engine: ReadingEngine, request: RecallRequest, asked_question: Question) -> Sought | None:
    """Return the question as a vector, or None without an embedder.

    Names of speakers are left out, because a name says whose turn is meant and nothing about the topic.
    """
    if engine.vectors is None or not request.limit or not _VISIBLE.search(request.question):
        return None
    whole = request.question[: question.READ_CHARS]
    if "turns" not in request.among:
        return engine.vectors.ask(whole, request.user, request.letters)
    with engine.reading() as connection:
        names = passages.speakers(connection, asked_question, request.user)
    text = " ".join(word for word in asked_question.words if word not in names) if names else whole
    return engine.vectors.ask(text or whole, request.user, request.letters)


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
            engine.writer.index_waiting()


# --- items ---------------------------------------------------------------------------------------------------


def items_of(
    connection: Connection, hits: Sequence[RecallHit], policies: Mapping[str, PolicyState] | None = None
) -> list[Item]:
    """Return hits as items; ``policies`` are those, by user, that were read on the same snapshot."""
    shown = memories_shown(connection, [hit.memory for hit in hits if hit.memory is not None], policies)
    options = {memory.id: memory for memory in shown}
    disputed = conflicts.open_among(connection, options)
    rows = [hit.passage for hit in hits if hit.passage is not None]
    names = projects.names(connection, {name for row in rows for name in (row.project, row.session)})
    above: dict[int, tuple[str | None, tuple[str, ...], dict[str, object]]] = {}
    above |= documents.places(connection, [row.position for row in rows if row.corpus == "chunk"])
    above |= _keys(connection, [row for row in rows if row.corpus == VALUE])
    roles = sessions.roles(connection, {row.position for row in rows if row.corpus == MESSAGE})
    items = []
    for rank, hit in enumerate(hits, 1):
        memory = options[hit.memory.id] if hit.memory is not None else None
        passage = _passage(hit.passage, names, above, roles) if hit.passage is not None else None
        items.append(
            Item(
                rank=rank,
                score=round(hit.candidate.score, 6),
                match=round(hit.candidate.match, 6),
                source=hit.passage.corpus if hit.passage is not None else hit.candidate.corpus,
                id=memory.id if memory is not None else passage.id if passage is not None else "",
                content=memory.content if memory is not None else passage.content if passage is not None else None,
                signals={name: round(value, 6) for name, value in hit.candidate.signals.items()},
                memory=memory,
                passage=passage,
                conflicts=disputed.get(memory.id, ()) if memory is not None else (),
            )
        )
    return items


def _keys(
    connection: Connection, rows: Sequence[PassageRow]
) -> dict[int, tuple[None, tuple[str, ...], dict[str, object]]]:
    """Return the labels and the key of the value of each passage, by the position of the passage."""
    states = values.by_row(connection, {row.subject for row in rows})
    return {
        row.position: (None, (*labels_of(state.place), state.name), {})
        for row in rows
        if (state := states.get(row.subject)) is not None and state.place is not None and state.name is not None
    }


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


def _trusted_state(connection: Connection, owner: str, project: str | None) -> list[Item]:
    state = find_project(connection, owner, project) if project is not None else None
    if state is None:
        return []
    names = answers.StateEntry.__struct_fields__
    rows = projects.state_history(connection, state.id, None, None)
    entries = [answers.StateEntry(**dict(zip(names, row, strict=True))) for row in rows]
    keys = {entry.position: (entry.category, entry.key) for entry in state.state}
    held = {keys[at] for at in quarantine.among(connection, keys)}
    return [
        packs.of_state(state.id, entry)
        for entry in entries
        if entry.to_position is None and (entry.category, entry.name) not in held
    ]


def _unasked(
    finder: Finder, snapshot: Snapshot, request: RecallRequest, scope: Scope, items: Sequence[Item]
) -> list[Item]:
    """Return memories that a pack by shares has without a match: identity, preferences and the project's memories.

    The memories with the highest confidence come first.
    """
    if "memories" not in request.among:
        return []
    connection, matches = snapshot.connection, list[MemoryState]()
    known = {item.id for item in items}
    filters = MemoryFilter(
        user=request.user,
        statuses=("active",),
        kinds=request.kinds,
        metadata=request.metadata,
        valid=snapshot.valid or request.now,
    )
    if kinds := [kind for kind in packs.PROFILE_KINDS if kind in (request.kinds or packs.PROFILE_KINDS)]:
        matches += memories.listing(connection, replace(filters, kinds=kinds, projects=scope), limit=SHARED_ITEMS)
    if request.project is not None and isinstance(scope, list):
        matches += memories.listing(connection, replace(filters, projects=scope[1:]), limit=SHARED_ITEMS)
    states = sorted(
        (memory for memory in {memory.id: memory for memory in matches}.values() if memory.id not in known), key=_belief
    )
    policy = control.policy(connection, request.user)
    unasked = [of_memory(state, policy, request.now) for state in states]
    finder.set_shares(unasked)
    for hit in unasked:
        hit.candidate.signals = {"unasked": 1.0}
    return items_of(connection, unasked)


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


# --- the user's profile, and a project's context ---------------------------------------------------------------------


def user_profile(engine: ReadingEngine, user: str, *, kinds: Sequence[str], budget: int, unit: str) -> Pack:
    """Return the active memories of some kinds, newest first, within a budget."""
    return _newest(engine, user, kinds, None, LIST_CAP, size("budget", budget), unit)


def project_context(
    engine: ReadingEngine, user: str, project: str | None, *, budget: int | None = None, unit: str = "chars"
) -> Pack:
    """Return a project's trusted state, then the ten newest memories of the kinds project and env of it or of no project."""
    return _newest(engine, user, CONTEXT_KINDS, project or "", CONTEXT_ITEMS, size("budget", budget), unit)


def _newest(
    engine: ReadingEngine,
    owner: str,
    kinds: Sequence[str],
    project: str | None,
    limit: int,
    budget: int | None,
    unit: str = "chars",
) -> Pack:
    one_of("unit", unit, tuple(UNITS))
    now = engine.now()
    with engine.reading() as connection:
        about = named(connection, owner, "p", project)
        trusted = _trusted_state(connection, owner, project)
        filters = MemoryFilter(
            user=owner,
            statuses=believed(engine.valid, ("active",)),
            kinds=kinds,
            projects=searched_in(connection, owner, project, about),
            valid=engine.valid or now,
        )
        matches = memories.listing(connection, filters, limit=limit)
        policy = control.policy(connection, owner)
        items = items_of(connection, [of_memory(memory, policy, now) for memory in matches])
    ranked = [replace(item, rank=rank) for rank, item in enumerate((*trusted, *items), 1)]
    return packs.with_long(ranked, budget, unit, nowhere_warning(about, project))


def searched_in(connection: Connection, user: str, project: str | None, about: str | None) -> Scope:
    """Return the scope of a pack: a named project and no project, no project (""), or all projects that are not archived."""
    if project is None:
        return projects.archived(connection, user)
    return [None, *projects.together(connection, about)]


def nowhere_warning(about: str | None, project: str | None) -> tuple[str, ...]:
    """Return a warning if the user has no project of this name."""
    return (
        (f"this user has no project {project!r:.60}: only texts without a project are considered",)
        if about == NOWHERE
        else ()
    )


def _belief(state: MemoryState) -> tuple[int, int]:
    return (-state.confidence, -state.row)


def _passage(
    row: PassageRow,
    names: dict[str, str],
    above: dict[int, tuple[str | None, tuple[str, ...], dict[str, object]]],
    roles: dict[int, str],
) -> Passage:
    document, heading_path, metadata = above.get(row.position, (None, (), {}))
    return Passage(
        id=row.id,
        field=row.field,
        start=row.start,
        end=row.until,
        content=row.text,
        user=row.user,
        project=names.get(row.project, row.project) if row.project else None,
        session=names.get(row.session, row.session) if row.session else None,
        occurred_at=row.time,
        position=row.position,
        document=document,
        heading_path=heading_path,
        speaker=spoken_by(row.corpus, row.field, roles.get(row.position, ""), row.speaker or "", row.text),
        message=message_id(row.id, row.position) if row.corpus == MESSAGE else None,
        metadata=metadata,
    )
