"""The queries on interactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ledger.core.log_reading import first_position
from ledger.core.snapshot import NOWHERE, Snapshot, answer_texts, event_data, load, named, scope_of, text_of
from ledger.domain.metadata import NO_PAIRS, Pairs
from ledger.interactions import answers
from ledger.interactions.rules import InteractionState
from projections.core.rows import Connection
from projections.views import interactions, projects, quarantine


def get(snapshot: Snapshot, user: str, id: str) -> answers.Interaction | None:
    state = load(snapshot.connection, id, "i", user)
    return interactions_shown(snapshot.connection, [state])[0] if state is not None else None


def listing(
    snapshot: Snapshot,
    user: str,
    *,
    project: str | None = None,
    session: str | None = None,
    client: str | None = None,
    metadata: Pairs = NO_PAIRS,
    since: str | None = None,
    until: str | None = None,
    limit: int,
    after: str | None = None,
) -> list[answers.Interaction]:
    """Return interactions, newest first.

    ``project=""`` means interactions without a project. ``since`` and ``until`` are stored times, the latter exclusive.
    """
    connection = snapshot.connection
    projects_meant = scope_of(connection, user, project)
    session_meant = named(connection, user, "s", session)
    if limit == 0 or projects_meant == [NOWHERE] or session_meant == NOWHERE:
        return []
    bounds = {name: time for name, time in (("since", since), ("until", until)) if time is not None}
    states = interactions.listing(
        connection,
        user=user,
        projects=projects_meant,
        session=session_meant,
        client=client or None,
        metadata=metadata,
        before=first_position(connection, after) if after is not None else None,
        limit=limit,
        **bounds,
    )
    return interactions_shown(connection, states)


def interactions_shown(connection: Connection, states: Sequence[InteractionState]) -> list[answers.Interaction]:
    names = projects.names(connection, (id for state in states for id in (state.project, state.session)))
    return [_with_texts(connection, state, names) for state in states]


def recorded(connection: Connection, state: InteractionState, names: Mapping[str, str]) -> answers.Interaction:
    """Return the interaction as the log has it."""
    captured = event_data(connection, state.prompt_at)
    prompt, context = text_of(connection, captured.prompt), msgspec.json.decode(captured.context)
    return answers.interaction(state, names, prompt, answer_texts(connection, state), context)


def _with_texts(connection: Connection, state: InteractionState, names: Mapping[str, str]) -> answers.Interaction:
    shown = recorded(connection, state, names)
    positions = [at for at in (state.prompt_at, state.response_at) if at is not None]
    return msgspec.structs.replace(shown, quarantined=bool(quarantine.among(connection, positions)))
