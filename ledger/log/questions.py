"""A query in SQL that only reads, within bounds of time and size.

SQLite calls an authorizer for each part of the query before the query runs. The authorizer decides by the view that a read
goes through, because a view of ours may read tables that nobody may read directly.

SQLite's own heap limit is not set. It holds for the whole process, and a PRAGMA can only lower it, so one query would make
the writes of other threads, and the databases of the surrounding program, fail for good.

Functions replace those of SQLite whose time grows with the product of two sizes, and return the same values. One call of
SQLite's ``instr`` took 30 seconds on two values of 2 MB and 300 KB, and nothing can interrupt a call.
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
from ledger.log.reading import Closed

MIB = 1024 * 1024
# The largest value in bytes, the most columns, and the steps of SQLite's machine between two checks of the clock and the
# memory (a millisecond). A query starts with the first row. Only if a value is larger does it start again with the second
# row, so that there are never many large values between two checks; the text of a turn has at most 10 MiB.
SIZES = ((MIB, 100, 5_000), (16 * MIB, 40, 50))
ANSWER_BYTES = 256 * MIB
HEAP_BYTES = 256 * MIB  # by which SQLite's memory may grow during a query
LIMITS = {
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4_000_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 500,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 100,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 100,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,  # the time of LIKE and GLOB grows with the pattern times the text
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 32_766,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
READING = frozenset(  # FTS5 itself reads the last
    ("table_info", "table_xinfo", "index_list", "index_info", "data_version")
)
FUNCTIONS_DENIED = frozenset(("load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "eval"))
FUNCTIONS_TOO_LARGE = frozenset(  # they make large values of small ones, or their time grows with a product of sizes
    ("zeroblob", "randomblob", "printf", "format", "json_patch", "jsonb_patch")
)
_JSON = frozenset(("json_each", "json_tree", "jsonb_each", "jsonb_tree"))
_TABLES = _JSON | {"sqlite_master", "sqlite_schema", *(f"pragma_{name}" for name in READING)}
_QUESTION = re.compile(r"(?:\s++|--[^\n]*+(?:\n|\Z)|/\*.*?\*/)*+(?:select|with|values)\b", re.IGNORECASE | re.DOTALL)
_LITERAL, _OF_NOW = re.compile(r"'(?:[^']|'')*'"), re.compile(r"""\bmain["`\]]?\s*\.""", re.IGNORECASE)
_TOKEN = re.compile(  # SQLite treats a byte order mark as a space
    r"""(?P<space>[\t-\r \ufeff]+|--[^\n]*|/\*.*?(?:\*/|\Z))|"(?P<double>(?:[^"]|"")*+)(?:"|\Z)"""
    r"""|`(?P<back>(?:[^`]|``)*+)(?:`|\Z)|\[(?P<bracket>[^\]]*+)(?:\]|\Z)|'(?P<text>(?:[^']|'')*+)(?:'|\Z)|(?P<name>[A-Za-z_$\d\x80-\U0010ffff]+)|(?P<sign>.)""",
    re.DOTALL,
)
_SYSTEM = ("sqlite_", "pragma_", "dbstat")
_UNDECODED = re.compile(r"Could not decode to UTF-8 (?P<name>column '[^']*')")
_UNKNOWN = re.compile(r"no such (?P<what>table|column|function): (?P<name>.+)")
_WRONG = frozenset(  # SQLite's answers to a wrong query; the file or the disk causes every other error
    (
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_MISUSE,
        sqlite3.SQLITE_RANGE,
        sqlite3.SQLITE_TOOBIG,
    )
)


