"""Compaction: what of a window is summarised next, when nothing is, and what an answer has to be to count."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from windows import ANY_WINDOWS, call, conversations, cut, result, said, summary, user, window

from ledger.sessions.rules import compaction, escalation
from ledger.sessions.rules.assembly import answers
from ledger.sessions.rules.compaction import (
    FRESH_TAIL,
    LEAF_CHUNK_TOKENS,
    MIN_TOKENS,
    SKIPS,
    CompactionRun,
    Skip,
    condensed_run,
    condensed_runs,
    improves,
    is_due,
    leaf_run,
    leaf_runs,
    runs,
    widened_runs,
)
from ledger.sessions.rules.escalation import FALLBACK_BYTES, Attempt, accepts, attempts, fallback, following
from ledger.sessions.rules.window import FALLBACK, LEAF, WindowItem

TAIL = [user(1), *[said(1) for _ in range(FRESH_TAIL - 1)]]


def places(found: CompactionRun | Skip) -> list[int]:
    assert isinstance(found, CompactionRun), found
    return [item.place for item in found.items]


def why(found: CompactionRun | Skip) -> str:
    assert isinstance(found, Skip), found
    return found.why


# --- leaves ----------------------------------------------------------------------------------------------------------


def test_eight_old_messages_make_a_leaf_and_seven_do_not() -> None:
    found = leaf_run(window(*[user() for _ in range(8)], *TAIL))
    assert places(found) == list(range(1, 9))
    assert isinstance(found, CompactionRun)
    assert (found.kind, found.depth, found.tokens, found.messages, found.source_tokens) == (LEAF, 0, 800, 8, 800)
    assert (found.ranges, found.summaries, found.context) == (((1, 8),), (), ())
    short = leaf_run(window(*[user() for _ in range(7)], *TAIL))
    assert short == Skip("too_few", LEAF, 7, 700)


def test_messages_in_the_tail_are_not_summarized() -> None:
    assert why(leaf_run([])) == "nothing_old"
    assert why(leaf_run(window(*TAIL))) == "nothing_old"
    assert why(leaf_run(window(summary(), *TAIL))) == "nothing_old"
    assert why(leaf_run(window(*[user(90_000) for _ in range(FRESH_TAIL)]))) == "nothing_old"


def test_a_run_ends_where_twenty_thousand_tokens_do() -> None:
    items = window(*[user(3_000) for _ in range(20)], *TAIL)
    assert places(leaf_run(items)) == [1, 2, 3, 4, 5, 6], "fewer than eight, for the next does not fit"
    assert [len(run.items) for run in leaf_runs(items)] == [6, 6, 6], "and two are left for a later run"
    exact = window(*[user(2_500) for _ in range(9)], *TAIL)
    assert places(leaf_run(exact)) == list(range(1, 9))


def test_a_larger_message_is_a_run_by_itself() -> None:
    assert places(leaf_run(window(user(50_000), *TAIL))) == [1]
    assert places(leaf_run(window(user(LEAF_CHUNK_TOKENS), *TAIL))) == [1]
    assert why(leaf_run(window(user(LEAF_CHUNK_TOKENS - 1), *TAIL))) == "too_few"
    assert places(leaf_run(window(user(2_000), user(50_000), *TAIL))) == [1]
    assert places(leaf_run(window(user(9), said(9), user(50_000), user(9), *TAIL))) == [1, 2, 3], "nothing stays behind"


def test_a_shorter_stretch_before_a_summary_is_passed_over() -> None:
    items = window(*[user() for _ in range(7)], summary(), *[user() for _ in range(9)], *TAIL)
    assert len(places(leaf_run(items))) == 9


def test_up_to_two_summaries_before_a_run_are_its_context_and_a_fallback_is_not() -> None:
    items = window(summary(1), summary(), cut(), summary(), user(), cut(), *[user() for _ in range(8)], *TAIL)
    found = leaf_run(items)
    assert isinstance(found, CompactionRun)
    assert found.context == (items[1], items[3])


def test_a_call_and_its_results_stay_on_one_side_of_the_tail() -> None:
    tail = [result("b"), *TAIL[:-1]]
    items = window(*[user() for _ in range(8)], call("a", "b"), result("a"), *tail)
    assert places(leaf_run(items)) == list(range(1, 9)), "the call and its first result wait for the second"
    assert why(leaf_run(window(call("a", "b"), result("a"), *tail))) == "held"
    late = window(call("b"), *[user() for _ in range(8)], *tail)
    assert places(leaf_run(late)) == list(range(2, 10)), "what was said since a call that took long is summarised"


def test_a_call_and_its_results_stay_in_one_chunk() -> None:
    items = window(*[user(2_000) for _ in range(9)], call("a", "b", tokens=900), result("a", tokens=900), result("b"))
    chunks = [len(run.items) for run in leaf_runs([*items, *TAIL])]
    assert chunks == [12], "19,900 tokens in all"
    longer = window(*[user(2_100) for _ in range(9)], call("a", tokens=900), result("a", tokens=900))
    assert [len(run.items) for run in leaf_runs([*longer, *TAIL])] == [9]
    large = window(call("a"), result("a", tokens=90_000), *TAIL)
    assert places(leaf_run(large)) == [1, 2], "a longer exchange is a chunk by itself"
    after = window(*[user() for _ in range(8)], call("a"), result("a", tokens=90_000), *TAIL)
    assert [len(run.items) for run in leaf_runs(after)] == [8, 2]


def test_an_id_used_again_is_another_call() -> None:
    turns = [item for _ in range(5) for item in (user(), call("call_0"), result("call_0"), said())]
    assert len(places(leaf_run(window(*turns, *TAIL)))) == 20


def test_forced_two_messages_are_enough_and_the_last_turn_stays() -> None:
    assert places(leaf_run(window(user(), said(), user(), said()), force=True)) == [1, 2]
    assert why(leaf_run(window(user(), user(), said()), force=True)) == "too_few"
    assert why(leaf_run(window(user(9_000), said()), force=True)) == "nothing_old"
    assert places(leaf_run(window(summary(), user(MIN_TOKENS), summary(), user()), force=True)) == [11]
    turn = window(user(), said(), user(), call("a"), result("a"), said())
    assert places(leaf_run(turn, force=True)) == [1, 2], "a message of results is no turn of the user's"
    assert places(leaf_run(window(said(), said(), said()), force=True)) == [1, 2], (
        "without a user the last message stays"
    )


@given(ANY_WINDOWS | conversations(), st.integers(0, 40), st.booleans())
def test_a_run_is_old_messages_side_by_side_and_long_enough(items: list[WindowItem], protect: int, force: bool) -> None:
    turns = [item.place for item in items if item.role == "user" and not item.results]
    last = 0
    for run in leaf_runs(items, protect=protect, force=force):
        at = items.index(run.items[0])
        assert tuple(items[at : at + len(run.items)]) == run.items
        assert not any(item.is_summary for item in run.items)
        assert run.tokens == sum(item.tokens for item in run.items) == run.input_tokens
        assert at >= last, "no two overlap"
        last = at + len(run.items)
        assert last <= (len(items) if force else len(items) - protect)
        if force and turns:
            assert run.items[-1].place < turns[-1]
        assert len(run.items) >= (2 if force else 8) or run.tokens >= MIN_TOKENS
        longest = max(item.tokens for item in run.items)
        assert run.tokens <= LEAF_CHUNK_TOKENS or run.tokens - longest < LEAF_CHUNK_TOKENS + MIN_TOKENS
        assert len(run.context) <= 2 and all(each.is_summary and each.level != FALLBACK for each in run.context)


@pytest.mark.slow
@given(ANY_WINDOWS, st.integers(0, 40), st.booleans())
def test_nothing_in_the_tail_loses_its_call(items: list[WindowItem], protect: int, force: bool) -> None:
    users = [at for at, item in enumerate(items) if item.role == "user" and not item.results]
    if force and not users:
        return
    border = users[-1] if force else max(0, len(items) - protect)
    taken = {item.place for run in leaf_runs(items, protect=protect, force=force) for item in run.items}
    for asked, answered, _ in answers(items):
        assert answered < border or asked >= border or items[asked].place not in taken


@given(ANY_WINDOWS | conversations(), st.integers(0, 40), st.booleans())
@example(window(*[user() for _ in range(9)], *[said() for _ in range(20)]), 2, False)
def test_messages_of_the_turn_under_way_are_summarised_after_all_that_is_older(
    items: list[WindowItem], protect: int, force: bool
) -> None:
    asked = max((item.place for item in items if item.role == "user" and not item.results), default=2**62)
    found = [run.items for run in runs(items, protect=protect, force=force)]
    inside = [run[0].place > asked for run in found if not any(item.is_summary for item in run)]
    assert inside == sorted(inside), "the older ones come first"
    assert not any(run[0].place <= asked <= run[-1].place for run in found if len(run) > 1), "and what was asked stays"


@given(conversations(), st.integers(0, 40), st.booleans())
def test_a_run_never_cuts_between_a_call_and_its_results(items: list[WindowItem], protect: int, force: bool) -> None:
    pairs = [(items[asked], items[answered]) for asked, answered, _ in answers(items)]
    steps = {asked.place: asked.tokens for asked, _ in pairs}
    for asked, answered in pairs:
        steps[asked.place] += answered.tokens
    for run in leaf_runs(items, protect=protect, force=force):
        inside = {item.place for item in run.items}
        for asked, answered in pairs:
            together = (asked.place in inside) == (answered.place in inside)
            assert together or steps[asked.place] > LEAF_CHUNK_TOKENS, "unless they are too long for one run"


# --- condensed -------------------------------------------------------------------------------------------------------


def test_the_summaries_that_begin_the_window_are_condensed_once_they_have_two_thousand_tokens() -> None:
    found = condensed_run(window(summary(), summary(), summary(1), *TAIL))
    assert places(found) == [1, 11]
    assert isinstance(found, CompactionRun)
    assert (found.kind, found.depth, found.tokens, found.messages, found.source_tokens) == (
        ("condensed", 1, 2_000, 20, 40_000)
    )
    assert (found.summaries, found.ranges, found.input_tokens) == (("m_1", "m_11"), ((1, 20),), 2_000)
    assert why(condensed_run(window(summary(), summary(0, 999), *TAIL))) == "too_small"
    assert why(condensed_run(window(user(), summary(), summary(), *TAIL))) == "too_few"


def test_four_oldest_summaries_of_the_least_depth_are_condensed_if_none_begin_the_window() -> None:
    deep, leaves = [summary(1, 400) for _ in range(4)], [summary(0, 100) for _ in range(5)]
    assert places(condensed_run(window(user(), *deep, *leaves, *TAIL))) == [42, 52, 62, 72]
    assert places(condensed_run(window(user(), *deep, *leaves[:3], *TAIL))) == [2, 12, 22, 32]


def test_a_single_summary_is_never_condensed() -> None:
    assert why(condensed_run(window(summary(0, 9_000), *TAIL))) == "too_few"
    assert why(condensed_run(window(summary(0, 9_000)), protect=0, hard=True)) == "too_few"


def test_only_neighbours_are_condensed() -> None:
    apart = [each for _ in range(4) for each in (user(), summary())]
    assert why(condensed_run(window(*apart, *TAIL))) == "apart"
    depths = [each for _ in range(4) for each in (summary(0, 100), summary(1, 100))]
    assert why(condensed_run(window(*depths, *TAIL))) == "apart"


def test_a_fallback_is_never_condensed() -> None:
    assert why(condensed_run(window(*[cut() for _ in range(9)], *TAIL))) == "fallback_only"
    items = window(cut(), *[summary() for _ in range(4)], cut(), *TAIL)
    assert places(condensed_run(items)) == [11, 21, 31, 41]


def test_two_messages_are_enough_if_the_window_must_shrink() -> None:
    items = window(user(), summary(), summary(), *TAIL)
    assert why(condensed_run(items)) == "too_few"
    assert places(condensed_run(items, hard=True)) == [2, 12]


def test_what_is_condensed_fits_what_a_summary_is_written_from() -> None:
    assert why(condensed_run(window(summary(0, 19_000), summary(0, 2_000), *TAIL))) == "too_large"
    assert why(condensed_run(window(user(), *[summary(0, 9_000) for _ in range(4)], *TAIL))) == "too_large"
    assert len(places(condensed_run(window(*[summary(0, 900) for _ in range(30)], *TAIL)))) == 22


@given(ANY_WINDOWS, st.integers(0, 40), st.booleans())
def test_what_is_condensed_are_neighbours_of_one_depth_that_no_model_failed_on(
    items: list[WindowItem], protect: int, hard: bool
) -> None:
    for run in condensed_runs(items, protect=protect, hard=hard):
        at = items.index(run.items[0])
        assert tuple(items[at : at + len(run.items)]) == run.items
        assert at + len(run.items) <= len(items) - protect
        assert {(item.is_summary, item.depth) for item in run.items} == {(True, run.depth - 1)}
        assert all(item.level != FALLBACK for item in run.items)
        assert len(run.items) >= 2 and run.tokens <= LEAF_CHUNK_TOKENS
        assert len(run.items) >= (2 if hard else 4) or (at == 0 and run.tokens >= MIN_TOKENS)


@given(ANY_WINDOWS, st.integers(0, 40), st.booleans())
def test_what_is_not_compacted_has_a_reason_that_is_known(items: list[WindowItem], protect: int, yes: bool) -> None:
    for found in (
        leaf_run(items, protect=protect, force=yes),
        condensed_run(items, protect=protect, hard=yes),
    ):
        assert isinstance(found, CompactionRun) or found.why in SKIPS


# --- fallbacks -------------------------------------------------------------------------------------------------------


def test_fallbacks_side_by_side_whose_messages_can_be_read_at_once_become_one_leaf() -> None:
    items = window(cut(), cut(source_tokens=9_000), cut(source_tokens=9_000), cut(), *TAIL)
    found = next(widened_runs(items))
    assert places(found) == [11, 21]
    assert isinstance(found, CompactionRun)
    assert (found.kind, found.depth, found.readable, found.ranges) == (LEAF, 0, True, ((11, 30),))
    assert (found.summaries, found.tokens, found.input_tokens) == (("m_11", "m_21"), 1_000, 18_000)
    assert all(each.target_tokens < 1_000 for each in found.attempts()), "shorter than what it replaces"


def test_fallbacks_too_large_to_read_are_joined_without_a_model() -> None:
    items = window(cut(500), *[cut() for _ in range(9)], *TAIL)
    found = next(widened_runs(items))
    assert isinstance(found, CompactionRun)
    assert (len(found.items), found.items[0], found.readable, found.attempts()) == (8, items[1], False, ())
    assert places(next(widened_runs(window(cut(), cut(), *TAIL)))) == [1, 11]


def test_a_fallback_alone_or_apart_from_others_is_not_widened() -> None:
    assert not list(widened_runs(window(cut(), *TAIL)))
    assert not list(widened_runs(window(cut(), user(), cut(), summary(), cut(), *TAIL)))


def test_a_single_fallback_is_summarized_again_on_request() -> None:
    found = next(widened_runs(window(cut(), *TAIL), again=True))
    assert isinstance(found, CompactionRun)
    assert (len(found.items), found.readable, found.attempts()[0].target_tokens) == (
        1,
        True,
        415,
    )  # 498 at most, with a fifth over it


def test_fallbacks_are_widened_only_after_all_else() -> None:
    items = window(*[summary() for _ in range(4)], cut(), cut(), *[user() for _ in range(8)], *TAIL)
    assert [(run.kind, run.readable) for run in runs(items)] == [(LEAF, True), ("condensed", True), (LEAF, False)]


def shrunk(items: list[WindowItem], run: CompactionRun, tokens: int) -> list[WindowItem]:
    """The window once a fallback of so many tokens stands for the run."""
    made = WindowItem(
        "summary",
        9_999,
        run.items[0].place,
        tokens,
        "",
        id=f"m_{run.items[0].place}",
        summary_kind=LEAF,
        depth=0,
        level=FALLBACK,
        messages=run.messages,
        source_tokens=run.source_tokens,
        ranges=run.ranges,
    )
    at = items.index(run.items[0])
    return [*items[:at], made, *items[at + len(run.items) :]]


@given(conversations(), st.booleans())
def test_without_a_model_a_window_shrinks_to_its_last_turn_and_loses_no_message(
    items: list[WindowItem], force: bool
) -> None:
    items = [replace(item, level=FALLBACK, depth=0, summary_kind=LEAF) if item.is_summary else item for item in items]
    messages, steps = sum(item.messages for item in items), 0
    while True:
        found = next(
            (
                (run, size)
                for run in runs(items, force=force)
                for size in (min(520, run.source_tokens + 8),)
                if run.kind == LEAF and improves(run, size)
            ),
            None,
        )
        if found is None:
            break
        items = shrunk(items, *found)
        steps += 1
        assert sum(item.messages for item in items) == messages
        assert all(before.place < after.place for before, after in pairwise(items)), "in the order of time"
    assert steps < 300
    old = items if force else items[:-FRESH_TAIL]
    cuts = [item.is_summary and item.tokens > 260 for item in old]
    assert not any(first and second for first, second in pairwise(cuts)), "no two are left side by side"


# --- escalation ------------------------------------------------------------------------------------------------------


def test_a_model_is_asked_at_most_four_times_for_a_leaf() -> None:
    assert attempts(LEAF, 20_000) == (
        Attempt("normal", 1_200, 0.3),
        Attempt("normal", 1_200, 0.0),
        Attempt("aggressive", 640, 0.3),
        Attempt("aggressive", 640, 0.0),
    )
    assert [each.target_tokens for each in attempts(LEAF, 1_000)] == [350, 350, 200, 200]
    assert [each.target_tokens for each in attempts("condensed", 4_000)] == [1_400, 1_400, 800, 800]
    assert [each.target_tokens for each in attempts("condensed", 20_000)] == [2_000, 2_000, 1_000, 1_000]
    assert attempts(LEAF, 2) == (), "nothing is short enough"


def test_an_empty_answer_is_asked_for_again_and_too_long_a_one_more_shortly() -> None:
    normal, again, aggressive, last = tries = attempts(LEAF, 20_000)
    assert following(tries) == normal
    assert following(tries, normal, " \n") == again
    assert following(tries, normal, "too long") == aggressive
    assert following(tries, again, "") == following(tries, again, "too long") == aggressive
    assert following(tries, aggressive, "") == last
    assert following(tries, aggressive, "too long") is following(tries, last, "") is None
    assert following(()) is None


def test_an_answer_counts_if_it_says_something_and_is_at_most_a_fifth_over_its_target() -> None:
    attempt = Attempt("normal", 100, 0.3)
    assert accepts(attempt, "What was said.", 100)
    assert accepts(attempt, "What was said.", 120)
    assert not accepts(attempt, "What was said.", 121)
    assert accepts(Attempt("normal", 4, 0.3), "What was said.", 4) and not accepts(
        Attempt("normal", 4, 0.3), "Said.", 5
    )
    assert not accepts(attempt, " ", 1)
    assert not accepts(attempt, "What was said.", 0)


@given(st.sampled_from([LEAF, "condensed"]), st.integers(0, 10**9), st.none() | st.integers(-5, 3_000))
def test_what_is_accepted_for_a_target_is_below_what_it_replaces(kind: str, tokens: int, below: int | None) -> None:
    for each in attempts(kind, tokens, below=below):
        assert 0 < each.target_tokens <= tokens * 35 // 100
        assert below is None or not accepts(each, "What was said.", below)


def test_a_summary_that_is_not_smaller_replaces_nothing() -> None:
    found = leaf_run(window(*[user(10) for _ in range(8)], *TAIL))
    assert isinstance(found, CompactionRun)
    assert improves(found, 79)
    assert not improves(found, 80)
    assert not improves(found, 0)


def test_a_window_is_due_above_three_quarters_of_its_budget() -> None:
    assert not is_due(75, 100)
    assert is_due(76, 100)
    assert not is_due(0, 1)
    assert is_due(1, 1)


# --- what stands in --------------------------------------------------------------------------------------------------


def test_a_fallback_is_the_beginning_and_says_of_how_much() -> None:
    assert fallback(["one", "two"], 2) == "one\ntwo\n[Truncated from 2 messages]"
    assert fallback(["x" * 9_000, "y"], 12) == "x" * FALLBACK_BYTES + "\n[Truncated from 12 messages]"
    assert fallback([], 0) == "\n[Truncated from 0 messages]"


def test_a_fallback_reads_no_more_text_than_it_holds() -> None:
    endless = iter(lambda: "word", "")
    assert fallback(endless, 10**6).startswith("word\nword\n")


@pytest.mark.parametrize(
    "sign",
    ["é", "e\u0301", "語", "😀", "👩\u200d👩\u200d👧", "👍🏽", "🇵🇹", "🏴\U000e0067\U000e0062\U000e0065\U000e007f"],
    ids=lambda sign: sign.encode("unicode_escape").decode("ascii"),
)
def test_a_fallback_never_ends_within_a_character(sign: str) -> None:
    for shift in range(len(sign.encode())):
        beginning = fallback(["x" * shift + sign * 2_000], 1).rpartition("\n")[0]
        assert set(beginning[shift:].split(sign)) == {""}
        assert FALLBACK_BYTES - len(sign.encode()) < len(beginning.encode()) <= FALLBACK_BYTES


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=900), max_size=6), st.integers(0, 99))
@example(["\u0301" * 9_000], 1)
@example(["\u200d" * 9_000], 1)
def test_a_fallback_is_a_prefix_in_whole_characters(texts: list[str], count: int) -> None:
    whole = "\n".join(texts)
    beginning = fallback(texts, count).removesuffix(f"\n[Truncated from {count} messages]")
    assert whole.startswith(beginning)
    assert len(beginning.encode()) <= FALLBACK_BYTES
    if len(whole.encode()) <= FALLBACK_BYTES:
        assert beginning == whole


def test_the_numbers_are_those_of_the_source() -> None:
    assert compaction.CONTEXT_THRESHOLD == (3, 4)
    assert (compaction.FRESH_TAIL, compaction.LEAF_FANOUT, compaction.CONDENSED_FANOUT) == (32, 8, 4)
    assert (compaction.CONDENSED_FANOUT_HARD, compaction.LEAF_CHUNK_TOKENS) == (2, 20_000)
    assert (escalation.LEAF_TARGET, escalation.CONDENSED_TARGET) == (1_200, 2_000)
    assert (compaction.EXPAND_TOKENS, compaction.ITERATIONS) == (4_000, 20)
