"""How far a projection of one's own is: kept where every commit writes, and begun again where that is lost."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

from own import BOTH, Seen, Turns, listed

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


def test_a_table_that_somebody_dropped_is_made_again_when_it_is_read(tmp_path):
    with Ledger.open(tmp_path / "memory.db", projections=BOTH) as ledger:
        ledger.remember("Ana lives in Lisbon.")
        before = listed(ledger)
        for ask in (lambda: listed(ledger), lambda: ledger.query("SELECT id FROM my_counts_seen", every_user=True)):
            with closing(sqlite3.connect(ledger.path)) as connection:
                connection.execute("DROP TABLE my_counts_seen")
            assert ask()
        assert listed(ledger) == before and ledger.proof.verify().ok


def test_what_a_file_that_is_only_read_lacks_is_listed_as_its_rows_are(tmp_path):
    path = tmp_path / "memory.db"
    with Ledger.open(path) as ledger:
        ledger.remember("Ana lives in Lisbon.")
    with Ledger.open(path, readonly=True, projections=BOTH) as ledger:
        assert len(ledger.projections.rows(Seen)) == 1
        counts, turns = ledger.projections.list()
        assert (counts.name, counts.is_open, counts.behind) == ("counts", True, 0)
        assert counts.tables == {"my_counts_day": 1, "my_counts_seen": 1} and turns.tables == {"my_turns_turn": 0}
        assert ledger.projections.get("counts") == counts


def test_projections_are_listed_in_pages(tmp_path):
    with Ledger.open(tmp_path / "memory.db", projections=BOTH) as ledger:
        page = ledger.projections.list(limit=1)
        assert [each.name for each in page] == ["counts"] and [each.name for each in page.all()] == ["counts", "turns"]
