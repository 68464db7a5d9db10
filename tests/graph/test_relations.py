"""``ledger.graph`` and ``consolidate``: relations of names, and what sources have in common."""

from __future__ import annotations

import pytest

from ledger import NotFoundError, RejectedError
from ledger.api import Ledger

pytestmark = pytest.mark.ledger(user="ada", actor="planner")


def test_a_relation_is_added_found_and_removed(ledger: Ledger) -> None:
    fact = ledger.remember("Ana took a job.")
    ledger.graph.relate(fact.id, "Ana", "works_at", "Acme", valid_to="2999-01-01")
    then = ledger.at(ledger.position)
    shown = ledger.graph.neighbors("Where does Ana work?", relation="works_at").to_dict()
    assert [each["name"] for each in shown["seeds"]] == ["Ana"] and shown["total"] == 1
    ledger.graph.unrelate(fact.id, "Ana", "works_at", "Acme", reason="she left")
    assert ledger.graph.neighbors("Ana", relation="works_at").total == 0
    assert then.graph.neighbors("Ana", relation="works_at").total == 1 and not hasattr(then.graph, "relate")
    assert ledger.bind(user="bob").graph.neighbors("Ana").seeds == ()
    assert ledger.graph.neighbors("Ana", extracted=False).seeds == ()
    for limit in (-1, 1_001):
        with pytest.raises(RejectedError):
            ledger.graph.neighbors("Ana", limit=limit)
    with pytest.raises(NotFoundError):
        ledger.graph.relate("m_0000000000000000", "Ana", "works_at", "Acme")


def test_consolidation_makes_observations_of_what_memories_share(ledger: Ledger) -> None:
    for day in ("Monday", "Tuesday", "Friday"):
        ledger.remember(f"Ada drinks green tea in the quiet morning garden {day}.")
    tried = ledger.consolidate(method="grouping", dry_run=True)
    assert tried.dry_run and ledger.observations.list() == []
    done = ledger.consolidate(method="grouping")
    assert done.formed == tried.formed == len(ledger.observations.list())
    assert ledger.consolidate(method="grouping").formed == 0
    with pytest.raises(RejectedError):
        ledger.consolidate(method="rules")  # type: ignore[arg-type]
    with pytest.raises(RejectedError):
        ledger.consolidate(limit=0)
