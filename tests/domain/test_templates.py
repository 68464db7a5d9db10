"""Which sentences are the same but for a number or a date, and which values cannot both be so."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain import templates
from ledger.domain.templates import GAP, RULE


def filled(text: str) -> dict[str, str]:
    memory = SimpleNamespace(content=text, edges=(), valid_from="", valid_to=None)
    return {each.slot: each.value for each in templates.filled(memory) if each.rule == RULE}


def is_update(one: str, other: str) -> bool:
    ours, theirs = filled(one), filled(other)
    return any(templates.incompatible(ours[slot], theirs[slot]) for slot in ours.keys() & theirs.keys())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The user's library has 45 sources.", {"user's library has … sources": "45"}),
        ("The user's library now has 1,200 sources", {"user's library has … sources": "1200"}),
        ("The team has five engineers.", {"team has … engineers": "5"}),
        ("The trip costs $1,500.", {"trip costs $ …": "1500"}),
        ("The user's snack budget is $65.", {"user's snack budget is $ …": "65"}),  # slots/1 takes it for a formula
        ("The meeting is on 3 May.", {"meeting is on …": "3 may"}),
        ("The meeting is on May 3rd, 2026.", {"meeting is on …": "may 3 2026"}),
        ("The meeting is on 2026-05-03.", {"meeting is on …": "3 may 2026"}),
        ("The call is on April 21 at 3 PM.", {"call is on …": "april 21 at 3 pm"}),
        ("The bus leaves at 8:15.", {"bus leaves at …": "8:15"}),
        ("The user sleeps 6 hours a night.", {"user sleeps … hours a night": "6"}),
        ("The tool has an accuracy of 87%.", {"tool has an accuracy of … %": "87"}),
        ("The user aims to read 10 books by March 1.", {"user aims to read … books by march 1": "10"}),
        (
            "The flat has 3 rooms and 2 balconies.",
            {"flat has … rooms and 2 balconies": "3", "flat has 3 rooms and … balconies": "2"},
        ),
    ],
)
def test_a_number_or_a_date_behind_the_verb_is_a_gap(text: str, expected: dict[str, str]) -> None:
    assert filled(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "It has 45 sources.",  # nobody knows what
        "Does the library have 45 sources?",
        "The library does not have 45 sources.",
        "The library might have 45 sources.",
        "If it rains the picnic is on 3 May.",
        "The user ran 5 km on Sunday.",
        "The user met Ana on 3 May.",
        "The user was in Rome on 3 May.",
        "The user has a meeting on 3 May.",
        "One of the cats is 3 years old.",
        "Each ticket costs 5 euros.",
        "The user speaks French.",
        "The user's sister is Anna.",
        "The project uses Python 3.",
        "The user plays tennis on Monday.",
        "The user is in Rome this week until 3 May.",
        "The user has 5.",
        "- **Length:** has 400 pages",
        "angle = 45",
        "The deadline is 3 May.",  # read by slots/1
        "",
    ],
)
def test_what_is_unsure_past_or_one_of_several_is_no_template(text: str) -> None:
    assert filled(text) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The meeting is on 3 May.", "The meeting is on 5 May."),
        ("The meeting is on 3 May.", "The meeting is on 3 June."),
        ("The meeting is on Monday.", "The meeting is now on Friday."),
        ("The call is on April 21 at 3 PM.", "The call is on April 22 at 11 AM."),
        ("The exam begins at 9 AM.", "The exam begins at 10 AM."),
        ("The server listens on port 5432.", "The server listens on port 5433."),
        ("The user has saved $4,000 for the trip.", "The user has saved $5,500 for the trip."),
        ("The user weighs 80 kg.", "The user currently weighs 76.5 kg."),
    ],
)
def test_the_same_sentence_with_another_number_or_date_is_an_update(one: str, other: str) -> None:
    assert is_update(one, other) and is_update(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana has 2 cats.", "Ben has 3 cats."),
        ("The server in Berlin has 16 cores.", "The server in Paris has 32 cores."),
        ("Chapter 3 has 20 pages.", "Chapter 4 has 30 pages."),
        ("The user has 2 cats.", "The user has 3 dogs."),
        ("The user runs 5 km on Monday.", "The user runs 7 km on Friday."),
        ("The user takes 20 mg at 8 AM.", "The user takes 40 mg at 8 PM."),
        ("The shop opens at 9 AM on Monday.", "The shop opens at 10 AM on Sunday."),
        ("The overtime in February is 12 hours.", "The overtime in March is 4 hours."),
        ("The trip lasts 60 minutes.", "The trip lasts 1 hour."),
        ("The museum has 3 floors.", "The museum has three floors."),
        ("The museum has 1,200 rooms.", "The museum has 1200 rooms."),
        ("The meeting is on 3 May.", "The meeting is on May 3rd."),
        ("The meeting is on 3 May 2026.", "The meeting is on 2026-05-03."),
        ("The meeting is on April 21.", "The meeting is on April 21 at 3 PM."),
        ("The meeting is on Friday.", "The meeting is on 3 May."),
        ("The bus leaves at 15:00.", "The bus leaves at 3 PM."),
    ],
)
def test_what_can_both_be_so_is_no_update(one: str, other: str) -> None:
    assert not is_update(one, other)


WORDS = (
    "The",
    "user's",
    "cat",
    "is",
    "has",
    "on",
    "3",
    "May",
    "5",
    "45",
    "%",
    "$",
    "PM",
    "at",
    "of",
    "Monday",
    "10:30",
    "st",
)


@given(st.text() | st.lists(st.sampled_from(WORDS)).map(" ".join))
def test_any_text_is_read(text: str) -> None:
    for slot, value in filled(text).items():
        assert GAP in slot and value and not templates.incompatible(value, value)
