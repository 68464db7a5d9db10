"""Reconciling a session with a transcript kept elsewhere: nothing is done twice, nothing is lost, nothing made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import probe
import pytest
from conftest import Clock
from conversations import PICTURE, RAIN, WEATHER, said, totals_agree
from full import full
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from soundness import assert_sound, events_of

from ledger import ConflictError, Ledger, RejectedError
from ledger.sessions import reconciling
from ledger.types import Event


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text} | more


def assistant(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text} | more


def lines(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [(user, assistant)[n % 2](f"message {n}") for n in range(start, start + count)]


CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
CHAT = [
    {"role": "system", "content": "Be kind."},
    user("What is the weather?"),
    {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "I have to look."},
    {"role": "tool", "tool_call_id": "call_1", "content": "It rains."},
    assistant("It rains.", model="m-1"),
]


# --- bootstrap -------------------------------------------------------------------------------------------------------


def test_an_empty_transcript_of_an_empty_session_appends_nothing(ledger: Ledger) -> None:
    found = ledger.session("chat").reconcile([])
    assert (found.change, found.position, found.skipped) == ("none", 0, "empty")
    assert ledger.position == 1 and ledger.session("chat").id is None


def test_an_empty_session_takes_all_and_a_second_time_nothing(ledger: Ledger) -> None:
    session = ledger.session("chat")
    found = session.reconcile(CHAT)
    assert (found.change, found.kept, found.appended, found.hidden) == ("appended", 0, 5, 0)
    assert said(session) == ["Be kind.", "What is the weather?", "", "It rains.", "It rains."]
    read = session.messages()
    assert read[2].parts == (WEATHER | {"arguments": {"city": "Bern"}},) and read[2].reasoning == "I have to look."
    assert read[3].parts == (RAIN,) and read[4].model == "m-1"
    position = ledger.position
    again = session.reconcile(CHAT)
    assert (again.change, again.kept, again.appended, again.repaired) == ("none", 5, 0, 0)
    assert ledger.position == position
    totals_agree(session)


def test_messages_missing_at_the_end_are_appended_in_order(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.reconcile(lines(10))
    before = session.messages()
    found = session.reconcile(lines(25))
    assert (found.change, found.kept, found.appended) == ("appended", 10, 15)
    assert session.messages()[:10] == before and said(session) == [each["content"] for each in lines(25)]


def test_a_different_first_message_replaces_the_whole_session(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.reconcile(lines(10))
    before = ledger.position
    found = session.reconcile([user("another beginning"), *lines(10)[1:]])
    assert (found.change, found.kept, found.appended, found.hidden) == ("replaced", 0, 10, 10)
    assert said(session)[0] == "another beginning" and len(said(session, include_hidden=True)) == 20
    assert said(ledger.at(before).session("chat")) == [each["content"] for each in lines(10)]
    totals_agree(session)


def test_the_same_words_twice_are_two_messages(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.reconcile([user("ok"), user("ok"), user("go")])
    assert session.reconcile([user("ok"), user("ok"), user("ok"), user("go")]).hidden == 1
    assert said(session) == ["ok", "ok", "ok", "go"]
    found = session.reconcile([user("ok"), user("ok")])
    assert (found.change, found.kept, found.hidden) == ("replaced", 2, 2) and said(session) == ["ok", "ok"]


@pytest.mark.parametrize(
    ("at", "other"),
    [
        (2, {"role": "assistant", "content": None, "tool_calls": [CALL | {"id": "call_2"}]}),
        (2, {"role": "assistant", "content": None, "tool_calls": [CALL, CALL | {"id": "call_2"}]}),
        (2, {"role": "assistant", "content": "x", "tool_calls": [CALL]}),
        (2, CHAT[2] | {"reasoning_content": "Other reasons."}),
        (3, {"role": "tool", "tool_call_id": "call_2", "content": "It rains."}),
        (3, {"role": "tool", "tool_call_id": "call_1", "content": "It rains"}),
        (1, {"role": "system", "content": "What is the weather?"}),
        (1, user("What is the weather?", parts=[PICTURE])),
    ],
)
def test_another_role_text_call_result_or_picture_is_another_message(ledger: Ledger, at: int, other: dict) -> None:
    session = ledger.session("chat")
    session.reconcile(CHAT)
    found = session.reconcile([*CHAT[:at], other, *CHAT[at + 1 :]])
    assert (found.change, found.kept, found.hidden) == ("replaced", at, len(CHAT) - at)


def test_another_token_count_alone_rebuilds_nothing(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.reconcile([each | {"token_count": 5} for each in CHAT])
    position = ledger.position
    for told in (CHAT, [each | {"token_count": 500} for each in CHAT], [each | {"tokens": 1} for each in CHAT]):
        assert session.reconcile(told).change == "none"
    assert ledger.position == position and session.info().tokens == 25


def test_what_was_missing_is_mended_in_place_and_the_summaries_stay(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.reconcile([assistant(f"{n} " + "word " * 80) for n in range(60)])
    session.compact()
    (summary,) = session.summaries.list(statuses=("window",))
    rows = [each.position for each in session.messages(limit=1_000)]
    at = "2020-05-05T10:00:00+02:00"
    told = [assistant(f"{n} " + "word " * 80, reasoning="because", model="m-2", created_at=at) for n in range(60)]
    found = session.reconcile(told)
    assert (found.change, found.repaired, found.kept, found.invalidated) == ("repaired", 60, 60, ())
    read = session.messages(limit=1_000)
    assert [each.position for each in read] == rows
    assert {(each.reasoning, each.model, each.occurred_at) for each in read} == {
        ("because", "m-2", "2020-05-05T08:00:00.000000Z")
    }
    assert [each.id for each in session.summaries.list(statuses=("window",))] == [summary.id]
    position = ledger.position
    assert session.reconcile(told).change == session.reconcile(lines_of(session)).change == "none"
    assert ledger.position == position
    past = ledger.at(found.position - 60).session("chat").messages(limit=1_000)
    assert {(each.reasoning, each.model) for each in past} == {("", "")}


def lines_of(session) -> list[dict[str, Any]]:
    return [each.as_chat() for each in session.messages(limit=1_000)]


@pytest.mark.slow
def test_summaries_of_what_was_replaced_stand_for_nothing_and_the_others_stay(ledger: Ledger) -> None:
    session = ledger.session("chat")
    told = [user(f"{n} " + "word " * 2_000) for n in range(80)]
    session.reconcile(told)
    while session.compact(summarizer=lambda asked: f"Summary of {asked.texts[0][:30]}").created:
        pass
    before, standing = ledger.position, session.summaries.list(statuses=("window",))[::-1]
    assert len(standing) >= 2
    last = standing[-1]
    found = session.reconcile([*told[:79], user("otherwise")])
    assert found.invalidated == () and session.summaries.list(statuses=("window",))[::-1] == standing, (
        "the tail is in no summary"
    )
    changed = told.index(
        next(
            each
            for each, m in zip(told, session.messages(limit=1_000), strict=False)
            if m.position == last.ranges[0][0]
        )
    )
    found = session.reconcile([*told[: changed + 1], user("otherwise")])
    assert found.invalidated == (last.id,)
    assert [each.id for each in session.summaries.list(statuses=("window",))[::-1]] == [
        each.id for each in standing[:-1]
    ]
    assert [each.status for each in session.summaries.list() if each.id == last.id] == ["invalid"]
    assert last.content not in full(session.window(100_000).render())
    assert len(ledger.at(before).session("chat").summaries.list(statuses=("window",))) == len(standing)
    found = session.replace([])
    assert set(found.invalidated) == {each.id for each in standing[:-1]}
    totals_agree(session)


# --- times and metadata ----------------------------------------------------------------------------------------------


def test_the_time_of_the_append_given_back_is_nothing_new(ledger: Ledger, clock: Clock) -> None:
    session = ledger.session("chat")
    for text in ("a", "b"):
        session.append("user", text)
        clock.advance(seconds=7)
    told, position = lines_of(session), ledger.position
    assert all("created_at" in each for each in told)
    assert session.reconcile(told).change == "none" and ledger.position == position


def test_a_transcript_with_other_times_replaces_nothing_and_the_old_times_stay(ledger: Ledger) -> None:
    session = ledger.session("chat")
    told = [user(text, created_at=f"2026-01-01T10:00:0{at}Z") for at, text in enumerate(("ok", "so", "ok"))]
    session.reconcile(told)
    before, position = session.messages(), ledger.position
    later = [each | {"created_at": "2026-06-01T10:00:00Z"} for each in told]
    assert session.reconcile(later, dry_run=True).change == session.reconcile(later).change == "none"
    assert session.reconcile([*later[:2], user("new")]).change == "replaced"
    assert [each.occurred_at for each in session.messages()[:2]] == [each.occurred_at for each in before[:2]]
    assert ledger.at(position).session("chat").messages() == before


def test_a_replaced_history_has_the_times_that_it_was_given(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.append("user", "ok", occurred_at="2026-01-01T12:00:00+02:00")
    assert session.replace([user("ok", created_at="2026-01-01T10:00:00Z")]).change == "none"
    assert session.replace([user("ok", created_at="2026-01-01T10:00:01Z")]).change == "replaced"
    assert session.messages()[0].occurred_at.startswith("2026-01-01T10:00:01")


# --- the chat format, there and back ---------------------------------------------------------------------------------

texts = st.sampled_from(["", " ", "a", "b", "a longer text", "日本", "\n", "{}", "null"])
ids = st.sampled_from(["c1", "c2", "c 3"])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
part = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": texts}),
    st.fixed_dictionaries({"type": st.just("tool_use"), "id": ids, "name": st.just("look"), "arguments": values}),
    st.fixed_dictionaries({"type": st.just("tool_result"), "id": ids, "text": texts}),
    st.fixed_dictionaries({"type": st.just("media"), "uri": texts, "mime": st.sampled_from(["", "image/png"])}),
    st.fixed_dictionaries({"type": st.just("reasoning"), "text": texts}),
)
message = st.tuples(
    st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
    texts,
    st.lists(part, max_size=3),
    st.none() | st.just("2025-02-03T04:05:06+01:00"),
    st.sampled_from(["", "m-1"]),
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.lists(message, min_size=1, max_size=12))
def test_every_session_told_in_the_chat_format_is_itself(ledger: Ledger, given_messages: list) -> None:
    session = ledger.session(f"chat {ledger.position}")
    for role, text, parts, at, model in given_messages:
        try:
            session.append(role, text, parts=parts, occurred_at=at, model=model)
        except RejectedError:
            continue
    before, told = ledger.position, lines_of(session)
    found = session.reconcile(told)
    assert (found.change, ledger.position) == ("none", before), told
    copy = ledger.session(f"copy {ledger.position}")
    copy.reconcile(told)
    kept = [
        (each.role, each.content, each.parts, each.reasoning, each.model, each.occurred_at)
        for each in session.messages()
    ]
    assert kept == [
        (each.role, each.content, each.parts, each.reasoning, each.model, each.occurred_at) for each in copy.messages()
    ]


def test_what_a_client_library_dumps_is_read(ledger: Ledger) -> None:
    """Fields that hold nothing say nothing, whatever they are called."""
    dumped = {"content": "Hi", "role": "assistant", "refusal": None, "annotations": [], "tool_calls": None}
    picture = {"type": "image_url", "image_url": {"url": PICTURE["uri"], "detail": "low"}}
    asked = {"role": "user", "content": [{"type": "text", "text": "Look:"}, picture]}
    session = ledger.session("chat")
    assert session.reconcile([asked, dumped]).appended == 2
    detail = {"openai": {"image_url": {"detail": "low"}}}
    assert session.messages()[0].parts == ({"type": "text", "text": "Look:"}, PICTURE | {"mime": "", "extra": detail})
    assert session.reconcile([asked, dumped]).change == "none"


def test_arguments_that_are_no_json_are_kept_as_they_are(ledger: Ledger) -> None:
    session = ledger.session("chat")
    broken = ['{"a": ', "[" * 100_000, "NaN", '"\\ud800"', "{} {}", "1" * 400]
    told = [assistant("", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": each}}]) for each in broken]
    assert session.reconcile(told).appended == len(broken)
    assert [each.parts[0]["arguments"] for each in session.messages()] == [{"": each} for each in broken]
    assert session.reconcile(told).change == session.reconcile(lines_of(session)).change == "none"


# --- what is no message ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        None,
        5,
        "text",
        [],
        {},
        {"role": "robot", "content": "x"},
        {"role": None, "content": "x"},
        {"role": ["user"], "content": "x"},
        {"content": "x"},
        user("x", colour={1, 2}),
        user("x", extra="red"),
        user("x", media="https://a.example/cat.png"),
        user(" ", colour="red"),
        {"role": "user", "content": 5},
        {"role": "user", "content": {"text": "x"}},
        {"role": "user", "content": "half \ud800"},
        user("x", parts=5),
        user("x", parts="text"),
        user("x", parts={"type": "text", "text": "x"}),
        user("x", parts=[5]),
        user("x", created_at="yesterday"),
        user("x", created_at="2026-01-01T12:00:00"),
        user("x", created_at=5),
        user("x", token_count=-1),
        user("x", token_count=True),
        user("x", token_count=2**60),
        user("x", model=5),
        user("x", reasoning=5),
        assistant("x", tool_calls=5),
        assistant("x", tool_calls=["call"]),
        assistant("x", tool_calls=[{"id": "c"}]),
        assistant("x", tool_calls=[{"function": {"name": "f"}}]),
        assistant("x", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": {"a": {1, 2}}}}]),
        assistant("x", tool_calls={"id": "c", "function": {"name": "f"}}),
        {"role": "tool", "content": "no call"},
        {"role": "tool", "content": "x", "tool_call_id": 5},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {1: 2}}]},
        {5: "role"},
    ],
)
def test_an_invalid_message_of_a_transcript_is_named_and_nothing_is_written(ledger: Ledger, bad: Any) -> None:
    session = ledger.session("chat")
    session.reconcile(lines(4))
    before = ledger.position
    for act in (session.reconcile, session.replace):
        with pytest.raises(RejectedError, match="message 6 of"):
            act([*lines(5), bad, *lines(2)])
    assert ledger.position == before


@pytest.mark.parametrize("bad", [None, 5, "text", b"bytes", {"role": "user"}])
def test_a_transcript_that_is_no_list_is_refused(ledger: Ledger, bad: Any) -> None:
    with pytest.raises(RejectedError, match="a transcript is a list"):
        ledger.session("chat").reconcile(bad)


def test_messages_that_say_nothing_are_left_out_and_counted(ledger: Ledger) -> None:
    session = ledger.session("chat")
    told = [user("a"), user(""), assistant("", reasoning="hm"), {"role": "assistant"}, user("b")]
    found = session.reconcile(told)
    assert (found.appended, found.left_out) == (2, 3) and said(session) == ["a", "b"]
    assert session.reconcile(iter(told)).change == "none"


# --- more than one append --------------------------------------------------------------------------------------------


def test_a_long_transcript_goes_in_several_appends(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciling, "TOGETHER", 10)
    session = ledger.session("chat")
    found = session.reconcile(lines(35))
    assert (found.change, found.kept, found.appended) == ("appended", 0, 35)
    with probe.store(ledger).snapshot() as connection:
        sql = "SELECT count(*) FROM events WHERE type = 'MessageAppended' "
        sql += " GROUP BY coalesce(state ->> 'command_id', state ->> 'event_id')"
        assert sorted(row[0] for row in connection.execute(sql)) == [5, 10, 10, 10]
    found = session.reconcile([user("new"), *lines(34)], idempotency_key="k")
    assert (found.change, found.hidden, found.appended) == ("replaced", 35, 35)
    assert said(session) == ["new", *(each["content"] for each in lines(34))]
    totals_agree(session)


@pytest.mark.slow
def test_above_five_thousand_messages_none_is_lost(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        session, told = ledger.session("chat"), lines(5_003)
        assert session.reconcile(told).appended == 5_003
        assert said(session) == [each["content"] for each in told]
        assert session.info().messages == 5_003


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_an_interrupted_reconciliation_is_finished_by_the_next_call(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, stop: int
) -> None:
    monkeypatch.setattr(reconciling, "TOGETHER", 10)
    session = ledger.session("chat")
    session.reconcile([user("differs"), *lines(3)])
    real, calls = reconciling._apply, [0]

    def interrupted(self, *given):
        calls[0] += 1
        if calls[0] > stop:
            raise KeyboardInterrupt
        return real(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(reconciling, "_apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.reconcile(lines(35))
    assert said(session) == [each["content"] for each in lines(10 * stop)]
    found = session.reconcile(lines(35))
    assert (found.change, found.kept, found.appended) == ("appended", 10 * stop, 35 - 10 * stop)
    assert said(session) == [each["content"] for each in lines(35)]
    totals_agree(session)


def test_a_key_finishes_an_interrupted_reconciliation_and_repeats_no_finished_one(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciling, "TOGETHER", 10)
    session = ledger.session("chat")
    real, calls = reconciling._apply, [0]

    def interrupted(self, *given):
        calls[0] += 1
        if calls[0] > 2:
            raise KeyboardInterrupt
        return real(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(reconciling, "_apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.reconcile(lines(35), idempotency_key="k")
    found = session.reconcile(lines(35), idempotency_key="k")
    assert (found.replayed, found.appended) == (False, 15) and said(session) == [each["content"] for each in lines(35)]
    for act in (lambda: session.append("user", "more"), lambda: session.truncate(3), session.clear):
        position = act().position
        assert session.reconcile(lines(35), idempotency_key="k").replayed and ledger.position == position
    with pytest.raises(ConflictError):
        session.reconcile(lines(34), idempotency_key="k")


def test_many_repairs_take_several_appends(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    session = ledger.session("chat")
    session.reconcile(lines(35))
    monkeypatch.setattr(reconciling, "TOGETHER", 10)
    told = [each | {"model": "m-1"} for each in lines(48)]
    found = session.reconcile(told)
    assert (found.change, found.kept, found.repaired, found.appended) == ("appended", 35, 35, 13)
    assert {each.model for each in session.messages()} == {"m-1"} and said(session) == [e["content"] for e in told]
    commands = [each["command_id"] for each in events_of(ledger, "MessageRepaired")]
    assert sorted(map(commands.count, set(commands))) == [5, 10, 10, 10]
    assert session.reconcile(told).change == "none"
    repaired = session.reconcile([each | {"reasoning": "hm"} for each in told])
    assert (repaired.change, repaired.repaired) == ("repaired", 48)


# --- a writer in between ---------------------------------------------------------------------------------------------


def meddled(session, monkeypatch: pytest.MonkeyPatch, times: int, act) -> None:
    """Somebody acts after the session was looked at, and before the lock is taken."""
    real, left = reconciling._plan, [times]

    def plan(self, *given):
        found = real(self, *given)
        if left[0]:
            left[0] -= 1
            act()
        return found

    monkeypatch.setattr(reconciling, "_plan", plan)


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("many", [4, 35])
def test_a_reconciliation_sees_messages_that_are_appended_meanwhile(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, key: str | None, many: int
) -> None:
    monkeypatch.setattr(reconciling, "TOGETHER", 10)
    session = ledger.session("chat")
    session.reconcile(lines(2))
    with Ledger.open(ledger.path) as other:
        meddled(session, monkeypatch, 1, lambda: other.session("chat").append("user", "in between"))
        found = session.reconcile(lines(many), idempotency_key=key)
    assert said(session) == [each["content"] for each in lines(many)]
    assert (found.replayed, found.appended, found.hidden) == (False, many - 2, 1)
    assert said(session, include_hidden=True).count("in between") == 1
    totals_agree(session)


def test_a_session_that_begins_meanwhile_is_not_begun_twice(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    session = ledger.session("chat")
    with Ledger.open(ledger.path) as other:
        meddled(session, monkeypatch, 1, lambda: other.session("chat").append("user", "message 0"))
        session.reconcile(lines(3), idempotency_key="k")
    assert said(session) == [each["content"] for each in lines(3)] and len(ledger.sessions.list()) == 1


def test_a_session_that_changes_during_every_attempt_is_given_up_without_a_partial_change(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ledger.session("chat")
    session.append("user", "first")
    with Ledger.open(ledger.path) as other, monkeypatch.context() as patched:
        meddled(session, patched, 99, lambda: other.session("chat").append("user", "again"))
        with pytest.raises(ConflictError, match="during all"):
            session.reconcile(lines(3), idempotency_key="k")
    assert session.info().hidden == 0 and said(session)[0] == "first"
    assert session.reconcile(lines(3), idempotency_key="k").appended == 3, "the key was not used up"


def test_reconciling_in_a_batch(ledger: Ledger) -> None:
    session = ledger.session("chat")
    with ledger.batch():
        session.append("user", "message 0")
        assert session.reconcile(lines(5)).appended == 4
        assert session.reconcile(lines(3)).hidden == 2
    assert said(session) == [each["content"] for each in lines(3)]


# --- what was erased -------------------------------------------------------------------------------------------------


def test_an_erased_message_does_not_come_back(ledger: Ledger) -> None:
    session = ledger.session("chat")
    told = [user("CANARY at 12 Harbour Row"), assistant("Noted."), user("Thanks")]
    session.reconcile(told)
    target = session.messages()[0]
    ledger.bind(actor="ann").erase(Event(target.position), reason="asked")
    assert session.messages()[0].content is None
    found = session.reconcile(told)
    assert found.appended == found.hidden == 0 and session.messages()[0].content is None
    assert session.reconcile([*told, assistant("More.")]).appended == 1


def test_a_reconciled_ledger_is_sound(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.reconcile(CHAT)
    session.reconcile([*CHAT[:3], assistant("otherwise", created_at="2025-01-01")])
    session.reconcile(lines(40))
    assert_sound(ledger)
    assert len(events_of(ledger, "MessagesHidden")) == 2


# --- a session's own messages ----------------------------------------------------------------------------------------


def test_a_message_as_chat_is_an_entry_without_ids_that_reconcile_reads_back(ledger: Ledger) -> None:
    session = ledger.session("chat")
    at = "2026-01-01T10:00:00.000000Z"
    compact = CALL | {"function": {"name": "weather", "arguments": '{"city":"Bern"}'}}
    entries = [
        user("Hello", name="Ada", created_at=at, metadata={"channel": "web"}),
        assistant("", tool_calls=[compact], reasoning="I look.", model="m-1", created_at=at),
        {"role": "tool", "tool_call_id": "call_1", "content": "It rains.", "created_at": at},
        user("This?", media=["media://cat"], created_at=at, extra={"openai": {"seed": 3}}),
        user("", parts=[PICTURE], created_at=at),
    ]
    session.reconcile(entries)
    assert [message.as_chat() for message in session.messages()] == entries
    position = ledger.position
    assert session.reconcile([message.as_chat() for message in session.messages()]).change == "none"
    assert ledger.position == position


@pytest.mark.parametrize(
    "as_given", [lambda message: message, lambda message: message.to_dict()], ids=["object", "dict"]
)
def test_a_sessions_own_messages_given_back_change_nothing(ledger: Ledger, as_given) -> None:
    session = ledger.session("chat")
    session.reconcile(CHAT)
    session.append("user", "And now?", parts=[PICTURE], speaker="Ada", metadata={"channel": "web"})
    session.append("user", "No more.", extra={"openai": {"seed": 3}})
    ledger.capture("Why?", "So.", session="chat", append=True)
    ledger.erase(Event(session.messages()[0].position))
    before, position = session.messages(), ledger.position
    for take in (session.replace, session.reconcile):
        change = take([as_given(message) for message in before])
        assert (change.change, change.kept, change.repaired, change.left_out) == ("none", len(before), 0, 0)
        assert ledger.position == position
    added = ledger.add([as_given(message) for message in before], session="chat")
    assert added.messages == 0 and session.messages() == before


@pytest.mark.parametrize(
    "as_given", [lambda message: message, lambda message: message.to_dict()], ids=["object", "dict"]
)
def test_the_messages_of_a_session_go_into_another_without_ids_and_positions(ledger: Ledger, as_given) -> None:
    ledger.session("chat").reconcile(CHAT)
    messages = ledger.session("chat").messages()
    copy = ledger.session("copy")
    assert copy.replace([as_given(message) for message in messages]).appended == len(CHAT)
    assert [message.as_chat() for message in copy.messages()] == [message.as_chat() for message in messages]
    assert [message.extra for message in copy.messages()] == [{}] * len(CHAT)
    assert ledger.add(as_given(messages[1]), session="one").messages == 1


def test_a_dictionary_of_a_message_with_a_wrong_field_is_refused_by_its_name(ledger: Ledger) -> None:
    session = ledger.session("chat")
    session.append("user", "Hello")
    wrong = session.messages()[0].to_dict() | {"parts": "text"}
    with pytest.raises(RejectedError, match=r"message 1 of the transcript .*parts"):
        session.replace([wrong])
