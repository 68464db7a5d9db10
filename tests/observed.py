"""Observations as a test forms them: the bare events, whatever writes them in the product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import probe
from msgspec.structs import replace

from ledger import Ledger
from ledger.core.reads import first_position
from ledger.events import EventData, EvidenceSource, ObservationFormed

LONG_AGO = "2025-01-01T00:00:00.000000Z"


def formed(
    ledger: Ledger,
    text: str,
    sources: Sequence[str],
    *,
    written_from: Sequence[str] | None = None,
    times: Sequence[str] = (),
    rule: str = "proof/1",
    confidence: float = 0.7,
    project: str | None = None,
    user: str = "",
) -> str:
    """Forms an observation and returns its id."""
    dated = [*times, *[LONG_AGO] * len(sources)]
    data = ObservationFormed(
        content=text,
        confidence=round(confidence * 1_000_000),
        rule=rule,
        consolidator="by_test/1",
        evidence=tuple(EvidenceSource(each, at) for each, at in zip(sources, dated, strict=False)),
        written_from=tuple(sources[:1] if written_from is None else written_from),
    )

    def body(work: Any) -> str:
        work.project = work.project_named(project)
        id = work.new_id("o")
        work.emit(id, data)
        return str(id)

    outcome = probe.writer(ledger).run("observe", replace(probe.default(ledger), user=user), body)
    return str(outcome.events[-1].stream)


def happened(ledger: Ledger, id: str, *data: EventData) -> None:
    """Record events on an observation."""

    def body(work: Any) -> str:
        for each in data:
            work.emit(id, each, first=first_position(work.connection(), id) or 0)
        return id

    probe.writer(ledger).run("observe", probe.default(ledger), body)
