"""Turns and their facts: a turn stays out of every answer as soon as a fact that came from the turn does not hold."""

from __future__ import annotations

import pytest
from conftest import Clock

from ledger import Ledger

FLAT = "My flat is in Oslo, on the fourth floor."


def turns(ledger: Ledger, **options: object) -> list[str | None]:
    asked = ledger.recall("flat in Oslo", among=["turns"], observations=0, **options)  # type: ignore[arg-type]
    return [item.content for item in asked.items]


def in_context(ledger: Ledger) -> list[str | None]:
    pack = ledger.context("flat in Oslo", among=["turns"])
    return [item.content for item in pack.items if item.memory is None]


@pytest.fixture(params=["turn", "message"])
def fact(request: pytest.FixtureRequest, ledger: Ledger) -> str:
    """Return the id of a memory that came from a turn, or from a message of a session."""
    if request.param == "turn":
        source = ledger.capture(FLAT).id
        return ledger.remember("The user's flat is in Oslo.", sources=[source], valid_from="2026-01-01").id
    ledger.add([{"role": "user", "content": "I prefer a flat in Oslo."}], extract="rules")
    (learned,) = ledger.memories.list()
    return learned.id


def test_a_turn_goes_with_its_fact_and_comes_back_with_it(ledger: Ledger, fact: str) -> None:
    assert len(turns(ledger)) == 1
    ledger.retract(fact)
    assert turns(ledger) == in_context(ledger) == []
    assert len(turns(ledger, statuses=["retracted"])) == 1
    ledger.restore(fact)
    assert len(turns(ledger)) == 1
    ledger.invalidate(fact)
    assert turns(ledger) == in_context(ledger) == []


def test_a_turn_whose_fact_was_replaced_is_an_answer_only_where_replaced_facts_are(ledger: Ledger, fact: str) -> None:
    ledger.supersede(fact, "The user's flat is in Bergen.")
    assert turns(ledger) == []
    assert len(turns(ledger, statuses=["active", "superseded"])) == 1


def test_a_turn_is_an_answer_at_the_times_at_which_its_fact_holds(ledger: Ledger, clock: Clock) -> None:
    source = ledger.capture(FLAT).id
    dates = {"valid_from": "2026-01-01", "valid_to": "2026-02-01"}
    ledger.remember("The user's flat is in Oslo.", sources=[source], **dates)  # type: ignore[arg-type]
    at = ledger.position
    for day, shown in (("2025-12-01", []), ("2026-01-15", [FLAT]), ("2026-02-15", [])):
        past = ledger.at(at, valid_at=day)
        assert [item.content for item in past.recall("flat in Oslo", among=["turns"]).items] == shown
    clock.advance(days=60)
    assert turns(ledger) == in_context(ledger) == []


def test_a_turn_with_one_fact_that_does_not_hold_stays_out_as_a_whole(ledger: Ledger) -> None:
    source = ledger.capture(FLAT).id
    ledger.remember("The user's flat is in Oslo.", sources=[source])
    floor = ledger.remember("The user's flat is on the fourth floor.", sources=[source])
    assert turns(ledger) == [FLAT]
    ledger.retract(floor.id)
    assert turns(ledger) == in_context(ledger) == []


def test_a_fact_that_was_never_believed_keeps_no_turn_out(ledger: Ledger) -> None:
    source = ledger.capture(FLAT).id
    ledger.reject(ledger.propose("The user's flat is in Oslo.", sources=[source]).id)
    assert turns(ledger) == in_context(ledger) == [FLAT]


def test_a_turn_whose_facts_were_merged_is_still_an_answer(ledger: Ledger) -> None:
    source = ledger.capture(FLAT).id
    facts = [
        ledger.remember(text, sources=[source]) for text in ("The flat is in Oslo.", "The user's flat is in Oslo.")
    ]
    ledger.merges.combine([fact.id for fact in facts])
    assert turns(ledger) == [FLAT]


def test_the_past_shows_a_turn_whose_fact_was_retracted_later(ledger: Ledger, fact: str) -> None:
    before = ledger.position
    ledger.retract(fact)
    assert len([*ledger.at(before).recall("flat in Oslo", among=["turns"]).items]) == 1


def test_an_observation_that_rests_on_such_a_turn_alone_is_left_out(ledger: Ledger) -> None:
    source = ledger.capture(FLAT).id
    fact = ledger.remember("The user's flat is in Oslo.", sources=[source])
    ledger.observations.add("The flat in Oslo is mentioned often.", [source])
    assert len(ledger.recall("flat in Oslo").observations) == 1
    ledger.retract(fact.id)
    assert ledger.recall("flat in Oslo").observations == ()
    ledger.restore(fact.id)
    assert len(ledger.recall("flat in Oslo").observations) == 1


def test_a_session_shows_what_was_said_whatever_became_of_it(ledger: Ledger) -> None:
    ledger.add([{"role": "user", "content": "I prefer a flat in Oslo."}], session="s", extract="rules")
    ledger.retract(ledger.memories.list()[0].id)
    session = ledger.session("s")
    assert [message.content for message in session.messages()] == ["I prefer a flat in Oslo."]
    assert [entry.content for entry in session.window(1_000).entries] == ["I prefer a flat in Oslo."]
