"""Reads through any connection: events of the log, the subject of an id, and the arguments of a listing.

Folds read the log here too. Checks of the format that the log requires, and a fold into the TEMP tables of one connection, end
the module.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import starmap
from typing import Any

from msgspec.structs import replace

from ledger.domain import ids
from ledger.domain.errors import (
    AmbiguousIdError,
    ConflictError,
    DamagedError,
    NewerFormatError,
    RejectedError,
    StorageError,
    UnknownEventError,
)
from ledger.domain.text import check_text
from ledger.events import LEDGER_STREAM, TYPES, AnyEvent, Blob, LedgerBranched, LedgerCreated, LedgerUpgraded, Unknown
from ledger.log import registry, sqlite_files
from ledger.log.envelope import digest as digest_of
from ledger.log.reading import read_tip
from projections.core import as_of, shadow
from projections.core.projector import FAMILIES, versions
from projections.core.rows import Connection, Start, parted
from projections.views import audit, memories, projects, sessions

READER = WRITER = 1  # the format that this product reads and writes
SALT_BYTES = 16  # of random bytes before the text of a blob
_DIGEST = (
    "CASE WHEN erased_by IS NULL THEN digest END"  # of the state; an erasure changed the state and kept the digest
)
READ_ROWS = 64  # rows fetched at a time, few enough to stay in the processor's cache until they are decoded


# --- events, streams and ranges of the log ---------------------------------------------------------------------------


def first_position(connection: Connection, stream: str) -> int | None:
    row = connection.execute("SELECT position FROM events WHERE stream = ? AND version = 1", (stream,)).fetchone()
    return row[0] if row else None


def read_stream(
    connection: Connection, stream: str, up_to: int = 2**62, *, after: int = 0, limit: int = -1
) -> list[AnyEvent]:
    """Return the events of one subject in their order, at most ``limit`` of them after a position."""
    sql = (
        f"SELECT position, version, type, state, key, {_DIGEST} FROM events"
        " WHERE stream = ? AND position > ? AND position <= ? ORDER BY version LIMIT ?"
    )
    rows = connection.execute(sql, (stream, after, up_to, limit)).fetchall()
    first = (first_position(connection, stream) or 0) if after else rows[0][0] if rows else 0
    return [_decoded(connection, position, first, stream, *rest) for position, *rest in rows]


def read_streams(connection: Connection, streams: Sequence[str], up_to: int) -> dict[str, list[AnyEvent]]:
    """Return the events of several subjects up to a position, each in order."""
    events_of: dict[str, list[AnyEvent]] = {stream: [] for stream in streams}
    sql = (
        f"SELECT position, stream, version, type, state, key, {_DIGEST} FROM events"
        f" WHERE stream IN ({', '.join('?' * len(streams))}) AND position <= ? ORDER BY position"
    )
    for position, stream, *rest in connection.execute(sql, (*streams, up_to)):
        events = events_of[stream]
        first = events[0].position if events else position
        events.append(_decoded(connection, position, first, stream, *rest))
    return events_of


def read_event(connection: Connection, position: int) -> AnyEvent | None:
    sql = f"SELECT stream, version, type, state, key, {_DIGEST} FROM events WHERE position = ?"
    row = connection.execute(sql, (position,)).fetchone()
    if row is None:
        return None
    first = position if row[1] == 1 else first_position(connection, row[0]) or position
    return _decoded(connection, position, first, *row)


def read_all(connection: Connection, entries: Iterable[audit.AuditRow]) -> list[AnyEvent]:
    """Return the events of entries of the audit trail."""
    events = (read_event(connection, entry.position) for entry in entries)
    return [event for event in events if event is not None]


def read_known(connection: Connection, position: int, first: int) -> AnyEvent:
    """Return the event at a position that a row of the projections names, of a stream that begins at ``first``."""
    sql = "SELECT stream, version, type, state, key FROM events WHERE position = ?"
    row = connection.execute(sql, (position,)).fetchone()
    if row is None:
        raise StorageError(
            f"the event at position {position} is missing, although a row of the projections names it: "
            "maintenance.rebuild() makes the projections again"
        )
    return check_known(connection, registry.decode(position, first, *row))


def check_known(connection: Connection, event: AnyEvent) -> AnyEvent:
    """Return the event if its type is known.

    Raises:
        UnknownEventError: A newer version wrote the event.
        DamagedError: No newer version wrote to this log, so the event's row is damaged.
    """
    if isinstance(event.data, Unknown):
        if is_for_newer_writers(connection):
            raise UnknownEventError(
                f"a newer version wrote the event at position {event.position}, which this version cannot read"
            )
        why = f"holds a {event.type:.60} that no known version wrote"
        raise DamagedError("events", event.position, why)
    return event


def _decoded(
    connection: Connection,
    position: int,
    first: int,
    stream: str,
    version: int,
    type_: str,
    state: str,
    key: bytes | None,
    digest: bytes | None,
) -> AnyEvent:
    """Return the event of a row that is shown to somebody; raise ``DamagedError`` if its state is not what was recorded."""
    event = _check_fit(connection, registry.decode(position, first, stream, version, type_, state, key))
    if digest is not None and digest != digest_of(state.encode()):
        raise DamagedError("events", position, "does not hold the state that was recorded, by its digest")
    return event


def _check_fit(connection: Connection, event: AnyEvent) -> AnyEvent:
    """Return the event, even an unknown one; raise ``DamagedError`` if it fits neither its type nor a newer version."""
    if not isinstance(event.data, Unknown) or event.type not in TYPES or event.type == LedgerUpgraded.__name__:
        return event
    if event.envelope.schema > TYPES[event.type].schema:
        return event
    # a damaged LedgerCreated must not be read again by is_for_newer_writers
    if event.type == LedgerCreated.__name__ or not is_for_newer_writers(connection):
        raise DamagedError("events", event.position, f"holds data that no {event.type} can have")
    return event


def read_messages(
    connection: Connection, session: int, ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[sessions.MessageRow, AnyEvent]]:
    """Yield the messages of a session in these ranges with their events, oldest first."""
    sql = (
        "SELECT m.*, e.stream, e.version, e.type, e.state, e.key FROM messages m CROSS JOIN events e ON e.position = m.row"
        " WHERE m.session = ? AND m.row BETWEEN ? AND ? ORDER BY m.row"
    )
    width = len(sessions.MESSAGES.names)
    for span in sorted(ranges):
        for row in connection.execute(sql, (session, *span)):
            event = check_known(connection, registry.decode(row[0], session, *row[width:]))
            yield sessions.message_of(row[:width]), event


def decode_range(connection: Connection, first: int, last: int) -> Iterator[AnyEvent]:
    """Yield the events between two positions, each with the first position of its stream."""
    return decode_where(connection, "e.position BETWEEN ? AND ?", (first, last))


def decode_where(connection: Connection, where: str, values: Sequence[object], limit: int = -1) -> Iterator[AnyEvent]:
    """Yield the events ``e`` that meet a condition, at most ``limit``, each with the first position of its stream."""
    sql = (
        "SELECT e.position, CASE e.version WHEN 1 THEN e.position ELSE"
        " (SELECT f.position FROM events f WHERE f.stream = e.stream AND f.version = 1) END,"
        f" e.stream, e.version, e.type, e.state, e.key FROM events e WHERE {where} ORDER BY e.position LIMIT ?"
    )
    rows = connection.execute(sql, (*values, limit))
    while chunk := rows.fetchmany(READ_ROWS):
        yield from starmap(registry.decode, chunk)


def blobs_named(position: int, stream: str, version: int, type_: str, state: str) -> Iterator[Blob]:
    """Yield the texts of an event in the blobs table: those that its fields declare, not text that looks like a blob."""
    if '"blob":' in state:
        data = registry.decode(position, position, stream, version, type_, state).data
        for name in getattr(data, "__struct_fields__", ()):
            if isinstance(blob := getattr(data, name), Blob):
                yield blob


def read_blob(connection: Connection, blob: str) -> str | None:
    """Return a text from the blobs table; None if the text was erased."""
    row = connection.execute("SELECT data FROM blobs WHERE id = ?", (blob,)).fetchone()
    if row is None or row[0] is None:
        return None
    if not isinstance(row[0], bytes):
        raise damaged_blob(connection, blob)
    return str(row[0][SALT_BYTES:], "utf-8", "replace")


def damaged_blob(connection: Connection, blob: str) -> DamagedError:
    """Return the error about a text outside the log that differs from the text that an event named."""
    sql = "SELECT min(position) FROM main.events WHERE instr(state, ?)"
    (position,) = connection.execute(sql, (f'"blob":"{blob}"',)).fetchone()
    return DamagedError("events", position, f"names the text {blob}, which is missing or is not as it was recorded")


# --- from ids and rows to states and texts ----------------------------------------------------------------------------

CANDIDATES = 5  # the most ids in the error about an ambiguous id


def find_row(connection: Connection, reference: object, kind: str, user: str) -> int | None:
    """Return the row of a user's subject by its id or an unambiguous prefix; None for a blank or foreign id.

    Raises:
        AmbiguousIdError: Several ids begin so; the error names the first of them.
    """
    if not isinstance(reference, str) or not ids.is_prefix(reference, kind) or len(reference) < ids.LEAST:
        return None
    condition, values = (
        ("e.stream = ?", [reference])
        if len(reference) == ids.LENGTH
        else ("e.stream >= ? AND e.stream < ?", [reference, reference + "~"])
    )
    sql = (  # CROSS JOIN makes the planner use the log's own index first, even if the other table is small
        f"SELECT t.row FROM events e CROSS JOIN {FAMILIES[kind].live.name} t ON t.row = e.position"
        f" WHERE {condition} AND e.version = 1 AND t.user = ? LIMIT {CANDIDATES + 1}"
    )
    matches = connection.execute(sql, (*values, user)).fetchall()
    if len(matches) > 1:
        raise _ambiguous(connection, reference, kind, [row for (row,) in matches])
    return matches[0][0] if matches else None


def _ambiguous(connection: Connection, reference: str, kind: str, rows: list[int]) -> AmbiguousIdError:
    table, words = (
        FAMILIES[kind].live,
        {"m": "content", "o": "text", "d": "title", "p": "name", "v": "name"}.get(kind, "''"),
    )
    sql = f"SELECT id, {words} FROM {table.name} WHERE row = ?"
    candidates = [connection.execute(sql, (row,)).fetchone() for row in rows[:CANDIDATES]]
    listed = ", ".join(f"{id} ({str(text)[:40]})" if text else id for id, text in candidates)
    more = " and more" if len(rows) > CANDIDATES else ""
    return AmbiguousIdError(
        f"{reference!r} is the beginning of several ids: {listed}{more}; give more characters of the id",
        candidates=tuple(id for id, _ in candidates),
    )


def load(connection: Connection, reference: str, kind: str, user: str) -> Any:
    """Return the state of a user's subject by id or unambiguous prefix."""
    row = find_row(connection, reference, kind, user)
    return FAMILIES[kind].get(connection, row) if row is not None else None


