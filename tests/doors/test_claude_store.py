"""The session store of the Claude Agent SDK over a ledger, with what its contract says, and what nobody may lose.

The SDK itself is 180 MB, so its own contracts run in ``dev.py doors claude-session-store``; here a small fold stands in for its.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from door_story import LIBRARIES, check_ledger, killed_in_the_middle, told_changed_asked_and_undone
from places import ROOT
from soundness import assert_sound
from threads import together

from ledger import Ledger, RejectedError
from ledger.doors.claude import MANY, LedgerSessionStore
from ledger.doors.pytest_plugin import Clock
from ledger.types import SessionPatterns

KEY: Any = {"project_key": "-home-ada-harbour", "session_id": "0b6f7a34"}
AGENT: Any = {**KEY, "subpath": "subagents/agent-1"}
SECRET = "sk-ant-api03-" + "aB3" * 31 + "AA"


def run(awaited: Any) -> Any:
    return asyncio.run(awaited)


def user(text: str, uuid: str = "", **more: Any) -> Any:
    entry = {
        "type": "user",
        "message": {"role": "user", "content": text},
        "timestamp": "2026-03-02T09:00:00.123Z",
        **more,
    }
    return entry | ({"uuid": uuid} if uuid else {})


ANSWER: Any = {
    "type": "assistant",
    "uuid": "u2",
    "message": {"id": "msg_1", "role": "assistant", "content": [
        {"type": "thinking", "thinking": "A ship.", "signature": "EqoB"},
        {"type": "text", "text": "The Aurora comes."},
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "ships"}},
    ]},
}  # fmt: skip
RESULT: Any = {"type": "user", "uuid": "u3", "toolUseResult": {}, "message": {"role": "user", "content": [
    {"type": "tool_result", "tool_use_id": "t1", "content": "I prefer rum."}
]}}  # fmt: skip
TITLE: Any = {"type": "custom-title", "customTitle": "Ships", "nested": [{"a": None, "b": 1.5}, []]}
ENTRIES = [user("Which ship comes?", "u1"), ANSWER, RESULT, TITLE, user("Do as the file says.", "u4", isMeta=True)]


@pytest.fixture
def store(ledger: Ledger) -> LedgerSessionStore:
    return LedgerSessionStore(ledger)


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the place of the SDK, whose fold lists the texts of an entry's message."""
    module = ModuleType("claude_agent_sdk")

    def fold(before: Any, key: Any, entries: Any) -> Any:
        return {
            "session_id": key["session_id"],
            "mtime": 0,
            "data": {"said": [e.get("message", {}).get("content") for e in entries]},
        }

    module.fold_session_summary = fold  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "claude_agent_sdk", module)


def test_entries_come_back_equal_in_the_order_of_their_appends(store: LedgerSessionStore) -> None:
    assert run(store.load(KEY)) is None
    run(store.append(KEY, ENTRIES[:2]))
    run(store.append(KEY, []))
    run(store.append(KEY, ENTRIES[2:]))
    assert run(store.load(KEY)) == ENTRIES


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "user"}, {"type": "user", "message": "text"}, {"type": "assistant", "message": {"content": 5}}, {},
        {"type": "x", "uuid": 5}, {"type": "x", "uuid": " "}, {"type": "x", "uuid": "u" * 3_000},
        {"type": "x", "timestamp": "soon"},
        {"type": "x", "timestamp": "2026-13-45T99:99:99Z"}, {"type": "attachment", "attachment": []},
        {"type": "user", "message": {"content": "x" * 700_000}},
    ],
)  # fmt: skip
def test_an_entry_of_any_form_comes_back_equal(store: LedgerSessionStore, entry: Any) -> None:
    run(store.append(KEY, [entry, user("And now?")]))
    assert run(store.load(KEY)) == [entry, user("And now?")]


def test_the_same_uuid_twice_is_one_and_entries_without_a_uuid_are_all_kept(store: LedgerSessionStore) -> None:
    run(store.append(KEY, [user("a", "u1"), user("a again", "u1"), TITLE]))
    run(store.append(KEY, [user("b", "u2"), user("a", "u1"), TITLE]))
    run(store.append(AGENT, [user("a", "u1")]))
    assert run(store.load(KEY)) == [user("a", "u1"), TITLE, user("b", "u2"), TITLE]
    assert run(store.load(AGENT)) == [user("a", "u1")]


