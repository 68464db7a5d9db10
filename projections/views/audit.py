"""The table of the audit trail: every event with its user, actor, client, time, command and cause, without its texts."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msgspec import Struct

from ledger.domain.errors import DamagedError
from ledger.events import AnyEvent
from projections.core.rows import NEWEST, AsOf, Conditions, ProjectionRows, Start, Table, columns, reader
from projections.core.subjects import EVERYTHING, SubjectChange


class AuditRow(Struct, frozen=True):
    """An entry of the audit trail, with the columns of its row."""

    position: int
    event_id: str
    subject: str
    type: str
    recorded_at: str
    command: str
    command_id: str
    user: str | None
    actor: str | None
    client: str | None
    channel: str
    agent: str | None
    project: str | None
    session: str | None
    causation_id: str | None
    correlation_id: str | None


_entry = reader(AuditRow, "audit")


AUDIT = Table(
    "audit",
    columns(AuditRow),
    ("position",),
    (
        ("causation_id", "causation_id IS NOT NULL"),
        ("correlation_id", "correlation_id IS NOT NULL"),
        ("type", "type = 'LedgerUpgraded'"),  # read at every open; such events are rare, so the index is small
    ),
    then=AsOf("position"),
)


class Audit:
    name, version, follows, reads = "audit", 1, EVERYTHING, ()
    tables = (AUDIT,)

    def fold(self, event: AnyEvent, changes: Sequence[SubjectChange], rows: ProjectionRows) -> None:
        e = event.envelope
        values = (e.recorded_at, e.command, e.command_id, e.user, e.actor, e.client, e.channel, e.agent)
        links = (e.project, e.session, e.causation_id, e.correlation_id)
        rows.append(AUDIT, (event.position, e.event_id, event.stream, event.type, *values, *links))


# --- reads -----------------------------------------------------------------------------------------------------------

_BOUNDS = {  # filters that compare a column otherwise than for equality
    "first": "position >= ?",
    "last": "position < ?",
    "since": "recorded_at >= ?",
    "until": "recorded_at < ?",
}


def trail(
    connection: sqlite3.Connection,
    start: Start = NEWEST,
    /,
    *,
    user: str | None,
    subject: str | None = None,
    projects: Sequence[str | None] | None = None,
    limit: int,
    **filters: str | int | None,
) -> list[AuditRow]:
    """Return the first entries from ``start`` on that pass every filter; with ``user=None`` the entries of all users."""
    where = Conditions("1")
    where.begin("position", start)
    for name, value in filters.items():
        where.given(_BOUNDS.get(name, f"{name} = ?"), value)
    where.of_projects(projects)
    # Suspended projections concern every user, so their entries are in every user's trail.
    where.given("(user = ? OR type IN ('ProjectionSuspended', 'ProjectionResumed'))", user)
    where.given("position IN (SELECT position FROM events WHERE stream = ?)", subject)
    sql = f"SELECT * FROM audit WHERE {where} ORDER BY position {start.order} LIMIT ?"
    return [_entry(row) for row in connection.execute(sql, (*where.values, limit))]


def at(connection: sqlite3.Connection, position: int) -> AuditRow | None:
    """Return the entry at a position, or None."""
    row = connection.execute("SELECT * FROM audit WHERE position = ?", (position,)).fetchone()
    return _entry(row) if row else None


def at_event(connection: sqlite3.Connection, position: int) -> AuditRow:
    """Return the entry of an event that is in the log, or raise ``DamagedError`` if the entry is missing."""
    entry = at(connection, position)
    if entry is None:
        raise DamagedError(AUDIT.name, position, "it is missing")
    return entry


def last_upgrade(connection: sqlite3.Connection) -> int | None:
    """Return the position of the last LedgerUpgraded event, or None if there is none."""
    sql = "SELECT max(position) FROM audit WHERE type = 'LedgerUpgraded'"
    position: int | None = connection.execute(sql).fetchone()[0]
    return position


def by_event(connection: sqlite3.Connection, event_id: str) -> AuditRow | None:
    """Return the entry of an event by its id, or None; the id of a command is the id of its first event.

    Event ids begin with the time and are assigned under the writer's lock, so they grow with the position, and a binary search
    finds an id without an index. If a clock was set back, the search may miss the id; then the whole trail is read.
    """
    low, high = 1, connection.execute("SELECT coalesce(max(position), 0) FROM audit").fetchone()[0]
    while low < high:
        middle = (low + high) // 2
        row = connection.execute("SELECT event_id FROM audit WHERE position = ?", (middle,)).fetchone()
        low, high = (middle + 1, high) if row[0] < event_id else (low, middle)
    entry = at(connection, low)
    if entry is not None and entry.event_id == event_id:
        return entry
    row = connection.execute("SELECT * FROM audit WHERE event_id = ?", (event_id,)).fetchone()
    return _entry(row) if row else None


def of_command(connection: sqlite3.Connection, command_id: str) -> list[AuditRow]:
    """Return all entries of a command, in order."""
    first = by_event(connection, command_id)
    return command_at(connection, first.position) if first is not None else []


def command_at(connection: sqlite3.Connection, position: int) -> list[AuditRow]:
    """Return all entries of the command that recorded the event at a position, in order.

    The events of a command have successive positions.

    Raises:
        DamagedError: The entry at the position belongs to no command.
    """
    sql = (  # "unlikely" makes SQLite begin at this bound, and in a view of the past not at the bound of the view
        "SELECT * FROM audit WHERE position >= (SELECT position FROM audit WHERE unlikely(position <= ?)"
        " AND event_id = command_id ORDER BY position DESC LIMIT 1) ORDER BY position"
    )
    entries: list[AuditRow] = []
    for entry in map(_entry, connection.execute(sql, (position,))):
        if entries and entry.command_id != entries[0].command_id:
            break
        entries.append(entry)
    if entries and entries[-1].position >= position:
        return entries
    if at(connection, position) is not None:
        raise DamagedError(AUDIT.name, position, "no command of the log begins with it or before it")
    return []


def caused_by(connection: sqlite3.Connection, event_id: str) -> list[AuditRow]:
    sql = "SELECT * FROM audit WHERE causation_id = ? ORDER BY position"
    return [_entry(row) for row in connection.execute(sql, (event_id,))]


def of_correlation(connection: sqlite3.Connection, correlation_id: str) -> list[AuditRow]:
    sql = "SELECT * FROM audit WHERE correlation_id = ? ORDER BY position"
    return [_entry(row) for row in connection.execute(sql, (correlation_id,))]
