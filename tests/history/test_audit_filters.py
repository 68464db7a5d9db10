"""Every filter that one would try on the audit trail, each by itself and with another."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger, RejectedError

pytestmark = pytest.mark.ledger(user="ada", actor="ada", client="chat")


@pytest.fixture
def ledger(ledger: Ledger) -> Ledger:
    ledger.remember("The sea is salty.", channel="agent", agent="diver", correlation_id="run-1")  # 2
    ledger.propose("Tea with Ruth Meier on Friday.", client="mail", tags=["Visits"])  # 3
    ledger.bind(actor="ben").remember("Boats need varnish.", project="harbour")  # 4: the project, 5: the memory
    ledger.supersede(ledger.memories.list(project="")[0].id, "The sea is very salty.", reason="Ruth said so")  # 6, 7
    return ledger


def positions(ledger: Ledger, **filters: Any) -> list[int]:
    return [each.position for each in ledger.history.audit(**filters)]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"client": "mail"}, [3]),
        ({"channel": "agent"}, [2]),
        ({"agent": "diver"}, [2]),
        ({"correlation_id": "run-1"}, [2]),
        ({"actor": "ben", "type": "MemoryCaptured"}, [5]),
        ({"since": 3, "until": 5}, [4, 3]),
        ({"text": "ruth"}, [7, 3]),
        ({"text": "RUTH meier"}, [3]),
        ({"text": "visits"}, [3]),
        ({"text": "salty", "command": "supersede"}, [6]),
        ({"text": "harbour"}, [4]),
        ({"text": "Ruth Jonas"}, []),
        ({"client": "nobody"}, []),
        ({"causation_id": "nothing"}, []),
    ],
)
def test_each_audit_filter_selects_only_matching_entries(
    ledger: Ledger, filters: dict[str, Any], found: list[int]
) -> None:
    assert positions(ledger, **filters) == found


def test_what_an_event_led_to_is_found_by_its_cause(ledger: Ledger) -> None:
    turn = ledger.capture("Is the sea salty?", "Yes, the sea is very salty.")
    captured = ledger.history.events(turn.id)[0].position
    (entry,) = [each for each in ledger.history.audit() if each.position == captured]
    led_to = ledger.history.audit(causation_id=entry.event_id)
    assert led_to and {each.causation_id for each in led_to} == {entry.event_id}


def test_words_are_looked_for_through_all_pages_and_in_long_texts(ledger: Ledger) -> None:
    with ledger.batch():
        for number in range(700):
            ledger.remember(f"Fact {number} of the {'tide' if number % 100 == 0 else 'moon'}.")
    ledger.capture("Read: " + "word " * 50_000 + "tidewater", "Done.")
    assert len(list(ledger.history.audit(text="tide", limit=3).all())) == 7
    assert [each.type for each in ledger.history.audit(text="tidewater")] == ["InteractionCaptured"]


def test_an_erased_word_is_found_no_more(ledger: Ledger) -> None:
    (entry,) = ledger.history.audit(text="varnish")
    ledger.erase(entry.subject)
    assert positions(ledger, text="varnish") == []


def test_reads_of_the_past_take_the_same_arguments(ledger: Ledger) -> None:
    assert [each.position for each in ledger.at(3).history.audit(text="ruth", since=2)] == [3]


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"type": "Foo"}, "MemoryPromoted"),
        ({"channel": "phone"}, "web"),
        ({"text": "…"}, "word"),
        ({"text": 7}, "text"),
        ({"since": True}, "since"),
        ({"client": 3}, "client"),
    ],
)
def test_audit_filters_with_a_wrong_value_are_refused(ledger: Ledger, filters: dict[str, Any], message: str) -> None:
    with pytest.raises(RejectedError, match=message):
        ledger.history.audit(**filters)
