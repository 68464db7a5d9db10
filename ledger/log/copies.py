"""The marks of a file that is a copy of a log up to a position.

Such a copy takes no further event. Its log is the same as the ledger's, byte for byte, so what was erased after that
position lies in a table next to the log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

END = "events_end"  # the trigger that refuses further events
SCHEMA = f"""
CREATE TABLE erased_later (position INTEGER PRIMARY KEY, version INTEGER NOT NULL, state TEXT NOT NULL);
CREATE TRIGGER {END} BEFORE INSERT ON events BEGIN
    SELECT RAISE(ABORT, 'a copy of a ledger up to a position takes no event');
END;
"""
REFUSED = (
    "this is a copy of a ledger up to a position; it is for reading and accepts no command: replay(…, branch=True) makes"
    " a copy that is a ledger of its own"
)
PASSES = (
    "this is a copy of a ledger up to a position, and a file made from it would pass for the ledger:"
    " replay(…, branch=True) makes a copy that does not"
)
Later = tuple[int, int, str]  # position, version and state of a ContentErased after the copy's end


def mark(connection: sqlite3.Connection, later: Iterable[Later]) -> None:
    """Mark a file as a copy, with the erasures that came after its end."""
    connection.executescript(SCHEMA)
    connection.executemany("INSERT INTO erased_later VALUES (?, ?, ?)", later)


def is_copy(connection: sqlite3.Connection) -> bool:
    sql = "SELECT 1 FROM main.sqlite_master WHERE type = 'trigger' AND name = ?"
    return connection.execute(sql, (END,)).fetchone() is not None


def erased_later(connection: sqlite3.Connection) -> list[Later]:
    """Return the erasures after the end of a copy that took texts out of the copy, in the order of the log."""
    if not is_copy(connection):
        return []
    return connection.execute("SELECT position, version, state FROM main.erased_later ORDER BY position").fetchall()
