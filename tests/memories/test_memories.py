"""``ledger.memories`` and the daily verbs, as somebody who embeds the library calls them."""

from __future__ import annotations

import copy
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ledger import AmbiguousIdError, NotFoundError, RejectedError
from ledger.api import Ledger
from ledger.types import Page
from projections.search.memory_hits import MemoryScope
from projections.views import memories
from projections.views.memories import MemoryFilter


@pytest.fixture
def ledger(tmp_path: Path):
    with Ledger.open(tmp_path / "memory.db", user="ada", actor="planner") as opened:
        yield opened


def test_a_listing_is_read_page_by_page_newest_first_and_nothing_is_cut_in_silence(ledger: Ledger) -> None:
    ids = [ledger.remember(f"Fact number {number}.").id for number in range(7)][::-1]
    first = ledger.memories.list(limit=3)
    assert [each.id for each in first] == ids[:3] and first.next is not None
    ledger.remember("Newer than the first page.")
    second = ledger.memories.list(limit=3, after=first.next)
    assert [each.id for each in second] == ids[3:6]
    assert [each.id for each in first.all()] == ids
    with pytest.raises(RejectedError, match="limit is from 0 to 1,000"):
        ledger.memories.list(limit=1_001)
    with pytest.raises(RejectedError):
        ledger.memories.list(limit=-1)
    assert ledger.memories.list(limit=0) == []


def test_a_cursor_belongs_to_its_listing_and_filters(ledger: Ledger) -> None:
    for number in range(4):
        ledger.remember(f"Fact number {number}.", tags=["a"])
    cursor = ledger.memories.list(limit=2, tags=["a"]).next
    with pytest.raises(RejectedError, match="other filters"):
        ledger.memories.list(limit=2, after=cursor)
    for wrong in ("", "nonsense", 7, "e30"):
        with pytest.raises(RejectedError, match="is not a cursor"):
            ledger.memories.list(after=wrong)  # type: ignore[arg-type]


def test_a_page_survives_pickling_but_for_what_follows(ledger: Ledger) -> None:
    for number in range(3):
        ledger.remember(f"Fact number {number}.")
    page = ledger.memories.list(limit=2)
    for twin in (pickle.loads(pickle.dumps(page)), copy.deepcopy(page)):
        assert twin == page and isinstance(twin, Page)
        with pytest.raises(RejectedError, match="list again"):
            list(twin.all())


def test_get_raises_where_there_is_nothing(ledger: Ledger) -> None:
    with pytest.raises(NotFoundError):
        ledger.memories.get("m_0000000000000000")
    with pytest.raises(NotFoundError):
        ledger.memories.confidence("m_0000000000000000")
    seen = ledger.observations.add("The user drinks tea.", [ledger.remember("Tea, please.").id])
    with pytest.raises(RejectedError, match="live sources"):
        ledger.memories.confidence(seen.id)
    with pytest.raises(NotFoundError):
        ledger.why("m_0000000000000000")
    for number in range(60):
        ledger.remember(f"Fact number {number}.")
    with pytest.raises(AmbiguousIdError):
        for letter in "0123456789abcdefghjkmnpqrstvwxyz":
            try:
                ledger.memories.get(f"m_{letter}")
            except AmbiguousIdError:
                raise
            except NotFoundError:
                continue


def test_an_answer_in_the_place_of_its_id_is_told_so(ledger: Ledger) -> None:
    tea = ledger.remember("Ada likes tea.")
    for act in (ledger.why, ledger.retract, ledger.memories.get):
        with pytest.raises(NotFoundError, match=f"is named by its id, as '{tea.id}', and not by a Memory"):
            act(tea)  # type: ignore[operator]


