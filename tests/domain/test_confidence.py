"""Confidence is counted in whole millionths, rounded half to even, in one place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import RejectedError
from ledger.domain.confidence import (
    LEAST_OBSERVATION,
    ONE,
    effective,
    millionths,
    proof_boost,
    proven,
    reinforced,
    rounded,
    shown,
    trend,
    within_bounds,
)


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
    with pytest.raises(RejectedError, match="confidence must be a number from 0 to 1"):
        millionths("confidence", value)


def test_reinforcement_adds_and_stops_at_one() -> None:
    assert [reinforced("linear/1", before, 20_000) for before in (0, 980_000, 990_000, ONE)] == [20_000, ONE, ONE, ONE]
    with pytest.raises(RejectedError, match="linear/1"):
        reinforced("linear/2", 0, 0)


def fade(days: int, *, active: bool = True, count: int = 0) -> int:
    start = "2026-01-01T00:00:00.000000Z"
    from datetime import datetime, timedelta

    end = (datetime.fromisoformat(start) + timedelta(days=days)).isoformat()
    return effective(800_000, rule="decay/1" if active else None, reference_count=count, active_at=start, as_of=end)


def test_thirty_days_are_free_and_the_loss_is_one_exact_division() -> None:
    for days in (0, 29, 30):
        assert fade(days) == 800_000
    for days in (31, 32, 60, 365, 900):
        assert fade(days) == round(Fraction(800_000) * Fraction(97, 100) ** (days - 30))
    assert fade(1_000_000) == 0
    assert fade(365, active=False) == fade(365, count=1) == 800_000


def test_a_clock_that_went_back_takes_nothing() -> None:
    assert fade(-365) == 800_000


# --- observations ----------------------------------------------------------------------------------------------------

TODAY = datetime(2026, 6, 1, 12, tzinfo=UTC)


def ago(*days: float) -> list[datetime]:
    return [TODAY - timedelta(days=each) for each in days]


RECENT, BETWEEN, OLD = 1, 60, 200  # days ago


@pytest.mark.parametrize(
    ("days", "told"),
    [
        ((), "dormant"),
        ((OLD,), "dormant"),
        ((BETWEEN, BETWEEN), "dormant"),
        ((RECENT,), "new"),
        ((RECENT, RECENT, RECENT), "new"),
        ((RECENT,) + (BETWEEN,) * 2, "stable"),  # 1.0
        ((RECENT,) * 4 + (BETWEEN,) * 4, "strengthening"),  # 2.0
        ((RECENT,) * 4 + (OLD,) * 4, "strengthening"),  # what is old counts like what lies between
        ((RECENT,) * 3 + (BETWEEN,) * 4, "stable"),  # exactly 1.5
        ((RECENT,) * 4 + (BETWEEN,) * 5, "strengthening"),  # 1.6
        ((RECENT,) + (OLD,) * 4, "stable"),  # exactly 0.5
        ((RECENT,) + (OLD,) * 5, "weakening"),  # 0.4
        ((RECENT,) + (OLD,) * 2 + (BETWEEN,) * 2, "stable"),
        ((-400,), "new"),  # the future is recent
        ((-400, BETWEEN), "strengthening"),
    ],
)
def test_the_five_trends_and_where_each_begins(days: tuple[float, ...], told: str) -> None:
    assert trend(ago(*days), as_of=TODAY) == told


def test_exactly_thirty_days_are_not_recent_and_exactly_ninety_not_old() -> None:
    moment = timedelta(microseconds=1)
    assert trend(ago(30), as_of=TODAY) == "dormant"
    assert trend([TODAY - timedelta(days=30) + moment], as_of=TODAY) == "new"
    on_the_bound = [*ago(RECENT), TODAY - timedelta(days=90)]
    assert trend(on_the_bound, as_of=TODAY) == trend([*ago(RECENT), on_the_bound[1] - moment], as_of=TODAY)


def test_a_time_is_what_its_offset_says() -> None:
    bound = TODAY - timedelta(days=30)
    west = timezone(timedelta(hours=-5))
    assert trend([bound.replace(tzinfo=west)], as_of=TODAY) == "new"  # five hours later
    assert trend([(bound + timedelta(seconds=1)).isoformat()], as_of=TODAY.isoformat()) == "new"


times = st.lists(st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)), max_size=30)


@given(times, st.randoms())
def test_a_trend_is_one_of_five_whatever_the_order(given_: list[datetime], random: Any) -> None:
    mixed = random.sample(given_, len(given_))
    assert trend(given_, as_of=TODAY) == trend(mixed, as_of=TODAY)


@given(times)
def test_a_trend_is_what_the_fractions_say(given_: list[datetime]) -> None:
    bound = TODAY - timedelta(days=30)
    recent = sum(each > bound for each in given_)
    rest = len(given_) - recent
    ratio = Fraction(recent, 30) / Fraction(rest, 60) if rest else None
    told = trend(given_, as_of=TODAY)
    assert (told == "dormant") == (recent == 0)
    assert (told == "new") == (recent > 0 and not rest)
    if recent and ratio is not None:
        assert (told == "strengthening") == (ratio > Fraction(3, 2))
        assert (told == "weakening") == (ratio < Fraction(1, 2))


@pytest.mark.parametrize(
    ("proof", "boost"), [(0, 0), (1, 0), (2, 25_000), (3, 50_000), (5, 100_000), (6, 100_000), (1_000, 100_000)]
)
def test_each_proof_beyond_the_first_lifts_the_score_up_to_a_tenth(proof: int, boost: int) -> None:
    assert proof_boost(proof) == boost


@pytest.mark.parametrize(
    ("proof", "confidence"),
    [(0, 0), (1, 700_000), (2, 750_000), (5, 900_000), (6, 950_000), (7, 950_000), (500, 950_000)],
)
def test_confidence_by_proof_begins_at_seven_tenths_and_is_never_certain(proof: int, confidence: int) -> None:
    assert proven("proof/1", 123, proof) == confidence


@given(st.integers(0, ONE), st.integers(-3, 100))
def test_confidence_that_was_given_stays_as_long_as_anything_bears_it_out(given_: int, proof: int) -> None:
    assert proven("given/1", given_, proof) == (given_ if proof > 0 else 0)


@given(st.integers(1, 10_000))
def test_more_proof_is_never_less_confidence_nor_a_smaller_boost(proof: int) -> None:
    assert proven("proof/1", 0, proof) <= proven("proof/1", 0, proof + 1) <= ONE
    assert proof_boost(proof) <= proof_boost(proof + 1) <= 100_000


def test_a_rule_of_proof_that_nobody_knows_is_refused() -> None:
    with pytest.raises(RejectedError, match="known: 'proof/1', 'given/1'"):
        proven("proof/2", 1, 1)


@given(st.integers(-(10**12), 10**12))
def test_what_a_model_says_is_brought_between_a_half_and_one(given_: int) -> None:
    found = within_bounds(given_)
    assert LEAST_OBSERVATION <= found <= ONE
    assert found == given_ or not LEAST_OBSERVATION <= given_ <= ONE
    assert within_bounds(found) == found
