"""A connection made ready for questions in SQL: the documented views over the log without the ledger's secret, now or as of then.

TEMP views stand before those of the file, so one question works on each moment, and on a file whose own views are of another
version.
"""

from __future__ import annotations

import secrets

from projections.core import as_of
from projections.core.rows import Connection
from projections.core.sql_views import VIEWS

_LOG = "SELECT position, stream, version, type, {state}, digest, head, key, erased_by FROM {table}"
_STATE = "CASE type WHEN 'LedgerCreated' THEN json_set(state, '$.data.secret', '') ELSE state END AS state"
_OWN = (  # SQLite keeps "CREATE VIEW", and then what was written
    "SELECT name, 'CREATE TEMP VIEW' || substr(sql, 12) FROM {}.sqlite_master WHERE type = 'view' AND lower(name) GLOB 'my_*'"
)


def prepare_live(connection: Connection) -> None:
    connection.execute(f"CREATE TEMP VIEW events AS {_hide_secret(connection)}")
    _shadow(connection)


def prepare_past(connection: Connection) -> None:
    as_of.shadow(connection, _hide_secret(connection))
    _shadow(connection)


def prepare_folded(connection: Connection) -> None:
    """For a connection on which the projections are folded."""
    as_of.shadow_the_log(connection, _hide_secret(connection))
    _shadow(connection)


def _hide_secret(connection: Connection) -> str:
    """The rows of the log without the ledger's secret, by a view whose name nobody knows."""
    connection.execute("PRAGMA temp_store = MEMORY")  # no text on another disk; drops what is there
    name = f"log_{secrets.token_hex(16)}"
    connection.execute(f"CREATE TEMP VIEW {name} AS {_LOG.format(state=_STATE, table='main.events')}")
    return _LOG.format(state="state", table=f"temp.{name}")


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
