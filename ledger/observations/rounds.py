"""The rounds of a consolidation by rules: the new sources, the texts with which they are compared, and the appends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field

from ledger.core.call import Who
from ledger.core.engine import Engine
from ledger.core.reads import event_data, find_row, load, text_of, texts_at
from ledger.core.work import Work
from ledger.domain.ids import message_place
from ledger.domain.passages import ASSISTANTS, PEOPLE, speaker
from ledger.english import question
from ledger.events import LEDGER_STREAM, ConsolidationCompleted, ConsolidationFailed
from ledger.extraction.lines import own_texts
from ledger.interactions.rules import InteractionState
from ledger.log.reading import read_tip
from ledger.observations import policy as consolidation
from ledger.observations.answers import Consolidated, ConsolidationReport
from ledger.observations.grouping import GROUPING, sentences
from ledger.observations.policy import (
    BY_HAND,
    COUNTED,
    USER,
    ConsolidationPlanner,
    ConsolidationStep,
    ScopeMaterial,
    SourcePiece,
)
from ledger.observations.rules import ReviseObservation
from ledger.sessions.rules.message import whole_parts
from projections.core.rows import Connection
from projections.search import memory_hits as search
from projections.search.text_hits import matching
from projections.views import consolidations, observations
from projections.views.consolidations import PersonMessage, Scope, Sourced

Progress = Callable[[int, int], None]

MEMORIES, INTERACTIONS, MESSAGES, ASKED = "memories", "interactions", "messages", "asked"
PAGE = 200  # the most new sources of one append
ROUNDS = 8  # the most rounds of a run; a second round is needed only if another writer changed the sources meanwhile
WHOLE, TIMES = 2_000, 25  # a scope is read whole if it has at most 2,000 memories, or 25 for each new source
NEAREST, WORDED = 48, 16  # the most memories and observations that are read for each new source of a larger scope
TURNS = 2_000  # the most older turns, and the most older messages, with which new ones are compared
ACTIONS = 1_000  # the most actions listed in a report


class ConsolidationRun(Struct):
    """A run of a consolidation: the request, and the results so far."""

    over: str
    scope: Scope
    asker: Who
    project: str | None = None  # the project's name as the caller wrote it
    asked: tuple[str, ...] = ()  # the ids of the sources that the caller named
    consolidator: str = GROUPING
    limit: int | None = None
    least: int = 1  # a model is asked only if so many sources and stale observations wait
    dry_run: bool = False
    progress: Progress | None = None
    counts: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    actions: list[Consolidated] = field(default_factory=list)
    sources: int = 0
    left: int = 0
    calls: int = 0
    again: set[str] = field(default_factory=set)  # by rules: sources to plan again; by a model: sources of past calls
    worded: set[str] = field(default_factory=set)  # stale observations that a model was asked about
    only: frozenset[int] | None = None  # the rows of the observations to reword; None for an ordinary run
    position: int = 0
    looks: bool = False  # True to record the progress even if no source was new
    stop: Callable[[], bool] = lambda: False  # returns True to end the run; called only while new sources remain

    @property
    def full(self) -> bool:
        return self.limit is not None and self.sources >= self.limit

    def count_step(self, outcome: str, id: str | None, text: str = "", sources: Iterable[str] = ()) -> None:
        """Count a step by its outcome, and list the step if it was taken."""
        (self.counts if outcome in COUNTED else self.skipped)[outcome] += 1
        if outcome in COUNTED and len(self.actions) < ACTIONS:
            self.actions.append(Consolidated(what=outcome, id=id, content=text, sources=tuple(dict.fromkeys(sources))))

    def report(self) -> ConsolidationReport:
        return ConsolidationReport(
            consolidator=self.consolidator,
            over=self.over,
            project=self.project,
            tags=self.scope.tags,
            sources=self.sources,
            formed=self.counts["formed"],
            revised=self.counts["revised"],
            retracted=self.counts["retracted"],
            refreshed=self.counts["refreshed"],
            skipped=dict(sorted(self.skipped.items())),
            left=self.left,
            calls=self.calls,
            actions=tuple(self.actions),
            position=self.position,
            dry_run=self.dry_run,
        )


class News(Struct):
    """The new sources of a scope in a snapshot at the position ``head``; earlier runs read the scope up to ``after``."""

    head: int
    after: int
    pieces: list[SourcePiece]
    observations: list[Sourced]  # the stale observations


# --- by rules ----------------------------------------------------------------------------------------------------


def by_rules(engine: Engine, run: ConsolidationRun) -> None:
    """Consolidate by rules, in rounds, until no source has to be planned again."""
    for _ in range(ROUNDS):
        if not _round(engine, run):
            return
    run.skipped["interrupted"] += 1


def _round(engine: Engine, run: ConsolidationRun) -> bool:
    """Go through the new sources once; return True if another round is needed."""
    again, run.again = run.again, set()
    with engine.reading() as connection:
        news = news_of(connection, run, again)
        run.position = news.head
        if not news.pieces and not news.observations:
            append(engine, run, news, [], [], news.head, 0)
            return False
        material = _material(engine, connection, run, news)
    planner = ConsolidationPlanner(material, news.pieces)
    done, first = 0, planner.stale
    for page, upto in _pages(news, run):
        steps, first = [*first, *planner.page(page)], []
        count = len({piece.id for piece in page})
        if not append(engine, run, news, steps, page, upto, count):
            return True
        done += len(page)
        run.sources += count
        if run.progress is not None:
            run.progress(done, len(news.pieces))
        if run.full or (done < len(news.pieces) and run.stop()):
            run.left = len({piece.id for piece in news.pieces[done:]})
            return False
    return bool(run.again) and not run.dry_run


def append(
    engine: Engine,
    run: ConsolidationRun,
    news: News,
    steps: Sequence[ConsolidationStep],
    page: Sequence[SourcePiece],
    upto: int,
    count: int,
) -> bool:
    """Record the steps of a page and count them in the run; return False if another run has read the same sources."""
    if not page and not steps and not run.looks:
        return True
    if run.dry_run:
        for step in steps:
            sources = (piece.id for piece in step.pieces)
            run.count_step(step.counts, step.seen.id if step.seen else None, _text(step), sources)
        return True
    results: list[tuple[str, str]] = []
    done: list[ConsolidationCompleted] = []

    def body(work: Work) -> str:
        if overtaken(work, run, news.after):
            return LEDGER_STREAM
        work.project = run.scope.project
        results[:] = consolidation.record(work, run.scope, steps)
        outcomes = [outcome for outcome, _ in results]
        skipped = Counter(outcome for outcome in outcomes if outcome not in COUNTED)
        done[:] = [completed(run, upto, count, outcomes, dict(sorted(skipped.items())))]
        if run.over != ASKED or work.emitted:
            work.emit(LEDGER_STREAM, done[0])
        return LEDGER_STREAM

    outcome = engine.writer.run("consolidate", run.asker, body)
    if not done:
        return False
    run.looks = False
    news.after = upto
    run.position = max(run.position, outcome.position)
    _regroup(engine, run, steps, results)
    return True


def overtaken(work: Work, run: ConsolidationRun, after: int) -> bool:
    """Return True if another run has read the same sources meanwhile."""
    return run.over != ASKED and cursor(work.connection(), run) != after


def _regroup(
    engine: Engine, run: ConsolidationRun, steps: Sequence[ConsolidationStep], results: Sequence[tuple[str, str]]
) -> None:
    """Count the steps, let sources of the next page join the formed observations, and note the sources to plan again."""
    formed = {subject for outcome, subject in results if outcome == "formed"}
    with engine.reading() as connection:
        rows = {id: find_row(connection, id, "o", run.scope.user) for id in formed}
        states = {id: observations.get(connection, row) for id, row in rows.items() if row is not None}
    for step, (outcome, subject) in zip(steps, results, strict=True):
        run.count_step(outcome, subject or None, _text(step), (piece.id for piece in step.pieces))
        if outcome == "formed" and step.group is not None:
            step.group.seen, step.group.alone = states.get(subject), None
        elif outcome == consolidation.CHANGED:
            run.again.update(piece.id for piece in (step.evidence or step.pieces))


# --- new sources -------------------------------------------------------------------------------------------------


def news_of(connection: Connection, run: ConsolidationRun, again: set[str]) -> News:
    """Return the new sources of a run and the stale observations; the sources in ``again`` count as new."""
    head, after = read_tip(connection.cursor())[0], cursor(connection, run)
    if run.only is not None:
        known = consolidations.sourced(connection, run.scope, sorted(run.only))
        return News(after, after, [], [sourced for sourced in known if sourced.stale and sourced.live])
    if run.over == INTERACTIONS:
        new = _pieces_of_turns(connection, consolidations.turns(connection, run.scope, after=after))
    elif run.over == MESSAGES:
        new = _pieces_of_messages(connection, consolidations.messages(connection, run.scope, after=after))
    elif run.over == ASKED:
        new = _pieces_named(connection, run)
    else:
        fresh = consolidations.live_memories(connection, run.scope, after=after)
        new = [_piece(memory) for memory in fresh if not consolidations.was_the_same_before(connection, memory, after)]
    if again:
        new = _with_repeated(connection, run, new, again)
    rows = {*consolidations.marked(connection, run.scope)}
    rows |= consolidations.without_wording_source(connection, run.scope)
    known = consolidations.sourced(connection, run.scope, sorted(rows)) if rows else []
    stale = [sourced for sourced in known if sourced.stale and sourced.live and sourced.state.consolidator != BY_HAND]
    return News(head, after, new, stale)


def _with_repeated(
    connection: Connection, run: ConsolidationRun, new: list[SourcePiece], again: set[str]
) -> list[SourcePiece]:
    """Return the pieces of the sources that have to be planned again, followed by the new pieces."""
    known = {piece.id for piece in new}
    messages = _messages_among(connection, run, sorted(again - known))
    rows = [
        row for id in sorted(again - known) if id[0] != "s" and (row := find_row(connection, id, id[0], run.scope.user))
    ]
    if run.over == INTERACTIONS:
        turns = [turn for turn in consolidations.turns(connection, run.scope) if turn.id in again - known]
        return [*_pieces_of_turns(connection, turns), *new]
    return [*map(_piece, consolidations.memories_of(connection, run.scope, rows)), *messages, *new]


def _pieces_named(connection: Connection, run: ConsolidationRun) -> list[SourcePiece]:
    """Return the pieces of the sources that the caller named by their ids."""
    rows = {
        kind: [find_row(connection, id, kind, run.scope.user) or 0 for id in run.asked if id[0] == kind]
        for kind in "mi"
    }
    pieces = [_piece(memory) for memory in consolidations.memories_of(connection, run.scope, rows["m"])]
    turns = [turn for turn in consolidations.turns(connection, run.scope) if turn.id in run.asked] if rows["i"] else []
    return [*pieces, *_pieces_of_turns(connection, turns), *_messages_among(connection, run, run.asked)]


def _messages_among(connection: Connection, run: ConsolidationRun, sources: Iterable[str]) -> list[SourcePiece]:
    rows = [place[1] for id in sources if (place := message_place(id)) is not None]
    return _pieces_of_messages(connection, consolidations.messages(connection, run.scope, among=rows)) if rows else []


def _pieces_of_messages(connection: Connection, messages: Iterable[PersonMessage]) -> list[SourcePiece]:
    """Return the sentences of these messages; an assistant's sentences are left out, because they are no evidence."""
    pieces: list[SourcePiece] = []
    for message in messages:
        named, spoken = words_of_message(connection, message.row)
        name, spoken = (named, spoken) if named else speaker(spoken)
        name = USER if not name or name.lower() in PEOPLE else name
        if name.lower() not in ASSISTANTS:
            pieces += [
                SourcePiece(message.id, message.row, message.position, message.at, sentence, (), name, part)
                for part, sentence in enumerate(sentences(spoken)[:200])
            ]
    return sorted(pieces, key=lambda piece: (piece.position, piece.order))


