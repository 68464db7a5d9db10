"""The plan on paper: its page shows what its program prints, and its arithmetic is that of Zipf's law."""

from __future__ import annotations

import random

import pytest
from places import ROOT

from tools.shared import plan

PAGE = (ROOT / "ledger" / "docs" / "scale-out.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", [plan.loads_table, plan.failures_table], ids=lambda table: table.__name__)
def test_the_page_shows_the_tables_that_the_program_computes(table) -> None:
    assert table() in PAGE


def test_the_groups_of_ranks_hold_every_tenant_once() -> None:
    assert sum(number for _, number in plan.ranks(1_000)) == 1_000


def test_a_cache_misses_as_often_as_a_simulated_one() -> None:
    use = plan.Use(1.0, plan.ASSUMED._replace(tenants=1_000))
    computed = use.missed(use.age_of(100)) / use.requests
    choice, kept, missed = random.Random(1), dict[int, None](), 0
    tenants, weights = range(1_000), [1 / rank for rank in range(1, 1_001)]
    for number, tenant in enumerate(choice.choices(tenants, weights, k=40_000)):
        missed += number >= 10_000 and tenant not in kept
        kept.pop(tenant, None)
        kept[tenant] = None
        if len(kept) > 100:
            del kept[next(iter(kept))]
    assert computed == pytest.approx(missed / 30_000, rel=0.05)


def test_twice_the_use_needs_more_of_everything_but_disk() -> None:
    small, large = plan.need(40, 0.5), plan.need(80, 0.5)
    assert large.commands == pytest.approx(2 * small.commands)
    assert large.app_cores > small.app_cores and large.cluster_cores > small.cluster_cores
    assert large.disk == small.disk
