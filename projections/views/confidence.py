"""The table of the confidence timeline: every step of every memory with its cause; the steps in effect add up exactly."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import Struct

from ledger.events import AnyEvent, ConfidenceAdjusted, MemoryReinforced
from projections.core.rows import AsOf, ProjectionRows, Table, Values, check, columns
from projections.core.subjects import SubjectChange

_BY_PERSON = "interaction IS NOT NULL AND matcher IS NULL"  # a person's reinforcement with an interaction as evidence


class ConfidenceRow(Struct, frozen=True):
    """A step of the timeline; ``undone_at`` is the position since which the step is void."""

    memory: int
    position: int
    type: str
    recorded_at: str
    delta: int
    confidence: int
    reference_count: int
    rule: str | None
    interaction: str | None
    matcher: str | None
    fraction: int | None
    echo: bool
    undone_at: int | None


STEPS = Table(
    "confidence_steps",
    columns(ConfidenceRow, rowid=False),
    ("memory", "position"),
    (("interaction", _BY_PERSON),),
    rowid=False,
    grouped=("memory",),
    ahead=True,
    then=AsOf("position", undone="undone_at"),
)
_UNDONE = len(STEPS.columns) - 1


class Confidence:
    name, version, follows, reads = "confidence", 3, frozenset("m"), ()
    tables = (STEPS,)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        for change in changes:
            if change.refold:
                _mark(change, rows)
            if change.refold or change.old is None or isinstance(event.data, _MOVING):
                _step(change, rows)


_MOVING = (MemoryReinforced, ConfidenceAdjusted)


def _step(change: SubjectChange, rows: ProjectionRows) -> None:
    event, data = change.event, change.event.data
    old = change.old.confidence if change.old is not None else 0
    new, count = (change.new.confidence, change.new.reference_count) if change.new is not None else (0, 0)
    evidence: tuple[object, ...] = (None, None, None, None, 0)
    if isinstance(data, MemoryReinforced):
        evidence = (data.rule, data.interaction, data.matcher, data.fraction, int(data.echo))
    elif isinstance(data, ConfidenceAdjusted):
        evidence = (data.rule, None, None, None, 0)
    place = (change.first, event.position)
    rows.put(STEPS, place, (*place, event.type, event.envelope.recorded_at, new - old, new, count, *evidence, None))


def _mark(change: SubjectChange, rows: ProjectionRows) -> None:
    """Write since when the steps of a memory are void; a step stays as it was recorded, and an undo adds one.

    The steps of undos and the like, which are not in the memory's stream, are never void.
    """
    void = {event.position: since for event, since in change.stream}
    for row in rows.find(STEPS, ("memory",), (change.first,)):
        if (undone := void.get(row[1])) != row[_UNDONE]:
            rows.put(STEPS, row[:2], (*row[:_UNDONE], undone))


# --- reads -----------------------------------------------------------------------------------------------------------


def timeline(connection: sqlite3.Connection, memory: int) -> list[ConfidenceRow]:
    sql = "SELECT * FROM confidence_steps WHERE memory = ? ORDER BY position"
    return [_from_row(row) for row in connection.execute(sql, (memory,))]


def _from_row(row: Values) -> ConfidenceRow:
    check(STEPS, row)
    echo, undone_at = row[_UNDONE - 1 :]
    return ConfidenceRow(**dict(zip(STEPS.names, row, strict=True)) | {"echo": bool(echo), "undone_at": undone_at})


def step(connection: sqlite3.Connection, memory: int, position: int) -> ConfidenceRow | None:
    sql = "SELECT * FROM confidence_steps WHERE memory = ? AND position = ?"
    row = connection.execute(sql, (memory, position)).fetchone()
    return _from_row(row) if row else None


def counted(rows: ProjectionRows, memory: int, interaction: str) -> bool:
    """Return True if this interaction has reinforced this memory already and the step is in effect."""
    columns = ("memory", "interaction", "undone_at")
    return bool(rows.find(STEPS, columns, (memory, interaction, None)))


def given_for(connection: sqlite3.Connection, interaction: str) -> list[int]:
    """Return the positions of people's reinforcements with this interaction as evidence, void reinforcements included."""
    sql = f"SELECT position FROM confidence_steps WHERE interaction = ? AND {_BY_PERSON} ORDER BY position"
    return [position for (position,) in connection.execute(sql, (interaction,))]
