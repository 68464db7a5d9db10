"""The tables in PostgreSQL: who sees which rows, the rules that hold for every role, and the version."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pytest
from servers import messages_sent, until
from shared_rows import erasing, locked, publication, rows_after, states, write

pytest.importorskip("psycopg", reason="the driver psycopg is not installed")

import psycopg

from ledger import shared
from ledger.domain.errors import (
    ConflictError,
    LedgerError,
    NewerFormatError,
    NotFoundError,
    RejectedError,
    StorageError,
    UnreachableError,
)
from ledger.log.shared.connections import pool_of
from ledger.log.shared.opening import open_shared
from ledger.log.shared.port import Tip
from ledger.log.shared.postgres import PostgresLog
from ledger.log.shared.schema import FORMAT, view_of
from tools.shared.server import ROLE, Server

OTHER = "another tenant's"


@pytest.fixture
def log(shared_url: str, tenant: str) -> PostgresLog:
    log = PostgresLog(shared_url, tenant, "ada", timeout_seconds=5)
    write(log, "1", "2", blobs=[("b_1", b"1")])
    log.report(2, 0)
    log.take_lease("work", "ada-1", 60)
    return log


def ask(url: str, tenant: str | None, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        if tenant is not None:
            connection.execute("SELECT set_config('ledger.tenant', %s, true)", (tenant,))
        cursor = connection.execute(statement)  # type: ignore[call-overload]
        return cursor.fetchall() if cursor.description else []


# --- row security ----------------------------------------------------------------------------------------------------

TABLES = ("logs", "events", "blobs", "replicas", "leases")


@pytest.mark.parametrize("table", TABLES)
def test_a_tenant_sees_its_own_rows_and_no_others(log: PostgresLog, shared_url: str, table: str) -> None:
    count = f"SELECT count(*) FROM ledger.{table}"
    assert ask(shared_url, log.tenant, count) != [(0,)]
    assert ask(shared_url, OTHER, count) == [(0,)]
    assert ask(shared_url, None, count) == [(0,)]


@pytest.mark.parametrize("table", TABLES)
def test_a_row_of_another_tenant_can_be_neither_changed_nor_deleted(
    log: PostgresLog, shared_url: str, table: str
) -> None:
    own = log.tenant.replace("'", "''")
    for statement in (
        f"UPDATE ledger.{table} SET tenant = tenant WHERE tenant = '{own}' RETURNING 1",
        f"DELETE FROM ledger.{table} WHERE tenant = '{own}' RETURNING 1",
    ):
        assert ask(shared_url, OTHER, statement) == []


def test_a_row_of_another_tenant_cannot_be_written(log: PostgresLog, shared_url: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        ask(shared_url, OTHER, f"INSERT INTO ledger.leases VALUES ('{log.tenant}', 'w', 'h', now())")


def test_a_partition_is_not_read_by_its_name(log: PostgresLog, shared_url: str) -> None:
    ((partition,),) = ask(shared_url, log.tenant, "SELECT DISTINCT tableoid::regclass::text FROM ledger.events")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="read by its table"):
        ask(shared_url, log.tenant, f"SELECT count(*) FROM {partition}")


def test_the_role_of_the_tests_is_no_superuser_and_owns_the_tables(server: Server) -> None:
    assert server.sql(f"SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = '{ROLE}'") == [(False, False)]


def test_tenants_do_not_lock_each_other(log: PostgresLog, shared_url: str) -> None:
    locked(log)
    other = PostgresLog(shared_url, f"{log.tenant}, another", "ada", timeout_seconds=5)
    write(other, "1")
    assert states(other.tail(0, 5)) == ["1"]
    log.release()


# --- the rules of the log --------------------------------------------------------------------------------------------

BROKEN = {
    "delete an event": ("DELETE FROM ledger.events", "never deleted"),
    "delete a blob": ("DELETE FROM ledger.blobs", "never deleted"),
    "delete a log": ("DELETE FROM ledger.logs", "never deleted"),
    "empty the events": ("TRUNCATE ledger.events", "never deleted"),
    "change a state": ("UPDATE ledger.events SET state = 'x' WHERE position = 1", "only in its state, by an erasure"),
    "erase by another event": (
        "UPDATE ledger.events SET state = 'x', erased_by = 2 WHERE position = 1",
        "only in its state, by an erasure",
    ),
    "change a type": (
        "UPDATE ledger.events SET type = 'x', erased_by = 3 WHERE position = 1",
        "only in its state, by an erasure",
    ),
    "change a blob": ("UPDATE ledger.blobs SET data = 'x', erased_by = 3", "a blob is only emptied"),
    "empty a blob without an erasure": ("UPDATE ledger.blobs SET data = NULL", "a blob is only emptied"),
    "erase in other words than the erasure says": (
        "UPDATE ledger.events SET state = 'x', erased_by = 3 WHERE position = 1",
        "only the events that it covers",
    ),
    "erase an event that the erasure does not cover": (
        "UPDATE ledger.events SET state = 'covered', erased_by = 3 WHERE position = 2",
        "only the events that it covers",
    ),
    "empty a blob that the erasure does not cover": (
        "UPDATE ledger.blobs SET data = NULL, erased_by = 3",
        "only the blobs that it covers",
    ),
    "leave a gap": (
        "INSERT INTO ledger.events SELECT tenant, 5, 's', 1, type, state, digest, head FROM ledger.events LIMIT 1",
        "takes the position after the last",
    ),
    "take a version again": (
        "INSERT INTO ledger.events SELECT tenant, 4, stream, version, type, state, digest, head FROM ledger.events LIMIT 1",
        "duplicate key",
    ),
    "move the end": ("UPDATE ledger.logs SET position = position + 1", "ends at its last event"),
    "move the end back": ("UPDATE ledger.logs SET position = 1", "ends at its last event"),
    "begin in the middle": ("INSERT INTO ledger.logs VALUES ('x', 5, '')", "a new log is empty"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_the_shared_log_refuses_even_a_superuser(log: PostgresLog, server: Server, shared_url: str, how: str) -> None:
    write(log, erasing((1, "covered"), blobs=["b_2"]), type_="ContentErased")
    statement, why = BROKEN[how]
    before = log.tail(0, 10)
    database = shared_url.partition("@/")[2].partition("?")[0]
    own = f" tenant = '{log.tenant}'"
    if statement.startswith(("DELETE", "UPDATE")):
        statement += f" AND{own}" if "WHERE" in statement else f" WHERE{own}"
    statement = statement.replace("FROM ledger.events LIMIT", f"FROM ledger.events WHERE{own} AND position = 1 LIMIT")
    with pytest.raises(psycopg.Error, match=why):
        server.sql(statement, database=database)
    assert log.tail(0, 10) == before


def test_an_append_moves_the_end_of_the_log_to_its_last_event(log: PostgresLog, shared_url: str) -> None:
    copy = (
        "INSERT INTO ledger.events SELECT tenant, {0}, 's{0}', 1, type, state, digest, sha256('{0}') FROM ledger.events"
        f" WHERE tenant = '{log.tenant}' LIMIT 1"
    )
    ask(shared_url, log.tenant, f"{copy.format(3)}; {copy.format(4)}")
    assert log.tail(0, 10).tip == Tip(4, sha256(b"4").digest())


# --- no state of a session -------------------------------------------------------------------------------------------


def test_a_command_exchanges_two_messages(log: PostgresLog, shared_url: str) -> None:
    before = messages_sent(shared_url)
    write(log, "3")
    assert messages_sent(shared_url) - before == 2


def test_a_read_exchanges_one_message(log: PostgresLog, shared_url: str) -> None:
    before = messages_sent(shared_url)
    log.tail(0, 5)
    assert messages_sent(shared_url) - before == 1


def test_a_transaction_leaves_no_setting_behind(log: PostgresLog, shared_url: str) -> None:
    """So that a pooler in transaction mode may give the next transaction to any session."""
    write(log, "3")
    log.tail(0, 5)
    names = ("ledger.tenant", "lock_timeout", "idle_in_transaction_session_timeout", "transaction_isolation")
    with pool_of(shared_url).lent(5) as connection:
        values = connection.ask("; ".join(f"SELECT current_setting('{name}', true)" for name in names), 5)
    assert [rows[0][0] for rows in values] == [b"", b"0", b"0", b"read committed"]


def test_the_settings_of_a_database_do_not_change_what_is_read(server: Server) -> None:
    database = server.new_database()
    settings = {
        "bytea_output": "escape",
        "datestyle": "'German, DMY'",
        "standard_conforming_strings": "off",
        "search_path": "''",
        "timezone": "'Asia/Kolkata'",
    }
    server.sql(*(f"ALTER DATABASE {database} SET {name} = {value}" for name, value in settings.items()))
    log = PostgresLog(server.url(database), "o'acme\\", "ada")
    end = write(log, "a \\ and a '", "2", blobs=[("b_1", bytes(range(256)))])
    log.report(2, 0)
    tail = log.tail(0, 5)
    assert (tail.tip, tail.rows[-1].head) == (end, end.head)
    assert tail.rows[0].state == "a \\ and a '"
    assert tail.blobs[0].data == bytes(range(256))
    (replica,) = log.replicas()
    assert abs((replica.seen - datetime.now(UTC)).total_seconds()) < 3600
    with log.snapshot() as (tip, rows, _):
        assert (tip, len(list(rows))) == (end, 2)


def test_a_process_keeps_few_connections_for_many_tenants(server: Server) -> None:
    database = server.new_database()
    for number in range(12):
        write(PostgresLog(server.url(database), f"tenant {number}", "ada"), "1")
    count = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND application_name = 'memory-ledger'"
    assert server.sql(count) in ([(1,)], [(2,)])  # of commands, and of notices


# --- making ----------------------------------------------------------------------------------------------------------


def test_a_database_is_prepared_once_and_checked_again(server: Server) -> None:
    url = server.url(server.new_database(prepared=False))
    with pytest.raises(StorageError, match="prepare"):
        write(PostgresLog(url, "acme", "ada"), "1")
    assert shared.prepare(url) == shared.prepare(url) == FORMAT
    write(PostgresLog(url, "acme", "ada"), "1")
    shared.prepare(url)
    assert states(PostgresLog(url, "acme", "ada").tail(0, 5)) == ["1"]


def test_tables_of_a_newer_version_are_refused(server: Server) -> None:
    database = server.new_database()
    server.sql("INSERT INTO ledger.format (version) VALUES (9)", database=database)
    url = server.url(database)
    for call in (lambda: shared.prepare(url), lambda: PostgresLog(url, "acme", "ada").tail(0, 5)):
        with pytest.raises(NewerFormatError, match="version 9"):
            call()


def test_a_running_process_stops_when_the_format_is_raised_and_goes_on_when_it_is_set_back(server: Server) -> None:
    database = server.new_database()
    log = PostgresLog(server.url(database), "acme", "ada")
    write(log, "1")
    server.sql("INSERT INTO ledger.format (version) VALUES (9)", database=database)
    for call in (lambda: write(log, "2"), lambda: log.tail(0, 5)):
        with pytest.raises(NewerFormatError, match="version 9"):
            call()
    server.sql("DELETE FROM ledger.format WHERE version = 9", database=database)
    write(log, "2")
    assert states(log.tail(0, 5)) == ["1", "2"]


def test_tables_of_an_earlier_format_are_moved_and_moved_back_until_the_first_write(
    server: Server,
) -> None:
    url = server.url(server.new_database(prepared=False))
    assert shared.prepare(url, version=1) == 1
    log = PostgresLog(url, "acme", "ada")
    write(log, "1")
    assert shared.prepare(url) == FORMAT
    assert shared.prepare(url, version=1) == 1
    write(log, "2")
    assert shared.prepare(url) == FORMAT
    write(log, "3")
    with pytest.raises(ConflictError, match="1 events were written since"):
        shared.prepare(url, version=1)
    assert states(log.tail(0, 5)) == ["1", "2", "3"]
    assert ask(url, OTHER, "SELECT count(*) FROM ledger.logs") == [(0,)]
    with pytest.raises(RejectedError, match="this product knows 1 to"):
        shared.prepare(url, version=FORMAT + 1)


def test_tables_that_were_moved_have_the_rules_of_new_ones(server: Server) -> None:
    rules = (
        "SELECT tgname, tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal UNION ALL"
        " SELECT polname, polrelid::regclass::text FROM pg_policy ORDER BY 1, 2"
    )
    moved, new = server.new_database(prepared=False), server.new_database()
    for version in (1, FORMAT, 1, FORMAT):
        shared.prepare(server.url(moved), version=version)
    assert server.sql(rules, database=moved) == server.sql(rules, database=new)


def test_a_move_waits_for_the_command_that_holds_the_lock_and_machines_read_meanwhile(server: Server) -> None:
    url = server.url(server.new_database(prepared=False))
    shared.prepare(url, version=1)
    log = PostgresLog(url, "acme", "ada")
    write(log, "1")
    tail = locked(log, Tip(*log.tail(0, 1).tip))
    with ThreadPoolExecutor(1) as threads:
        move = threads.submit(shared.prepare, url)
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%EXCLUSIVE MODE%'"
        assert until(lambda: server.sql(waits) == [(1,)])
        assert states(log.tail(0, 5)) == ["1"]
        log.publish(publication(tail.tip, rows_after(tail.tip, "2")))
        assert move.result() == FORMAT
    write(log, "3")
    assert states(log.tail(0, 5)) == ["1", "2", "3"]


def test_a_role_that_owns_nothing_can_do_a_machines_work_after_prepare(server: Server) -> None:
    database = server.new_database(prepared=False)
    name = f"worker_{database}"
    server.sql(f"CREATE ROLE {name} LOGIN")
    assert shared.prepare(server.url(database), role=name) == FORMAT
    log = PostgresLog(server.url(database, name), "acme", "ada")
    write(log, "secret")
    tail = locked(log)
    log.publish(
        publication(
            tail.tip, rows_after(tail.tip, by := erasing((1, "[gone]")), type_="ContentErased"), (), [(1, "[gone]", 2)]
        )
    )
    log.report(2, 2)
    assert log.take_lease("work", "ada-1", 5)
    log.give_back_lease("work", "ada-1")
    assert log.forget("ada", "it was replaced")
    assert states(log.tail(0, 5)) == ["[gone]", by]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        ask(server.url(database, name), "acme", "DELETE FROM ledger.events")


def test_a_role_without_rights_is_told_so(server: Server) -> None:
    database = server.new_database()
    server.sql(f"CREATE ROLE stranger_{database} LOGIN")
    with pytest.raises(StorageError, match="may not do this"):
        PostgresLog(server.url(database, f"stranger_{database}"), "acme", "ada").tail(0, 5)


# --- names and the extra ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tenant", ["", " acme", "a\0b", "a\nb", "x" * 101])
def test_a_name_that_no_tenant_can_have_is_refused(shared_url: str, tenant: str) -> None:
    with pytest.raises(RejectedError, match="1 to 100 printable characters"):
        open_shared(shared_url, tenant, "ada")


@pytest.mark.parametrize("tenant", ["o'brien", 'a"b', "back\\slash", "東京", "x'); DROP SCHEMA ledger CASCADE; --"])
def test_a_tenant_may_have_any_printable_name(shared_url: str, tenant: str) -> None:
    log = PostgresLog(shared_url, tenant, "o'brien\\", timeout_seconds=5)
    write(log, "1")
    log.report(1, 0)
    assert states(log.tail(0, 5)) == ["1"]
    assert [replica.machine for replica in log.replicas()] == ["o'brien\\"]


def test_no_two_tenants_have_one_view() -> None:
    names = ["acme", "Acme", "tenant_x", "a b", "x" * 60, "x" * 61, "1a"]
    assert len({view_of(name) for name in names}) == len(names)
    assert view_of("acme") == "acme_events"
    assert all(len(view_of(name)) < 64 for name in names)


def test_a_text_that_postgresql_cannot_store_is_refused(log: PostgresLog) -> None:
    with pytest.raises(LedgerError, match="NUL"):
        write(log, "a\0b")
    write(log, "3")


def test_another_kind_of_url_is_refused() -> None:
    with pytest.raises(RejectedError, match="postgresql://"):
        shared.prepare("mysql://localhost/x")


@pytest.mark.parametrize("place", ["[localhost/x", "localhost:port/x?what", "localhost/x?what=1"])
def test_a_url_that_cannot_be_read_is_refused_and_its_password_is_not_repeated(place: str) -> None:
    with pytest.raises(RejectedError, match="cannot be read") as refused:
        shared.replicas(f"postgresql://app:geheim@{place}", "acme")
    assert "geheim" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_password_that_the_server_refuses_is_not_repeated(tenant: str) -> None:
    with pytest.raises(UnreachableError) as refused:
        PostgresLog("postgresql://app:geheim@127.0.0.1:1/x", tenant, "ada", timeout_seconds=1).tail(0, 1)
    assert "geheim" not in f"{refused.value} {refused.value.__cause__}"


def test_a_missing_driver_is_named_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(RejectedError, match=r'pip install "belief-ledger\[postgres\]"'):
        shared.replicas("postgresql://localhost/x", "acme")


def test_the_product_imports_no_driver_until_a_log_is_shared() -> None:
    program = (
        "import sys, ledger, ledger.api, ledger.shared; print([n for n in sys.modules if n.startswith('psycopg')])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"


# --- machines --------------------------------------------------------------------------------------------------------


def test_a_forgotten_machine_is_not_waited_for_until_it_reports_again(log: PostgresLog, shared_url: str) -> None:
    assert [replica.machine for replica in shared.replicas(shared_url, log.tenant)] == ["ada"]
    shared.forget(shared_url, log.tenant, "ada", reason="its disk was shredded")
    assert shared.replicas(shared_url, log.tenant) == []
    kept = ask(shared_url, log.tenant, "SELECT machine, forgotten FROM ledger.replicas")
    assert kept == [("ada", "its disk was shredded")]
    log.report(2, 0)
    assert [replica.machine for replica in shared.replicas(shared_url, log.tenant)] == ["ada"]


def test_a_machine_is_forgotten_with_a_reason_and_by_its_name(log: PostgresLog, shared_url: str) -> None:
    with pytest.raises(RejectedError, match="reason"):
        shared.forget(shared_url, log.tenant, "ada", reason=" ")
    with pytest.raises(NotFoundError, match="eve"):
        shared.forget(shared_url, log.tenant, "eve", reason="it was replaced")
