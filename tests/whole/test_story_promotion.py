"""No belief without a standing promotion: a candidate that was promoted, retracted and restored is believed by its promotion
alone. When that falls, by undo or distrust, the memory waits again, whichever way one asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.api import Ledger, LedgerRead

TEXT = "The user moors the green boat at the northern pier."
ASKED = "Where is the green boat moored?"


@pytest.fixture
def ledger(tmp_path: Path):
    with Ledger.open(tmp_path / "memory.db", user="ada", actor="planner") as opened:
        yield opened


def _promoted(ledger: Ledger, *between: str) -> tuple[str, int]:
    """A candidate, promoted by eve, then taken out of use and restored by others; its id, and where it was promoted."""
    relations = [("green boat", "moored_at", "northern pier")]
    idea = ledger.propose(TEXT, kind="env", project="harbour", relations=relations)
    at = ledger.bind(actor="eve").promote(idea.id).position
    for verb in between:
        getattr(ledger, verb)(idea.id)
    ledger.session("chat").append("user", "Let us go sailing.")
    return idea.id, at


DOORS: dict[str, Callable[[Any, str], bool]] = {
    "listing": lambda g, id: id in {each.id for each in g.memories.list()},
    "status": lambda g, id: g.memories.get(id).status == "active",
    "recall": lambda g, id: id in {item.id for item in g.recall(ASKED).items},
    "recall of a project": lambda g, id: id in {item.id for item in g.recall(ASKED, project="harbour").items},
    "shares": lambda g, id: (
        id in {item.id for item in g.recall("pier", project="harbour", packing="shares", budget=900).items}
    ),
    "context": lambda g, id: id in {item.id for item in g.projects.context("harbour").items},
    "window": lambda g, id: id in g.session("chat").window(2_000, question=ASKED).memory_ids,
    "graph": lambda g, id: (
        id in {each for found in g.graph.neighbors("green boat").neighbors for each in found.memories}
    ),
    "why": lambda g, id: g.why(id).memory.status == "active",
    "review": lambda g, id: id not in {each.id for each in g.review()},
}


def _believed(ledger: LedgerRead, id: str) -> dict[str, bool]:
    return {name: door(ledger, id) for name, door in DOORS.items()}


def _everywhere(value: bool) -> dict[str, bool]:
    return dict.fromkeys(DOORS, value)


@pytest.mark.parametrize("between", [("retract", "restore"), ("invalidate", "restore"), ("retract", "restore") * 2])
@pytest.mark.parametrize("by", ["undo", "distrust"])
def test_what_was_restored_waits_again_when_its_promotion_falls(
    ledger: Ledger, by: str, between: tuple[str, ...]
) -> None:
    id, promoted = _promoted(ledger, *between)
    then = ledger.position
    assert _believed(ledger, id) == _everywhere(True)
    otherwise = ledger.history.what_if(without=promoted if by == "undo" else {"actor": "eve"})
    assert [each.id for each in otherwise.lost] == [id] and not otherwise.gained
    done = ledger.undo(promoted, cascade=True) if by == "undo" else ledger.history.distrust("eve", kind="actor")
    assert _believed(ledger, id) == _everywhere(False)
    assert _believed(ledger.at(then), id) == _everywhere(True)
    assert _believed(ledger.at(ledger.position), id) == _everywhere(False)
    ledger.maintenance.rebuild()
    assert ledger.proof.verify().ok and _believed(ledger, id) == _everywhere(False)
    if by == "undo":
        ledger.redo(done.position)
    else:
        ledger.history.trust("eve", kind="actor")
    assert _believed(ledger, id) == _everywhere(True)
