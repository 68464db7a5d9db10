"""The database of picoclaw's seahorse: messages with their parts, and the graph of summaries in the window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moved_stores import assert_comes_again, database, twice

from ledger import Ledger
from ledger.importers import import_from

DDL = """
CREATE TABLE conversations (conversation_id INTEGER PRIMARY KEY AUTOINCREMENT, session_key TEXT NOT NULL UNIQUE,
    history_revision TEXT NOT NULL DEFAULT '', created_at TEXT NOT NULL DEFAULT (datetime('now')),
    updated_at TEXT NOT NULL DEFAULT (datetime('now')));
CREATE TABLE messages (message_id INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation_id INTEGER NOT NULL REFERENCES conversations(conversation_id), role TEXT NOT NULL,
    content TEXT NOT NULL DEFAULT '', model_name TEXT NOT NULL DEFAULT '', reasoning_content TEXT NOT NULL DEFAULT '',
    channel_message_id TEXT, metadata TEXT, attachments TEXT, token_count INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL DEFAULT (datetime('now')));
CREATE TABLE message_parts (part_id INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id INTEGER NOT NULL REFERENCES messages(message_id), type TEXT NOT NULL, text TEXT, name TEXT, arguments TEXT,
    tool_call_id TEXT, media_uri TEXT, mime_type TEXT, ordinal INTEGER NOT NULL DEFAULT 0);
CREATE TABLE summaries (summary_id TEXT PRIMARY KEY, conversation_id INTEGER NOT NULL, kind TEXT NOT NULL,
    depth INTEGER NOT NULL DEFAULT 0, content TEXT NOT NULL, token_count INTEGER NOT NULL DEFAULT 0, earliest_at TEXT,
    latest_at TEXT, descendant_count INTEGER NOT NULL DEFAULT 0, descendant_token_count INTEGER NOT NULL DEFAULT 0,
    source_message_token_count INTEGER NOT NULL DEFAULT 0, model TEXT, created_at TEXT NOT NULL DEFAULT (datetime('now')));
CREATE TABLE summary_parents (summary_id TEXT NOT NULL, parent_summary_id TEXT NOT NULL,
    PRIMARY KEY (summary_id, parent_summary_id));
CREATE TABLE summary_messages (summary_id TEXT NOT NULL, message_id INTEGER NOT NULL, ordinal INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (summary_id, message_id));
CREATE TABLE context_items (conversation_id INTEGER NOT NULL, ordinal INTEGER NOT NULL, item_type TEXT NOT NULL,
    summary_id TEXT, message_id INTEGER, token_count INTEGER NOT NULL DEFAULT 0,
    created_at TEXT NOT NULL DEFAULT (datetime('now')), PRIMARY KEY (conversation_id, ordinal));
