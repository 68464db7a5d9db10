"""A connection prepared for a user's SQL: the documented views over the log, at any moment, without the secret.

TEMP views hide the views of the file. So the same SQL works now, at an earlier moment, and on a file whose own
views come from another version. The ledger's secret is hidden in all of them.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Iterable, Mapping

from projections.core import as_of, own_registry
from projections.core.rows import Connection
from projections.core.sql_views import VIEWS

NOWHERE = "what_is_of_all_users"  # no table has this name, so a view of it fails with an error that names it
_CONTROL = ("checkpoint", "projections", own_registry.NAME)  # read before each query; they hold no user's data
_SOURCE = re.compile(r"\b(FROM|JOIN) (\w+)(?!\.)\b")

_LOG = "SELECT position, stream, version, type, {state}, digest, head, key, erased_by FROM {table}"
_STATE = "CASE type WHEN 'LedgerCreated' THEN json_set(state, '$.data.secret', '') ELSE state END AS state"
_OWN = (  # SQLite keeps "CREATE VIEW" and then the user's text
    "SELECT name, 'CREATE TEMP VIEW' || substr(sql, 12) FROM {}.sqlite_master WHERE type = 'view' AND lower(name) GLOB 'my_*'"
)


def prepare_live(connection: Connection) -> None:
    """Prepare a connection for questions about the present."""
    connection.execute(f"CREATE TEMP VIEW events AS {_rows(_hide_secret(connection))}")
    _shadow(connection)


def prepare_past(connection: Connection) -> None:
    """Prepare a connection for questions about an earlier moment."""
    as_of.shadow(connection, _rows(_hide_secret(connection)))
    _shadow(connection)


def prepare_folded(connection: Connection) -> None:
    """Prepare a connection on which the projections are folded in TEMP tables."""
    as_of.shadow_the_log(connection, _rows(_hide_secret(connection)))
    _shadow(connection)


# --- questions of one user -----------------------------------------------------------------------------------------------------
#
# The authorizer alone does not confine a query to a user: SQLite does not ask the authorizer about a column that is named by
# USING, by NATURAL JOIN or by the argument of a table-valued function. So no name that a user can write may lead to rows of
# another user. The tables get random names, and their own names lead to a view that fails.


def prepare_live_of_user(connection: Connection) -> None:
    """Prepare a connection for one user's questions about the present."""
    log = _hide_secret(connection)
    tables = {name: f"main.{name}" for name in as_of.views()} | {"blobs": "main.blobs", "events": f"temp.{log}"}
    _shadow_of_user(connection, _prefix(), tables)


def prepare_past_of_user(connection: Connection) -> None:
    """Prepare a connection for one user's questions about an earlier moment."""
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
    """Hide each table of the file behind a view that fails, also tables that were added since the last query."""
    listed = "SELECT lower(name) FROM {}.sqlite_master WHERE type IN ('table', 'view') AND name NOT GLOB 'sqlite_*'"
    names, hidden = ({name for (name,) in connection.execute(listed.format(schema))} for schema in ("main", "temp"))
    for name in names - hidden - set(_CONTROL):
        connection.execute(f"CREATE TEMP VIEW {_quoted(name)} AS SELECT 1 FROM temp.{NOWHERE}")


def _over(sql: str, prefix: str, tables: Mapping[str, str]) -> str:
    """Return the SQL with its tables replaced, and its common table expression under a random name."""
    hidden = _SOURCE.sub(lambda match: f"{match[1]} {tables.get(match[2], match[2])}", sql)
    return re.sub(r"\bup\b", f"{prefix}up", hidden)


def stand_for(connection: Connection, user: str, own: Iterable[str]) -> str:
    """Switch a connection that was prepared for one user to this user, and return the random prefix of its names.

    Of the tables ``own`` the query then reads the rows of this user.
    """
    sql = "SELECT name FROM temp.sqlite_master WHERE type = 'table' AND name GLOB 'one_*_user'"
    ((table,),) = connection.execute(sql)
    connection.execute(f"UPDATE temp.{table} SET user = ?", (user,))
    prefix = str(table).removesuffix("user")
    shown = {name for (name,) in connection.execute("SELECT name FROM temp.sqlite_master WHERE type = 'view'")}
    for name in own:
        if f"{prefix}{name}" not in shown:
            rows = f"SELECT t.* FROM main.{_quoted(name)} t WHERE {_OF_USER.format(f'(SELECT user FROM temp.{table})')}"
            connection.execute(f"CREATE TEMP VIEW {_quoted(prefix + name)} AS {rows}")
            connection.execute(f"DROP VIEW IF EXISTS temp.{_quoted(name)}")
            connection.execute(f"CREATE TEMP VIEW {_quoted(name)} AS SELECT * FROM temp.{_quoted(prefix + name)}")
    _lead_nowhere(connection)
    return prefix


