"""The history of a memory's confidence."""

from __future__ import annotations

from ledger.core.answer import answer_of
from ledger.core.log_reading import first_position
from ledger.core.reading_engine import ReadingEngine
from ledger.core.snapshot import owned_stream
from ledger.domain import confidence as confidence_rules
from ledger.domain.errors import RejectedError
from ledger.memories import answers
from projections.views import confidence


def _is_observation(engine: ReadingEngine, id: str, owner: str) -> bool:
    with engine.reading() as connection:
        return owned_stream(connection, id, "o", owner) is not None


def confidence_history(engine: ReadingEngine, user: str, id: str) -> list[answers.ConfidencePoint]:
    """Return the steps of a memory's confidence, oldest first; empty when there is no such memory.

    Raises:
        RejectedError: The id is an observation's; its confidence follows from the sources that are live when it is read.
    """
    if isinstance(id, str) and id.startswith("o_") and _is_observation(engine, id, user):
        raise RejectedError(
            f"{id:.40} is an observation: its confidence goes by its live sources, and has no timeline of its own; "
            "observations.get() shows it, at() shows what it was, and why() with which confidence each wording was given"
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
