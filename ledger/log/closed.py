"""Tables that a connection may not read for a while, because their projection is suspended.

SQLite calls an authorizer for each table that a statement reads, before the statement runs. A connection without closed
tables has no authorizer, so it costs nothing. The closed tables belong to one connection, which one thread uses at a time.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from ledger.domain.errors import SuspendedError

Closed = Mapping[str, str]  # name of a table -> name of its suspended projection

_closed: dict[int, Closed] = {}  # the id of a connection -> its closed tables, while it has any
_refused = threading.local()  # .projection: the projection whose table this thread was refused last


@contextmanager
def reading(connection: sqlite3.Connection, closed: Closed) -> Iterator[None]:
    """Refuse every statement of this connection that reads a closed table, until the block ends."""
    before = _closed.get(id(connection), {})
    if closed == before:
        yield
        return
    _close(connection, closed)
    try:
        yield
    finally:
        with suppress(sqlite3.ProgrammingError):  # the connection was closed inside the block
            _close(connection, before)


def _close(connection: sqlite3.Connection, closed: Closed) -> None:
    """Install or remove the authorizer of a connection.

    A new authorizer makes SQLite prepare again the statements that Python keeps, so they are checked too.
    """
    if not closed:
        _closed.pop(id(connection), None)
        connection.set_authorizer(None)
        return
    _closed[id(connection)] = closed

    def authorize(action: int, table: str | None, *_: str | None) -> int:
        owner = closed.get(table or "") if action == sqlite3.SQLITE_READ else None
        if owner is None:
            return sqlite3.SQLITE_OK
        _refused.projection = owner
        return sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)


def is_denied(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_AUTH


def denied(error: sqlite3.Error) -> SuspendedError | None:
    """Return the error for a statement that would have read a closed table; None for any other error."""
    if not is_denied(error) or not hasattr(_refused, "projection"):
        return None
    return SuspendedError(
        f"the projection {_refused.projection!r} is suspended, so its tables cannot be read;"
        " maintenance.rebuild() makes it again",
        projection=_refused.projection,
    )