def owned_stream(connection: Connection, reference: str, kind: str, owner: str) -> str | None:
    """Return the stream of a user's subject by id or unambiguous prefix, even of a subject that was undone."""
    state = load(connection, reference, kind, owner)
    if state is not None:
        return str(state.id)
    if not isinstance(reference, str) or not ids.is_prefix(reference, kind) or len(reference) < 3:
        return None
    sql = "SELECT position FROM events WHERE stream >= ? AND stream < ? AND version = 1 LIMIT 100"
    firsts = connection.execute(sql, (reference, reference + "~")).fetchall()
    events = (read_event(connection, first) for (first,) in firsts)
    streams = [event.stream for event in events if event is not None and event.envelope.user == owner]
    return streams[0] if len(streams) == 1 else None


def event_data(connection: Connection, position: int) -> Any:
    return read_known(connection, position, position).data


def text_of(connection: Connection, body: str | Blob | None) -> str | None:
    """Return a text of an event from the event or the blobs table; None if the text was erased."""
    if not isinstance(body, Blob):
        return body
    row = connection.execute("SELECT data, erased_by FROM blobs WHERE id = ?", (body.blob,)).fetchone()
    if row is not None and row[0] is None and row[1] is not None:
        return None
    if row is None or not isinstance(row[0], bytes) or hashlib.sha256(row[0]).hexdigest() != body.digest:
        raise damaged_blob(connection, body.blob)
    return str(row[0][SALT_BYTES:], "utf-8")


