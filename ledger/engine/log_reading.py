"""Reading the log through any connection: one event, one stream, a range, and the row that an id stands for."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import starmap

from msgspec.structs import replace

from ledger.domain import ids
from ledger.domain.errors import (
    AmbiguousIdError,
    ConflictError,
    DamagedError,
    NewerFormatError,
    StorageError,
    UnknownEventError,
)
from ledger.domain.events import (
    LEDGER_STREAM,
    TYPES,
    AnyEvent,
    Blob,
    LedgerBranched,
    LedgerCreated,
    LedgerUpgraded,
    Unknown,
)
from ledger.store import mapper, sqlite_files
from projections.core.projector import FAMILIES, versions
from projections.core.rows import Connection, parted
from projections.views import audit, sessions

READER = WRITER = 1  # the format that this product reads and writes
SALT_BYTES = 16  # before the text of a blob
CANDIDATES = 5  # of an ambiguous id
READ_ROWS = 64  # of the log taken at a time: few enough to be in the processor's cache still when they are decoded


def first_position(connection: Connection, stream: str) -> int | None:
    found = connection.execute("SELECT position FROM events WHERE stream = ? AND version = 1", (stream,)).fetchone()
    return found[0] if found else None


def read_stream(
    connection: Connection, stream: str, up_to: int = 2**62, *, after: int = 0, limit: int = -1
) -> list[AnyEvent]:
    """The events of one subject, in order; so many of them after a position."""
    sql = (
        "SELECT position, version, type, state, key FROM events WHERE stream = ? AND position > ? AND position <= ?"
        " ORDER BY version LIMIT ?"
    )
    rows = connection.execute(sql, (stream, after, up_to, limit)).fetchall()
    first = (first_position(connection, stream) or 0) if after else rows[0][0] if rows else 0
    return [
        _check_fit(connection, mapper.decode(row[0], first, stream, row[1], row[2], row[3], row[4])) for row in rows
    ]


def read_streams(connection: Connection, streams: Sequence[str], up_to: int) -> dict[str, list[AnyEvent]]:
    """The events of some subjects up to a position, each in order."""
    found: dict[str, list[AnyEvent]] = {each: [] for each in streams}
    sql = (
        "SELECT position, stream, version, type, state, key FROM events"
        f" WHERE stream IN ({', '.join('?' * len(streams))}) AND position <= ? ORDER BY position"
    )
    for position, stream, *rest in connection.execute(sql, (*streams, up_to)):
        events = found[stream]
        first = events[0].position if events else position
        events.append(_check_fit(connection, mapper.decode(position, first, stream, *rest)))
    return found


def read_event(connection: Connection, position: int) -> AnyEvent | None:
    sql = "SELECT stream, version, type, state, key FROM events WHERE position = ?"
    row = connection.execute(sql, (position,)).fetchone()
    if row is None:
        return None
    first = position if row[1] == 1 else first_position(connection, row[0]) or position
    return _check_fit(connection, mapper.decode(position, first, *row))


def read_all(connection: Connection, entries: Iterable[audit.Entry]) -> list[AnyEvent]:
    """The events that entries of the trail stand for."""
    found = (read_event(connection, entry.position) for entry in entries)
    return [event for event in found if event is not None]


def read_known(connection: Connection, position: int, first: int) -> AnyEvent:
    """The event at a position that a row of the projections names, of a stream that begins at ``first``."""
    sql = "SELECT stream, version, type, state, key FROM events WHERE position = ?"
    row = connection.execute(sql, (position,)).fetchone()
    if row is None:
        raise StorageError(
            f"the event at position {position} is not there, although a row names it: maintenance.rebuild() "
            "makes the projections again"
        )
    return check_known(connection, mapper.decode(position, first, *row))


def check_known(connection: Connection, event: AnyEvent) -> AnyEvent:
    """The event; ``UnknownEventError`` for one of a newer version, ``DamagedError`` where no newer version wrote to this log."""
    if isinstance(event.data, Unknown):
        if is_for_newer_writers(connection):
            raise UnknownEventError(f"the event at position {event.position} is of a newer version than this product")
        why = f"holds a {event.type:.60} that no version is known to have written"
        raise DamagedError("events", event.position, why)
    return event


def _check_fit(connection: Connection, event: AnyEvent) -> AnyEvent:
    """The event, which may be an unknown one; ``DamagedError`` where its data fit neither its type nor a newer version's."""
    if not isinstance(event.data, Unknown) or event.type not in TYPES or event.type == LedgerUpgraded.__name__:
        return event
    if event.envelope.schema > TYPES[event.type].schema:
        return event
    if event.type == LedgerCreated.__name__ or not is_for_newer_writers(connection):  # which asks the first event, too
        raise DamagedError("events", event.position, f"holds what no {event.type} can be")
    return event


