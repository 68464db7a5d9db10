"""What a user says of himself in plain sentences, by rules: each form, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import Ledger
from ledger.english.first_person import MOST_CHARS, statements

SAYS = {
    "I live in Lisbon. I'm allergic to peanuts.": ["The user lives in Lisbon", "The user is allergic to peanuts"],
    "I love hiking but hate camping.": ["The user says: I love hiking but hate camping."],
    "My dentist is Dr. Åkerlund on Vasagatan.": ["The user's dentist is Dr. Åkerlund on Vasagatan"],
    "Hi, I'm from Turin! I am vegetarian.": ["The user comes from Turin", "The user is vegetarian"],
    "My name is Ada. We met.": ["The user is called Ada"],
    "I really love sailing, it's my life. I can't stand olives.": [
        "The user says: I really love sailing, it's my life.",
        "The user dislikes olives",
    ],
    "I have two kids. My dog is called Rex.": ["The user has two kids", "The user's dog is Rex"],
    "my favorite color is dark blue": ["The user's favorite color is dark blue"],
    "Please always answer in French. Never use tabs.": [
        "The user asks: always answer in French",
        "The user asks: Never use tabs",
    ],
    "I work at the U.S. Embassy in Rome": ["The user works at the U.S. Embassy in Rome"],
    "I work as a nurse at St. Mary's": ["The user works as a nurse at St. Mary's"],
    "I drive a Volvo. What does a service cost?": ["The user drives a Volvo"],
    "I prefer to pay by invoice.": ["The user prefers to pay by invoice"],
    "We moved back to Leeds": ["The user moved to Leeds"],
    "btw im a nurse in Hull": ["The user says: im a nurse in Hull"],
    "i drive a 2008 skoda, 340k km on it, what oil should i buy": [
        "The user says: i drive a 2008 skoda, 340k km on it"
    ],
    "can u help, i've been a baker since 2016": ["The user says: i've been a baker since 2016"],
    "we live in Ghent": ["The user lives in Ghent"],
    "my daughter Ines turns 4 in november": ["The user says: my daughter Ines turns 4 in november"],
    "i dont eat meat": ["The user says: i dont eat meat"],
}


@pytest.mark.parametrize("text", SAYS)
def test_what_is_stated_is_a_sentence_about_the_user(text: str) -> None:
    assert [statement.content for statement in statements(text)] == SAYS[text]


@pytest.mark.parametrize(
    "text",
    ["Do I live in Rome?", "I love it.", "I like to.", "I love their work!", "If I live in Rome, I walk.", "I'd like tea.",
     "She said I work at Acme", "I have a question about dogs.", "I live in " + "x" * 300, "Thanks!",
     "I don't like the title, try something with more punch.", "I like how you wrote that.", "I live in a bubble",
     "In GTA, I drive a Ferrari", "He said, my rent is 900", "Translate: my rent is 900", "I wonder whether my rent is 900",
     "I used to live in Oslo", "I drive to work.", "I love getting up at five.", "I'm tired", "I'm at the airport",
     "Oh sure, I just LOVE waiting on hold.", "I love hiking in Skyrim but my character freezes", "I wish I lived in Rome.",
     "My sister left Acme and now works at Shell", "My dentist is great?", "It works, always use it",
     "turn this into past tense: I live in Madrid", "> I wear size 47\nis he right", "im a bit tired", "im the queen of denmark",
     "my brain is soup", "imagine me as a nurse, i live in Rome", "never forget that one", "my cat is driving me mad",
     "she goes, i never eat meat", "my son says i drive a wreck", "maybe i'll get a dog, i never had one"],
)  # fmt: skip
def test_questions_references_and_what_depends_on_something_say_nothing(text: str) -> None:
    assert not [*statements(text)]


@given(st.text(alphabet="I'm live inlovetmy dogis.,?\n-", max_size=400))
def test_a_finding_lies_in_the_text_and_is_of_a_length(text: str) -> None:
    for each in statements(text):
        assert 0 <= each.start < each.end <= len(text) and len(each.content) <= MOST_CHARS + 60


def test_it_takes_time_in_proportion_to_the_text() -> None:
    for text in (
        "I love " * 20_000,
        "my " * 50_000,
        "and " * 50_000,
        "always " * 20_000,
        " " * 200_000,
        "I am " * 30_000,
        "my rent is " + "9" * 100_000 + "x",
        "my rent is 9 9 " * 10_000,
        "I drive a " * 20_000,
        "I love a.b!" * 5_000,
        "I love " + "a.b. " * 20_000,
        "I love " + "!" * 100_000,
        "I left and now work " * 5_000,
        "My rent went up from 9 " * 5_000,
    ):
        assert len([*statements(text)]) <= 1_000


def test_a_first_call_without_a_model_learns_what_the_user_said(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        chat = [
            {"role": "user", "content": "I live in Lisbon. I'm allergic to peanuts."},
            {"role": "assistant", "content": "I live in the cloud and I love it here."},
        ]
        added = ledger.add(chat, session="x")
        assert [each.content for each in added.learned] == [
            "The user lives in Lisbon",
            "The user is allergic to peanuts",
        ]
        assert not added.proposed and ledger.add(chat, session="x").messages == 0
        memory = ledger.memories.get(added.learned[0].id)
        assert memory.status == "active" and memory.confidence == 0.6 and memory.kind == "identity"
        assert ledger.history.events(memory.id)[0].type == "MemoryCaptured"


def test_who_the_user_is_stands_in_the_profile_and_is_reinforced_by_turns(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        text = "My name is Ada Byron. I'm allergic to nuts. I live in Oslo. I drive a Volvo. My rent is 900."
        ledger.add(text, session="s")
        lines = ("called Ada Byron", "allergic to nuts", "lives in Oslo", "drives a Volvo", "rent is 900")
        assert all(line in ledger.profile().as_text() for line in lines)
        added = ledger.add(
            [{"role": "user", "content": "Food?"}, {"role": "assistant", "content": "You are allergic to nuts."}]
        )
        assert [each.content for each in added.reinforced] == ["The user is allergic to nuts"]