def words_of_message(connection: Connection, row: int) -> tuple[str, str]:
    """Return the name of a message's speaker ("" if none is known) and the text."""
    data = event_data(connection, row)
    content = text_of(connection, data.content)
    return data.speaker or "", own_texts(content, whole_parts(data.parts, content, data.content_of), data.content_of)


def _pieces_of_turns(connection: Connection, turns: Iterable[InteractionState]) -> list[SourcePiece]:
    """Return the sentences of these turns; an assistant's sentences are left out, because they are no evidence."""
    pieces: list[SourcePiece] = []
    for state in turns:
        prompt = text_of(connection, event_data(connection, state.prompt_at).prompt)
        answer = texts_at(connection, state.response_at, "response")["response"]
        parts: list[tuple[str, str]] = []
        for text, unnamed in ((prompt, USER), (answer, "")):
            name, spoken = speaker(text or "")
            name = USER if name.lower() in PEOPLE else name or unnamed
            if text and name and name.lower() not in ASSISTANTS:
                parts += [(name, sentence) for sentence in sentences(spoken)]
        position = max(state.row, state.response_at or 0)
        pieces += [
            SourcePiece(state.id, state.row, position, state.time, text, (), name, part)
            for part, (name, text) in enumerate(parts[:200])
        ]
    return sorted(pieces, key=lambda piece: (piece.position, piece.order))


