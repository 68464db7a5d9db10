"""The hooks and the importers of transcripts: each knows what the other has recorded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from claude_transcripts import DAY_1, DAY_2, Write, entry, ledger_alone, turn, writer

from ledger import Ledger
from ledger.doors import hooks
from ledger.importers import import_from


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return writer(tmp_path)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    with ledger_alone(tmp_path, monkeypatch) as opened:
        yield opened


def hook(ledger: Ledger, path: Path, client: str = "claude-code", event: str = "Stop") -> None:
    options = hooks.HookOptions(ledger.path, "ada", client)
    about = {"hook_event_name": event, "session_id": path.stem, "transcript_path": str(path), "cwd": "/srv/shop"}
    hooks.answer(about, options)


@pytest.mark.parametrize("client", ["claude-code", "a client of another name"])
def test_what_the_hooks_recorded_is_known_to_an_import(ledger: Ledger, write: Write, client: str) -> None:
    path = write(*turn("One.", "u1", "Yes, one."), *turn("Two.", "u2", "Yes, two."))
    hook(ledger, path, client)
    assert len(ledger.interactions.list()) == 2
    position = ledger.position
    report = import_from(ledger, path)
    assert (dict(report.taken), report.known, ledger.position) == ({}, 2, position)


@pytest.mark.parametrize("client", ["claude-code", "a client of another name"])
def test_what_was_imported_is_known_to_the_hooks(ledger: Ledger, write: Write, client: str) -> None:
    path = write(*turn("One.", "u1", "Yes, one."), *turn("Two.", "u2", "Yes, two."))
    import_from(ledger, path)
    hook(ledger, path, client)
    assert [turn.metadata["turn"] for turn in ledger.interactions.list()] == ["u2", "u1"]
    write(*turn("One.", "u1", "Yes, one."), *turn("Two.", "u2", "Yes, two."), *turn("Three.", "u3", "Yes, three."))
    hook(ledger, path, client)
    assert [turn.prompt for turn in ledger.interactions.list()] == ["Three.", "Two.", "One."]
    assert len(ledger.session(DAY_1).messages(limit=100)) == 6


def test_hooks_and_imports_in_turn_record_each_turn_once(ledger: Ledger, write: Write) -> None:
    turns = [turn(f"Number {number}.", f"u{number}", f"Yes, {number}.") for number in range(6)]
    path = write(*chain(*turns[3:]))
    hook(ledger, path)
    write(*chain(*turns))
    assert dict(import_from(ledger, path).taken) == {"turns": 3}
    hook(ledger, path)
    hook(ledger, path, event="SessionEnd")
    assert sorted(turn.prompt for turn in ledger.interactions.list()) == [f"Number {number}." for number in range(6)]


def test_an_answer_that_came_later_is_added_by_an_import_and_by_a_hook(ledger: Ledger, write: Write) -> None:
    for adds in (lambda path: import_from(ledger, path), lambda path: hook(ledger, path)):
        name = DAY_1 if not ledger.interactions.list() else DAY_2
        path = write(entry("user", f"Where is {name}?", name, sessionId=name), name=name)
        import_from(ledger, path)
        assert ledger.interactions.list()[0].response == ""
        write(*turn(f"Where is {name}?", name, "Here.", sessionId=name), name=name)
        adds(path)
        assert ledger.interactions.list()[0].response == "Here."
    assert len(ledger.interactions.list()) == 2


def test_the_answer_that_the_agent_is_writing_now_is_left_to_the_next_hook(ledger: Ledger, write: Write) -> None:
    call = entry("assistant", [{"type": "text", "text": "I import."}, {"type": "tool_use", "name": "Bash"}], "a1")
    path = write(entry("user", "Import my transcripts.", "u1"), call)
    import_from(ledger, path)
    assert ledger.interactions.list()[0].response == ""
    write(
        entry("user", "Import my transcripts.", "u1"),
        call,
        entry("assistant", [{"type": "text", "text": "Done."}], "a2"),
    )
    hook(ledger, path)
    assert [turn.response for turn in ledger.interactions.list()] == ["I import.\n\nDone."]
    old = write(entry("user", "Another.", "v1", sessionId=DAY_2), {**call, "uuid": "b1"}, name=DAY_2)
    os.utime(old, (1_700_000_000, 1_700_000_000))  # the agent died
    import_from(ledger, old)
    assert ledger.interactions.list()[0].response == "I import."


# --- Codex ---

ID = "019b5a7e-1111-7aaa-8aaa-111111111111"
AT = "2026-02-03T08:00:00.000Z"


def event(kind: str, /, **payload: object) -> dict[str, Any]:
    return {"timestamp": AT, "type": "event_msg", "payload": {"type": kind, **payload}}


def item(kind: str, text: str, id: str) -> dict[str, Any]:
    block = {"type": "text" if kind == "UserMessage" else "Text", "text": text}
    return event("item_completed", item={"type": kind, "id": id, "content": [block]})


def for_model(role: str, text: str) -> dict[str, Any]:
    block = {"type": "input_text" if role == "user" else "output_text", "text": text}
    return {"timestamp": AT, "type": "response_item", "payload": {"type": "message", "role": role, "content": [block]}}


META: dict[str, Any] = {
    "timestamp": AT,
    "type": "session_meta",
    "payload": {"id": ID, "cwd": "/srv/shop", "originator": "codex_cli_rs"},
}


def both(prompt: str, reply: str, id: str) -> list[dict[str, Any]]:
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


TURNS = [("The crane needs oil.", "Greased at both bearings."), ("The quay is wet.", "Rain is forecast.")]


def rollout(
    tmp_path: Path, *lines: dict[str, Any], name: str = f"rollout-2026-02-03T08-00-00-{ID}", end: str = ""
) -> Path:
    path = tmp_path / "codex" / "sessions" / "2026" / "02" / "03" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + end, encoding="utf-8")
    return path


def said(ledger: Ledger) -> list[tuple[str | None, str | None]]:
    return [(turn.prompt, turn.response) for turn in ledger.interactions.list(oldest_first=True)]


def codex_hook(ledger: Ledger, path: Path) -> None:
    about = {"hook_event_name": "Stop", "session_id": ID, "transcript_path": str(path), "cwd": "/srv/shop"}
    hooks.answer(about, hooks.HookOptions(ledger.path, "ada", "codex"))


def test_the_hooks_and_an_import_know_each_others_turns(ledger: Ledger, tmp_path: Path) -> None:
    path = rollout(tmp_path, META, *both(*TURNS[0], "i1"))
    codex_hook(ledger, path)
    rollout(tmp_path, META, *both(*TURNS[0], "i1"), *both(*TURNS[1], "i2"))
    report = import_from(ledger, path)
    assert (dict(report.taken), report.known) == ({"turns": 1}, 1)
    codex_hook(ledger, path)
    assert said(ledger) == TURNS and len(ledger.session(ID).messages(limit=100)) == 4
