"""Legal holds: what is on hold cannot be erased, alone or as part of something else, until the hold is lifted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from old_names import Ledger

from ledger import NotFoundError, RejectedError

Erase = Callable[[], Any]


def held(erase: Erase, by: str) -> None:
    with pytest.raises(RejectedError) as refusal:
        erase()
    assert refusal.value.rule == "hold" and by in str(refusal.value)


def test_what_is_on_hold_stays_until_it_is_lifted(ledger: Ledger) -> None:
    fact = ledger.remember("The tin is red.")
    hold = ledger.hold(fact.id, "case 12")
    assert (hold.subject, hold.user, hold.reason, hold.absorbed) == (fact.id, "", "case 12", False)
    held(lambda: ledger.erase(fact.id), hold.id)
    now = ledger.memory(fact.id)
    assert now is not None and now.content == "The tin is red."
    assert [each.id for each in ledger.holds()] == [hold.id]
    assert ledger.lift_hold(hold.id, "closed").id == hold.id
    assert ledger.holds() == [] and ledger.erase(fact.id).state == "completed"


def test_a_refused_erasure_is_on_record_once(ledger: Ledger) -> None:
    fact = ledger.remember("The tin is red.")
    ledger.hold(fact.id)
    for _ in range(2):
        held(lambda: ledger.erase(fact.id), fact.id)
    (refusal,) = ledger.refusals()
    assert (refusal.rule, refusal.command, refusal.subject) == ("hold", "erase", fact.id)


def test_holding_what_is_held_writes_nothing(ledger: Ledger) -> None:
    fact = ledger.remember("The tin is red.")
    first, position = ledger.hold(fact.id), ledger.position
    again = ledger.hold(fact.id[:9])
    assert (again.id, again.absorbed, ledger.position) == (first.id, True, position)


@pytest.mark.parametrize("what", ["memory", "session", "project", "user"])
def test_a_hold_covers_what_belongs_to_it_and_nothing_else(ledger: Ledger, what: str) -> None:
    fact = ledger.remember("The tin is red.", session_id="monday", project="kitchen")
    other = ledger.remember("The jar is blue.", session_id="tuesday", project="cellar")
    subject = {"memory": {"subject": fact.id}, "session": {"session": "monday"}, "project": {"project": "kitchen"}}
    hold = ledger.hold(**subject.get(what, {}))
    for erase in (
        lambda: ledger.erase(fact.id),
        lambda: ledger.erase(fact.position),
        lambda: ledger.erase(session="monday"),
        lambda: ledger.erase(project="kitchen"),
        lambda: ledger.erase(user=""),
    ):
        held(erase, hold.id)
    if what == "user":
        held(lambda: ledger.erase(other.id), hold.id)
    else:
        assert ledger.erase(other.id).state == "completed"
    assert ledger.lift_hold(hold.id).subject == hold.subject
    assert ledger.erase(session="monday").state == "completed"


def test_what_the_lists_would_take_is_held_too(ledger: Ledger) -> None:
    turn = ledger.capture("Where?", "The tin is red and dented.", reinforce=False)
    fact = ledger.remember("The tin is red and dented.", source=turn.id)
    quote = ledger.remember("He says: the tin is red and dented.")
    hold = ledger.hold(quote.id)
    for choice in ("erase", "cut"):
        held(lambda choice=choice: ledger.erase(fact.id, sources="cut", quotes=choice), hold.id)  # type: ignore[misc]
    assert ledger.erase(fact.id, sources="cut", quotes="keep").state == "completed"


def test_another_users_hold_is_another_users(ledger: Ledger) -> None:
    mine, theirs = ledger.remember("The tin is red."), ledger.remember("The tin is red.", user="ada")
    hold = ledger.hold(user="ada")
    assert ledger.holds() == [] and [each.id for each in ledger.holds(user="ada")] == [hold.id]
    for wrong in (lambda: ledger.lift_hold(hold.id), lambda: ledger.hold(theirs.id)):
        with pytest.raises(NotFoundError):
            wrong()
    assert ledger.erase(mine.id).state == "completed"
    held(lambda: ledger.erase(user="ada"), hold.id)


def test_a_hold_is_neither_undone_nor_lifted_twice(ledger: Ledger) -> None:
    fact = ledger.remember("The tin is red.")
    hold = ledger.hold(fact.id)
    with pytest.raises(RejectedError, match="cannot be undone"):
        ledger.undo(hold.position)
    ledger.lift_hold(hold.id)
    for given in (hold.id, fact.id, "m_0000000000000000", "nonsense", ""):
        with pytest.raises((NotFoundError, RejectedError)):
            ledger.lift_hold(given)


def test_with_a_key_a_hold_is_placed_and_lifted_once(ledger: Ledger) -> None:
    fact = ledger.remember("The tin is red.")
    hold = ledger.hold(fact.id, key="h")
    assert ledger.hold(fact.id, key="h").replayed
    assert ledger.lift_hold(hold.id, key="l").id == hold.id
    again = ledger.lift_hold(hold.id, key="l")
    assert (again.id, again.replayed) == (hold.id, True)


def test_a_part_is_held_with_its_whole_and_the_refusal_says_so(ledger: Ledger) -> None:
    notes = ledger.ingest("# Boats\n\nA ketch has two masts.\n", title="Boats")
    chat = ledger.session("harbour")
    for number in range(40):
        chat.append("user", f"I sail on Sundays, trip number {number}, and I prefer the west coast.")
        chat.append("assistant", "Noted.")
    summary = chat.compact(summarizer=lambda request: "They sail.").created[0].id
    chunk = notes.chunks[0].id
    for part, whole in ((chunk, "document"), (summary, "session")):
        with pytest.raises(NotFoundError, match=f"is held with its {whole}"):
            ledger.hold(part)
    with pytest.raises(NotFoundError, match="a chunk goes by the position of its event"):
        ledger.erase(chunk)
    for type_, whole in (("ChunkAdded", notes.id), ("SummaryCreated", chat.id)):
        at = ledger.audit(type=type_)[0].position
        held(lambda at=at: ledger.erase(at), ledger.hold(whole).id)  # type: ignore[misc]
