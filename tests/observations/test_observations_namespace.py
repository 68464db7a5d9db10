"""``ledger.observations``: what several sources have in common."""

from __future__ import annotations

import pytest

from ledger import AmbiguousIdError, NotFoundError, RejectedError
from ledger.api import Ledger

pytestmark = pytest.mark.ledger(user="ada", actor="planner")


def facts(ledger: Ledger, count: int = 2) -> list[str]:
    return [ledger.remember(f"Ada drank tea on day {number}.").id for number in range(count)]


def test_an_observation_is_added_from_its_sources_and_read_back(ledger: Ledger) -> None:
    sources = facts(ledger)
    added = ledger.observations.add("Ada likes tea.", sources, tags=["drinks"], reason="two days")
    found = ledger.observations.get(added.id[:10])
    assert (found.content, found.proof_count, found.trend, found.freshness) == ("Ada likes tea.", 2, "new", "fresh")
    assert {each.id for each in found.sources} == set(sources)
    assert [(each.content, each.why, each.reason) for each in ledger.why(added.id).wordings] == [
        ("Ada likes tea.", "formed", "two days")
    ]
    assert ledger.observations.add("Ada likes tea.", sources[:1], tags=["drinks"]).absorbed
    with pytest.raises(RejectedError, match="needs a source"):
        ledger.observations.add("Ada likes tea.", [])
    with pytest.raises(RejectedError, match="takes several"):
        ledger.observations.add("Ada likes tea.", sources[0])
    with pytest.raises(NotFoundError):
        ledger.observations.add("Ada likes tea.", ["m_0000000000000000"])


def test_get_raises_where_there_is_nothing(ledger: Ledger) -> None:
    source = facts(ledger)
    made = [ledger.observations.add(f"Finding {number}.", source).id for number in range(40)]
    with pytest.raises(NotFoundError):
        ledger.observations.get("o_0000000000000000")
    with pytest.raises(NotFoundError):
        ledger.bind(user="bob").observations.get(made[0])
    beginnings = [each[:3] for each in made]
    with pytest.raises(AmbiguousIdError):
        ledger.observations.get(max(beginnings, key=beginnings.count))


def test_a_listing_is_read_page_by_page_newest_first(ledger: Ledger) -> None:
    source = facts(ledger)
    ids = [ledger.observations.add(f"Finding {number}.", source).id for number in range(5)][::-1]
    page = ledger.observations.list(limit=2)
    ledger.observations.add("Newer than the first page.", source)
    assert [each.id for each in page] == ids[:2]
    assert [each.id for each in page.all()] == ids
    assert ledger.bind(user="bob").observations.list() == []


def test_observations_are_filtered_before_they_are_listed(ledger: Ledger) -> None:
    one, two = facts(ledger)
    atlas = ledger.observations.add("First.", [one], project="atlas", tags=["a", "b"])
    other = ledger.observations.add("Second.", [one, two], tags=["a"])
    shown = lambda **filters: [each.id for each in ledger.observations.list(**filters)]  # noqa: E731
    assert shown(tags=["a"]) == [other.id, atlas.id] and shown(tags=["a", "b"]) == [atlas.id]
    assert shown(project="atlas") == [atlas.id] and shown(project="") == [other.id]
    assert shown(trends=["new", "stable"]) == [other.id, atlas.id] and shown(trends=["dormant"]) == []
    assert shown(project="nowhere") == shown(tags=["c"]) == shown(freshness="stale") == []
    ledger.retract(one)
    assert shown(statuses=["unsupported"]) == [atlas.id] and shown(statuses=[]) == [other.id, atlas.id]
    assert shown(freshness="stale") == [other.id]
    for wrong in ({"trends": ["up"]}, {"statuses": ["gone"]}, {"freshness": "old"}, {"trends": "new"}):
        with pytest.raises(RejectedError):
            shown(**wrong)


def test_sources_are_withdrawn_and_a_dry_run_says_what_of(ledger: Ledger) -> None:
    one, two = facts(ledger)
    alone = ledger.observations.add("First.", [one])
    both = ledger.observations.add("Second.", [one, two])
    before = ledger.position
    tried = ledger.observations.withdraw([one], dry_run=True)
    assert (tried.dry_run, tried.retracted, tried.stale, ledger.position) == (True, (alone.id,), (both.id,), before)
    done = ledger.observations.withdraw([one], reason="misheard")
    assert not done.dry_run
    for name in ("sources", "retracted", "stale"):
        assert getattr(done, name) == getattr(tried, name)
    assert set(done.observations) == set(tried.observations)
    assert ledger.observations.get(alone.id).status == "retracted"
    assert ledger.observations.withdraw([one], dry_run=True).observations == ()
    for dry_run in (True, False):
        with pytest.raises(NotFoundError):
            ledger.observations.withdraw(["m_0000000000000000"], dry_run=dry_run)
        with pytest.raises(NotFoundError):
            ledger.bind(user="bob").observations.withdraw([one], dry_run=dry_run)
    with pytest.raises(RejectedError, match="takes several"):
        ledger.observations.withdraw(one)


def test_a_past_ledger_can_only_be_read(ledger: Ledger) -> None:
    seen = ledger.observations.add("Ada likes tea.", facts(ledger))
    then = ledger.at(ledger.position)
    ledger.revise(seen.id, "Ada loves tea.")
    ledger.observations.add("Newer.", facts(ledger))
    assert then.observations.get(seen.id).content == "Ada likes tea."
    assert [each.id for each in then.observations.list()] == [seen.id]
    assert not hasattr(then.observations, "add")
