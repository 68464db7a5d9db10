"""The reasons for a belief, the history of a subject, and the audit trail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from ledger.core.call import Time, answer_of
from ledger.core.engine import ReadingEngine
from ledger.core.reads import (
    NOWHERE,
    PAGE_CAP,
    first_position,
    id_of_filter,
    load,
    owned_stream,
    read_blob,
    read_event,
    read_stream,
    scope_of,
)
from ledger.documents import answers as document_answers
from ledger.documents.queries import chunk_shown
from ledger.documents.queries import shown as document_shown
from ledger.domain import confidence as confidence_rules
from ledger.domain import ids, times
from ledger.domain.errors import DamagedError, RejectedError
from ledger.english.words import words
from ledger.erasure import rules as erasure
from ledger.events import (
    WAYS_BACK,
    AnyEvent,
    CommandRedone,
    CommandUndone,
    EventData,
    MemoryCaptured,
    MemorySuperseded,
    OriginDistrusted,
    OriginTrusted,
    Unknown,
)
from ledger.history import answers
from ledger.interactions.queries import interactions_shown
from ledger.memories import admission_rules as admitting
from ledger.memories.answers import Memory
from ledger.memories.queries import provenance
from ledger.memories.shown import memories_shown, memory_shown
from ledger.memories.state import MemoryState
from ledger.observations import queries as observation_queries
from ledger.observations.queries import observation_answers
from ledger.values import queries as value_queries
from projections.core.projector import FAMILIES
from projections.core.rows import NEWEST, Connection, Start
from projections.views import audit, confidence, conflicts, control, documents, projects, summaries
from projections.views.audit import AuditRow


def why(engine: ReadingEngine, user: str, id: str) -> answers.Why | None:
    """Return the reasons for a memory, an observation or a value, or None if the user has no such subject.

    Of a memory these are its events in order, with steps that add up to the confidence exactly, and its sources. Of an
    observation these are its events, its evidence with times, contents and states, and every wording that it has had. Of a
    value these are its events.
    """
    if isinstance(id, str) and id.startswith("o_"):
        return _why_observation(engine, id, user)
    if isinstance(id, str) and id.startswith("v_"):
        return _why_value(engine, id, user)
    with engine.reading() as connection:
        stream = owned_stream(connection, id, "m", user)
        if stream is None:
            return None
        state = load(connection, stream, "m", user)
        steps = list(_steps(connection, stream))
        cited = _cited(steps)
        turns = [turn for source in cited if (turn := load(connection, source, "i", user)) is not None]
        return answers.Why(
            memory=memory_shown(connection, state),
            id=stream,
            confidence=confidence_rules.shown(state.confidence) if state is not None else 0.0,
            steps=tuple(steps),
            sources=tuple(interactions_shown(connection, turns)),
            provenance=provenance(connection, state) if state is not None else None,
            admission=admitting.explained(state.admission) if state is not None else "",
            chunks=tuple(_cited_chunks(connection, cited, user)),
            documents=tuple(
                document_shown(connection, document, text=False)
                for source in cited
                if (document := load(connection, source, "d", user)) is not None
            ),
            supersedes=_chain(connection, state, "supersedes", user),
            superseded_by=_chain(connection, state, "superseded_by", user),
            conflicts=conflicts.open_among(connection, [stream]).get(stream, ()),
        )


def _why_observation(engine: ReadingEngine, id: str, owner: str) -> answers.Why | None:
    with engine.reading() as connection:
        stream = owned_stream(connection, id, "o", owner)
        if stream is None:
            return None
        state = load(connection, stream, "o", owner)
        answer = observation_answers(connection, [state], engine.now())[0] if state is not None else None
        return answers.Why(
            memory=None,
            id=stream,
            confidence=answer.confidence if answer is not None else 0.0,
            steps=tuple(_steps(connection, stream)),
            sources=(),
            supersedes=(),
            superseded_by=(),
            observation=answer,
            evidence=observation_queries.evidence(connection, answer, owner) if answer is not None else (),
            wordings=observation_queries.wordings(connection, stream),
        )


def _why_value(engine: ReadingEngine, id: str, owner: str) -> answers.Why | None:
    with engine.reading() as connection:
        stream = owned_stream(connection, id, "v", owner)
        if stream is None:
            return None
        state = load(connection, stream, "v", owner)
        return answers.Why(
            memory=None,
            id=stream,
            confidence=1.0 if state is not None else 0.0,
            steps=tuple(_steps(connection, stream)),
            sources=(),
            supersedes=(),
            superseded_by=(),
            value=value_queries.shown(connection, state, engine.now()) if state is not None else None,
        )


def history(engine: ReadingEngine, user: str, id: str, *, after: int = 0, limit: int = -1) -> list[answers.Step] | None:
    """Return at most ``limit`` events of a subject after a position, in order, undone events included.

    A subject is a memory, an observation, a value, an interaction, a document, a project, a session or a summary. The events
    of a summary (``y_…``) are the events of its session that made it, took it out of use, or restored it.
    """
    kind = ids.kind_of(id) if isinstance(id, str) else ""
    if kind == "y":
        return _history_of_summary(engine, id, user, after, limit)
    if kind not in FAMILIES:
        return None
    with engine.reading() as connection:
        stream = owned_stream(connection, id, kind, user)
        return list(_steps(connection, stream, after, limit)) if stream is not None else None


def _history_of_summary(
    engine: ReadingEngine, id: str, owner: str, after: int, limit: int
) -> list[answers.Step] | None:
    with engine.reading() as connection:
        session = summaries.session_of(connection, id)
        if session is None:
            return None
        event = read_event(connection, session)
        if event is None or event.envelope.user != owner:
            return None
        steps = (step for step in _steps(connection, event.stream, after) if _concerns_summary(step.data, id))
        return list(islice(steps, limit if limit >= 0 else None))


def _steps(connection: Connection, stream: str, after: int = 0, limit: int = -1) -> Iterator[answers.Step]:
    """Yield at most ``limit`` steps of a subject after a position.

    The status of a memory or an observation at a step follows from all earlier events, so its events are read from the beginning.
    """
    has_status, first = stream[0] in "mo", first_position(connection, stream)
    if first is None:
        raise DamagedError(FAMILIES[stream[0]].live.name, stream, "the log has no event of it")
    start, most = (0, -1) if has_status else (after, limit)
    events = {event.position: event for event in read_stream(connection, stream, after=start, limit=most)}
    points = {point.position: point for point in confidence.timeline(connection, first)} if stream[0] == "m" else {}
    out = control.voided(connection, min(events, default=0), max(events, default=0))
    for position in points:
        if position not in events and (event := read_event(connection, position)) is not None:
            events[position] = event
    state, evolve, confidence_then, shown = None, FAMILIES[stream[0]].evolve, 0, 0
    for position in sorted(events):
        if shown == limit:
            return
        event, point = events[position], points.get(position)
        in_effect = position not in out
        if has_status and in_effect and event.stream == stream and not isinstance(event.data, Unknown):
            state = evolve(state, event)
        delta = point.delta if point is not None else 0
        confidence_then += delta
        if position > after:
            shown += 1
            yield answers.Step(
                position=position,
                type=event.type,
                recorded_at=event.envelope.recorded_at,
                actor=event.envelope.actor,
                command=event.envelope.command,
                delta=confidence_rules.shown(delta),
                confidence=confidence_rules.shown(confidence_then),
                status=state.status if state is not None else None,
                in_effect=in_effect,
                because=_because(connection, event),
                data=_shown(event),
            )


def _shown(event: AnyEvent) -> Any:
    """Return the data of an event as plain values, without the ledger's secret."""
    if isinstance(event.data, Unknown):
        return {"unknown": event.type, "schema": event.envelope.schema}
    data = msgspec.json.decode(msgspec.json.encode(event.data))
    return {name: value for name, value in data.items() if name != "secret"}


