"""Making the tables of shared logs in a database, and the views for the eventsourcing library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ledger.domain.errors import StorageError
from ledger.log.shared.connections import (
    LostError,
    MessageConnection,
    RefusedError,
    quoted_name,
    refuse_newer,
    text_literal,
    typed,
    unreachable,
)
from ledger.log.shared.schema import FORMAT, OLDEST, checked_tenant, grants_sql, schema_sql, view_of, view_sql

_BEGIN = "BEGIN; SELECT pg_advisory_xact_lock(hashtext('memory-ledger prepare'))"  # two that prepare at once take turns


def prepare_schema(url: str, role: str, seconds: float) -> int:
    """Make the schema if it is not there, grant its use to a role, and return the version of the schema."""
    with _connected(url, seconds) as connection:
        if connection.server_version < OLDEST * 10000:
            raise StorageError(
                f"the server is PostgreSQL {connection.server_version // 10000}; a shared log needs {OLDEST} or newer"
            )
        *_, encodings, tables = connection.ask(
            f"{_BEGIN}; SHOW server_encoding; SELECT to_regclass('ledger.format')", seconds
        )
        if encodings[0][0] != b"UTF8":
            raise StorageError(
                f"the database is in {(encodings[0][0] or b'').decode()}; a shared log needs a database in UTF-8"
            )
        if tables[0][0] is None:
            connection.ask(schema_sql(), seconds)
        (versions,) = connection.ask("SELECT max(version) FROM ledger.format", seconds)
        refuse_newer(int(versions[0][0] or 0))
        if role:
            connection.ask(grants_sql(quoted_name(role), connection.server_version), seconds)
        connection.ask("COMMIT", seconds)
        return FORMAT


def make_view(url: str, tenant: str, reader: str, seconds: float) -> str:
    """Make the view of a tenant's events, let a role read it, and return the name of the view in the schema ``ledger``."""
    view = view_of(checked_tenant(tenant))
    statements = f"{_BEGIN}; {view_sql(view, text_literal(tenant))}"
    if reader:
        role = quoted_name(reader)
        statements += f" GRANT USAGE ON SCHEMA ledger TO {role}; GRANT SELECT ON ledger.{quoted_name(view)} TO {role};"
    with _connected(url, seconds) as connection:
        connection.ask(f"{statements} COMMIT", seconds)
    return view


@contextmanager
def _connected(url: str, seconds: float) -> Iterator[MessageConnection]:
    """Lend a connection of its own for a block, with the errors of the ledger."""
    try:
        connection = MessageConnection(url, seconds)
        try:
            yield connection
        finally:
            connection.close()
    except RefusedError as error:
        raise typed(error) from error
    except LostError as error:
        raise unreachable(error) from error
