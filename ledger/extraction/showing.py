"""The facts that a model is shown with a piece of conversation: related facts, the user's profile, and the newest facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ledger.core.engine import Engine
from ledger.core.snapshot import load
from ledger.extraction.applying import SHOWN
from ledger.extraction.lines import ConversationLine
from ledger.memories.rules import MemoryState
from ledger.recall import recalling
from ledger.recall.asked import RecallRequest
from ledger.recall.recalling import PROFILE_KINDS
from projections.core.rows import Connection
from projections.views import memories, projects
from projections.views.memories import MemoryFilter

LINES = 20  # the most lines of the user in a piece for which related facts are searched
FOUND = 12  # the most facts that are searched for one line
PROFILE = 30  # the most facts of the user's profile
SEARCHED_CHARS = 4_000  # the most characters of a line that are searched for


def facts_for(engine: Engine, user: str, project: str | None, lines: Sequence[ConversationLine]) -> list[MemoryState]:
    """Return at most 60 active facts, so that a change can name the fact that it changes, however old that fact is.

    First come the facts that recall finds for the user's messages, then the newest of the profile, then the newest of all.
    """
    ids = _found(engine, user, lines)
    with engine.reading() as connection:
        scope = tuple({*projects.together(connection, project), None})
        states: dict[int, MemoryState] = {}
        for state in (*_loaded(connection, user, ids), *_newest(engine, connection, user, scope)):
            if state.project in scope and len(states) < SHOWN:
                states.setdefault(state.row, state)
    return sorted(states.values(), key=lambda state: -state.row)


def _found(engine: Engine, user: str, lines: Sequence[ConversationLine]) -> list[str]:
    """Return the ids of the facts that the user's messages are about, the best of every message first."""
    searched = [line.text[:SEARCHED_CHARS] for line in lines if line.role == "user"][-LINES:]
    about = RecallRequest(
        query="", user=user, now=engine.now(), among=("memories",), limit=FOUND, unit="chars", observations=0
    )
    packs = [recalling.recall(engine, replace(about, query=text)) for text in searched]
    ranked = sorted((item.rank, number, item.id) for number, pack in enumerate(packs) for item in pack.items)
    return [id for _, _, id in ranked]


def _loaded(connection: Connection, user: str, ids: Sequence[str]) -> Iterator[MemoryState]:
    for id in ids[: SHOWN - PROFILE]:
        state: MemoryState | None = load(connection, id, "m", user)
        if state is not None and state.status == "active" and not state.quarantined:
            yield state


def _newest(engine: Engine, connection: Connection, user: str, scope: Sequence[str | None]) -> Iterator[MemoryState]:
    """Yield the newest memories of the profile, then the newest of every kind."""
    for kinds, limit in ((PROFILE_KINDS, PROFILE), ((), SHOWN)):
        filters = MemoryFilter(user=user, statuses=("active",), kinds=kinds, projects=scope, valid=engine.now())
        yield from memories.listing(connection, filters, limit=limit)