def test_a_deleted_or_undone_entry_can_be_appended_again(ledger: Ledger, store: LedgerSessionStore) -> None:
    for take_away in (lambda: run(store.delete(KEY)), lambda: ledger.undo(ledger.position)):
        run(store.append(KEY, [user("a", "u1")]))
        take_away()
        assert run(store.load(KEY)) is None
    run(store.append(KEY, [user("a", "u1")]))
    assert run(store.load(KEY)) == [user("a", "u1")]


def test_only_what_the_person_and_the_agent_said_is_a_text_of_the_ledger(
    ledger: Ledger, store: LedgerSessionStore
) -> None:
    run(store.append(KEY, [*ENTRIES, user("I prefer gin.", "u5", isSidechain=True)]))
    run(store.append(AGENT, [user("I prefer wine.", "u6")]))
    chat = ledger.session("claude/-home-ada-harbour/0b6f7a34")
    assert [(m.role, m.content) for m in chat.messages() if m.content] == [
        ("user", "Which ship comes?"), ("assistant", "The Aurora comes.")]  # fmt: skip
    (entry,) = ledger.history.audit(limit=1)
    assert entry.client == "claude-agent-sdk"
    assert chat.messages(oldest_first=True)[0].occurred_at[:19] == "2026-03-02T09:00:00"
    assert not chat.extract(method="rules").kept and not ledger.sessions.grep("prefer")
    assert [message["role"] for message in chat.window(1_000).render("anthropic").messages] == ["user", "assistant"]


@pytest.mark.parametrize("other", [{"project_key": "-home-ada-harbour/0b6f7a34", "session_id": "x"},
                                   {"project_key": "-home-ada-harbour%2F0b6f7a34", "session_id": "subagents"}])  # fmt: skip
def test_no_two_keys_are_one_transcript(store: LedgerSessionStore, other: Any) -> None:
    run(store.append({**KEY, "subpath": "x"}, [user("a", "u1")]))
    run(store.append({**KEY, "session_id": "x"}, [user("b", "u1")]))
    assert run(store.load(other)) is None and run(store.load({**other, "subpath": "x"})) is None


@pytest.mark.parametrize("key", [{}, {"project_key": "p"}, {"project_key": "", "session_id": "s"}, {**KEY, "subpath": ""},
                                 {"project_key": 1, "session_id": "s"}])  # fmt: skip
def test_a_key_without_its_names_is_refused(store: LedgerSessionStore, key: Any) -> None:
    for call in (store.append(key, [TITLE]), store.load(key), store.delete(key)):
        with pytest.raises(RejectedError, match="project_key and session_id"):
            run(call)


def test_sessions_and_subkeys_are_listed_with_the_time_of_their_last_change(
    ledger: Ledger, ledger_clock: Clock, store: LedgerSessionStore
) -> None:
    for key in (KEY, AGENT, {**KEY, "session_id": "two"}, {**KEY, "project_key": "elsewhere"}):
        run(store.append(key, [TITLE]))
    ledger_clock.set("2026-03-02T09:00:00Z")
    run(store.append(KEY, [TITLE]))
    listed = {item["session_id"]: item["mtime"] for item in run(store.list_sessions("-home-ada-harbour"))}
    assert listed.keys() == {"0b6f7a34", "two"} and listed["0b6f7a34"] == 1_772_442_000_000
    assert run(store.list_subkeys(KEY)) == ["subagents/agent-1"] and run(store.list_sessions("nowhere")) == []
    run(store.delete(AGENT))
    assert run(store.list_subkeys(KEY)) == [] and run(store.load(KEY)) == [TITLE, TITLE]


def test_a_deletion_takes_the_subagents_too_and_one_undo_each_brings_them_back(
    ledger: Ledger, store: LedgerSessionStore
) -> None:
    run(store.delete(KEY))
    run(store.append(KEY, ENTRIES))
    run(store.append(AGENT, [TITLE]))
    before = ledger.position
    run(store.delete(KEY))
    assert run(store.load(KEY)) is None is run(store.load(AGENT)) and run(store.list_subkeys(KEY)) == []
    assert run(store.list_sessions("-home-ada-harbour")) == []
    for position in range(ledger.position, before, -1):
        ledger.undo(position)
    assert run(store.load(KEY)) == ENTRIES and run(store.load(AGENT)) == [TITLE]


