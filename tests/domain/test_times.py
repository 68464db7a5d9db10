"""Times: any ISO form in, one fixed width out."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest

from ledger import RejectedError
from ledger.domain.times import days_between, moment, since, until, with_offset


@pytest.mark.parametrize(
    ("given", "stored", "kept"),
    [
        ("2026-03-01T10:00:00Z", "2026-03-01T10:00:00.000000Z", "2026-03-01T10:00:00.000000Z"),
        ("2026-03-01 10:00Z", "2026-03-01T10:00:00.000000Z", "2026-03-01T10:00:00.000000Z"),
        ("2026-03-01T11:00:00+01:00", "2026-03-01T10:00:00.000000Z", "2026-03-01T11:00:00.000000+01:00"),
        ("2026-03-01T04:30:00.5-0530", "2026-03-01T10:00:00.500000Z", "2026-03-01T04:30:00.500000-05:30"),
        ("2026-03-01", "2026-03-01T00:00:00.000000Z", "2026-03-01T00:00:00.000000Z"),
        (date(2026, 3, 1), "2026-03-01T00:00:00.000000Z", "2026-03-01T00:00:00.000000Z"),
        (datetime(2026, 3, 1, 10, tzinfo=UTC), "2026-03-01T10:00:00.000000Z", "2026-03-01T10:00:00.000000Z"),
        (
            datetime(2026, 3, 1, 11, tzinfo=timezone(timedelta(hours=1))),
            "2026-03-01T10:00:00.000000Z",
            "2026-03-01T11:00:00.000000+01:00",
        ),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z", "0001-01-01T00:00:00.000000Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        ("20260301T1000Z", "2026-03-01T10:00:00.000000Z", "2026-03-01T10:00:00.000000Z"),
        ("20260301T110000+0100", "2026-03-01T10:00:00.000000Z", "2026-03-01T11:00:00.000000+01:00"),
        ("20260301", "2026-03-01T00:00:00.000000Z", "2026-03-01T00:00:00.000000Z"),
        ("2026-03-01t10:00:00z", "2026-03-01T10:00:00.000000Z", "2026-03-01T10:00:00.000000Z"),
        ("2026-060", "2026-03-01T00:00:00.000000Z", "2026-03-01T00:00:00.000000Z"),
        ("2024366", "2024-12-31T00:00:00.000000Z", "2024-12-31T00:00:00.000000Z"),
        ("2026-060T11:00+01:00", "2026-03-01T10:00:00.000000Z", "2026-03-01T11:00:00.000000+01:00"),
        ("2026060T1000z", "2026-03-01T10:00:00.000000Z", "2026-03-01T10:00:00.000000Z"),
        ("2026-02-28T24:00:00Z", "2026-03-01T00:00:00.000000Z", "2026-03-01T00:00:00.000000Z"),
        ("2026-02-28 24:00Z", "2026-03-01T00:00:00.000000Z", "2026-03-01T00:00:00.000000Z"),
        ("20260228T2400-0200", "2026-03-01T02:00:00.000000Z", "2026-03-01T00:00:00.000000-02:00"),
        ("2026-059T24:00:00.000z", "2026-03-01T00:00:00.000000Z", "2026-03-01T00:00:00.000000Z"),
        ("2026-03", "2026-03-01T00:00:00.000000Z", "2026-03-01T00:00:00.000000Z"),
        ("2026-W09", "2026-02-23T00:00:00.000000Z", "2026-02-23T00:00:00.000000Z"),
        ("2026-W09-7", "2026-03-01T00:00:00.000000Z", "2026-03-01T00:00:00.000000Z"),
    ],
)
def test_a_time_may_be_written_in_every_iso_form(given: Any, stored: str, kept: str) -> None:
    assert moment("time", given) == stored
    assert with_offset("time", given) == kept
    assert len(stored) == 27


@pytest.mark.parametrize(
    "given",
    [
        *["", " ", "now", "2026-13-01", "2026-02-30", "2026-03-01T25:00", "1e9", "10:00", "2026-03-01T10:00:00\ud800"],
        *["2026-000", "2026-366", "0000-001", "2026-13", "2026-00", "2026", "202603", "2026-1", "2026-03T10:00"],
        *["2026-03-01T24:00:01Z", "2026-03-01T24:30", "2026-03-01T24:00:00.1Z", "9999-12-31T24:00Z", "2026-03-01z"],
        *["０２０２-03", "２０２６-002", "2026-03-01T10:00zz"],
        *["0001-01-01T00:00+01:00", "9999-12-31T23:59-01:00", "x" * 100_000, None, 5, 5.0, b"2026-03-01"],
    ],
)
def test_what_is_no_time_is_refused_in_a_short_message(given: Any) -> None:
    for read in (moment, with_offset, until):
        with pytest.raises(RejectedError) as refusal:
            read("time", given)
        assert len(str(refusal.value)) < 300


class Nowhere(tzinfo):
    """A zone that does not know its offset."""

    def utcoffset(self, _: datetime | None) -> None:
        return None


@pytest.mark.parametrize(
    "given",
    [
        *["2026-03-01T10:00:00", "2026-03-01 10:00", "20260301T1000", "2026-02-28 24:00", "2026-060T11:00"],
        *[datetime(2026, 3, 1, 10), datetime(2026, 3, 1, 10, tzinfo=Nowhere())],
    ],
)
def test_a_time_that_says_no_offset_is_refused(given: Any) -> None:
    for read in (moment, with_offset, until):
        with pytest.raises(RejectedError, match=r"^time says no offset"):
            read("time", given)


def test_a_date_alone_means_through_that_day() -> None:
    assert until("valid_to", "2026-12-31") == until("valid_to", date(2026, 12, 31)) == "2027-01-01T00:00:00.000000Z"
    assert until("valid_to", " 2024-02-28 ") == "2024-02-29T00:00:00.000000Z"
    assert (
        until("valid_to", "2026-12-31T00:00Z")
        == until("valid_to", datetime(2026, 12, 31, tzinfo=UTC))
        == "2026-12-31T00:00:00.000000Z"
    )
    with pytest.raises(RejectedError, match="9999"):
        until("valid_to", "9999-12-31")
    for same in ("20261231", "2026-365", "2026365", "2026-W53-4"):
        assert until("valid_to", same) == "2027-01-01T00:00:00.000000Z"
    assert until("valid_to", "2026-12-31T24:00Z") == "2027-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("given", "end"),
    [("2026-12", "2027-01-01"), ("2024-02", "2024-03-01"), ("2026-04", "2026-05-01"), ("2026-W09", "2026-03-02")],
)
def test_a_month_or_week_alone_means_through_it(given: str, end: str) -> None:
    assert until("valid_to", given) == f"{end}T00:00:00.000000Z"


def test_no_month_ends_after_the_last_year() -> None:
    with pytest.raises(RejectedError, match="9999"):
        until("valid_to", "9999-12")


def test_text_order_is_time_order() -> None:
    times = [
        datetime(1, 1, 1),
        datetime(999, 5, 5),
        datetime(2026, 1, 1),
        datetime(2026, 1, 1, 0, 0, 0, 1),
        datetime(9999, 1, 1),
    ]
    stored = [moment("time", each.replace(tzinfo=UTC)) for each in times]
    assert stored == sorted(stored)


def test_whole_days_between() -> None:
    start = "2026-01-01T12:00:00.000000Z"
    for end, days in [
        ("2026-01-02T11:59:59.999999Z", 0),
        ("2026-01-02T12:00:00.000000Z", 1),
        ("2025-01-01T00:00:00.000000Z", 0),
    ]:
        assert days_between(start, end) == days


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("30min", "2026-03-01T09:30:00.000000Z"),
        ("1mo", "2026-01-30T10:00:00.000000Z"),
        ("12h", "2026-02-28T22:00:00.000000Z"),
        (" 7d ", "2026-02-22T10:00:00.000000Z"),
        ("2w", "2026-02-15T10:00:00.000000Z"),
        ("2026-01-01", "2026-01-01T00:00:00.000000Z"),
        ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00.000000Z"),
    ],
)
def test_since_is_a_time_or_a_duration_back_from_now(given: str, stored: str) -> None:
    assert since("since", given, "2026-03-01T10:00:00.000000Z") == stored


@pytest.mark.parametrize(
    "given", ["2026-01-01T01:00:00", "7 days", "-7d", "7y", "", 7, "9999999w", "0d", "00min", "30m", "1M"]
)
def test_since_is_refused_without_an_offset_or_a_known_unit(given: Any) -> None:
    with pytest.raises(RejectedError):
        since("since", given, "2026-03-01T10:00:00.000000Z")


def test_m_is_refused_because_minutes_and_months_cannot_share_a_letter() -> None:
    with pytest.raises(RejectedError, match=r"m may mean minutes or months: write 30min or 30mo"):
        since("since", "30m", "2026-03-01T10:00:00.000000Z")
