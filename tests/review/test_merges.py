"""``ledger.merges``: memories that say nearly the same."""

from __future__ import annotations

import pytest

from ledger import NotFoundError, RejectedError
from ledger.api import Ledger

pytestmark = pytest.mark.ledger(user="ada", actor="planner")


ALIKE = "The big red barn {} stands behind the old mill near the small river"


def pair(ledger: Ledger, name: str = "") -> list[str]:
    return [ledger.remember(f"{ALIKE.format(name)} {end}.").id for end in ("bank", "bend")]


def test_a_proposal_is_found_once_and_applied(ledger: Ledger) -> None:
    members = pair(ledger)
    (found,) = ledger.merges.find(threshold=0.5).proposed
    assert ({each.id for each in found.memories}, found.status) == (set(members), "proposed")
    assert ledger.merges.find(threshold=0.5).proposed == ()
    then = ledger.at(ledger.position)
    one = ledger.merges.apply(found.id, content="There is a barn.")
    assert (one.content, ledger.merges.get(found.id).status) == ("There is a barn.", "merged")
    assert {ledger.memories.get(each).superseded_by for each in members} == {one.id}
    assert then.merges.get(found.id).status == "proposed" and not hasattr(then.merges, "apply")
    with pytest.raises(RejectedError, match="not the id of a merge"):
        ledger.merges.apply(members[0])
    with pytest.raises(RejectedError, match="idempotency_key"):
        ledger.merges.find(idempotency_key="k")


def test_memories_are_combined_and_a_proposal_is_rejected(ledger: Ledger) -> None:
    members = pair(ledger)
    (found,) = ledger.merges.find(threshold=0.5).proposed
    assert ledger.merges.reject(found.id, reason="two barns").status == "rejected"
    assert ledger.merges.combine(members).status == "active"
    for wrong in (members[0], [found.id]):
        with pytest.raises(RejectedError):
            ledger.merges.combine(wrong)
    for call in (ledger.merges.get, ledger.merges.reject, ledger.merges.apply):
        with pytest.raises(NotFoundError):
            call("g_0000000000000000")
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").merges.get(found.id)


def test_a_listing_is_read_page_by_page(ledger: Ledger) -> None:
    for kind in ("one", "two", "three"):
        for end in ("bank", "bend"):
            ledger.remember(f"{ALIKE.format(kind)} {end}.", kind=kind)
    ledger.merges.find(threshold=0.5)
    page = ledger.merges.list(limit=2)
    assert len(page) == 2 and page.next is not None
    assert len({each.id for each in page.all()}) == 3
    assert ledger.merges.list(statuses=["merged", "obsolete"]) == [] == ledger.merges.list(project="nowhere")
    with pytest.raises(RejectedError, match="there are: proposed"):
        ledger.merges.list(statuses=["moot"])  # type: ignore[list-item]
