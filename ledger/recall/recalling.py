"""Recall: the memories, chunks and turns that answer a question, packed within a budget."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from msgspec.structs import replace

from ledger import answers
from ledger.domain import question
from ledger.domain.errors import LedgerError
from ledger.domain.memory import Memory
from ledger.domain.metadata import NO_PAIRS, Pairs
from ledger.domain.question import Question
from ledger.domain.text import check_text, one_of
from ledger.engine.engine import Engine
from ledger.engine.snapshot import LIST_CAP, NOWHERE, Snapshot, believed, named
from ledger.engine.who import Who
from ledger.memories.queries import memories_shown
from ledger.projects.queries import find as find_project
from ledger.recall import fitting, ordering, packing, reopening
from ledger.recall.asked import UNITS, Asked, checked, size
from ledger.recall.finding import Finder, Found, Scope, of_memory
from ledger.recall.observing import Observing, observed
from ledger.recall.packs import Item, Pack, Passage, spoken_by
from ledger.store.reading import read_tip
from ledger.vectors.embedding import Asked as Sought
from projections.core.projector import text_indexes
from projections.core.rows import Connection
from projections.core.sqlite import any_waits
from projections.search import passages
from projections.search.passages import MESSAGE
from projections.search.passages import Passage as PassageRow
from projections.search.ranking import SCORE
from projections.views import conflicts, control, documents, memories, projects, quarantine, sessions

PROFILE_KINDS, PROFILE_CHARS = ("user_profile", "identity", "preference"), 1375  # rubino's limit (SEEDS 2b)
CONTEXT_KINDS, CONTEXT_ITEMS = ("project", "env"), 10  # rubino's project context (SEEDS 2b)
_VISIBLE = re.compile(r"[^\s\x00-\x1f\x7f]")  # a model finds something near to nothing, too
SHARED_ITEMS = 50  # of what a pack by shares holds whether or not it answers the question
STATE_ITEMS = 500  # of a project's trusted state in a pack by shares
OBSERVATIONS = 3  # besides the items of a pack, unless told otherwise
_TEXT_INDEXES = [index for _, index in text_indexes()]
RANKED = 1_000  # candidates that are listed at the most: with the others no more than a receipt can hold (2,000)


def recall(
    engine: Engine,
    user: str,
    query: str,
    *,
    project: str | None = None,
    kinds: str | Iterable[str] = (),
    among: str | Iterable[str] = ("memories", "chunks"),
    status: str | Iterable[str] = "active",
    k: int = 20,
    budget: int | None = None,
    unit: str = "chars",
    packing: str = "greedy",
    ranking: str = SCORE,
    explain: bool = False,
    receipt: Who | None = None,
    observations: int = OBSERVATIONS,
    metadata: Pairs = NO_PAIRS,
    min_match: float | None = None,
) -> Pack:
    """What answers a question, best first: at most ``k`` entries (up to 500) within ``budget``, counted in ``unit``
    (chars or tokens).

    Searched ``among`` active memories that hold now and the chunks of documents, unless "turns" (what was captured,
    and the messages of sessions that are not hidden) is named too, or "all"; with ``kinds`` memories of these only, and
    ``status`` finds hidden ones too, candidates never. With a project: what is of it or of none; without, or with "": all
    of the user's. ``packing`` is "greedy" (what does not fit is passed over), "prefix" (up to the
    first that does not fit) or "shares" (ATOCore's: trusted state, identity and preference, project, the rest).
    ``ranking`` is "score/3" (words and, where there are any, vectors in one score) or "rubino/1" (reciprocal ranks).
    ``explain`` lists the candidates that were ranked (up to 1,000), with their signals.
    Nothing is written but, where it is asked for, a ``receipt``: what was given, for ``reopen()``.

    At most so many ``observations`` (up to 50, 0 for none) stand next to the items in a list of their own: fresh ones,
    worded from live sources only, of the same user and project, by words x confidence + 0.025 for each source beyond the
    first (at most 0.1). They take what the items leave of the budget, at most a fifth of it, and what repeats an item is
    left out. With ``kinds``, ``metadata``, or a ``status`` that is not active, there are none.
    """
    asked = checked(
        query=query,
        user=user,
        project=project,
        kinds=kinds,
        among=among,
        status=status,
        k=k,
        budget=budget,
        unit=unit,
        packing=packing,
        ranking=ranking,
        explain=explain,
        now=engine.writer.now(),
        observations=observations,
        metadata=metadata,
        min_match=min_match,
    )
    pack, about = packed(engine, asked)
    return replace(pack, receipt=reopening.recorded(engine, asked, about, pack, receipt)) if receipt else pack


def packed(engine: Engine, asked: Asked) -> tuple[Pack, str | None]:
    """The pack, and the id of the project that it is about."""
    asking = question.read(asked.query, numeric=asked.scored)
    sought = sought_of(engine, asked, asking)
    with searchable(engine) as snapshot:
        connection = snapshot.connection
        tip = read_tip(connection.cursor())
        about = named(connection, asked.user, "p", asked.project)
        scope = None if asked.project is None else [None, *projects.together(connection, about)]
        finder = Finder(engine, snapshot, asked, scope, asking, sought)
        ranked, weak = ordering.ordered(finder, asked, asking)
        items = items_of(connection, ranked[:RANKED] if asked.explain else ranked[: asked.k])
        searched = searched_among(engine, connection, finder, asked, tip)
        warnings = (*snapshot.warnings, *nowhere_warning(about, asked.project), *finder.warnings)
        if asked.packing == "shares":
            trusted = _trusted_state(connection, asked.user, asked.project) if not asked.metadata else []
            if len(trusted) > STATE_ITEMS:
                warnings = (
                    *warnings,
                    f"of {len(trusted):,} entries of the project's state {STATE_ITEMS} are looked at",
                )
            trusted = trusted[:STATE_ITEMS]
            unasked = _unasked(finder, snapshot, asked, scope, items)
            pack = packing.shared(asked, trusted, items, unasked, searched, warnings)
        else:
            pack = packing.packed(asked, items, searched, warnings)
        if asked.explain:
            pack = packing.with_weak(pack, items_of(connection, weak[: RANKED - len(items)]))
        pack = with_observations(asked, Observing(engine, snapshot, asked, scope, asking), pack)
    return replace(pack, seen=tip[0]), about if about != NOWHERE else None


def with_observations(asked: Asked, observing: Observing, pack: Pack) -> Pack:
    """The pack with the observations that stand next to its items."""
    found = observing.ranked(lambda: packing.contents_of(pack))
    pack = replace(pack, warnings=(*pack.warnings, *observing.warnings))
    if not found:
        return pack
    return packing.with_observations(asked, pack, [observed(each, rank) for rank, each in enumerate(found, 1)])


def sought_of(engine: Engine, asked: Asked, asking: Question) -> Sought | None:
    """The question as a vector, without the names of who speaks: they say whose turn is meant, not what about."""
    if engine.vectors is None or not asked.k or not _VISIBLE.search(asked.query):
        return None
    whole = asked.query[: question.READ_CHARS]
    if "turns" not in asked.among:
        return engine.vectors.ask(whole, asked.user, asked.letters)
    with engine.reading() as connection:
        names = passages.speakers(connection, asking, asked.user)
    text = " ".join(word for word in asking.words if word not in names) if names else whole
    return engine.vectors.ask(text or whole, asked.user, asked.letters)


@contextmanager
def searchable(engine: Engine) -> Iterator[Snapshot]:
    """A snapshot whose indexes have taken in what waited for them; mostly nothing does, and it is the first."""
    with engine.snapshot() as snapshot:
        if engine.is_past or not (engine.store.is_own or any_waits(snapshot.connection, _TEXT_INDEXES)):
            yield snapshot
            return
    index_texts(engine)
    with engine.snapshot() as snapshot:
        yield snapshot


def index_texts(engine: Engine) -> None:
    """Lets the indexes take what waits for them; where somebody is writing, or nobody can, those few are searched apart."""
    if engine.is_past:
        return
    with engine.reading(stale=True) as connection:
        late = any_waits(connection, _TEXT_INDEXES)
    if (late or engine.store.is_own) and not engine.store.readonly:
        with suppress(LedgerError):
            engine.writer.index_waiting()


# --- items ---------------------------------------------------------------------------------------------------


def items_of(connection: Connection, found: Sequence[Found]) -> list[Item]:
    shown = memories_shown(connection, [each.memory for each in found if each.memory is not None])
    options = {each.id: each for each in shown}
    disputed = conflicts.open_among(connection, options)
    rows = [each.passage for each in found if each.passage is not None]
    names = projects.names(connection, {each for row in rows for each in (row.project, row.session)})
    above = documents.places(connection, [row.position for row in rows if row.corpus == "chunk"])
    roles = sessions.roles(connection, {row.position for row in rows if row.corpus == MESSAGE})
    items = []
    for rank, each in enumerate(found, 1):
        memory = options[each.memory.id] if each.memory is not None else None
        passage = _passage(each.passage, names, above, roles) if each.passage is not None else None
        items.append(
            Item(
                rank=rank,
                score=round(each.candidate.score, 6),
                match=round(each.candidate.match, 6),
                source=each.passage.corpus if each.passage is not None else each.candidate.corpus,
                id=memory.id if memory is not None else passage.id if passage is not None else "",
                content=memory.content if memory is not None else passage.content if passage is not None else None,
                signals={name: round(value, 6) for name, value in each.candidate.signals.items()},
                memory=memory,
                passage=passage,
                conflicts=disputed.get(memory.id, ()) if memory is not None else (),
            )
        )
    return items


def _trusted_state(connection: Connection, owner: str, project: str | None) -> list[Item]:
    """The trusted state of a project."""
    state = find_project(connection, owner, project) if project is not None else None
    if state is None:
        return []
    names = answers.StateEntry.__struct_fields__
    rows = projects.state_history(connection, state.id, None, None)
    entries = [answers.StateEntry(**dict(zip(names, row, strict=True))) for row in rows]
    keys = {each.position: (each.category, each.key) for each in state.state}
    held = {keys[at] for at in quarantine.among(connection, keys)}
    return [
        packing.of_state(state.id, entry)
        for entry in entries
        if entry.to_position is None and (entry.category, entry.name) not in held
    ]


def _unasked(finder: Finder, snapshot: Snapshot, asked: Asked, scope: Scope, items: Sequence[Item]) -> list[Item]:
    """What a pack by shares holds besides: identity and preferences, and the memories of the project; best believed first."""
    if "memories" not in asked.among:
        return []
    connection, found = snapshot.connection, list[Memory]()
    known = {item.id for item in items}
    wanted = {"user": asked.user, "statuses": ("active",), "limit": SHARED_ITEMS, "valid": snapshot.valid or asked.now}
    wanted |= {"metadata": asked.metadata}
    if kinds := [kind for kind in packing.IDENTITY if kind in (asked.kinds or packing.IDENTITY)]:
        found += memories.listing(connection, kinds=kinds, projects=scope, **wanted)  # type: ignore[arg-type]
    if scope:
        found += memories.listing(connection, kinds=asked.kinds, projects=scope[1:], **wanted)  # type: ignore[arg-type]
    states = sorted((each for each in {each.id: each for each in found}.values() if each.id not in known), key=_belief)
    policy = control.policy(connection, asked.user)
    unasked = [of_memory(state, policy, asked.now) for state in states]
    finder.set_shares(unasked)
    for each in unasked:
        each.candidate.signals = {"unasked": 1.0}
    return items_of(connection, unasked)


def searched_among(
    engine: Engine, connection: Connection, finder: Finder, asked: Asked, seen: tuple[int, bytes]
) -> int:
    """Among how many memories, turns and chunks."""
    wanted, number = replace(finder.memories, at=engine.valid), 0
    if "m" in asked.letters:
        number += engine.counts.memories(connection, wanted, seen)
    if "p" in asked.letters:
        number += engine.counts.passages(connection, finder.passages, seen)
    return number


# --- what is always worth knowing ------------------------------------------------------------------------------------


def user_profile(engine: Engine, user: str, *, budget: int = PROFILE_CHARS, unit: str = "chars") -> Pack:
    """What is known of the user: active user_profile, identity and preference memories, newest first, within 1,375
    characters unless told otherwise."""
    return _newest(engine, user, PROFILE_KINDS, None, LIST_CAP, size("budget", budget), unit)


def project_context(engine: Engine, user: str, project: str, *, budget: int | None = None, unit: str = "chars") -> Pack:
    """What is known of a project: its trusted state, then the ten newest memories of the kinds project and env that are of it
    or of no project."""
    check_text("project", project)
    return _newest(engine, user, CONTEXT_KINDS, project, CONTEXT_ITEMS, size("budget", budget), unit)


def _newest(
    engine: Engine,
    owner: str,
    kinds: Sequence[str],
    project: str | None,
    limit: int,
    budget: int | None,
    unit: str = "chars",
) -> Pack:
    one_of("unit", unit, tuple(UNITS))
    now = engine.writer.now()
    with engine.reading() as connection:
        about = named(connection, owner, "p", project)
        scope = (None, *projects.together(connection, about)) if project is not None else None
        trusted = _trusted_state(connection, owner, project)
        found = memories.listing(
            connection,
            user=owner,
            statuses=believed(engine.valid, ("active",)),
            kinds=kinds,
            projects=scope,
            limit=limit,
            valid=engine.valid or now,
        )
        policy = control.policy(connection, owner)
        items = items_of(connection, [of_memory(each, policy, now) for each in found])
    together = [replace(item, rank=rank) for rank, item in enumerate((*trusted, *items), 1)]
    reasons = fitting.greedy(packing.sizes(together, unit), packing.inside(budget, unit))
    return packing.finished(together, reasons, len(together), budget, unit, nowhere_warning(about, project))


def nowhere_warning(about: str | None, project: str | None) -> tuple[str, ...]:
    """What to say where the project that is asked about is none of the user's."""
    return (f"no project of this user is called {project!r:.60}",) if about == NOWHERE else ()


def _belief(state: Memory) -> tuple[int, int]:
    return (-state.confidence, -state.row)


def _passage(
    row: PassageRow, names: dict[str, str], above: dict[int, tuple[str, tuple[str, ...]]], roles: dict[int, str]
) -> Passage:
    document, heading_path = above.get(row.position, (None, ()))
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
    )
