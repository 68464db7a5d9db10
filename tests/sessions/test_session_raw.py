"""Messages with raw JSON, several messages in one append, and the removal of the newest messages."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger import ConflictError, Ledger, RejectedError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=12,
)  # fmt: skip
ENTRY = {"type": "x", "uuid": "b", "n": [1, 2.5, None, {'ä\n"': True}], "empty": {}, "list": []}
KEY = "sk-ant-api03-" + "".join(
    random.Random(7).choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=95)
)


@pytest.fixture
def ledger(tmp_path: Any) -> Any:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        yield ledger


def texts(session: Any) -> list[str]:
    return [message.content for message in session.messages().all()]


@pytest.mark.parametrize("raw", [ENTRY, {}, [], "", "text", 0, False, 1.5, {"message": "x" * 600_000}])
def test_raw_is_read_back_equal_also_after_a_rebuild(ledger: Any, raw: Any) -> None:
    session = ledger.session("chat")
    said = session.append("user", "Hello.", raw=raw)
    ledger.maintenance.rebuild()
    read = session.message(said.id)
    assert read.raw == raw == said.raw and type(read.raw) is type(raw)
    assert read == said and session.messages()[0].raw == raw


def test_a_message_without_raw_has_none(ledger: Any) -> None:
    assert ledger.session("chat").append("user", "Hello.").raw is None
    assert ledger.session("chat").messages()[0].raw is None


@given(raws=st.lists(JSON.filter(lambda raw: raw is not None), min_size=1, max_size=4))
def test_any_json_is_read_back_equal(tmp_path_factory: Any, raws: list[Any]) -> None:
    with Ledger.open(tmp_path_factory.mktemp("raw") / "memory.db") as ledger:
        ledger.policy.set(secrets="off")
        ledger.session("chat").extend([{"role": "user", "raw": raw} for raw in raws])
        assert [message.raw for message in ledger.session("chat").messages(oldest_first=True)] == raws


def test_a_message_of_raw_alone_is_stored_and_no_window_shows_it(ledger: Any) -> None:
    session = ledger.session("chat")
    session.append("user", "Hello.")
    alone = session.append("assistant", raw=ENTRY)
    session.append("assistant", "Good day.")
    assert (alone.content, alone.raw, session.info().messages) == ("", ENTRY, 3)
    for provider in ("openai", "anthropic"):
        shown = session.window(1_000).render(provider).messages
        assert [message["role"] for message in shown] == ["user", "assistant"]
    with pytest.raises(RejectedError, match="blank"):
        session.append("user")


def test_raw_goes_from_session_to_session_with_its_message(ledger: Any) -> None:
    first = ledger.session("first")
    first.extend([{"role": "user", "content": "Hello.", "raw": ENTRY}, {"role": "assistant", "raw": [1]}])
    ledger.session("second").extend(first.messages(oldest_first=True))
    ledger.session("third").extend([message.to_dict() for message in first.messages(oldest_first=True)])
    for name in ("second", "third"):
        assert [message.raw for message in ledger.session(name).messages(oldest_first=True)] == [ENTRY, [1]]


def test_an_exported_log_has_the_raw(ledger: Any, tmp_path: Any) -> None:
    ledger.session("chat").append("user", "Hello.", raw=ENTRY)
    ledger.maintenance.export_log(tmp_path / "log.jsonl")
    Ledger.import_log(tmp_path / "log.jsonl", tmp_path / "other.db")
    with Ledger.open(tmp_path / "other.db") as other:
        assert other.session("chat").messages()[0].raw == ENTRY


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ({"key": KEY, "n": 1}, {"key": "[redacted:anthropic_key]", "n": 1}),
        (
            {"deep": [{"text": f"use {KEY} here"}, None]},
            {"deep": [{"text": "use [redacted:anthropic_key] here"}, None]},
        ),
        ({"name": "password", "value": "hunter2!x"}, {"name": "password", "value": "[redacted:password]"}),
        ({"ä": "x" * 300_000, "key": f'"{KEY}"'}, {"ä": "x" * 300_000, "key": '"[redacted:anthropic_key]"'}),
    ],
)
def test_a_secret_in_raw_is_redacted_within_its_text_unless_the_policy_says_otherwise(
    ledger: Any, raw: Any, clean: Any, tmp_path: Any
) -> None:
    session = ledger.session("chat")
    said = session.append("user", "Hello.", raw=raw)
    change = session.extend([{"role": "user", "raw": raw}])
    assert [message.raw for message in (said, *session.messages().all())] == [clean] * 3
    assert said.warnings == change.warnings and said.warnings[0].startswith("raw: 1 × ")
    stored = json.dumps(clean, separators=(",", ":"), ensure_ascii=False)
    ledger.maintenance.export_log(tmp_path / "log.jsonl")
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    marks = [json.loads(event["state"])["redactions"] for event in events if event.get("type") == "MessageAppended"]
    assert [len(each) for each in marks] == [1, 1]
    for (mark,) in marks:
        assert stored[mark["start"] : mark["end"]] == f"[redacted:{mark['kind']}]"
    for file in tmp_path.iterdir():
        assert KEY.encode() not in file.read_bytes() and b"hunter2!x" not in file.read_bytes()
    ledger.policy.set(secrets="refuse")
    with pytest.raises(RejectedError, match="the policy refuses secrets") as refused:
        session.append("user", "Hello.", raw=raw)
    assert refused.value.rule == "secret" and KEY not in str(refused.value)
    ledger.policy.set(secrets="off")
    assert session.append("user", "Hello.", raw=raw).raw == raw == session.messages(limit=1)[0].raw


@pytest.mark.parametrize("raw", [object(), {1: 2}, float("nan"), 2**70, {"a": {1, 2}}])
def test_raw_that_is_no_json_is_refused(ledger: Any, raw: Any) -> None:
    with pytest.raises(RejectedError):
        ledger.session("chat").append("user", "Hello.", raw=raw)
    assert ledger.session("chat").id is None


def test_a_repeated_key_returns_the_message_with_its_raw_and_refuses_another(ledger: Any) -> None:
    session = ledger.session("chat")
    first = session.append("user", "Hello.", raw=ENTRY, idempotency_key="1")
    again = session.append("user", "Hello.", raw=ENTRY, idempotency_key="1")
    assert again.replayed and again.id == first.id and again.raw == ENTRY
    with pytest.raises(ConflictError):
        session.append("user", "Hello.", raw=[], idempotency_key="1")


def test_an_erased_message_has_no_raw_in_the_file(ledger: Any, tmp_path: Any) -> None:
    said = ledger.session("chat").append("user", "Hello.", raw={"text": "Zanzibar lies far away."})
    ledger.erase(said.id)
    assert ledger.session("chat").message(said.position).raw is None
    assert b"Zanzibar" not in (tmp_path / "memory.db").read_bytes()


@pytest.mark.parametrize("sources", ["cut", "erase"])
def test_what_is_erased_in_the_content_is_gone_from_raw_too(ledger: Any, tmp_path: Any, sources: str) -> None:
    text = 'Good morning "dear". I prefer green tea. What is new?'
    session = ledger.session("chat")
    session.append("user", text, raw={"message": {"content": text}})
    (kept,) = session.extract(method="rules").kept
    assert ledger.erase(kept.id, sources=sources).state == "completed"
    (left,) = session.messages()
    assert left.raw is None and ("Good morning" in (left.content or "")) == (sources == "cut")
    assert b"green" not in (tmp_path / "memory.db").read_bytes()


def test_ids_and_paths_in_raw_are_no_quotes_of_each_other(ledger: Any) -> None:
    said = [
        ledger.session("chat").append(
            "user", f"Ship {n} is here.", raw={"cwd": "/home/ada/harbour/office", "text": f"Ship {n} is here."}
        )
        for n in range(3)
    ]
    report = ledger.erase(said[0].id)
    assert (report.state, report.quotes) == ("completed", ())
    assert [message.raw is None for message in ledger.session("chat").messages(oldest_first=True)] == [
        True,
        False,
        False,
    ]


# --- extend ----------------------------------------------------------------------------------------------------------


def test_extend_is_one_append_and_one_undo_takes_it_back(ledger: Any) -> None:
    session = ledger.session("chat")
    change = session.extend([{"role": "user", "content": str(n)} for n in range(5)])
    assert (change.change, change.appended, texts(session)) == ("appended", 5, list("01234"))
    ledger.undo(change.position)
    assert texts(session) == []
    ledger.redo(change.position)
    assert texts(session) == list("01234")


def test_extend_with_a_wrong_message_appends_nothing(ledger: Any) -> None:
    session = ledger.session("chat")
    with pytest.raises(RejectedError, match="message 2"):
        session.extend([{"role": "user", "content": "a"}, {"role": "nobody", "content": "b"}])
    for wrong in ("text", {"role": "user", "content": "a"}, 5):
        with pytest.raises(RejectedError, match="list of messages"):
            session.extend(wrong)
    assert session.id is None and session.extend([]).change == "none"
    blank = session.extend([{"role": "user", "content": " "}, {"role": "user", "content": "a"}])
    assert (blank.appended, blank.left_out) == (1, 1)
    with pytest.raises(RejectedError, match="5,000"):
        session.extend([{"role": "user", "content": "a"}] * 5_001)


def test_extend_expects_the_position_at_which_the_session_stood(ledger: Any) -> None:
    session, one = ledger.session("chat"), [{"role": "user", "content": "a"}]
    seen = session.extend(one, expected=0).position
    ledger.session("other").extend(one)
    seen = session.extend(one, expected=seen).position
    session.append("assistant", "b")
    with pytest.raises(ConflictError):
        session.extend(one, expected=seen)
    assert texts(session) == ["a", "a", "b"]
    session.extend(one, expected=session.info().position)


@pytest.mark.parametrize("emptied", ["new", "named", "cleared", "removed", "undone"])
def test_expected_0_stands_for_a_session_without_messages(ledger: Any, emptied: str) -> None:
    session = ledger.session("chat")
    if emptied == "named":
        session.set_metadata({"channel": "C1"})
    elif emptied != "new":
        said = session.append("user", "Hello.")
        {"cleared": session.clear, "removed": session.remove_last, "undone": lambda: ledger.undo(said.position)}[
            emptied
        ]()
    session.append("user", "first", expected=0)
    for act in (
        lambda: session.append("user", "x", expected=0),
        lambda: session.extend([{"role": "user", "content": "x"}], expected=0),
    ):
        with pytest.raises(ConflictError, match="without messages"):
            act()
    assert texts(session) == ["first"]


def test_a_repeated_key_of_extend_appends_nothing_and_refuses_other_messages(ledger: Any) -> None:
    session, one = ledger.session("chat"), {"role": "user", "content": "a", "raw": [1]}
    first = session.extend([one], idempotency_key="1", expected=0)
    again = session.extend([one], idempotency_key="1", expected=0)
    assert again.replayed and again.position == first.position and texts(session) == ["a"]
    with pytest.raises(ConflictError):
        session.extend([{**one, "raw": [2]}], idempotency_key="1")


def test_extend_keeps_the_times_models_and_metadata_of_its_messages(ledger: Any) -> None:
    session = ledger.session("chat")
    session.extend(
        [
            {"role": "user", "content": "a", "created_at": "2026-03-02T09:00:00Z", "metadata": {"uuid": "u1"}},
            {"role": "assistant", "content": "b", "model": "small", "token_count": 7},
        ],
        occurred_at="2026-03-03T09:00:00Z",
    )
    first, second = session.messages(oldest_first=True)
    assert (first.occurred_at[:10], first.metadata) == ("2026-03-02", {"uuid": "u1"})
    assert (second.occurred_at[:10], second.model, second.tokens) == ("2026-03-03", "small", 7)
    assert [message.content for message in session.messages(metadata={"uuid": "u1"})] == ["a"]


# --- remove_last -----------------------------------------------------------------------------------------------------


def test_remove_last_hides_the_newest_messages_and_an_undo_brings_them_back(ledger: Any) -> None:
    session = ledger.session("chat")
    session.extend([{"role": "user", "content": str(n)} for n in range(5)])
    gone = session.remove_last(2)
    assert (gone.change, gone.hidden, texts(session)) == ("removed", 2, ["0", "1", "2"])
    assert len(session.window(1_000).entries) == 3
    assert [message.hidden for message in session.messages(include_hidden=True)] == ["", "", "", "remove", "remove"]
    session.append("user", "5")
    session.remove_last()
    session.remove_last()
    assert texts(session) == ["0", "1"]
    ledger.undo(gone.position)
    assert texts(session) == ["0", "1", "3", "4"]
    assert texts(ledger.at(gone.position - 1).session("chat")) == list("01234")


def test_remove_last_removes_at_most_what_is_there(ledger: Any) -> None:
    session = ledger.session("chat")
    assert session.remove_last(3).change == "none" and session.id is None
    session.append("user", "0")
    assert session.remove_last(3).hidden == 1
    assert session.remove_last().change == "none"
    for wrong in (0, -1, True, 1.5, "1"):
        with pytest.raises(RejectedError, match="whole number from 1"):
            session.remove_last(wrong)


def test_remove_last_takes_the_summaries_of_removed_messages_out_of_use(ledger: Any) -> None:
    session = ledger.session("chat")
    for day in range(1, 26):
        session.append("user", f"Which ship comes on day {day}, and what does it carry?")
        session.append("assistant", f"On day {day} comes ship number {day}; it carries {day} tons of green tea.")
    made = session.compact(summarizer=lambda request: "Ships came in.").created[0]
    gone = session.remove_last(40)
    assert gone.invalidated == (made.id,) and session.info().messages == 10
