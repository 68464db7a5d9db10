"""What was said in sessions is recalled beside captured turns: ranked like them, never while hidden, by receipt again."""

from __future__ import annotations

import probe
import pytest
from conftest import Clock, folded_from_zero

from ledger import Ledger, NotFoundError
from ledger.recall.packs import Item, Pack
from ledger.types import Event


def texts(pack: Pack) -> list[str | None]:
    return [item.content for item in pack.items]


def recalled(ledger: Ledger, query: str, **more: object) -> list[Item]:
    return list(ledger.recall(query, among=("turns",), **more).items)  # type: ignore[arg-type]


def test_a_message_is_recalled_with_the_session_and_position_that_it_is_at(ledger: Ledger) -> None:
    session = ledger.session("monday")
    session.append("user", "Hello there.")
    said = session.append("user", "The gearbox rattles in third gear.")
    (item,) = recalled(ledger, "gearbox", limit=1)
    assert (item.source, item.id, item.content) == ("message", session.id, said.content)
    assert item.passage is not None
    assert (item.passage.position, item.passage.field, item.passage.session) == (said.position, "content", "monday")


def test_a_recalled_passage_names_its_message_by_the_id_that_erase_and_the_session_take(ledger: Ledger) -> None:
    session = ledger.session("monday")
    said = session.append("user", "The gearbox rattles in third gear.")
    ledger.capture("The gearbox?", "A new gearbox costs much.")
    pack = ledger.recall("gearbox", among=("turns",), receipt=True)
    messages = {item.source: item.passage.message for item in pack.items if item.passage is not None}
    assert messages == {"message": said.id, "turn": None}
    assert pack.receipt is not None
    again = ledger.reopen(pack.receipt)
    assert [item.passage and item.passage.message for item in again.items] == [
        item.passage and item.passage.message for item in pack.items
    ]
    assert session.message(said.id) == session.message(said.position) == said
    assert [event.position for event in ledger.erase(said.id, quotes="keep").erased] == [said.position]


def test_a_session_has_no_message_with_the_id_of_another_sessions_message(ledger: Ledger) -> None:
    monday, tuesday = ledger.session("monday"), ledger.session("tuesday")
    said, other = monday.append("user", "The gearbox rattles."), tuesday.append("user", "It is mended.")
    for id in (
        other.id,
        f"{tuesday.id}:{said.position}",
        f"{monday.id}:{other.position}",
        "gearbox",
        str(said.position),
    ):
        with pytest.raises(NotFoundError, match=f"the session 'monday' has no message .*'{id}'"):
            monday.message(id)


def test_what_a_tool_was_called_with_and_gave_is_recalled(ledger: Ledger) -> None:
    call = {"type": "tool_use", "id": "c1", "name": "weather", "arguments": {"city": "Ljubljana"}}
    ledger.session("monday").append("assistant", "Let me look.", parts=[call])
    ledger.session("monday").append("tool", parts=[{"type": "tool_result", "id": "c1", "text": "Hailstorm at noon"}])
    assert [item.passage and item.passage.field for item in recalled(ledger, "Ljubljana")][:1] == ["parts"]
    assert recalled(ledger, "hailstorm")[0].content == "Hailstorm at noon"


def test_messages_are_searched_where_turns_are(ledger: Ledger) -> None:
    ledger.session("monday").append("user", "The gearbox rattles.")
    assert texts(ledger.recall("gearbox")) == []
    assert texts(ledger.recall("gearbox", among=("memories", "chunks", "turns"))) == ["The gearbox rattles."]


@pytest.mark.slow
@pytest.mark.parametrize("act", ["truncate", "clear"])
def test_a_hidden_message_is_never_recalled(ledger: Ledger, act: str) -> None:
    session = ledger.session("monday")
    for number in range(300):
        session.append("user", f"The gearbox rattles, day {number}.")
    before = ledger.position
    _ = session.clear() if act == "clear" else session.truncate(1)
    kept = recalled(ledger, "gearbox", limit=500)
    assert [item.content for item in kept] == ([] if act == "clear" else ["The gearbox rattles, day 299."])
    assert ledger.recall("gearbox", among=("turns",)).searched == len(kept)
    assert len(ledger.at(before).recall("gearbox", among=("turns",), limit=500).items) == 300


def test_a_neighbour_lends_its_score_to_a_short_message(ledger: Ledger) -> None:
    session = ledger.session("monday")
    session.append("user", "Which gearbox oil did we settle on?")
    session.append("assistant", "The green one.")
    for number in range(8):
        session.append("user", f"Something else, number {number}.")
    found = recalled(ledger, "gearbox oil")
    assert [item.content for item in found[:2]] == ["Which gearbox oil did we settle on?", "The green one."]
    assert "context" in found[1].signals


def test_what_is_hidden_between_two_messages_keeps_them_no_further_apart(ledger: Ledger) -> None:
    session = ledger.session("monday")
    for number in range(5):
        session.append("user", f"Something hidden, number {number}.")
    session.truncate(0)
    session.append("assistant", "The green one.")
    session.append("user", "Was that about gearbox oil?")
    assert {item.content for item in recalled(ledger, "gearbox oil")} == {
        "The green one.",
        "Was that about gearbox oil?",
    }


def test_who_speaks_is_known_by_the_role_of_the_message(ledger: Ledger) -> None:
    session = ledger.session("monday")
    session.append("assistant", "I drink green tea daily.")
    session.append("user", "I drink green tea nightly.")
    (first, second) = recalled(ledger, "what tea do I drink?")
    assert first.content == "I drink green tea nightly." and first.signals["first person"] > 1
    assert "first person" not in second.signals


def test_a_receipt_of_a_message_opens_again_and_says_what_became_of_it(ledger: Ledger) -> None:
    session = ledger.session("monday")
    session.append("user", "The gearbox rattles in third gear.")
    given = ledger.recall("gearbox", among=("turns",), receipt=True)
    assert given.receipt is not None
    again = ledger.reopen(given.receipt)
    assert again.items == given.items and again.changed == ()
    session.clear()
    cleared = ledger.reopen(given.receipt)
    assert cleared.items == given.items
    assert cleared.changed == (f"{session.id}: hidden since (clear)",)


def test_an_undone_or_erased_message_leaves_no_passage(ledger: Ledger) -> None:
    session = ledger.session("monday")
    session.append("user", "The gearbox rattles.")
    erased = session.append("user", "The gearbox hums.")
    undone = session.append("user", "The gearbox sings.")
    ledger.undo(undone.position)
    ledger.erase(Event(erased.position))
    assert [item.content for item in recalled(ledger, "gearbox")] == ["The gearbox rattles."]
    assert ledger.proof.digest() == folded_from_zero(ledger)
    probe.rebuild(ledger)
    assert [item.content for item in recalled(ledger, "gearbox")] == ["The gearbox rattles."]


def test_nobody_else_recalls_it(ledger: Ledger, clock: Clock) -> None:
    for user in ("ana", "ben"):
        ledger.bind(user=user).session("monday").append("user", f"The gearbox of {user} rattles.")
    assert texts(ledger.bind(user="ben").recall("gearbox", among=("memories", "chunks", "turns"))) == [
        "The gearbox of ben rattles."
    ]
