"""One question in SQL: it only reads, within bounds of time and size, and SQLite asks about each part of it first.

What may be read is decided by where it is read from: a view of ours may read what nobody may read directly.

SQLite's own heap limit is not set: it is of the whole process and a PRAGMA can only lower it, so one question would make the
writes of other threads, and the databases of the program around, fail for good.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from difflib import get_close_matches
from functools import cache
from sys import getsizeof
from typing import cast

from msgspec import Struct

from ledger.domain.errors import LedgerError, RejectedError, SuspendedError
from ledger.store.closed import Closed
from ledger.store.sql_functions import Value, replace_functions

MIB = 1024 * 1024
# The most bytes of a value on the way, the most columns, and the steps of SQLite's machine between two looks at the clock and
# the memory (a millisecond). A question begins with the first. Only where a value is larger it begins again with the second, so
# that there are never many large values between two looks; a text of a turn has at most 10 MiB.
SIZES = ((MIB, 100, 5_000), (16 * MIB, 40, 50))
ANSWER_BYTES = 256 * MIB
HEAP_BYTES = 256 * MIB  # by which SQLite's memory may grow meanwhile
LIMITS = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4_000_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 500,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,  # the time of LIKE and GLOB grows with this times the text
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 32_766,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
READING = frozenset(
    ("table_info", "table_xinfo", "index_list", "index_info", "data_version")
)  # the last is of FTS5's own
FUNCTIONS_DENIED = frozenset(("load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "eval"))
FUNCTIONS_TOO_LARGE = frozenset(  # they make large values of nothing, or take a time that grows with a product of sizes
    ("zeroblob", "randomblob", "printf", "format", "json_patch", "jsonb_patch")
)
_JSON = frozenset(("json_each", "json_tree", "jsonb_each", "jsonb_tree"))
_TABLES = _JSON | {"sqlite_master", "sqlite_schema", *(f"pragma_{name}" for name in READING)}
_QUESTION = re.compile(r"(?:\s++|--[^\n]*+(?:\n|\Z)|/\*.*?\*/)*+(?:select|with|values)\b", re.IGNORECASE | re.DOTALL)
_LITERAL, _OF_NOW = re.compile(r"'(?:[^']|'')*'"), re.compile(r"""\bmain["`\]]?\s*\.""", re.IGNORECASE)
_TOKEN = re.compile(  # a mark of the order of bytes is a space for SQLite too
    r"""(?P<space>[\t-\r \ufeff]+|--[^\n]*|/\*.*?(?:\*/|\Z))|"(?P<double>(?:[^"]|"")*+)(?:"|\Z)"""
    r"""|`(?P<back>(?:[^`]|``)*+)(?:`|\Z)|\[(?P<bracket>[^\]]*+)(?:\]|\Z)|'(?P<text>(?:[^']|'')*+)(?:'|\Z)|(?P<name>[A-Za-z_$\d\x80-\U0010ffff]+)|(?P<sign>.)""",
    re.DOTALL,
)
_SYSTEM = ("sqlite_", "pragma_", "dbstat")
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


class BoundsOfUser(Struct, frozen=True):
    """What a question about one user may read: the documented views, made of views whose names begin with ``prefix``.

    Nobody knows the prefix. The names of other ``tables``, in small letters, lead to ``nowhere``. Without a prefix the database
    holds nothing but the rows of that user.
    """

    views: Collection[str]
    nowhere: str
    seconds: float
    rows: int
    prefix: str = ""
    tables: frozenset[str] = frozenset()
    closed: Closed = {}
    log: str = ""
    schema: str = "main"


def ask(
    connection: sqlite3.Connection,
    sql: str,
    parameters: Sequence[Value] | Mapping[str, Value],
    bounds: Bounds | BoundsOfUser,
    names: Callable[[], Collection[str]],
) -> list[dict[str, Value]]:
    """The rows; ``names`` are those that a misspelt one is compared with."""
    if _QUESTION.match(sql) is None:
        raise RejectedError(
            f"query takes one SELECT (or WITH, VALUES), and {sql.strip()!r:.60} is none: it only reads; "
            "recall(question) searches by words"
        )
    if isinstance(bounds, BoundsOfUser):
        if (name := _other_name(sql)) is not None:
            raise _of_user_only(name, bounds)
    elif bounds.through is not None and _names_now(sql):
        raise RejectedError("main. names the tables of now, and this is asked as of a moment: leave it out")
    deadline = time.monotonic() + bounds.seconds
    _connect(connection, sql)
    for size, columns, steps in SIZES:
        limits = LIMITS | {sqlite3.SQLITE_LIMIT_LENGTH: size, sqlite3.SQLITE_LIMIT_COLUMN: columns}
        guard = _GuardOfUser(bounds) if isinstance(bounds, BoundsOfUser) else _Guard(bounds)
        watch = _Watch(deadline, bounds.seconds)
        # closed in the end, for a statement that is not at its end keeps its moment of the file
        with closing(connection.cursor()) as cursor, _guarded(connection, guard, watch, limits, steps):
            try:
                return _answered(cursor, sql, parameters, bounds.rows)
            except (UnicodeEncodeError, OverflowError, ValueError) as error:
                raise RejectedError(f"something in the question cannot be asked ({type(error).__name__})") from None
            except MemoryError:
                raise RejectedError(
                    "the question takes more memory than there is; ask for less", rule="memory"
                ) from None
            except (sqlite3.Error, sqlite3.Warning) as error:
                if _code(error) == sqlite3.SQLITE_TOOBIG and size < SIZES[-1][0]:
                    continue
                if (refusal := guard.refusal(error) or watch.refusal(error)) is not None:
                    raise refusal from None
                connection.set_authorizer(None)  # the names are looked up
                if (refusal := _refusal(error, names)) is not None:
                    raise _of_user(refusal, bounds) from None
                raise
    raise AssertionError("the last size ends the loop")


