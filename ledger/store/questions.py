"""One question in SQL: it only reads, within a time and a number of rows, and SQLite asks about each part of it first.

What may be read is decided by where it is read from: a view of ours may read what nobody may read directly.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from difflib import get_close_matches

from msgspec import Struct

from ledger.domain.errors import LedgerError, RejectedError, SuspendedError
from ledger.store.closed import Closed

Value = str | int | float | bytes | None
VALUE_BYTES = 128 * 1024 * 1024  # of one value on the way; a document has at most 50 MiB
STEPS = 5_000  # of SQLite's machine between two looks at the clock, about a millisecond
READING = frozenset(
    ("table_info", "table_xinfo", "index_list", "index_info", "data_version")
)  # the last is of FTS5's own
FUNCTIONS_DENIED = frozenset(("load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "eval"))
_TABLES = frozenset(
    ("sqlite_master", "sqlite_schema", "json_each", "json_tree", *(f"pragma_{each}" for each in READING))
)
_QUESTION = re.compile(r"(?:\s++|--[^\n]*+(?:\n|\Z)|/\*.*?\*/)*+(?:select|with|values)\b", re.IGNORECASE | re.DOTALL)
_LITERAL, _OF_NOW = re.compile(r"'(?:[^']|'')*'"), re.compile(r"""\bmain["`\]]?\s*\.""", re.IGNORECASE)
_UNDECODED = re.compile(r"Could not decode to UTF-8 (?P<name>column '[^']*')")
_UNKNOWN = re.compile(r"no such (?P<what>table|column|function): (?P<name>.+)")
_WRONG = (
    frozenset(  # what SQLite answers to a question that is wrong; everything else is the file's or the disk's doing
        (
            sqlite3.SQLITE_ERROR,
            sqlite3.SQLITE_MISMATCH,
            sqlite3.SQLITE_MISUSE,
            sqlite3.SQLITE_RANGE,
            sqlite3.SQLITE_TOOBIG,
        )
    )
)


class Bounds(Struct, frozen=True):
    """What a question may read, and how long and how much.

    ``tables`` are all of the file, in small letters, and ``views`` the documented ones; ``through`` are the views by which
    the file is read as of a moment (None: it is asked as it is), and ``log`` the one by which the states of events are read,
    without the ledger's secret. ``own`` is what of somebody's own stands for the file's as of then, with what made it.
    """

    tables: frozenset[str]
    views: Collection[str]
    closed: Closed
    log: str
    through: frozenset[str] | None
    own: Mapping[str, str]
    seconds: float
    rows: int


def ask(
    connection: sqlite3.Connection,
    sql: str,
    parameters: Sequence[Value] | Mapping[str, Value],
    bounds: Bounds,
    names: Callable[[], Collection[str]],
) -> list[dict[str, Value]]:
    """The rows; ``names`` are those that a misspelt one is compared with."""
    if _QUESTION.match(sql) is None:
        raise RejectedError(f"query takes one SELECT (or WITH, VALUES), and {sql.strip()!r:.60} is none: it only reads")
    if bounds.through is not None and _names_now(sql):
        raise RejectedError("main. names the tables of now, and this is asked as of a moment: leave it out")
    guard = _Guard(bounds)
    # closed in the end, for a statement that is not at its end keeps its moment of the file
    with closing(connection.cursor()) as cursor, _guarded(connection, guard, bounds.seconds):
        try:
            cursor.execute(sql, parameters)
            columns = _columns(cursor)
            rows = cursor.fetchmany(bounds.rows + 1)
        except (UnicodeEncodeError, OverflowError, ValueError) as error:
            raise RejectedError(f"something in the question cannot be asked ({type(error).__name__})") from None
        except (sqlite3.Error, sqlite3.Warning) as error:
            if (refusal := guard.refusal(error)) is not None:
                raise refusal from None
            connection.set_authorizer(None)  # the names are looked up
            if (refusal := _refusal(error, bounds.seconds, names)) is not None:
                raise refusal from None
            raise
    if len(rows) > bounds.rows:
        raise RejectedError(
            f"the answer has more than {bounds.rows:,} rows; ask for fewer (LIMIT, or an aggregate), or give a larger limit",
            rule="limit",
            limit=bounds.rows,
        )
    return [dict(zip(columns, row, strict=True)) for row in rows]


def undecoded(error: BaseException | None) -> RejectedError | None:
    """What is answered to a text of a question's own that is none, where the file is not to blame."""
    if (found := _UNDECODED.match(str(error))) is None:
        return None
    return RejectedError(
        f"{found['name']:.60} of the answer is a text that is not UTF-8: ask for hex(…) of it, or CAST(… AS BLOB)",
        rule="sql",
    )


