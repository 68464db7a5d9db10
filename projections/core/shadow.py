"""A second fold of the projections in a private database, to compare with the tables of the file or to read instead of them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

from ledger.log import platform
from projections.core.projector import Projector, check_end, checkpoint, create_all, suspend
from projections.core.rebuild import ConnectionReading, Progress
from projections.core.rows import Table, Values
from projections.core.sqlite import SQLiteRows

BATCH = 4_000  # events folded between two writes


def in_scratch(directory: str, work: Callable[[sqlite3.Connection], None]) -> None:
    """Run the work on an empty database in the ledger's directory, and once more in memory if the disk is full."""
    try:
        with scratch(directory) as connection:
            work(connection)
            return
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_FULL:
            raise
    with scratch(None) as connection:
        work(connection)


@contextmanager
def scratch(directory: str | None) -> Iterator[sqlite3.Connection]:
    """Yield an empty database that no other process can open and that ends with this process.

    Args:
        directory: The ledger's own directory, so that no text goes to another disk. The database is a file without a name in it;
            on Windows it has a name until it is closed. If nothing can be written there, or for None, it is in memory.
    """
    path = ":memory:"
    if directory is not None and os.path.isdir(directory) and os.access(directory, os.W_OK):
        with suppress(OSError):
            path = platform.new_scratch_file(directory)
    try:
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("SELECT count(*) FROM sqlite_master")
        except BaseException:
            connection.close()
            raise
    finally:
        if path != ":memory:" and platform.DELETES_OPEN_FILES:
            platform.remove_scratch_file(path)
    try:
        with closing(connection):
            yield connection
    finally:
        if path != ":memory:" and not platform.DELETES_OPEN_FILES:
            platform.remove_scratch_file(path)


def fold_into(
    connection: sqlite3.Connection,
    log: ConnectionReading,
    secret: bytes,
    ledger_id: str,
    position: int,
    head: bytes,
    *,
    temporary: bool = False,
    progress: Progress | None = None,
) -> Projector:
    """Fold the log from its first event to ``position`` into fresh tables, and return the projector.

    Projections that could not be folded are in the projector's ``suspended``. Temporary tables hide those of the file on this
    connection.
    """
    create_all(connection, ledger_id, temporary=temporary)
    fold = Projector(secret, log)
    if begun := not connection.in_transaction:
        connection.execute("BEGIN")
    _fold(connection, fold, log, 0, position, head, progress)
    if begun:
        connection.execute("COMMIT")
    return fold


def fold_on(connection: sqlite3.Connection, log: ConnectionReading, secret: bytes, position: int, head: bytes) -> None:
    """Fold the events since the last fold into the tables that ``fold_into`` made.

    Raises:
        DamagedError: The log became shorter.
    """
    (folded,) = connection.execute("SELECT position FROM checkpoint").fetchone()
    if folded == position:
        return
    check_end(connection)
    fold = Projector(secret, log)
    suspended = connection.execute("SELECT name FROM projections WHERE suspended_at IS NOT NULL")
    fold.leave_out(name for (name,) in suspended)
    _fold(connection, fold, log, folded, position, head)


def _fold(
    connection: sqlite3.Connection,
    fold: Projector,
    log: ConnectionReading,
    done: int,
    position: int,
    head: bytes,
    progress: Progress | None = None,
) -> None:
    rows = SQLiteRows(connection)
    rows.refused = fold.refused
    for start in range(done + 1, position + 1, BATCH):
        last = min(position, start + BATCH - 1)
        for event in log.events(start, last):
            fold.fold(event, rows)
        fold.flush(rows)
        fold.forget()
        if progress is not None:
            progress(last, position)
    checkpoint(connection, position, head)
    for name, at, error in fold.poisoned:
        suspend(connection, name, at, error)


def tables(connection: sqlite3.Connection, table: Table, prefix: str = "") -> Iterator[Values]:
    """Return the rows of a table in the order of its key, to compare them with those of another fold."""
    return connection.execute(f"SELECT * FROM {prefix}{table.name} ORDER BY {', '.join(table.key)}")
