"""Slots: what edges and short statements say of a place that likely holds one value, and when two values clash."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ledger.english.slots import EDGES, PLACE, exclusive, filled, still_stated
from ledger.memories.state import Edge


def memory(content: str, *edges: tuple[str, str, str]) -> SimpleNamespace:
    return SimpleNamespace(
        content=content, edges=tuple(Edge(*edge, None, None, 1) for edge in edges), valid_from="", valid_to=None
    )


def clash(one: str, other: str) -> set[str]:
    ours, theirs = ({each.slot: each.value for each in filled(memory(text))} for text in (one, other))
    return {slot for slot in ours.keys() & theirs.keys() if exclusive(PLACE, ours[slot], theirs[slot])}


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        ("The gym costs 40 euros a month.", "The gym costs 45 euros a month.", "the gym costs … euros a month"),
        ("Tengo tres gallinas en el patio.", "Tengo siete gallinas en el patio.", "tengo … gallinas en el patio"),
        ("The user's editor is Sublime Text.", "The user's editor is Zed.", "the user's editor is …"),
        ("The call is on Monday at 9:30.", "The call is on Friday at 9:30.", "the call is on … at 9:30"),
        ("The user lives in Gent.", "The user moved to Liège.", "the user lives in …"),
        ("The user works at Acme.", "The user works at Brandt in Bonn.", "the user works at …"),
        ("The user smokes.", "The user no longer smokes.", "… smoke"),
        ("The user says: I smoke.", "The user says: I don't smoke any more.", "… smoke"),
        ("The user has 2 cats.", "The user has 3 cats.", "the user has … cats"),
    ],
)
def test_the_same_statement_with_other_words_in_one_place_clashes(one: str, other: str, place: str) -> None:
    assert clash(one, other) == {place}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ana has 2 cats.", "Ben has 2 cats."),  # about somebody else
        ("The user likes tea.", "The user likes coffee."),
        ("The user hates olives.", "The user hates anchovies."),
        ("The user has a cat.", "The user has a dog."),
        ("The user is allergic to nuts.", "The user is allergic to milk."),
        ("The user's son is Tom.", "The user's son is Ben."),
        ("The user used to live in Perth.", "The user lives in Bristol now."),
        ("Ana lives in Rome.", "Ana lives in Rome, Italy."),
        ("The call is on Monday at 9:30.", "The call is on Friday at 10:15."),  # in two places
        ("Does the gym cost 40 euros?", "Does the gym cost 45 euros?"),
        ("Ana drinks tea.", "Ana drinks tea."),
        ("Ana was in Rome.", "Ana is in Rome."),  # stop words are no values
        ("The gym costs 40 euros. " + "x" * 200, "The gym costs 45 euros. " + "x" * 200),
    ],
)
def test_what_differs_otherwise_does_not_clash(one: str, other: str) -> None:
    assert clash(one, other) == set()


def test_an_edge_of_a_relation_with_one_value_fills_its_slot() -> None:
    found = filled(memory("", ("Ana", "works at", "Acme"), ("Ana", "knows", "Bob")))
    assert [(each.slot, each.value, each.rule) for each in found] == [("ana: works_at", "acme", EDGES)]
    found = filled(memory("", ("Lisbon", "capital_of", "Portugal")))
    assert [(each.slot, each.value) for each in found] == [("portugal: capital_of", "lisbon")]


def test_a_recorded_value_stands_while_its_words_or_its_edge_do() -> None:
    assert still_stated(memory("Ana lives in New York now."), "ana: lives_in", "new york") is not None
    assert still_stated(memory("Ana lives in York."), "ana: lives_in", "new york") is None
    edge = ("Ana", "lives_in", "Rome")
    assert still_stated(memory("Ana moved.", edge), "ana: lives_in", "rome") is not None
    assert still_stated(memory("Ana moved.", edge), "ana: born_in", "rome") is None