def texts_at(connection: Connection, position: int | None, *names: str) -> dict[str, str | None]:
    """Return texts of the event at a position by the names of their fields; blank without a position."""
    data = event_data(connection, position) if position is not None else None
    return {name: text_of(connection, getattr(data, name)) if data is not None else "" for name in names}


# --- the arguments of a listing: filters, places and limits ----------------------------------------------------------

NOWHERE = "nowhere"  # stands for a name that nothing has
LIST_LIMIT, LIST_CAP = 50, 500
MEMORY_CAP = 1_000_000
PAGE_CAP = 1_001  # the longest page, and one item more, which shows if there is another page

Place = tuple[str | None, bool]
"""The id behind which a page begins, or None for the first page; and True for a page that is oldest first."""


def start_behind(connection: Connection, stream: str | None, *, oldest_first: bool) -> Start:
    """Return the start of a page behind the subject of a stream; of the first page without a stream."""
    return Start(first_position(connection, stream) if stream is not None else None, oldest_first)


def start_in_time(connection: Connection, place: str | None, *, oldest_first: bool) -> Start:
    """Return the start of a page by time, behind a place of ``place_in_time``; of the first page without a place."""
    time, _, stream = (place or "").partition(" ")
    return Start(first_position(connection, stream) if stream else None, oldest_first, time)