# --- known material ----------------------------------------------------------------------------------------------


def _material(engine: Engine, connection: Connection, run: ConsolidationRun, news: News) -> ScopeMaterial:
    """Return the texts with which the new sources are compared.

    A small scope is read whole. Of a large scope only memories and observations are read that share words with the new sources.
    Turns and messages are compared with the newest 2,000 of each.
    """
    scope, aside = run.scope, consolidations.put_aside(connection, run.scope)
    if run.only is not None:
        return _of_observations(connection, run, news, aside)
    if run.over in (INTERACTIONS, MESSAGES) or any(piece.id[0] in "is" for piece in news.pieces):
        most = TURNS + len({piece.id for piece in news.pieces})
        known = _pieces_of_turns(connection, consolidations.turns(connection, scope, limit=most))
        known += _pieces_of_messages(connection, consolidations.messages(connection, scope, limit=most))
    elif consolidations.size(connection, scope) <= max(WHOLE, TIMES * len(news.pieces)):
        known = list(map(_piece, consolidations.live_memories(connection, scope)))
    else:
        return _with_common_words(engine, connection, run, news, aside)
    return ScopeMaterial(consolidations.sourced(connection, scope), _by_source(known, news.pieces), aside)


def _of_observations(connection: Connection, run: ConsolidationRun, news: News, aside: set[str]) -> ScopeMaterial:
    """Return only the stale observations and the texts of their live sources."""
    sources = sorted({proof.source for observation in news.observations for proof in observation.live})
    rows = [find_row(connection, id, "m", run.scope.user) or 0 for id in sources if id.startswith("m_")]
    known = list(map(_piece, consolidations.memories_of(connection, run.scope, rows)))
    turns = [load(connection, id, "i", run.scope.user) for id in sources if id.startswith("i_")]
    known += _pieces_of_turns(connection, [turn for turn in turns if turn is not None])
    known += _messages_among(connection, run, sources)
    return ScopeMaterial(news.observations, _by_source(known, []), aside)