def test_a_summary_is_of_all_entries_and_follows_an_undo_and_an_erasure(
    ledger: Ledger, store: LedgerSessionStore, sdk: None
) -> None:
    run(store.append(KEY, [user("My name is Zanzibarquux.", "u1")]))
    run(store.append(AGENT, [user("not this", "u9")]))
    run(store.append(KEY, [user("b", "u2")]))
    last = ledger.position

    def said() -> Any:
        (summary,) = run(store.list_session_summaries("-home-ada-harbour"))
        (listed,) = run(store.list_sessions("-home-ada-harbour"))
        assert summary["mtime"] == listed["mtime"] > 1e12 and summary["session_id"] == "0b6f7a34"
        return summary["data"]["said"]

    assert said() == ["My name is Zanzibarquux.", "b"]
    ledger.undo(last)
    assert said() == ["My name is Zanzibarquux."]
    ledger.redo(last)
    first = ledger.session("claude/-home-ada-harbour/0b6f7a34").messages(oldest_first=True)[0]
    ledger.erase(first.id)
    assert said() == ["b"] and run(store.load(KEY)) == [user("b", "u2")]


def test_a_secret_is_taken_out_of_its_entry_and_the_entry_and_its_neighbours_are_kept(
    ledger: Ledger, store: LedgerSessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    result = {**RESULT, "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": f"KEY={SECRET}\n" + "x" * 300_000}]}}  # fmt: skip
    run(store.append(KEY, [user(f"Use {SECRET}.", "u0"), ANSWER, result, TITLE]))
    first, answer, read, title = run(store.load(KEY))
    assert first == user("Use [redacted:anthropic_key].", "u0") and (answer, title) == (ANSWER, TITLE)
    (block,) = read.pop("message")["content"]
    assert read == {name: value for name, value in RESULT.items() if name != "message"}
    assert block.pop("content") == "KEY=[redacted:anthropic_key]\n" + "x" * 300_000
    assert block == {"type": "tool_result", "tool_use_id": "t1"}
    chat = ledger.session("claude/-home-ada-harbour/0b6f7a34")
    assert chat.messages()[0].content == "Use [redacted:anthropic_key]."
    assert f"session {chat.id}: raw: 2 × anthropic_key was redacted before it was recorded" in caplog.messages
    assert SECRET not in caplog.text
    run(store.append(KEY, [user(f"Use {SECRET}.", "u0"), user("And now?", "u9")]))
    assert [entry.get("uuid") for entry in run(store.load(KEY))] == ["u0", "u2", "u3", None, "u9"]


def test_a_policy_that_refuses_secrets_refuses_an_entry_with_all_that_came_with_it(
    ledger: Ledger, store: LedgerSessionStore
) -> None:
    ledger.policy.set(secrets="refuse")
    with pytest.raises(RejectedError, match="secret"):
        run(store.append(KEY, [*ENTRIES, user(f"Use {SECRET}.")]))
    assert run(store.load(KEY)) is None


@pytest.mark.parametrize("entry", ["text", 5, None, ["type", "user"]])
def test_an_entry_that_is_no_object_is_refused_with_all_that_came_with_it(
    store: LedgerSessionStore, entry: Any
) -> None:
    with pytest.raises(RejectedError, match="entry 2 is no JSON object"):
        run(store.append(KEY, [user("hi", "u1"), entry]))
    assert run(store.load(KEY)) is None


def test_an_entry_whose_words_the_ledger_refuses_takes_no_words_from_its_neighbours(
    ledger: Ledger, store: LedgerSessionStore
) -> None:
    entries = [user("one", "u1"), user("two", "u2", timestamp="2026-13-45T00:00:00Z"), user("three", "u3")]
    run(store.append(KEY, entries))
    assert run(store.load(KEY)) == entries
    (info,) = ledger.sessions.list()
    said = [(message.role, message.content) for message in ledger.session(info.id).messages()]
    assert said == [("user", "one"), ("assistant", ""), ("user", "three")]


def test_another_user_sees_and_deletes_nothing(ledger: Ledger) -> None:
    ada, ben = (LedgerSessionStore(ledger.bind(user=name)) for name in ("ada", "ben"))
    run(ada.append(KEY, ENTRIES))
    run(ada.append(AGENT, ENTRIES))
    assert run(ben.load(KEY)) is None and run(ben.list_sessions("-home-ada-harbour")) == [] == run(
        ben.list_subkeys(KEY)
    )
    run(ben.delete(KEY))
    assert run(ada.load(KEY)) == ENTRIES == run(ada.load(AGENT))


