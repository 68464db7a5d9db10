"""Two digests of a ledger: one over all rows of the projections, one over the beliefs of a user."""

from __future__ import annotations

import hashlib

import msgspec

from ledger.core.engine import ReadingEngine
from projections.core import digests
from projections.views import memories, projects
from projections.views.memories import MemoryFilter


def of_rows(engine: ReadingEngine) -> str:
    """Return a SHA-256 (hex) over all rows of all projections except the text index; every rebuild gives the same."""
    with engine.reading(stale=True) as connection:
        return digests.digest(connection)


def of_beliefs(engine: ReadingEngine, user: str) -> str:
    """Return a SHA-256 (hex) over a user's memories: project, kind, content, status, confidence, references.

    Ids, positions and times are left out. Two ledgers with the same beliefs have the same digest, however they got
    them.
    """
    with engine.reading() as connection:
        listed = memories.listing(connection, MemoryFilter(user=user), limit=-1)
        names = projects.names(connection, {memory.project for memory in listed})
    beliefs = [(names.get(memory.project or ""), memory.kind, memory.content, memory.status) for memory in listed]
    counted = [(memory.confidence, memory.reference_count) for memory in listed]
    lines = sorted(
        msgspec.json.encode((user, *words, *numbers)) for words, numbers in zip(beliefs, counted, strict=True)
    )
    return hashlib.sha256(b"\n".join(lines)).hexdigest()
