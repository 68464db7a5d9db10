"""The queries on interactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ledger.core.engine import Snapshot
from ledger.core.reads import (
    NOWHERE,
    event_data,
    id_of_filter,
    load,
    scope_of,
    start_behind,
    start_in_time,
    text_of,
    texts_at,
)
from ledger.interactions import answers
from ledger.interactions.rules import InteractionState
from projections.core.rows import Connection
from projections.views import interactions, projects, quarantine
from projections.views.interactions import InteractionFilter


def get(snapshot: Snapshot, user: str, id: str) -> answers.Interaction | None:
    """Return an interaction with its texts, or None."""
    state = load(snapshot.connection, id, "i", user)
    return interactions_shown(snapshot.connection, [state])[0] if state is not None else None


def listing(
    snapshot: Snapshot,
    filters: InteractionFilter,
    *,
    project: str | None,
    session: str | None,
    text: bool = True,
    limit: int,
    after: str | None = None,
    oldest_first: bool = False,
    by_time: bool = False,
) -> list[answers.Interaction]:
    """Return interactions that pass the filters, newest or oldest first.

    ``project`` and ``session`` are names; ``project=""`` means interactions without a project. Without ``text`` the answers have
    the prompt and the summary alone.
    """
    connection = snapshot.connection
    project_ids = scope_of(connection, filters.user, project)
    session_id = id_of_filter(connection, filters.user, "s", session)
    if limit == 0 or project_ids == [NOWHERE] or session_id == NOWHERE:
        return []
    states = interactions.listing(
        connection,
        msgspec.structs.replace(filters, projects=project_ids, session=session_id),
        limit=limit,
        start=(start_in_time if by_time else start_behind)(connection, after, oldest_first=oldest_first),
        by_time=by_time,
    )
    return interactions_shown(connection, states, text=text)


def interactions_shown(
    connection: Connection, states: Sequence[InteractionState], *, text: bool = True
) -> list[answers.Interaction]:
    names = projects.names(connection, (id for state in states for id in (state.project, state.session)))
    return [_marked(connection, state, recorded(connection, state, names, text=text)) for state in states]


def recorded(
    connection: Connection, state: InteractionState, names: Mapping[str, str], *, text: bool = True
) -> answers.Interaction:
    """Return the interaction with its texts from the log, without the mark of a quarantine.

    Without ``text`` the answer has the prompt and the summary, and neither the response nor the context is read.
    """
    captured = event_data(connection, state.prompt_at)
    prompt = text_of(connection, captured.prompt)
    if not text:
        return answers.interaction(state, names, prompt, texts_at(connection, state.response_at, "summary"), None)
    context = msgspec.json.decode(captured.context)
    return answers.interaction(
        state, names, prompt, texts_at(connection, state.response_at, "response", "summary"), context
    )


def _marked(connection: Connection, state: InteractionState, shown: answers.Interaction) -> answers.Interaction:
    """Return the answer with ``quarantined`` set if the prompt or the response is in quarantine."""
    positions = [at for at in (state.prompt_at, state.response_at) if at is not None]
    return msgspec.structs.replace(shown, quarantined=bool(quarantine.among(connection, positions)))
