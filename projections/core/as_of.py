"""The tables as they were at an earlier position: TEMP views of the same names, so that reads need no change.

A connection for the past has a TEMP view in front of each table of the file. So ``SELECT … FROM memories`` finds the rows that
were valid at the position in ``temp.moment``: current rows that existed by then, and closed rows that were closed later.
``Table.then`` says how a table keeps its past. A table that keeps no past is hidden by a view that fails.
"""

from __future__ import annotations

import sqlite3
import threading
from bisect import bisect_right
from collections.abc import Iterator

from projections.core.projector import ALL
from projections.core.rows import AsOf, Table, TextIndex
from projections.core.subjects import VOIDED, WERE_VOIDED

MOMENT = "(SELECT position FROM temp.moment)"
HEAD = 2**62  # a position after the end of every log, for "everything that is committed"
BLOCK = 4_096  # the number of positions for which one latest time is kept

_LOG = "SELECT position, stream, version, type, state, digest, head, key, erased_by FROM main.events"
_NOWHERE = "SELECT * FROM temp.what_keeps_no_past"  # a table that does not exist
_VIEWS = {  # for tables that belong to no projection
    "checkpoint": f"SELECT id, ledger, generation, min(position, {MOMENT}) AS position,"
    f" (SELECT e.head FROM main.events e WHERE e.position = min(c.position, {MOMENT})) AS head FROM main.checkpoint c",
    "projections": f"SELECT name, version, CASE WHEN suspended_at <= {MOMENT} THEN suspended_at END AS suspended_at,"
    f" CASE WHEN suspended_at <= {MOMENT} THEN error END AS error FROM main.projections",
}


def shadow(connection: sqlite3.Connection, log: str = _LOG) -> None:
    """Create the views that hide the tables of the file, once for a connection; ``stand`` then sets their position.

    Args:
        connection: The connection.
        log: The SELECT of the rows of the log.
    """
    shadow_the_log(connection, log)
    shadow_control(connection)
    for name, sql in views().items():
        connection.execute(f"CREATE TEMP VIEW {name} AS {sql}")


def shadow_the_log(connection: sqlite3.Connection, log: str = _LOG) -> None:
    """Create the view of the log alone, for a connection whose projections are folded up to the moment."""
    begin(connection)
    connection.execute(f"CREATE TEMP VIEW events AS {log_then(log)}")


def begin(connection: sqlite3.Connection) -> None:
    """Create the table that holds the position of a connection's views."""
    connection.execute("PRAGMA temp_store = MEMORY")  # no text goes to another disk
    connection.execute("CREATE TEMP TABLE moment (position INTEGER NOT NULL, head INTEGER NOT NULL)")
    connection.execute("INSERT INTO moment VALUES (0, 0)")


def shadow_control(connection: sqlite3.Connection) -> None:
    """Create the views that hide the ledger's checkpoint tables."""
    for name, sql in _VIEWS.items():
        connection.execute(f"CREATE TEMP VIEW {name} AS {sql}")


def log_then(log: str) -> str:
    """Return the SELECT of the log as it was at the moment; ``log`` is the SELECT of the log now."""
    return f"{log} WHERE position <= {MOMENT}"


def is_folded(connection: sqlite3.Connection, position: int, head: int) -> bool:
    """Return True if the TEMP tables are of this position and nothing was erased up to ``head`` since their fold."""
    folded, seen = connection.execute("SELECT position, head FROM temp.moment").fetchone()
    return folded == position and not was_erased(connection, seen, head)


def was_erased(connection: sqlite3.Connection, after: int, head: int) -> bool:
    """Return True if an erasure was recorded after a position; an earlier fold still holds the erased texts."""
    sql = "SELECT 1 FROM main.events WHERE position > ? AND position <= ? AND type = 'ContentErased' LIMIT 1"
    return after < head and connection.execute(sql, (after, head)).fetchone() is not None


def stand_folded(connection: sqlite3.Connection, position: int, head: int) -> None:
    connection.execute("UPDATE temp.moment SET position = ?, head = ?", (position, head))


