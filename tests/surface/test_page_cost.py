"""A page costs what it shows: rows behind it are not read, however many there are."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ledger.api import Ledger
from projections.views import conflicts, merges, summaries

MANY = 500


def older(path: Path, table: str) -> None:
    """Many more rows like the first one, older than all."""
    with closing(sqlite3.connect(path)) as connection, connection:
        names = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})") if name != "row"]
        others = ", ".join(names)
        connection.execute(
            f"WITH RECURSIVE n(row) AS (SELECT -1 UNION ALL SELECT row - 1 FROM n WHERE row > -{MANY})"
            f" INSERT INTO {table} (row, {others}) SELECT n.row, {others} FROM n,"
            f" (SELECT * FROM {table} ORDER BY row LIMIT 1)"
        )


def fill_conflicts(ledger: Ledger) -> None:
    for city in ("Lisbon", "Porto"):
        ledger.remember(f"Ana lives in {city}.")
    assert ledger.conflicts.find().found


def fill_merges(ledger: Ledger) -> None:
    for place in ("bank", "bend"):
        ledger.remember(f"The big red barn stands behind the old mill near the small river {place}.")
    assert ledger.merges.find(threshold=0.5).proposed


def fill_summaries(ledger: Ledger) -> None:
    chat = ledger.session("chat")
    for half in range(2):
        for number in range(80):
            chat.append("user", f"Message {half} {number} about the sea. " * 20)
        chat.compact(force=True, summarizer=lambda request: "They talked about the sea.")
    assert len(chat.summaries.list()) >= 2


LISTINGS: dict[str, tuple[Callable[[Ledger], None], Any, str, Callable[[Ledger, Any], Any], int]] = {
    "conflicts": (fill_conflicts, conflicts, "from_row", lambda g, asked: g.conflicts.list(limit=1, **asked), 60),
    "merges": (fill_merges, merges, "from_row", lambda g, asked: g.merges.list(limit=1, **asked), 50),
    "summaries": (
        *(fill_summaries, summaries, "summary"),
        *(lambda g, asked: g.session("chat").summaries.list(limit=1, **asked), 2),
    ),
}


@pytest.mark.parametrize("asked", [{}, {"statuses": []}])
@pytest.mark.parametrize("table", LISTINGS)
def test_a_page_reads_no_more_rows_than_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str, asked: dict[str, Any]
) -> None:
    fill, module, decode, listing, most = LISTINGS[table]
    path, read, whole = tmp_path / "memory.db", 0, getattr(LISTINGS[table][1], LISTINGS[table][2])
    with Ledger.open(path, user="ada") as ledger:
        fill(ledger)
        older(path, table)

        def counted(values: Any) -> Any:
            nonlocal read
            read += 1
            return whole(values)

        monkeypatch.setattr(module, decode, counted)
        page = listing(ledger, asked)
        assert len(page) == 1 and page.next is not None
        assert read <= most


@pytest.mark.parametrize(("table", "column"), [("merges", "user"), ("summaries", "session")])
def test_no_row_is_sorted_to_find_the_newest_of_several_statuses(tmp_path: Path, table: str, column: str) -> None:
    from projections.core.subjects import newest

    asked: list[str] = []
    with Ledger.open(tmp_path / "memory.db", user="ada"):
        pass
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        connection.set_trace_callback(asked.append)
        newest(connection, table, (column, 1), ("one", "other"), None, 5)
        connection.set_trace_callback(None)
        plan = [line for *_, line in connection.execute(f"EXPLAIN QUERY PLAN {asked[0]}")]
        assert not [line for line in plan if "B-TREE" in line or line.startswith("SCAN")], plan
