"""One hash over what is believed: the same on whatever way it came about, or over all rows, the same after any rebuild."""

from __future__ import annotations

import hashlib

import msgspec

from ledger.engine.engine import Engine
from projections.core import digests
from projections.views import memories, projects


def of_rows(engine: Engine) -> str:
    """SHA-256 (hex) over all rows of all projections, equal after any rebuild; the text index is outside it."""
    with engine.reading(stale=True) as connection:
        return digests.digest(connection, engine.writer.secret)


def of_beliefs(engine: Engine, user: str) -> str:
    """SHA-256 (hex) over what one user's memories say (project, kind, content, status, confidence, references).

    Without ids, positions and times: equal wherever the same is believed, on whatever way it came about.
    """
    with engine.reading() as connection:
        found = memories.listing(connection, user=user, limit=-1)
        names = projects.names(connection, {each.project for each in found})
    beliefs = [(names.get(each.project or ""), each.kind, each.content, each.status) for each in found]
    counted = [(each.confidence, each.reference_count) for each in found]
    lines = sorted(
        msgspec.json.encode((user, *words, *numbers)) for words, numbers in zip(beliefs, counted, strict=True)
    )
    return hashlib.sha256(b"\n".join(lines)).hexdigest()
