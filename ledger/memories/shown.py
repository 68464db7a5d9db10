"""Memories as a caller sees them: the answers that are made of states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ledger.core.call import answer_of
from ledger.domain import metadata as pairs_of
from ledger.domain.confidence import ONE
from ledger.domain.policy import PolicyState
from ledger.memories.answers import Belief, Memory, Relation
from ledger.memories.state import Edge, MemoryState
from projections.core.rows import Connection
from projections.views import control, projects


def memories_shown(
    connection: Connection, states: Sequence[MemoryState], known: Mapping[str, PolicyState] | None = None
) -> list[Memory]:
    """Return memories as a caller sees them; ``known`` are policies, by user, that were read on the same snapshot."""
    names = projects.names(connection, {state.project for state in states})
    users = {state.user for state in states if state.user is not None}
    policies = {user: (known or {}).get(user) or control.policy(connection, user) for user in users}
    return [
        memory(state, names, decay_rule=None if state.user is None else policies[state.user].decay_of(state.kind))
        for state in states
    ]


def memory(
    state: MemoryState,
    names: Mapping[str, str],
    *,
    decay_rule: str | None = None,
    replayed: bool = False,
    absorbed: bool = False,
) -> Memory:
    return answer_of(
        Memory,
        state,
        project=names.get(state.project or "", state.project),
        confidence=state.confidence / ONE,
        relations=tuple(map(_relation, state.edges)) if state.edges else (),
        metadata=pairs_of.of_row(state.metadata) if state.metadata else {},
        decay_rule=decay_rule,
        replayed=replayed,
        absorbed=absorbed,
    )


def _relation(edge: Edge) -> Relation:
    return answer_of(Relation, edge, subject=edge.source, object=edge.target)


def memory_shown(connection: Connection, state: MemoryState | None) -> Memory | None:
    return memories_shown(connection, [state])[0] if state is not None else None


def belief(connection: Connection, id: str, now: MemoryState | None, then: MemoryState | None) -> Belief:
    """Return the answer that compares a memory in its present state with the memory in another state."""
    return Belief(id=id, now=memory_shown(connection, now), would_be=memory_shown(connection, then))
