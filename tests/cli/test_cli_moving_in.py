"""What an importer gives from a shell: the ends, references and order of old memories, extracted turns, summaries."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import answer, run


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "memory.db")


def test_a_shell_brings_old_memories_with_their_references_ends_and_order(db: str) -> None:
    counted = ("--reference-count", "40", "--last-referenced-at", "2023-11-05")
    porto = answer("remember", "Ada lives in Porto.", *counted, "--occurred-at", "2022-05-01", db=db)
    boat = answer("remember", "Ada owns a boat.", "--occurred-at", "2021-03-01", db=db)
    assert (porto["reference_count"], porto["last_referenced_at"]) == (40, "2023-11-05T00:00:00.000000Z")
    over = answer("memories", "end", boat["id"], "--occurred-at", "2023-08-01", "--reason", "sold", db=db)
    assert (over["status"], over["valid_to"], over["superseded_by"]) == (
        "superseded",
        "2023-08-01T00:00:00.000000Z",
        None,
    )
    listed = answer("memories", "list", "--statuses", "all", "--order", "occurred", db=db)
    assert [memory["id"] for memory in listed] == [porto["id"], boat["id"]]
    assert [
        memory["id"] for memory in answer("memories", "list", "--statuses", "all", "--since", "2022-01-01", db=db)
    ] == [porto["id"]]
    assert run("memories", "list", "--order", "newest", db=db).exit_code == 2


def test_a_shell_captures_a_turn_that_was_extracted_elsewhere(db: str) -> None:
    turn = answer("capture", "I prefer green tea over coffee.", "Noted.", "--no-extract", db=db)
    assert turn["extraction"] == "off"
    answer("jobs", "run", db=db)
    assert answer("memories", "list", "--statuses", "all", db=db) == []


def test_a_shell_adds_a_summary_that_was_written_elsewhere(db: str) -> None:
    said = [answer("session", "append", "chat", role, "Hello.", db=db) for role in ("user", "assistant")]
    place = [str(message["position"]) for message in said]
    made = answer("session", "summaries", "add", "chat", "They greet.", *place, "--model", "gpt-4o", db=db)
    assert (made["messages"], made["model"], made["status"]) == (2, "gpt-4o", "window")
    above = answer("session", "summaries", "add", "chat", "A greeting.", made["id"], db=db)
    assert above["summaries"] == [made["id"]]
