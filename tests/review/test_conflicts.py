"""``ledger.conflicts``: memories that cannot all be true."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger import NotFoundError, RejectedError
from ledger.api import Ledger


@pytest.fixture
def ledger(tmp_path: Path):
    with Ledger.open(tmp_path / "memory.db", user="ada", actor="planner") as opened:
        yield opened


def lives(ledger: Ledger, name: str) -> list[str]:
    return [ledger.remember(f"{name} lives in {city}.").id for city in ("Lisbon", "Porto")]


def test_a_conflict_is_found_once_and_resolved(ledger: Ledger) -> None:
    _, porto = lives(ledger, "Ana")
    (found,) = ledger.conflicts.find().found
    assert (found.attribute, len(found.memories), found.status) == ("ana lives in …", 2, "open")
    assert ledger.conflicts.find().found == ()
    then = ledger.at(ledger.position)
    done = ledger.conflicts.resolve(found.id, keep=porto, reason="she moved")
    assert (done.status, done.action, done.winner, done.reason) == ("resolved", "keep", porto, "she moved")
    assert ledger.conflicts.list() == [] and [each.id for each in ledger.conflicts.list(statuses=[])] == [found.id]
    assert then.conflicts.get(found.id).status == "open" and len(then.conflicts.list()) == 1
    assert not hasattr(then.conflicts, "find")
    with pytest.raises(RejectedError, match="idempotency_key"):
        ledger.conflicts.find(idempotency_key="k")


def test_both_may_be_accepted(ledger: Ledger) -> None:
    lives(ledger, "Ana")
    (found,) = ledger.conflicts.find().found
    assert (ledger.conflicts.accept(found.id).action, ledger.conflicts.find().found) == ("accept", ())
    for call in (ledger.conflicts.get, ledger.conflicts.accept):
        with pytest.raises(NotFoundError):
            call("k_0000000000000000")
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").conflicts.get(found.id)


def test_a_listing_is_read_page_by_page(ledger: Ledger) -> None:
    for name in ("Ana", "Bea", "Cem"):
        lives(ledger, name)
    ledger.conflicts.find()
    page = ledger.conflicts.list(limit=2)
    assert len(page) == 2 and page.next is not None
    assert len({each.id for each in page.all()}) == 3
    assert ledger.conflicts.list(project="nowhere") == []
    assert ledger.bind(user="bob").conflicts.list() == []
    with pytest.raises(RejectedError, match="there are: open, resolved, lapsed"):
        ledger.conflicts.list(statuses=["settled"])  # type: ignore[list-item]
