"""What an agent's loop may rely on: nothing is lost by a slip, the first turn has a receipt, and the past reads whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger import Ledger, RejectedError, Session
from ledger.sessions.transcripts import outside

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        yield ledger


@pytest.fixture
def chat(memory: Ledger) -> Session:
    session = memory.session("chat")
    for number in range(6):
        session.append("user" if number % 2 == 0 else "assistant", f"Message {number} of the talk.")
    return session


# --- a slip loses nothing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [-1, -6, -(2**70)])
def test_fewer_than_no_messages_cannot_be_kept(memory: Ledger, chat: Session, keep: int) -> None:
    before = memory.position
    with pytest.raises(RejectedError, match="keep is a whole number from 0") as refused:
        chat.truncate(keep)
    assert (refused.value.rule, refused.value.limit) == ("keep", 0) and memory.position == before
    assert chat.truncate(0).hidden == 6, "and 0 hides all"


@pytest.mark.parametrize("nothing", [[], (), iter([]), [{"role": "user", "content": " "}]])
def test_a_transcript_of_nothing_changes_nothing_and_says_so(memory: Ledger, chat: Session, nothing: object) -> None:
    given, before = list(nothing), memory.position  # type: ignore[call-overload]
    for dry_run in (True, False):
        change = chat.reconcile(given, dry_run=dry_run)
        assert (change.change, change.skipped, change.hidden, change.dry_run) == ("none", "empty", 0, dry_run)
        assert change.left_out == len(given)
    assert memory.position == before and len(chat.messages()) == 6
    assert chat.clear().hidden == 6, "clear() is the explicit way"


@pytest.mark.parametrize("bad", [None, "text", b"[]", {"role": "user"}, [None], [{"role": "robot", "content": "x"}], 5])
def test_a_transcript_that_cannot_be_read_changes_nothing_and_says_so(
    memory: Ledger, chat: Session, bad: object
) -> None:
    before = memory.position
    for dry_run in (True, False):
        with pytest.raises(RejectedError, match="transcript"):
            chat.reconcile(bad, dry_run=dry_run)  # type: ignore[arg-type]
    assert memory.position == before and len(chat.messages()) == 6


def test_a_transcript_that_breaks_off_while_it_is_read_changes_nothing(memory: Ledger, chat: Session) -> None:
    def broken() -> Iterator[dict[str, str]]:
        yield {"role": "user", "content": "Something else."}
        raise OSError("the disk is gone")

    before = memory.position
    with pytest.raises(OSError, match="the disk"):
        chat.reconcile(broken())
    assert memory.position == before and len(chat.messages()) == 6


# --- a session's first turn ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [None, "what does the user drink?"])
def test_the_window_of_a_sessions_first_turn_has_a_receipt(memory: Ledger, query: str | None) -> None:
    memory.remember("The user drinks green tea.")
    session = memory.session("new", project="kitchen")
    window = session.window(1_000, query=query, receipt=True)
    assert window.receipt and window.entries == () and len(window.memories) == (query is not None)
    session.append("user", "What shall I drink?")
    again = session.reopen(window.receipt)
    assert (again.entries, again.used, again.memories) == (window.entries, window.used, window.memories)
    assert session.info().project == "kitchen" and session.info().messages == 1
    assert memory.sessions.get("new").id == session.id, "one session, not two"
    assert memory.proof.verify().ok


def test_a_receipt_of_a_session_that_a_pattern_keeps_out_is_refused_still(memory: Ledger) -> None:
    with pytest.raises(RejectedError, match="ignored"):
        memory.session("heartbeat").window(1_000, receipt=True)


# --- messages in the form of a transcript ----------------------------------------------------------------------------


def test_append_takes_calls_and_results_as_a_transcript_has_them(memory: Ledger) -> None:
    told = [
        {"role": "user", "content": "What is the weather?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
        {"role": "tool", "content": "It rains.", "tool_call_id": "call_1"},
        {"role": "assistant", "content": "", "tool_calls": [CALL | {"id": "call_2"}, CALL | {"id": "call_3"}]},
        {"role": "tool", "content": "", "tool_call_id": "call_2"},
    ]
    one, other = memory.session("appended"), memory.session("reconciled")
    for message in told:
        one.append(**message)  # type: ignore[arg-type]
    other.reconcile(told)
    shown = [[(each.role, each.content, each.parts, each.tokens) for each in s.messages()] for s in (one, other)]
    assert shown[0] == shown[1]
    assert one.reconcile(told).change == "none", "nothing differs"
    assert one.window(10_000).render().messages == other.window(10_000).render().messages
    lines, _ = outside(told)
    assert [line.draft.role for line in lines] == [each["role"] for each in told]


@pytest.mark.parametrize("bad", ["call_1", [CALL["function"]], [{"id": "x"}], 7])
def test_calls_that_are_none_are_refused(memory: Ledger, bad: object) -> None:
    with pytest.raises(RejectedError):
        memory.session("chat").append("assistant", "x", tool_calls=bad)  # type: ignore[arg-type]
    assert memory.session("chat").id is None


# --- the past --------------------------------------------------------------------------------------------------------


def test_a_session_of_the_past_is_read_whole(memory: Ledger) -> None:
    memory.remember("Ships carry green tea.")
    session = memory.session("harbor")
    for day in range(40):
        session.append("user", f"Which ship comes on day {day}?")
        session.append("assistant", f"Ship number {day} comes; it carries tea.")
    summary = session.compact(summarizer=lambda request: "Ships came every day.").created[0]
    then, position = session.window(10_000, query="what do ships carry?"), memory.position
    grepped, expanded = session.grep('"ship number 3"'), session.expand(summary.id, budget=10_000)
    session.clear()
    memory.retract(then.memory_ids[0])
    session.append("user", "Something else.")
    past = memory.at(position).session("harbor")
    window = past.window(10_000, query="what do ships carry?")
    assert (window.entries, window.memories, window.used) == (then.entries, then.memories, then.used)
    assert window.render() == then.render()
    assert [hit.position for hit in past.grep('"ship number 3"')] == [hit.position for hit in grepped] != []
    assert [each.content for each in past.expand(summary.id, budget=10_000).messages] == [
        each.content for each in expanded.messages
    ]
    assert past.expand(summary.id, budget=10_000).rest == expanded.rest
    assert [hit.position for hit in memory.at(position).sessions.grep('"ship number 3"')] == [
        hit.position for hit in grepped
    ]
    assert past.summaries.list()[0].status == "window" and len(past.items()) == len(then.entries)
    assert len(session.window(10_000).entries) == 1 and list(session.grep('"ship number 3"')) == []