def _connect(connection: sqlite3.Connection, sql: str) -> None:
    """Let SQLite make what it makes of a virtual table at its first use, for which it asks to write a schema in memory."""
    listed = connection.execute("SELECT name FROM main.sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%'")
    for name in (*_JSON, *(name for (name,) in listed)):
        if name in sql.lower():
            connection.execute("SELECT 1 FROM pragma_table_info(?, 'main')", (name,)).fetchone()


def _answered(
    cursor: sqlite3.Cursor, sql: str, parameters: Sequence[Value] | Mapping[str, Value], most: int
) -> list[dict[str, Value]]:
    cursor.execute(sql, parameters)
    columns, rows, size = _columns(cursor), list[dict[str, Value]](), 0
    for row in cursor:
        size += sum(map(getsizeof, row))
        if size > ANSWER_BYTES:
            raise RejectedError(
                f"the answer takes more than {ANSWER_BYTES // MIB} MiB; ask for fewer columns or rows, or for parts of texts",
                rule="bytes",
                limit=ANSWER_BYTES,
            )
        if len(rows) == most:
            raise RejectedError(
                f"the answer has more than {most:,} rows; ask for fewer (LIMIT, or an aggregate), or give a larger limit",
                rule="limit",
                limit=most,
            )
        rows.append(dict(zip(columns, row, strict=True)))
    return rows


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
def _guarded(
    connection: sqlite3.Connection, guard: _Authorizer, watch: _Watch, limits: Mapping[int, int], steps: int
) -> Iterator[None]:
    replace_functions(connection)
    before = {limit: connection.setlimit(limit, value) for limit, value in limits.items()}
    connection.set_authorizer(guard.decide)
    connection.set_progress_handler(watch.is_over, steps)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)
        connection.set_authorizer(None)
        for limit, value in before.items():
            connection.setlimit(limit, value)


class _Watch:
    """What ends a question that runs: its time, and the memory of SQLite."""

    def __init__(self, deadline: float, seconds: float) -> None:
        self._deadline, self._seconds = deadline, seconds
        self._used = _counter_of_memory()
        self._before = self._used()
        self._is_too_large = False

    def is_over(self) -> bool:
        self._is_too_large = self._used() - self._before > HEAP_BYTES
        return self._is_too_large or time.monotonic() > self._deadline

    def refusal(self, error: Exception) -> RejectedError | None:
        if _code(error) != sqlite3.SQLITE_INTERRUPT:
            return None
        if self._is_too_large:
            return RejectedError(
                f"the question takes more than {HEAP_BYTES // MIB} MiB of memory; ask for less",
                rule="memory",
                limit=HEAP_BYTES,
            )
        return RejectedError(
            f"the question took longer than {self._seconds:g} seconds; ask for less, or give a longer timeout",
            rule="timeout",
        )


@cache
def _counter_of_memory() -> Callable[[], int]:
    """Return a function that gives the bytes that SQLite holds in this process, or 0 where its library hides the number."""
    import _sqlite3
    import ctypes  # slow to load

    try:
        used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    except (AttributeError, OSError):
        return int
    used.restype = ctypes.c_int64
    return cast("Callable[[], int]", used)


