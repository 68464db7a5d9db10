"""The table that records how far each of the users' own projections is folded; it is no part of the log or the digest."""

from __future__ import annotations

import json
import sqlite3

from msgspec import Struct

from ledger.domain.errors import RejectedError
from ledger.log.event_store import Misuse
from projections.core import sqlite
from projections.core.own import PREFIX, Definition
from projections.core.rows import Connection
from projections.core.sqlite import SQLiteRows

NAME = "own_projections"
# ``place`` is the id of the row of "checkpoint" that has the position of the projection: each commit writes that page anyway. A
# projection without such a row is folded again from the first event. ``begun`` is the end of the log when the tables were last
# emptied: events that an undo or a distrust up to there made void are left out from the start. ``generation`` counts how often
# the tables were emptied, so that rows folded before that are never written afterwards.
_TABLE = (
    f"CREATE TABLE IF NOT EXISTS {NAME} (name TEXT PRIMARY KEY, version INTEGER NOT NULL, definition TEXT NOT NULL,"
    " generation INTEGER NOT NULL, place INTEGER NOT NULL, begun INTEGER NOT NULL, suspended_at INTEGER, error TEXT)"
    " WITHOUT ROWID"
)
_ENTRIES = (
    "SELECT o.name, iif(c.id IS NULL, 0, o.version), o.definition, o.generation, o.place, coalesce(c.position, 0), o.begun,"
    f" o.suspended_at, o.error FROM main.{NAME} o LEFT JOIN main.checkpoint c ON c.id = o.place ORDER BY o.name"
)
_PLACE = f"SELECT max(coalesce(max(place), 1), (SELECT coalesce(max(id), 1) FROM checkpoint)) + 1 FROM {NAME}"


class OwnProjectionRecord(Struct, frozen=True):
    """The record of one projection in the file."""

    name: str
    version: int
    definition: str
    generation: int
    place: int
    position: int
    begun: int
    suspended_at: int | None
    error: str | None

    def fits(self, definition: Definition) -> bool:
        """Return True if the entry is of this version and definition of the projection."""
        return (self.version, self.definition) == (definition.version, definition.text)

    @property
    def tables(self) -> list[str]:
        try:
            return [str(name) for name, *_ in json.loads(self.definition)["tables"]]
        except (ValueError, LookupError, TypeError):
            return []


def count(connection: Connection, table: str) -> int:
    """Return the number of rows of a table, or 0 if the table is gone."""
    if not table.startswith(PREFIX) or not _is_there(connection, table):
        return 0
    return int(connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])


def _is_there(connection: Connection, table: str) -> bool:
    sql = "SELECT 1 FROM main.sqlite_master WHERE name = ? UNION SELECT 1 FROM temp.sqlite_master WHERE name = ?"
    return connection.execute(sql, (table, table)).fetchone() is not None


def make(connection: Connection) -> None:
    connection.execute(_TABLE)


def entries(connection: Connection) -> dict[str, OwnProjectionRecord]:
    """Return the entries of all projections in the file, by name."""
    if not sqlite.exists(connection, NAME):
        return {}
    return {row[0]: OwnProjectionRecord(*row) for row in connection.execute(_ENTRIES)}


def enter(connection: Connection, definition: Definition, position: int) -> None:
    """Create the tables of a projection, empty, in place of its earlier tables, and its entry.

    Raises:
        RejectedError: Another table has the name of one of these tables.
    """
    known = entries(connection)
    before = known.get(definition.name)
    for name in before.tables if before is not None else ():
        if name.startswith(PREFIX):
            sqlite.drop(connection, name)
    for table in definition.tables:
        others = (entry for entry in known.values() if entry is not before)
        owner = next((entry.name for entry in others if table.name in entry.tables), None)
        if (
            owner is not None
            or connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = ?", (table.name,)).fetchone()
        ):
            whose = f"of the projection {owner!r}" if owner is not None else "that was made by hand"
            raise RejectedError(
                f"the projection {definition.name!r} needs a table {table.name}, and there is one {whose}: rename either"
            )
        sqlite.create(connection, table)
    generation = before.generation + 1 if before is not None else 1
    place = before.place if before is not None else connection.execute(_PLACE).fetchone()[0]
    row = (definition.name, definition.version, definition.text, generation, place, position, None, None)
    connection.execute(f"INSERT OR REPLACE INTO {NAME} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.execute("INSERT OR REPLACE INTO checkpoint VALUES (?, '', 0, 0, x'')", (place,))


def is_whole(connection: Connection, definition: Definition) -> bool:
    """Return True if the file has all tables of a projection with exactly the columns of the definition."""
    sql = "SELECT name FROM pragma_table_info(?, 'main')"
    return all(
        tuple(name for (name,) in connection.execute(sql, (shape.table.name,))) == shape.order
        for shape in definition.shapes.values()
    )


def empty(connection: Connection, entry: OwnProjectionRecord, position: int, *, resume: bool = False) -> None:
    """Empty the tables of a projection, so that its fold begins again with the events in effect at a position.

    A suspended projection stays suspended, unless ``resume`` is true.
    """
    for name in entry.tables:
        if name.startswith(PREFIX) and sqlite.exists(connection, name):
            connection.execute(f'DELETE FROM main."{name}"')
    resumed = ", suspended_at = NULL, error = NULL" if resume else ""
    connection.execute(
        f"UPDATE {NAME} SET generation = generation + 1, begun = ?{resumed} WHERE name = ?", (position, entry.name)
    )
    move(connection, entry.place, 0)


def move(connection: Connection, place: int, position: int) -> None:
    connection.execute("UPDATE checkpoint SET position = ? WHERE id = ?", (position, place))


def suspend(connection: Connection, name: str, at: int, error: str) -> None:
    connection.execute(f"UPDATE {NAME} SET suspended_at = ?, error = ? WHERE name = ?", (at, error, name))


def write(connection: Connection, rows: SQLiteRows, place: int, position: int) -> None:
    """Write all rows that were folded and the new position, or nothing."""
    if rows.kept <= 1:  # a single row needs no savepoint
        try:
            rows.flush()
        finally:
            rows.discard()
        move(connection, place, position)
        return
    connection.execute("SAVEPOINT own")
    try:
        rows.flush()
        move(connection, place, position)
    except BaseException:
        rows.discard()
        if connection.in_transaction:
            connection.execute("ROLLBACK TO own")
            connection.execute("RELEASE own")
        raise
    connection.execute("RELEASE own")


def blames(error: Exception) -> bool:
    """Return True if the user's fold caused an error, and not the disk or the file."""
    return not isinstance(error, sqlite3.Error) or sqlite.asked_wrong(error)


def described(error: Exception) -> str:
    """Return the recorded text of an error: its type, and its message only if the product wrote the message.

    A message of another error may quote a user's text.
    """
    return f"{type(error).__name__}: {error}" if isinstance(error, Misuse) else type(error).__name__
