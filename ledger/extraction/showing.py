"""The facts that a model is shown with a piece of conversation: related facts, the user's profile, and the newest facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ledger.core.engine import Engine
from ledger.core.reads import load
from ledger.domain.tokens import estimate
from ledger.extraction.applying import FACT_SHOWN_CHARS, SHOWN
from ledger.extraction.lines import ConversationLine
from ledger.memories.state import MemoryState
from ledger.recall import recalling
from ledger.recall.request import RecallRequest
from ledger.recall.unasked import PROFILE_KINDS
from projections.core.rows import Connection
from projections.views import memories, projects
from projections.views.memories import MemoryFilter

LINES = 40  # the most lines of the user in a piece for which related facts are searched
FOUND = 12  # the most facts that are searched for one line
OF_LINE = 3  # the related facts for each line of the user that are shown, where these are more than SHOWN - PROFILE
PROFILE = 30  # the most facts of the user's profile
NUMBER_TOKENS = 4  # about the tokens of a fact's number
SEARCHED_CHARS = 4_000  # the most characters of a line that are searched for


def facts_for(
    engine: Engine, user: str, project: str | None, lines: Sequence[ConversationLine], tokens: int | None = None
) -> list[MemoryState]:
    """Return active facts, so that a change can name the fact that it changes, however old that fact is.

    They are at most 60, or for more than ten messages of the user 30 and three for each of the messages. First come the facts
    that recall finds for these messages, then the newest of the profile, then the newest of all, as many as ``tokens`` hold.
    They are returned with the newest first.
    """
    spoken = [line.text[:SEARCHED_CHARS] for line in lines if line.role == "user"][-LINES:]
    related = max(SHOWN - PROFILE, OF_LINE * len(spoken))
    ids = list(dict.fromkeys(_found(engine, user, spoken)))[:related]
    with engine.reading() as connection:
        scope = tuple({*projects.together(connection, project), None})
        states: dict[int, MemoryState] = {}
        for state in (*_loaded(connection, user, ids), *_newest(engine, connection, user, scope)):
            if state.project in scope and state.row not in states and len(states) < related + PROFILE:
                if tokens is not None and (tokens := tokens - _tokens_of(state)) < 0:
                    break
                states[state.row] = state
    return sorted(states.values(), key=lambda state: -state.row)


def _tokens_of(state: MemoryState) -> int:
    """Return about the tokens of a fact in a prompt, with its number."""
    return estimate((state.content or "")[:FACT_SHOWN_CHARS]) + NUMBER_TOKENS


def _found(engine: Engine, user: str, searched: Sequence[str]) -> list[str]:
    """Return the ids of the facts that the user's messages are about, the best of every message first."""
    about = RecallRequest(
        question="", user=user, now=engine.now(), among=("memories",), limit=FOUND, unit="chars", observations=0
    )
    packs = [recalling.recall(engine, replace(about, question=text)) for text in searched]
    ranked = sorted((item.rank, number, item.id) for number, pack in enumerate(packs) for item in pack.items)
    return [id for _, _, id in ranked]


def _loaded(connection: Connection, user: str, ids: Sequence[str]) -> Iterator[MemoryState]:
    for id in ids:
        state: MemoryState | None = load(connection, id, "m", user)
        if state is not None and state.status == "active" and not state.quarantined:
            yield state


def _newest(engine: Engine, connection: Connection, user: str, scope: Sequence[str | None]) -> Iterator[MemoryState]:
    """Yield the newest memories of the profile, then the newest of every kind."""
    for kinds, limit in ((PROFILE_KINDS, PROFILE), ((), SHOWN)):
        filters = MemoryFilter(user=user, statuses=("active",), kinds=kinds, projects=scope, valid=engine.now())
        yield from memories.listing(connection, filters, limit=limit)
