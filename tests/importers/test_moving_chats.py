"""The exports of Claude.ai and ChatGPT, and texts of statements: their forms, and the quirks that break importers."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger, RejectedError
from ledger.importers import import_from
from ledger.importers.statements import statements


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ada") as opened:
        yield opened


def found(ledger: Ledger, words: str) -> bool:
    """Return True if the best turn for the words has them."""
    items = ledger.recall(words, among=["turns"], limit=1).items
    return bool(items) and words.casefold() in items[0].content.casefold()


def twice(ledger: Ledger, path: Path, **options: Any) -> Any:
    """Import a source two times, and return the first report; the second adds nothing."""
    report = import_from(ledger, path, **options)
    position = ledger.position
    again = import_from(ledger, path, **options)
    assert (dict(again.taken), ledger.position) == ({}, position)
    return report


# --- Claude.ai -------------------------------------------------------------------------------------------------------


def claude_message(sender: str, uuid: str, text: str, content: object = None) -> dict[str, Any]:
    at = {"created_at": "2025-03-02T10:00:00.123456Z", "updated_at": "2025-03-02T10:00:00.123456Z"}
    return {
        "uuid": uuid,
        "text": text,
        "content": content or [],
        "sender": sender,
        **at,
        "attachments": [],
        "files": [],
    }


CLAUDE: dict[str, Any] = {
    "conversations.json": [
        {
            "uuid": "c1", "name": "The pier", "created_at": "2025-03-02T09:59:00Z", "account": {"uuid": "a"},
            "chat_messages": [
                claude_message("human", "h1", "", [{"type": "text", "text": "Who painted the pier green?"}]),
                claude_message("assistant", "b1", "This block is not supported on your current device yet.", [
                    {"type": "thinking", "thinking": "A secret walrus."},
                    {"type": "tool_use", "name": "search", "input": {}},
                    {"type": "text", "text": "The harbour office painted it."},
                ]),
                claude_message("human", "h2", "And the lighthouse?"),
                claude_message("assistant", "b2", "```\nThis block is not supported on your current device yet.\n```"),
            ],
        },
        {"uuid": "c2", "name": "", "chat_messages": []},
        {"uuid": "c3", "name": "Odd", "chat_messages": [claude_message("assistant", "b3", "Hello?"), {"sender": "robot"}, 5]},
    ],
    "projects.json": [
        {"uuid": "p1", "name": "Boat", "prompt_template": "Always answer in knots.", "updated_at": "2025-01-01T00:00:00Z",
         "docs": [{"filename": "oars.md", "content": "…"}]},
    ],
    "memories.json": [{
        "conversations_memory": "**Work context**\n\nAda repairs boats.\n\nShe lives in Faro.",
        "project_memories": {"p1": "- The mast is up."}, "account_uuid": "a",
    }],
    "users.json": [{"uuid": "a", "full_name": "Ada"}],
}  # fmt: skip


def claude_folder(place: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(json.dumps(content), encoding="utf-8-sig")
    return place


def claude_archive(path: Path, files: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, json.dumps(content))
    return path


@pytest.mark.parametrize("form", ["folder", "archive", "archives", "one file each", "memories as an object"])
def test_an_export_of_claude_comes_in_all_its_forms(ledger: Ledger, tmp_path: Path, form: str) -> None:
    place, files = tmp_path / "export", dict(CLAUDE)
    place.mkdir()
    if form == "one file each":
        files = {"data/" + name: content for name, content in files.items() if name != "projects.json"}
        files["data/projects/p1.json"] = CLAUDE["projects.json"][0]
    if form == "memories as an object":
        files["memories.json"] = CLAUDE["memories.json"][0]
    if form == "archive":
        source = claude_archive(place / "data.zip", files)
    elif form == "archives":
        claude_archive(place / "data-0001.zip", {name: files.pop(name) for name in ("projects.json", "memories.json")})
        claude_archive(place / "data-0002.zip", files)
        (place / "manifest.json").write_text(
            json.dumps({"files": ["data-0001.zip", "data-0002.zip"]}), encoding="utf-8"
        )
        source = place
    else:
        source = claude_folder(place, files)
    report = twice(ledger, source)
    assert (report.kind, dict(report.taken), dict(report.unknown)) == (
        "claude", {"statements": 4, "turns": 2}, {"sender robot": 1})  # fmt: skip
    assert all(found(ledger, words) for words in ("Who painted the pier green", "harbour office", "And the lighthouse"))
    pier, lighthouse = ledger.interactions.list(oldest_first=True)
    assert (pier.response, pier.session, pier.project, pier.metadata["title"]) == (
        "The harbour office painted it.", "c1", None, "The pier")  # fmt: skip
    assert lighthouse.response == "" and pier.occurred_at == "2025-03-02T10:00:00.123456Z"
    waiting = {(item.memory.content, item.memory.project) for item in ledger.review()}
    assert waiting == {("Ada repairs boats.", None), ("She lives in Faro.", None), ("The mast is up.", "Boat")}
    (rule,) = ledger.memories.list()
    assert (rule.content, rule.kind, rule.project) == ("Always answer in knots.", "rule", "Boat")


def test_a_file_of_conversations_alone_is_an_export_too(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(CLAUDE["conversations.json"]), encoding="utf-8")
    report = twice(ledger, path)
    assert (report.kind, dict(report.taken)) == ("claude", {"turns": 2})
    assert dict(report.skipped) == {"an answer without a question": 1, "a message that is no JSON object": 1}


def test_a_manifest_without_its_archives_is_named(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "manifest.json").write_text(
        json.dumps({"files": [{"name": "data-0001.zip"}]}), encoding="utf-8"
    )
    with pytest.raises(RejectedError, match=r"data-0001\.zip.*download"):
        import_from(ledger, tmp_path / "export")


def test_a_list_that_is_cut_short_keeps_what_came_before_and_says_so(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(CLAUDE["conversations.json"])[:-40], encoding="utf-8")
    with pytest.raises(RejectedError, match="no complete JSON list"):
        import_from(ledger, path)


# --- ChatGPT ---------------------------------------------------------------------------------------------------------


def node(id: str, parent: str | None, role: str, text: object, **more: Any) -> dict[str, Any]:
    content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text]}
    message = {"id": id, "author": {"role": role}, "create_time": None, "content": content, "recipient": "all"}
    return {"id": id, "parent": parent, "children": [], "message": {**message, "metadata": {}, **more}}


ABOUT = {
    "content_type": "user_editable_context",
    "user_profile": "The user provided this:\n```Preferred name: Ada\nRole: shipwright```",
    "user_instructions": "How to respond:\n```Answer briefly.```",
}
HIDDEN = {"metadata": {"is_visually_hidden_from_conversation": True}}
CHAT = {
    "title": "The ferry", "create_time": 1700000000.5, "current_node": "a3", "conversation_id": "chat-1",
    "mapping": {each["id"]: each for each in (
        {"id": "root", "parent": None, "message": None, "children": ["s"]},
        node("s", "root", "system", "", **HIDDEN),
        node("about", "s", "user", ABOUT, **HIDDEN),
        node("u1", "about", "user", "When does the ferry leave?", create_time=1700000060.25),
        node("a1", "u1", "assistant", "At eight."),
        node("t1", "a1", "assistant", {"content_type": "code", "text": "search('ferry')"}, recipient="browser"),
        node("t2", "t1", "tool", {"content_type": "tether_quote", "text": "kiwi"}),
        node("a2", "t2", "assistant", "At nine on Sundays."),
        node("left", "a2", "user", "A branch that was left."),
        node("u2", "a2", "user", {"content_type": "multimodal_text", "parts": [{"size": 5}, "Look at this ticket."]}),
        node("a3", "u2", "assistant", "It is for \ud83d Monday."),
    )},
}  # fmt: skip


def test_a_conversation_of_chatgpt_is_the_branch_that_it_shows(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    for number, chats in enumerate(([CHAT], [{**CHAT, "conversation_id": "chat-2", "mapping": {}}])):
        (tmp_path / "export" / f"conversations-{number:03}.json").write_text(json.dumps(chats), encoding="utf-8")
    (tmp_path / "export" / "user.json").write_text("{}", encoding="utf-8")
    report = twice(ledger, tmp_path / "export")
    assert (report.kind, dict(report.taken)) == ("chatgpt", {"statements": 3, "turns": 2})
    first, second = ledger.interactions.list(oldest_first=True)
    assert (first.prompt, first.response) == ("When does the ferry leave?", "At eight.\n\nAt nine on Sundays.")
    assert (second.prompt, second.response) == ("Look at this ticket.", "It is for \ufffd Monday.")
    assert (first.session, first.metadata["title"]) == ("chat-1", "The ferry")
    assert first.occurred_at == second.occurred_at == "2023-11-14T22:14:20.250000Z", "that of the message before"
    assert all(found(ledger, words) for words in ("ferry leave", "nine on Sundays", "this ticket", "Monday"))
    assert {(memory.kind, memory.content) for memory in ledger.memories.list()} == {
        ("user_profile", "Preferred name: Ada"), ("user_profile", "Role: shipwright"), ("rule", "Answer briefly.")}  # fmt: skip
    assert report.skipped["a message of a branch that was left"] == 1
    assert report.skipped["a file of the export without conversations"] == 1


def test_a_circle_of_parents_ends_and_a_missing_current_node_is_the_last_message(
    ledger: Ledger, tmp_path: Path
) -> None:
    circle = [
        node("u1", "a1", "user", "Round and round?", create_time=1700000000),
        node("a1", "u1", "assistant", "Yes."),
    ]
    lost = [
        node("v1", None, "user", "An older root?", create_time=1700000001),
        node("v2", None, "user", "The newest root?", create_time=1700000002),
    ]
    chats = [
        {"id": f"chat-{number}", "mapping": {each["id"]: each for each in nodes}, "current_node": current}
        for number, (nodes, current) in enumerate(((circle, "a1"), (lost, "gone"), ([], None)))
    ]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([*chats, {"title": "without a mapping"}]), encoding="utf-8")
    twice(ledger, path, kind="chatgpt")
    said = [(turn.prompt, turn.response) for turn in ledger.interactions.list(oldest_first=True)]
    assert said == [("Round and round?", "Yes."), ("The newest root?", "")]


# --- a text of statements ----------------------------------------------------------------------------------------------


def test_a_text_of_statements_waits_for_review(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "about-me.md"
    path.write_text(
        "Here is what I remember about you:\n\n## Preferences\n```\n[2025-04-01] - Ada prefers tea\n  over coffee.\n"
        "[unknown] - Ada dislikes fog.\n```\n**Instructions**\n1. Answer in metric units.\n",
        encoding="utf-8-sig",
    )
    report = twice(ledger, path)
    assert (report.kind, dict(report.taken)) == ("summary", {"statements": 3})
    waiting = {item.memory.content: item.memory for item in ledger.review()}
    assert {text: memory.kind for text, memory in waiting.items()} == {
        "Ada prefers tea over coffee.": "preference",
        "Ada dislikes fog.": "preference",
        "Answer in metric units.": "rule",
    }
    assert waiting["Ada prefers tea over coffee."].valid_from == "2025-04-01T00:00:00.000000Z"
    assert ledger.history.audit()[0].channel == "file" and not ledger.memories.list()
    ledger.promote(waiting["Ada dislikes fog."].id)
    assert ledger.recall("fog").items[0].content == "Ada dislikes fog."


def test_what_was_rejected_here_is_not_proposed_again(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "about-me.txt"
    path.write_text("Ada likes rum.\nAda likes tea.\n", encoding="utf-8")
    ledger.reject(ledger.propose("Ada likes rum.").id)
    report = import_from(ledger, path)
    assert (dict(report.taken), dict(report.skipped)) == (
        {"statements": 1}, {"a statement that this ledger has refuted": 1})  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One.\nTwo.\n", ["One.", "Two."]),
        ("Intro:\n\n- One\n  goes on.\n* Two\n\nOutro.", ["One goes on.", "Two"]),
        ("2) One\n3) Two", ["One", "Two"]),
        ("", []),
    ],
)
def test_a_statement_is_a_line_or_an_item_of_a_list(text: str, expected: list[str]) -> None:
    assert [stated.text for stated in statements(text)] == expected


# --- a file of interactions --------------------------------------------------------------------------------------------


def test_a_file_of_interactions_is_known_by_either_call(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "turns.jsonl"
    path.write_text(
        '{"prompt": "Which tram?", "response": "Number 28.", "occurred_at": "2025-10-26T02:30:00"}\n{"no": 1}\n',
        encoding="utf-8",
    )
    report = twice(ledger, path, zone="Europe/Brussels")
    assert (report.kind, dict(report.taken), dict(report.skipped)) == (
        "interactions", {"turns": 1}, {"a line that is bad": 1})  # fmt: skip
    assert any("comes twice" in text for _, text in report.notes)
    assert found(ledger, "Number 28")
    assert ledger.interactions.import_file(path, zone="Europe/Brussels").known == 1
    with pytest.raises(RejectedError, match="without since and limit"):
        import_from(ledger, path, limit=1)
