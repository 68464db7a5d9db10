"""An erased text leaves the files of the server: VACUUM takes the old version of its row."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from shared_rows import locked, publication, rows_after, write

pytest.importorskip("psycopg", reason="the driver psycopg is not installed")

import psycopg

from ledger import shared
from ledger.log.shared.connections import pool_of
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
    rows = rows_after(tail.tip, "erases", type_="ContentErased")
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


def test_a_role_that_owns_nothing_vacuums_too(server: Server) -> None:
    """From PostgreSQL 17 on; before, VACUUM is the owner's alone."""
    database = server.new_database(prepared=False)
    server.sql(f"CREATE ROLE vacuum_{database} LOGIN")
    shared.prepare(server.url(database), role=f"vacuum_{database}")
    log = PostgresLog(server.url(database, f"vacuum_{database}"), "acme", "ada")
    write(log, "before", "the word Gneisgarten", "after", blobs=[("b_1", b"x")])
    assert is_left(server, database, "Gneisgarten")
    erase(log, 2, "b_1")
    assert leaves(server, database, "Gneisgarten")


def test_a_text_that_an_open_transaction_kept_leaves_with_the_next_report(server: Server, tenant: str) -> None:
    database = server.new_database()
    url = server.url(database)
    log = PostgresLog(url, tenant, "ada")
    write(log, "before", "the word Kieselgur", "after", blobs=[("b_1", b"x")])
    log.report(3, 0)
    with psycopg.connect(url) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM ledger.events")
        by = erase(log, 2, "b_1")
        with pool_of(url).lent(5) as connection:  # as the thread does right after the commit
            connection.ask("VACUUM ledger.events", 60)
        assert is_left(server, database, "Kieselgur")
    log.report(by, by)
    assert leaves(server, database, "Kieselgur")
