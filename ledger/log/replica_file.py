"""The table of a file that holds a machine's copy of a shared log: the log's tenant, the name of the machine, and the file's id.

A copied file has the id of the first file, but another number in the file system. A file is taken for a copy if the number is
not the one that the table has. A program of an earlier version knows the name only, so the id and the number stand behind it.
"""

from __future__ import annotations

import os
import sqlite3
from secrets import token_hex
from typing import NamedTuple

from ledger.log.paths import StrPath
from ledger.log.shared.port import BETWEEN
from ledger.log.sqlite_files import REPLICA

SCHEMA = (
    f"CREATE TABLE {REPLICA} (id INTEGER PRIMARY KEY CHECK (id = 1), tenant TEXT NOT NULL, machine TEXT NOT NULL,"
    " erased_through INTEGER NOT NULL)"
)


class ReplicaRow(NamedTuple):
    """The log that a file follows, the machine to which the file belongs, and the last erasure that the files are purged of.

    Attributes:
        tenant: The tenant of the log.
        machine: The name of the machine.
        erased_through: The position of the last erasure.
        file: The id of the file; "" in a file of an earlier version.
        number: The file's number in the file system when the id was made.
    """

    tenant: str
    machine: str
    erased_through: int
    file: str = ""
    number: int = 0


def read(connection: sqlite3.Connection) -> ReplicaRow | None:
    """Return the row of a machine's copy; None for a file with a log of its own."""
    if connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = ?", (REPLICA,)).fetchone() is None:
        return None
    row = connection.execute(f"SELECT tenant, machine, erased_through FROM main.{REPLICA}").fetchone()
    if row is None:
        return None
    tenant, name, erased_through = row
    machine, _, rest = name.partition(BETWEEN)
    file, _, number = rest.partition(BETWEEN)
    return ReplicaRow(tenant, machine, erased_through, file, int(number or 0))


def of_file(path: StrPath, row: ReplicaRow) -> ReplicaRow:
    """Return the row with an id of the file: the row's own, or a new one if the file has none or is a copy."""
    number = os.stat(path).st_ino
    if row.file and row.number == number:
        return row
    return ReplicaRow(row.tenant, row.machine, row.erased_through, token_hex(6), number)


def note_erased(connection: sqlite3.Connection, through: int) -> None:
    """Note the last erasure that the files are purged of."""
    connection.execute(f"UPDATE main.{REPLICA} SET erased_through = ?", (through,))


def write(connection: sqlite3.Connection, row: ReplicaRow) -> None:
    """Make a file a machine's copy, or change the row of such a file."""
    if connection.execute("SELECT 1 FROM main.sqlite_master WHERE name = ?", (REPLICA,)).fetchone() is None:
        connection.execute(SCHEMA)
    name = BETWEEN.join((row.machine, row.file, str(row.number))) if row.file else row.machine
    connection.execute(
        f"INSERT OR REPLACE INTO main.{REPLICA} VALUES (1, ?, ?, ?)", (row.tenant, name, row.erased_through)
    )


def copy(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Make a new file with the same log a machine's copy too, if the first file is such a copy."""
    if (row := read(source)) is not None:
        write(target, row)
