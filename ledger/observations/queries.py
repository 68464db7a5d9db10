"""The queries on observations with the present state of their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ledger.core.engine import ReadingEngine
from ledger.core.reads import (
    NOWHERE,
    Place,
    event_data,
    find_row,
    first_position,
    load,
    read_event,
    read_stream,
    scope_of,
    text_of,
    texts_at,
)
from ledger.domain import confidence as confidence_rules
from ledger.domain import ids
from ledger.domain.errors import NotFoundError
from ledger.events import ObservationFormed, ObservationRevised
from ledger.observations import answers
from ledger.observations.rules import ObservationState
from ledger.sessions.rules.message import readable, whole_parts
from projections.core.rows import Connection, Start
from projections.views import control, documents, observations, projects, quarantine, sessions

UNSUPPORTED = "unsupported"  # the status of an active observation without a live source
_AT_A_TIME = 200  # the number of observations whose evidence one query reads


def observation_answers(
    connection: Connection, states: Sequence[ObservationState], as_of: str
) -> list[answers.Observation]:
    """Return observations with their dated sources, and with their trend at ``as_of`` (a time in its stored form)."""
    proofs = observations.evidence(connection, [state.row for state in states])
    names = projects.names(connection, {state.project for state in states})
    cited = {state.row: {proof.source for proof in proofs[state.row]} for state in states}
    uncited = {source for state in states for source in state.written_from if source not in cited[state.row]}
    elsewhere = observations.live(connection, uncited) if uncited else set()
    held = withheld(connection, states)
    shown = []
    for state in states:
        sources = tuple(
            answers.ObservationSource(id=proof.source, at=proof.at, live=proof.live, withdrawn=proof.withdrawn)
            for proof in proofs[state.row]
        )
        alive = {source.id for source in sources if source.live} | (elsewhere - cited[state.row])
        shown.append(answers.observation(state, names, sources, alive, as_of, quarantined=state.id in held))
    return shown


def withheld(connection: Connection, states: Iterable[ObservationState]) -> set[str]:
    """Return the ids of the observations whose present wording is in quarantine."""
    by_id = {state.id: state for state in states}
    return {
        id
        for id, positions in observations.in_quarantine(connection, by_id).items()
        for event in read_stream(connection, id, by_id[id].position)
        if event.position in positions and event.data.content == by_id[id].text
    }


def listing(
    engine: ReadingEngine,
    user: str,
    *,
    project: str | None,
    tags: Sequence[str],
    trends: Sequence[str],
    statuses: Sequence[str],
    freshness: str | None,
    place: Place,
    limit: int,
) -> list[answers.Observation]:
    """Return observations of a user, from a place on.

    Every filter is applied before the limit. An empty filter accepts all observations.
    """
    stored = tuple(dict.fromkeys("active" if status == UNSUPPORTED else status for status in statuses))
    labels = {tag.strip().lower() for tag in tags}

    def passes_filters(observation: answers.Observation) -> bool:
        if freshness not in (None, observation.freshness) or (statuses and observation.status not in statuses):
            return False
        return labels <= set(observation.tags) and (not trends or observation.trend in trends)

    now, results = engine.now(), list[answers.Observation]()
    with engine.reading() as connection:
        scope = scope_of(connection, user, project)
        if scope == [NOWHERE]:
            return []
        after, oldest_first = place
        start = Start(None if after is None else _place(connection, after, user), oldest_first)
        while len(results) < limit:
            states = observations.listing(
                connection, user=user, statuses=stored, projects=scope, start=start, limit=_AT_A_TIME
            )
            results += filter(passes_filters, observation_answers(connection, states, now))
            if len(states) < _AT_A_TIME:
                break
            start = start.after(states[-1].row)
        return results[:limit]


def get(engine: ReadingEngine, user: str, id: str) -> answers.Observation | None:
    """Return an observation of any status, or None."""
    now = engine.now()
    with engine.reading() as connection:
        state = load(connection, id, "o", user)
        return observation_answers(connection, [state], now)[0] if state is not None else None


# --- why -----------------------------------------------------------------------------------------------------


def evidence(connection: Connection, observation: answers.Observation, owner: str) -> tuple[answers.Evidence, ...]:
    """Return the sources of an observation with their times and contents."""
    return tuple(
        answers.Evidence(
            id=source.id,
            at=source.at,
            live=source.live,
            withdrawn=source.withdrawn,
            content=words[0],
            status=words[1],
        )
        for source in observation.sources
        for words in [_words_of(connection, source.id, owner)]
    )


def _words_of(connection: Connection, source: str, owner: str) -> tuple[str | None, str]:
    """Return the content of a source and its status: a memory's status, or there, hidden, quarantined, erased or gone."""
    if source[0] == "c":
        chunk = documents.find_chunk(connection, source, owner)
        event = read_event(connection, chunk.row) if chunk is not None else None
        held = chunk is not None and bool(quarantine.among(connection, [chunk.row]))
        return (event.data.content, "quarantined" if held else "there") if event is not None else (None, "gone")
    if source[0] == "s":
        return _words_of_message(connection, source, owner)
    state = load(connection, source, source[0], owner)
    if state is None:
        return None, "gone"
    if source[0] == "m":
        return state.content, "quarantined" if state.quarantined else state.status
    prompt = text_of(connection, event_data(connection, state.prompt_at).prompt)
    answer = texts_at(connection, state.response_at, "response")["response"]
    words = "\n".join(part for part in (prompt, answer) if part)
    if quarantine.among(connection, [at for at in (state.prompt_at, state.response_at) if at is not None]):
        return words or None, "quarantined"
    return words or None, "there" if words else "erased"


