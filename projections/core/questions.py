"""A connection made ready for questions in SQL: the documented views over the log without the ledger's secret, now or as of then.

TEMP views stand before those of the file, so one question works on each moment, and on a file whose own views are of another
version.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Mapping

from projections.core import as_of, own_registry
from projections.core.rows import Connection
from projections.core.sql_views import VIEWS

NOWHERE = "what_is_of_all_users"  # there is no such table
_CONTROL = ("checkpoint", "projections", own_registry.NAME)  # read before each question; nothing of a user is in them
_SOURCE = re.compile(r"\b(FROM|JOIN) (\w+)(?!\.)\b")

_LOG = "SELECT position, stream, version, type, {state}, digest, head, key, erased_by FROM {table}"
_STATE = "CASE type WHEN 'LedgerCreated' THEN json_set(state, '$.data.secret', '') ELSE state END AS state"
_OWN = (  # SQLite keeps "CREATE VIEW", and then what was written
    "SELECT name, 'CREATE TEMP VIEW' || substr(sql, 12) FROM {}.sqlite_master WHERE type = 'view' AND lower(name) GLOB 'my_*'"
)


def prepare_live(connection: Connection) -> None:
    connection.execute(f"CREATE TEMP VIEW events AS {_rows(_hide_secret(connection))}")
    _shadow(connection)


def prepare_past(connection: Connection) -> None:
    as_of.shadow(connection, _rows(_hide_secret(connection)))
    _shadow(connection)


def prepare_folded(connection: Connection) -> None:
    """For a connection on which the projections are folded."""
    as_of.shadow_the_log(connection, _rows(_hide_secret(connection)))
    _shadow(connection)


# --- of one user -----------------------------------------------------------------------------------------------------
#
# The authorizer alone does not bound a question: SQLite does not ask it about a column that USING, NATURAL JOIN or the
# argument of a table-valued function names. So no name that a question can write leads to rows of another user: the tables
# have names that nobody knows, and their own names lead nowhere.


def prepare_live_of_user(connection: Connection) -> None:
    log = _hide_secret(connection)
    tables = {name: f"main.{name}" for name in as_of.views()} | {"blobs": "main.blobs", "events": f"temp.{log}"}
    _shadow_of_user(connection, _prefix(), tables)


def prepare_past_of_user(connection: Connection) -> None:
    log, prefix = _rows(_hide_secret(connection)), _prefix()
    as_of.begin(connection)
    as_of.shadow_control(connection)
    views = {"events": as_of.log_then(log)} | as_of.views()
    tables = {name: f"temp.{prefix}{name}" for name in views} | {"blobs": "main.blobs"}
    for name, sql in views.items():
        connection.execute(f"CREATE TEMP VIEW {prefix}{name} AS {_over(sql, prefix, tables)}")
    _shadow_of_user(connection, prefix, tables)


def _prefix() -> str:
    return f"one_{secrets.token_hex(16)}_"


def _shadow_of_user(connection: Connection, prefix: str, tables: Mapping[str, str]) -> None:
    connection.execute(f"CREATE TEMP TABLE {prefix}user (user TEXT NOT NULL)")
    connection.execute(f"INSERT INTO temp.{prefix}user VALUES ('')")
    for name, view in VIEWS.items():
        sql = _over(view.sql("main.events", f"(SELECT user FROM temp.{prefix}user)"), prefix, tables)
        connection.execute(f"CREATE TEMP VIEW {prefix}{name} AS {sql}")
        connection.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM temp.{prefix}{name}")
    _lead_nowhere(connection)


def _lead_nowhere(connection: Connection) -> None:
    """Put a view that leads nowhere before each table of the file; somebody may have made one since the last question."""
    listed = "SELECT lower(name) FROM {}.sqlite_master WHERE type IN ('table', 'view') AND name NOT GLOB 'sqlite_*'"
    names, hidden = ({name for (name,) in connection.execute(listed.format(schema))} for schema in ("main", "temp"))
    for name in names - hidden - set(_CONTROL):
        quoted = name.replace('"', '""')
        connection.execute(f'CREATE TEMP VIEW "{quoted}" AS SELECT 1 FROM temp.{NOWHERE}')


def _over(sql: str, prefix: str, tables: Mapping[str, str]) -> str:
    """Return the SQL over these tables, and its own common table expression under a name that nobody knows."""
    hidden = _SOURCE.sub(lambda match: f"{match[1]} {tables.get(match[2], match[2])}", sql)
    return re.sub(r"\bup\b", f"{prefix}up", hidden)


def stand_for(connection: Connection, user: str) -> str:
    """Bring a connection that was prepared for one user to that user; return how the names begin that nobody knows."""
    sql = "SELECT name FROM temp.sqlite_master WHERE type = 'table' AND name GLOB 'one_*_user'"
    ((table,),) = connection.execute(sql)
    connection.execute(f"UPDATE temp.{table} SET user = ?", (user,))
    _lead_nowhere(connection)
    return str(table).removesuffix("user")


def copy_of(connection: Connection, user: str, sql: str) -> Connection:
    """Return a database in memory with those rows of a user that a question can ask: of the views that it names."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    for name in VIEWS:
        columns = connection.execute("SELECT name, type FROM pragma_table_info(?, 'temp')", (name,)).fetchall()
        declared = (f"{column} {type_ if type_ in ('TEXT', 'INTEGER') else ''}" for column, type_ in columns)
        copy.execute(f"CREATE TABLE {name} ({', '.join(declared)})")
        if name in sql.lower():
            rows = connection.execute(f"SELECT * FROM temp.{name} WHERE user = ?", (user,))
            copy.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", rows)
    return copy


def _hide_secret(connection: Connection) -> str:
    """Make a view of the log without the ledger's secret, and return its name, which nobody knows."""
    connection.execute("PRAGMA temp_store = MEMORY")  # no text on another disk; drops what is there
    name = f"log_{secrets.token_hex(16)}"
    connection.execute(f"CREATE TEMP VIEW {name} AS {_LOG.format(state=_STATE, table='main.events')}")
    return name


def _rows(log: str) -> str:
    return _LOG.format(state="state", table=f"temp.{log}")


def _shadow(connection: Connection) -> None:
    for name, view in VIEWS.items():
        connection.execute(f"CREATE TEMP VIEW {name} AS {view.sql('main.events')}")


def hidden_log(connection: Connection) -> str:
    sql = "SELECT name FROM temp.sqlite_master WHERE type = 'view' AND name GLOB 'log_*'"
    return str(connection.execute(sql).fetchone()[0])


def shadow_own(connection: Connection) -> list[str]:
    """Somebody's own views over what a question sees, and what makes them: as of the same moment."""
    wanted, found = (dict(connection.execute(_OWN.format(schema)).fetchall()) for schema in ("main", "temp"))
    for name in found.keys() - {name for name, made in wanted.items() if found.get(name) == made}:
        connection.execute(f'DROP VIEW temp."{name}"')
    for name, made in wanted.items():
        if found.get(name) != made:
            connection.execute(made)
    return list(wanted.values())


def own_before(connection: Connection) -> dict[str, str]:
    """What of somebody's own stands on this connection for what the file has, in small letters, with what made it."""
    sql = "SELECT lower(name), sql FROM temp.sqlite_master WHERE type IN ('table', 'view') AND lower(name) GLOB 'my_*'"
    return dict(connection.execute(sql))


def through() -> frozenset[str]:
    """The views by which the file is read as of a moment."""
    return frozenset((*VIEWS, "events", "checkpoint", "projections", *(table.name for table in as_of.tables())))