def is_for_newer_writers(connection: Connection) -> bool:
    """Whether the log's last upgrade lets only a newer version than this one write it."""
    upgrade = read_event(connection, last_upgrade(connection) or 1)
    return upgrade is not None and least(upgrade)[1] > WRITER


def read_messages(
    connection: Connection, session: int, ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[sessions.Message, AnyEvent]]:
    """The messages of a session in these ranges with their events, oldest first."""
    sql = (
        "SELECT m.*, e.stream, e.version, e.type, e.state, e.key FROM messages m CROSS JOIN events e ON e.position = m.row"
        " WHERE m.session = ? AND m.row BETWEEN ? AND ? ORDER BY m.row"
    )
    width = len(sessions.MESSAGES.names)
    for span in sorted(ranges):
        for found in connection.execute(sql, (session, *span)):
            event = check_known(connection, mapper.decode(found[0], session, *found[width:]))
            yield sessions.message_of(found[:width]), event


def find_row(connection: Connection, given: object, kind: str, user: str) -> int | None:
    """The row of a subject of one user by id or unambiguous prefix; a blank or foreign one finds nothing.

    ``AmbiguousIdError`` for the beginning of several ids, with the first of them.
    """
    if not isinstance(given, str) or not ids.is_prefix(given, kind) or len(given) < 3:
        return None
    which, values = (
        ("e.stream = ?", [given])
        if len(given) == ids.LENGTH
        else ("e.stream >= ? AND e.stream < ?", [given, given + "~"])
    )
    sql = (  # CROSS JOIN: the log's own index first, whatever the planner thinks of a small table
        f"SELECT t.row FROM events e CROSS JOIN {FAMILIES[kind].live.name} t ON t.row = e.position"
        f" WHERE {which} AND e.version = 1 AND t.user = ? LIMIT {CANDIDATES + 1}"
    )
    matches = connection.execute(sql, (*values, user)).fetchall()
    if len(matches) > 1:
        raise _ambiguous(connection, given, kind, [row for (row,) in matches])
    return matches[0][0] if matches else None


def _ambiguous(connection: Connection, given: str, kind: str, rows: list[int]) -> AmbiguousIdError:
    table, words = FAMILIES[kind].live, {"m": "content", "o": "text", "d": "title", "p": "name"}.get(kind, "''")
    sql = f"SELECT id, {words} FROM {table.name} WHERE row = ?"
    found = [connection.execute(sql, (row,)).fetchone() for row in rows[:CANDIDATES]]
    listed = ", ".join(f"{id} ({str(text)[:40]})" if text else id for id, text in found)
    more = " and more" if len(rows) > CANDIDATES else ""
    return AmbiguousIdError(
        f"{given!r} is the beginning of several ids: {listed}{more}; give more of it",
        candidates=tuple(id for id, _ in found),
    )


def check_tables(connection: Connection, secret: bytes) -> tuple[int, set[str]]:
    """The generation of the tables and what is suspended; ``ConflictError`` when their version is not this product's."""
    found = connection.execute("SELECT name, version, suspended_at FROM projections").fetchall()
    if {name: version for name, version, _ in found} != versions():
        raise ConflictError("the projections of this ledger were changed by another version of the product: reopen it")
    folded = connection.execute("SELECT generation FROM checkpoint WHERE id = 1").fetchone()
    if folded is None:
        raise ConflictError("the checkpoint of this ledger's projections is gone: reopen it")
    return folded[0], {name for name, _, suspended_at in found if suspended_at is not None}


def decode_range(connection: Connection, first: int, last: int) -> Iterator[AnyEvent]:
    """The events between two positions, each with the first position of its stream."""
    return decode_where(connection, "e.position BETWEEN ? AND ?", (first, last))


