"""A ledger with sessions: exported and taken in again, backed up and recovered, examined, and explained."""

from __future__ import annotations

from pathlib import Path

import probe
import pytest
from absence import absent
from conversations import check_window, condensed, items, rewritten, standing, summed
from full import full
from soundness import assert_sound

from ledger import Ledger, RejectedError
from ledger.types import Event


@pytest.fixture
def lived(ledger: Ledger) -> Ledger:
    """Two conversations that something of everything happened to."""
    session = ledger.session("talk", project="kitchen")
    for each in range(10):
        session.append("user", f"Word number {each}.", idempotency_key=f"k{each}")
    session.append(
        "assistant", "", parts=[{"type": "tool_use", "id": "c1", "name": "look", "arguments": {"at": "tea"}}]
    )
    session.append("tool", parts=[{"type": "tool_result", "id": "c1", "text": "x" * 300_000}])
    ledger.capture("And?", "Nothing.", session="talk", append=True, project="kitchen")
    for each in (0, 1, 2):
        summed(session, each, each + 1, f"They spoke, {each}.")
    summed(session, 3, 4, "y" * 300_000)
    top = condensed(session, 0, 1)
    rewritten(session, top)
    session.summaries.invalidate(session.summaries.list()[::-1][2].id, reason="it missed the point")
    session.set_abstract("All in all.")
    session.truncate(9)
    other = ledger.session("other")
    other.append("user", "Elsewhere.")
    other.add_alias("there")
    ledger.undo(other.append("user", "A slip.").position)
    ledger.erase(Event(session.messages()[3].position), derived="erase", quotes="keep")
    return ledger


def told(ledger: Ledger) -> object:
    talk, other = ledger.session("talk"), ledger.session("there")
    each = [
        (s.messages(include_hidden=True), s.summaries.list(), s.info(), items(s), s.abstract) for s in (talk, other)
    ]
    return each, ledger.sessions.list()


@pytest.mark.slow
def test_an_exported_log_with_sessions_comes_back_as_the_same_ledger(lived: Ledger, tmp_path: Path) -> None:
    report = lived.maintenance.export_log(tmp_path / "export.jsonl")
    Ledger.import_log(report.path, tmp_path / "copy.db")
    with Ledger.open(tmp_path / "copy.db") as copy:
        assert (copy.position, copy.proof.digest(), told(copy)) == (lived.position, lived.proof.digest(), told(lived))
        assert copy.session("talk").append("user", "Word number 3.", idempotency_key="k3").replayed
        copy.session("talk").append("user", "And on.")
        check_window(copy, "talk")
        assert_sound(copy)


@pytest.mark.slow
def test_a_backup_with_sessions_is_recovered_with_the_certificates(lived: Ledger, tmp_path: Path) -> None:
    lived.maintenance.backup(tmp_path / "backup.db")
    gone = lived.session("talk").messages()[2]
    lived.erase(Event(gone.position), derived="erase", sources="erase", quotes="erase")
    Ledger.recover(tmp_path / "backup.db", tmp_path / "again.db", certificates=lived.erasures.certificates())
    with Ledger.open(tmp_path / "again.db") as again:
        message = again.session("talk").message(gone.position)
        assert message.content is None
        assert standing(again.session("talk")) == standing(lived.session("talk"))
        check_window(again, "talk")
        assert again.proof.verify(full=True).ok


@pytest.mark.slow
def test_a_doctor_finds_nothing_and_says_what_is_wrong_with_the_tables_of_sessions(lived: Ledger) -> None:
    assert lived.maintenance.doctor().ok
    before = told(lived)
    with probe.store(lived).transact() as transaction:
        transaction.connection.execute("UPDATE summaries SET status = 'window'")
        transaction.connection.execute("DELETE FROM hidden_messages")
    report = lived.maintenance.doctor()
    assert not report.ok and "summaries" in full(report.findings)
    probe.rebuild(lived)
    assert lived.maintenance.doctor().ok and told(lived) == before


@pytest.mark.slow
def test_the_trail_tells_of_sessions_and_summaries(lived: Ledger) -> None:
    session = lived.session("talk")
    steps = lived.history.events(session.id or "")
    assert steps[0].type == "SessionOpened" and "MessagesHidden" in {each.type for each in steps}
    assert lived.history.audit(subject=session.id)[-1].type == "SessionOpened"
    assert {each.session for each in lived.history.audit(session="talk")} == {"talk"}
    third = session.summaries.list()[::-1][2]
    made = lived.history.events(third.id)
    assert [each.type for each in made] == ["SummaryCreated", "ContextReplaced", "SummaryInvalidated"]
    assert (made[0].data["model"], made[-1].because) == ("small", "it missed the point")
    assert absent(lived.bind(user="bob").history.events, third.id) and absent(
        lived.history.events, "y_0000000000000000"
    )
    assert absent(lived.why, session.id or "") and absent(lived.why, third.id)
    with pytest.raises(RejectedError, match="history"):
        lived.history.audit(subject=third.id)
    before = lived.at(made[-1].position - 1).history.events(third.id)
    assert len(before) == 2
