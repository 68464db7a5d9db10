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
    """Return the steps of a memory's confidence, oldest first; empty if the user has no such memory.

    Raises:
        RejectedError: The id is that of an observation, whose confidence follows from the sources that are live at a read.
    """
    if isinstance(id, str) and id.startswith("o_") and _is_observation(engine, id, user):
        raise RejectedError(
            f"{id:.40} is an observation: its confidence follows from its live sources, and has no timeline; "
            "observations.get() shows it now, at() at an earlier moment, and why() the confidence of each wording"
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