def decode_where(connection: Connection, where: str, values: Sequence[object], limit: int = -1) -> Iterator[AnyEvent]:
    """So many of the events ``e`` for which a condition holds, oldest first, each with the first position of its stream."""
    sql = (
        "SELECT e.position, CASE e.version WHEN 1 THEN e.position ELSE"
        " (SELECT f.position FROM events f WHERE f.stream = e.stream AND f.version = 1) END,"
        f" e.stream, e.version, e.type, e.state, e.key FROM events e WHERE {where} ORDER BY e.position LIMIT ?"
    )
    rows = connection.execute(sql, (*values, limit))
    while some := rows.fetchmany(READ_ROWS):
        yield from starmap(mapper.decode, some)


def blobs_named(position: int, stream: str, version: int, type_: str, state: str) -> Iterator[Blob]:
    """The texts that an event left to the blobs table: what its fields declare, not what only looks like one."""
    if '"blob":' in state:
        data = mapper.decode(position, position, stream, version, type_, state).data
        for name in getattr(data, "__struct_fields__", ()):
            if isinstance(blob := getattr(data, name), Blob):
                yield blob


def read_blob(connection: Connection, blob: str) -> str | None:
    """A text that lies in the blobs table, as it is there; None where it was erased."""
    row = connection.execute("SELECT data FROM blobs WHERE id = ?", (blob,)).fetchone()
    if row is None or row[0] is None:
        return None
    if not isinstance(row[0], bytes):
        raise damaged_blob(connection, blob)
    return str(row[0][SALT_BYTES:], "utf-8", "replace")


def damaged_blob(connection: Connection, blob: str) -> DamagedError:
    """What is said of a text outside the log that is not the one that an event named."""
    sql = "SELECT min(position) FROM main.events WHERE instr(state, ?)"
    (position,) = connection.execute(sql, (f'"blob":"{blob}"',)).fetchone()
    return DamagedError("events", position, f"names the text {blob}, which is not there as it was recorded")


def decode_known(connection: Connection, first: int, last: int) -> Iterator[AnyEvent]:
    """The same, for a fold that decisions will rest on; ``UnknownEventError`` at the first that this product does not know.

    A newer version first appends LedgerUpgraded, after which this one writes no more: so such a row is damage.
    """
    for event in decode_range(connection, first, last):
        if isinstance(event.data, Unknown):
            check_upgrade(connection, last_upgrade(connection))
            raise _unexplained(event.position, event.type)
        yield event


