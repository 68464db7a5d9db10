"""A page costs what it shows: rows behind it are not read, however many there are."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ledger.api import Ledger
from ledger.core import reads
from ledger.events import AnyEvent
from ledger.log import registry
from projections.core.rows import Start
from projections.core.subjects import first_rows
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


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize(("table", "column"), [("merges", "user"), ("summaries", "session")])
def test_no_row_is_sorted_to_find_the_first_of_several_statuses(
    tmp_path: Path, table: str, column: str, oldest_first: bool
) -> None:
    asked: list[str] = []
    with Ledger.open(tmp_path / "memory.db", user="ada"):
        pass
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        connection.set_trace_callback(asked.append)
        first_rows(connection, table, (column, 1), ("one", "other"), Start(oldest_first=oldest_first), 5)
        connection.set_trace_callback(None)
        plan = [line for *_, line in connection.execute(f"EXPLAIN QUERY PLAN {asked[0]}")]
        assert not [line for line in plan if "B-TREE" in line or line.startswith("SCAN")], plan


def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions of the events that are decoded from here on."""
    whole, found = registry.decode, list[int]()

    def counted(position: int, *more: Any) -> AnyEvent:
        found.append(position)
        return whole(position, *more)

    monkeypatch.setattr(registry, "decode", counted)
    return found


def test_a_listing_without_full_texts_reads_no_long_response(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = ("response", "context")
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        response = "A window seat. " * 10_000
        ledger.capture("Which seat?", response, summary="The seat.", context={"shown": ["seat"]}, project="trip")
        read, whole = list[str](), reads.text_of
        monkeypatch.setattr(reads, "text_of", lambda *given: read.append(whole(*given) or "") or read[-1])
        (slim,) = ledger.interactions.list(text=False, project="trip")
        assert read == ["The seat."] and [getattr(slim, name) for name in left_out] == [None] * 2
        (full,) = ledger.interactions.list(project="trip")
        assert response in read and full.response == response
        assert slim.to_dict() == full.to_dict() | dict.fromkeys(left_out)


def test_a_page_of_a_sessions_events_reads_no_more_than_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        chat = ledger.session("chat")
        for number in range(MANY):
            chat.append("user", f"Message {number}.")
        assert chat.id is not None
        whole = list(ledger.history.events(chat.id).all())
        read = decoded(monkeypatch)
        first = ledger.history.events(chat.id, limit=3)
        second = ledger.history.events(chat.id, limit=3, after=first.next)
        assert [*first, *second] == whole[:6] and len(read) <= 12


def fill_holds(ledger: Ledger) -> None:
    for number in range(9):
        ledger.holds.add(ledger.remember(f"Fact {number}.").id)


def fill_distrusted(ledger: Ledger) -> None:
    for number in range(9):
        ledger.history.distrust(f"origin {number}", kind="actor")


def fill_erasures(ledger: Ledger) -> None:
    for number in range(9):
        ledger.erase(ledger.remember(f"Fact {number}.").id)


def end_a_distrust(ledger: Ledger, listed: Any) -> None:
    ledger.history.trust(listed.command_id)


BY_POSITION: dict[
    str, tuple[Callable[[Ledger], None], Callable[[Ledger], Any], Callable[[Ledger, Any], Any] | None]
] = {
    "holds": (fill_holds, lambda g: g.holds.list, lambda g, listed: g.holds.remove(listed.id)),
    "distrusted": (fill_distrusted, lambda g: g.history.distrusted, end_a_distrust),
    "erasures": (fill_erasures, lambda g: g.erasures.list, None),
}


@pytest.mark.parametrize("name", BY_POSITION)
def test_a_page_goes_on_behind_an_item_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    fill, listing, end = BY_POSITION[name]
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        fill(ledger)
        fill(ledger.bind(user="bob"))
        whole = list(listing(ledger)().all())
        assert len(whole) == (18 if name == "erasures" else 9)
        first = listing(ledger)(limit=2)
        if end is not None:
            end(ledger, first[-1])
        read = decoded(monkeypatch)
        second = listing(ledger)(limit=2, after=first.next)
        assert [*first, *second] == whole[:4]
        assert len(read) <= 3 * 4  # of an erasure the event, what completed it, and the one that it names
