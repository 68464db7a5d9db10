"""How far a projection of one's own is: kept where every commit writes, and begun again where that is lost."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from own import BOTH, Turns, listed

from ledger import Ledger


def grown_by_a_memory(ledger):
    before = os.path.getsize(f"{ledger.path}-wal")
    ledger.remember("Ana lives in Lisbon.")
    return os.path.getsize(f"{ledger.path}-wal") - before


def test_a_commit_that_it_does_not_follow_writes_no_page_more(tmp_path):
    with Ledger.open(tmp_path / "bare.db") as bare, Ledger.open(tmp_path / "own.db", projections=[Turns]) as with_one:
        for ledger in (bare, with_one):
            ledger.remember("Ana works at the harbor.")
        assert grown_by_a_memory(bare) == grown_by_a_memory(with_one)
        assert with_one.projections.get("turns").behind == 0


def test_what_lost_its_position_is_folded_from_zero_by_the_next_open(tmp_path):
    path = tmp_path / "memory.db"
    with Ledger.open(path, projections=BOTH) as ledger:
        ledger.remember("Ana lives in Lisbon.")
        ledger.capture("Where does Ana live?", "In Lisbon.")
        before = listed(ledger)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM checkpoint WHERE id > 1")
    with Ledger.open(path, projections=BOTH) as ledger:
        assert listed(ledger) == before and ledger.proof.verify().ok
