"""The queries on memories: a memory, a listing, the review queue, and the origin and the confidence of a memory."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ledger.core.call import answer_of
from ledger.core.engine import ReadingEngine, Snapshot
from ledger.core.reads import (
    NOWHERE,
    believed_statuses,
    event_data,
    first_position,
    load,
    owned_stream,
    scope_of,
    start_behind,
    start_in_time,
    text_of,
    texts_at,
)
from ledger.domain import confidence as confidence_rules
from ledger.domain.errors import RejectedError
from ledger.domain.kinds import SYNONYMS
from ledger.extraction import lines as turns
from ledger.interactions.rules import InteractionState
from ledger.memories import admission_rules as admitting
from ledger.memories import answers
from ledger.memories.shown import memories_shown
from ledger.memories.state import MemoryState
from ledger.sessions.rules import message as messages
from projections.core.rows import Connection, Start
from projections.views import confidence, memories, projects, sessions
from projections.views.duplicates import content_fingerprint
from projections.views.memories import MemoryFilter

QUOTED_CHARS = (
    500  # the quoted beginning of a message in which a model found a memory, because a model names no characters
)


def get(snapshot: Snapshot, user: str, id: str) -> answers.Memory | None:
    """Return a memory of any status, or None.

    If the snapshot has a time of validity (``valid``), only a memory that was true in the world at that time is returned.
    """
    state = load(snapshot.connection, id, "m", user)
    if state is None or (snapshot.valid is not None and not memories.believed(state, snapshot.valid)):
        return None
    return memories_shown(snapshot.connection, [state])[0]


def listing(
    snapshot: Snapshot,
    filters: MemoryFilter,
    *,
    project: str | None,
    limit: int,
    after: str | None = None,
    oldest_first: bool = False,
    by_time: bool = False,
) -> list[answers.Memory]:
    """Return memories that pass the filters, newest or oldest first.

    ``project`` is a name; ``project=""`` means memories without a project. The filters may have synonyms of kinds, and tags in
    any case.
    """
    connection = snapshot.connection
    project_ids = scope_of(connection, filters.user, project)
    if project_ids == [NOWHERE]:
        return []
    stored = replace(
        filters,
        statuses=believed_statuses(snapshot.valid, tuple(filters.statuses)),
        kinds=[SYNONYMS.get(kind, kind) for kind in filters.kinds],
        projects=project_ids,
        tags=[tag.strip().lower() for tag in filters.tags],
        valid=snapshot.valid,
    )
    start = (start_in_time if by_time else start_behind)(connection, after, oldest_first=oldest_first)
    return memories_shown(connection, memories.listing(connection, stored, limit=limit, start=start, by_time=by_time))


def review(
    snapshot: Snapshot, user: str, *, project: str | None, limit: int, after: str | None
) -> list[answers.Candidate]:
    """Return the candidates, and the active memories that turns deny, with their origins, oldest first."""
    connection = snapshot.connection
    project_ids = scope_of(connection, user, project)
    if project_ids == [NOWHERE]:
        return []
    behind = first_position(connection, after) or 0 if after is not None else 0
    candidates = MemoryFilter(user=user, statuses=("candidate",), projects=project_ids)
    states = memories.listing(connection, candidates, start=Start(behind, oldest_first=True), limit=limit)
    denied = _denied(connection, user)
    contradicted = [state for row in denied if row > behind and (state := memories.get(connection, row)) is not None]
    states += [state for state in contradicted if project_ids is None or state.project in project_ids]
    states = sorted(states, key=lambda state: state.row)[:limit]
    duplicates = _active_duplicates(snapshot, [state for state in states if state.status == "candidate"])
    return [
        answers.Candidate(
            memory=memories_shown(connection, [state])[0],
            provenance=provenance(connection, state),
            same_as_active=duplicates.get(state.id),
            contradicted_by=denied.get(state.row, ()),
            wish=state.quarantined and state.row in denied,
            admission=admitting.explained(state.admission),
        )
        for state in states
    ]


def _denied(connection: Connection, user: str) -> dict[int, tuple[str, ...]]:
    from ledger.interactions.policy import (
        contradicted,
    )  # this module loads the rules of writes, which other reads do not need

    return contradicted(connection, user)


def _active_duplicates(snapshot: Snapshot, states: Sequence[MemoryState]) -> dict[str, str]:
    """Return for each memory whose statement an active memory already makes the id of that active memory."""
    if snapshot.is_past:
        return _active_duplicates_then(snapshot.connection, states)
    duplicates = {}
    for state in states:
        places = projects.together(snapshot.connection, state.project)
        user, kind, content = state.user, state.kind, state.content
        numbers = [content_fingerprint(snapshot.secret, user, kind, place, content) for place in places]
        sql = (
            "SELECT m.id FROM duplicates d CROSS JOIN memories m ON m.row = d.memory"
            f" WHERE d.fingerprint IN ({', '.join('?' * len(numbers))}) AND d.status = 'active' ORDER BY d.memory LIMIT 1"
        )
        if (row := snapshot.connection.execute(sql, numbers).fetchone()) is not None:
            duplicates[state.id] = row[0]
    return duplicates


def _active_duplicates_then(connection: Connection, states: Sequence[MemoryState]) -> dict[str, str]:
    """Compare with all active memories of a past moment once, because the index of duplicates knows only today's."""
    texts: dict[tuple[object, ...], str] = {}
    for owner in {state.user for state in states if state.user is not None}:
        active = memories.listing(connection, MemoryFilter(user=owner, statuses=("active",)), limit=2**31)
        texts |= {(owner, *_statement_of(connection, memory)): memory.id for memory in active}  # the oldest stays
    duplicates = {state.id: texts.get((state.user, *_statement_of(connection, state))) for state in states}
    return {id: duplicate for id, duplicate in duplicates.items() if duplicate is not None}


