"""Assembly: what of a window fits a budget, what is left out of it and why, and what no provider would refuse."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from windows import (
    ANY_WINDOWS,
    call,
    conversations,
    cut,
    message,
    result,
    said,
    summary,
    turns_of_two_steps,
    user,
    window,
)

from ledger.domain.errors import RejectedError
from ledger.sessions.rules.assembly import FEWEST, REASONS, SHORTEST, Fitted, answers, fit, is_turn, paired
from ledger.sessions.rules.window import WindowItem

BUDGETS = st.integers(1, 3_000) | st.integers(1, 10**6)


def fitted(*items: WindowItem, budget: int = 10**6, tail: int = 32, kept: int = 0) -> Fitted:
    return fit_of(window(*items), budget, tail, kept)


def fit_of(items: list[WindowItem], budget: int, tail: int = 32, kept: int = 0) -> Fitted:
    request = next((item for item in reversed(items) if is_turn(item)), None)
    summaries = [item for item in items if item.is_summary]
    return fit(reversed(items), budget, request=request, summaries=summaries, kept=kept, tail=tail)


def places(found: Fitted) -> list[int]:
    return [item.place for item in found.items]


def left_out(found: Fitted) -> list[tuple[int, str]]:
    return [(each.item.place, each.why) for each in found.dropped]


# --- the budget ------------------------------------------------------------------------------------------------------


def test_a_window_that_fits_is_taken_whole() -> None:
    found = fitted(summary(1), cut(), *[user() for _ in range(60)])
    assert len(found.items) == 62
    assert (found.tokens, found.over_budget, found.reasons, found.dropped) == (7_500, False, (), ())
    assert (found.looked_at, found.items[0].is_summary) == (60, True)
    assert fitted() == Fitted((), 0)


def test_older_items_follow_up_to_the_first_that_does_not_fit() -> None:
    found = fitted(user(1), user(500), user(100), user(100), budget=300, tail=2)
    assert (places(found), found.tokens) == ([2, 3, 4], 300), "an older one that would fit is not looked at"
    assert (found.reasons, found.shortened, left_out(found)) == (("budget", "message_shortened"), {2: 100}, [])
    assert found.looked_at == 3
    little = fitted(user(1), user(500), user(100), user(100), budget=200 + FEWEST - 1, tail=2)
    assert (places(little), little.reasons, left_out(little)) == ([3, 4], ("budget",), [(2, "budget")])


def test_no_more_of_a_long_window_is_read_than_fits() -> None:
    read = 0

    def endless() -> Iterator[WindowItem]:
        nonlocal read
        while True:
            read += 1
            yield message("user", 10, place=10**9 - read)

    assert len(fit(endless(), 10_000).items) == 1_000
    assert read == 1_000, "nothing after the budget is spent"
    read = 0
    assert len(fit(endless(), 10_005).items) == 1_000
    assert read == 1_001, "and one that does not fit"


def test_a_tail_over_the_budget_loses_its_oldest_items() -> None:
    found = fitted(user(), said(), user(), said(), user(), budget=250)
    assert (places(found), found.over_budget, found.shortened) == ([3, 4, 5], False, {3: 50})
    assert found.reasons == ("tail_trimmed", "message_shortened") and left_out(found) == [], (
        "older ones are not looked at"
    )


def test_the_last_turn_is_kept_with_its_oldest_results_shortened() -> None:
    steps = [call("a"), result("a", tokens=900), call("b"), result("b", tokens=900), said()]
    found = fitted(user(), said(), user(500), *steps, budget=2_000)
    assert (places(found), found.tokens) == ([3, 4, 5, 6, 7, 8], 2_000)
    assert (found.over_budget, found.reasons, found.shortened) == (
        False,
        ("tail_trimmed", "results_shortened"),
        {5: 300},
    )
    less = fitted(user(), said(), user(500), *steps, budget=1_000)
    assert less.shortened == {5: SHORTEST, 7: 1_000 - 800 - SHORTEST}, "the oldest as far as can be, first"
    least = fitted(user(), said(), user(500), *steps, budget=500)
    assert (places(least), least.over_budget) == ([3, 4, 5, 6, 7, 8], True)
    assert (
        least.reasons == ("turn_over_budget", "tail_trimmed", "results_shortened")
        and least.tokens == 800 + 2 * SHORTEST
    )


def test_the_newest_user_message_stays_however_many_calls_follow() -> None:
    steps = [each for number in range(90) for each in (call(f"c{number}"), result(f"c{number}", tokens=900))]
    for budget in (1, 500, 1_000, 2_500, 10_000, 10**6):
        found = fitted(summary(), user(300), said(), user(400), *steps, budget=budget, kept=budget // 5)
        assert found.items[0].is_summary == (budget >= 10_000), "a fifth of less holds no summary of 1,000 tokens"
        assert next(item for item in found.items if item.role == "user" and item.tokens == 400).results == ()
        assert found.items[-1].results == ("c89",) and found.items[-2].calls == ("c89",)
        assert found.over_budget == (budget < 400 + 100 + SHORTEST)


# --- a share for summaries -------------------------------------------------------------------------------------------


def test_a_share_is_kept_for_summaries_and_messages_take_what_they_do_not_need() -> None:
    items = [summary(1, 150), summary(0, 100), *[user() for _ in range(60)]]
    found = fitted(*items, budget=2_000, kept=400)
    assert [item.tokens for item in found.items[:3]] == [150, 100, 50] and len(found.items) == 3 + 17
    assert (found.summaries_evicted, found.reasons) == (0, ("tail_trimmed", "message_shortened"))
    assert len(fitted(*items[2:], budget=2_000, kept=400).items) == 20, "without summaries nothing is kept free"
    none = fitted(*items, budget=2_000)
    assert (none.summaries_evicted, len(none.items)) == (2, 20) and "summaries_evicted" in none.reasons


def test_the_summaries_of_most_messages_are_chosen_if_not_all_fit() -> None:
    few, most, some = (summary(0, 300, messages=count) for count in (2, 90, 30))
    found = fitted(few, most, some, *[user() for _ in range(60)], budget=2_000, kept=650)
    assert [item.messages for item in found.items[:2]] == [90, 30]
    assert (found.summaries_evicted, left_out(found)[-1][1]) == (1, "summaries_evicted")


def test_summaries_give_way_where_the_last_turn_cannot_be_shortened() -> None:
    found = fitted(summary(0, 300), user(), said(), user(500), said(400), budget=1_000, kept=300)
    assert (places(found), found.summaries_evicted, found.over_budget) == ([12, 13, 14], 1, False), (
        "and older ones follow"
    )


def test_a_message_of_results_begins_no_turn() -> None:
    carried = message("user", 900, results=["a"])
    found = fitted(said(), user(), call("a"), carried, budget=1_000)
    assert places(found) == [2, 3, 4]


def test_the_last_step_of_a_turn_longer_than_the_tail_is_kept() -> None:
    steps = [each for number in range(30) for each in (call(f"c{number}"), result(f"c{number}", tokens=900))]
    found = fitted(user(), *steps, budget=500)
    assert (places(found), found.over_budget, found.shortened) == ([1, 60, 61], False, {61: 300})
    assert found.reasons == ("results_shortened", "turn_trimmed")
    trimmed = fitted(user(), *steps, budget=2_500)
    assert places(trimmed) == [1, *range(44, 62)] and not trimmed.over_budget
    assert set(trimmed.shortened) == set(range(45, 60, 2)), "all but the newest"


@pytest.mark.parametrize(("budget", "tail", "rule"), [(0, 32, "budget"), (-5, 32, "budget"), (100, 0, "tail")])
def test_a_budget_of_nothing_is_refused(budget: int, tail: int, rule: str) -> None:
    with pytest.raises(RejectedError) as refused:
        fit([user()], budget, tail=tail)
    assert (refused.value.rule, refused.value.limit) == (rule, 1)


# --- a start that providers take -------------------------------------------------------------------------------------


def test_what_a_cut_left_of_a_turn_is_not_the_beginning() -> None:
    turn = (call("a"), result("a"), call("b"), result("b"))
    least = 400 + FEWEST + 2 * SHORTEST
    found = fitted(user(900), *turn, user(), said(), budget=least - 1)
    assert (places(found), found.reasons) == ([6, 7], ("tail_trimmed", "unsafe_start"))
    assert (1, "tail_trimmed") in left_out(found) and (5, "unsafe_start") in left_out(found)
    older = fitted(user(900), *turn, user(), said(), budget=least - 1, tail=2)
    assert (places(older), older.reasons) == ([6, 7], ("budget", "unsafe_start"))
    part = fitted(user(900), *turn, user(), said(), budget=600 + FEWEST)
    assert (places(part), part.shortened) == ([1, 2, 3, 4, 5, 6, 7], {1: FEWEST}), "a part of its request begins it"


def test_a_step_that_does_not_fit_is_there_with_its_results_shortened() -> None:
    items = (user(), call("a", "b"), result("a", tokens=900), result("b", tokens=900), said(), user())
    found = fitted(*items, budget=1_000)
    assert (places(found), found.tokens) == ([1, 2, 3, 4, 5, 6], 1_000)
    assert (found.shortened, found.reasons) == ({3: SHORTEST, 4: 536}, ("tail_trimmed", "step_shortened"))
    least = 400 + 2 * SHORTEST - (100 - FEWEST)
    both = fitted(*items, budget=least)
    assert (places(both), both.shortened) == ([1, 2, 3, 4, 5, 6], {1: FEWEST, 3: SHORTEST, 4: SHORTEST})
    assert places(fitted(*items, budget=least - 1)) == [5, 6], "the whole step or nothing of it"


def test_a_step_after_a_summary_begins_a_window_with_its_results_shortened() -> None:
    found = fitted(user(), summary(tokens=100), call("a"), result("a", tokens=9_000), user(), budget=1_000)
    assert (places(found), found.shortened) == ([2, 12, 13, 14], {13: 700})
    assert found.tokens == 1_000


@given(st.lists(turns_of_two_steps(), min_size=1, max_size=40), st.integers(20_000, 60_000))
def test_at_most_three_per_cent_is_left_while_anything_is_left_out(turns: list[list[WindowItem]], budget: int) -> None:
    """Of turns whose steps take at most 600 tokens with their results at the shortest: 3 % of the least budget."""
    found = fit_of(window(*(item for turn in turns for item in turn)), budget)
    assert not found.dropped or found.over_budget or found.tokens >= budget * 0.97


def test_a_users_message_is_the_beginning_also_where_it_has_a_call() -> None:
    """Which nobody can answer, and no provider is given."""
    items = window(said(900), message("user", 200, calls=["a"]), result("a", tokens=100))
    found = fit_of(items, 300 + FEWEST - 1)
    assert [(item.place, item.calls) for item in found.items] == [(2, ())]
    assert left_out(found) == [(1, "tail_trimmed"), (3, "orphan_result")]


def test_an_answer_may_be_the_beginning() -> None:
    assert places(fitted(user(900), said(), user(), said(), budget=300)) == [2, 3, 4]


def test_after_a_summary_calls_may_begin() -> None:
    found = fitted(user(9_000), summary(), call("a"), result("a"), user(), budget=5_000)
    assert (places(found), found.reasons) == ([1, 2, 12, 13, 14], ("tail_trimmed", "message_shortened"))
    whole = fitted(summary(), call("a"), result("a"), user(), budget=5_000)
    assert (places(whole), whole.reasons) == ([1, 11, 12, 13], ("mid_turn",))


# --- calls and results -----------------------------------------------------------------------------------------------


def test_a_result_without_its_call_is_left_out() -> None:
    found = fitted(user(), result("a"), said())
    assert (places(found), found.tokens, found.reasons) == ([1, 3], 200, ("orphan_result",))
    assert left_out(found) == [(2, "orphan_result")]
    assert places(fitted(user(), result(), said())) == [1, 3]
    assert places(fitted(user(), result("a"), call("a"))) == [1, 3], "a call after it is another"
    assert places(fitted(user(), call("a"), result("a"), result("a"))) == [1, 2, 3], "a call has one answer"


def test_a_call_without_its_result_is_left_out_of_its_message() -> None:
    found = fitted(user(), call("a", "b"), result("b"), user())
    assert [item.calls for item in found.items] == [(), ("b",), (), ()]
    assert found.reasons == ("unanswered_call",)
    assert found.dropped == ()


def test_a_call_at_the_end_may_lack_its_result() -> None:
    for items in (
        (user(), call("a")),
        (user(), call("a", "b"), result("b")),
        (user(), call("a", "b"), result("b"), result("x"), summary()),
    ):
        found = fitted(*items)
        assert found.items[1].calls == items[1].calls
        assert "unanswered_call" not in found.reasons


def test_an_id_used_again_is_another_call() -> None:
    items = window(user(), call("call_0"), result("call_0"), user(), call("call_0"), result("call_0"))
    assert list(answers(items)) == [(1, 2, "call_0"), (4, 5, "call_0")]


def test_a_users_message_that_lost_its_results_is_still_said() -> None:
    found = fitted(user(), message("user", 100, results=["a"]))
    assert [item.results for item in found.items] == [(), ()]
    assert found.reasons == ("orphan_result",)


@given(ANY_WINDOWS | conversations(), BUDGETS, st.integers(1, 40))
def test_what_is_chosen_is_in_order_accounted_for_and_within_the_budget(
    items: list[WindowItem], budget: int, tail: int
) -> None:
    found = fit_of(items, budget, tail)
    assert found.tokens == sum(item.tokens for item in found.items)
    assert found.over_budget == (found.tokens > budget)
    assert all(first.place < second.place for first, second in pairwise(found.items))
    seen = sorted([*places(found), *(each.item.place for each in found.dropped)])
    spoken = [item.place for item in items if not item.is_summary]
    looked_at = {*spoken[len(spoken) - found.looked_at :], *(item.place for item in items if item.is_summary)}
    begun = [item.place for item in items if is_turn(item)][-1:]
    assert seen == sorted(looked_at | set(begun)), "all that was looked at, once"
    assert {each.why for each in found.dropped} | set(found.reasons) <= set(REASONS)
    assert {each.why for each in found.dropped} <= set(found.reasons)
    if found.over_budget:
        assert "turn_over_budget" in found.reasons
    given = {item.place: item for item in items}
    for item in found.items:
        assert item.tokens == found.shortened.get(item.position, given[item.place].tokens)
        is_part = "message_shortened" in found.reasons and not (given[item.place].calls or item.role == "tool")
        assert item.position not in found.shortened or given[item.place].results or is_part


@given(ANY_WINDOWS | conversations(), BUDGETS, st.integers(1, 40))
def test_what_is_chosen_begins_safely_and_has_no_gap(items: list[WindowItem], budget: int, tail: int) -> None:
    found = fit_of(items, budget, tail)
    first = next((item for item in found.items if not item.is_summary), None)
    if first is not None:
        assert not first.results and first.role != "tool"
        assert not first.calls or "mid_turn" in found.reasons
    for each in found.dropped:
        spoken = [item.place for item in found.items if not item.is_summary]
        gap = spoken and each.item.place > spoken[0]
        assert not gap or each.why in ("orphan_result", "turn_trimmed", "summaries_evicted")


@given(conversations(), BUDGETS, st.integers(1, 40))
def test_the_last_turn_is_there_if_it_began_in_the_tail_and_else_its_user_message(
    items: list[WindowItem], budget: int, tail: int
) -> None:
    found = fit_of(items, budget, tail)
    began = max(at for at, item in enumerate(items) if is_turn(item))
    given = {item.place for item in found.items}
    assert items[began] in found.items, "the user's message always, and never shortened"
    if len(items) - began <= tail:
        assert given >= {item.place for item in items[began:]}
    assert items[-1].place in given


@given(conversations())
def test_nothing_is_left_out_of_whole_turns(items: list[WindowItem]) -> None:
    assert fit_of(items, 10**9).items == tuple(items)


@given(ANY_WINDOWS)
def test_settling_twice_changes_nothing(items: list[WindowItem]) -> None:
    once, _ = paired(items)
    assert paired(once) == (once, ())


@given(ANY_WINDOWS)
def test_after_settle_every_call_has_a_result_and_every_result_a_call(items: list[WindowItem]) -> None:
    kept, _ = paired(items)
    pairs = list(answers(kept))
    assert sum(len(item.results) for item in kept) == len(pairs)
    open_calls = [
        at
        for at, item in enumerate(kept)
        for name in item.calls
        if not any((asked, named) == (at, name) for asked, _, named in pairs)
    ]
    for at in open_calls:
        assert all(later.is_summary or later.role == "tool" for later in kept[at + 1 :]), "only at the end"