class Bounds(Struct, frozen=True):
    """The tables that a query about every user may read, and its limits of time and rows.

    Attributes:
        tables: All tables of the file, in small letters.
        views: The documented views.
        closed: The tables of suspended projections.
        log: The view through which the states of events are read, without the ledger's secret.
        through: The views through which the file is read as of a moment; None to read the file as it is.
        own: A user's own tables that replace those of the file as of that moment, with the SQL that makes each.
        seconds: The longest time.
        rows: The most rows.
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
    """The tables that a query about one user may read, and its limits: views over that user's rows.

    ``views`` are the documented views, and users' own tables that have a column ``user``.
    The names of the views over the user's rows begin with ``prefix``, which nobody can guess. The names of other ``tables``,
    in small letters, lead to the missing table ``nowhere``. Without a prefix the database holds only the rows of that user.
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
    """Return the rows of a query; ``names`` returns the names to compare a misspelt name with."""
    if _QUESTION.match(sql) is None:
        raise RejectedError(
            f"query takes one SELECT (or WITH, VALUES), because it only reads, and got {sql.strip()!r:.60}; "
            "recall(question) searches by words"
        )
    if isinstance(bounds, BoundsOfUser):
        if (name := _other_name(sql)) is not None:
            raise _of_user_only(name, bounds)
    elif bounds.through is not None and _names_now(sql):
        raise RejectedError("main. names the tables of now, and this query is about a past moment: leave main. out")
    deadline = time.monotonic() + bounds.seconds
    _connect(connection, sql)
    for size, columns, steps in SIZES:
        limits = LIMITS | {sqlite3.SQLITE_LIMIT_LENGTH: size, sqlite3.SQLITE_LIMIT_COLUMN: columns}
        guard = _GuardOfUser(bounds) if isinstance(bounds, BoundsOfUser) else _Guard(bounds)
        watch = _Watch(deadline, bounds.seconds)
        # A statement that is not at its end keeps its moment of the file, so the cursor is closed.
        with closing(connection.cursor()) as cursor, _guarded(connection, guard, watch, limits, steps):
            try:
                return _answered(cursor, sql, parameters, bounds.rows)
            except (UnicodeEncodeError, OverflowError, ValueError) as error:
                raise RejectedError(
                    f"the query or one of its parameters cannot be given to SQLite ({type(error).__name__})"
                ) from None
            except MemoryError:
                raise RejectedError("the query takes more memory than there is; ask for less", rule="memory") from None
            except (sqlite3.Error, sqlite3.Warning) as error:
                if _code(error) == sqlite3.SQLITE_TOOBIG and size < SIZES[-1][0]:
                    continue
                if (refusal := guard.refusal(error) or watch.refusal(error)) is not None:
                    raise refusal from None
                connection.set_authorizer(None)  # to look the names up
                if (refusal := _refusal(error, names)) is not None:
                    raise _of_user(refusal, bounds) from None
                raise
    raise AssertionError("the last size ends the loop")


def _connect(connection: sqlite3.Connection, sql: str) -> None:
    """Let SQLite set up the virtual tables of a query, for which it writes a schema in memory at their first use."""
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
    """Return the refusal of a text that the query made and that is not UTF-8; None for every other error."""
    if (undecodable := _UNDECODED.match(str(error))) is None:
        return None
    return RejectedError(
        f"{undecodable['name']:.60} of the answer is a text that is not UTF-8: ask for hex(…) of it, or CAST(… AS BLOB)",
        rule="sql",
    )


def _names_now(sql: str) -> bool:
    return _OF_NOW.search(_LITERAL.sub("", sql)) is not None


def _without_past(table: str) -> RejectedError:
    allowed = "the documented views can"
    if table.startswith("my_"):
        allowed += ", and so can the tables of a projection whose class the ledger was opened with"
    return RejectedError(f"{table} keeps no past, so under at() it cannot be queried: {allowed}")


def _columns(cursor: sqlite3.Cursor) -> list[str]:
    names = [name for name, *_ in cursor.description or ()]
    for name in names:
        if names.count(name) > 1:
            raise RejectedError(
                f"{names.count(name)} columns of the answer have the name {name!r:.60}: give each another name with AS"
            )
    return names


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
    """The end of a query that takes too much time or too much of SQLite's memory."""

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
                f"the query takes more than {HEAP_BYTES // MIB} MiB of memory; ask for less",
                rule="memory",
                limit=HEAP_BYTES,
            )
        return RejectedError(
            f"the query took longer than {self._seconds:g} seconds; ask for less, or give a longer timeout",
            rule="timeout",
        )


@cache
def _counter_of_memory() -> Callable[[], int]:
    """Return a function that returns the bytes that SQLite holds in this process, or 0 if its library hides the number."""
    import _sqlite3
    import ctypes  # slow to load

    try:
        used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    except (AttributeError, OSError):
        return int
    used.restype = ctypes.c_int64
    return cast("Callable[[], int]", used)


