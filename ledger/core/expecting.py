"""Compare and set: a check that nobody changed a command's subjects since the position that the caller expects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ledger.core.log_reading import read_event
from ledger.core.who import Expected
from ledger.core.work import Work
from ledger.domain.errors import ConflictError, RejectedError
from ledger.events import LEDGER_STREAM, WAYS_BACK, AnyEvent, ContentErased, EventData
from projections.core.projector import FAMILIES
from projections.views import erasures

_OF_A_SUBJECT = "SELECT position FROM main.events WHERE stream = ? AND position > ?"
_ERASED = "SELECT erased_by FROM main.events WHERE stream = ? AND erased_by > ?"
_OF_THE_LEDGER = "SELECT position FROM audit WHERE type = ? AND user = ? AND position > ?"
_ACTS = f"SELECT position FROM audit WHERE type IN ({', '.join(repr(kind.__name__) for kind in WAYS_BACK)}) AND position > ?"
_NAMED = (
    "SELECT stream, type, (SELECT position FROM main.events AS f WHERE f.stream = e.stream AND f.version = 1)"
    " FROM main.events AS e WHERE position BETWEEN ? AND ?"
)
_AMONG = "SELECT 1 FROM audit WHERE type = ? AND user = ? AND position BETWEEN ? AND ? LIMIT 1"


def check(work: Work, expected: Expected) -> None:
    """Raise ``ConflictError`` if somebody else changed a subject of the command after the expected position.

    A change is a later event of the subject, or a later act that made events of it void, restored or erased them. On the
    ledger's own stream, which all users share, it is a later event of the same type for this user, or such an act on one.
    An act changes every subject whose events it names.
    """
    check_end(work, expected)
    for (stream, type_), first in _changed(work).items():
        if stream == LEDGER_STREAM:
            change = f"another {type_}"
            changes = _of_the_ledger(work, type_, expected.position)
        else:
            change, changes = f"a change of {stream}", _of_a_subject(work, stream, first, expected.position)
        if others := [position for position in changes if position not in expected.own]:
            raise ConflictError(
                f"{change} was recorded at position {min(others)}, after the expected {expected.position}; nothing was written"
            )


def check_end(work: Work, expected: Expected) -> None:
    """Raise ``RejectedError`` if the expected position is beyond the end of the log."""
    last = work.transaction.position
    if expected.position > last:
        raise RejectedError(
            f"expected is a position of the log, which ends at {last}, but {expected.position} is beyond the end",
            limit=last,
            requested=expected.position,
        )


def _changed(work: Work) -> dict[tuple[str, str], int]:
    """Return the first position of each changed subject, and of each type of event on the ledger's own stream."""
    changed: dict[tuple[str, str], int] = {}
    for stream, first, data, *_ in work.emitted:
        erased = isinstance(data, ContentErased)
        if spans := _named_by(data):
            subjects = (subject for span in spans for subject in work.connection().execute(_NAMED, span))
            for stream_named, type_, row in subjects:
                # an erasure on the stream that all users share takes only a text
                if not (erased and stream_named == LEDGER_STREAM):
                    changed[stream_named, type_ if stream_named == LEDGER_STREAM else ""] = row or 0
        else:
            changed[stream, type(data).__name__ if stream == LEDGER_STREAM else ""] = first
    return changed


def _named_by(data: EventData) -> Sequence[tuple[int, int]]:
    """Return the ranges of positions that an act names."""
    if isinstance(data, ContentErased):
        return [(target.position, target.position) for target in data.targets]
    return data.ranges if isinstance(data, WAYS_BACK) else ()


def note(work: Work, events: Sequence[AnyEvent]) -> None:
    """Remember the positions that a call wrote itself, which are no changes by somebody else."""
    if work.who.expected is not None:
        work.who.expected.own.update(event.position for event in events)


def _of_a_subject(work: Work, stream: str, first: int, after: int) -> Iterator[int]:
    """Yield the positions after ``after`` of a subject's changes: its events, the acts on it, and its erasures.

    Acts leave another version of the subject's row. Erasures do not.
    """
    family = FAMILIES[stream[0]]
    work.rows.flush()
    connection = work.connection()
    versions = (
        f"SELECT to_position FROM {family.closed.name} WHERE row = ? AND to_position > ?",
        f"SELECT from_position FROM {family.live.name} WHERE row = ? AND from_position > ?",
    )
    queries = [(_OF_A_SUBJECT, stream), *((sql, first) for sql in versions)]
    if erasures.last(connection) > after:
        queries.append((_ERASED, stream))
    for sql, key in queries:
        yield from (position for (position,) in connection.execute(sql, (key, after)))


def _of_the_ledger(work: Work, type_: str, after: int) -> Iterator[int]:
    """Yield the positions after ``after`` at which this user's events of a type were recorded, made void or restored."""
    work.rows.flush()
    connection, user = work.connection(), work.who.user
    yield from (position for (position,) in connection.execute(_OF_THE_LEDGER, (type_, user, after)))
    for (position,) in connection.execute(_ACTS, (after,)).fetchall():
        event = read_event(connection, position)
        data: Any = event.data if event is not None else None
        if data is not None and any(
            connection.execute(_AMONG, (type_, user, *span)).fetchone() for span in data.ranges
        ):
            yield position
