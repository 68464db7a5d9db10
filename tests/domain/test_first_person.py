"""What a user says of himself in plain sentences, by rules: each form, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import Ledger
from ledger.domain.first_person import MOST_CHARS, statements
from ledger.domain.updates import Reading, takes_place

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
    "Yes, my rent is 900. My new salary is $52,000.50 a year, I think! My shoe size is 9\nMy height is 6 ft 2 now": [
        "'s rent is 900",
        "'s new salary is $52,000.50 a year",
        "'s shoe size is 9",
        "'s height is 6 ft 2",
    ],
    "My budget is 500 to 600 euros and no more. My phone number is (555) 010-1234": [
        "'s budget is 500 to 600 euros",
        "'s phone number is (555) 010-1234",
    ],
    "My dentist is Dr. Lee. My car is a Volvo V60 and my pride": ["'s dentist is Dr. Lee", "'s car is a Volvo V60"],
    "my email is kai@home.example.": ["'s email is kai@home.example"],
    "I drive a Volvo to work. I drive an old red van": ["drives a Volvo", "drives an old red van"],
    "I started a new job at Smith and Sons last week. I took a job with the city in May 2025": [
        "works at Smith and Sons",
        "works at the city",
    ],
    "I've just started working for Acme, it is fun. I got a job as a nurse on Monday": [
        "works for Acme",
        "works as a nurse",
    ],
    "Always answer in German. Never use tabs!": ["asks: Always answer in German"],
    "Always include dates when I ask about events.\nNever push to main": [
        "asks: Always include dates when I ask about events"
    ],
    "Always use the word Kq7!vb;9Zr.$t in it": ["asks: Always use the word Kq7!vb;9Zr.$t in it"],
    "I work at the U.S. Embassy. I work at J.P. Morgan": ["works at the U.S. Embassy", "works at J.P. Morgan"],
    "My rent went up to 950 euros a month. My salary was raised from 50,000 to 55,000 euros last year!": [
        "'s rent is 950 euros a month",
        "'s salary is 55,000 euros",
    ],
    "My weight has dropped by 5 kg to 80 kg now": ["'s weight is 80 kg"],
    "I quit Fjord Analytics and now work for Equinor. I left Acme last week, but now I work at Shell.": [
        "works for Equinor",
        "works at Shell",
    ],
    "I became vegetarian. I've gone vegan last month. I got married in 2012": [
        "is vegetarian",
        "is vegan",
        "is married",
    ],
    'I live in the U.S. My dog is called "Rex". I love tea... and cake': [
        "lives in the U.S",
        '\'s dog is "Rex"',
        "likes tea",
    ],
}


@pytest.mark.parametrize("text", SAYS)
def test_what_is_stated_is_a_sentence_about_the_user(text: str) -> None:
    found = sorted((each.start, each.content) for each in statements(text))
    assert [content.removeprefix("The user").lstrip() for _, content in found] == SAYS[text]


@pytest.mark.parametrize(
    "text",
    ["Do I live in Rome?", "I love it.", "I like to.", "I love their work!", "If I live in Rome, I walk.", "I'd like tea.",
     "She said I work at Acme", "I have a question about dogs.", "I have a category.",
     "Call me when you can?", "I live in " + "x" * 200, "Thanks!",
     "My rent is too high.", "My rent is due on the 5th.", "My car is the best.", "My dentist is great.", "Is my rent 900?",
     "I drive to work.", "I drive an hour a day.", "I drive a hard bargain", "I started a new book.", "I started running",
     "Always a pleasure!", "Never mind.", "Never heard of it.", "Never give up!", "Always wanted to use Rust.", "Never been",
     "It works, always use it", "I always use vim.", "I came late, always show up", "We met and always add salt.",
     "In GTA, I drive a Ferrari", "I drive a Ferrari in GTA", "If I move, my rent is 900", "He said, my rent is 900",
     "Translate: my rent is 900", "Translate:\nMy rent is 900", "If I move,\nmy rent is 900", "Not true: my rent is 900",
     "I wonder whether my rent is 900", "We met and my rent is 900", "\"So. My rent is 900.\" he said", "My rent is 900?",
     "My rent is 900 ?", "I love tea ?", "My pay is 15 to 20 percent lower",
     "my rent is 3 days late", "my salary is 10% too high", "my phone number is 12 digits long", "my car is in Berlin",
     "my rent is 900 lower than yours", "my rent is 900 or 950", "my manager is I think Anna", "my car is BMW or Audi",
     "my car is a BMW or an Audi", "my bike is Stolen", "My manager is Anna or Bob", "I drive an hour to Berlin",
     "My rent went up.", "My rent went up by 50 euros", "Has my rent gone up to 950?", "My rent would have gone up to 950",
     "If I became vegetarian, fine", "I became vegetarian but stopped", "I became a vegan chef", "I got vegetarian sausages",
     "I met people who left Acme and now work at Google", "I left with friends who quit and now work at Google",
     "I quit Acme and now work 9 to 5", "My sister left Acme and now works at Shell", "I became vegetarian for a week",
     "Fix this. Always answer in German", "Never use tabs", "Always use it", "I've got a job for you", "I got a job as well",
     "I took my job at Acme seriously", "I got a job with good pay", "I started working at 9", "I work as hard as I can"],
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
            {"role": "user", "content": "I live in Lisbon and I'm allergic to peanuts."},
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


def test_a_new_job_takes_the_place_of_the_last_one_in_an_answer(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        for text in ("I work at Charité.", "I started a new job at Siemens last week."):
            ledger.add(text, session="x")
        found = [each.content for each in ledger.recall("Where does the user work?").items]
        assert found == ["The user works at Siemens", "The user works at Charité"]
        new, old = (Reading(ledger.memories.get(each.id)) for each in ledger.memories.list())
        assert takes_place(new, old)


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


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        (
            "The user's rent is 900 euros a month.",
            "My rent went up to 950 euros a month.",
            "How much is the user's rent?",
        ),
        (
            "The user works at Fjord Analytics.",
            "I quit Fjord Analytics and now work for Equinor.",
            "Where does the user work?",
        ),
    ],
)
def test_what_changed_comes_before_what_was_so(tmp_path: Path, old: str, new: str, asked: str) -> None:
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        ledger.remember(old)
        (found,) = ledger.add(new, session="s").learned
        assert [each.content for each in ledger.recall(asked).items] == [found.content, old]
