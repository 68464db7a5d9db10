"""Making the tables of shared logs in a database, and the views for the eventsourcing library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ledger.domain.errors import ConflictError, RejectedError, StorageError
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
from ledger.log.shared.schema import (
    FORMAT,
    OLDEST,
    checked_tenant,
    grants_sql,
    moves_sql,
    only_sql,
    schema_sql,
    unforced_sql,
    view_of,
    view_sql,
)

_BEGIN = "BEGIN; SELECT pg_advisory_xact_lock(hashtext('memory-ledger prepare'))"  # two that prepare at once take turns


# The commands of all tenants end before the lock is there, and those that wait for it see the new format.
_ALONE = "LOCK TABLE ledger.logs IN EXCLUSIVE MODE; LOCK TABLE ledger.format IN ACCESS EXCLUSIVE MODE;"
# The number of all events, whoever owns the tables: nobody else sees them without row security, for the lock is held.
_EVENTS = """
ALTER TABLE ledger.logs NO FORCE ROW LEVEL SECURITY; SELECT coalesce(sum(position), 0) FROM ledger.logs;
"""


def prepare_schema(url: str, role: str, only_tenant: str, version: int | None, seconds: float) -> int:
    """Make the schema if it is not there, move it to a format, grant its use to a role, and return the format.

    The role is bound to one tenant if one is named.
    """
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
        there = int(versions[0][0] or 0)
        refuse_newer(there)
        if (version := FORMAT if version is None else version) != there:
            _move(connection, there, version, seconds)
        if role:
            connection.ask(grants_sql(quoted_name(role), connection.server_version), seconds)
            (owners,) = connection.ask(f"SELECT current_user = {text_literal(role)}", seconds)
            if owners[0][0] == b"f":
                connection.ask(unforced_sql(), seconds)
            if only_tenant:
                _check_bound(connection, role, seconds)
                connection.ask(only_sql(quoted_name(role), text_literal(checked_tenant(only_tenant))), seconds)
        connection.ask("COMMIT", seconds)
        return version


def _check_bound(connection: MessageConnection, role: str, seconds: float) -> None:
    """Raise ``RejectedError`` for a role that row security does not bind, or that may become such a role."""
    free = (
        "SELECT rolname FROM pg_roles WHERE (rolsuper OR rolbypassrls OR oid = (SELECT relowner FROM pg_class"
        f" WHERE oid = 'ledger.logs'::regclass)) AND pg_has_role({text_literal(role)}, oid, 'MEMBER') ORDER BY rolname"
    )
    if rows := connection.ask(free, seconds)[0]:
        raise RejectedError(
            f"the role {role!r:.60} was to see one tenant only, and it is or may become {str(rows[0][0] or b'', 'utf-8')!r},"
            " whom row security does not bind: take a role that is no superuser, owns no table and is a member of no such role",
            rule="role",
        )


def _move(connection: MessageConnection, there: int, version: int, seconds: float) -> None:
    """Move the tables to another format; raise ``ConflictError`` for a way back behind which events would stay.

    The number of events at the move is kept as a comment on the table of formats, which every format has.
    """
    forced = "SELECT relforcerowsecurity, obj_description('ledger.format'::regclass) FROM pg_class"
    *_, rows = connection.ask(
        f"SET LOCAL lock_timeout = {round(seconds * 1000)}; {_ALONE} {forced} WHERE oid = 'ledger.logs'::regclass",
        seconds,
    )
    ((is_forced, at_move),) = rows
    *_, numbers = connection.ask(_EVENTS, seconds)
    events = int(numbers[0][0] or 0)
    if version < there and (written := events - int(at_move or 0)):
        raise ConflictError(
            f"the tables have format {there}, and {version} was asked for: {written:,} events were written since the format was"
            " raised, and there is a way back only before the first"
        )
    restored = "ALTER TABLE ledger.logs FORCE ROW LEVEL SECURITY;" if is_forced == b"t" else ""
    connection.ask(f"{moves_sql(there, version)} COMMENT ON TABLE ledger.format IS '{events}'; {restored}", seconds)


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
