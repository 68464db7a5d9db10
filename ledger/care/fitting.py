"""The check that the tables of a file are those of this product and are folded up to the end of its log."""

from __future__ import annotations

import sqlite3

from ledger.core.reads import check_tables
from ledger.domain.errors import ConflictError
from ledger.proof.schema_check import is_misshapen


def tables_fit(connection: sqlite3.Connection, secret: bytes, ledger_id: str) -> frozenset[str] | None:
    """Return the suspended projections if all tables fit this product and are folded up to the last event.

    None means that a table is missing, is of another version, lags behind, or cannot be read by SQLite.
    """
    try:
        if is_misshapen(connection):
            return None
        _, suspended = check_tables(connection, secret)
        last = connection.execute("SELECT position, head FROM events ORDER BY position DESC LIMIT 1").fetchone()
        folded = connection.execute("SELECT ledger, position, head FROM checkpoint WHERE id = 1").fetchall()
    except ConflictError:
        return None
    except sqlite3.DatabaseError as error:
        if not is_of_damage(error):
            raise
        return None
    return suspended if [tuple(row) for row in folded] == [(ledger_id, *last)] else None


def is_of_damage(error: sqlite3.DatabaseError) -> bool:
    return code_of(error) in (sqlite3.SQLITE_CORRUPT, 0)  # 0: the driver could not decode a text from SQLite


def code_of(error: BaseException) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
