"""The first mistakes of a newcomer: each error says what was given, and what would have been allowed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from ledger import Ledger, NotFoundError, RejectedError


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda ledger: ledger.remember("Tea.", occurred_at="01.02.2024"), "a date like 2026-11-21"),
        (lambda ledger: ledger.memories.list(since="03/04/2024"), "a date like 2026-11-21"),
        (lambda ledger: ledger.remember("Tea.", occurred_at=1_700_000_000), "a datetime or a date, not int"),
        (lambda ledger: ledger.remember("Tea.", idempotency_key=""), "^idempotency_key is blank"),
        (lambda ledger: ledger.session("monday").window(0), "^budget is a whole number above 0, and 0 is not$"),
        (lambda ledger: ledger.proof.prove(-1), "^position counts from 1, and -1 is no position"),
        (lambda ledger: ledger.history.distrust("x", kind="y"), "^kind cannot be 'y'; there are: actor, client"),
        (lambda ledger: ledger.history.distrust("x"), "^the kind of 'x' is needed: one of actor, client"),
    ],
)
def test_an_error_names_the_argument_and_says_what_is_allowed(
    ledger: Ledger, call: Callable[[Ledger], object], advice: str
) -> None:
    with pytest.raises(RejectedError, match=advice):
        call(ledger)


def test_a_wrong_status_of_a_recall_is_answered_with_the_statuses_that_recall_takes(ledger: Ledger) -> None:
    with pytest.raises(RejectedError) as error:
        ledger.recall("tea", statuses=["actve"])
    assert str(error.value) == "statuses cannot be 'actve'; there are: active, superseded, invalid, retracted, erased"


def test_a_belief_named_by_the_id_of_another_kind_is_answered_with_the_kind_and_its_history(ledger: Ledger) -> None:
    turn = ledger.capture("Hello", "Hi")
    session = ledger.session("chat")
    session.append("user", "Hello")
    message, value = session.messages()[0], ledger.values.put(("notes",), "k", "x")
    for id, advice in (
        (turn.id, "'i_' begins the id of an interaction: history.events(id) lists its events"),
        (session.id, "'s_' begins the id of a session: history.events(id) lists its events"),
        (value.id, "'v_' begins the id of a value: history.events(id) lists its events"),
        (message.id, f"this is the id of a message: history.events({session.id!r}) lists the events of its session"),
        ("c_4", "'c_' begins the id of a chunk"),
        ("tea", "the id of a memory begins with 'm_', and recall(query) finds memories by their words"),
    ):
        for call, kinds in (
            (ledger.why, "memory or observation"),
            (ledger.history.blame, "memory or observation"),
            (ledger.memories.get, "memory"),
            (ledger.retract, "memory"),
        ):
            if (call, id) == (ledger.why, value.id):
                continue  # it explains values too
            with pytest.raises(NotFoundError) as error:
                call(id)
            assert str(error.value) == f"no {kinds} of this user has the id {id!r}; {advice}"
    for subject in (turn.id, session.id, value.id):
        assert ledger.history.events(subject)
    with pytest.raises(NotFoundError, match=r"no memory or observation of this user has the id 'm_0'$"):
        ledger.why("m_0")


def test_a_date_object_is_taken_where_the_message_says_so(ledger: Ledger) -> None:
    assert ledger.remember("Tea.", occurred_at=date(2024, 1, 1)).valid_from == "2024-01-01T00:00:00.000000Z"


def test_an_undo_of_a_wrong_position_says_where_positions_are_listed(ledger: Ledger) -> None:
    others = ledger.bind(user="ben").remember("Ben drinks rum.").position
    for position, shown in ((others, others), (others + 9, others + 9), (0, 0), (-1, -1), (10**30, "…")):
        with pytest.raises(NotFoundError) as error:
            ledger.undo(position)
        advice = "history.audit() lists commands with their positions"
        assert str(error.value) == f"no command of this user wrote at position {shown}; {advice}"


def test_a_ledger_in_memory_is_pointed_to_the_temporary_one() -> None:
    with pytest.raises(RejectedError, match=r"':memory:' names no file; Ledger\.temporary\(\) opens one"):
        Ledger.open(":memory:")


def test_a_text_that_names_a_file_is_added_with_a_warning(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.md").write_text("# Tea\n\nAda likes it green.\n", encoding="utf-8")
    added = ledger.documents.add("notes.md")
    advice = "the text 'notes.md' was added, and not the file of this name; Path('notes.md') adds the file"
    assert (added.size, added.warnings) == (8, (advice,))
    assert ledger.documents.add("missing.md").warnings == ()
    assert ledger.documents.add("notes.md\nare here").warnings == ()
    assert ledger.documents.add(Path("notes.md")).warnings == ()
