"""Turns and messages in which memories were found elsewhere: an import brings both, and no extraction looks again."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger, RejectedError

TEA = "I prefer green tea over coffee."


def failing(request: object) -> str:
    raise OSError("no model")


def test_the_jobs_pass_over_a_turn_that_counts_as_extracted(ledger: Ledger) -> None:
    turn = ledger.capture(TEA, "Noted.", extract=False)
    ledger.jobs.run()
    assert (turn.extraction, ledger.interactions.get(turn.id).extraction) == ("off", "off")
    assert list(ledger.memories.list(statuses=())) == []
    (found,) = ledger.extract(turn.id).kept
    assert found.content.startswith("The user prefers green tea")
    assert ledger.interactions.get(turn.id).extraction == "done"


def test_an_extraction_of_the_session_passes_over_such_a_turn(ledger: Ledger) -> None:
    ledger.capture(TEA, "Noted.", session="s", append=True, extract=False)
    ledger.capture("I live in Porto.", "Noted.", session="s", append=True)
    kept = ledger.session("s").extract().kept
    assert kept and not [memory for memory in kept if "tea" in (memory.content or "")]
    assert ledger.session("s").extract(since=0).kept == ()


def test_a_later_response_does_not_extract_a_turn_captured_without_extraction(ledger: Ledger) -> None:
    turn = ledger.capture(TEA, extract=False)
    assert ledger.interactions.add_response(turn.id, "Noted.").extraction == "off"
    ledger.maintenance.rebuild()
    assert ledger.interactions.get(turn.id).extraction == "off"


def test_a_failed_extraction_leaves_a_turn_off_that_was_captured_without_extraction(ledger: Ledger) -> None:
    turn = ledger.capture(TEA, "Noted.", extract=False)
    with pytest.raises(Exception, match=r"OSError|model"):
        ledger.extract(turn.id, model=failing)
    assert ledger.interactions.get(turn.id).extraction == "off"


def test_the_undo_of_an_extraction_on_request_leaves_such_a_turn_closed(ledger: Ledger) -> None:
    turn = ledger.capture(TEA, "Noted.", extract=False)
    (found,) = ledger.extract(turn.id).kept
    ledger.undo(found.position)
    ledger.jobs.run()
    assert ledger.interactions.get(turn.id).extraction == "off"


def test_an_erased_turn_that_counted_as_extracted_is_erased(ledger: Ledger) -> None:
    turn = ledger.capture(TEA, "Noted.", extract=False)
    ledger.erase(turn.id)
    assert ledger.interactions.get(turn.id).extraction == "erased"


def test_a_key_means_one_way_of_capturing(ledger: Ledger) -> None:
    ledger.capture(TEA, "Noted.", extract=False, idempotency_key="k")
    assert ledger.capture(TEA, "Noted.", extract=False, idempotency_key="k").replayed
    with pytest.raises(Exception, match="key"):
        ledger.capture(TEA, "Noted.", idempotency_key="k")


@pytest.mark.parametrize("wrong", [0, None, "no"])
def test_extract_is_true_or_false(ledger: Ledger, wrong: Any) -> None:
    with pytest.raises(RejectedError, match="extract"):
        ledger.capture(TEA, extract=wrong)


def test_the_messages_of_an_import_are_passed_over_in_the_same_commit(ledger: Ledger) -> None:
    session = ledger.session("old")
    with ledger.batch():
        session.append("user", TEA, occurred_at="2024-03-01")
        last = session.append("assistant", "Noted.", occurred_at="2024-03-01")
        session.skip_extraction(until=last.position)
    ledger.jobs.run()
    assert list(ledger.memories.list(statuses=())) == []
    session.append("user", "I live in Porto.")
    assert [memory.content for memory in session.extract().kept] == ["The user lives in Porto"]
