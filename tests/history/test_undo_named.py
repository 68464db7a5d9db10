"""What an undo is asked for, and what it says when nothing is named by it."""

from __future__ import annotations

import pytest

from ledger import Ledger, NotFoundError

pytestmark = pytest.mark.ledger(actor="ann")


def test_a_group_may_be_those_of_one_actor_and_a_report_names_whose_commands_they_were(ledger: Ledger) -> None:
    kept = ledger.remember("The user plays chess.")
    gone = ledger.bind(actor="bob").remember("The user plays the flute.")
    everybody = ledger.history.undo_all(since="1d", dry_run=True)
    assert everybody.actors == ("ann", "bob")
    report = ledger.history.undo_all(by="bob")
    assert (report.actors, report.subjects) == (("bob",), (gone.id,))
    assert [each.id for each in ledger.memories.list()] == [kept.id]
    with pytest.raises(NotFoundError, match="no command of this user is in that group"):
        ledger.history.undo_all(by="nobody")


def test_an_id_of_a_memory_is_no_command_and_the_answer_says_where_its_commands_are(ledger: Ledger) -> None:
    fact = ledger.remember("The user plays chess.")
    with pytest.raises(NotFoundError, match=r"it is a subject, and its last command \(remember\) is at position \d+"):
        ledger.undo(fact.id)
    with pytest.raises(NotFoundError, match=r"history.undo_all\(\) takes a session, a verb or an actor"):
        ledger.undo("remember")