class Reading:
    """The log as folds read it, through whatever connection ``connect`` gives at the time."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect

    def streams(self, streams: Sequence[str], up_to: int) -> dict[str, list[AnyEvent]]:
        return read_streams(self._connect(), streams, up_to)

    def streams_within(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[str, int]]:
        """(stream, first position) of every stream with an event in these ranges, by first position."""
        connection = self._connect()
        sql = (
            "SELECT DISTINCT stream, CASE version WHEN 1 THEN position ELSE"
            " (SELECT f.position FROM events f WHERE f.stream = e.stream AND f.version = 1) END"
            " FROM events e WHERE position "
        )
        single = [first for first, last in ranges if first == last]
        asked: list[tuple[str, tuple[int, ...]]] = [
            (f"{sql}BETWEEN ? AND ?", each) for each in ranges if each[0] < each[1]
        ]
        asked += [(f"{sql}IN ({', '.join('?' * len(some))})", some) for some in parted(single)]
        found = {stream: first for each in asked for stream, first in connection.execute(*each)}
        return sorted(found.items(), key=lambda each: each[1])

    def blob(self, blob: str) -> str | None:
        return read_blob(self._connect(), blob)

    def events(self, first: int, last: int) -> Iterator[AnyEvent]:
        return decode_range(self._connect(), first, last)

    def known(self, first: int, last: int) -> Iterator[AnyEvent]:
        return decode_known(self._connect(), first, last)


class ReadingOn(Reading):
    """The log as who only reads takes it: without the rows of no known type that are no events."""

    def events(self, first: int, last: int) -> Iterator[AnyEvent]:
        sql = "SELECT position FROM main.events WHERE position BETWEEN ? AND ?"
        known = f" AND type NOT IN ({', '.join('?' * len(TYPES))}) ORDER BY position"
        for (position,) in self._connect().execute(sql + known, (first, last, *TYPES)).fetchall():
            with suppress(DamagedError):
                read_event(self._connect(), position)
                continue
            yield from super().events(first, position - 1)
            first = position + 1
        yield from super().events(first, last)


# --- whose log it is ----------------------------------------------------------------------------------------------


def branchings(connection: Connection) -> list[AnyEvent]:
    """Where this log became that of another ledger, oldest first."""
    sql = (
        "SELECT position, stream, version, type, state FROM main.events WHERE stream = ? AND type = ? ORDER BY version"
    )
    rows = connection.execute(sql, (LEDGER_STREAM, LedgerBranched.__name__))
    return [mapper.decode(row[0], 1, *row[1:]) for row in rows]


def owner(connection: Connection, created: LedgerCreated) -> LedgerCreated:
    """The first event with the id that the ledger has now, which is another one in a branch.

    The projections know it; where they stand for the first event's, or are not there, the log is asked.
    """
    with suppress(sqlite3.Error):
        if connection.execute("SELECT ledger FROM main.checkpoint WHERE id = 1").fetchall() == [(created.ledger_id,)]:
            return created
    found = branchings(connection)
    return replace(created, ledger_id=found[-1].data.ledger_id) if found else created


# --- the format that the log asks for --------------------------------------------------------------------------------


def last_upgrade(connection: Connection, after: int = 0) -> int | None:
    """The position of the last LedgerUpgraded behind a position."""
    sql = "SELECT max(position) FROM main.events WHERE position > ? AND type = ?"
    found: int | None = connection.execute(sql, (after, LedgerUpgraded.__name__)).fetchone()[0]
    return found


def check_log_since(connection: Connection, after: int) -> None:
    """What others wrote behind a position: ``NewerFormatError`` where this product may not write any more,
    ``UnknownEventError`` for what it does not know although it may."""
    if (version := connection.execute("PRAGMA main.user_version").fetchone()[0]) > sqlite_files.FORMAT:
        raise NewerFormatError(
            f"a newer version gave this ledger the file format {version}, and this product writes {sqlite_files.FORMAT}:"
            " open it readonly"
        )
    check_upgrade(connection, last_upgrade(connection, after))
    if (found := first_unknown(connection, after)) is not None:
        raise _unexplained(*found)


def check_upgrade(connection: Connection, position: int | None, *, readonly: bool = False) -> None:
    event = read_event(connection, position) if position is not None else None
    if event is not None:
        check_format(*least(event), readonly=readonly)


def check_format(least_reader: int, least_writer: int, *, readonly: bool) -> None:
    if least_reader > READER:
        raise NewerFormatError(f"this ledger needs a reader of format {least_reader}, and this product reads {READER}")
    if least_writer > WRITER and not readonly:
        raise NewerFormatError(
            f"this ledger needs a writer of format {least_writer}, and this product writes {WRITER}: open it readonly"
        )


def _unexplained(position: int, type_: str) -> UnknownEventError:
    return UnknownEventError(
        f"the log is damaged: the {mapper.unknown(type_)} at position {position} is nothing that this product knows, and no"
        " upgrade before it says that a newer version wrote it. readonly=True reads it all, and recover() copies the log up"
        " to that position"
    )


def first_unknown(connection: Connection, after: int = 0) -> tuple[int, str] | None:
    """The first row behind a position that is of a type which this product does not know."""
    known = ", ".join("?" * len(TYPES))
    sql = (
        f"SELECT position, type FROM main.events WHERE position > ? AND type NOT IN ({known}) ORDER BY position LIMIT 1"
    )
    row = connection.execute(sql, (after, *TYPES)).fetchone()
    return (row[0], str(row[1])) if row is not None else None


def least(event: AnyEvent) -> tuple[int, int]:
    """The least reader and writer that an upgrade asks for; what cannot be read asks for a newer one."""
    if isinstance(event.data, LedgerCreated | LedgerUpgraded):
        return event.data.least_reader, event.data.least_writer
    decoded = json.loads(bytes(event.data.raw))
    reader, writer = (decoded.get(name, max(READER, WRITER) + 1) for name in ("least_reader", "least_writer"))
    return (reader, writer) if type(reader) is type(writer) is int else (READER + 1, WRITER + 1)
