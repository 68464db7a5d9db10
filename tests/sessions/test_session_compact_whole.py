"""A compaction until a budget is met: what the window of that budget then holds, for many budgets and histories."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from summarizing import Writer

from ledger import Ledger
from ledger.models.port import SummaryRequest

FEWEST = 600  # tokens; a budget for which one summary, its frame and the newest message of these histories surely fit


def say(session: Any, count: int, size: int = 12, start: int = 0) -> None:
    session.replace(
        {"role": "user" if number % 2 == 0 else "assistant", "content": f"word{number} " * size}
        for number in range(start, start + count)
    )


def short(request: SummaryRequest) -> str:
    return "word " * max(1, request.target_tokens // 2)


def test_after_under_nothing_is_left_out_of_the_window_of_400_messages(ledger: Ledger) -> None:
    session = ledger.session("chat")
    say(session, 400, 3)
    report = session.compact(1_000, until_under=True, summarizer=short)
    window = session.window(1_000)
    assert (report.under, window.evicted.messages, window.summaries_evicted, window.over_budget) == (True, 0, 0, False)


def test_a_summary_of_very_many_summaries_fits_a_small_budget_too(ledger: Ledger) -> None:
    session = ledger.session("chat")
    for number in range(40):
        say(session, 40 + 8 * number)
        session.compact(summarizer=lambda request: f"{'word ' * 55}.")
    report = session.compact(FEWEST, until_under=True, summarizer=short)
    assert max(len(summary.summaries) for summary in report.created) > 30
    assert report.under and session.window(FEWEST).evicted.items == 0


@given(
    budget=st.integers(min_value=FEWEST, max_value=6_000),
    pieces=st.lists(st.tuples(st.integers(1, 120), st.integers(1, 30)), min_size=1, max_size=4),
    model=st.booleans(),
    every_turn=st.sampled_from([None, 0, 1]),
)
def test_after_under_nothing_is_left_out_at_any_budget_where_one_summary_fits(
    budget: int, pieces: list[tuple[int, int]], model: bool, every_turn: int | None
) -> None:
    with tempfile.TemporaryDirectory() as home, Ledger.open(Path(home) / "memory.db") as ledger:
        session, start = ledger.session("chat"), 0
        writer: Any = short if model else None
        transcript: list[dict[str, str]] = []
        for count, size in pieces:
            for number in range(start, start + count):
                transcript.append({"role": "user" if number % 2 == 0 else "assistant", "content": f"w{number} " * size})
            start += count
            session.reconcile(transcript)
            if every_turn is not None:
                session.compact(budget if every_turn else None, summarizer=writer)
        report = session.compact(budget, until_under=True, summarizer=writer)
        for _ in range(5):
            if "out_of_steps" not in {skip.why for skip in report.skipped}:
                break
            report = session.compact(budget, until_under=True, summarizer=writer)
        window = session.window(budget)
        assert report.under, (report.skipped, session.items())
        assert (window.evicted.items, window.summaries_evicted, window.over_budget) == (0, 0, False)


@given(budget=st.integers(1, 700), count=st.integers(1, 60), size=st.integers(1, 60), model=st.booleans())
def test_the_report_says_under_exactly_where_nothing_is_left_out_and_else_why(
    budget: int, count: int, size: int, model: bool
) -> None:
    with tempfile.TemporaryDirectory() as home, Ledger.open(Path(home) / "memory.db") as ledger:
        session = ledger.session("chat")
        say(session, count, size)
        report = session.compact(budget, until_under=True, summarizer=short if model else None)
        window = session.window(budget)
        assert report.under == (window.evicted.items == 0 and not window.over_budget)
        reasons = {skip.why: skip.tokens for skip in report.skipped}
        assert report.under or reasons["over_budget"] > 0
        if not report.under and session.window(reasons["over_budget"] + 40).evicted.items:
            raise AssertionError("the tokens of the reason are the budget that would do")


def test_forced_a_compaction_takes_the_newest_items_too(ledger: Ledger) -> None:
    session = ledger.session("chat")
    say(session, 20)
    assert session.compact(summarizer=Writer()).created == ()
    report = session.compact(force=True, summarizer=Writer())
    assert [summary.messages for summary in report.created] == [18]
    assert [item.is_summary for item in session.items()] == [True, False, False], "the last turn stays"


@pytest.mark.parametrize("budget", [None, 1_000])
def test_a_session_that_does_not_exist_yet_is_left_alone(ledger: Ledger, budget: int | None) -> None:
    session, before = ledger.session("nobody"), ledger.position
    report = session.compact(budget)
    assert (report.created, report.skipped, report.items_after) == ((), (), 0)
    assert report.under is (None if budget is None else True)
    assert session.truncate(3).change == session.clear().change == "none"
    assert (session.id, ledger.position) == (None, before)