def _code(error: BaseException) -> int:
    """Return SQLite's primary code of an error; 0 if there is none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


# --- of one user -----------------------------------------------------------------------------------------------------


def _other_name(sql: str) -> str | None:
    """Return the first name in a query that could lead past the views of one user: of a schema, or of SQLite's own tables.

    SQLite does not call its authorizer for every column, so these names are searched for in the words of the query. A text
    in single quotes counts too, because SQLite accepts it as the name of a table.
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
        f"{name:.60} is not allowed in a query about one user, which can read the views {', '.join(bounds.views)}, and of the "
        "present your own tables (my_…) that have a column user; query(…, every_user=True) reads all tables, on a ledger that "
        "was opened without user",
        rule="user",
    )


def _of_user(refusal: RejectedError, bounds: Bounds | BoundsOfUser) -> RejectedError:
    """Return the refusal of an unknown table with the views that exist; return every other refusal unchanged."""
    if not isinstance(bounds, BoundsOfUser) or (unknown := _UNKNOWN.search(str(refusal))) is None:
        return refusal
    if unknown["what"] != "table":
        return refusal
    name = unknown["name"].partition(";")[0].rpartition(".")[2]
    if name == bounds.nowhere:
        return _of_user_only("a table of this query", bounds)
    return RejectedError(f"{refusal}; the views are {', '.join(bounds.views)}", rule="user")


class _Authorizer:
    """An authorizer of the parts of a query; ``_why`` is the reason of its last refusal."""

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
            text = f"the function {second} is not allowed, because its values or its time can be large"
            self._why = RejectedError(f"{text}; round(…), || and substr(…) are allowed", rule="function")
            return sqlite3.SQLITE_DENY
        description = f"the function {second}" if action == sqlite3.SQLITE_FUNCTION else "anything but reading"
        self._why = RejectedError(f"query only reads: {description} is not allowed", rule="readonly")
        return sqlite3.SQLITE_DENY

    def _read(self, table: str, column: str, database: str | None, view: str | None) -> LedgerError | None:
        raise NotImplementedError

    def refusal(self, error: Exception) -> LedgerError | None:
        return self._why if _code(error) in (sqlite3.SQLITE_AUTH, sqlite3.SQLITE_ERROR) else None


def _suspended(table: str, owner: str) -> SuspendedError:
    way = "maintenance.rebuild() makes it again"
    if table.startswith("my_"):
        way = f"mend its fold and raise its version, or call maintenance.rebuild({owner!r})"
    text = f"the projection {owner!r} is suspended, so its tables cannot be read; {way}"
    return SuspendedError(text, projection=owner)


class _GuardOfUser(_Authorizer):
    """An authorizer of a query about one user."""

    def __init__(self, bounds: BoundsOfUser) -> None:
        super().__init__()
        self._bounds = bounds

    def _read(self, table: str, column: str, database: str | None, view: str | None) -> LedgerError | None:
        bounds = self._bounds
        within = (view or "").lower()
        is_ours = bounds.prefix != "" and (within == bounds.log or within.startswith(bounds.prefix))
        is_hidden = bounds.prefix != "" and table.startswith(bounds.prefix)
        if not column:  # the names as written: only our views name a schema, and WITH makes names too
            is_ours = database is not None or table not in bounds.tables
        elif table in bounds.views and database != bounds.schema and not is_ours:
            return _of_user_only(table, bounds)
        if is_ours and (owner := bounds.closed.get(table)) is not None:
            return _suspended(table, owner)
        if is_ours or is_hidden or table in bounds.views or table in _JSON:
            return None
        return _of_user_only(table, bounds)


