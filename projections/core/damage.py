"""Rows that no fold wrote, and where they are: asked when something was met that a sound table does not lead to."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from functools import cache

from msgspec import MsgspecError

from ledger.domain import metadata
from ledger.domain.errors import DamagedError
from projections.core.projector import FAMILIES, projections
from projections.core.rows import Table, TextIndex, Values, check
from projections.views import audit, control, documents, sessions, summaries

_UNFIT = (TypeError, AttributeError, ValueError, LookupError, MsgspecError)
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # the second by the driver, of a message that quotes damaged bytes
_TIMES = ("at", "time", "valid_from", "valid_to", "earliest", "latest")  # columns, besides those that end in "_at"
_NEVER_BLANK = ("id", "event_id", "command_id", "evidence.source", "evidence_was.source")
_BEHIND = (  # the tables behind a text index that a read decodes by itself, as FTS5 makes them
    ("data", ("id INTEGER PRIMARY KEY", "block BLOB NOT NULL")),
    ("docsize", ("id INTEGER PRIMARY KEY", "sz BLOB NOT NULL")),
)


_NAMED = {  # columns that name an event, of one of these types
    **dict.fromkeys(
        ("interactions", "interaction_versions"),
        (
            ("prompt_at", "InteractionCaptured"),
            ("response_at", "InteractionCaptured", "ResponseAttached"),
        ),
    ),
    **dict.fromkeys(("sessions", "session_versions"), (("summary_at", "AbstractSet"),)),
}


def find(connection: sqlite3.Connection, names: Collection[str] = ()) -> DamagedError | None:
    """The first row that cannot be, of the tables of all projections or of those named; reads every row of them."""
    for table in (table for each in projections(b"") if not names or each.name in names for table in each.tables):
        for part in _parts(table):
            if (damaged := _look_through(connection, part)) is not None:
                return damaged
    return None


def _parts(table: Table | TextIndex) -> Iterator[Table]:
    if isinstance(table, Table):
        yield table
    else:
        yield from (Table(f"{table.name}_{part}", columns, ("id",)) for part, columns in _BEHIND)


def _look_through(connection: sqlite3.Connection, table: Table) -> DamagedError | None:
    seen = 0
    try:
        for row in connection.execute(f"SELECT * FROM main.{table.name}"):
            _check(table, row)
            seen += 1
        return _without_counterpart(connection, table)
    except DamagedError as damaged:
        return damaged
    except _UNREADABLE:
        return DamagedError(table.name, _key_at(connection, table, seen))


def _check(table: Table, row: Values) -> None:
    check(table, row)
    try:
        _decoder(table)(row)
        for name, value in zip(table.names, row, strict=True):
            if isinstance(value, str):
                _check_form(table.name, name, value)
    except _UNFIT as error:
        raise DamagedError(table.name, table.key_of(row), f"it cannot be decoded, {type(error).__name__}") from error


def _check_form(table: str, name: str, value: str) -> None:
    """Raise where a text is none that the name of its column promises."""
    if not value:
        if name in _NEVER_BLANK or f"{table}.{name}" in _NEVER_BLANK:
            raise ValueError(f"{name} is blank")
    elif name in _TIMES or name.endswith("_at"):
        datetime.fromisoformat(value)
    elif name == "metadata":
        metadata.of_row(value)


def _decoder(table: Table) -> Callable[[Values], object]:
    return _decoders().get(table, tuple)


@cache
def _decoders() -> Mapping[Table, Callable[[Values], object]]:
    """How rows become what reads work with."""
    found: dict[Table, Callable[[Values], object]] = {}
    for family in FAMILIES.values():
        found |= {family.live: family.from_row, family.closed: family.from_row}
    found |= {sessions.MESSAGES: sessions.message_of, sessions.MESSAGES_WERE: sessions.message_of}
    found |= {documents.CHUNKS: documents.chunk_of, documents.CHUNKS_WERE: documents.chunk_of}
    found |= {control.POLICIES: control.adopted}
    return found | {summaries.SUMMARIES: summaries.summary, summaries.SUMMARIES_WERE: summaries.summary}


def _without_counterpart(connection: sqlite3.Connection, table: Table) -> DamagedError | None:
    """A subject is named by the event that began it, other events by what they are, and every event has its audit entry."""
    if table is audit.AUDIT:
        sql = (  # behind the last entry the projection may have met an event that it cannot fold
            "SELECT position FROM main.events WHERE position NOT IN (SELECT position FROM main.audit)"
            " AND +position < (SELECT coalesce(max(position), 1 << 62) FROM main.audit) LIMIT 1"  # by the index alone
        )
        missing = connection.execute(sql).fetchone()
        return DamagedError(table.name, missing[0], "it is missing") if missing is not None else None
    if all(table not in (family.live, family.closed) for family in FAMILIES.values()):
        return None
    wrong = ["NOT EXISTS (SELECT 1 FROM main.events e WHERE e.position = t.row AND e.stream = t.id)"]
    for column, *types in _NAMED.get(table.name, ()):
        among = ", ".join(f"'{each}'" for each in types)
        event = f"SELECT 1 FROM main.events e WHERE e.position = t.{column} AND e.type IN ({among})"
        wrong.append(f"t.{column} IS NOT NULL AND NOT EXISTS ({event})")
    row = connection.execute(f"SELECT row FROM main.{table.name} t WHERE {' OR '.join(wrong)} LIMIT 1").fetchone()
    return DamagedError(table.name, row[0], "an event that it names is not in the log") if row is not None else None


def _key_at(connection: sqlite3.Connection, table: Table, place: int) -> object:
    """The key of a row that cannot be read as a whole, by its place; None where not even that can be read."""
    try:
        sql = f"SELECT {', '.join(table.key)} FROM main.{table.name} LIMIT 1 OFFSET {place}"
        row = connection.execute(sql).fetchone()
    except _UNREADABLE:
        return None
    return table.key_of(row) if row is not None else None