def _names_now(sql: str) -> bool:
    return _OF_NOW.search(_LITERAL.sub("", sql)) is not None


def _without_past(table: str) -> RejectedError:
    can = "the documented views can"
    if table.startswith("my_"):
        can += ", and the tables of a projection whose class the ledger was opened with"
    return RejectedError(f"{table} keeps no past, so under at() it cannot be asked: {can}")


def _columns(cursor: sqlite3.Cursor) -> list[str]:
    found = [name for name, *_ in cursor.description or ()]
    for name in found:
        if found.count(name) > 1:
            raise RejectedError(f"{found.count(name)} columns of the answer are called {name!r:.60}: name them with AS")
    return found


@contextmanager
def _guarded(connection: sqlite3.Connection, guard: _Guard, seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    before = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES)
    connection.set_authorizer(guard.decide)
    connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)
        connection.set_authorizer(None)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)


class _Guard:
    """What SQLite asks while it prepares a question; ``why`` is what was refused last."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._why: LedgerError | None = None

    def decide(self, action: int, first: str | None, second: str | None, database: str | None, view: str | None) -> int:
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            self._why = self._read((first or "").lower(), (second or "").lower(), database, view) or self._why
            return sqlite3.SQLITE_DENY if self._why is not None else sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in FUNCTIONS_DENIED:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in READING:
            return sqlite3.SQLITE_OK
        what = f"the function {second}" if action == sqlite3.SQLITE_FUNCTION else "anything but reading"
        self._why = RejectedError(f"query only reads: {what} is not allowed", rule="readonly")
        return sqlite3.SQLITE_DENY

    def _read(self, table: str, column: str, database: str | None, view: str | None) -> LedgerError | None:
        bounds = self._bounds
        if bounds.through is not None and database != "main" and _names_now(bounds.own.get(table, "")):
            return RejectedError(f"{table} names main., the tables of now, and this is asked as of a moment")
        if database == "temp":
            private = table.startswith("sqlite_temp") or (table == bounds.log and view != "events")
            return RejectedError(f"{table} is not for reading") if private else None
        if (owner := bounds.closed.get(table)) is not None:
            way = "maintenance.rebuild() makes it again"
            if table.startswith("my_"):
                way = f"mend its fold and raise its version, or call maintenance.rebuild({owner!r})"
            text = f"the projection {owner!r} is suspended, so this cannot be answered; {way}"
            return SuspendedError(text, projection=owner)
        known = table in bounds.tables or table in _TABLES
        if (
            not column
        ):  # only how many rows there are; where a view of ours was folded into the question, those of the file
            if database is not None or not known or bounds.through is None:
                return None
            return None if table in bounds.through | _TABLES | bounds.own.keys() else _without_past(table)
        if not known:
            return RejectedError(f"{table} is not for reading: query reads the views and tables of the ledger")
        if (table, column) == ("events", "state") and view != bounds.log:
            return RejectedError(
                "main.events.state holds the ledger's secret: ask events, without main., or audit_trail.data"
            )
        if table in bounds.views:
            return RejectedError(f"main.{table} is for other programs: ask {table}, without main. before it")
        if bounds.through is not None and view not in bounds.through | {bounds.log} and table not in _TABLES:
            return _without_past(table)
        return None

    def refusal(self, error: Exception) -> LedgerError | None:
        is_auth = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_AUTH, sqlite3.SQLITE_ERROR)
        return self._why if is_auth else None


def _refusal(error: Exception, seconds: float, names: Callable[[], Collection[str]]) -> RejectedError | None:
    """What a question that is wrong is answered; None where the file may be to blame."""
    code, text = getattr(error, "sqlite_errorcode", None), str(error)
    if code is not None and code & 0xFF == sqlite3.SQLITE_INTERRUPT:
        return RejectedError(
            f"the question took longer than {seconds:g} seconds; ask for less, or give a longer timeout", rule="timeout"
        )
    if _UNDECODED.match(text) is not None or (code is not None and code & 0xFF not in _WRONG):
        return None
    if text.startswith("unsafe use of"):  # by a view of the file's own schema, which is not trusted
        text = "main. before a view is for other programs: leave it out, also in a view of your own"
        return RejectedError(text, rule="sql")
    if (unknown := _UNKNOWN.match(text)) is None:
        return RejectedError(f"this is no question that SQLite understands: {text:.300}", rule="sql")
    name = unknown["name"].rpartition(".")[2]
    if name == "what_keeps_no_past":
        return RejectedError(
            "a table that is asked keeps no past, so under at() it cannot be read: ask the documented views"
        )
    close = get_close_matches(name.lower(), names(), 3, 0.75)
    near = f"; there is {' and '.join(close)}" if close else ""
    return RejectedError(f"this is no question that SQLite understands: {text:.200}{near}", rule="sql")