CREATE VIRTUAL TABLE messages_fts USING fts5(content, content='messages', content_rowid='message_id', tokenize="trigram");
CREATE TABLE plums (id INTEGER);
"""
TALK = "agent:main:main"
LINES = (
    ("user", "The lighthouse keeper is called Ines."), ("assistant", "I shall greet Ines."),
    ("user", "The harbour closes at noon."), ("assistant", "Then I hurry to the harbour."),
    ("user", "Yes."), ("assistant", "[tool_use: tide]"), ("tool", "[tool_result for k1: high]"),
    ("assistant", "It is high tide."),
    ("user", "Yes."), ("assistant", "Good night."),
)  # fmt: skip


def rows(first: int = 1) -> dict[str, list[dict[str, Any]]]:
    """Return a conversation whose messages are numbered from a number, as after its history was read again."""
    messages = [
        {"message_id": first + number, "conversation_id": 1, "role": role, "content": content, "token_count": 8,
         "model_name": "glm-5" if role == "assistant" else "", "reasoning_content": "Tides." if number == 7 else "",
         "created_at": f"2025-03-01 10:{number:02}:00"}
        for number, (role, content) in enumerate(LINES)
    ]  # fmt: skip
    more = {"conversation_id": 1, "created_at": "2025-03-01 11:00:00"}
    messages += [
        {"message_id": first + 20, "role": "user", "content": "", **more},
        {"message_id": first + 21, "role": "oracle", "content": "Doom.", **more},
    ]
    call, result = first + 5, first + 6
    return {
        "conversations": [
            {"conversation_id": 1, "session_key": TALK, "created_at": "2025-03-01 09:00:00"},
            {"conversation_id": 2, "session_key": "cron:nightly", "created_at": "2025-03-01 09:00:00"},
        ],
        "messages": messages,
        "message_parts": [
            {"message_id": call, "type": "tool_use", "name": "tide", "arguments": '{"at": "noon"}', "tool_call_id": "k1"},
            {"message_id": result, "type": "tool_result", "text": "high", "tool_call_id": "k1"},
            {"message_id": result, "type": "hologram", "text": "?", "ordinal": 1},
        ],
        "summaries": [
            {"summary_id": "sum_1", "kind": "leaf", "content": "Ines keeps the lighthouse.", "token_count": 6,
             "model": "glm-5", **more},
            {"summary_id": "sum_2", "kind": "leaf", "content": "The harbour closes at noon.", **more},
            {"summary_id": "sum_3", "kind": "condensed", "depth": 1, "content": "Of Ines and the harbour.", **more},
            {"summary_id": "sum_4", "kind": "leaf", "content": "Yes. [tool_u\n[Truncated from 4 messages]", **more},
            {"summary_id": "sum_5", "kind": "condensed", "depth": 1, "content": "Lost.", **more},
        ],
        "summary_messages": [
            {"summary_id": name, "message_id": first + number, "ordinal": number}
            for name, numbers in (("sum_1", (0, 1)), ("sum_2", (2, 3)), ("sum_4", (4, 5, 6, 7)))
            for number in numbers
        ],
        "summary_parents": [
            {"summary_id": "sum_3", "parent_summary_id": "sum_1"}, {"summary_id": "sum_3", "parent_summary_id": "sum_2"},
            {"summary_id": "sum_5", "parent_summary_id": "sum_gone"},
        ],
        "plums": [{"id": 1}],
    }  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ada") as opened:
        yield opened


def test_a_conversation_of_picoclaw_has_its_messages_its_summaries_and_its_window(
    ledger: Ledger, tmp_path: Path
) -> None:
    position = ledger.position
    path = database(tmp_path / "seahorse.db", DDL, rows())
    report = import_from(ledger, path)
    assert (report.kind, dict(report.taken)) == ("picoclaw", {"messages": 10, "summaries": 3})
    assert dict(report.unknown) == {"role oracle": 1, "part hologram": 1, "table plums": 1}
    assert dict(report.skipped) == {
        "a message that says nothing": 1, "a summary that only cuts its messages off": 1,
        "a summary of which a source did not come along": 1,
    }  # fmt: skip
    session = ledger.session(TALK)
    messages = session.messages(limit=100, oldest_first=True)
    assert [each.role for each in messages] == [role for role, _ in LINES]
    assert (messages[0].content, messages[0].tokens, messages[1].model) == (LINES[0][1], 8, "glm-5")
    assert messages[0].occurred_at == "2025-03-01T10:00:00.000000Z"
    assert messages[5].parts[0]["arguments"] == {"at": "noon"} and messages[6].parts[0]["text"] == "high"
    assert messages[7].reasoning == "Tides."
    condensed, *_ = [each for each in session.summaries.list() if each.kind == "condensed"]
    assert (condensed.content, condensed.messages, condensed.depth) == ("Of Ines and the harbour.", 4, 1)
    assert [item.kind for item in session.items()] == ["summary", *["message"] * 6]
    for role, words in LINES:
        if role != "tool" and not words.startswith(("[", "Yes.")):
            assert words in [item.content for item in ledger.recall(words, among=["turns"], limit=2).items]
    after = ledger.position
    assert (dict(import_from(ledger, path).taken), ledger.position) == ({}, after)
    assert position < after


def test_a_history_that_picoclaw_numbers_anew_is_known(ledger: Ledger, tmp_path: Path) -> None:
    first = twice(ledger, database(tmp_path / "a.db", DDL, {**rows(), "summaries": []}))
    assert dict(first.taken) == {"messages": 10}
    again = import_from(ledger, database(tmp_path / "b.db", DDL, rows(500)))
    assert (dict(again.taken), again.known) == ({"summaries": 3}, 10)


def test_a_preview_of_a_conversation_counts_its_messages_and_summaries(ledger: Ledger, tmp_path: Path) -> None:
    position, path = ledger.position, database(tmp_path / "a.db", DDL, rows())
    preview = import_from(ledger, path, dry_run=True)
    assert ledger.position == position and ledger.sessions.list() == []
    done = import_from(ledger, path)
    assert (preview.taken, preview.skipped) == (done.taken, done.skipped)
    again = import_from(ledger, path, dry_run=True)
    assert (dict(again.taken), again.known) == ({}, 13)


def test_a_preview_of_two_commits_counts_the_summaries_of_the_first_one(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.importers.moving.CHUNK", 2)
    twice(ledger, database(tmp_path / "a.db", DDL, rows()))


def test_what_came_from_picoclaw_can_be_taken_back_and_come_again(ledger: Ledger, tmp_path: Path) -> None:
    assert_comes_again(ledger, database(tmp_path / "seahorse.db", DDL, rows()))
