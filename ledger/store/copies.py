"""What makes a file a copy of a log up to a position: it takes no event more, and knows what was erased of it later.

The log itself is the same as that of the ledger, byte for byte, so that this lies beside it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

END = "events_end"  # the trigger that refuses what would follow
SCHEMA = f"""
CREATE TABLE erased_later (position INTEGER PRIMARY KEY, version INTEGER NOT NULL, state TEXT NOT NULL);
CREATE TRIGGER {END} BEFORE INSERT ON events BEGIN
    SELECT RAISE(ABORT, 'a copy of a ledger up to a position takes no event');
END;
"""
REFUSED = (
    "this is a copy of a ledger up to a position, for reading, and accepts no command: replay(…, branch=True) makes one"
    " that is a ledger of its own"
)
PASSES = (
    "this is a copy of a ledger up to a position, and what is made of it would pass for the ledger: replay(…, branch=True)"
    " makes one that does not"
)
Later = tuple[int, int, str]  # position, version and state of a ContentErased behind the copy's end


def mark(connection: sqlite3.Connection, later: Iterable[Later]) -> None:
    """Makes a file such a copy."""
    connection.executescript(SCHEMA)
    connection.executemany("INSERT INTO erased_later VALUES (?, ?, ?)", later)


def is_copy(connection: sqlite3.Connection) -> bool:
    sql = "SELECT 1 FROM main.sqlite_master WHERE type = 'trigger' AND name = ?"
    return connection.execute(sql, (END,)).fetchone() is not None


def erased_later(connection: sqlite3.Connection) -> list[Later]:
    """The erasures behind the end of a copy that took texts of it, in their order."""
    if not is_copy(connection):
        return []
    return connection.execute("SELECT position, version, state FROM main.erased_later ORDER BY position").fetchall()