def place_in_time(time: str, stream: str) -> str:
    """Return the place of a subject in a listing by time, for the cursor."""
    return f"{time} {stream}"


def bounded_limit(limit: int | None, cap: int = LIST_CAP) -> int:
    """Return the limit of a listing, from 0 to ``cap``; ``cap`` without a limit."""
    if limit is None:
        return cap
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise RejectedError(f"limit is a whole number, and {limit!r:.40} is not")
    return max(0, min(limit, cap))


def believed_statuses(valid: str | None, statuses: tuple[str, ...]) -> tuple[str, ...]:
    """Return the statuses to list: those of a filter, or for a time of the world those of memories true at that time."""
    if valid is None:
        return statuses
    if statuses in ((), ("active",)):
        return memories.BELIEVED
    if never := set(statuses) - set(memories.BELIEVED):
        raise RejectedError(
            f"valid= asks for memories that were true at a time, and a memory that is {min(never)} was not; "
            f"allowed are {', '.join(memories.BELIEVED)}, and all"
        )
    return statuses


def id_of_filter(connection: Connection, owner: str, kind: str, name: str | None) -> str | None:
    """Return the id of a filter's project or session; None for the filters "" and None.

    A project that was joined to another is found under the other.
    """
    if name is None or not check_text("a name", name, blank_allowed=True).strip():
        return None
    place = projects.find(connection, owner, kind, name)
    try:
        row = find_row(connection, name, kind, owner) if place is None else None
    except AmbiguousIdError:
        return NOWHERE
    id = place[0] if place is not None else NOWHERE
    if row is not None:
        id = str(connection.execute(f"SELECT id FROM {FAMILIES[kind].live.name} WHERE row = ?", (row,)).fetchone()[0])
    return projects.main(connection, id) if kind == "p" else id


def scope_of(connection: Connection, owner: str, project: str | None) -> list[str | None] | None:
    """Return the projects of a filter: the named project with those that are joined to it.

    The list holds None for memories without a project (the filter ""), and ``NOWHERE`` for an unknown name. Without a filter
    the result is None.
    """
    if project is None:
        return None
    return list(projects.together(connection, id_of_filter(connection, owner, "p", project)))


# --- the log as a fold reads it ---------------------------------------------------------------------------------------


def decode_known(connection: Connection, first: int, last: int) -> Iterator[AnyEvent]:
    """Yield the events between two positions for a fold that decisions rest on.

    Raises:
        UnknownEventError: This product does not know an event. A newer version first appends LedgerUpgraded, after which
            this version writes no more, so such a row is damage.
    """
    for event in decode_range(connection, first, last):
        if isinstance(event.data, Unknown):
            check_upgrade(connection, last_upgrade(connection))
            raise _unexplained(event.position, event.type)
        yield event