_OF_USER = (
    "t.user = {} COLLATE BINARY"  # whatever the column's own collation; a name in quotes might be taken for a text
)


def own_of_user(connection: Connection) -> list[str]:
    """Return the names, in small letters, of the users' own tables that say in a column ``user`` whose their rows are."""
    sql = (
        "SELECT lower(m.name) FROM main.sqlite_master m WHERE m.type = 'table' AND lower(m.name) GLOB 'my_*'"
        " AND m.sql LIKE 'CREATE TABLE%'"
        " AND EXISTS (SELECT 1 FROM pragma_table_xinfo(m.name, 'main') c WHERE lower(c.name) = 'user')"
    )
    return [name for (name,) in connection.execute(sql)]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def copy_of(connection: Connection, user: str, sql: str, own: Iterable[str]) -> Connection:
    """Return a database in memory with the user's rows of the views, and of the tables ``own``, that the query names."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    for schema, name in (*(("temp", view) for view in VIEWS), *(("main", table) for table in own)):
        quoted = _quoted(name)
        columns = connection.execute("SELECT name, type FROM pragma_table_info(?, ?)", (name, schema)).fetchall()
        declared = (f"{_quoted(column)} {type_ if type_ in ('TEXT', 'INTEGER') else ''}" for column, type_ in columns)
        copy.execute(f"CREATE TABLE {quoted} ({', '.join(declared)})")
        if name in sql.lower():
            rows = connection.execute(f"SELECT t.* FROM {schema}.{quoted} t WHERE {_OF_USER.format('?')}", (user,))
            copy.executemany(f"INSERT INTO {quoted} VALUES ({', '.join('?' * len(columns))})", rows)
    return copy


def _hide_secret(connection: Connection) -> str:
    """Create a view of the log without the ledger's secret, and return its random name."""
    # With this setting no text goes to another disk. The statement drops all TEMP tables.
    connection.execute("PRAGMA temp_store = MEMORY")
    name = f"log_{secrets.token_hex(16)}"
    connection.execute(f"CREATE TEMP VIEW {name} AS {_LOG.format(state=_STATE, table='main.events')}")
    return name


def _rows(log: str) -> str:
    return _LOG.format(state="state", table=f"temp.{log}")


def _shadow(connection: Connection) -> None:
    for name, view in VIEWS.items():
        connection.execute(f"CREATE TEMP VIEW {name} AS {view.sql('main.events')}")


def hidden_log(connection: Connection) -> str:
    """Return the random name of the view of the log without the ledger's secret."""
    sql = "SELECT name FROM temp.sqlite_master WHERE type = 'view' AND name GLOB 'log_*'"
    return str(connection.execute(sql).fetchone()[0])


def shadow_own(connection: Connection) -> list[str]:
    """Create the user's own views over the prepared views, at the same moment, and return the SQL that creates them."""
    views, shadows = (dict(connection.execute(_OWN.format(schema)).fetchall()) for schema in ("main", "temp"))
    for name in shadows.keys() - {name for name, create in views.items() if shadows.get(name) == create}:
        connection.execute(f'DROP VIEW temp."{name}"')
    for name, create in views.items():
        if shadows.get(name) != create:
            connection.execute(create)
    return list(views.values())


def own_before(connection: Connection) -> dict[str, str]:
    """Return the TEMP tables and views that replace the user's own: lower-case name, and the SQL that creates each."""
    sql = "SELECT lower(name), sql FROM temp.sqlite_master WHERE type IN ('table', 'view') AND lower(name) GLOB 'my_*'"
    return dict(connection.execute(sql))


def through() -> frozenset[str]:
    """Return the names of the views through which an earlier moment is read."""
    return frozenset((*VIEWS, "events", "checkpoint", "projections", *(table.name for table in as_of.tables())))
