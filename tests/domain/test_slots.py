"""What fills a slot, and which values cannot both be so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain import slots
from ledger.domain.memory import Edge


def filled(text: str) -> dict[str, str]:
    return {each.slot: each.value for each in slots.of_text(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ana lives in Lisbon.", {"ana: lives_in": "lisbon"}),
        ("I live in Lisbon", {"user: lives_in": "lisbon"}),
        ("The user lives in Lisbon", {"user: lives_in": "lisbon"}),
        ("Ana Silva works for Acme Inc.", {"ana silva: works_at": "acme inc"}),
        ("Ana was born on 3 May 1990.", {"ana: born_on": "1990-05-03"}),
        ("Ana was born on May 3rd, 1990.", {"ana: born_on": "1990-05-03"}),
        ("Ana was born in Porto!", {"ana: born_in": "porto"}),
        ("Ana is married to Bob.", {"ana: married_to": "bob", "bob: married_to": "ana"}),
        ("Ana's favourite colour is dark green.", {"ana: favourite colour": "dark green"}),
        ("My favorite color is blue", {"user: favourite colour": "blue"}),
        ("The user's email is ana@example.org.", {"user: email": "ana@example.org"}),
        ("The deadline is now 2026-05-03.", {"deadline": "2026-05-03"}),
        ("The capital of France is Paris.", {"france: capital": "paris"}),
        ("The deploy port is 8080", {"deploy port": "8080"}),
        ("The backend uses Postgres as its database.", {"backend: uses as database": "postgres"}),
        ("The user prefers tabs over spaces.", {"user: prefers spaces / tabs": "tabs"}),
        ("db_host = localhost", {"db_host": "localhost"}),
        ("DB_HOST: localhost", {"db_host": "localhost"}),
        ("timeout=30", {"timeout": "30"}),
        ("Deadline: Friday", {"deadline": "friday"}),
        ("Ana moved. Ana lives in Rome. She is happy.", {"ana: lives_in": "rome"}),
    ],
)
def test_plain_forms_fill_a_slot(text: str, expected: dict[str, str]) -> None:
    assert filled(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Ana does not live in Lisbon.",
        "Ana isn't married to Bob.",
        "Does Ana live in Lisbon?",
        "If the deadline is Friday we are late.",
        "Ana might live in Rome.",
        "Ana wants to live in Rome.",
        "Bob says Ana lives in Rome.",
        "Ana works at home.",
        "Ana works at a bank.",
        "Ana is married to a doctor.",
        "The office is located in a quiet street.",
        "She lives in Rome.",
        "Nobody lives in Rome.",
        "Ana's friend is Tom.",
        "The user is training for a marathon.",
        "The problem is the database.",
        "The status is unknown.",
        "Ana: I live in Rome, come and see",
        "Note: buy milk",
        "Ana prefers tea.",
        "Ana likes coffee and tea.",
        "The deadline is Friday or Monday.",
        "x = 5",
        "The area is $a^2$",
        "",
    ],
)
def test_what_is_denied_asked_possible_or_manifold_fills_nothing(text: str) -> None:
    assert filled(text) == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("lisbon", "rome"),
        ("1990-05-03", "1990-05-04"),
        ("--05-03", "1990-05-04"),
        ("2026-05-05", "2026-05-06"),
        ("2026-05-05", "2025-05-05"),
        ("8080", "9090"),
        ("80", "8080"),
        ("30 seconds", "60 seconds"),
        ("12 oak street", "14 elm avenue"),
        ("tabs", "spaces"),
    ],
)
def test_values_that_cannot_both_be_so(one: str, other: str) -> None:
    assert slots.incompatible(one, other) and slots.incompatible(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("lisbon", "lisbon"),
        ("berlin", "berlin, germany"),
        ("postgres", "postgresql"),
        ("new york city", "nyc"),
        ("--05-03", "1990-05-03"),
        ("5 km", "5 kilometres"),
        ("60 seconds", "1 minute"),
        ("1.70 m", "170 cm"),
        ("30s", "30 seconds"),
        ("high", "40 euros"),
        ("friday", "2026-05-03"),
    ],
)
def test_values_that_can_both_be_so(one: str, other: str) -> None:
    assert not slots.incompatible(one, other) and not slots.incompatible(other, one)


def test_articles_case_marks_and_number_words_make_no_other_value() -> None:
    told = {next(iter(filled(f"Ana's team size is {each}").values())) for each in ("Three.", '"3"', "the 3", "three")}
    assert told == {"3"}
    assert filled("The budget is 1,000 euros") == {"budget": "1000 euros"}


def test_an_edge_fills_a_slot_where_its_relation_holds_one_value() -> None:
    def of(*edges: tuple[str, str, str]) -> dict[str, str]:
        found = slots.of_edges(tuple(Edge(*each, None, None, 0) for each in edges))
        return {each.slot: each.value for each in found}

    assert of(("Ana", "works_at", "Acme")) == {"ana: works_at": "acme"}
    assert of(("Ana", "Works At".lower(), "Acme")) == {"ana: works_at": "acme"}
    assert of(("Paris", "capital_of", "France")) == {"france: capital_of": "paris"}
    assert of(("Ana", "married_to", "Bob")) == {"ana: married_to": "bob", "bob: married_to": "ana"}
    assert of(("Ana", "knows", "Bob")) == {}


SPOKEN = """
    Ana the user 's lives in is works at Rome 5 May 1990 prefers over to favourite colour deadline port = : . ? my I not
    uses as its of database é ß
"""
TEXTS = st.one_of(
    st.text(max_size=120),
    st.lists(st.sampled_from([*SPOKEN.split(), "\n"]), max_size=14).map(" ".join),
)


@given(TEXTS)
def test_any_text_is_read_without_a_failure_and_each_value_is_short(text: str) -> None:
    for each in slots.of_text(text):
        assert each.slot and each.value and len(each.value.split()) <= slots.VALUE_WORDS
        assert not slots.incompatible(each.value, each.value)


@given(TEXTS, TEXTS)
def test_whether_two_values_fit_does_not_depend_on_their_order(one: str, other: str) -> None:
    assert slots.incompatible(one, other) == slots.incompatible(other, one)
