"""What an agent's loop may rely on: nothing is lost by a slip, the first turn has a receipt, and the past reads whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from providers import check_anthropic, check_openai

from ledger import Ledger, RejectedError, Session
from ledger.sessions.transcripts import outside
from tools.evaluate import evaluate_windows

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
    window = session.window(1_000, question=query, receipt=True)
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
def test_append_refuses_invalid_tool_calls(memory: Ledger, bad: object) -> None:
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
    then, position = session.window(10_000, question="what do ships carry?"), memory.position
    grepped, expanded = session.grep('"ship number 3"'), session.expand(summary.id, budget=10_000)
    session.clear()
    memory.retract(then.memory_ids[0])
    session.append("user", "Something else.")
    past = memory.at(position).session("harbor")
    window = past.window(10_000, question="what do ships carry?")
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


# --- the documented loop ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [4_000, 6_000])
def test_the_documented_loop_keeps_the_past(budget: int) -> None:
    """After every turn compact(budget) and window(budget): all that was said is in the window, or under a summary in it."""
    talk = [
        {"role": ("user", "assistant")[number % 2], "content": f"{number}: {evaluate_windows.words(60, number)}"}
        for number in range(120)
    ]
    seen = evaluate_windows.play("talk", talk, budget)
    assert seen.compacted and (seen.without_summary, seen.evicted, seen.over_budget, seen.lost_requests) == (0, 0, 0, 0)
    assert seen.least == 1.0 and seen.direct < 0.7, "and not because everything fits"


def test_an_agent_with_many_calls_in_one_turn_keeps_its_request_and_its_past() -> None:
    seen = evaluate_windows.play("coding", evaluate_windows.coding(calls=25, tokens=700, talk=20), 4_000)
    assert seen.ok and (seen.lost_requests, seen.over_budget, seen.without_summary) == (0, 0, 0)
    assert seen.last == 1.0 and seen.least >= 0.9


def test_the_tail_is_compacted_only_where_it_alone_is_over_three_quarters_of_the_budget(memory: Ledger) -> None:
    session = memory.session("chat")
    for number in range(20):
        session.append(("user", "assistant")[number % 2], evaluate_windows.words(90, number), token_count=100)
    tail = session.info().window_tokens
    assert session.compact(tail * 4 // 3 + 1, summarizer=evaluate_windows.first_words).created == ()
    report = session.compact(tail * 4 // 3 - 1, summarizer=evaluate_windows.first_words)
    (summary,) = report.created
    assert report.under and 2 <= summary.messages <= 10, "what half of the budget holds stays"


def test_no_compaction_summarizes_the_turn_under_way_while_anything_older_is_left(memory: Ledger) -> None:
    session = memory.session("chat")
    for message in evaluate_windows.coding(calls=40, tokens=400, talk=10):
        session.append(**message)
    request = session.grep('"why the build fails"')[0].position
    summarize = evaluate_windows.first_words
    older = True
    for _ in range(60):
        report = session.compact(2_000, summarizer=summarize)
        for made in report.created:
            (first, last), *_ = made.ranges
            assert not first <= request <= last, "the request itself is in no summary"
            assert not (older and first > request), "older messages come first"
            messages = [item.place for item in session.items() if not item.is_summary]
            older = any(place < request for place in messages) and older
        assert request in [item.position for item in session.items()]
        if not report.created:
            break
    assert any(made.ranges[0][0] > request for made in session.summaries.list()), "and the turn at last"
    assert {each.item.position: each.content for each in session.window(2_000).entries}[request].startswith("Find out")


# --- the turn under way ----------------------------------------------------------------------------------------------


def long_turn(session: Session, calls: int = 40, tokens: int = 300) -> None:
    for message in evaluate_windows.coding(calls, tokens, talk=0):
        session.append(**message)


@pytest.mark.parametrize("unit", ["tokens", "chars"])
@pytest.mark.parametrize("budget", [600, 2_000, 6_000, 10**6])
def test_the_users_request_stays_however_many_calls_follow(memory: Ledger, budget: int, unit: str) -> None:
    session = memory.session("chat")
    session.append("user", "Hello."), session.append("assistant", "Hello, what shall I do?")
    long_turn(session)
    request = session.grep('"why the build fails"')[0].position
    window = session.window(budget, unit=unit, receipt=True)  # type: ignore[arg-type]
    entries = {each.item.position: each for each in window.entries}
    assert entries[request].content == "Find out why the build fails, and mend it without touching the tests."
    assert window.used <= budget and not window.over_budget
    assert window.entries[-1].item.results == ("call_39",), "the newest result"
    check_openai(window.render().messages), check_anthropic(window.render("anthropic").messages)
    assert session.reopen(window.receipt) == window, "shortened texts too"


def test_the_oldest_results_are_shortened_first_marked_and_whole_in_the_log(memory: Ledger) -> None:
    session = memory.session("chat")
    long_turn(session, calls=10)
    window = session.window(2_500, receipt=True)
    results = [each for each in window.entries if each.item.results]
    cut = [each.shortened is not None for each in results]
    assert len(results) == 10 and cut == sorted(cut, reverse=True) and any(cut) and not all(cut)
    assert "results_shortened" in window.reasons and window.used <= 2_500
    for each, whole in zip(results, (session.message(each.item.position) for each in results), strict=True):
        if each.shortened is not None:
            text, _, mark = each.content.rpartition("\n")
            assert whole.content.startswith(text) and len(text) == each.shortened
            left = f"{len(whole.content) - each.shortened:,}"
            assert mark == f"[shortened: {left} more characters in message {each.item.position}]"
            assert mark in str(window.render().messages) and mark in str(window.render("anthropic").messages)
    session.append("user", "Thanks.")
    assert session.reopen(window.receipt) == window


def test_a_request_that_alone_is_over_the_budget_is_there_and_it_is_said(memory: Ledger) -> None:
    session = memory.session("chat")
    session.append("user", "Before."), session.append("assistant", "Yes.")
    long = session.append("user", evaluate_windows.words(900, 0))
    session.append("assistant", "I look.", tool_calls=[CALL])
    session.append("tool", evaluate_windows.words(500, 1), tool_call_id="call_1")
    window = session.window(500)
    assert window.over_budget and window.reasons[0] == "turn_over_budget"
    assert window.entries[0].content == long.content and window.entries[-1].shortened is not None
    assert [each.item.role for each in window.entries] == ["user", "assistant", "tool"]


# --- memories --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [100, 614, 690, 740, 749, 750, 900])
@pytest.mark.parametrize("query", [None, "which tea does the user drink?"])
def test_memories_take_what_the_conversation_leaves(memory: Ledger, query: str | None, turn: int) -> None:
    for number in range(30):
        memory.remember(
            f"The user drinks tea number {number} every day of the week, but for the {number}th of a month."
        )
    session = memory.session("chat")
    session.append("user", evaluate_windows.words(600, 0), token_count=turn)
    for share in (0.25, 0.9):
        window = session.window(750, question=query, share=share, receipt=True)
        assert window.over_budget == (turn > 750) and (window.used <= 750 or turn > 750)
        assert len(window.entries) == 1 and window.reasons == (("turn_over_budget",) if turn > 750 else ())
        assert bool(window.memories) == (turn < 700)
        assert session.reopen(window.receipt).memories == window.memories


def test_what_a_long_turn_takes_is_shortened_before_memories_are_left_out(memory: Ledger) -> None:
    memory.remember("The build fails where the cache is stale.")
    session = memory.session("chat")
    long_turn(session, calls=12)
    window = session.window(2_500, question="why does the build fail?")
    assert window.memories and window.used <= 2_500 and "results_shortened" in window.reasons
