"""The calls of language models, answered and failed, with their cost and the results of their actions."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import Struct

from ledger.events import WAYS_BACK, AnyEvent, ModelCalled, ModelCallFailed
from projections.core.rows import NEWEST, AsOf, ProjectionRows, Start, Table, columns, reader
from projections.core.subjects import SubjectChange, mark_void


class ModelCallRow(Struct, frozen=True):
    """A call, with the columns of its row; a call without an ``error`` was answered."""

    position: int
    user: str | None
    purpose: str
    model: str | None
    prompt: str
    error: str | None
    status: int | None
    input_tokens: int
    output_tokens: int
    attempts: int
    milliseconds: int
    kept: int
    dropped: int
    left_over: int
    project: str | None
    session: str | None
    recorded_at: str
    undone_at: int | None


_call = reader(ModelCallRow, "model_calls")


CALLS = Table(
    "model_calls",
    columns(ModelCallRow),
    ("position",),
    (("user, position", ""), ("recorded_at", "")),
    then=AsOf("position", undone="undone_at"),
)


class Calls:
    name, version, reads = "model_calls", 3, ("in_effect",)
    follows = frozenset(kind.__name__ for kind in (ModelCalled, ModelCallFailed, *WAYS_BACK))
    tables = (CALLS,)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        data, envelope = event.data, event.envelope
        if isinstance(data, WAYS_BACK):
            mark_void(rows, CALLS, data.ranges)
            return
        if isinstance(data, ModelCalled):
            outcomes = [action.outcome for action in data.actions if action.what != "cites"]
            kept = outcomes.count("kept")
            values: tuple[object, ...] = (None, None, data.input_tokens, data.output_tokens)
            actions = (kept, len(outcomes) - kept, data.left_over)
        elif isinstance(data, ModelCallFailed):
            values, actions = (data.error, data.status, data.input_tokens, 0), (0, 0, 0)
        else:
            return
        call = (event.position, envelope.user, data.purpose, data.model, data.prompt)
        place = (envelope.project, envelope.session, envelope.recorded_at, None)
        rows.put(CALLS, call[:1], (*call, *values, data.attempts, data.milliseconds, *actions, *place))


# --- reads -----------------------------------------------------------------------------------------------------------


def listing(
    connection: sqlite3.Connection, user: str, purpose: str | None, limit: int, start: Start = NEWEST
) -> list[ModelCallRow]:
    """Return the calls for a user, from ``start`` on."""
    where = f"user = ? AND (? IS NULL OR purpose = ?) AND position {start.behind} ?"
    sql = f"SELECT * FROM model_calls WHERE {where} ORDER BY position {start.order} LIMIT ?"
    return [_call(row) for row in connection.execute(sql, (user, purpose, purpose, start.bound, limit))]


def answered(connection: sqlite3.Connection, user: str) -> list[int]:
    """Return the positions of the answered calls for a user, oldest first."""
    sql = "SELECT position FROM model_calls WHERE user = ? AND error IS NULL ORDER BY position"
    return [position for (position,) in connection.execute(sql, (user,))]


def used_since(connection: sqlite3.Connection, models: str, since: str) -> tuple[int, int]:
    """Return the attempts and the tokens of all users' calls since a time, of models whose names begin with ``models``.

    Calls of commands that were undone count too, because they were made.
    """
    sql = (
        "SELECT coalesce(sum(attempts), 0), coalesce(sum(input_tokens + output_tokens), 0) FROM model_calls"
        " WHERE recorded_at >= ? AND substr(model, 1, ?) = ?"
    )
    attempts, tokens = connection.execute(sql, (since, len(models), models)).fetchone()
    return attempts, tokens


def read_since(connection: sqlite3.Connection, user: str, models: str, since: str) -> int:
    """Return the tokens of the requests of a user's extractions since a time, by models whose names begin with ``models``."""
    sql = (
        "SELECT coalesce(sum(input_tokens), 0) FROM model_calls"
        " WHERE user = ? AND purpose = 'extraction' AND recorded_at >= ? AND substr(model, 1, ?) = ?"
    )
    (tokens,) = connection.execute(sql, (user, since, len(models), models)).fetchone()
    return int(tokens)
