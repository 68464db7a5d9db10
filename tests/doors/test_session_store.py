"""The ten operations of picoclaw's SessionStore over a ledger: what returns nothing loses nothing."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from conversations import PICTURE
from soundness import events_of

from ledger import Ledger, LedgerError, RejectedError
from ledger.doors.picoclaw import SessionStore
from ledger.types import SessionPatterns

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Bern"}'}}
SYSTEM = [
    {"type": "text", "text": "You are Pico.", "cache_control": {"type": "ephemeral"}},
    {"type": "text", "text": "Be brief."},
]
FILES = [
    {"type": "file", "ref": "media://1", "filename": "plan.pdf", "content_type": "application/pdf"},
    {"type": "image", "url": "https://a.example/dog.png"},
]
TURN = [
    {"role": "user", "content": "What is the weather?", "created_at": "2026-01-01T10:00:00.000000Z"},
    {"role": "assistant", "content": "", "tool_calls": [CALL], "reasoning_content": "hm", "model_name": "m-1"},
    {"role": "tool", "content": "It rains.", "tool_call_id": "call_1"},
    {"role": "user", "content": "", "parts": [PICTURE]},
    {"role": "user", "content": "And this?", "media": ["media://cat", "https://a.example/dog.png"]},
    {"role": "assistant", "content": "A dog.", "tool_calls": [CALL], "media": ["media://cat"]},
    {"role": "tool", "content": "It rains.", "tool_call_id": "call_1", "media": ["media://rain"]},
    {"role": "system", "content": "You are Pico.\n\nBe brief.", "system_parts": SYSTEM},
    {"role": "system", "content": "", "system_parts": SYSTEM},
    {"role": "user", "content": "Look.", "attachments": FILES},
    {"role": "user", "content": "", "attachments": FILES},
    {"role": "tool", "content": "It rains.", "tool_call_id": "call_1", "tool_result_status": "succeeded"},
]


def store_of(ledger: Ledger, user: str = "", project: str | None = None) -> SessionStore:
    return SessionStore(ledger.bind(user=user), project=project)


@pytest.fixture
def store(ledger: Ledger) -> SessionStore:
    return store_of(ledger)


def texts(store: SessionStore, key: str) -> list[str]:
    return [each["content"] for each in store.get_history(key)]


def test_what_is_added_is_the_history(store: SessionStore) -> None:
    store.add_message("chat", "user", "Hello")
    store.add_message("chat", "assistant", "Hi")
    assert texts(store, "chat") == ["Hello", "Hi"] and store.get_history("other") == []
    assert [each["role"] for each in store.get_history("chat")] == ["user", "assistant"]
    assert all(each["created_at"].startswith("2026-01-01T12:00:00") for each in store.get_history("chat"))


def test_full_messages_come_back_whole(store: SessionStore) -> None:
    for message in TURN:
        store.add_full_message("chat", message)
    found = store.get_history("chat")
    for told, message in zip(found, TURN, strict=True):
        assert told.pop("created_at") and told | {"created_at": 0} == message | {"created_at": 0}
    assert not store.failures


def test_an_answer_of_reasoning_alone_is_not_stored_and_is_no_failure(store: SessionStore) -> None:
    store.add_full_message("chat", {"role": "assistant", "content": "", "reasoning_content": "thinking"})
    assert store.get_history("chat") == [] and not store.failures and store.list_sessions() == []


def test_a_history_is_set_and_set_back_to_itself_changes_nothing(ledger: Ledger, store: SessionStore) -> None:
    store.set_history("chat", TURN)
    assert len(store.get_history("chat")) == len(TURN)
    position = ledger.position
    store.set_history("chat", store.get_history("chat"))
    assert ledger.session("chat").reconcile(store.get_history("chat")).change == "none"
    assert ledger.position == position and not store.failures
    store.set_history("chat", [{"role": "user", "content": "anew"}])
    assert texts(store, "chat") == ["anew"]
    assert len(ledger.session("chat").messages(include_hidden=True)) == len(TURN) + 1, "what was is in the log"
    store.set_history("chat", [])
    assert store.get_history("chat") == []


@pytest.mark.parametrize(
    ("keep", "left"), [(2, ["8", "9"]), (10, [*"0123456789"]), (99, [*"0123456789"]), (0, []), (-3, [])]
)
def test_truncate_counts_what_is_kept(store: SessionStore, keep: int, left: list[str]) -> None:
    for number in range(10):
        store.add_message("chat", "user", str(number))
    store.truncate_history("chat", keep)
    assert texts(store, "chat") == left
    store.add_message("chat", "user", "next")
    assert texts(store, "chat") == [*left, "next"]


def test_truncating_what_is_not_there_is_nothing(ledger: Ledger, store: SessionStore) -> None:
    store.truncate_history("nobody", 3)
    assert not store.failures and ledger.position == 1
    store.save("nobody")


def test_the_summary_is_set_read_and_cleared(store: SessionStore) -> None:
    assert store.get_summary("chat") == ""
    store.set_summary("chat", "So far")
    assert store.get_summary("chat") == "So far"
    store.set_summary("chat", "")
    assert store.get_summary("chat") == "" and not store.failures


def test_sessions_are_listed_by_name_and_keys_never_collide(store: SessionStore) -> None:
    for key in ("a:b/c", "a_b_c", "../etc/passwd"):
        store.add_message(key, "user", key)
    assert sorted(store.list_sessions()) == sorted(["a:b/c", "a_b_c", "../etc/passwd"])
    assert [texts(store, key) for key in store.list_sessions()] == [[key] for key in store.list_sessions()]


def test_a_store_is_of_one_user_and_project(ledger: Ledger) -> None:
    ann, ben = (store_of(ledger, user, "home") for user in ("ann", "ben"))
    ann.add_message("chat", "user", "CANARY")
    assert ben.get_history("chat") == ben.list_sessions() == [] and ann.list_sessions() == ["chat"]
    assert ledger.bind(user="ann").sessions.list()[0].project == "home"


def test_a_store_keeps_who_spoke_and_which_text_was_the_content(ledger: Ledger, store: SessionStore) -> None:
    store.add_full_message("k", {"role": "user", "name": "Ann", "content": "hello"})
    parts = [{"type": "text", "text": "ok"}, {"type": "text", "text": "a much longer text"}]
    store.add_full_message("k", {"role": "assistant", "content": "ok", "parts": parts})
    assert [(each.speaker, each.content) for each in ledger.session("k").messages()] == [("Ann", "hello"), ("", "ok")]
    assert ledger.session("k").reconcile(store.get_history("k")).change == "none"


def test_the_metadata_of_a_message_is_kept(ledger: Ledger, store: SessionStore) -> None:
    store.add_full_message("k", {"role": "user", "content": "hello", "metadata": {"channel": "C024BE91L"}})
    assert store.get_history("k")[0]["metadata"] == {"channel": "C024BE91L"}


# --- failures --------------------------------------------------------------------------------------------------------

FAILING = [
    ("add_message", ("chat", "robot", "CANARY")),
    ("add_message", ("chat", "user", "  ")),
    ("add_message", ("", "user", "CANARY")),
    ("add_message", (None, "user", "CANARY")),
    ("add_message", ("chat", "user", None)),
    ("add_message", ("chat", "user", 5)),
    ("add_full_message", ("chat", {"role": "tool", "content": "CANARY"})),
    ("add_full_message", ("chat", "CANARY")),
    ("add_full_message", ("chat", None)),
    ("set_history", ("chat", [{"role": "user", "content": "ok"}, {"role": "robot", "content": "CANARY"}])),
    ("set_history", ("chat", None)),
    ("set_history", ("", [])),
    ("set_summary", ("chat", None)),
    ("set_summary", ("", "CANARY")),
    ("truncate_history", ("chat", "3")),
    ("truncate_history", ("", 3)),
]


@pytest.mark.parametrize(("name", "arguments"), FAILING)
def test_a_failure_is_logged_without_its_text_counted_and_raised_by_save(
    store: SessionStore, caplog: pytest.LogCaptureFixture, name: str, arguments: tuple
) -> None:
    store.add_message("chat", "user", "Before")
    with caplog.at_level(logging.ERROR):
        assert getattr(store, name)(*arguments) is None
    assert store.failures == {name: 1} and isinstance(store.last_failure, RejectedError)
    assert name in caplog.text and "CANARY" not in caplog.text
    key = arguments[0]
    store.save("another key")
    with pytest.raises(RejectedError):
        store.save(key)
    store.save(key)  # told once
    store.close()
    assert store.failures == {name: 1} and texts(store, "chat") == ["Before"]


def test_the_first_failure_is_raised_and_close_tells_what_no_save_did(store: SessionStore) -> None:
    store.add_message("one", "robot", "x")
    store.add_message("one", "user", " ")
    store.add_message("two", "android", "x")
    with pytest.raises(RejectedError, match="robot"):
        store.save("one")
    with pytest.raises(RejectedError, match="android"):
        store.close()
    store.close()
    assert store.failures == {"add_message": 3}


def test_close_leaves_the_ledger_open_and_a_closed_ledger_is_a_failure(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        store = store_of(ledger)
        store.add_message("chat", "user", "Hello")
        store.close()
        assert len(ledger.session("chat").messages()) == 1
    store.add_message("chat", "user", "lost?")
    assert store.failures == {"add_message": 1}
    with pytest.raises(LedgerError):
        store.save("chat")


def test_a_session_that_is_kept_out_takes_nothing_and_fails_nothing(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db", sessions=SessionPatterns(ignore=("cron:**",))) as ledger:
        store = store_of(ledger)
        for key in ("heartbeat", "cron:a:b"):
            store.add_message(key, "user", "x")
            store.add_full_message(key, TURN[1])
            store.set_history(key, TURN)
            store.set_summary(key, "S")
            store.truncate_history(key, 0)
            assert store.get_history(key) == [] and store.get_summary(key) == ""
        assert not store.failures and store.list_sessions() == [] and events_of(ledger, "SessionOpened") == []
