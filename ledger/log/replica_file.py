"""The table of a file that holds a machine's copy of a shared log: the log's tenant, and the name of the machine."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from ledger.log.sqlite_files import REPLICA

SCHEMA = (
    f"CREATE TABLE {REPLICA} (id INTEGER PRIMARY KEY CHECK (id = 1), tenant TEXT NOT NULL, machine TEXT NOT NULL,"
    " erased_through INTEGER NOT NULL)"
)


class ReplicaRow(NamedTuple):
    """The log that a file follows, the machine to which the file belongs, and the last erasure that the files are purged of."""

    tenant: str
    machine: str
    erased_through: int


def read(connection: sqlite3.Connection) -> ReplicaRow | None:
    """Return the row of a machine's copy; None for a file with a log of its own."""
    if connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = ?", (REPLICA,)).fetchone() is None:
        return None
    row = connection.execute(f"SELECT tenant, machine, erased_through FROM main.{REPLICA}").fetchone()
    return ReplicaRow(*row) if row is not None else None


def write(connection: sqlite3.Connection, row: ReplicaRow) -> None:
    """Make a file a machine's copy, or change the row of such a file."""
    if connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = ?", (REPLICA,)).fetchone() is None:
        connection.execute(SCHEMA)
    connection.execute(f"INSERT OR REPLACE INTO main.{REPLICA} VALUES (1, ?, ?, ?)", row)


def copy(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Make a new file with the same log a machine's copy too, if the first file is such a copy."""
    if (row := read(source)) is not None:
        write(target, row)