def _with_common_words(
    engine: Engine, connection: Connection, run: ConsolidationRun, news: News, aside: set[str]
) -> ScopeMaterial:
    """Return the memories and observations of a large scope that share words with the new sources."""
    scope, rows, worded = run.scope, set[int](), {observation.state.row for observation in news.observations}
    filters = search.MemoryScope(scope.user, None, [scope.project])
    for piece in news.pieces:
        words = question.read(piece.text)
        if words.concepts:
            rows.update(_rows_with_words(engine, connection, words, filters))
            worded.update(observations_with_words(engine, connection, words, scope))
    matches = consolidations.memories_of(connection, scope, sorted(rows))
    worded |= consolidations.citing(connection, [memory.id for memory in matches])
    worded |= consolidations.citing(connection, [piece.id for piece in news.pieces])
    sourced = consolidations.sourced(connection, scope, sorted(worded))
    sources = {proof.source for observation in sourced for proof in observation.proofs} - {
        memory.id for memory in matches
    }
    more = [find_row(connection, id, "m", scope.user) or 0 for id in sorted(sources) if id.startswith("m_")]
    known = {memory.id: memory for memory in (*matches, *consolidations.memories_of(connection, scope, more))}
    return ScopeMaterial(sourced, _by_source(map(_piece, known.values()), news.pieces), aside)