def _code(error: BaseException) -> int:
    """Return SQLite's primary code of an error; 0 where there is none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


# --- of one user -----------------------------------------------------------------------------------------------------


def _other_name(sql: str) -> str | None:
    """Return the first name in a question that could lead past the views of one user: of a schema, or of SQLite's own tables.

    SQLite's authorizer is not asked about every column, so these names are looked for in the words of the question. A text in
    single quotes counts too, for SQLite takes it as the name of a table.
    """
    last = ""
    for match in _TOKEN.finditer(sql):
        if match["space"] is not None:
            continue
        if match["sign"] == "." and last in ("main", "temp"):
            return f"{last}."
        last = (match[match.lastgroup or 0] or "").lower()
        if last.startswith(_SYSTEM):
            return last
    return None


def _of_user_only(name: str, bounds: BoundsOfUser) -> RejectedError:
    return RejectedError(
        f"{name:.60} is not for a question about one user, which has the views {', '.join(bounds.views)}; "
        "query(…, every_user=True) asks all tables, on a ledger that was opened without user",
        rule="user",
    )


def _of_user(refusal: RejectedError, bounds: Bounds | BoundsOfUser) -> RejectedError:
    """Return the refusal of a table that there is not for this question, with the views that there are."""
    if not isinstance(bounds, BoundsOfUser) or (unknown := _UNKNOWN.search(str(refusal))) is None:
        return refusal
    if unknown["what"] != "table":
        return refusal
    name = unknown["name"].partition(";")[0].rpartition(".")[2]
    if name == bounds.nowhere:
        return _of_user_only("a table that is asked", bounds)
    return RejectedError(f"{refusal}; the views are {', '.join(bounds.views)}", rule="user")


class _Authorizer:
    """What SQLite asks while it prepares a question; ``why`` is what was refused last."""

    def __init__(self) -> None:
        self._why: LedgerError | None = None

    def decide(self, action: int, first: str | None, second: str | None, database: str | None, view: str | None) -> int:
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            self._why = self._read((first or "").lower(), (second or "").lower(), database, view) or self._why
            return sqlite3.SQLITE_DENY if self._why is not None else sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            function = (second or "").lower()
            if function not in FUNCTIONS_DENIED | FUNCTIONS_TOO_LARGE:
                return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in READING:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in FUNCTIONS_TOO_LARGE:
            text = f"the function {second} is not allowed, for its values or its time can be large"
            self._why = RejectedError(f"{text}; round(…), || and substr(…) are", rule="function")
            return sqlite3.SQLITE_DENY
        what = f"the function {second}" if action == sqlite3.SQLITE_FUNCTION else "anything but reading"
        self._why = RejectedError(f"query only reads: {what} is not allowed", rule="readonly")
        return sqlite3.SQLITE_DENY

    def _read(self, table: str, column: str, database: str | None, view: str | None) -> LedgerError | None:
        raise NotImplementedError

    def refusal(self, error: Exception) -> LedgerError | None:
        return self._why if _code(error) in (sqlite3.SQLITE_AUTH, sqlite3.SQLITE_ERROR) else None


def _suspended(table: str, owner: str) -> SuspendedError:
    way = "maintenance.rebuild() makes it again"
    if table.startswith("my_"):
        way = f"mend its fold and raise its version, or call maintenance.rebuild({owner!r})"
    text = f"the projection {owner!r} is suspended, so this cannot be answered; {way}"
    return SuspendedError(text, projection=owner)


class _GuardOfUser(_Authorizer):
    """What a question about one user reads."""

    def __init__(self, bounds: BoundsOfUser) -> None:
        super().__init__()
        self._bounds = bounds

    def _read(self, table: str, column: str, database: str | None, view: str | None) -> LedgerError | None:
        bounds = self._bounds
        within = (view or "").lower()
        is_ours = bounds.prefix != "" and (within == bounds.log or within.startswith(bounds.prefix))
        is_hidden = bounds.prefix != "" and table.startswith(bounds.prefix)
        if not column:  # names as they are written: only views of ours write a schema, and WITH makes names too
            is_ours = database is not None or table not in bounds.tables
        elif table in bounds.views and database != bounds.schema:
            return _of_user_only(table, bounds)
        if is_ours and (owner := bounds.closed.get(table)) is not None:
            return _suspended(table, owner)
        if is_ours or is_hidden or table in bounds.views or table in _JSON:
            return None
        return _of_user_only(table, bounds)


class _Guard(_Authorizer):
    """What a question about every user reads."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__()
        self._bounds = bounds

    def _read(self, table: str, column: str, database: str | None, view: str | None) -> LedgerError | None:
        bounds = self._bounds
        if bounds.through is not None and database != "main" and _names_now(bounds.own.get(table, "")):
            return RejectedError(f"{table} names main., the tables of now, and this is asked as of a moment")
        if database == "temp":
            private = table.startswith("sqlite_temp") or (table == bounds.log and view != "events")
            return RejectedError(f"{table} is not for reading") if private else None
        if (owner := bounds.closed.get(table)) is not None:
            return _suspended(table, owner)
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


def _refusal(error: Exception, names: Callable[[], Collection[str]]) -> RejectedError | None:
    """What a question that is wrong is answered; None where the file may be to blame."""
    code, text = getattr(error, "sqlite_errorcode", None), str(error)
    if code is not None and code & 0xFF == sqlite3.SQLITE_TOOBIG:
        text = f"a value takes more than {SIZES[-1][0] // MIB} MiB, or its text too many characters: {text:.100}"
        return RejectedError(f"{text}; documents.get(id, text=True) gives longer texts", rule="size")
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
