"""A role for one tenant: its password opens no other tenant, whatever its statements say."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from shared_rows import rows_after, write

pytest.importorskip("psycopg", reason="the driver psycopg is not installed")

import psycopg

from ledger import Ledger, LedgerError, RejectedError, StorageError, shared
from ledger.log.envelope import GENESIS
from ledger.log.shared.port import Publication, Tip
from ledger.log.shared.postgres import PostgresLog
from tools.shared.server import Server

MINE, THEIRS = "mine, o'brien\\'s", "theirs"
TABLES = ("logs", "events", "blobs", "replicas", "leases")


class Bound(NamedTuple):
    server: Server
    database: str
    role: str

    @property
    def url(self) -> str:
        return self.server.url(self.database, self.role)


@pytest.fixture
def bound(server: Server) -> Bound:
    """A role that is bound to the tenant ``MINE``, in a database where another tenant has rows in each table."""
    database = server.new_database(prepared=False)
    bound = Bound(server, database, f"bound_{database}")
    server.sql(f"CREATE ROLE {bound.role} LOGIN", f"CREATE ROLE free_{database} LOGIN")
    shared.prepare(server.url(database), role=f"free_{database}")
    shared.prepare(server.url(database), role=bound.role, only_tenant=MINE)
    theirs = PostgresLog(server.url(database, f"free_{database}"), THEIRS, "bob")
    write(theirs, "their secret", blobs=[("b_1", b"their secret")])
    theirs.report(1, 0)
    assert theirs.take_lease("work", "bob", 60)
    return bound


def inject(bound: Bound, *statements: str) -> list[tuple[object, ...]]:
    """Run statements in one transaction that names the other tenant, as who has the password can."""
    with psycopg.connect(bound.url) as connection:
        connection.execute("SELECT set_config('ledger.tenant', %s, true)", (THEIRS,))
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_a_bound_role_works_with_its_tenant(bound: Bound, tmp_path: Path) -> None:
    given = {"log": bound.url, "tenant": MINE}
    with (
        Ledger.open(tmp_path / "a.db", machine="a", **given) as a,  # type: ignore[arg-type]
        Ledger.open(tmp_path / "b.db", machine="b", **given) as b,  # type: ignore[arg-type]
    ):
        memory = a.remember("Ada likes green tea")
        b.wait(memory.position)
        a.erase(memory.id, derived="erase", sources="erase", quotes="erase")
        b.wait(a.position)
        assert b.memories.list() == []


def test_a_bound_role_cannot_open_another_tenant(bound: Bound, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="may not do this"):
        Ledger.open(tmp_path / "a.db", log=bound.url, tenant=THEIRS)
    log = PostgresLog(bound.url, THEIRS, "ada")
    assert list(log.tail(0, 10).rows) == []
    start = Tip(0, GENESIS)
    rows = rows_after(start, "injected")
    with pytest.raises(StorageError, match="may not do this"):
        log.append(Publication(start, Tip(1, rows[-1].head), rows))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("clause", ["", " WHERE tenant = 'theirs'", " WHERE true OR tenant = 'x'"])
def test_an_injected_select_shows_no_row_of_another_tenant(bound: Bound, table: str, clause: str) -> None:
    assert inject(bound, f"SELECT * FROM ledger.{table}{clause}") == []
    assert bound.server.sql(f"SELECT count(*) FROM ledger.{table}", database=bound.database) == [(1,)]


@pytest.mark.parametrize(
    "statement",
    [
        "SET LOCAL row_security = off; SELECT * FROM ledger.events",
        "SELECT * FROM ledger.events_00",
        "INSERT INTO ledger.replicas VALUES ('theirs', 'x', 1, 1, now(), NULL)",
        "INSERT INTO ledger.logs SELECT 'another', 0, decode(repeat('00', 32), 'hex')",
        "DROP POLICY own ON ledger.events",
        "ALTER TABLE ledger.events DISABLE ROW LEVEL SECURITY",
        "DELETE FROM ledger.events",
        "TRUNCATE ledger.events",
        "SET LOCAL session_replication_role = replica",
        "SET LOCAL ROLE app",
        "SET LOCAL SESSION AUTHORIZATION app",
        "CREATE FUNCTION ledger.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "COPY ledger.events_01 TO STDOUT",
    ],
)
def test_an_injected_statement_against_the_walls_is_refused(bound: Bound, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        inject(bound, *statement.split("; "))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger.events SET state = '', erased_by = 1",
        "UPDATE ledger.blobs SET data = NULL, erased_by = 1",
        "UPDATE ledger.replicas SET erased_through = 99",
        "UPDATE ledger.logs SET position = 99",
        "DELETE FROM ledger.replicas",
        "DELETE FROM ledger.leases",
    ],
)
def test_an_injected_change_reaches_no_row_of_another_tenant(bound: Bound, statement: str) -> None:
    assert inject(bound, f"{statement} RETURNING 1") == []


def test_another_call_binds_a_role_to_another_tenant_and_a_plain_one_leaves_it_bound(bound: Bound) -> None:
    owner = bound.server.url(bound.database)
    shared.prepare(owner, role=bound.role)
    assert inject(bound, "SELECT * FROM ledger.events") == []
    shared.prepare(owner, role=bound.role, only_tenant=THEIRS)
    assert len(inject(bound, "SELECT * FROM ledger.events")) == 1


def test_a_role_that_row_security_does_not_bind_is_refused(bound: Bound) -> None:
    server, owner = bound.server, bound.server.url(bound.database)
    server.sql(f"CREATE ROLE member_{bound.database} LOGIN IN ROLE app")
    for role in ("app", f"member_{bound.database}"):
        with pytest.raises(RejectedError, match="may become 'app'"):
            shared.prepare(owner, role=role, only_tenant=MINE)
    with pytest.raises(RejectedError, match="give role="):
        shared.prepare(owner, only_tenant=MINE)
    with pytest.raises(RejectedError, match="a tenant's name has"):
        shared.prepare(owner, role=bound.role, only_tenant=" ")
