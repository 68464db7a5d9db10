"""An erased text leaves the files of the server: VACUUM takes the old version of its row."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from servers import until
from shared_rows import erasing, locked, publication, rows_after, write

pytest.importorskip("psycopg", reason="the driver psycopg is not installed")

import psycopg

from ledger import Ledger, RejectedError, shared
from ledger.log.shared.port import SERVER
from ledger.log.shared.postgres import PostgresLog
from tools.shared.server import Server

LONGEST_WAIT_SECONDS = 60
TEXTS = {
    "a short text": "the word Tulpenfeld",
    "a text that lies in parts of its own": "Tulpenfeld" + random.Random(1).randbytes(20_000).hex(),
}


def tables(server: Server, database: str) -> Iterator[bytes]:
    """Yield the contents of each file of a table of a database, as it is on the disk."""
    ((number,),) = server.sql("CHECKPOINT", f"SELECT oid FROM pg_database WHERE datname = '{database}'")
    for path in server.data.glob(f"base/{number}/*"):
        if path.is_file():
            yield path.read_bytes()


def is_left(server: Server, database: str, word: str) -> bool:
    return any(word.encode() in content for content in tables(server, database))


def leaves(server: Server, database: str, word: str) -> bool:
    """Return True as soon as no table holds a word."""
    until = time.monotonic() + LONGEST_WAIT_SECONDS
    while time.monotonic() < until:
        if not is_left(server, database, word):
            return True
        time.sleep(0.1)
    return False


def erase(log: PostgresLog, position: int, blob: str) -> int:
    tail = locked(log)
    rows = rows_after(tail.tip, erasing((position, "[gone]"), blobs=[blob]), type_="ContentErased")
    by = rows[0].position
    log.publish(publication(tail.tip, rows, (), [(position, "[gone]", by)], [(blob, by)]))
    return by


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_an_erased_text_and_blob_leave_the_tables_of_the_server(server: Server, tenant: str, text: str) -> None:
    database = server.new_database()
    log = PostgresLog(server.url(database), tenant, "ada")
    write(log, "before", text, "after", blobs=[("b_1", b"Muschelkalk" + text.encode())])
    assert is_left(server, database, "Tulpenfeld")
    erase(log, 2, "b_1")
    assert leaves(server, database, "Tulpenfeld")
    assert leaves(server, database, "Muschelkalk")


def role_of(server: Server, database: str) -> PostgresLog:
    """Prepare a database for a role that owns nothing, and return a log with two events, of which the second is to be erased."""
    server.sql(f"CREATE ROLE vacuum_{database} LOGIN")
    shared.prepare(server.url(database), role=f"vacuum_{database}")
    log = PostgresLog(server.url(database, f"vacuum_{database}"), "acme", "ada")
    write(log, "before", "the word Gneisgarten", "after", blobs=[("b_1", b"x")])
    assert is_left(server, database, "Gneisgarten")
    return log


def test_a_role_that_owns_nothing_vacuums_too(server: Server) -> None:
    ((version,),) = server.sql("SHOW server_version_num")
    if int(version) < 170000:
        pytest.skip("before PostgreSQL 17, VACUUM is the owner's alone")
    database = server.new_database(prepared=False)
    log = role_of(server, database)
    erase(log, 2, "b_1")
    assert leaves(server, database, "Gneisgarten")
    assert log.replicas() == []


def test_an_erasure_waits_for_the_owner_if_nobody_else_may_vacuum(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.log.shared.vacuum.AGAIN_SECONDS", 0.0)
    database = server.new_database(prepared=False)
    log = role_of(server, database)
    ((version,),) = server.sql("SHOW server_version_num")
    if int(version) >= 170000:
        for table in ("events", "blobs"):
            parts = [f"ledger.{table}_{number:02d}" for number in range(32)]
            server.sql(f"REVOKE MAINTAIN ON {', '.join(parts)} FROM vacuum_{database}", database=database)
    erase(log, 2, "b_1")
    for _ in range(3):
        assert [(each.machine, each.lag, each.erasures_pending) for each in log.replicas()] == [(SERVER, 0, 1)]
    assert is_left(server, database, "Gneisgarten")
    assert until(lambda: "which the role app may do" in caplog.text)

    def is_removed_by_the_owner() -> (
        bool
    ):  # a late count of the server, or a transaction elsewhere, makes him do it again
        server.sql("VACUUM ledger.events, ledger.blobs", database=database, role="app")
        return not log.replicas()

    assert until(is_removed_by_the_owner)
    assert not is_left(server, database, "Gneisgarten")


def test_an_erasure_waits_for_a_transaction_that_was_open_before_it(
    server: Server, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.log.shared.vacuum.AGAIN_SECONDS", 0.0)
    database = server.new_database()
    url = server.url(database)
    log = PostgresLog(url, tenant, "ada")
    write(log, "before", "the word Kieselgur", "after", blobs=[("b_1", b"x")])
    with psycopg.connect(url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM ledger.events")
        erase(log, 2, "b_1")
        for _ in range(3):
            assert [each.machine for each in log.replicas()] == [SERVER]
        assert is_left(server, database, "Kieselgur")
    assert until(lambda: not log.replicas())
    assert leaves(server, database, "Kieselgur")


def test_a_text_in_parts_of_its_own_is_waited_for_too(server: Server, tenant: str) -> None:
    database = server.new_database()
    log = PostgresLog(server.url(database), tenant, "ada")
    write(log, "before", TEXTS["a text that lies in parts of its own"], "after", blobs=[("b_1", b"x")])
    erase(log, 2, "b_1")
    assert until(lambda: not log.replicas())
    assert not is_left(server, database, "Tulpenfeld")


def test_no_machine_has_the_name_of_the_server(shared_url: str) -> None:
    with pytest.raises(RejectedError, match="stands for the server"):
        Ledger.open("x.db", log=shared_url, tenant="acme", machine=SERVER)
