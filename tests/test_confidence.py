"""Confidence is counted in whole millionths, rounded half to even, in one place."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import Rejected
from ledger.domain.confidence import ONE, effective, millionths, reinforced, rounded, shown


@pytest.mark.parametrize(
    ("numerator", "denominator", "expected"),
    [
        (0, 7, 0),
        (1, 2, 0),
        (3, 2, 2),
        (5, 2, 2),
        (7, 2, 4),
        (2, 3, 1),
        (1, 3, 0),
        (-1, 2, 0),
        (-3, 2, -2),
        (10**40 + 1, 2, (10**40) // 2),
    ],
)
def test_the_rounding_rule(numerator: int, denominator: int, expected: int) -> None:
    assert rounded(numerator, denominator) == expected


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**30))
def test_it_is_exact_rounding(numerator: int, denominator: int) -> None:
    assert rounded(numerator, denominator) == round(Fraction(numerator, denominator))


@given(st.integers(0, ONE))
def test_what_is_shown_comes_back(value: int) -> None:
    assert millionths("confidence", shown(value)) == value


@pytest.mark.parametrize(
    ("given_", "expected"),
    [(0, 0), (1, ONE), (0.7, 700_000), (1e-7, 0), (0.0000005, 0), (5e-324, 0), (0.1 + 0.2, 300_000)],
)
def test_a_decimal_becomes_millionths(given_: float, expected: int) -> None:
    assert millionths("confidence", given_) == expected


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -float("inf"), -1e-9, 1.0000001, 2**70, -(2**70), True, None, "1", b"1", [1]]
)
def test_no_number_from_zero_to_one(value: Any) -> None:
    with pytest.raises(Rejected, match="confidence must be a number from 0 to 1"):
        millionths("confidence", value)


def test_reinforcement_adds_and_stops_at_one() -> None:
    assert [reinforced("linear/1", before, 20_000) for before in (0, 980_000, 990_000, ONE)] == [20_000, ONE, ONE, ONE]
    with pytest.raises(Rejected, match="linear/1"):
        reinforced("linear/2", 0, 0)


def fade(days: int, *, active: bool = True, count: int = 0) -> int:
    start = "2026-01-01T00:00:00.000000Z"
    from datetime import datetime, timedelta

    end = (datetime.fromisoformat(start) + timedelta(days=days)).isoformat()
    return effective(800_000, active=active, reference_count=count, active_at=start, as_of=end)


def test_thirty_days_are_free_and_the_loss_is_one_exact_division() -> None:
    for days in (0, 29, 30):
        assert fade(days) == 800_000
    for days in (31, 32, 60, 365, 900):
        assert fade(days) == round(Fraction(800_000) * Fraction(97, 100) ** (days - 30))
    assert fade(1_000_000) == 0
    assert fade(365, active=False) == fade(365, count=1) == 800_000


def test_a_clock_that_went_back_takes_nothing() -> None:
    assert fade(-365) == 800_000