def _words_of_message(connection: Connection, source: str, owner: str) -> tuple[str | None, str]:
    session, position = ids.message_place(source) or ("", 0)
    row = sessions.at_position(connection, position)
    if row is None or load(connection, session, "s", owner) is None:
        return None, "gone"
    data = event_data(connection, position)
    content = text_of(connection, data.content)
    words = readable(content, whole_parts(data.parts, content, data.content_of))
    if quarantine.among(connection, [position]):
        return words or None, "quarantined"
    if any(span.first <= position <= span.last for span in sessions.hidden(connection, row.session)):
        return words or None, "hidden"
    return (words, "there") if words else (None, "erased")


def wordings(connection: Connection, stream: str) -> tuple[answers.Wording, ...]:
    """Return every wording of an observation, void ones included, oldest first."""
    events = read_stream(connection, stream)
    out = control.voided(connection, events[0].position, events[-1].position)
    rule, confidence, results = "", 0, []
    for event in events:
        if not isinstance(event.data, ObservationFormed | ObservationRevised):
            continue
        in_effect = event.position not in out
        own = (event.data.rule or rule, confidence if event.data.confidence is None else event.data.confidence)
        if in_effect:
            rule, confidence = own
        results.append(
            answers.Wording(
                position=event.position,
                recorded_at=event.envelope.recorded_at,
                content=event.data.content,
                why=getattr(event.data, "why", "again" if event.version > 1 else "formed"),
                reason=event.data.reason,
                actor=event.envelope.actor,
                consolidator=event.data.consolidator,
                rule=own[0],
                confidence=confidence_rules.shown(own[1]),
                written_from=event.data.written_from,
                in_effect=in_effect,
            )
        )
    return tuple(results)


def _place(connection: Connection, after: str, owner: str) -> int:
    """Return the row of an observation by its id, even if the observation was undone meanwhile."""
    row = find_row(connection, after, "o", owner)
    if row is None and isinstance(after, str) and ids.is_prefix(after, "o"):
        row = first_position(connection, after)
        event = read_event(connection, row) if row is not None else None
        row = row if event is not None and event.envelope.user == owner else None
    if row is None:
        raise NotFoundError(f"no observation of this user has the id {after!r:.40}, after which to continue")
    return row