class FoldReading:
    """The log for folds, through the connection that ``connect`` returns at the time."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect

    def streams(self, streams: Sequence[str], up_to: int) -> dict[str, list[AnyEvent]]:
        return read_streams(self._connect(), streams, up_to)

    def streams_within(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[str, int]]:
        """Return (stream, first position) of every stream with an event in these ranges, by first position."""
        connection = self._connect()
        sql = (
            "SELECT DISTINCT stream, CASE version WHEN 1 THEN position ELSE"
            " (SELECT f.position FROM events f WHERE f.stream = e.stream AND f.version = 1) END"
            " FROM events e WHERE position "
        )
        single = [first for first, last in ranges if first == last]
        queries: list[tuple[str, tuple[int, ...]]] = [
            (f"{sql}BETWEEN ? AND ?", span) for span in ranges if span[0] < span[1]
        ]
        queries += [(f"{sql}IN ({', '.join('?' * len(part))})", part) for part in parted(single)]
        streams = {stream: first for query in queries for stream, first in connection.execute(*query)}
        return sorted(streams.items(), key=lambda item: item[1])

    def blob(self, blob: str) -> str | None:
        return read_blob(self._connect(), blob)

    def events(self, first: int, last: int) -> Iterator[AnyEvent]:
        return decode_range(self._connect(), first, last)

    def known(self, first: int, last: int) -> Iterator[AnyEvent]:
        return decode_known(self._connect(), first, last)


class ReadonlyFoldReading(FoldReading):
    """The log for callers that only read: rows of unknown types that are not events are left out."""

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


# --- the ledger's id and the format that the log requires ------------------------------------------------------------


def branchings(connection: Connection) -> list[AnyEvent]:
    """Return the events at which this log became the log of another ledger, oldest first."""
    sql = (
        "SELECT position, stream, version, type, state FROM main.events WHERE stream = ? AND type = ? ORDER BY version"
    )
    rows = connection.execute(sql, (LEDGER_STREAM, LedgerBranched.__name__))
    return [registry.decode(row[0], 1, *row[1:]) for row in rows]


def with_present_id(connection: Connection, created: LedgerCreated) -> LedgerCreated:
    """Return the first event with the ledger's present id, which differs in a branch.

    The id comes from the projections, or from the log if they are missing or do not state the first event's id.
    """
    with suppress(sqlite3.Error):
        if connection.execute("SELECT ledger FROM main.checkpoint WHERE id = 1").fetchall() == [(created.ledger_id,)]:
            return created
    branches = branchings(connection)
    return replace(created, ledger_id=branches[-1].data.ledger_id) if branches else created


def check_upgrade(connection: Connection, position: int | None, *, readonly: bool = False) -> None:
    event = read_event(connection, position) if position is not None else None
    if event is not None:
        check_format(*least_formats(event), readonly=readonly)


def check_format(least_reader: int, least_writer: int, *, readonly: bool) -> None:
    if least_reader > READER:
        raise NewerFormatError(f"this ledger needs a reader of format {least_reader}, and this product reads {READER}")
    if least_writer > WRITER and not readonly:
        raise NewerFormatError(
            f"this ledger needs a writer of format {least_writer}, and this product writes {WRITER}:"
            " open it with readonly=True"
        )


def is_for_newer_writers(connection: Connection) -> bool:
    """Return True if the log's last upgrade lets only newer versions write."""
    upgrade = read_event(connection, last_upgrade(connection) or 1)
    return upgrade is not None and least_formats(upgrade)[1] > WRITER


def last_upgrade(connection: Connection, after: int = 0) -> int | None:
    """Return the position of the last LedgerUpgraded after a position; None if there is none."""
    sql = "SELECT max(position) FROM main.events WHERE position > ? AND type = ?"
    position: int | None = connection.execute(sql, (after, LedgerUpgraded.__name__)).fetchone()[0]
    return position


