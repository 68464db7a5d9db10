"""Listings by the time at which things happened, as after an import of old conversations."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger, RejectedError
from projections.core.rows import Start
from projections.views import interactions, memories

DAYS = ("2024-03-01", "2024-01-01T00:30:00+02:00", "2024-02-01", "2024-02-01", "2023-12-31T23:00:00Z")
IN_ORDER = [0, 3, 2, 4, 1]  # the newest first; of equal times the one that was recorded last


def imported(ledger: Ledger, listing: str) -> list[str]:
    """Record five things of the past, and return their ids."""
    if listing == "memories":
        return [ledger.remember(f"Fact {number} of {day}.", occurred_at=day).id for number, day in enumerate(DAYS)]
    return [ledger.capture(f"Question {number}?", "Yes.", occurred_at=day).id for number, day in enumerate(DAYS)]


LISTINGS: dict[str, Callable[[Ledger], Any]] = {
    "memories": lambda ledger: ledger.memories.list,
    "interactions": lambda ledger: ledger.interactions.list,
}


@pytest.mark.parametrize("listing", LISTINGS)
def test_a_listing_can_be_in_the_order_in_which_things_happened(ledger: Ledger, listing: str) -> None:
    ids = imported(ledger, listing)
    today = ledger.remember("Today.").id if listing == "memories" else ledger.capture("Today?", "Yes.").id
    call = LISTINGS[listing](ledger)
    wanted = [today, *(ids[number] for number in IN_ORDER)]
    assert [item.id for item in call()] == [today, *ids[::-1]]
    assert [item.id for item in call(order="occurred")] == wanted
    for limit in (1, 2, 4):
        assert [item.id for item in call(order="occurred", limit=limit).all()] == wanted
        assert [item.id for item in call(order="occurred", limit=limit, oldest_first=True).all()] == wanted[::-1]


@pytest.mark.parametrize("listing", LISTINGS)
def test_the_bounds_of_a_listing_are_times_at_which_things_happened(ledger: Ledger, listing: str) -> None:
    ids = imported(ledger, listing)
    call = LISTINGS[listing](ledger)
    page = call(since="2024-01-01", until="2024-03-01", order="occurred")
    assert [item.id for item in page] == [ids[3], ids[2]]
    assert [item.id for item in call(since="2024-01-01", until="2024-03-01")] == [ids[3], ids[2]]


@pytest.mark.parametrize("listing", LISTINGS)
def test_a_page_by_time_goes_on_behind_an_item_that_is_gone(ledger: Ledger, listing: str) -> None:
    ids = imported(ledger, listing)
    call = LISTINGS[listing](ledger)
    first = call(order="occurred", limit=2)
    ledger.undo(first[-1].position)
    rest = call(order="occurred", limit=9, after=first.next)
    assert [item.id for item in rest] == [ids[number] for number in IN_ORDER[2:]]


@pytest.mark.parametrize("listing", LISTINGS)
def test_a_cursor_belongs_to_one_order_and_an_unknown_order_is_refused(ledger: Ledger, listing: str) -> None:
    imported(ledger, listing)
    call = LISTINGS[listing](ledger)
    with pytest.raises(RejectedError, match="other filters"):
        call(order="occurred", after=call(limit=1).next)
    with pytest.raises(RejectedError, match="recorded, occurred"):
        call(order="newest")


@pytest.mark.parametrize("oldest_first", [False, True])
@pytest.mark.parametrize("listing", LISTINGS)
def test_a_page_by_time_sorts_no_rows(tmp_path: Path, listing: str, oldest_first: bool) -> None:
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        imported(ledger, listing)
    asked: list[str] = []
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        connection.set_trace_callback(asked.append)
        start = Start(3, oldest_first, "2024-02-01T00:00:00.000000Z")
        if listing == "memories":
            memories.listing(connection, memories.MemoryFilter(user="ada"), limit=2, start=start, by_time=True)
        else:
            chosen = interactions.InteractionFilter(user="ada")
            interactions.listing(connection, chosen, limit=2, start=start, by_time=True)
        connection.set_trace_callback(None)
        plan = [line for *_, line in connection.execute(f"EXPLAIN QUERY PLAN {asked[0]}")]
        assert plan and not [line for line in plan if "B-TREE" in line or line.startswith("SCAN")], plan
