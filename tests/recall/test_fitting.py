"""What fits a budget: whatever does, a prefix, or ATOCore's shares; never more than it, and a reason for what is left out."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from ledger.recall.packs import greedy, prefix
from ledger.recall.unasked import ENTRY_CHARS, REST, SHARES, by_shares, in_order, shortened

BANDS = (*SHARES, REST)
SIZES = st.lists(st.integers(0, 400), max_size=20)
BUDGETS = st.integers(0, 3_000) | st.integers(0, 10**400)


# --- prefix ----------------------------------------------------------------------------------------------------------


def test_a_prefix_stops_at_the_first_that_would_overflow() -> None:
    assert prefix([3, 4, 1, 1], 8) == ["", "", "", "budget"]
    assert prefix([3, 6, 1, 1], 8) == ["", "budget", "budget", "budget"], "nothing worse takes the place of better"
    assert prefix([3, 5], 8) == ["", ""], "exactly full"


def test_without_a_budget_everything_goes_in_and_with_none_left_nothing() -> None:
    assert prefix([10**9, 10**9], None) == ["", ""]
    assert prefix([1, 0], 0) == ["budget", "budget"]
    assert prefix([0, 0, 1], 0) == ["", "", "budget"]
    assert prefix([], 10) == []


@given(SIZES, st.none() | BUDGETS)
def test_what_a_prefix_holds_fits_and_one_more_would_not(sizes: list[int], budget: int | None) -> None:
    reasons = prefix(sizes, budget)
    kept = [size for size, why in zip(sizes, reasons, strict=True) if not why]
    assert set(reasons) <= {"", "budget"}
    assert kept == sizes[: len(kept)]
    if budget is None:
        assert len(kept) == len(sizes)
    else:
        assert sum(kept) <= budget
        assert len(kept) == len(sizes) or sum(kept) + sizes[len(kept)] > budget


# --- greedy ----------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_passed_over() -> None:
    assert greedy([3, 6, 1, 4, 4], 8) == ["", "budget", "", "", "budget"]
    assert greedy([10**9, 10**9], None) == ["", ""] and greedy([1, 0], 0) == ["budget", ""]


@given(SIZES, BUDGETS)
def test_what_is_passed_over_would_not_have_fitted(sizes: list[int], budget: int) -> None:
    used = 0
    for size, why in zip(sizes, greedy(sizes, budget), strict=True):
        assert why == ("budget" if used + size > budget else "")
        used += 0 if why else size
    assert used <= budget


# --- shares ----------------------------------------------------------------------------------------------------------


def test_the_shares_are_a_fifth_a_tenth_and_a_quarter() -> None:
    assert by_shares(["state", "identity", "project"], [200, 100, 250], 1000) == ["", "", ""]
    for band, size in (("state", 201), ("identity", 101), ("project", 251)):
        assert by_shares([band], [size], 1000) == [f"share of {band}"]


def test_what_the_bands_leave_is_for_the_rest() -> None:
    assert by_shares([REST], [1000], 1000) == [""]
    assert by_shares(["state", REST, REST], [150, 850, 1], 1000) == ["", "", "share of rest"]
    assert by_shares([REST, "state"], [850, 150], 1000) == ["", ""], "though the rest was better ranked"


def test_a_band_of_the_budget_does_not_use_the_unused_share_of_another() -> None:
    assert by_shares(["identity", "project"], [1, 300], 1000) == ["", "share of project"]


def test_a_long_entry_does_not_keep_the_rest_of_its_band_out() -> None:
    assert by_shares(["state"] * 3, [300, 150, 50], 1000) == ["share of state", "", ""]


def test_nothing_fits_in_nothing() -> None:
    assert by_shares(list(BANDS), [1] * 4, 0) == [f"share of {band}" for band in BANDS]
    assert by_shares([], [], 100) == []


@given(st.lists(st.tuples(st.sampled_from(BANDS), st.integers(0, 400)), max_size=20), BUDGETS)
@example([("state", 1)], 10**400)
def test_what_the_shares_hold_fits_together_and_each_in_its_own(entries: list[tuple[str, int]], budget: int) -> None:
    bands, sizes = [band for band, _ in entries], [size for _, size in entries]
    reasons = by_shares(bands, sizes, budget)
    used = dict.fromkeys(BANDS, 0)
    for band, size, why in zip(bands, sizes, reasons, strict=True):
        assert why in ("", f"share of {band}")
        used[band] += 0 if why else size
    assert sum(used.values()) <= budget
    assert all(100 * used[band] <= percent * budget for band, percent in SHARES.items())
    left = {band: budget * percent // 100 - used[band] for band, percent in SHARES.items()}
    left[REST] = budget - sum(used.values())
    for band, size, why in zip(bands, sizes, reasons, strict=True):
        assert not why or size > left[band], "what is cut would not have fitted"


# --- entries ---------------------------------------------------------------------------------------------------------


def test_an_entry_shows_at_most_250_characters_and_says_that_it_goes_on() -> None:
    assert ENTRY_CHARS == 250
    assert shortened("x" * 250) == "x" * 250
    assert shortened("x" * 251) == "x" * 249 + "…"
    assert shortened("x" * 240 + " " * 20 + "y") == "x" * 240 + "…"


@given(st.text(max_size=600))
def test_an_entry_is_shortened_once(text: str) -> None:
    assert len(shortened(text)) <= ENTRY_CHARS
    assert shortened(shortened(text)) == shortened(text)


@given(st.lists(st.sampled_from(BANDS)))
def test_bands_stand_in_their_order_and_ranks_are_kept_within_each(bands: list[str]) -> None:
    order = in_order(bands)
    assert sorted(order) == list(range(len(bands)))
    assert [(BANDS.index(bands[at]), at) for at in order] == sorted(
        (BANDS.index(band), at) for at, band in enumerate(bands)
    )
