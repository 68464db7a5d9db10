"""The reads on observations: what several sources have in common, each with its evidence as it is now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ledger.domain import confidence as rules
from ledger.domain import ids
from ledger.domain.errors import NotFoundError
from ledger.domain.events import ObservationFormed, ObservationRevised
from ledger.domain.message import readable, whole_parts
from ledger.domain.observation import Observation
from ledger.engine.engine import Engine
from ledger.engine.log_reading import find_row, first_position, read_event, read_stream
from ledger.engine.snapshot import (
    NOWHERE,
    answer_texts,
    event_data,
    load,
    scope_of,
    stream_of,
    text_of,
)
from ledger.observations import answers
from projections.core.rows import Connection
from projections.views import control, documents, observations, projects, quarantine, sessions

UNSUPPORTED = "unsupported"  # active, and no source of it is live
_AT_A_TIME = 200  # observations whose evidence is read together


def observation_answers(connection: Connection, states: Sequence[Observation], as_of: str) -> list[answers.Observation]:
    """Observations as they are in a snapshot: their sources dated and live or not, their trend at ``as_of`` (stored form)."""
    proofs = observations.evidence(connection, [state.row for state in states])
    names = projects.names(connection, {state.project for state in states})
    cited = {state.row: {each.source for each in proofs[state.row]} for state in states}
    uncited = {source for state in states for source in state.written_from if source not in cited[state.row]}
    elsewhere = observations.live(connection, uncited) if uncited else set()
    held = withheld(connection, states)
    found = []
    for state in states:
        sources = tuple(
            answers.ObservationSource(id=each.source, at=each.at, live=each.live, withdrawn=each.withdrawn)
            for each in proofs[state.row]
        )
        alive = {each.id for each in sources if each.live} | (elsewhere - cited[state.row])
        found.append(answers.observation(state, names, sources, alive, as_of, quarantined=state.id in held))
    return found


def withheld(connection: Connection, states: Iterable[Observation]) -> set[str]:
    """Which of these say what is in quarantine."""
    by_id = {state.id: state for state in states}
    return {
        id
        for id, positions in observations.in_quarantine(connection, by_id).items()
        for event in read_stream(connection, id, by_id[id].position)
        if event.position in positions and event.data.content == by_id[id].text
    }


def listing(
    engine: Engine,
    user: str,
    *,
    project: str | None,
    tags: Sequence[str],
    trends: Sequence[str],
    statuses: Sequence[str],
    freshness: str | None,
    before: str | None,
    limit: int,
) -> list[answers.Observation]:
    """Observations of one user, newest first, ``before`` (the id of the last one shown) goes on. Every filter is applied before
    the limit, and one that names nothing is none."""
    stored = tuple(dict.fromkeys("active" if each == UNSUPPORTED else each for each in statuses))
    labels = {each.strip().lower() for each in tags}

    def is_wanted(each: answers.Observation) -> bool:
        stands = (not statuses or each.status in statuses) and freshness in (None, each.freshness)
        return stands and labels <= set(each.tags) and (not trends or each.trend in trends)

    now, found = engine.writer.now(), list[answers.Observation]()
    with engine.reading() as connection:
        scope = scope_of(connection, user, project)
        if scope == [NOWHERE]:
            return []
        place = None if before is None else _place(connection, before, user)
        while len(found) < limit:
            some = observations.listing(
                connection, user=user, statuses=stored, projects=scope, before=place, limit=_AT_A_TIME
            )
            found += filter(is_wanted, observation_answers(connection, some, now))
            if len(some) < _AT_A_TIME:
                break
            place = some[-1].row
        return found[:limit]


def get(engine: Engine, user: str, id: str) -> answers.Observation | None:
    """One observation as it stands, whatever its status, or None."""
    now = engine.writer.now()
    with engine.reading() as connection:
        state = load(connection, id, "o", user)
        return observation_answers(connection, [state], now)[0] if state is not None else None


# --- why -----------------------------------------------------------------------------------------------------


def evidence(connection: Connection, found: answers.Observation, owner: str) -> tuple[answers.Evidence, ...]:
    """The evidence, each piece dated and with its words."""
    return tuple(
        answers.Evidence(
            id=each.id,
            at=each.at,
            live=each.live,
            withdrawn=each.withdrawn,
            content=words[0],
            status=words[1],
        )
        for each in found.sources
        for words in [_words_of(connection, each.id, owner)]
    )


def _words_of(connection: Connection, source: str, owner: str) -> tuple[str | None, str]:
    """(what a source says, how it stands)."""
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
    answer = answer_texts(connection, state)["response"]
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
    if any(each.first <= position <= each.last for each in sessions.hidden(connection, row.session)):
        return words or None, "hidden"
    return (words, "there") if words else (None, "erased")


def wordings(connection: Connection, stream: str) -> tuple[answers.Wording, ...]:
    """Every wording that it had, oldest first, also void ones."""
    events = stream_of(connection, stream)
    out = control.voided(connection, events[0].position, events[-1].position)
    rule, confidence, found = "", 0, []
    for event in events:
        if not isinstance(event.data, ObservationFormed | ObservationRevised):
            continue
        in_effect = event.position not in out
        own = (event.data.rule or rule, confidence if event.data.confidence is None else event.data.confidence)
        if in_effect:
            rule, confidence = own
        found.append(
            answers.Wording(
                position=event.position,
                recorded_at=event.envelope.recorded_at,
                content=event.data.content,
                why=getattr(event.data, "why", "again" if event.version > 1 else "formed"),
                reason=event.data.reason,
                actor=event.envelope.actor,
                consolidator=event.data.consolidator,
                rule=own[0],
                confidence=rules.shown(own[1]),
                written_from=event.data.written_from,
                in_effect=in_effect,
            )
        )
    return tuple(found)


def _place(connection: Connection, before: str, owner: str) -> int:
    """The row of an observation by its id, also of one that was undone meanwhile."""
    row = find_row(connection, before, "o", owner)
    if row is None and isinstance(before, str) and ids.is_prefix(before, "o"):
        row = first_position(connection, before)
        event = read_event(connection, row) if row is not None else None
        row = row if event is not None and event.envelope.user == owner else None
    if row is None:
        raise NotFoundError(f"before names an observation by its id, and none of this user has {before!r:.40}")
    return row
