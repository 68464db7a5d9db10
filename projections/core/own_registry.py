"""Where a file says how far each projection of a user's own is, whoever made it: neither log nor digest."""

from __future__ import annotations

import json
import sqlite3

from msgspec import Struct

from ledger.domain.errors import RejectedError
from ledger.store.folding import Misuse
from projections.core import sqlite
from projections.core.own import PREFIX, Definition
from projections.core.rows import Connection
from projections.core.sqlite import SQLiteRows

NAME = "own_projections"
# Its position is in the row ``place`` of "checkpoint", a page that each commit writes anyway; without one it begins again.
# ``begun`` is where the log ended when the tables were last emptied: the acts up to there are taken into account from the start.
# ``generation`` counts how often that was, so that rows folded from before it are never written after it.
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


class Entry(Struct, frozen=True):
    """What the file says of one."""

    name: str
    version: int
    definition: str
    generation: int
    place: int
    position: int
    begun: int
    suspended_at: int | None
    error: str | None

    def fits(self, wanted: Definition) -> bool:
        return (self.version, self.definition) == (wanted.version, wanted.text)

    @property
    def tables(self) -> list[str]:
        try:
            return [str(each[0]) for each in json.loads(self.definition)["tables"]]
        except (ValueError, LookupError, TypeError):
            return []


def count(connection: Connection, table: str) -> int:
    """How many rows a table has; 0 where it is gone."""
    if not table.startswith(PREFIX) or not _is_there(connection, table):
        return 0
    return int(connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0])


def _is_there(connection: Connection, table: str) -> bool:
    sql = "SELECT 1 FROM main.sqlite_master WHERE name = ? UNION SELECT 1 FROM temp.sqlite_master WHERE name = ?"
    return connection.execute(sql, (table, table)).fetchone() is not None


def make(connection: Connection) -> None:
    connection.execute(_TABLE)


def entries(connection: Connection) -> dict[str, Entry]:
    """All that this file has, whoever made them."""
    if not sqlite.exists(connection, NAME):
        return {}
    return {row[0]: Entry(*row) for row in connection.execute(_ENTRIES)}


def enter(connection: Connection, wanted: Definition, position: int) -> None:
    """Makes the tables of a projection, empty, in the place of those that it had; ``RejectedError`` where others are there."""
    known = entries(connection)
    before = known.get(wanted.name)
    for name in before.tables if before is not None else ():
        if name.startswith(PREFIX):
            sqlite.drop(connection, name)
    for table in wanted.tables:
        owner = next((each.name for each in known.values() if table.name in each.tables and each is not before), None)
        if (
            owner is not None
            or connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = ?", (table.name,)).fetchone()
        ):
            whose = f"of the projection {owner!r}" if owner is not None else "that was made by hand"
            raise RejectedError(
                f"the projection {wanted.name!r} needs a table {table.name}, and there is one {whose}: rename either"
            )
        sqlite.create(connection, table)
    generation = before.generation + 1 if before is not None else 1
    place = before.place if before is not None else connection.execute(_PLACE).fetchone()[0]
    row = (wanted.name, wanted.version, wanted.text, generation, place, position, None, None)
    connection.execute(f"INSERT OR REPLACE INTO {NAME} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.execute("INSERT OR REPLACE INTO checkpoint VALUES (?, '', 0, 0, x'')", (place,))


def is_whole(connection: Connection, wanted: Definition) -> bool:
    """Whether all its tables are there, with their columns and no other."""
    sql = "SELECT name FROM pragma_table_info(?, 'main')"
    return all(
        tuple(name for (name,) in connection.execute(sql, (shape.table.name,))) == shape.order
        for shape in wanted.shapes.values()
    )


def empty(connection: Connection, entry: Entry, position: int, *, resume: bool = False) -> None:
    """It begins again from zero, with what is in effect at this position; what is suspended stays so, but for ``resume``."""
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
    """Writes what was folded, all of it or nothing."""
    if rows.kept <= 1:  # one row is written or not
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
    """Whether a fold is to blame for an error, and not the disk under it."""
    return not isinstance(error, sqlite3.Error) or sqlite.asked_wrong(error)


def described(error: Exception) -> str:
    """What is kept of an error: its type, and of ours what it says; no text of anybody's."""
    return f"{type(error).__name__}: {error}" if isinstance(error, Misuse) else type(error).__name__
