"""``ledger.projects``: names, aliases, and the state that people vouch for."""

from __future__ import annotations

import pytest

from ledger import AmbiguousIdError, ConflictError, NotFoundError, RejectedError
from ledger.api import Ledger

pytestmark = pytest.mark.ledger(user="ada", actor="planner")


def test_a_listing_is_read_page_by_page_newest_first(ledger: Ledger) -> None:
    ids = [ledger.projects.add(f"project {number}").id for number in range(5)][::-1]
    page = ledger.projects.list(limit=2)
    ledger.projects.add("newer")
    assert [each.id for each in page] == ids[:2]
    assert [each.id for each in page.all()] == ids
    assert ledger.bind(user="bob").projects.list() == []


def test_a_project_is_known_by_name_alias_and_id(ledger: Ledger) -> None:
    added = ledger.projects.add("Atlas", description="maps")
    assert ledger.projects.add("atlas").absorbed
    assert ledger.projects.add_alias("Atlas", "maps").aliases == ("maps",)
    assert ledger.projects.add_alias("Atlas", "maps").absorbed
    for name in ("atlas", "MAPS", added.id, added.id[:10]):
        assert ledger.projects.get(name).id == added.id
    for name in ("nobody", "", "p_0000000000000000"):
        with pytest.raises(NotFoundError):
            ledger.projects.get(name)
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").projects.get("atlas")
    ledger.projects.add("other")
    with pytest.raises(ConflictError):
        ledger.projects.add_alias("other", "maps")
    for number in range(40):
        ledger.projects.add(f"project {number}")
    beginnings = [each.id[:3] for each in ledger.projects.list()]
    with pytest.raises(AmbiguousIdError):
        ledger.projects.get(max(beginnings, key=beginnings.count))


def test_trusted_state_is_set_removed_and_read_with_its_history(ledger: Ledger) -> None:
    ledger.projects.set_state("atlas", "status", "phase", "one", source="the plan")
    two = ledger.projects.set_state("atlas", "status", "phase", "two", idempotency_key="phase-two")
    ledger.projects.set_state("atlas", "fact", "tea", "in the tin")
    assert ledger.projects.set_state("atlas", "status", "phase", "two", idempotency_key="phase-two").replayed
    assert [(each.name, each.value) for each in two.state] == [("phase", "two")]
    assert [each.value for each in ledger.projects.state("atlas")] == ["two", "in the tin"]
    assert [each.value for each in ledger.projects.state("atlas", category="status", name="phase", history=True)] == [
        "one", "two",
    ]  # fmt: skip
    ledger.projects.remove_state("atlas", "status", "phase", reason="over")
    assert [each.value for each in ledger.projects.state("atlas")] == ["in the tin"]
    for call in (ledger.projects.state, ledger.projects.context):
        with pytest.raises(NotFoundError):
            call("nobody")
    with pytest.raises(NotFoundError):
        ledger.projects.remove_state("nobody", "status", "phase")
    with pytest.raises(RejectedError, match="there are: status"):
        ledger.projects.set_state("atlas", "mood", "phase", "x")  # type: ignore[arg-type]
    with pytest.raises(RejectedError, match="only a person"):
        ledger.projects.set_state("atlas", "status", "phase", "x", channel="agent")


def test_the_context_of_a_project_fits_its_budget(ledger: Ledger) -> None:
    ledger.projects.set_state("atlas", "status", "phase", "two")
    ledger.remember("Atlas draws maps of rivers.", kind="project", project="atlas")
    pack = ledger.projects.context("atlas")
    assert [each.source for each in pack.items] == ["state", "memory"] and pack.unit == "chars"
    small = ledger.projects.context("atlas", budget=24, unit="tokens")
    assert [each.source for each in small.items] == ["state"] and small.unit == "tokens" and small.used <= 24
    with pytest.raises(RejectedError, match="unit"):
        ledger.projects.context("atlas", unit="lines")  # type: ignore[arg-type]


def test_a_past_ledger_can_only_be_read(ledger: Ledger) -> None:
    ledger.projects.set_state("atlas", "status", "phase", "one")
    then = ledger.at(ledger.position)
    ledger.projects.set_state("atlas", "status", "phase", "two")
    ledger.projects.add("newer")
    assert [each.name for each in then.projects.list()] == ["atlas"]
    assert [each.value for each in then.projects.state("atlas")] == ["one"]
    assert "one" in (then.projects.context("atlas").items[0].to_dict()["content"])
    assert not hasattr(then.projects, "add")
