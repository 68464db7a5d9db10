"""Legal holds: what is on hold cannot be erased, alone or as part of something else, until the hold is lifted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledger import Ledger, NotFoundError, RejectedError
from ledger.types import EVERYTHING, Event, Project, SessionName

Erase = Callable[[], Any]


def held(erase: Erase, by: str) -> None:
    with pytest.raises(RejectedError) as refusal:
        erase()
    assert refusal.value.rule == "hold" and by in str(refusal.value)


def test_what_is_on_hold_stays_until_it_is_lifted(ledger: Ledger) -> None:
    fact = ledger.remember("The tin is red.")
    hold = ledger.holds.add(fact.id, reason="case 12")
    assert (hold.subject, hold.user, hold.reason, hold.absorbed) == (fact.id, "", "case 12", False)
    held(lambda: ledger.erase(fact.id), hold.id)
    now = ledger.memories.get(fact.id)
    assert now.content == "The tin is red."
    assert [each.id for each in ledger.holds.list()] == [hold.id]
    assert ledger.holds.remove(hold.id, reason="closed").id == hold.id
    assert ledger.holds.list() == [] and ledger.erase(fact.id).state == "completed"


def test_a_refused_erasure_is_on_record_once(ledger: Ledger) -> None:
    fact = ledger.remember("The tin is red.")
    ledger.holds.add(fact.id)
    for _ in range(2):
        held(lambda: ledger.erase(fact.id), fact.id)
    (refusal,) = ledger.guards.refusals()
    assert (refusal.rule, refusal.command, refusal.subject) == ("hold", "erase", fact.id)


def test_holding_what_is_held_writes_nothing(ledger: Ledger) -> None:
    fact = ledger.remember("The tin is red.")
    first, position = ledger.holds.add(fact.id), ledger.position
    again = ledger.holds.add(fact.id[:9])
    assert (again.id, again.absorbed, ledger.position) == (first.id, True, position)


@pytest.mark.parametrize("what", ["memory", "session", "project", "user"])
def test_a_hold_covers_what_belongs_to_it_and_nothing_else(ledger: Ledger, what: str) -> None:
    fact = ledger.remember("The tin is red.", session="monday", project="kitchen")
    other = ledger.remember("The jar is blue.", session="tuesday", project="cellar")
    subject = {"memory": fact.id, "session": SessionName("monday"), "project": Project("kitchen"), "user": EVERYTHING}
    hold = ledger.holds.add(subject[what])
    for erase in (
        lambda: ledger.erase(fact.id),
        lambda: ledger.erase(Event(fact.position)),
        lambda: ledger.erase(SessionName("monday")),
        lambda: ledger.erase(Project("kitchen")),
        lambda: ledger.bind(user="").erase(EVERYTHING),
    ):
        held(erase, hold.id)
    if what == "user":
        held(lambda: ledger.erase(other.id), hold.id)
    else:
        assert ledger.erase(other.id).state == "completed"
    assert ledger.holds.remove(hold.id).subject == hold.subject
    assert ledger.erase(SessionName("monday")).state == "completed"


def test_what_the_lists_would_take_is_held_too(ledger: Ledger) -> None:
    turn = ledger.capture("Where?", "The tin is red and dented.", reinforce=False)
    fact = ledger.remember("The tin is red and dented.", sources=(turn.id,))
    quote = ledger.remember("He says: the tin is red and dented.")
    hold = ledger.holds.add(quote.id)
    for choice in ("erase", "cut"):
        held(lambda choice=choice: ledger.erase(fact.id, sources="cut", quotes=choice), hold.id)  # type: ignore[misc]
    assert ledger.erase(fact.id, sources="cut", quotes="keep").state == "completed"


def test_another_users_hold_is_another_users(ledger: Ledger) -> None:
    mine, theirs = ledger.remember("The tin is red."), ledger.bind(user="ada").remember("The tin is red.")
    hold = ledger.bind(user="ada").holds.add()
    assert ledger.holds.list() == [] and [each.id for each in ledger.bind(user="ada").holds.list()] == [hold.id]
    for wrong in (lambda: ledger.holds.remove(hold.id), lambda: ledger.holds.add(theirs.id)):
        with pytest.raises(NotFoundError):
            wrong()
    assert ledger.erase(mine.id).state == "completed"
    held(lambda: ledger.bind(user="ada").erase(EVERYTHING), hold.id)


def test_a_hold_is_neither_undone_nor_lifted_twice(ledger: Ledger) -> None:
    fact = ledger.remember("The tin is red.")
    hold = ledger.holds.add(fact.id)
    with pytest.raises(RejectedError, match="cannot be undone"):
        ledger.undo(hold.position)
    ledger.holds.remove(hold.id)
    for given in (hold.id, fact.id, "m_0000000000000000", "nonsense", ""):
        with pytest.raises((NotFoundError, RejectedError)):
            ledger.holds.remove(given)


def test_with_a_key_a_hold_is_placed_and_lifted_once(ledger: Ledger) -> None:
    fact = ledger.remember("The tin is red.")
    hold = ledger.holds.add(fact.id, idempotency_key="h")
    assert ledger.holds.add(fact.id, idempotency_key="h").replayed
    assert ledger.holds.remove(hold.id, idempotency_key="l").id == hold.id
    again = ledger.holds.remove(hold.id, idempotency_key="l")
    assert (again.id, again.replayed) == (hold.id, True)


def test_a_part_is_held_with_its_whole_and_the_refusal_says_so(ledger: Ledger) -> None:
    notes = ledger.documents.add("# Boats\n\nA ketch has two masts.\n", title="Boats")
    chat = ledger.session("harbour")
    for number in range(40):
        chat.append("user", f"I sail on Sundays, trip number {number}, and I prefer the west coast.")
        chat.append("assistant", "Noted.")
    summary = chat.compact(summarizer=lambda request: "They sail.").created[0].id
    chunk = notes.chunks[0].id
    message = chat.messages()[0].id
    for part, whole in ((chunk, "document"), (summary, "session"), (message, "session")):
        with pytest.raises(NotFoundError, match=f"is held with its {whole}"):
            ledger.holds.add(part)
    with pytest.raises(NotFoundError, match="a chunk goes by the position of its event"):
        ledger.erase(chunk)
    for type_, whole in (("ChunkAdded", notes.id), ("SummaryCreated", chat.id)):
        at = ledger.history.audit(type=type_)[0].position
        held(lambda at=at: ledger.erase(Event(at)), ledger.holds.add(whole).id)  # type: ignore[misc]
