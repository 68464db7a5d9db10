"""A ledger with sessions: exported and taken in again, backed up and recovered, examined, and explained."""

from __future__ import annotations

from pathlib import Path

import probe
import pytest
from conversations import check_window, condensed, items, rewritten, standing, summed
from full import full
from old_names import Ledger
from soundness import assert_sound

from ledger import RejectedError


@pytest.fixture
def lived(ledger: Ledger) -> Ledger:
    """Two conversations that something of everything happened to."""
    session = ledger.session("talk", project="kitchen")
    for each in range(10):
        session.append("user", f"Word number {each}.", key=f"k{each}")
    session.append(
        "assistant", "", parts=[{"type": "tool_use", "id": "c1", "name": "look", "arguments": {"at": "tea"}}]
    )
    session.append("tool", parts=[{"type": "tool_result", "id": "c1", "text": "x" * 300_000}])
    ledger.capture("And?", "Nothing.", session_id="talk", append=True, project="kitchen")
    for each in (0, 1, 2):
        summed(session, each, each + 1, f"They spoke, {each}.")
    summed(session, 3, 4, "y" * 300_000)
    top = condensed(session, 0, 1)
    rewritten(session, top)
    session.invalidate_summary(session.summaries()[2].id, "it missed the point")
    session.set_summary("All in all.")
    session.truncate(9)
    other = ledger.session("other")
    other.append("user", "Elsewhere.")
    other.add_alias("there")
    ledger.undo(other.append("user", "A slip.").position)
    ledger.erase(session.messages()[3].position, derived="erase", quotes="keep")
    return ledger


def told(ledger: Ledger) -> object:
    talk, other = ledger.session("talk"), ledger.session("there")
    each = [(s.messages(hidden=True), s.summaries(), s.info(), items(s), s.summary) for s in (talk, other)]
    return each, ledger.sessions()


@pytest.mark.slow
def test_an_exported_log_with_sessions_comes_back_as_the_same_ledger(lived: Ledger, tmp_path: Path) -> None:
    report = lived.export_file(tmp_path / "export.jsonl")
    Ledger.import_log(report.path, tmp_path / "copy.db")
    with Ledger.open(tmp_path / "copy.db") as copy:
        assert (copy.position, copy.digest(), told(copy)) == (lived.position, lived.digest(), told(lived))
        assert copy.session("talk").append("user", "Word number 3.", key="k3").replayed
        copy.session("talk").append("user", "And on.")
        check_window(copy, "talk")
        assert_sound(copy)


@pytest.mark.slow
def test_a_backup_with_sessions_is_recovered_with_the_certificates(lived: Ledger, tmp_path: Path) -> None:
    lived.backup(tmp_path / "backup.db")
    gone = lived.session("talk").messages()[2]
    lived.erase(gone.position, derived="erase", sources="erase", quotes="erase")
    Ledger.recover(tmp_path / "backup.db", tmp_path / "again.db", certificates=lived.certificates())
    with Ledger.open(tmp_path / "again.db") as again:
        message = again.session("talk").message(gone.position)
        assert message is not None and message.content is None
        assert standing(again.session("talk")) == standing(lived.session("talk"))
        check_window(again, "talk")
        assert again.verify(full=True).ok


@pytest.mark.slow
def test_a_doctor_finds_nothing_and_says_what_is_wrong_with_the_tables_of_sessions(lived: Ledger) -> None:
    assert lived.doctor().ok
    before = told(lived)
    with probe.store(lived).transact() as transaction:
        transaction.connection.execute("UPDATE summaries SET status = 'window'")
        transaction.connection.execute("DELETE FROM hidden_messages")
    report = lived.doctor()
    assert not report.ok and "summaries" in full(report.findings)
    probe.rebuild(lived)
    assert lived.doctor().ok and told(lived) == before


@pytest.mark.slow
def test_the_trail_tells_of_sessions_and_summaries(lived: Ledger) -> None:
    session = lived.session("talk")
    steps = lived.history(session.id or "")
    assert steps is not None and steps[0].type == "SessionOpened" and "MessagesHidden" in {each.type for each in steps}
    assert lived.audit(subject=session.id)[-1].type == "SessionOpened"
    assert {each.session for each in lived.audit(session_id="talk")} == {"talk"}
    third = session.summaries()[2]
    made = lived.history(third.id)
    assert made is not None
    assert [each.type for each in made] == ["SummaryCreated", "ContextReplaced", "SummaryInvalidated"]
    assert (made[0].data["model"], made[-1].because) == ("small", "it missed the point")
    assert lived.history(third.id, user="bob") is None and lived.history("y_0000000000000000") is None
    assert lived.why(session.id or "") is None and lived.why(third.id) is None
    with pytest.raises(RejectedError, match="history"):
        lived.audit(subject=third.id)
    before = lived.at(made[-1].position - 1).history(third.id)
    assert before is not None and len(before) == 2
