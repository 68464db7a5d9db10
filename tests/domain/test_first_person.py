"""What a user says of himself in plain sentences, by rules: each form, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import Ledger
from ledger.domain.first_person import MOST_CHARS, statements

SAYS = {
    "I live in Lisbon and I'm allergic to peanuts.": ["lives in Lisbon", "is allergic to peanuts"],
    "We met. I've just moved to Porto, but I work at Acme as an engineer": [
        "moved to Porto",
        "works at Acme as an engineer",
    ],
    "Hi, I'm from Turin! I am vegetarian.": ["comes from Turin", "is vegetarian"],
    "My name is Ada. Please call me Countess.": ["is called Ada", "wants to be called Countess"],
    "I really love sailing, it's my life. I can't stand olives.": ["likes sailing", "dislikes olives"],
    "I have two kids and my dog is called Rex.": ["has two kids", "'s dog is Rex"],
    "my favorite color is dark blue": ["'s favorite color is dark blue"],
    "Please always answer in French. Never use tabs, please.": [
        "asks: always answer in French",
        "asks: Never use tabs, please",
    ],
    "My rent is 900. My new salary is $52,000.50 a year, my shoe size is 42": [
        "'s rent is 900",
        "'s new salary is $52,000.50 a year",
        "'s shoe size is 42",
    ],
    "My dentist is Dr. Lee. My car is a Volvo": ["'s dentist is Dr. Lee", "'s car is a Volvo"],
    "my email is kai@home.example.": ["'s email is kai@home.example"],
    "I drive a Volvo. I drive an old red van": ["drives a Volvo", "drives an old red van"],
    "I started a new job at Acme. I've just started working for the city": [
        "started a new job at Acme",
        "started working for the city",
    ],
    "Always answer in German. Never use tabs!": ["asks: Always answer in German", "asks: Never use tabs"],
    "Always include dates when I ask about events.\nNever push to main": [
        "asks: Always include dates when I ask about events",
        "asks: Never push to main",
    ],
}


@pytest.mark.parametrize("text", SAYS)
def test_what_is_stated_is_a_sentence_about_the_user(text: str) -> None:
    found = sorted((each.start, each.content) for each in statements(text))
    assert [content.removeprefix("The user").lstrip() for _, content in found] == SAYS[text]


@pytest.mark.parametrize(
    "text",
    ["Do I live in Rome?", "I love it.", "I like to.", "I love their work!", "If I live in Rome, I walk.", "I'd like tea.",
     "She said I work at Acme", "I have a question about dogs.", "Call me when you can?", "I live in " + "x" * 200, "Thanks!",
     "My rent is too high.", "My rent is due on the 5th.", "My car is the best.", "My dentist is great.", "Is my rent 900?",
     "I drive to work.", "I drive an hour a day.", "I drive a hard bargain", "I started a new book.", "I started running",
     "Always a pleasure!", "Never mind.", "Never heard of it.", "Never give up!", "Always wanted to use Rust.", "Never been",
     "It works, always use it", "I always use vim.", "I came late, always show up", "We met and always add salt."],
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
    ):
        assert len([*statements(text)]) <= 1_000


def test_a_first_call_without_a_model_proposes_what_the_user_said(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        chat = [
            {"role": "user", "content": "I live in Lisbon and I'm allergic to peanuts."},
            {"role": "assistant", "content": "I live in the cloud and I love it here."},
        ]
        added = ledger.add(chat, session="x")
        assert [each.content for each in added.proposed] == [
            "The user lives in Lisbon",
            "The user is allergic to peanuts",
        ]
        assert not added.learned and ledger.add(chat, session="x").messages == 0
        memory = ledger.memories.get(added.proposed[0].id)
        assert memory.status == "candidate" and memory.confidence == 0.6
        assert ledger.history.events(memory.id)[0].type == "MemoryCaptured"
