"""What a name is, and what looks like one in a text."""

from __future__ import annotations

import unicodedata

import pytest
from counting import steps
from hypothesis import given
from hypothesis import strategies as st

from ledger.english.entities import MAX_FOUND, SEARCHED_CHARS, found, name_form
from projections.views.graph import GraphProjection

# --- the form of a name ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("  New \t York,", "new york"),
        ("“Acme”", "acme"),
        ("(Ana)", "ana"),
        ("**Ana**", "ana"),
        ("STRASSE", "strasse"),
        ("straße", "strasse"),
        ("Jose\u0301", "jos\xe9"),
        ("A\u200bc\u202eme", "acme"),
        ("O'Brien & Co.", "o'brien & co"),
        ("C++", "c++"),
        ("C#", "c#"),
        ("@ana", "@ana"),
        ("東京。", "東京"),
        ("!!!", ""),
        (" \n", ""),
        ("█████", ""),
    ],
)
def test_two_names_are_one_whatever_their_case_white_space_and_punctuation(name: str, form: str) -> None:
    assert name_form(name) == form


@given(st.text(max_size=40))
def test_the_form_of_a_form_is_itself(name: str) -> None:
    assert name_form(name_form(name)) == name_form(name)


# --- what looks like a name ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The user prefers dark roast coffee.", ()),
        ("Coffee is nice. Deployment uses tea.", ()),
        ("We moved to New York.", ("New York",)),
        ("Ana de Souza met Ludwig van Beethoven.", ("Ana de Souza", "Ludwig van Beethoven")),
        ("the billing-service reads user_id from AWS", ("billing-service", "user_id", "AWS")),
        ("we use PostgreSQL, GitHub and an iPhone", ("PostgreSQL", "GitHub", "iPhone")),
        ("It is a well-known, long-term follow-up.", ()),
        ("Decision: Use AWS Lambda.", ("AWS Lambda",)),
        ("John F. Kennedy met Dr. Smith.", ("John F. Kennedy", "Smith")),
        ("we saw Paris, London and Rome", ("Paris", "London", "Rome")),
        ("Ana works at Acme.", ("Ana", "Acme")),
        ("Bob's dog likes Ana's cat.", ("Bob", "Ana")),
        ("Ana and Bob met.", ("Ana", "Bob")),
        ("We meet Ana on Monday in May.", ("Ana",)),
        ("NEVER DEPLOY ON FRIDAY", ()),
        ("Don't ask. It's nothing. We've time.", ()),
        ("in 2026-01-05 there were 24-hour tests of v2", ()),
        ("she told acme_corp, Acme and ACME", ("acme_corp", "Acme")),
        ("Анна живёт в Москве", ("Москве",)),
        ("東京に住む", ()),
        ("اسمي أحمد", ()),
        ("", ()),
        ("'", ()),
    ],
)
def test_names_are_found_by_their_looks(text: str, names: tuple[str, ...]) -> None:
    assert found(text) == names


def test_a_run_of_capitalised_words_is_one_name_and_a_heading_is_none() -> None:
    assert found("we joined the International Society of Coffee Roasters") == (
        "International Society of Coffee Roasters",
    )
    assert found("read Seven Words Make No Name At Alle Anywhere") != ("Seven Words Make No Name At Alle Anywhere",)
    assert found("see Alpha Beta Gamma Delta Epsilon Zeta Eta") == ()


def test_a_name_is_found_once_and_never_more_than_twelve() -> None:
    assert found("we saw Ana, ANA, “Ana” and ana") == ("Ana",)
    names = tuple(f"tube-n{n}" for n in range(20))
    assert found(" and ".join(names)) == names[:MAX_FOUND]


def test_what_is_found_changes_with_the_version_of_the_projection() -> None:
    """Whoever changes what is found here changes ``Graph.version``."""
    assert GraphProjection.version == 1
    texts = "Ana met Bob at Acme Inc. in New York; see user_id, API docs and O'Brien's iPhone. Then Kim-Lee left."
    assert found(texts) == ("Ana", "Bob", "Acme Inc", "New York", "user_id", "API", "O'Brien", "iPhone", "Kim-Lee")


@given(st.text(max_size=300))
def test_what_is_found_stands_in_the_text_and_has_a_form(text: str) -> None:
    names = found(text)
    forms = [name_form(name) for name in names]
    assert all(forms) and len(set(forms)) == len(forms) <= MAX_FOUND
    assert all(name in unicodedata.normalize("NFC", text) for name in names)


@pytest.mark.parametrize(
    "hostile", ["A-", "A'", "Ab ", "Ana de ", "_", "-", "'", "A. ", "É", "a_", "A b", "\u0301", "[({"]
)
def test_of_a_hostile_text_only_the_start_is_looked_at(hostile: str) -> None:
    text = hostile * (260_000 // len(hostile))
    start = text[:SEARCHED_CHARS]
    assert found(text) == found(start) and steps(lambda: found(text)) == steps(lambda: found(start))
    assert steps(lambda: name_form(text[:8_000])) <= 8 * steps(lambda: name_form(text[:1_000])) + 100