def _cited(steps: Sequence[answers.Step]) -> list[str]:
    """Return the ids of the interactions, chunks and documents from which a memory came or that reinforced it."""
    sources: dict[str, None] = {}
    for step in steps:
        if step.in_effect:
            cited = (*step.data.get("sources", ()), step.data.get("interaction"))
            sources |= {id: None for id in cited if id is not None and id[:2] in ("i_", "c_", "d_")}
    return list(sources)


def _cited_chunks(connection: Connection, cited: Sequence[str], owner: str) -> Iterator[document_answers.Chunk]:
    for source in cited:
        if (chunk := documents.find_chunk(connection, source, owner)) is not None:
            yield chunk_shown(connection, chunk)


def _chain(connection: Connection, state: MemoryState | None, link: str, owner: str) -> tuple[Memory, ...]:
    """Return the memories before or after a memory in its chain of supersessions, nearest first."""
    memories: list[MemoryState] = []
    seen = {state.id} if state is not None else set()
    while state is not None and (next_id := getattr(state, link)) is not None and next_id not in seen:
        state = load(connection, next_id, "m", owner)
        if state is not None:
            seen.add(state.id)
            memories.append(state)
    return tuple(memories_shown(connection, memories))


# --- audit ---------------------------------------------------------------------------------------------------


class AuditFilter(Struct, frozen=True, kw_only=True):
    """A filter of one user's audit trail.

    Attributes:
        user: The user.
        subject: Only events of this id.
        project: Only events of the project with this name.
        session: Only events of the session with this name.
        text: Only events whose texts have all of these words. Each event that passes the other filters is read for this, because
            there is no index of all texts that were ever written.
        since: The first position, or the earliest time of recording.
        until: The position, or the time of recording, before which the events must be.
        columns: Columns of the trail with their values; None for any value.
    """

    user: str
    subject: str | None = None
    project: str | None = None
    session: str | None = None
    text: str | None = None
    since: int | Time | None = None
    until: int | Time | None = None
    columns: Mapping[str, str | None] = MappingProxyType({})


