"""Tables that may not be read for a while: SQLite asks about each that a statement reads, before it runs the statement.

While nothing is closed SQLite asks nobody, so that it costs nothing. What is closed is a matter of one connection, which one
thread uses at a time.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from ledger.domain.errors import SuspendedError

Closed = Mapping[str, str]  # a table -> the suspended projection that it is of

_closed: dict[int, Closed] = {}  # by the id of each connection of which any are, as long as they are
_asked = threading.local()  # .denied: what this thread was refused last


@contextmanager
def reading(connection: sqlite3.Connection, closed: Closed) -> Iterator[None]:
    """Inside, no statement of this connection reads any of these tables, and it reads all others."""
    before = _closed.get(id(connection), {})
    if closed == before:
        yield
        return
    _close(connection, closed)
    try:
        yield
    finally:
        with suppress(sqlite3.ProgrammingError):  # the connection was closed meanwhile
            _close(connection, before)


def _close(connection: sqlite3.Connection, closed: Closed) -> None:
    """Statements that Python keeps are asked about again, for a new authorizer makes SQLite prepare them once more."""
    if not closed:
        _closed.pop(id(connection), None)
        connection.set_authorizer(None)
        return
    _closed[id(connection)] = closed

    def ask(action: int, table: str | None, *_: str | None) -> int:
        owner = closed.get(table or "") if action == sqlite3.SQLITE_READ else None
        if owner is None:
            return sqlite3.SQLITE_OK
        _asked.denied = owner
        return sqlite3.SQLITE_DENY

    connection.set_authorizer(ask)


def is_denied(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_AUTH


def denied(error: sqlite3.Error) -> SuspendedError | None:
    """What a caller sees where a statement would have read a table that is closed."""
    if not is_denied(error) or not hasattr(_asked, "denied"):
        return None
    return SuspendedError(
        f"the projection {_asked.denied!r} is suspended, so this cannot be answered; maintenance.rebuild() makes it again",
        projection=_asked.denied,
    )
