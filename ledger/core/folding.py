"""The log as a fold reads it, the format that the log requires, and projections folded into the TEMP tables of one connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from msgspec.structs import replace

from ledger.core.reads import READER, WRITER, decode_range, last_upgrade, least, read_blob, read_event, read_streams
from ledger.domain.errors import DamagedError, NewerFormatError, UnknownEventError
from ledger.events import LEDGER_STREAM, TYPES, AnyEvent, LedgerBranched, LedgerCreated, Unknown
from ledger.log import registry, sqlite_files
from ledger.log.reading import read_tip
from projections.core import as_of, shadow
from projections.core.rows import Connection, parted


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


class ReadingOn(FoldReading):
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


def owner(connection: Connection, created: LedgerCreated) -> LedgerCreated:
    """Return the first event with the ledger's present id, which differs in a branch.

    The id comes from the projections, or from the log if they are missing or do not state the first event's id.
    """
    with suppress(sqlite3.Error):
        if connection.execute("SELECT ledger FROM main.checkpoint WHERE id = 1").fetchall() == [(created.ledger_id,)]:
            return created
    branches = branchings(connection)
    return replace(created, ledger_id=branches[-1].data.ledger_id) if branches else created


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


def check_upgrade(connection: Connection, position: int | None, *, readonly: bool = False) -> None:
    event = read_event(connection, position) if position is not None else None
    if event is not None:
        check_format(*least(event), readonly=readonly)


def check_format(least_reader: int, least_writer: int, *, readonly: bool) -> None:
    if least_reader > READER:
        raise NewerFormatError(f"this ledger needs a reader of format {least_reader}, and this product reads {READER}")
    if least_writer > WRITER and not readonly:
        raise NewerFormatError(
            f"this ledger needs a writer of format {least_writer}, and this product writes {WRITER}:"
            " open it with readonly=True"
        )


def _unexplained(position: int, type_: str) -> UnknownEventError:
    return UnknownEventError(
        f"the log is damaged: this product does not know the {registry.unknown(type_)} at position {position}, and no upgrade"
        " before it says that a newer version wrote it. readonly=True reads the whole log, and recover() copies the log up"
        " to that position"
    )


def first_unknown(connection: Connection, after: int = 0) -> tuple[int, str] | None:
    """Return the position and type of the first event after a position whose type this product does not know."""
    known = ", ".join("?" * len(TYPES))
    sql = (
        f"SELECT position, type FROM main.events WHERE position > ? AND type NOT IN ({known}) ORDER BY position LIMIT 1"
    )
    row = connection.execute(sql, (after, *TYPES)).fetchone()
    return (row[0], str(row[1])) if row is not None else None


# --- tables of one connection, which come before the tables of the file ----------------------------------------------


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


def follow(connection: Connection, secret: bytes, ledger_id: str) -> None:
    """Fold the new events of the log.

    The whole log is folded if there are no such tables yet, or if an erasure took texts that they hold.
    """
    position, head = read_tip(connection.cursor())
    if connection.execute("SELECT 1 FROM temp.sqlite_master WHERE name = 'checkpoint'").fetchone():
        (folded,) = connection.execute("SELECT position FROM temp.checkpoint").fetchone()
        if not as_of.was_erased(connection, folded, position):
            shadow.fold_on(connection, ReadingOn(lambda: connection), secret, position, head)
            return
        as_of.drop_folded(connection)
    _fold(connection, secret, ledger_id)


def _fold(connection: Connection, secret: bytes, ledger_id: str) -> None:
    position, head = read_tip(connection.cursor())
    shadow.fold_into(connection, ReadingOn(lambda: connection), secret, ledger_id, position, head, temporary=True)