def audit_page(
    engine: ReadingEngine, request: AuditFilter, *, limit: int, start: Start = NEWEST
) -> list[answers.AuditEntry]:
    """Return at most ``limit`` entries of one user's audit trail, from ``start`` on."""
    user, subject, text = request.user, request.subject, request.text
    if isinstance(subject, str) and ids.kind_of(subject) == "y":
        raise RejectedError(
            f"{subject:.40} is a summary: history.events() shows its events, and history.audit(subject=…) "
            "those of its session"
        )
    filters = {**request.columns, **_bound("since", "first", request.since), **_bound("until", "last", request.until)}
    with engine.reading() as connection:
        project_ids = scope_of(connection, user, request.project)
        session_id = id_of_filter(connection, user, "s", request.session)
        stream = (
            owned_stream(connection, subject, subject[0], user)
            if isinstance(subject, str) and subject[:1] in FAMILIES
            else subject
        )
        if project_ids == [NOWHERE] or session_id == NOWHERE or (subject and stream is None):
            return []

        def trail(start: Start, limit: int) -> list[AuditRow]:
            bounds = {**filters, "session": session_id}
            return audit.trail(
                connection, start, user=user, subject=stream or None, projects=project_ids, limit=limit, **bounds
            )

        entries = trail(start, limit) if text is None else _with_words(connection, trail, text, start)
        return entries_shown(connection, list(islice(entries, limit)))


def entries_shown(connection: Connection, entries: Sequence[AuditRow]) -> list[answers.AuditEntry]:
    """Return the answers for some rows of the audit trail, in the same order."""
    names = projects.names(connection, (id for entry in entries for id in (entry.project, entry.session)))
    return [_entry(connection, entry, names) for entry in entries]


def _bound(of_time: str, of_position: str, bound: int | Time | None) -> dict[str, int | str]:
    """Return a bound as a filter of the trail, under one name if it is a position and under another if it is a time."""
    if bound is None:
        return {}
    if isinstance(bound, int) and not isinstance(bound, bool):
        return {of_position: bound}
    return {of_time: times.moment(of_time, bound)}


def _with_words(
    connection: Connection, trail: Callable[[Start, int], list[AuditRow]], text: str, start: Start
) -> Iterator[AuditRow]:
    """Yield the entries of events whose texts have all of these words."""
    required = frozenset(words(text))
    if not required:
        raise RejectedError(f"text needs at least one word to look for, and {text!r:.40} has none")
    while entries := trail(start, PAGE_CAP):
        for entry in entries:
            if required <= {word for part in _texts(connection, entry.position) for word in words(part)}:
                yield entry
        start = start.after(entries[-1].position)


def _texts(connection: Connection, position: int) -> Iterator[str]:
    """Yield the texts of an event, long texts stored outside the log included."""
    type_, state = connection.execute("SELECT type, state FROM events WHERE position = ?", (position,)).fetchone()
    for part in erasure.parts(type_, state):
        yield from part.texts if part.blob is None else [read_blob(connection, part.blob) or ""]


def _entry(connection: Connection, entry: AuditRow, names: dict[str, str]) -> answers.AuditEntry:
    event = read_event(connection, entry.position)
    out = control.voided(connection, entry.position, entry.position)
    data = _shown(event) if event is not None else None
    project, session = (names.get(id or "", id) for id in (entry.project, entry.session))
    return answer_of(answers.AuditEntry, entry, project=project, session=session, in_effect=not out, data=data)


_REASONS: dict[type[EventData], str] = {  # for an act whose caller gave no reason
    CommandUndone: "undone",
    CommandRedone: "redone",
    OriginDistrusted: "its source is distrusted",
    OriginTrusted: "its source is trusted again",
}


def _because(connection: Connection, event: AnyEvent) -> str:
    """Return the reason that an event records; of a memory that superseded another, the reason of the supersession."""
    data = event.data
    if isinstance(data, MemoryCaptured) and data.supersedes is not None:
        for earlier in read_stream(connection, data.supersedes, 2**62):
            if isinstance(earlier.data, MemorySuperseded) and earlier.data.by == event.stream:
                return earlier.data.reason or ""
    if isinstance(data, WAYS_BACK):
        return data.reason or _REASONS[type(data)]
    return str(getattr(data, "reason", None) or "")


def _concerns_summary(data: Any, summary: str) -> bool:
    """Return True if the shown data of an event name a summary."""
    referenced = (data.get("summary"), data.get("replaces"), *data.get("summaries", ()), *data.get("returned", ()))
    return summary in referenced
