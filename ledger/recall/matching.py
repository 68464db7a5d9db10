"""The texts that match an expression, on a snapshot of the present or of an earlier moment.

A snapshot of an earlier moment reads today's indexes as they were at its position.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.core.snapshot import Snapshot
from ledger.memories.state import MemoryState
from projections.search import memory_hits, observation_hits, passages
from projections.search.memory_hits import MemoryScope
from projections.search.observation_hits import ObservationScope
from projections.search.passages import PassageRow, PassageScope

ENOUGH = 100  # hits to rank at least, because some of the best may be of another user, project or time
THEN = "texts, statuses and confidences are those of position {}; the scores take the rarity of a word from today's text index"


def of_memories(
    snapshot: Snapshot, expression: str, wanted: MemoryScope, limit: int
) -> Iterator[tuple[MemoryState, float]]:
    """Return the matching memories, best first."""
    if snapshot.position is not None:
        return memory_hits.matching_then(snapshot.connection, expression, wanted, snapshot.position, limit=limit)
    least = min(limit, ENOUGH)
    return memory_hits.matching(
        snapshot.connection, expression, wanted, limit=limit, schema=snapshot.schema, enough=least
    )


def of_passages(
    snapshot: Snapshot, expression: str, wanted: PassageScope, limit: int
) -> Iterator[tuple[PassageRow, float]]:
    """Return the matching passages, best first."""
    if snapshot.position is not None:
        return passages.matching_then(snapshot.connection, expression, wanted, snapshot.position, limit=limit)
    least = min(limit, ENOUGH)
    return passages.matching(snapshot.connection, expression, wanted, limit=limit, schema=snapshot.schema, enough=least)


def of_observations(snapshot: Snapshot, expression: str, wanted: ObservationScope, limit: int) -> observation_hits.Hits:
    """Return the matching observations, best first."""
    if snapshot.position is not None:
        return observation_hits.matching_then(snapshot.connection, expression, wanted, snapshot.position, limit=limit)
    return observation_hits.matching(snapshot.connection, expression, wanted, limit=limit, schema=snapshot.schema)


def is_any_memory(snapshot: Snapshot, expression: str, wanted: MemoryScope) -> bool:
    """Return True if a memory matches."""
    if snapshot.position is not None:
        return any(True for _ in of_memories(snapshot, expression, wanted, limit=1))
    return memory_hits.any_matches(snapshot.connection, expression, wanted, schema=snapshot.schema)


def is_any_passage(snapshot: Snapshot, expression: str, wanted: PassageScope) -> bool:
    """Return True if a passage matches."""
    if snapshot.position is not None:
        return any(True for _ in of_passages(snapshot, expression, wanted, limit=1))
    return passages.any_matches(snapshot.connection, expression, wanted, schema=snapshot.schema)


def warnings(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the warnings for a caller who searches."""
    return (THEN.format(snapshot.position),) if snapshot.position is not None else ()
