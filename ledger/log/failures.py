"""The errors that a caller of the store sees instead of errors of SQLite, of the eventsourcing library or of a damaged row."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import Never

from eventsourcing import persistence
from msgspec import MsgspecError

from ledger.domain.errors import DamagedError, LedgerError, RejectedError, StorageError
from ledger.log import closed, registry, sqlite_files
from ledger.log.envelope import GENESIS, digest, link

# A damaged row leads to one of these errors. Of SQLite's errors, these codes tell of a page, table or text that is unreadable.
_MAY_BE_DAMAGE = (TypeError, AttributeError, ValueError, LookupError, AssertionError, ArithmeticError, MsgspecError)
_MAY_BE_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR)


def typed(error: BaseException) -> LedgerError | None:
    """Return the error that replaces an error of SQLite or of the library; None for every other error."""
    if isinstance(error, sqlite3.Error):
        return closed.denied(error) or sqlite_files.typed(error)
    if isinstance(error, persistence.DataError):
        return RejectedError(str(error), rule="encoding")
    if isinstance(error, persistence.ConnectionPoolClosedError):
        return RejectedError("this ledger is closed; open it again", rule="closed")
    if isinstance(error, persistence.PersistenceError):
        return StorageError(
            "the ledger had no free connection within the timeout; close readers or give a longer timeout"
        )
    return None


def raise_typed(error: BaseException) -> Never:
    translated = typed(error)
    if translated is None:
        raise error
    raise translated from error


_ROWS = (  # texts as bytes, because the driver fails on a text that is not UTF-8
    "SELECT position, CAST(stream AS BLOB), version, CAST(type AS BLOB), CAST(state AS BLOB), digest, head, erased_by"
    " FROM main.events ORDER BY position"
)


def find_in_log(connection: sqlite3.Connection) -> DamagedError | None:
    """Return the first row of the log that is not as recorded; None if every row is. Reads every row up to that row."""
    before = GENESIS
    with suppress(sqlite3.Error):  # the caller reports a page that cannot be read
        for position, stream, version, type_, state, mark, head, erased_by in connection.execute(_ROWS):
            try:
                named = (stream.decode(), version, type_.decode())
                registry.decode(position, position, *named, state.decode())
                sound = link(before, position, *named, mark) == head and (erased_by or digest(state) == mark)
            except DamagedError as damaged:
                return damaged
            except (AttributeError, TypeError, ValueError):
                sound = False
            if not sound:
                return DamagedError("events", position, "is not what was recorded")
            before = head
    return None


def may_be_damage(error: BaseException) -> bool:
    """Return True if a damaged row may have caused an error that was not searched yet."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _MAY_BE_DAMAGED
    known = isinstance(error, LedgerError) or hasattr(error, "searched")
    return isinstance(error, _MAY_BE_DAMAGE) and not known
