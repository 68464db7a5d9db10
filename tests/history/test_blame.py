"""Whose words they are: each word of a belief has the event that it came with, through revisions, successors and merges."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from command_line import run
from commands import TEXTS
from conftest import Clock
from hypothesis import given, settings
from hypothesis import strategies as st
from places import QUICK

from ledger import Ledger, LedgerError, NotFoundError, answers
from ledger.history import blaming
from ledger.history.blaming import reworded, split
from ledger.types import Event

KEEP = {"derived": "keep", "sources": "keep", "quotes": "keep"}


@pytest.fixture
def ledger(tmp_path: Path):
    with Ledger.open(tmp_path / "memory.db", actor="ann") as opened:
        yield opened


def shown(found: answers.Blame) -> list[tuple[str, int]]:
    return [(each.text, each.event.position) for each in found.words]


def test_a_word_is_from_the_event_that_brought_it_and_stays_with_that(ledger: Ledger) -> None:
    first = ledger.remember("The office is in Porto since May.", confidence=0.5)
    second = ledger.bind(actor="bob").revise(first.id, "The office is in Lisbon since May.", reason="they moved")
    third = ledger.revise(first.id, "The new office is in Lisbon since May 2026.")
    ledger.reinforce(first.id, amount=0.1)
    found = ledger.history.blame(first.id)
    a, b, c = first.position, second.position, third.position
    assert shown(found) == [
        ("The ", a), ("new ", c), ("office is in ", a), ("Lisbon ", b), ("since May ", a), ("2026", c), (".", a),
    ]  # fmt: skip
    assert "".join(each.text for each in found.words) == found.content
    lisbon = found.words[3].event
    assert (lisbon.actor, lisbon.reason, lisbon.type) == ("bob", "they moved", "MemoryRevised")
    assert [(each.delta, each.confidence, each.event.command) for each in found.confidence] == [
        (0.5, 0.5, "remember"), (0.1, 0.6, "reinforce"),
    ]  # fmt: skip
    then = ledger.at(second.position).history.blame(first.id)
    assert shown(then) == [("The office is in ", a), ("Lisbon ", b), ("since May.", a)] and len(then.confidence) == 1


def test_blame_ascribes_no_word_to_an_undone_event(ledger: Ledger) -> None:
    first = ledger.remember("The office is in Porto.")
    second = ledger.revise(first.id, "The office is in Lisbon.")
    ledger.undo(second.position)
    assert shown(ledger.history.blame(first.id)) == [("The office is in Porto.", first.position)]
    ledger.undo(first.position, cascade=True)
    gone = ledger.history.blame(first.id)
    assert (gone.content, gone.words, gone.confidence[-1].confidence) == (None, (), 0)


def test_a_successor_and_a_merged_memory_have_the_words_of_what_they_replaced(ledger: Ledger) -> None:
    rome = ledger.remember("Ada lives in Rome with two cats.")
    porto = ledger.supersede(rome.id, "Ada lives in Porto with two cats.")
    assert shown(ledger.history.blame(porto.id)) == [
        ("Ada lives in ", rome.position), ("Porto ", porto.position), ("with two cats.", rome.position),
    ]  # fmt: skip
    one = ledger.remember("Ben sails on Sundays in summer.")
    other = ledger.remember("Ben sails on Sundays with his boat.")
    merged = ledger.merges.combine([one.id, other.id], content="Ben sails on Sundays in summer with his red boat.")
    made = ledger.history.blame(merged.id)
    words = dict(shown(made))
    assert words["with his "] == other.position and words["red "] > other.position
    assert {each.event.subject for each in made.words} >= {one.id, other.id}


def test_blame_shows_no_word_of_an_erased_memory_or_wording(ledger: Ledger, tmp_path: Path) -> None:
    first = ledger.remember("The safe opens with 4711 at night.")
    second = ledger.revise(first.id, "The safe opens with a key at night.")
    ledger.erase(Event(first.position), **KEEP)
    found = ledger.history.blame(first.id)
    if found.content is not None:
        assert found.erased == (first.position,) and shown(found) == [(found.content, second.position)]
    ledger.erase(first.id, **KEEP)
    gone = ledger.history.blame(first.id)
    assert (gone.content, gone.words, gone.erased) == (None, (), (first.position, second.position))
    assert "4711" not in repr(gone.to_dict()) and "(erased)" in run(
        "history", "blame", first.id, "--db", str(tmp_path / "memory.db")
    ).stdout  # fmt: skip


def test_an_observation_has_its_wordings_and_no_steps(ledger: Ledger) -> None:
    source = ledger.remember("Ada lives in Rome.")
    seen = ledger.observations.add("Ada lives in Italy.", sources=[source.id])
    ledger.revise(seen.id, "Ada lives in southern Italy.")
    found = ledger.history.blame(seen.id)
    assert [each.text for each in found.words] == ["Ada lives in ", "southern ", "Italy."] and found.confidence == ()
    for wrong in ("m_zzzzzzzz", "nothing", "", "i_12345678"):
        with pytest.raises(NotFoundError):
            ledger.history.blame(wrong)
    with pytest.raises(NotFoundError):
        ledger.bind(user="ben").history.blame(seen.id)


def test_the_shell_prints_blame_in_the_form_of_git(ledger: Ledger, tmp_path: Path) -> None:
    first = ledger.remember("The office is in Porto.")
    ledger.revise(first.id, "The office is in Lisbon.", reason="they moved")
    done = run("history", "blame", first.id[:8], "--db", str(tmp_path / "memory.db"))
    assert (
        done.exit_code == 0
        and "Lisbon" in done.stdout
        and "they moved" in done.stdout
        and "revise by ann" in done.stdout
    )
    assert "Confidence" in done.stdout and "MemoryCaptured" in done.stdout


WORDS = (
    "Ada",
    "lives",
    "in",
    "Rome.",
    "e\u0301te\u0301",
    "東京に住む",
    "\U0001f469\u200d\U0001f467",
    "\u00a0",
    "\n",
    "नमस्ते",
)
texts = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
)


@given(st.lists(texts, min_size=1, max_size=5))
@settings(deadline=None, max_examples=200)
def test_the_words_are_the_text_whatever_it_is(versions: list[str]) -> None:
    found: list[tuple[str, int]] = []
    for number, text in enumerate(versions):
        assert "".join(split(text)) == text
        before, found = found, reworded([found], text, number)
        assert "".join(word for word, _ in found) == text
        known = [word.strip() for word, _ in before]
        for word, position in found:
            assert position == number or word.strip() in known
    again = reworded([found], versions[-1], 99)
    assert again == found, "the same text again takes nothing over"


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(("remember", "revise", "supersede", "undo", "erase", "reinforce", "absorb")),
                          st.sampled_from(TEXTS), st.integers(0, 99)), min_size=3, max_size=14))  # fmt: skip
@settings(deadline=None)
def test_blame_accounts_for_every_word_and_every_step_of_confidence(acts: list[tuple[str, str, int]]) -> None:
    with tempfile.TemporaryDirectory(dir=QUICK) as folder, Ledger.open(f"{folder}/memory.db", clock=Clock()) as ledger:
        for act, text, number in acts:
            found = ledger.memories.list(statuses=())
            id = found[number % len(found)].id if found else ""
            calls = {
                "remember": lambda text=text, number=number: ledger.remember(f"{text} {number % 3}", confidence=0.3),
                "absorb": lambda text=text: ledger.remember(text),
                "revise": lambda id=id, number=number, text=text: ledger.revise(id, f"Truly {number % 4}: {text}"),
                "supersede": lambda id=id, number=number: ledger.supersede(id, f"{TEXTS[0]} {number}"),
                "undo": lambda number=number: ledger.undo(1 + number % ledger.position, cascade=True),
                "erase": lambda id=id: ledger.erase(id, **KEEP),
                "reinforce": lambda id=id: ledger.reinforce(id),
            }
            try:
                calls[act]()
            except LedgerError:
                continue
        for place in {ledger.position, 1 + ledger.position // 2}:
            past = ledger.at(place)
            for memory in past.memories.list(statuses=()).all():
                blamed = past.history.blame(memory.id)
                assert blamed.content == memory.content
                assert "".join(each.text for each in blamed.words) == (memory.content or "")
                assert all(
                    (each.end - each.start, each.event.position <= place) == (len(each.text), True)
                    for each in blamed.words
                )
                if memory.status != "erased":
                    assert blamed.confidence[-1].confidence == memory.confidence


def test_blame_compares_only_the_last_wordings(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blaming, "WORDINGS", 3)
    first = ledger.remember("zero one two")
    for number, text in enumerate(("zero one two three", "zero one two three four", "zero one two three four five")):
        last = ledger.revise(first.id, text).position - 2 + number
    assert last > first.position
    words = ledger.history.blame(first.id).words
    assert [each.text for each in words] == ["zero one two three ", "four ", "five"]
    assert words[0].event.position == first.position + 1
