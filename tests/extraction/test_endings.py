"""What the rules learned of a user ends when the user says so, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledger import Ledger

SMOKES, STOPPED = "I smoke.", "I don't smoke any more."


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        yield ledger


def learned(ledger: Ledger, text: str) -> str:
    (memory,) = ledger.add(text, session="first").learned
    return memory.id


@pytest.mark.parametrize(
    ("said", "later", "status"),
    [
        (SMOKES, STOPPED, "retracted"),
        ("I work at Brandt", "i no longer work at Brandt", "retracted"),
        ("im learning japanese on duolingo every night", "gave up on the japanese, my streak died", "retracted"),
        ("i dont eat meat", "i've started eating meat again", "retracted"),
        ("I live in Gent.", "We moved to Liège.", "superseded"),
    ],
)
def test_a_denial_of_what_the_rules_learned_ends_it(ledger: Ledger, said: str, later: str, status: str) -> None:
    memory = learned(ledger, said)
    added = ledger.add(later, session="later")
    assert [each.id for each in added.changed] == [memory]
    assert ledger.memories.get(memory).status == status
    assert all(item.content != said for item in ledger.context("what about me?", budget=400).items)
    assert added.correlation_id is not None
    ledger.history.undo_all(correlation_id=added.correlation_id)
    assert ledger.memories.get(memory).status == "active"


def test_one_undo_of_the_command_that_learned_brings_it_back(ledger: Ledger) -> None:
    memory = learned(ledger, SMOKES)
    ledger.add(STOPPED, session="later")
    retraction = next(event for event in ledger.history.events(memory) if event.type == "MemoryRetracted")
    assert retraction.command == "session.extract"
    ledger.undo(retraction.position)
    assert ledger.memories.get(memory).status == "active"


@pytest.mark.parametrize(
    "later",
    ["He doesn't smoke any more.", "Don't I smoke any more?", "If I don't smoke any more, I get fat.", "I don't smoke today.",
     "My brother no longer smokes.", "She said I don't smoke any more", "> I don't smoke any more\nwho wrote that?",
     "I never smoke in bed.", "translate: I don't smoke any more", "I don't drink any more."],
)  # fmt: skip
def test_somebody_else_a_doubt_and_another_thing_end_nothing(ledger: Ledger, later: str) -> None:
    memory = learned(ledger, SMOKES)
    assert ledger.add(later, session="later").changed == ()
    assert ledger.memories.get(memory).status == "active"


@pytest.mark.parametrize(
    "later",
    [
        "We moved to Postgres from MySQL.",
        "I moved to Lyon in 2010.",
        "We moved to the new office.",
        "We moved to Gent.",
    ],
)
def test_what_is_no_move_of_the_home_ends_no_home(ledger: Ledger, later: str) -> None:
    memory = learned(ledger, "I live in Gent.")
    assert ledger.add(later, session="later").changed == ()
    assert ledger.memories.get(memory).status == "active"


@pytest.mark.parametrize(
    "decide",
    [
        lambda ledger, id: ledger.reinforce(id),
        lambda ledger, id: ledger.revise(id, "The user does smoke."),
    ],
    ids=["reinforced", "revised"],
)
def test_what_a_person_acted_on_stays(ledger: Ledger, decide: Callable[[Ledger, str], object]) -> None:
    memory = learned(ledger, SMOKES)
    decide(ledger, memory)
    assert ledger.add(STOPPED, session="later").changed == ()
    assert ledger.memories.get(memory).status == "active"


def test_what_a_person_remembered_stays(ledger: Ledger) -> None:
    memory = ledger.remember("The user says: I smoke.")
    assert ledger.add(STOPPED, session="later").changed == ()
    assert ledger.memories.get(memory.id).status == "active"


def test_another_users_words_end_nothing(ledger: Ledger) -> None:
    memory = learned(ledger, SMOKES)
    ledger.bind(user="ben").add(STOPPED, session="later")
    assert ledger.memories.get(memory).status == "active"


def test_an_end_in_the_same_call_counts_too(ledger: Ledger) -> None:
    said = ("user", SMOKES), ("assistant", "Noted."), ("user", STOPPED)
    ledger.add([{"role": role, "content": text} for role, text in said], session="s")
    assert "The user says: I smoke." not in [memory.content for memory in ledger.memories.list()]
