"""Ranking, pure: what each step adds, that every part of a score is shown, and that no input makes it anything but a number."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from contextlib import closing

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ledger import Ledger
from ledger.domain.confidence import ONE
from ledger.english.question import read
from ledger.english.words import indexed, stem
from ledger.recall.rubino import by_rank
from projections.core.sqlite import TOKENIZER
from projections.search import ranking
from projections.search.ranking import (
    ASKED,
    BARE_QUESTION,
    COVERAGE,
    FIRST_PERSON,
    KIND_WEIGHTS,
    NAMED,
    NEAR_DAY,
    NEIGHBORS,
    RULE,
    SESSION,
    SHORT_CHARS,
    TIME_NAMED,
    VECTOR,
    ScoredText,
    boost,
    by_score,
    fuse,
    is_rule,
    terms,
    with_context,
    with_sessions,
    word_score,
)

FACTORS = ("named", "first person", "time", "question", "rule", "confidence", "kind", "date")
LOW = (1 - BARE_QUESTION) * (1 - ranking.CONFIDENCE)
HIGH = (1 + NAMED) * (1 + FIRST_PERSON) * (1 + RULE) * (1 + TIME_NAMED) * (1 + NEAR_DAY) * max(KIND_WEIGHTS.values())


def one(stems: Iterable[str]) -> float:
    """Every word is as rare as every other."""
    return 1.0 if list(stems) else 0.0


def scored(text: str, question: str, mean: float = 5.0) -> float:
    return word_score(text, terms(read(question), stem, one, mean))[0]


def turn(key: int, words: float = 0.0, text: str = "said", **more: object) -> ScoredText:
    fields: dict[str, object] = {"group": "s", "role": "response", "whole": len(text), "position": key, "row": key}
    return ScoredText(key=key, corpus="turn", text=text, words=words, score=words, **(fields | more))  # type: ignore[arg-type]


def memory(key: int, words: float = 0.0, **more: object) -> ScoredText:
    fields: dict[str, object] = {"position": key, "row": key}
    return ScoredText(key=key, corpus="memory", text="said", words=words, score=words, **(fields | more))  # type: ignore[arg-type]


# --- words -----------------------------------------------------------------------------------------------------------


def test_a_text_without_a_word_of_the_question_has_no_score() -> None:
    assert scored("The user drinks tea.", "coffee") == scored("", "coffee") == scored("coffee", "?!") == 0


def test_any_form_of_a_word_is_that_word_and_counts_once() -> None:
    assert scored("she went", "go") == scored("she goes", "go") == scored("she go", "go") > 0
    assert scored("preferred tea", "prefers") == scored("prefer tea", "prefers") > 0


def test_more_of_the_question_is_better_than_more_of_one_word() -> None:
    assert scored("dark coffee x x", "dark roast coffee") > scored("coffee coffee coffee x", "dark roast coffee")


def test_what_of_the_question_is_missing_costs_up_to_half() -> None:
    whole = scored("red", "red", mean=1.0)
    half = scored("red", "red green", mean=1.0)
    assert half == pytest.approx(whole * (1 - COVERAGE + COVERAGE / 2))


def test_words_that_stand_together_as_in_the_question_count_more() -> None:
    assert (
        scored("a green tea b", "green tea")
        > scored("a tea green b", "green tea")
        == scored("tea a green b", "green tea")
    )
    assert scored("drinking teas daily", "drinks tea") > scored("teas daily drinking", "drinks tea"), "in any form"


def test_a_shorter_text_with_the_same_words_is_better() -> None:
    assert scored("tea", "tea") > scored("tea " + "x " * 20, "tea")


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("我喜欢喝茶", "茶"), ("我喜欢喝茶", "喝茶"), ("私はcoffeeが好き", "coffee"), ("He eyed it", "eyed"), ("Чай", "чай"),
        ("用户喜欢黑咖啡", "用户喜欢什么咖啡"), ("x", "X"), ("AI is", "ai"), ("Öl", "ol"), ("ﬁle", "file"), ("a_b case", "case"),
    ],
)  # fmt: skip
def test_a_text_in_any_script_has_a_score_for_its_words(text: str, question: str) -> None:
    assert scored(text, question) > 0


def test_part_of_a_word_is_not_the_word() -> None:
    assert scored("который", "кот") == scored("category", "cat") == 0


MIXED = st.text(alphabet=st.sampled_from("aeyingsd eyk .'_éÉßﬁйЁςaが茶喝咖啡한글ก\u0301"), max_size=30)


@given(MIXED, MIXED)
def test_whatever_the_index_finds_has_a_score(text: str, question: str) -> None:
    """Or it would be looked up and then dropped."""
    expression = read(question).expression
    assume(expression)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE f USING fts5(t, tokenize='{TOKENIZER}')")
        connection.execute("INSERT INTO f VALUES (?)", (indexed(text),))
        hit = connection.execute("SELECT 1 FROM f WHERE f MATCH ?", (expression,)).fetchone()
    assert (scored(text, question) > 0) == (hit is not None)


@given(st.text(max_size=60), st.text(max_size=60), st.floats(0.1, 1e6))
def test_a_word_score_is_a_finite_number_from_zero(text: str, question: str, mean: float) -> None:
    assert 0 <= scored(text, question, mean) < math.inf


# --- the company a text keeps ----------------------------------------------------------------------------------------


def test_a_short_turn_gains_from_the_turns_beside_it_less_the_further_they_are() -> None:
    turns = [turn(key) for key in range(8)]
    turns[3].words = 10.0
    with_context(turns, {"s": list(range(8))})
    assert [each.score for each in turns] == pytest.approx([1, 2, 3, 0, 3, 2, 1, 0])
    assert [each.signals.get("context") for each in turns[2:4]] == [pytest.approx(3), None]
    assert NEIGHBORS == (0.3, 0.2, 0.1)


def test_a_long_turn_gains_nothing_and_gives_all_the_same() -> None:
    turns = [turn(0, 10.0), turn(1, 10.0, whole=SHORT_CHARS), turn(2, 0.0, whole=SHORT_CHARS - 1)]
    with_context(turns, {"s": [0, 1, 2]})
    assert [each.score for each in turns] == pytest.approx([10 + 3, 10, 3 + 2])


def test_what_is_gained_is_not_passed_on() -> None:
    turns = [turn(0, 10.0), turn(1), turn(2), turn(3), turn(4)]
    with_context(turns, {"s": [0, 1, 2, 3, 4]})
    assert turns[4].score == 0


def test_a_turn_gains_half_as_much_again_from_a_question_before_it() -> None:
    turns = [turn(0, 10.0, text="Which?"), turn(1), turn(2)]
    with_context(turns, {"s": [0, 1, 2]})
    assert [each.score for each in turns] == pytest.approx([10, 3 * (1 + ASKED), 2])
    before = [turn(0), turn(1, 10.0, text="Which?")]
    with_context(before, {"s": [0, 1]})
    assert before[0].score == pytest.approx(3), "not from one behind it"


def test_turns_of_other_sessions_and_of_none_lend_nothing() -> None:
    turns = [turn(0, 10.0), turn(1, group="other"), turn(2, group=None), memory(3)]
    with_context(turns, {"s": [0], "other": [1]})
    assert [each.score for each in turns] == [10, 0, 0, 0]


def test_a_session_gives_each_turn_half_the_mean_of_its_three_best() -> None:
    turns = [turn(key, words) for key, words in enumerate((6.0, 3.0, 3.0, 1.0, 0.0))]
    alone = [turn(9, 2.0, group=None), memory(10, 2.0)]
    with_sessions([*turns, *alone])
    assert [each.score - each.words for each in turns] == pytest.approx([SESSION * 4] * 5)
    assert all(each.signals["session"] == pytest.approx(2) for each in turns)
    assert [each.score for each in alone] == [2, 2] and not any(each.signals for each in alone)


def test_a_turn_that_says_nothing_is_ranked_by_its_company_alone() -> None:
    found = by_score([turn(0, 5.0, text="Coffee"), turn(1, 0.0, text="Yes.")], read("coffee"), {"s": [0, 1]})
    assert [each.key for each in found] == [0, 1]
    assert set(found[1].signals) == {"context", "session"}


# --- boosts ----------------------------------------------------------------------------------------------------------


def factors(each: ScoredText, question: str) -> dict[str, float]:
    each.score = 1.0
    boost(each, read(question))
    assert each.score == pytest.approx(math.prod(each.signals.values()))
    return each.signals


def test_who_is_named_counts_more_where_they_speak() -> None:
    assert factors(turn(0, text="Ann: I run."), "What does Ann do?") == {"named": 1 + NAMED}
    assert factors(turn(0, text="Ann Lee: I run."), "does lee run") == {"named": 1 + NAMED}
    assert factors(turn(0, text="Bob: Ann runs."), "What does Ann do?") == {}
    assert factors(turn(0, text="Assistant: yes"), "is the assistant here") == {}, "which is nobody's name"


def test_i_and_my_are_the_user() -> None:
    for each in (turn(0, text="User: I run."), turn(0, text="I run.", role="prompt")):
        assert factors(each, "Do I run?") == {"first person": 1 + FIRST_PERSON}
    for each in (
        turn(0, text="Assistant: you run."),
        turn(0, text="You run."),
        turn(0, text="Ann: I run.", role="prompt"),
    ):
        assert "first person" not in factors(each, "Do I run?")
    assert factors(turn(0, text="I run.", role="prompt"), "Does Ann run?") == {}


def test_a_date_near_the_one_asked_for_counts_up_to_twice() -> None:
    assert factors(turn(0, time="2023-05-08T00:00:00Z"), "on 8 May 2023") == {"date": 1 + NEAR_DAY}
    assert factors(memory(0, time="2023-05-08T00:00:00Z"), "on 8 May 2023") == {"date": 1 + NEAR_DAY}
    assert factors(turn(0, time="2023-06-08T00:00:00Z"), "on 8 May 2023") == {}
    assert factors(turn(0), "on 8 May 2023") == {}


def test_a_time_told_answers_when() -> None:
    assert factors(turn(0, text="I ran yesterday."), "When did she run?") == {"time": 1 + TIME_NAMED}
    assert factors(turn(0, text="I ran yesterday."), "Did she run?") == {}
    assert factors(turn(0, text="I ran."), "When did she run?") == {}


def test_a_question_answers_less_unless_the_user_asked_it() -> None:
    assert factors(turn(0, text="Do you run? "), "run") == {"question": 1 - BARE_QUESTION}
    assert factors(turn(0, text="Do you run?", role="prompt"), "run") == {}


def test_less_believed_memories_count_less_and_kinds_a_little_more() -> None:
    assert factors(memory(0, confidence=ONE), "x") == {}
    assert factors(memory(0, confidence=0), "x") == {"confidence": pytest.approx(0.8)}
    assert factors(memory(0, kind="preference"), "x") == {"kind": KIND_WEIGHTS["preference"]}


# --- the whole -------------------------------------------------------------------------------------------------------

CANDIDATES = st.lists(
    st.builds(
        ScoredText,
        key=st.integers(0, 12),
        corpus=st.sampled_from(("memory", "turn", "chunk")),
        text=st.sampled_from(("", "Ann: yes?", "User: I ran yesterday", "x" * 30, "\ud800", "?")) | st.text(max_size=9),
        position=st.integers(1, 20),
        row=st.integers(1, 99),
        bm25=st.floats(0, 1e6),
        cosine=st.none() | st.floats(-1, 1),
        group=st.sampled_from((None, "s", "t")),
        role=st.sampled_from(("", "prompt", "response")),
        whole=st.integers(0, 900),
        time=st.sampled_from(("", "odd", "2023-05-08T00:00:00.000000Z", "2023-06-01", "2026-01-01T00:00:00.000000Z")),
        kind=st.sampled_from(("", "preference", "user_profile", "env", "odd")),
        confidence=st.integers(0, ONE),
        words=st.sampled_from((0.0, 0.0, 1.0)) | st.floats(1e-6, 1e6),
    ),
    max_size=14,
)
QUESTIONS = st.sampled_from(("Ann?", "When did I run on 8 May?", "", "in June 2023", "?")) | st.text(max_size=20)


@given(CANDIDATES, QUESTIONS, st.lists(st.integers(0, 12), unique=True))
def test_every_score_is_finite_shown_in_its_signals_and_bounded(
    candidates: list[ScoredText], question: str, keys: list[int]
) -> None:
    found = by_score(candidates, read(question), {"s": sorted(keys), "t": keys})
    assert all(each.words == 0 for each in candidates if each not in found and each.cosine is None)
    for each in found:
        assert 0 < each.score < math.inf and all(map(math.isfinite, each.signals.values()))
        parts = sum(value for name, value in each.signals.items() if name not in (*FACTORS, "level"))
        product = math.prod(value for name, value in each.signals.items() if name in FACTORS)
        level = each.signals.get("level", 1.0)  # what takes the best turn back to its own words, and the others with it
        assert each.score == pytest.approx(parts * product * level) and 0 < level <= 1
        assert parts <= 1 + 1e-9 and LOW - 1e-9 <= product <= HIGH + 1e-9


@given(CANDIDATES, QUESTIONS, st.randoms())
def test_the_order_is_that_of_the_scores_then_the_newer_whatever_came_first(
    candidates: list[ScoredText], question: str, random: object
) -> None:
    for rank in (
        lambda some: by_score(some, read(question), {}),
        by_rank,
    ):
        found = rank(candidates)
        told = [(each.score, each.time, each.position, -each.key) for each in found]
        assert told == sorted(told, reverse=True)
        shuffled = list(candidates)
        random.shuffle(shuffled)  # type: ignore[attr-defined]
        again = [(each.position, each.key) for each in rank(shuffled)]
        if len({(each.position, each.key, each.bm25, each.cosine, each.words) for each in candidates}) == len(
            {(each.position, each.key) for each in candidates}
        ) == len(candidates) and not any(each.group for each in candidates):
            assert again == [(position, -key) for _, _, position, key in told]


def test_equal_scores_end_at_the_later_time_and_then_at_the_later_position() -> None:
    found = by_score([memory(3, 1.0), memory(1, 1.0, time="2026"), memory(2, 1.0)], read("x"), {})
    assert [each.position for each in found] == [1, 3, 2]


def test_words_alone_are_the_whole_score_and_the_best_has_one() -> None:
    some = [memory(0, 4.0), memory(1, 1.0)]
    found = by_score(some, read("x"), {})
    assert [each.score for each in found] == [1.0, 0.25]
    assert [each.signals for each in found] == [{"text": 1.0}, {"text": 0.25}]


def test_vectors_add_their_share_between_the_farthest_and_the_nearest() -> None:
    some = [memory(0, 4.0, cosine=0.5), memory(1, 2.0, cosine=0.1), memory(2, 0.0, cosine=0.9), memory(3, 1.0)]
    for each in some:
        each.signals = {"text": each.words}
    fuse(some)
    assert [each.score for each in some] == pytest.approx([0.6 + 0.2, 0.3, 0.4, 0.15])
    assert some[2].signals["vector"] == pytest.approx(VECTOR) and "vector" not in some[3].signals


def test_one_vector_or_equal_ones_are_the_nearest() -> None:
    some = [memory(0, 0.0, cosine=-0.3)]
    fuse(some)
    assert some[0].score == pytest.approx(VECTOR)


# --- a rule of the user's -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Always use bullet points for lists when I ask about formatting.",
        "User: Please always confirm the dates.",
        "And never guess.",
        "From now on, answer in French.",
        "Thanks! Going forward, no emojis.",
        "You should always name the source whenever I ask about prices.",
        "I'm new to this, and I prefer short steps.",
        "I\u2019d really prefer tea",
        "I'd rather walk.",
        "My preferred airline is KLM.",
        "In the future, always ask first.",
    ],
)
def test_what_holds_from_then_on_is_rule(text: str) -> None:
    assert is_rule(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I always wanted to see Porto.",
        "We never met when it rained.",
        "She prefers tea.",
        "Would you rather walk?",
        "It is rather cold.",
        "Is there a preferred way?",
        "Alwaysville is a town.",
    ],
)
def test_what_is_so_once_is_none(text: str) -> None:
    assert not is_rule(text)


def signals(each: ScoredText, question: str) -> dict[str, float]:
    each.score = 1.0
    boost(each, read(question))
    assert each.score == pytest.approx(math.prod(each.signals.values()))
    return each.signals


def test_a_rule_of_the_user_counts_more_for_what_is_asked_now() -> None:
    def rule(role: str) -> ScoredText:
        return turn(0, text="Always use bullet points when I ask about lists.", role=role)

    assert signals(rule("prompt"), "How is a list formatted?") == {"rule": 1 + RULE}
    assert signals(rule("response"), "How is a list formatted?") == {}, "an assistant's is none"
    for past in (
        "Which list did Ann format?",
        "Have they formatted a list?",
        "What was on the list?",
        "Lists they've made?",
        "What happened?",
    ):
        assert signals(rule("prompt"), past) == {}, "a rule is no answer to what was"


def test_a_rule_is_found_for_the_question_that_it_is_about(ledger: Ledger) -> None:
    for n in range(6):
        ledger.capture(
            f"Are sneaker materials number {n} any good?", f"Sneaker materials number {n} are fine.", session="s"
        )
    ledger.capture("Always mention sustainability when I ask about sneaker materials.", "I will.", session="s")
    question = "What sneaker materials should I look for?"
    first = ledger.recall(question, among=["turns"]).items[0]
    assert first.content.startswith("Always") and first.signals["rule"] == 1 + RULE


@pytest.mark.parametrize("day", ["08.05.2023", "05/08/2023", "2023/05/08"])
def test_a_turn_is_found_by_its_date_in_numbers(ledger: Ledger, day: str) -> None:
    for number in (8, 20):
        ledger.capture("We went to the lake.", "Nice.", occurred_at=f"2023-05-{number:02}T10:00:00Z")
    found = ledger.recall(f"What did we do on {day}?", among=["turns"]).items
    assert found[0].passage.occurred_at.startswith("2023-05-08") and found[0].signals["date"] == 2


# --- ranks -----------------------------------------------------------------------------------------------------------


def test_rubino_adds_three_of_sixty_and_the_rank_of_every_list_times_the_weight_of_the_kind() -> None:
    kinds = ("fact", "env", "preference", "user_profile", "odd")
    some = [memory(n, bm25=9.0 - n, cosine=n / 10, kind=kind) for n, kind in enumerate(kinds)]
    by_rank(some)
    weights = (1.0, 1.1, 1.2, 1.3, 1.0)
    for rank, each in enumerate(some, 1):
        assert each.score == (3.0 / (60 + rank) + 3.0 / (60 + 6 - rank)) * weights[rank - 1]
        assert each.signals["text"] == 3.0 / (60 + rank)
        assert each.signals.get("kind", 1.0) == weights[rank - 1]


def test_a_list_that_has_not_got_it_adds_nothing() -> None:
    some = [memory(0, bm25=1.0), memory(1, cosine=0.5), memory(2)]
    found = by_rank(some)
    assert [(each.key, each.score) for each in found] == [(1, 3 / 61), (0, 3 / 61)]


def test_of_equal_ranks_in_kind_the_newer_is_first() -> None:
    some = [memory(1, bm25=1.0), memory(2, bm25=1.0)]
    assert [each.key for each in by_rank(some)] == [2, 1]
    some = [memory(1, bm25=1.0, kind="preference"), memory(2, bm25=1.0)]
    assert [each.key for each in by_rank(some)] == [1, 2]
