"""The search for damaged rows in the tables of the projections, made after an error that undamaged tables cannot cause."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from functools import cache

from msgspec import MsgspecError

from ledger.domain import metadata
from ledger.domain.errors import DamagedError
from projections.core.projector import ALL, FAMILIES
from projections.core.rows import Table, TextIndex, Values, check
from projections.views import audit, control, documents, sessions, summaries

_UNFIT = (TypeError, AttributeError, ValueError, LookupError, MsgspecError)
_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # sqlite3 raises the second for an error message with damaged bytes
_TIMES = ("at", "time", "valid_from", "valid_to", "earliest", "latest")  # columns with times, besides names in "_at"
_NEVER_BLANK = ("id", "event_id", "command_id", "evidence.source", "evidence_was.source")
_BEHIND = (  # FTS5's own tables behind a text index, checked here row by row
    ("data", ("id INTEGER PRIMARY KEY", "block BLOB NOT NULL")),
    ("docsize", ("id INTEGER PRIMARY KEY", "sz BLOB NOT NULL")),
)

_NAMED = {  # columns that hold the position of an event, and the event's possible types
    **dict.fromkeys(
        ("interactions", "interaction_versions"),
        (
            ("prompt_at", "InteractionCaptured"),
            ("response_at", "InteractionCaptured", "ResponseAttached"),
        ),
    ),
    **dict.fromkeys(("sessions", "session_versions"), (("summary_at", "AbstractSet"),)),
    **dict.fromkeys(("keyed_values", "keyed_value_versions"), (("content_at", "ValuePut"),)),
}


def find(connection: sqlite3.Connection, names: Collection[str] = ()) -> DamagedError | None:
    """Return the error of the first damaged row, or None; all rows of the named projections, or of all, are read."""
    for projection in ALL:
        for table in projection.tables if not names or projection.name in names else ():
            for part in _parts(table):
                if (damaged := _first_damage(connection, part)) is not None:
                    return damaged
    return None


def _parts(table: Table | TextIndex) -> Iterator[Table]:
    if isinstance(table, Table):
        yield table
    else:
        yield from (Table(f"{table.name}_{part}", columns, ("id",)) for part, columns in _BEHIND)


def _first_damage(connection: sqlite3.Connection, table: Table) -> DamagedError | None:
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
    """Raise if a text does not have the form that the name of its column demands."""
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
    """Return the functions that turn rows into the objects that reads work with."""
    decoders: dict[Table, Callable[[Values], object]] = {}
    for family in FAMILIES.values():
        decoders |= {family.live: family.from_row, family.closed: family.from_row}
    decoders |= {sessions.MESSAGES: sessions.message_of, sessions.MESSAGES_WERE: sessions.message_of}
    decoders |= {documents.CHUNKS: documents.chunk_of, documents.CHUNKS_WERE: documents.chunk_of}
    decoders |= {control.POLICIES: control.adopted}
    return decoders | {summaries.SUMMARIES: summaries.summary, summaries.SUMMARIES_WERE: summaries.summary}


def _without_counterpart(connection: sqlite3.Connection, table: Table) -> DamagedError | None:
    """Return the error of a row whose event is not in the log, or of an event without an audit entry.

    Each subject has the position of the event that began it, some columns have positions of events of a certain type, and every
    event has an entry in the audit trail.
    """
    if table is audit.AUDIT:
        # Events after the last entry are not missing: the projection may be suspended there. The unary plus keeps SQLite from
        # using the position for a search, so that the log is read by an index alone.
        sql = (
            "SELECT position FROM main.events WHERE position NOT IN (SELECT position FROM main.audit)"
            " AND +position < (SELECT coalesce(max(position), 1 << 62) FROM main.audit) LIMIT 1"
        )
        missing = connection.execute(sql).fetchone()
        return DamagedError(table.name, missing[0], "it is missing") if missing is not None else None
    if all(table not in (family.live, family.closed) for family in FAMILIES.values()):
        return None
    wrong = ["NOT EXISTS (SELECT 1 FROM main.events e WHERE e.position = t.row AND e.stream = t.id)"]
    for column, *types in _NAMED.get(table.name, ()):
        among = ", ".join(f"'{type}'" for type in types)
        event = f"SELECT 1 FROM main.events e WHERE e.position = t.{column} AND e.type IN ({among})"
        wrong.append(f"t.{column} IS NOT NULL AND NOT EXISTS ({event})")
    row = connection.execute(f"SELECT row FROM main.{table.name} t WHERE {' OR '.join(wrong)} LIMIT 1").fetchone()
    return DamagedError(table.name, row[0], "an event that it names is not in the log") if row is not None else None


def _key_at(connection: sqlite3.Connection, table: Table, place: int) -> object:
    """Return the key of an unreadable row, by its place in the table, or None if the key cannot be read either."""
    try:
        sql = f"SELECT {', '.join(table.key)} FROM main.{table.name} LIMIT 1 OFFSET {place}"
        row = connection.execute(sql).fetchone()
    except _UNREADABLE:
        return None
    return table.key_of(row) if row is not None else None
