"""The order of what recall gives: of two statements that say nearly the same the newer first, and a floor of match."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import run
from conftest import Clock
from embedder import Words
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from ledger import Ledger
from ledger.english.question import read
from ledger.english.words import stem
from ledger.recall.finding import RecallHit
from ledger.recall.ordering import PART, floored, newer_first
from ledger.recall.packs import Pack
from projections.search.ranking import ScoredText

LINES = (ROOT / "tests/corpus/update_pairs.jsonl").read_text(encoding="utf-8").splitlines()
PAIRS = [pair for pair in map(json.loads, LINES) if pair["half"] == "seen"]
GYM = "Is it 40 euros a month that the gym costs?"
FORTY, FORTY_FIVE = "The gym costs 40 euros a month.", "The gym costs 45 euros a month."


def texts(pack: Pack) -> list[str | None]:
    return [item.content for item in pack.items]


@pytest.fixture
def book(tmp_path: Path, clock: Clock) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ana", clock=clock) as ledger:
        yield ledger


# --- the newer first -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "question"),
    [
        (FORTY, FORTY_FIVE, GYM),
        ("Ana's dentist is Dr. Lee.", "Ana's dentist is Dr. Okafor.", "Is Dr. Lee the dentist of Ana?"),
        ("The deadline is May 10.", "The deadline was extended to May 20.", "Is the deadline May 10?"),
        ("Mon loyer est de 720 euros.", "Mon loyer est de 765 euros.", "Mon loyer est de 720 euros ?"),
        ("Ana lives alone in Lisbon.", "Ana lives with Ben in Porto.", "Does Ana live in Lisbon?"),
    ],
    ids=["another price", "another name", "another date", "another language", "other words"],
)
def test_of_two_statements_that_say_nearly_the_same_the_newer_comes_first(
    book: Ledger, clock: Clock, old: str, new: str, question: str
) -> None:
    book.remember(old)
    assert texts(book.recall(question)) == [old]
    clock.advance(days=30)
    book.remember(new)
    book.remember("The flat of Ana has a balcony.")
    pack = book.recall(question)
    assert texts(pack)[:2] == [new, old]
    newer, older = pack.items[:2]
    assert newer.score == older.score
    assert newer.signals["newer"] > 1
    assert "newer" not in older.signals


@pytest.mark.parametrize(
    ("one", "other", "question"),
    [
        ("Ana plays the violin in Rome.", "Ana has a red bike and two cats.", "Does Ana play the violin?"),
        ("Ana's sister is called Ines.", "The rent is due on Friday.", "Is Ines the sister of Ana?"),
        (f"{FORTY} {'It has a pool. ' * 20}", FORTY_FIVE, f"{GYM} Has it a pool?"),
    ],
    ids=["another thing", "nothing in common", "a longer text"],
)
def test_what_says_something_else_stays_in_the_order_of_scores(
    book: Ledger, clock: Clock, one: str, other: str, question: str
) -> None:
    one = one.strip()
    book.remember(one)
    clock.advance(days=30)
    book.remember(other)
    assert texts(book.recall(question))[0] == one


def test_the_newer_one_needs_a_part_of_the_score_of_the_older_one(book: Ledger, clock: Clock) -> None:
    asked = "Which strings and which bow does the violin of Ana in Rome have?"
    old = "The violin of Ana has gut strings and a heavy bow in Rome."
    book.remember(old)
    clock.advance(days=1)
    new = book.remember("Ana sold the violin.")
    pack = book.recall(asked)
    assert texts(pack) == [old, new.content] and pack.items[1].score < PART * pack.items[0].score


def test_a_day_of_updates_reads_newest_first_and_the_past_as_it_was(book: Ledger, clock: Clock) -> None:
    weights = [f"The puppy of Ana weighs {kilos} kg." for kilos in (9, 12, 17)]
    for text in weights:
        book.remember(text)
        clock.advance(days=30)
    then = book.position
    asked = "Does the puppy of Ana weigh 9 kg?"
    newest_first = list(reversed(weights))
    assert texts(book.recall(asked)) == newest_first
    assert [item.content for item in book.context(asked).items] == newest_first
    book.remember("The puppy of Ana weighs 21 kg.")
    assert texts(book.at(then).recall(asked)) == newest_first
    assert texts(book.recall(asked))[0] == "The puppy of Ana weighs 21 kg."


def test_newer_is_what_holds_since_later_whenever_it_was_recorded(book: Ledger) -> None:
    book.remember(FORTY_FIVE, valid_from="2026-01-01")
    book.remember(FORTY, valid_from="2025-01-01")
    assert texts(book.recall(GYM)) == [FORTY_FIVE, FORTY]


def test_what_is_said_again_is_the_newer_and_before_it_too(book: Ledger, clock: Clock) -> None:
    for gym in (FORTY, FORTY_FIVE, FORTY):
        clock.advance(days=1)
        book.remember(gym)
    assert texts(book.recall(GYM)) == [FORTY, FORTY_FIVE]
    assert book.recall(GYM).items[0].memory.stated_at == clock().isoformat(timespec="microseconds")[:26] + "Z"
    assert texts(book.at(book.position - 1).recall(GYM)) == [FORTY_FIVE, FORTY]
    book.undo(book.position)
    assert texts(book.recall(GYM)) == [FORTY_FIVE, FORTY]


def test_what_is_remembered_of_a_time_holds_since_then(book: Ledger, clock: Clock) -> None:
    book.remember(FORTY_FIVE)
    assert book.remember(FORTY, occurred_at="2024-01-01T00:00:00Z").valid_from.startswith("2024-01-01")
    assert texts(book.recall(GYM)) == [FORTY_FIVE, FORTY]


def test_what_is_said_to_happen_later_holds_from_now_on(book: Ledger) -> None:
    told = book.remember(FORTY, occurred_at="2999-01-01T00:00:00Z")
    assert told.valid_from == told.recorded_at
    then = book.supersede(told.id, FORTY_FIVE, occurred_at="2024-01-01T00:00:00Z")
    assert then.valid_from.startswith("2024-01-01")


def test_a_project_and_what_is_of_none_are_told_apart(book: Ledger, clock: Clock) -> None:
    book.remember(FORTY)
    clock.advance(days=1)
    book.remember(FORTY_FIVE, project="other")
    assert texts(book.recall(GYM)) == [FORTY, FORTY_FIVE]


def test_a_turn_stays_where_its_score_puts_it(book: Ledger, clock: Clock) -> None:
    for text in (FORTY, FORTY_FIVE):
        book.capture(text, session=text)
        clock.advance(days=1)
    assert texts(book.recall(GYM, among=["turns"])) == [FORTY, FORTY_FIVE]


def test_the_ranking_of_another_product_keeps_its_order(book: Ledger, clock: Clock) -> None:
    for text in (FORTY, FORTY_FIVE):
        book.remember(text)
        clock.advance(days=1)
    found = book.recall(GYM, ranking="rubino/1")
    assert texts(found) == [FORTY, FORTY_FIVE] and not any("newer" in each.signals for each in found.items)


def test_the_order_of_a_moment_is_of_what_was_known_then(book: Ledger, clock: Clock) -> None:
    book.remember(FORTY)
    before = book.position
    clock.advance(days=1)
    new = book.remember(FORTY_FIVE)
    after = book.recall(GYM)
    clock.advance(days=1)
    book.retract(new.id, reason="a mistake")
    assert texts(book.recall(GYM)) == texts(book.at(before).recall(GYM)) == [FORTY]
    assert [(each.content, each.score) for each in book.at(new.position).recall(GYM).items] == [
        (each.content, each.score) for each in after.items
    ]


def test_a_receipt_reopens_in_the_order_that_was_delivered(book: Ledger, clock: Clock) -> None:
    for text in (FORTY, FORTY_FIVE):
        book.remember(text)
        clock.advance(days=1)
    pack = book.recall(GYM, receipt=True, explain=True)
    assert pack.receipt is not None
    assert book.reopen(pack.receipt).items == pack.items
    assert texts(book.recall(GYM, budget=40, unit="chars", packing="greedy")) == []
    assert texts(book.recall(GYM, limit=1)) == [FORTY_FIVE]


def test_a_newer_statement_on_somebody_else_stays_behind_the_one_that_is_asked_for(book: Ledger, clock: Clock) -> None:
    for name, gym in (("Gus Kovac", "amber cedar"), ("Hana Kovac", "amber cedar"), ("Ida Kovac", "blue fir")):
        book.remember(f"{name}'s gym is the {gym} one.")
        clock.advance(days=1)
    assert texts(book.recall("What is Gus Kovac's gym?"))[0] == "Gus Kovac's gym is the amber cedar one."
    assert texts(book.recall("Which is the gym of Hana Kovac?"))[0] == "Hana Kovac's gym is the amber cedar one."


@pytest.mark.parametrize(
    ("form", "question", "keys"),
    [
        ("The {} team meets in room {}.", "Where does the {} team meet?", "otter badger heron lynx marten"),
        ("The {} bin is emptied every {} days.", "How often is the {} bin emptied?", "red blue green brown grey"),
        (
            "The extension of the {} desk is {}.",
            "What is the extension of the {} desk?",
            "sales support travel billing news",
        ),
        ("Train {} leaves from platform {}.", "Which platform does train {} leave from?", "17 23 41 58 89"),
        (
            "De sleutel van de {} is nummer {}.",
            "Welk nummer heeft de sleutel van de {}?",
            "keuken kelder zolder schuur garage",
        ),
    ],
    ids=["teams", "colours", "words", "numbers", "another language"],
)
@pytest.mark.parametrize("is_question", [True, False], ids=["a question", "words alone"])
def test_facts_of_one_form_do_not_displace_each_other(
    book: Ledger, clock: Clock, form: str, question: str, keys: str, is_question: bool
) -> None:
    names = keys.split()
    with book.batch():  # so many other facts that the words of the form are rare
        for number in range(40):
            book.remember(f"Page {number} of the diary is about {names[number % 5]}.")
    for number, key in enumerate([*names, names[1]]):
        book.remember(form.format(key, number + 1))
        clock.advance(days=1)
    for number, key in enumerate(names):
        asked = question if is_question else form.replace("{}.", "").replace(" every {} days", "").replace(" the ", " ")
        newest = len(names) + 1 if key == names[1] else number + 1
        assert texts(book.recall(asked.format(key)))[0] == form.format(key, newest)


def test_an_update_of_a_fact_of_one_form_comes_first(book: Ledger, clock: Clock) -> None:
    for room in (4, 9):
        for team in ("otter", "heron"):
            book.remember(f"The {team} team meets in room {room}.")
            clock.advance(days=1)
    assert texts(book.recall("Where does the otter team meet?"))[:2] == [
        "The otter team meets in room 9.",
        "The otter team meets in room 4.",
    ]
    assert texts(book.recall("Does the otter team meet in room 4?"))[0] == "The otter team meets in room 9."


def test_a_budget_goes_to_the_newer_one(book: Ledger, clock: Clock) -> None:
    for text in (FORTY, FORTY_FIVE):
        book.remember(text)
        clock.advance(days=1)
    pack = book.recall(GYM, budget=60, unit="chars", explain=True)
    assert texts(pack) == [FORTY_FIVE]
    assert [(item.content, item.cut) for item in pack.cut] == [(FORTY, "budget")]


# --- laws ------------------------------------------------------------------------------------------------------------

CONTENTS = st.sampled_from(
    [row[side] for row in PAIRS[:8] for side in ("old", "new")]
    + ["Ada now lives in Rome.", "Ada lives in Lisbon now.", "Ben", "", "Ada"]
)
MEMORIES = st.lists(
    st.tuples(CONTENTS, st.floats(0.01, 1), st.sampled_from("abc"), st.sampled_from([None, "p"])), max_size=14
)


def ranked(rows: list[tuple[str, float, str, str | None]]) -> list[RecallHit]:
    order = sorted(enumerate(rows), key=lambda row: -row[1][1])
    return [
        RecallHit(
            ScoredText(key=at, corpus="memory", text=text, position=at, row=at, score=score, signals={"text": score}),
            memory=SimpleNamespace(
                row=at,
                content=text,
                edges=(),
                valid_from=since,
                valid_to=None,
                stated_at=None,
                status="active",
                project=project,
            ),  # type: ignore[arg-type]
        )
        for at, (text, score, since, project) in order
    ]


COSINES = st.dictionaries(
    st.tuples(st.integers(0, 13), st.integers(0, 13)).filter(lambda rows: rows[0] < rows[1]), st.floats(-1, 1)
)


@given(rows=MEMORIES, cosines=COSINES)
def test_each_is_moved_once_at_the_most_and_the_others_keep_their_order(rows: Any, cosines: Any) -> None:
    before = ranked(rows)
    scores = [each.candidate.score for each in before]
    after = newer_first(ranked(rows), 20, cosines)
    moved = [each for each in after if "newer" in each.candidate.signals]
    assert sorted(each.candidate.key for each in after) == sorted(each.candidate.key for each in before)
    assert [each.candidate.key for each in after if each not in moved] == [
        each.candidate.key for each in before if each.candidate.key not in {one.candidate.key for one in moved}
    ]
    by_key = {each.candidate.key: score for each, score in zip(before, scores, strict=True)}
    assert [each.candidate.score for each in after] == sorted((each.candidate.score for each in after), reverse=True)
    for each in after:
        assert each.candidate.score / each.candidate.signals.get("newer", 1) == pytest.approx(
            by_key[each.candidate.key]
        )


@given(rows=MEMORIES, cosines=COSINES, least=st.one_of(st.none(), st.floats(0, 1)))
def test_two_statements_never_hide_each_other(rows: Any, cosines: Any, least: float | None) -> None:
    before = ranked(rows)
    for each in before:
        each.candidate.share = each.candidate.score
    kept_before, _ = floored(before, least, 0.5)
    after = newer_first(before, 20, cosines)
    assert sorted(each.candidate.key for each in after) == sorted(each.candidate.key for each in before)
    kept, weak = floored(after, least, 0.5)
    assert {each.candidate.key for each in kept} >= {each.candidate.key for each in kept_before}
    assert len(kept) + len(weak) == len(before)


@given(rows=MEMORIES)
def test_the_same_candidates_give_the_same_order_and_a_second_pass_moves_nothing(rows: Any) -> None:
    once = newer_first(ranked(rows), 20, {})
    assert [each.candidate.key for each in once] == [each.candidate.key for each in newer_first(ranked(rows), 20, {})]
    if not any("newer" in each.candidate.signals for each in once):
        assert [each.candidate.key for each in once] == [each.candidate.key for each in ranked(rows)]


# --- the floor -------------------------------------------------------------------------------------------------------


def test_nothing_is_shown_that_matches_less_than_asked_for(book: Ledger) -> None:
    book.remember("Ana drinks green tea in the morning.")
    book.remember("The kettle is for tea.")
    question = "Which green tea does Ana drink in the morning?"
    matches = {item.content: item.match for item in book.recall(question).items}
    assert sorted(matches.values())[0] < 0.5 < sorted(matches.values())[1] == 1
    pack = book.recall(question, min_match=0.5, explain=True)
    assert texts(pack) == ["Ana drinks green tea in the morning."]
    assert [(item.content, item.cut, item.rank) for item in pack.cut] == [("The kettle is for tea.", "match", 2)]
    assert texts(book.recall("zebra", min_match=0.5)) == []
    assert book.recall(question, min_match=0.5).cut == ()
    assert book.recall("kettle and zebra", min_match=0.9, explain=True).nothing == "nothing found, 2 searched"


def test_a_floor_does_not_leave_the_older_one_alone(book: Ledger, clock: Clock) -> None:
    for text in (FORTY, FORTY_FIVE):
        book.remember(text)
        clock.advance(days=1)
    new, old = book.recall(GYM).items
    assert (new.content, new.match < 1, old.match) == (FORTY_FIVE, True, 1)
    assert texts(book.recall(GYM, min_match=1)) == [FORTY_FIVE, FORTY]
    assert texts(book.recall(f"{GYM} zebra", min_match=1)) == []


def test_with_vectors_the_newer_of_two_near_statements_comes_first(tmp_path: Path, clock: Clock) -> None:
    with Ledger.open(tmp_path / "memory.db", embedder=Words(), clock=clock) as ledger:
        for text in (FORTY, FORTY_FIVE):
            ledger.remember(text)
            clock.advance(days=1)
        ledger.vectors.update()
        pack = ledger.recall(GYM)
        assert texts(pack) == [FORTY_FIVE, FORTY] and pack.items[0].signals["newer"] > 1


def rows_in_order(contents: list[str], cosines: dict[tuple[int, int], float], asked: str = "") -> list[int]:
    """Return the rows of statements, of which each is older and better than the next, in the order of recall.

    The third and later ones are of another project, so that they are compared and never moved.
    """
    rows = enumerate(contents)
    order = ranked([(content, 1 - at / 10, "abcdef"[at], "p" if at > 1 else None) for at, content in rows])
    concepts = [frozenset(map(stem, forms)) for forms in read(asked).concepts]
    found = newer_first(order, 20, cosines, concepts)
    return [hit.memory.row for hit in found if hit.memory is not None]


def test_of_two_statements_with_common_stems_the_newer_is_moved_if_their_vectors_are_near() -> None:
    gyms = [FORTY, FORTY_FIVE, "Ana drinks tea."]
    assert rows_in_order(gyms, {(0, 1): 0.59, (1, 2): 0.65}) == [0, 1, 2]  # the newer one is nearer to the tea
    assert rows_in_order(gyms, {(0, 1): 0.6, (1, 2): 0.65}) == [1, 0, 2]


def test_the_newer_of_two_nearest_statements_is_moved_without_a_common_stem() -> None:
    homes = ["Ana lives in Lisbon.", "She has moved to Porto.", "Ana drinks tea."]
    assert rows_in_order(homes, {}) == [0, 1, 2]
    assert rows_in_order(homes, {(0, 1): 0.49}) == [0, 1, 2]
    assert rows_in_order(homes, {(0, 1): 0.5, (0, 2): 0.4, (1, 2): 0.3}) == [1, 0, 2]
    assert rows_in_order(homes, {(0, 1): 0.55, (1, 2): 0.7}) == [0, 1, 2]  # the newer one is nearer to the tea
    assert rows_in_order(homes, {(0, 1): 0.5}, "Where does Ana live?") == [0, 1, 2]  # the newer one lacks the name


def test_a_long_place_in_which_two_statements_differ_holds_no_key() -> None:
    homes = ["The user lives in Lisbon.", "The user has moved to Porto."]
    assert rows_in_order(homes, {(0, 1): 0.7}, "Where does the user live?") == [1, 0]
    desks = ["The extension of the sales desk is 12.", "The extension of the support desk is 14."]
    assert rows_in_order(desks, {(0, 1): 0.9}, "What is the extension of the sales desk?") == [0, 1]


def test_a_name_that_the_question_has_counts_as_it_is_rare(book: Ledger) -> None:
    for text in ("Deploys with Helm.", "Ana likes tea.", "Ana likes rye bread."):
        book.remember(text, entities=["Kubernetes"] if "Helm" in text else ["Ana"])
    question = "Which of the charts of Kubernetes should somebody look at before the release?"
    assert [item.match for item in book.recall(question).items] == [1.0]
    matches = {item.content: item.match for item in book.recall("Does Ana like rye bread?").items}
    assert matches["Ana likes tea."] < matches["Ana likes rye bread."] == 1


def test_with_vectors_what_matches_less_than_half_as_well_as_the_best_is_left_out(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    with Ledger.open(tmp_path / "memory.db", embedder=Words()) as ledger:
        for text in ("green tea every morning", "a train to Porto", "the office has a kettle"):
            ledger.remember(text)
        ledger.vectors.update()
        assert texts(ledger.recall("green tea morning")) == ["green tea every morning"]
        pack = ledger.recall("green tea morning", explain=True)
        assert [item.cut for item in pack.cut] == ["match"] * len(pack.cut)
        assert len(ledger.recall("green tea morning", min_match=0).items) == 1 + len(pack.cut) > 1


def test_by_default_a_turn_has_no_floor_for_its_neighbors_find_it(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", embedder=Words()) as ledger:
        ledger.capture("Which green tea does Ana drink?", "Sencha, as far as I know.", session="s")
        ledger.vectors.update()
        found = ledger.recall("Which green tea does Ana drink?", among=["turns"])
        assert "Sencha, as far as I know." in texts(found)
        assert len(ledger.recall("Which green tea does Ana drink?", among=["turns"], min_match=0.9).items) == 1


def test_the_command_line_takes_a_floor(book: Ledger) -> None:
    book.remember("Ana drinks green tea.")
    book.remember("The kettle is for tea.")
    options = ["--min-match", "0.9", "--db", book.path, "--user", "ana"]
    assert "kettle" not in run("recall", "green tea that Ana drinks", *options).stdout