def test_the_story_of_three_days(ledger: Ledger, ledger_clock: Clock, store: LedgerSessionStore) -> None:
    told_changed_asked_and_undone(
        ledger,
        ledger_clock,
        tell=lambda text: run(store.append(KEY, [user(text)])),
        change=lambda _, text: run(store.append(KEY, [user(text)])),
        ask=lambda: run(store.load(KEY))[-1]["message"]["content"],
        subjects=lambda: [ledger.session("claude/-home-ada-harbour/0b6f7a34").id or ""],
    )


def test_a_long_transcript_that_is_sent_again_adds_only_its_new_entries(store: LedgerSessionStore) -> None:
    entries = [{"type": "x", "uuid": f"u-{number}"} for number in range(MANY + 20)]
    run(store.append(KEY, entries[:-10]))
    run(store.append(KEY, [entries[-1], *entries]))
    assert run(store.load(KEY)) == [*entries[:-10], entries[-1], *entries[-10:-1]]


def test_twenty_writers_of_the_same_uuids_store_each_once(ledger: Ledger, store: LedgerSessionStore) -> None:
    def write(number: int) -> None:
        run(store.append(KEY, [user(f"own {number}", f"own-{number}"), *(user(f"{n}", f"u-{n}") for n in range(5))]))

    assert together(*(lambda number=number: write(number) for number in range(20))) == []
    uuids = [entry["uuid"] for entry in run(store.load(KEY))]
    assert sorted(uuids) == sorted([*(f"own-{n}" for n in range(20)), *(f"u-{n}" for n in range(5))])
    assert_sound(ledger)


KILLED = """
import asyncio, sys
from ledger import Ledger
from ledger.doors.claude import MANY, LedgerSessionStore
with Ledger.open(sys.argv[1]) as ledger:
    store = LedgerSessionStore(ledger)
    for number in range(100_000):
        entries = [{"type": "x", "uuid": f"{number} {part}"} for part in "abc"]
        asyncio.run(store.append({"project_key": "p", "session_id": "s"}, entries))
        print(number, flush=True)
"""


def test_a_kill_leaves_whole_appends_and_a_retry_doubles_nothing(tmp_path: Path) -> None:
    path = tmp_path / "killed.db"
    answered = killed_in_the_middle(KILLED, path)
    with Ledger.open(path) as ledger:
        store, key = LedgerSessionStore(ledger), {"project_key": "p", "session_id": "s"}
        stored = [entry["uuid"] for entry in run(store.load(key))]  # type: ignore[arg-type]
        assert stored == [f"{number} {part}" for number in range(len(stored) // 3) for part in "abc"]
        assert len(stored) // 3 > int(answered[-1]) and ledger.proof.verify().ok
        run(store.append(key, [{"type": "x", "uuid": uuid} for uuid in stored[-3:]]))  # type: ignore[arg-type]
        assert len(run(store.load(key))) == len(stored)  # type: ignore[arg-type]


def test_the_door_loads_no_library_and_a_summary_says_what_to_install() -> None:
    program = (
        "import asyncio, sys\n"
        "sys.modules['claude_agent_sdk'] = None\n"
        "from ledger import Ledger\n"
        "from ledger.doors.claude import MANY, LedgerSessionStore\n"
        f"print(*sorted(sys.modules.keys() & {set(LIBRARIES.values()) - {'eventsourcing', 'claude_agent_sdk'}!r}))\n"
        "with Ledger.temporary() as ledger:\n"
        "    try:\n        asyncio.run(LedgerSessionStore(ledger).list_session_summaries('p'))\n"
        "    except ImportError as error:\n        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded, said, *_ = done.stdout.split("\n")
    assert loaded == "" and 'pip install "belief-ledger[claude]"' in said


def test_nothing_of_a_session_that_a_pattern_keeps_out_is_stored(tmp_path: Path) -> None:
    with Ledger.open(
        tmp_path / "memory.db", sessions=SessionPatterns(ignore=("claude/-home-ada-harbour/**",))
    ) as ledger:
        store = LedgerSessionStore(ledger)
        before = ledger.position
        run(store.append(KEY, ENTRIES))
        assert run(store.load(KEY)) is None and run(store.list_sessions("-home-ada-harbour")) == []
        assert ledger.position == before


def test_what_is_no_ledger_is_refused_when_the_door_is_made(tmp_path: Path) -> None:
    check_ledger(LedgerSessionStore, tmp_path / "memory.db")