def least_formats(event: AnyEvent) -> tuple[int, int]:
    """Return the least reader and writer that an upgrade requires; an unreadable upgrade requires a newer one."""
    if isinstance(event.data, LedgerCreated | LedgerUpgraded):
        return event.data.least_reader, event.data.least_writer
    decoded = json.loads(bytes(event.data.raw))
    reader, writer = (decoded.get(name, max(READER, WRITER) + 1) for name in ("least_reader", "least_writer"))
    return (reader, writer) if type(reader) is type(writer) is int else (READER + 1, WRITER + 1)


def check_log_since(connection: Connection, after: int) -> None:
    """Check the events that others wrote after a position.

    Raises:
        NewerFormatError: A newer version wrote to the log, so this version may not write any more.
        UnknownEventError: This version may write, but does not know an event.
    """
    if (version := connection.execute("PRAGMA main.user_version").fetchone()[0]) > sqlite_files.FORMAT:
        raise NewerFormatError(
            f"a newer version gave this ledger the file format {version}, and this product writes {sqlite_files.FORMAT}:"
            " open it with readonly=True"
        )
    check_upgrade(connection, last_upgrade(connection, after))
    if (unknown := first_unknown(connection, after)) is not None:
        raise _unexplained(*unknown)


def first_unknown(connection: Connection, after: int = 0) -> tuple[int, str] | None:
    """Return the position and type of the first event after a position whose type this product does not know."""
    known = ", ".join("?" * len(TYPES))
    sql = (
        f"SELECT position, type FROM main.events WHERE position > ? AND type NOT IN ({known}) ORDER BY position LIMIT 1"
    )
    row = connection.execute(sql, (after, *TYPES)).fetchone()
    return (row[0], str(row[1])) if row is not None else None


def _unexplained(position: int, type_: str) -> UnknownEventError:
    return UnknownEventError(
        f"the log is damaged: this product does not know the {registry.unknown(type_)} at position {position}, and no upgrade"
        " before it says that a newer version wrote it. readonly=True reads the whole log, and recover() copies the log up"
        " to that position"
    )


# --- the projections' tables: of the file, and of one connection before them -----------------------------------------


def check_tables(connection: Connection, secret: bytes) -> tuple[int, frozenset[str]]:
    """Return the generation of the tables and the suspended projections; raise ``ConflictError`` for another version."""
    sql = "SELECT name, version, suspended_at, (SELECT generation FROM checkpoint WHERE id = 1) FROM projections"
    rows = connection.execute(sql).fetchall()
    if {name: version for name, version, _, _ in rows} != versions():
        raise ConflictError("another version of the product changed the projections of this ledger: reopen the ledger")
    generation = rows[0][3]
    if generation is None:
        raise ConflictError("the checkpoint of this ledger's projections is missing: reopen the ledger")
    return generation, frozenset(name for name, _, suspended_at, _ in rows if suspended_at is not None)


def fold_to(connection: Connection, position: int | None, secret: bytes, ledger_id: str) -> None:
    """Fold the log up to a position (None for its end), on a connection that hides the log behind the position.

    Nothing is done if the tables are of that position already.
    """
    head = connection.execute("SELECT max(position) FROM main.events").fetchone()[0]
    if position is None:
        position = int(head)
    if not as_of.is_folded(connection, position, head):
        as_of.drop_folded(connection)
        as_of.stand_folded(connection, position, head)
        _fold(connection, secret, ledger_id)


def fold_new_events(connection: Connection, secret: bytes, ledger_id: str) -> None:
    """Fold the new events of the log.

    The whole log is folded if there are no such tables yet, or if an erasure took texts that they hold.
    """
    position, head = read_tip(connection.cursor())
    if connection.execute("SELECT 1 FROM temp.sqlite_master WHERE name = 'checkpoint'").fetchone():
        (folded,) = connection.execute("SELECT position FROM temp.checkpoint").fetchone()
        if not as_of.was_erased(connection, folded, position):
            shadow.fold_on(connection, ReadonlyFoldReading(lambda: connection), secret, position, head)
            return
        as_of.drop_folded(connection)
    _fold(connection, secret, ledger_id)


def _fold(connection: Connection, secret: bytes, ledger_id: str) -> None:
    position, head = read_tip(connection.cursor())
    shadow.fold_into(
        connection, ReadonlyFoldReading(lambda: connection), secret, ledger_id, position, head, temporary=True
    )
