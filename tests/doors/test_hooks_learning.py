"""The line at the start of a session that says how many turns no model has read, and asks the agent to read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledger import Ledger
from ledger.doors.hooks import HookOptions, answer, options_of

ASKS = "run the skill `learn` of memory-ledger once"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


def told(path: Path, turns: int) -> None:
    with Ledger.open(path, user="ada") as ledger:
        for number in range(turns):
            ledger.capture(f"My friend number {number} works at the harbour.", "Noted.")


def started(path: Path, *, source: str = "startup", learn_turns: int = 20) -> str:
    event = {"hook_event_name": "SessionStart", "session_id": "s", "cwd": str(path.parent), "source": source}
    text = answer(event, HookOptions(str(path), "ada", "claude-code", None, learn_turns))
    return json.loads(text)["hookSpecificOutput"]["additionalContext"] if text else ""


@pytest.mark.parametrize(
    ("turns", "says", "asks"), [(0, False, False), (1, True, False), (20, True, False), (21, True, True)]
)
def test_a_start_says_what_is_unread_and_asks_for_more_than_twenty_turns(
    path: Path, turns: int, says: bool, asks: bool
) -> None:
    told(path, turns)
    text = started(path)
    assert ("unread by any model" in text, ASKS in text) == (says, asks)
    if turns == 21:
        assert f"21 turns are unread by any model: {ASKS}" in text


@pytest.mark.parametrize("source", ["resume", "compact"])
def test_a_session_is_asked_once(path: Path, source: str) -> None:
    told(path, 30)
    assert "30 turns are unread by any model." in started(path, source=source)


def test_zero_turns_switch_the_line_off_and_so_does_a_model(path: Path) -> None:
    told(path, 30)
    assert "unread" not in started(path, learn_turns=0)
    words = ["--db", str(path), "--user", "ada"]
    assert options_of(words).learn_turns == 20
    assert options_of([*words, "--learn-turns", "0"]).learn_turns == 0
    (path.parent / "ledger.toml").write_text(
        'model = "local:qwen3"\nmodel_base_url = "http://127.0.0.1:1/v1"\n', encoding="utf-8"
    )
    (path.parent / "ledger.toml").chmod(0o600)
    assert options_of(words).learn_turns == 0


def test_the_setting_names_the_number_of_turns(path: Path) -> None:
    told(path, 6)
    (path.parent / "ledger.toml").write_text("learn_turns = 5\n", encoding="utf-8")
    (path.parent / "ledger.toml").chmod(0o600)
    assert ASKS in started(path, learn_turns=options_of(["--db", str(path), "--user", "ada"]).learn_turns)