def _rows_with_words(
    engine: Engine, connection: Connection, words: question.Question, filters: search.MemoryScope
) -> set[int]:
    schema = engine.schema
    for expression in engine.rarity.seen(connection, search.SEARCH, schema).expressions(words):
        matches = search.matching(connection, expression, filters, limit=NEAREST, schema=schema, enough=NEAREST // 2)
        if rows := {state.row for state, _ in matches}:
            return rows
    return set()


def observations_with_words(
    engine: Engine, connection: Connection, words: question.Question, scope: Scope, limit: int = WORDED
) -> list[int]:
    """Return the rows of the active observations of a scope that share words with a text, best match first."""
    schema, source = engine.schema, observations.SOURCE
    condition = "m.user = ? AND m.project IS ? AND m.status = 'active' AND coalesce(m.tags, '[]') = ?"
    values = (scope.user, scope.project, consolidations.encoded_tags(scope.tags))
    for expression in engine.rarity.seen(connection, source.index, schema).expressions(words):
        query = (expression, (condition, values), lambda row: row[0])
        matches = matching(connection, source, *query, limit=limit, schema=schema, enough=limit // 2)
        if rows := [row for row, _ in matches]:
            return rows
    return []


# --- pieces and pages ------------------------------------------------------------------------------------------------


def _piece(memory: consolidations.LiveMemory) -> SourcePiece:
    return SourcePiece(memory.id, memory.row, memory.position, memory.at, memory.content, memory.entities)


def _by_source(known: Iterable[SourcePiece], new: Sequence[SourcePiece]) -> dict[str, list[SourcePiece]]:
    """Return the pieces by the id of their source; a new piece stays the same object, because plans compare identities."""
    by_source: dict[str, list[SourcePiece]] = {}
    for piece in new:
        by_source.setdefault(piece.id, []).append(piece)
    fresh = set(by_source)
    for piece in known:
        if piece.id not in fresh:
            by_source.setdefault(piece.id, []).append(piece)
    return by_source


def _pages(news: News, run: ConsolidationRun) -> Iterable[tuple[list[SourcePiece], int]]:
    """Yield the new pieces in pages of 200 sources, each with the log position up to which the scope then is read.

    Pieces of one position stay on one page, because the next run begins after a position.
    """
    pieces, at = news.pieces, 0
    most = len(pieces) if run.dry_run else PAGE
    while at < len(pieces) or not at:
        end, sources = at, set[str]()
        room = most if run.limit is None else min(most, max(1, run.limit - run.sources))
        while end < len(pieces) and (
            len(sources) < room or pieces[end].id in sources or pieces[end].position == pieces[end - 1].position
        ):
            sources.add(pieces[end].id)
            end += 1
        upto = news.head if end == len(pieces) else pieces[end - 1].position
        yield pieces[at:end], max(upto, news.after)
        if end == len(pieces):
            return
        at = end


def emit_failed_run(work: Work, run: ConsolidationRun, upto: int, error: str) -> None:
    work.project = run.scope.project
    work.emit(LEDGER_STREAM, ConsolidationFailed(run.consolidator, run.over, upto, error, run.scope.tags))


def completed(
    run: ConsolidationRun, upto: int, sources: int, outcomes: Iterable[str], skipped: dict[str, int]
) -> ConsolidationCompleted:
    counts = Counter(outcomes)
    return ConsolidationCompleted(
        consolidator=run.consolidator,
        over=run.over,
        to=upto,
        sources=sources,
        **{outcome: counts[outcome] for outcome in COUNTED},
        skipped=skipped,
        tags=run.scope.tags,
    )


def _text(step: ConsolidationStep) -> str:
    """Return the new wording of a step; "" if the wording stays."""
    if step.counts == "formed":
        return step.pieces[0].words
    return next((command.text for command in step.commands if isinstance(command, ReviseObservation)), "")


def cursor(connection: Connection, run: ConsolidationRun) -> int:
    """Return the log position up to which earlier runs have read the scope; 0 if the caller named the sources."""
    if run.over == ASKED:
        return 0
    scope = run.scope
    return observations.looked_at(connection, scope.user, scope.project, run.over, run.consolidator, scope.tags)