class _Guard(_Authorizer):
    """An authorizer of a query about every user."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__()
        self._bounds = bounds

    def _read(self, table: str, column: str, database: str | None, view: str | None) -> LedgerError | None:
        bounds = self._bounds
        if bounds.through is not None and database != "main" and _names_now(bounds.own.get(table, "")):
            return RejectedError(
                f"{table} is defined on main., the tables of now, and this query is about a past moment"
            )
        if database == "temp":
            private = table.startswith("sqlite_temp") or (table == bounds.log and view != "events")
            return RejectedError(f"{table} cannot be read by a query") if private else None
        if (owner := bounds.closed.get(table)) is not None:
            return _suspended(table, owner)
        known = table in bounds.tables or table in _TABLES
        # Without a column only the number of rows is read. Where SQLite folded one of our views into the query, the tables
        # are those of the file.
        if not column:
            if database is not None or not known or bounds.through is None:
                return None
            return None if table in bounds.through | _TABLES | bounds.own.keys() else _without_past(table)
        if not known:
            return RejectedError(
                f"{table} cannot be read: query reads the views and tables of the ledger, and your own (my_…)"
            )
        if (table, column) == ("events", "state") and view != bounds.log:
            return RejectedError(
                "main.events.state holds the ledger's secret: read events, without main., or audit_trail.data"
            )
        if table in bounds.views:
            return RejectedError(f"main.{table} is for other programs: read {table}, without main. before it")
        if bounds.through is not None and view not in bounds.through | {bounds.log} and table not in _TABLES:
            return _without_past(table)
        return None


def _refusal(error: Exception, names: Callable[[], Collection[str]]) -> RejectedError | None:
    """Return the refusal of a wrong query; None if the file may be to blame."""
    code, text = getattr(error, "sqlite_errorcode", None), str(error)
    if code is not None and code & 0xFF == sqlite3.SQLITE_TOOBIG:
        text = f"a value takes more than {SIZES[-1][0] // MIB} MiB, or the query too many characters: {text:.100}"
        return RejectedError(f"{text}; documents.get(id, text=True) gives longer texts", rule="size")
    if _UNDECODED.match(text) is not None or (code is not None and code & 0xFF not in _WRONG):
        return None
    if text.startswith("unsafe use of"):  # a view of the file's own schema, which is not trusted, caused it
        text = "main. before a view is for other programs: leave it out, also in a view of your own"
        return RejectedError(text, rule="sql")
    if (unknown := _UNKNOWN.match(text)) is None:
        return RejectedError(f"SQLite does not understand the query: {text:.300}", rule="sql")
    name = unknown["name"].rpartition(".")[2]
    if name == "what_keeps_no_past":
        return RejectedError(
            "a table of this query keeps no past, so under at() it cannot be read: read the documented views"
        )
    close = get_close_matches(name.lower(), names(), 3, 0.75)
    near = f"; there is {' and '.join(close)}" if close else ""
    return RejectedError(f"SQLite does not understand the query: {text:.200}{near}", rule="sql")


# --- functions in the place of SQLite's own --------------------------------------------------------------------------


Value = str | int | float | bytes | None


def replace_functions(connection: sqlite3.Connection) -> None:
    for name, count, function in (
        ("instr", 2, _instr),
        ("replace", 3, _replace),
        ("trim", 2, _trim),
        ("ltrim", 2, _trim_left),
        ("rtrim", 2, _trim_right),
    ):
        connection.create_function(name, count, function, deterministic=True)


def _instr(whole: Value, part: Value) -> int | None:
    if whole is None or part is None:
        return None
    if isinstance(whole, bytes) and isinstance(part, bytes):
        return whole.find(part) + 1
    return _text(whole).find(_text(part)) + 1


def _replace(whole: Value, part: Value, instead: Value) -> Value:
    if whole is None or part is None:
        return None
    if part in ("", b""):
        return _text(whole)  # as of SQLite 3.45; older ones leave a number as it is
    if instead is None:
        return None
    return _text(whole).replace(_text(part), _text(instead))


def _trim(whole: Value, characters: Value) -> str | None:
    return _trimmed(whole, characters, left=True, right=True)


def _trim_left(whole: Value, characters: Value) -> str | None:
    return _trimmed(whole, characters, left=True, right=False)


def _trim_right(whole: Value, characters: Value) -> str | None:
    return _trimmed(whole, characters, left=False, right=True)


def _trimmed(whole: Value, characters: Value, *, left: bool, right: bool) -> str | None:
    if whole is None or characters is None:
        return None
    text, removed = _text(whole), frozenset(_text(characters))
    start, end = 0, len(text)
    while left and start < end and text[start] in removed:
        start += 1
    while right and start < end and text[end - 1] in removed:
        end -= 1
    return text[start:end]


def _text(value: str | int | float | bytes) -> str:
    """Return a value as SQLite casts it to a text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if not isinstance(value, float):
        return str(value)
    if value in (float("inf"), float("-inf")):
        return "Inf" if value > 0 else "-Inf"
    mantissa, _, exponent = format(value, ".15g").partition("e")
    return (mantissa if "." in mantissa else f"{mantissa}.0") + (f"e{exponent}" if exponent else "")
