"""The agent files of Letta: blocks as candidates, messages as turns, in the old form with one agent and in the new form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moved_stores import assert_comes_again, assert_recalled, states, twice

from ledger import Ledger, RejectedError
from ledger.importers import import_from

HUMAN = (
    "\nThis is what I know so far about the user:\n\n- Plays the oboe \ud800\n- Lives in Lisbon\n- Lives in Lisbon\n"
)


def block(label: str, value: object, **more: object) -> dict[str, Any]:
    return {"label": label, "value": value, "limit": 20_000, "description": None, "metadata": {}, "read_only": False,
            "hidden": None, "id": f"block-{label}"} | more  # fmt: skip


def message(role: str, text: object, minute: int, **more: object) -> dict[str, Any]:
    content = [{"type": "text", "text": text, "signature": None}] if isinstance(text, str) else text
    return {"type": "message", "role": role, "content": content, "name": None, "id": f"message-{minute}",
            "tool_calls": None, "created_at": f"2025-11-01T10:{minute:02}:00+00:00"} | more  # fmt: skip


def packed(kind: str, text: str) -> str:
    return json.dumps({"type": kind, "message": text, "time": "2025-03-23 08:04:26 PM PDT-0700"})


def sent(text: str) -> list[dict[str, Any]]:
    return [
        {
            "id": "c1",
            "function": {"name": "send_message", "arguments": json.dumps({"message": text})},
            "type": "function",
        }
    ]


MESSAGES = [
    message("system", "<base_instructions>You are helpful.</base_instructions>", 0),
    message("assistant", "Hello?", 1),
    message("user", "<system-reminder>The user has connected.</system-reminder>", 2),
    message("user", "Where does the lighthouse keeper live?<system-reminder>Be kind.</system-reminder>", 3),
    message(
        "assistant",
        [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Ines lives on the island."}],
        4,
    ),
    message("tool", '{"status": "OK"}', 5, tool_call_id="c1", tool_returns=[]),
    message("assistant", "She has a ketch.", 6),
    message("user", None, 7),
    message("oracle", "Doom.", 8),
]
NEW: dict[str, Any] = {
    "agents": [
        {"name": "Sam", "agent_type": "letta_v1_agent", "block_ids": ["block-0"], "messages": MESSAGES, "id": "agent-0"},
        {"name": "Sam-sleeptime", "agent_type": "sleeptime_agent", "messages": MESSAGES, "id": "agent-1"},
        7,
    ],
    "blocks": [
        block("human", HUMAN),
        block("system/human/preferences", "Prefers green tea over coffee.\n\nHates long mails."),
        block("persona", "I am Sam."),
        block("memory_filesystem", "/memory/\n  human.md", read_only=True),
        block("empty", ""),
        block("none", None),
    ],
    "groups": [], "files": [], "sources": [], "tools": [], "mcp_servers": [], "marmalade": [],
    "metadata": {"revision_id": "1"}, "created_at": "2025-11-02T10:00:00+00:00",
}  # fmt: skip
OLD: dict[str, Any] = {
    "agent_type": "memgpt_agent", "name": "memgpt", "version": "0.6", "created_at": "2025-03-24T02:59:06+00:00",
    "core_memory": [block("human", HUMAN, updated_at="2025-03-24T03:13:44.037016+00:00")],
    "messages": [
        message("user", packed("login", "Brad logged in"), 1, tool_calls=[]),
        message("user", packed("user_message", "Why do you always ask?"), 2, tool_calls=[]),
        message("assistant", "Brad has noticed my style.", 3, tool_calls=sent("Because I am curious, Brad.")),
        message("tool", '{"status": "OK"}', 4, name="send_message"),
        message("user", packed("heartbeat", "go on"), 5, tool_calls=[]),
        message("assistant", "A thought alone.", 6, tool_calls=[]),
    ],
}  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ada") as opened:
        yield opened


def agent_file(path: Path, content: dict[str, Any]) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8-sig")
    return path


def test_an_agent_file_brings_turns_and_the_statements_of_its_blocks_for_review(ledger: Ledger, tmp_path: Path) -> None:
    report = twice(ledger, agent_file(tmp_path / "sam.af", NEW))
    assert (report.kind, dict(report.taken)) == ("letta", {"turns": 1, "statements": 4})
    assert dict(report.unknown) == {"role oracle": 1, "marmalade": 1}
    assert dict(report.skipped) == {
        "what a tool or the system said, or was told": 2, "an answer without a prompt": 1,
        "a turn without words of a person": 2, "the messages of an agent that works in the background": 1,
        "an agent, a block or a message that is no JSON object": 1, "the block persona, which the agent says of itself": 1,
        "a block that only programs write": 1, "a block without a label or words": 2,
    }  # fmt: skip
    assert set(states(ledger).values()) == {"candidate"}
    tea = next(each for each in ledger.memories.list(statuses=()) if "tea" in str(each.content))
    assert (tea.kind, tea.valid_from, tea.metadata["letta"]) == (
        "preference", "2025-11-02T10:00:00.000000Z", "system/human/preferences")  # fmt: skip
    (turn,) = ledger.interactions.list()
    assert (turn.prompt, turn.response, turn.session, turn.occurred_at) == (
        "Where does the lighthouse keeper live?", "Ines lives on the island.\n\nShe has a ketch.", "letta Sam",
        "2025-11-01T10:03:00.000000Z")  # fmt: skip
    for each in ledger.review():
        ledger.promote(each.id)
    assert_recalled(ledger)


def test_an_old_agent_file_has_prompts_in_json_and_answers_in_calls(ledger: Ledger, tmp_path: Path) -> None:
    report = twice(ledger, agent_file(tmp_path / "old.af", OLD))
    assert dict(report.taken) == {"turns": 1, "statements": 2}
    assert report.skipped["what a program said in the place of the user"] == 2
    (turn,) = ledger.interactions.list()
    assert (turn.prompt, turn.response) == ("Why do you always ask?", "Because I am curious, Brad.")
    assert {each.valid_from for each in ledger.memories.list(statuses=())} == {"2025-03-24T03:13:44.037016Z"}
    assert_recalled(ledger)


def test_an_agent_file_whose_json_is_a_text_is_read_too(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "text.af").write_text(json.dumps(json.dumps(NEW, indent=2)), encoding="utf-8")
    report = twice(ledger, tmp_path / "text.af")
    assert (report.kind, dict(report.taken)) == ("letta", {"turns": 1, "statements": 4})


def test_an_agent_file_that_is_cut_short_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    path = agent_file(tmp_path / "cut.af", NEW)
    path.write_text(path.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    with pytest.raises(RejectedError, match=r"cut\.af is no JSON"):
        import_from(ledger, path)


def test_the_same_agent_in_a_later_file_adds_what_is_new(ledger: Ledger, tmp_path: Path) -> None:
    import_from(ledger, agent_file(tmp_path / "a.af", NEW))
    more = [dict(each, id=f"message-{number}") for number, each in enumerate(MESSAGES, 100)]
    more.append(message("user", "And the harbour?", 9))
    later = NEW | {"agents": [NEW["agents"][0] | {"messages": more}]}
    assert dict(import_from(ledger, agent_file(tmp_path / "b.af", later)).taken) == {"turns": 1}


def test_what_came_from_letta_can_be_taken_back_and_come_again(ledger: Ledger, tmp_path: Path) -> None:
    assert_comes_again(ledger, agent_file(tmp_path / "sam.af", NEW))