def _statement_of(connection: Connection, state: MemoryState) -> tuple[str | None, ...]:
    kind, project, content = memories.statement_of(state)
    return kind, projects.main(connection, project), content


def admitted(
    snapshot: Snapshot, user: str, *, project: str | None, limit: int, after: str | None, oldest_first: bool
) -> list[answers.Candidate]:
    """Return the active memories that no person admitted, newest or oldest first, with the calls that take them back."""
    connection = snapshot.connection
    project_ids = scope_of(connection, user, project)
    if project_ids == [NOWHERE]:
        return []
    unconfirmed = MemoryFilter(user=user, statuses=("active",), projects=project_ids, admitted=True)
    start = start_behind(connection, after, oldest_first=oldest_first)
    states = memories.listing(connection, unconfirmed, limit=limit, start=start)
    denied = _denied(connection, user)
    return [
        answers.Candidate(
            memory=memories_shown(connection, [state])[0],
            provenance=provenance(connection, state),
            same_as_active=None,
            contradicted_by=denied.get(state.row, ()),
            admission=admitting.explained(state.admission),
            undo=_undo_of(state),
        )
        for state in states
    ]


def _undo_of(state: MemoryState) -> str:
    """Return the calls that take a memory out of use and restore the memory that it superseded."""
    return f"retract({state.id!r})" + (f", restore({state.supersedes!r})" if state.supersedes else "")


def provenance(connection: Connection, state: MemoryState) -> answers.Provenance | None:
    """Return the origin of a memory with the quoted text; None for a memory that a caller stated directly."""
    origin = state.origin
    if origin is None:
        return None
    source = next((cited for cited in state.sources if cited.startswith("i_")), None)
    session = next((cited for cited in state.sources if cited.startswith("s_")), None)
    subject = load(connection, source, "i", state.user or "") if source is not None else None
    text = _field_text(connection, subject, origin.field) if subject is not None else None
    row = _message_row(connection, origin.position, session, state.user) if session is not None else None
    if row is not None and source is None:
        text = _message_text(connection, row)
    spanned = origin.end > origin.start
    quote = text[origin.start : origin.end] if text and spanned else text[:QUOTED_CHARS] if text else None
    role = row.role if row is not None else None
    return answers.Provenance(
        interaction=source, session=session, role=role, quote=quote, **msgspec.structs.asdict(origin)
    )


def _field_text(connection: Connection, subject: InteractionState, field: str) -> str | None:
    if field == "prompt":
        return text_of(connection, event_data(connection, subject.prompt_at).prompt)
    return texts_at(connection, subject.response_at, "response", "summary").get(field)


def _message_row(connection: Connection, position: int, session: str, user: str | None) -> sessions.MessageRow | None:
    """Return the message at a position, hidden or not, if it belongs to this session of the user."""
    state = load(connection, session, "s", user or "")
    row = sessions.at_position(connection, position) if state is not None and position else None
    return row if row is not None and state is not None and row.session == state.row else None


def _message_text(connection: Connection, row: sessions.MessageRow) -> str | None:
    data = event_data(connection, row.row)
    content = text_of(connection, data.content)
    return turns.own_texts(content, messages.whole_parts(data.parts, content, data.content_of), data.content_of) or None


def _is_observation(engine: ReadingEngine, id: str, owner: str) -> bool:
    with engine.reading() as connection:
        return owned_stream(connection, id, "o", owner) is not None


def confidence_history(engine: ReadingEngine, user: str, id: str) -> list[answers.ConfidencePoint]:
    """Return the steps of a memory's confidence, oldest first; empty if the user has no such memory.

    Raises:
        RejectedError: The id is that of an observation, whose confidence follows from the sources that are live at a read.
    """
    if isinstance(id, str) and id.startswith("o_") and _is_observation(engine, id, user):
        raise RejectedError(
            f"{id:.40} is an observation: its confidence follows from its live sources, and has no timeline; "
            "observations.get() shows it now, at() at an earlier moment, and why() the confidence of each wording"
        )
    with engine.reading() as connection:
        stream = owned_stream(connection, id, "m", user)
        if stream is None:
            return []
        first = first_position(connection, stream) or 0
        return [_point(point) for point in confidence.timeline(connection, first)]


def _point(point: confidence.ConfidenceRow) -> answers.ConfidencePoint:
    numbers = {"delta": confidence_rules.shown(point.delta), "confidence": confidence_rules.shown(point.confidence)}
    return answer_of(answers.ConfidencePoint, point, in_effect=point.undone_at is None, **numbers)
