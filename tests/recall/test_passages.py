"""Passages: where a text is cut, and that what was captured is searched by them for as long as it stands and no longer."""

from __future__ import annotations

import locale
import sqlite3
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import probe
import pytest
from commands import act
from conftest import Clock, folded_from_zero
from counting import steps
from full import full
from hypothesis import example, given
from hypothesis import strategies as st
from prefixes import prefix

from ledger import Ledger
from ledger.domain.passages import PASSAGE_CHARS, split
from ledger.english.dates import day_words
from ledger.types import Event
from projections.search import passages

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))
RARE = "Zanzibarquux lives at 12 Harbour Row."
TOKENS = (b"zanzibarquux", b"harbour row")
MONTHS, WEEKDAYS = "janfebmaraprmayjunjulaugsepoctnovdec", "montuewedthufrisatsun"
TEXTS = ANY_TEXT | st.text(alphabet="ab. \n!?\t'\u3002", max_size=300)


# --- where a text is cut ---------------------------------------------------------------------------------------------


@given(TEXTS, st.integers(2, 60))
@example("", 10)
@example("a" * 100, 10)
@example("\n" * 100, 10)
def test_the_passages_of_a_text_are_the_text(text: str, size: int) -> None:
    places = split(text, size)
    assert "".join(text[start:end] for start, end in places) == text
    assert [start for start, _ in places] == [0, *(end for _, end in places)][: len(places)]


@given(TEXTS, st.integers(2, 60))
def test_a_passage_has_at_most_its_size_and_at_least_half_of_it_unless_the_text_ends(text: str, size: int) -> None:
    sizes = [end - start for start, end in split(text, size)]
    assert all(1 <= each <= size for each in sizes)
    assert all(2 * each > size - 2 for each in sizes[:-1])


def test_a_short_text_is_one_passage_and_none_has_none() -> None:
    assert split("") == []
    assert split("x" * PASSAGE_CHARS) == [(0, PASSAGE_CHARS)]
    assert len(split("x" * (PASSAGE_CHARS + 1))) == 2


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("aaaaaa\n\nbb. cc dd ee", "aaaaaa\n\n"),  # a blank line, though a sentence ends later
        ("aaaaaa. bb cc dd ee ff", "aaaaaa. "),  # a sentence, though a word does
        ("aaaaaa? bb\ncc dd ee ff", "aaaaaa? bb\n"),
        ("aaaaaa bb cc dd ee ff", "aaaaaa bb "),  # a word
        ("a. bbbbbbbbbbbbbbbbbbb", "a. bbbbbbbbb"),  # nothing in the second half
        ("aaaaaa.) bbbbbbbbbbbbb", "aaaaaa.) "),
    ],
)
def test_a_text_is_cut_at_the_best_place_there_is(text: str, first: str) -> None:
    (start, end), *_ = split(text, 12)
    assert text[start:end] == first


@pytest.mark.parametrize("unit", ["\n", " ", ".", "\n ", ". ", "a", "!)]'\"", "\n\t \n.", "茶", "\u3000"])
def test_a_long_text_is_cut_in_one_go(unit: str) -> None:
    def took(chars: int) -> int:
        text = (unit * chars)[:chars]
        return steps(lambda: split(text))

    assert took(500_000) <= 11 * took(50_000)


