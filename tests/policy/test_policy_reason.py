"""A change of the policy says why, like everything that changes something."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger import KeyReusedError, RejectedError
from ledger.api import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ada") as opened:
        yield opened


def test_the_reason_of_a_change_is_in_the_audit_trail_its_explanation_and_under_erasure(ledger: Ledger) -> None:
    ledger.policy.set(candidate_days=7, reason="Ben answers within a week")
    entry = ledger.history.audit(type="PolicyAdopted")[0]
    assert "Ben answers within a week" in str(ledger.history.log(types=("PolicyAdopted",))[0].to_dict())
    assert "Ben answers within a week" in str(ledger.history.explain(entry.position).to_dict())
    assert ledger.history.audit(text="Ben answers")[0].position == entry.position


def test_the_same_key_with_another_reason_is_another_command(ledger: Ledger) -> None:
    ledger.policy.set(candidate_days=7, reason="one", idempotency_key="k")
    ledger.policy.set(candidate_days=7, reason="one", idempotency_key="k")
    with pytest.raises(KeyReusedError):
        ledger.policy.set(candidate_days=7, reason="two", idempotency_key="k")
    with pytest.raises(RejectedError, match="reason"):
        ledger.policy.set(candidate_days=8, reason="x" * 100_000)
    assert len(ledger.history.audit(type="PolicyAdopted")) == 1