def test_a_wrong_beginning_is_told_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"Ledger\.open\(path\) opens a ledger"):
        Ledger("memory.db")  # type: ignore[call-arg, arg-type]
    for name, allowed in (("readonly", "true or false"), ("create", "true, false or 'if_used'")):
        with pytest.raises(RejectedError, match=f"{name} must be {allowed}, not 'yes'"):
            Ledger.open(tmp_path / "memory.db", **{name: "yes"})  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_bound_user_sees_only_own_memories(ledger: Ledger) -> None:
    mine = ledger.remember("Ada likes tea.")
    bob = ledger.bind(user="bob")
    theirs = bob.remember("Bob likes coffee.")
    assert [each.id for each in ledger.memories.list()] == [mine.id]
    assert [each.id for each in bob.memories.list()] == [theirs.id]
    with pytest.raises(NotFoundError):
        bob.memories.get(mine.id)
    with pytest.raises(NotFoundError):
        bob.retract(mine.id)
    bob.close()
    assert ledger.memories.get(mine.id).content == "Ada likes tea."
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'user'; .* every write takes: "):
        ledger.remember("x", user="bob")  # type: ignore[call-arg]
    with pytest.raises(RejectedError):
        ledger.bind(channel="telepathy")  # type: ignore[arg-type]


def test_a_bare_string_for_several_is_refused(ledger: Ledger) -> None:
    for name, wrong in (("kinds", "fact"), ("statuses", "active"), ("tags", "a")):
        with pytest.raises(RejectedError, match="takes several"):
            ledger.memories.list(**{name: wrong})  # type: ignore[arg-type]
    with pytest.raises(RejectedError, match="there are: candidate"):
        ledger.memories.list(statuses=["gone"])  # type: ignore[list-item]
    with pytest.raises(RejectedError, match="takes several"):
        ledger.remember("x y z", tags="drink")


def test_a_past_ledger_can_only_be_read(ledger: Ledger) -> None:
    fact = ledger.remember("The lamp is on.")
    then = ledger.at(ledger.position)
    ledger.revise(fact.id, "The lamp is off.")
    assert then.memories.get(fact.id).content == "The lamp is on."
    assert ledger.memories.get(fact.id).content == "The lamp is off."
    assert then.path == ledger.path and repr(then) == f"<PastLedger 'memory.db' user='ada' position={then.position}>"
    assert not hasattr(then, "remember") and not hasattr(then.memories, "tag")


def test_review_is_oldest_first_and_goes_on_where_a_page_ended(ledger: Ledger) -> None:
    ids = [ledger.propose(f"Candidate number {number}.").id for number in range(5)]
    page = ledger.review(limit=2)
    assert [each.id for each in page] == ids[:2]
    ledger.promote(ids[0])
    assert [each.id for each in ledger.review(limit=2, after=page.next)] == ids[2:4]


def test_a_page_of_a_listing_is_read_in_order_and_nothing_is_sorted(ledger: Ledger) -> None:
    ledger.remember("Newest first is the order of the rows.")
    with closing(sqlite3.connect(ledger.path)) as connection:
        asked = list[str]()
        connection.set_trace_callback(asked.append)
        assert memories.listing(connection, MemoryFilter(user="ada", statuses=("active",)), limit=50)
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {asked[0]}")]
    assert plan and not any("TEMP B-TREE" in step for step in plan), plan


def test_the_newest_of_a_kind_that_hold_now_are_read_in_order_and_nothing_is_sorted(ledger: Ledger) -> None:
    ledger.remember("The prompt of each session asks for the newest of a kind.", kind="preference")
    wanted = MemoryScope(user="ada", at="2026-01-01T00:00:00.000000Z")
    with closing(sqlite3.connect(ledger.path)) as connection:
        asked = list[str]()
        connection.set_trace_callback(asked.append)
        memories.newest(connection, *wanted.condition(), ("preference",), 40)
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {asked[0]}")]
    assert plan and not any("TEMP B-TREE" in step for step in plan), plan


@pytest.mark.parametrize("short", ["m_", "m", "", " "])
def test_an_id_that_is_too_short_is_said_to_be_too_short(ledger: Ledger, short: str) -> None:
    memory = ledger.remember("The user likes tea.")
    for call in (ledger.memories.get, ledger.retract, ledger.why):
        with pytest.raises(NotFoundError, match="too short: the beginning of an id has at least 3 characters"):
            call(short)
    assert ledger.memories.get(memory.id[:3]).id == memory.id
    with pytest.raises(NotFoundError) as unknown:
        ledger.memories.get("m_zzzz")
    assert "short" not in str(unknown.value)