def test_no_text_that_may_be_captured_has_more_passages_than_have_a_number() -> None:
    assert len(split(("x" * (PASSAGE_CHARS // 2 + 1) + "\n\n") * 26_000)) < 1 << passages.NUMBER_BITS
    assert 10 * 1024 * 1024 // (PASSAGE_CHARS // 2) < 1 << passages.NUMBER_BITS


# --- what a day is called --------------------------------------------------------------------------------------------


def test_a_day_is_called_what_people_ask_for() -> None:
    assert day_words("2023-05-08T10:00:00.000000Z") == "2023 may 8 monday"
    assert day_words("nonsense") == day_words("") == day_words("2023-13-01") == ""


@given(st.dates(min_value=date(1000, 1, 1)))
def test_a_day_is_called_the_same_wherever_the_ledger_is_folded(day: date) -> None:
    year, month, number, weekday = day_words(day.isoformat()).split()
    assert (int(year), int(number)) == (day.year, day.day)
    assert month[:3] == MONTHS[3 * day.month - 3 : 3 * day.month]
    assert weekday[:3] == WEEKDAYS[3 * day.weekday() :][:3]


def test_a_day_is_not_called_by_the_language_of_the_process() -> None:
    told = [day_words((date(2024, 1, 1) + timedelta(31 * month)).isoformat()) for month in range(12)]
    before = locale.setlocale(locale.LC_TIME)
    for name in ("de_DE.UTF-8", "fr_FR.UTF-8", "C"):
        try:
            locale.setlocale(locale.LC_TIME, name)
        except locale.Error:
            continue
        try:
            assert [day_words((date(2024, 1, 1) + timedelta(31 * month)).isoformat()) for month in range(12)] == told
        finally:
            locale.setlocale(locale.LC_TIME, before)


# --- the passages of what was captured -------------------------------------------------------------------------------


def found(ledger: Any, query: str, **asked: Any) -> list[tuple[str, str, str | None]]:
    pack = ledger.recall(query, among=("turns",), **asked)
    return [(item.id, item.passage.field, item.content) for item in pack.items]


def test_a_captured_prompt_and_its_response_are_found_each(ledger: Ledger) -> None:
    turn = ledger.bind(user="ann").capture("Which coffee?", "Dark roast.", session="s", project="Home", reinforce=False)
    assert found(ledger.bind(user="ann"), "coffee")[0] == (turn.id, "prompt", "Which coffee?")
    assert found(ledger.bind(user="ann"), "roast")[0] == (turn.id, "response", "Dark roast.")
    (passage, *_) = (item.passage for item in ledger.bind(user="ann").recall("roast", among=("turns",)).items)
    assert passage is not None
    assert (passage.start, passage.end, passage.position) == (0, 11, turn.position)
    assert (passage.user, passage.project, passage.session) == ("ann", "Home", "s")
    assert passage.occurred_at == turn.occurred_at and passage.document is None


def test_turns_are_searched_where_they_are_asked_for_only(ledger: Ledger) -> None:
    ledger.capture("Which coffee?")
    assert ledger.recall("coffee").items == () and ledger.recall("coffee").searched == 0
    assert len(ledger.recall("coffee", among=("memories", "chunks", "turns")).items) == 1


def test_a_response_that_came_later_is_found_from_then_on(ledger: Ledger) -> None:
    turn = ledger.capture("Which coffee?", session="s", reinforce=False)
    assert ledger.recall("roast", among=("turns",)).items == ()
    after = ledger.interactions.add_response(turn.id, "Dark roast.")
    assert found(ledger, "roast")[0] == (turn.id, "response", "Dark roast.")
    assert ledger.recall("roast", among=("turns",)).items[0].passage.position == after.position  # type: ignore[union-attr]
    assert ledger.recall("roast", among=("turns",)).searched == 2
    ledger.undo(after.position)
    assert found(ledger, "roast") == [] and len(found(ledger, "coffee")) == 1
    ledger.redo(after.position)
    assert found(ledger, "roast")[0] == (turn.id, "response", "Dark roast.")


def test_a_long_text_is_found_by_its_best_passage(ledger: Ledger) -> None:
    text = "Nothing of note here. " * 100 + "Then came the zebra. " + "And nothing more. " * 100
    turn = ledger.capture(text, "Indeed.")
    (item,) = ledger.recall("zebra", among=("turns",)).items
    assert item.passage is not None and item.content is not None
    assert "zebra" in item.content and len(item.content) <= PASSAGE_CHARS
    assert text[item.passage.start : item.passage.end] == item.content
    assert ledger.recall("zebra", among=("turns",)).searched == 2, "texts are counted, not passages"
    assert [item.id for item in ledger.recall("nothing", among=("turns",)).items] == [turn.id], "a text counts once"


def test_a_text_that_begins_with_passages_of_blanks_is_one_text(ledger: Ledger) -> None:
    ledger.capture(" " * 2_000 + "the zebra")
    pack = ledger.recall("zebra", among=("turns",))
    assert (len(pack.items), pack.searched) == (1, 1)


def test_undo_redo_and_distrust_take_a_capture_out_of_the_search_and_back(ledger: Ledger) -> None:
    turn = ledger.bind(actor="eve").capture("Which coffee?", "Dark roast.", reinforce=False)
    ledger.undo(turn.position)
    assert found(ledger, "coffee roast") == [] and ledger.recall("roast", among=("turns",)).searched == 0
    ledger.redo(turn.position)
    assert len(found(ledger, "coffee roast")) == 2
    ledger.history.distrust("eve", kind="actor")
    assert found(ledger, "coffee roast") == []
    ledger.history.trust("eve", kind="actor")
    assert len(found(ledger, "coffee roast")) == 2


def test_a_moment_searches_the_passages_of_then(ledger: Ledger) -> None:
    turn = ledger.bind(actor="eve").capture("Which coffee?", reinforce=False)
    answered = ledger.interactions.add_response(turn.id, "Dark roast.").position
    gone = ledger.undo(turn.position, cascade=True).position
    assert found(ledger, "coffee roast") == []
    assert [field for _, field, _ in found(ledger.at(turn.position), "coffee roast")] == ["prompt"]
    assert {field for _, field, _ in found(ledger.at(answered), "coffee roast")} == {"prompt", "response"}
    assert found(ledger.at(gone), "coffee roast") == []
    ledger.redo(gone)
    assert {field for _, field, _ in found(ledger.at(answered), "coffee roast")} == {"prompt", "response"}
    assert found(ledger.at(gone), "coffee roast") == []


@pytest.mark.slow
def test_every_moment_finds_the_turns_of_a_ledger_made_of_the_log_up_to_there(ledger: Ledger, clock: Clock) -> None:
    acts = (
        "capture",
        "capture",
        "attach",
        "undo",
        "capture",
        "redo",
        "recall",
        "distrust",
        "trust",
        "extract",
        "undo",
        "attach",
    )
    for number, action in enumerate(acts * 2):
        act(ledger, clock, action, "Ann drinks green tea.", 7 * number + 1, "")
    words = ("what", "coffee porto", "tea green decision")
    for position in range(2, ledger.position + 1, 3):
        moment = ledger.at(position)
        with prefix(ledger, position, moment.as_of) as made:
            for word in words:
                for asked in ({}, {"project": "Home"}):
                    then, now = (
                        each.recall(word, among=("turns",), limit=500, **asked)  # type: ignore[arg-type]
                        for each in (moment, made)
                    )
                    assert then.searched == now.searched
                    assert sorted((item.id, full(item.passage)) for item in then.items) == sorted(
                        (item.id, full(item.passage)) for item in now.items
                    )


def test_a_text_beside_the_log_and_one_with_nul_are_found(ledger: Ledger) -> None:
    turn = ledger.capture("The tin. " * 40_000 + "The zebra.", "nul\0 between zebras\0")
    fields = {item.passage.field: item for item in ledger.recall("zebra", among=("turns",)).items if item.passage}
    assert fields["response"].content == "nul\0 between zebras\0"
    text = fields["prompt"].content
    assert text is not None and text.endswith("The zebra.") and fields["prompt"].id == turn.id


def test_a_rebuild_has_the_passages_that_catching_up_has(ledger: Ledger) -> None:
    for number in range(3):
        turn = ledger.capture(f"Which coffee {number}?", "Dark. " * (300 * number), session="s", reinforce=False)
    ledger.undo(turn.position)
    before = [(item.id, item.score, item.content) for item in ledger.recall("coffee dark", among=("turns",)).items]
    digest = ledger.proof.digest()
    assert probe.rebuild(ledger).digest == digest == folded_from_zero(ledger)
    after = [(item.id, item.score, item.content) for item in ledger.recall("coffee dark", among=("turns",)).items]
    assert before == after != []


# --- the passages of what was ingested -------------------------------------------------------------------------------

GUIDE = "# Kubernetes\n\nIt runs containers.\n\n## Upgrade\n\nDrain every node first.\n\n# Bicycles\n\nDrain the oil first.\n"


def test_a_chunk_is_found_by_the_headings_above_it(ledger: Ledger) -> None:
    guide = ledger.documents.add(GUIDE)
    for query in ("how do I drain in kubernetes?", "Kubernetes upgrade"):
        (first, *others) = ledger.recall(query).items
        assert (first.id, first.content) == (guide.chunks[1].id, "## Upgrade\n\nDrain every node first.\n\n"), query
        assert first.score > others[0].score
    assert {item.id for item in ledger.recall("kubernetes").items} == {each.id for each in guide.chunks[:2]}
    assert ledger.recall("containers").items[0].content == "# Kubernetes\n\nIt runs containers.\n\n"


def test_every_passage_of_a_long_chunk_is_found_by_its_headings(ledger: Ledger) -> None:
    ledger.documents.add(
        "# Bicycles\n\nThe zebra drains.\n\n# Kubernetes\n\n" + "Nothing of note here. " * 45 + "The zebra drains."
    )
    first, other = ledger.recall("kubernetes zebra").items
    assert first.passage is not None and first.passage.start > 0 and first.passage.heading_path == ("Kubernetes",)
    assert first.content is not None and first.content.endswith("The zebra drains.") and first.score > other.score


def test_a_heading_in_a_script_without_spaces_is_found(ledger: Ledger) -> None:
    guide = ledger.documents.add("# 日本のお茶\n\n## Water\n\nIt is soft.\n\n## Überblick 🥰\n\nIt is green.\n")
    assert {item.id for item in ledger.recall("お茶").items} == {each.id for each in guide.chunks}
    assert ledger.recall("uberblick green").items[0].id == guide.chunks[1].id


def test_a_moment_finds_a_chunk_by_the_headings_of_then(ledger: Ledger) -> None:
    guide = ledger.documents.add(GUIDE, path="guide.md")
    ledger.documents.add(GUIDE.replace("Kubernetes", "Nomad"), path="guide.md")
    assert ledger.recall("kubernetes").items == () and len(ledger.recall("nomad").items) == 2
    then = ledger.at(guide.position)
    assert {item.id for item in then.recall("kubernetes").items} == {each.id for each in guide.chunks[:2]}
    assert then.recall("nomad").items == () and ledger.proof.digest() == folded_from_zero(ledger)


@pytest.mark.parametrize("taken_in", [False, True], ids=["waiting", "in the index"])
def test_an_erased_heading_leaves_nothing_in_the_files(tmp_path: Path, taken_in: bool) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        ledger.documents.add("# Jars\n\nBeside the tin.\n")
        guide = ledger.documents.add(f"# {RARE}\n\nWords.\n\n## Deeper\n\nAnd more words.\n", title="Guide")
        if taken_in:
            assert len(ledger.recall("harbour", receipt=True).items) == 2
        assert remains(tmp_path)
        assert ledger.erase(guide.id).hits == 0
        assert ledger.recall("harbour").items == () == ledger.at(guide.position).recall("harbour").items
        assert ledger.recall("jars").items and ledger.proof.digest() == folded_from_zero(ledger)
    assert remains(tmp_path) == []


# --- nothing is left -------------------------------------------------------------------------------------------------


def remains(directory: Path) -> list[tuple[str, bytes]]:
    """Which of the rare tokens the files of a closed ledger hold, in any case and in some encodings."""
    hits = []
    for path in sorted(directory.iterdir()):
        data = path.read_bytes().lower()
        for token in TOKENS:
            forms = (token, token.hex().encode(), token.decode().encode("utf-16-le"))
            hits += [(path.name, form) for form in forms if form in data]
    return hits


@pytest.mark.slow
@pytest.mark.parametrize("ended", [False, True], ids=["standing", "once undone"])
@pytest.mark.parametrize("size", [1, 9_000], ids=["short", "beside the log"])
@pytest.mark.parametrize("taken_in", [False, True], ids=["waiting", "in the index"])
def test_an_erased_turn_leaves_nothing_in_the_files(tmp_path: Path, ended: bool, size: int, taken_in: bool) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        for number in range(100):
            ledger.capture(f"Is the jar {number} beside the tin?", session="s")
        turn = ledger.capture(RARE * size, "So " + RARE, session="s", reinforce=False)
        ledger.capture("And then?", session="s")
        if taken_in:
            assert ledger.recall("harbour", among=("turns",), receipt=True).items
        if ended:
            ledger.undo(turn.position)
            ledger.redo(turn.position)
        assert remains(tmp_path)
        report = ledger.erase(turn.id)
        assert (report.state, report.hits) == ("completed", 0)
        assert ledger.recall("harbour", among=("turns",)).items == ()
        assert ledger.at(turn.position).recall("harbour", among=("turns",)).items == ()
        assert ledger.recall("jar", among=("turns",)).items
        assert ledger.proof.digest() == folded_from_zero(ledger)
    assert remains(tmp_path) == []


def test_of_a_turn_erased_in_part_the_rest_is_found(ledger: Ledger) -> None:
    turn = ledger.capture("The zebra lives at Harbour Row.")
    ledger.recall("zebra", among=("turns",))
    ledger.erase(Event(turn.position, spans=[("data.prompt", 19, 30)]))
    assert found(ledger, "harbour") == []
    assert [text for _, _, text in found(ledger, "zebra")] == ["The zebra lives at " + "█" * 11 + "."]


@pytest.mark.slow
def test_the_index_holds_what_the_passages_say(tmp_path: Path, clock: Clock) -> None:
    """Taking a text out of the index needs the very words that went in; what differs would stay for ever."""
    path = tmp_path / "memory.db"
    with Ledger.open(path, clock=clock) as ledger:
        turns = [ledger.capture(f"Чай, 茶 und Öl {n} 🥰\0", "ﬁne" * n, session="s", reinforce=False) for n in range(70)]
        ledger.recall("tea", among=("turns",))
        for turn in turns:
            ledger.undo(turn.position)
        ledger.recall("tea", among=("turns",))
    connection = sqlite3.connect(path)
    connection.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, passage_search, row)")
    assert connection.execute("SELECT * FROM terms").fetchall() == []
    connection.close()


def test_of_a_long_session_the_turns_around_are_found_by_an_index_now_and_then(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages, "WHOLE_SESSION", 5)
    told = [ledger.capture(f"turn {number}. " * 100, session="s", reinforce=False) for number in range(12)]
    then = ledger.at(ledger.position)
    turns = [each.position << passages.FIELD_BITS for each in told]
    ledger.undo(told[6].position)
    for door, there in ((ledger, [*turns[:6], *turns[7:]]), (then, turns)):
        with probe.inside(door).connection() as connection:
            ((key,),) = connection.execute("SELECT DISTINCT session FROM passages")
            assert passages.turns_around(connection, key, turns[5:6]) == there[2:9]
            assert passages.turns_around(connection, key, turns[:1]) == there[:4]
            for sql in (passages._BEFORE, passages._AFTER):
                plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", (key, 1))]
                assert not any("CO-ROUTINE" in step or "TEMP B-TREE" in step for step in plan), plan