def drop_folded(connection: sqlite3.Connection) -> None:
    """Drop the TEMP tables of a fold."""
    for name in ("checkpoint", "projections", *(table.name for table in tables())):
        connection.execute(f"DROP TABLE IF EXISTS temp.{name}")


def tables() -> Iterator[Table | TextIndex]:
    """Return the tables of every projection."""
    return (table for projection in ALL for table in projection.tables)


def stand(connection: sqlite3.Connection, position: int) -> None:
    connection.execute("UPDATE temp.moment SET position = ?", (position,))


def views() -> dict[str, str]:
    """Return the SELECT of each projection's tables at the moment, by table name."""
    return {table.name: view(table) for table in tables()}


def view(table: Table | TextIndex) -> str:
    """Return the SELECT of a table's rows at the moment, with the columns of the table."""
    then = None if isinstance(table, TextIndex) else table.then
    if isinstance(table, TextIndex) or then is None or not then.since:
        return _NOWHERE
    columns = [_column(name, then) for name in table.names]
    current = f"SELECT {', '.join(columns)} FROM main.{table.name} t WHERE t.{then.since} <= {MOMENT}"
    if not then.closed:
        return current
    not_yet = f"t.{then.since} <= {MOMENT} AND t.to_position > {MOMENT}"
    return f"{current} UNION ALL SELECT {', '.join(columns)} FROM main.{then.closed} t WHERE {not_yet}"


def _column(name: str, then: AsOf) -> str:
    if name == then.ends:
        return f"CASE WHEN t.{name} <= {MOMENT} THEN t.{name} END AS {name}"
    if name == then.undone:
        still, was = (
            f"(SELECT min(o.from_position) FROM main.{table.name} o WHERE o.position = t.{then.since}"
            f" AND o.from_position <= {MOMENT}{until})"
            for table, until in ((VOIDED, ""), (WERE_VOIDED, f" AND o.to_position > {MOMENT}"))
        )
        return f"min(coalesce({still}, {was}), coalesce({was}, {still})) AS {name}"
    return f"t.{name}"


class Times:
    """The latest recorded time up to each position: a running maximum, because clocks may jump back.

    The maximum is kept for each whole block of the log, which never changes. So a question reads one block only.
    """

    def __init__(self) -> None:
        self._latest: list[str] = []  # up to the end of each block
        self._lock = threading.Lock()

    def at(self, connection: sqlite3.Connection, position: int) -> str:
        """Return the latest time recorded up to a position."""
        self._extend(connection, position)
        block = position // BLOCK
        in_block = _latest(connection, block * BLOCK, position)
        return max(self._latest[block - 1] if block else "", in_block)

    def last(self, connection: sqlite3.Connection, time: str, head: int) -> int:
        """Return the last position up to which all events were recorded by this time, or 0 if none was."""
        self._extend(connection, head)
        block = bisect_right(self._latest, time)
        end = min((block + 1) * BLOCK, head)
        sql = f"SELECT min(position) FROM ({_EVENTS}) WHERE recorded_at > ?"
        later = connection.execute(sql, (block * BLOCK, end, BLOCK, time)).fetchone()[0]
        return head if later is None else int(later) - 1

    def _extend(self, connection: sqlite3.Connection, head: int) -> None:
        with self._lock:
            while (known := len(self._latest)) < head // BLOCK:
                latest = _latest(connection, known * BLOCK, (known + 1) * BLOCK)
                self._latest.append(max(latest, self._latest[-1] if known else ""))


# The view of a past moment bounds the positions too, and SQLite looks up one of two upper bounds, so the limit ends a block.
_EVENTS = "SELECT position, recorded_at FROM audit WHERE position > ? AND position <= ? ORDER BY position LIMIT ?"


def _latest(connection: sqlite3.Connection, first: int, last: int) -> str:
    sql = f"SELECT max(recorded_at) FROM ({_EVENTS})"
    return connection.execute(sql, (first, last, BLOCK)).fetchone()[0] or ""
