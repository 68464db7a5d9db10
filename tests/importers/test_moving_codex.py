"""The rollouts of Codex: each text once, whatever form the version gives it, and matched with what the hooks recorded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from ledger.importers import import_from

ID = "019b5a7e-1111-7aaa-8aaa-111111111111"
AT = "2026-02-03T08:00:00.000Z"
Line = dict[str, Any]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    for name in [name for name in os.environ if name.startswith(("LEDGER_", "CLAUDE_"))]:
        monkeypatch.delenv(name)
    with Ledger.open(tmp_path / "memory.db", user="ada") as opened:
        yield opened


def event(kind: str, /, **payload: object) -> Line:
    return {"timestamp": AT, "type": "event_msg", "payload": {"type": kind, **payload}}


def item(kind: str, text: str, id: str) -> Line:
    block = {"type": "text" if kind == "UserMessage" else "Text", "text": text}
    return event("item_completed", item={"type": kind, "id": id, "content": [block]})


def for_model(role: str, text: str) -> Line:
    block = {"type": "input_text" if role == "user" else "output_text", "text": text}
    return {"timestamp": AT, "type": "response_item", "payload": {"type": "message", "role": role, "content": [block]}}


META: Line = {
    "timestamp": AT,
    "type": "session_meta",
    "payload": {"id": ID, "cwd": "/srv/shop", "originator": "codex_cli_rs"},
}
CONTEXT = for_model("user", "<environment_context><cwd>/srv/shop</cwd></environment_context>")


def both(prompt: str, reply: str, id: str) -> list[Line]:
    """A turn of a version that says each text as an item, an event and an item for the model."""
    return [
        *(for_model("user", prompt), event("user_message", message=prompt), item("UserMessage", prompt, id)),
        event("token_count", info=None),
        *(
            event("agent_message", message=reply),
            item("AgentMessage", reply, f"{id}-reply"),
            for_model("assistant", reply),
        ),
    ]


def older(prompt: str, reply: str) -> list[Line]:
    """A turn of a version without items."""
    return [
        *(for_model("user", prompt), event("user_message", message=prompt, kind="plain")),
        *(event("agent_message", message=reply), for_model("assistant", reply)),
    ]


def write(tmp_path: Path, *lines: Line, name: str = f"rollout-2026-02-03T08-00-00-{ID}", end: str = "") -> Path:
    path = tmp_path / "codex" / "sessions" / "2026" / "02" / "03" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + end, encoding="utf-8")
    return path


def said(ledger: Ledger) -> list[tuple[str | None, str | None]]:
    return [(turn.prompt, turn.response) for turn in ledger.interactions.list(oldest_first=True)]


TURNS = [("The crane needs oil.", "Greased at both bearings."), ("The quay is wet.", "Rain is forecast.")]


@pytest.mark.parametrize(
    "lines",
    [
        [META, CONTEXT, *both(*TURNS[0], "i1"), *both(*TURNS[1], "i2")],
        [META, CONTEXT, *older(*TURNS[0]), *older(*TURNS[1])],
        [META, CONTEXT, *older(*TURNS[0]), *both(*TURNS[1], "i2")],
        [META, CONTEXT, *(for_model(*pair) for turn in TURNS for pair in zip(("user", "assistant"), turn, strict=True))],
        [{"id": ID, "timestamp": AT, "instructions": None}, CONTEXT["payload"], {"record_type": "state"},
         *(for_model(*pair)["payload"] for turn in TURNS for pair in zip(("user", "assistant"), turn, strict=True))],
    ],
    ids=["items and events", "events", "a session that a newer version resumed", "items for the model", "the first form"],
)  # fmt: skip
def test_every_form_of_a_rollout_has_each_turn_once(ledger: Ledger, tmp_path: Path, lines: list[Line]) -> None:
    write(tmp_path, *lines)
    report = import_from(ledger, tmp_path / "codex")
    assert (report.kind, dict(report.taken)) == ("codex", {"turns": 2})
    assert said(ledger) == TURNS
    assert {turn.session for turn in ledger.interactions.list()} == {ID}
    for text in (text for turn in TURNS for text in turn):
        assert ledger.recall(text, among=["turns"], limit=1).items[0].content == text
    position = ledger.position
    assert (import_from(ledger, tmp_path / "codex").known, ledger.position) == (2, position)


def test_the_item_may_come_before_the_event_and_one_text_twice_is_two_turns(ledger: Ledger, tmp_path: Path) -> None:
    early = [
        item("UserMessage", "Again.", "i1"),
        event("user_message", message="Again."),
        event("agent_message", message="Yes."),
    ]
    late = [
        item("UserMessage", "Again.", "i2"),
        event("user_message", message="Again."),
        event("agent_message", message="Yes."),
    ]
    write(tmp_path, META, *early, *late)
    import_from(ledger, tmp_path / "codex")
    assert said(ledger) == [("Again.", "Yes."), ("Again.", "Yes.")]


def test_the_output_of_exec_has_no_prompts_and_says_so(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "exec.jsonl"
    done = {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "Done."}}
    path.write_text(
        "".join(json.dumps(line) + "\n" for line in ({"type": "thread.started", "thread_id": ID}, done)),
        encoding="utf-8",
    )
    report = import_from(ledger, path)
    assert report.kind == "codex" and not report.taken
    ((reason, count),) = report.skipped.items()
    assert "has no prompts; the rollout" in reason and count == 2


def test_the_words_of_a_program_a_subagent_and_unknown_records_are_told_apart(ledger: Ledger, tmp_path: Path) -> None:
    by_exec = {**META, "payload": {**META["payload"], "originator": "codex_exec"}}
    write(tmp_path, by_exec, *older("I prefer rum.", "Noted."), {"timestamp": AT, "type": "jam", "payload": {}},
          event("marmalade"), end='{"timestamp":"2026')  # fmt: skip
    sub = {**META, "payload": {"id": "other", "source": {"subagent": {"parent": ID}}}}
    write(tmp_path, sub, *older("Look for a kiwi.", "Here."), name="rollout-2026-02-03T09-00-00-sub")
    report = import_from(ledger, tmp_path / "codex")
    assert dict(report.taken) == {"turns": 1} and dict(report.unknown) == {"jam": 1, "marmalade": 1}
    assert report.skipped["a rollout of a subagent"] == 1 and report.skipped["a line that is no JSON object"] == 1
    captured = [entry for entry in ledger.history.audit().all() if entry.type == "InteractionCaptured"]
    assert [entry.channel for entry in captured] == ["agent"]
