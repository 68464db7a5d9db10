"""Metadata on interactions, documents and messages: kept, listed by, found by recall, undone, exported, erased like any text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger, RejectedError

SLACK: dict[str, Any] = {"source_app": "slack", "ticket": 4711, "vip": True, "note": None}


@pytest.fixture
def ledger(tmp_path: Path):
    with Ledger.open(tmp_path / "memory.db", user="ada") as opened:
        yield opened


def ids(page: Any) -> list[str]:
    return [each.id for each in page]


# --- interactions ----------------------------------------------------------------------------------------------------


def test_a_turn_has_its_own_and_what_its_response_adds(ledger: Ledger) -> None:
    turn = ledger.capture("Which tea?", metadata=SLACK)
    other = ledger.capture("Which coffee?", "Dark roast.", metadata={"source_app": "mail", "vip": 1})
    bare = ledger.capture("Which cake?", "None.")
    assert (turn.metadata, bare.metadata) == (SLACK, {})
    before = ledger.position
    answered = ledger.interactions.add_response(turn.id, "Green tea.", metadata={"model": "small", "ticket": 4712})
    assert answered.metadata == SLACK | {"model": "small", "ticket": 4712}
    assert ids(ledger.interactions.list(metadata={"vip": True})) == [turn.id]
    assert ids(ledger.interactions.list(metadata={"source_app": "mail"})) == [other.id]
    assert ids(ledger.at(before).interactions.list(metadata={"ticket": 4711})) == [turn.id]
    ledger.undo(before + 1, cascade=True)
    assert ledger.interactions.get(turn.id).metadata == SLACK
    assert ledger.proof.verify(full=True).ok
    with pytest.raises(RejectedError) as refused:
        ledger.interactions.add_response(turn.id, "Green.", metadata={f"k{n}": n for n in range(30)})
    assert (refused.value.limit, refused.value.current, refused.value.requested) == (32, 4, 34)


def test_a_batch_answers_with_it_too(ledger: Ledger) -> None:
    with ledger.batch():
        turn = ledger.capture("Which tea?", "Green.", metadata=SLACK)
    assert turn.metadata == ledger.interactions.get(turn.id).metadata == SLACK


def test_a_key_of_a_capture_stands_for_its_metadata(ledger: Ledger) -> None:
    ledger.capture("Which tea?", metadata=SLACK, idempotency_key="k")
    assert ledger.capture("Which tea?", metadata=SLACK, idempotency_key="k").replayed
    with pytest.raises(Exception, match="other arguments"):
        ledger.capture("Which tea?", idempotency_key="k")


def test_a_file_of_turns_brings_it(ledger: Ledger, tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"prompt": "Which tea?", "response": "Green.", "metadata": SLACK},
        {"prompt": "Which cake?", "metadata": {"nested": {}}},
        {"prompt": "Which coffee?"},
    ]
    path = tmp_path / "turns.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    report = ledger.interactions.import_file(path)
    assert len(report.errors) == 1 and "nested" in str(report.errors)
    assert [each.metadata for each in ledger.interactions.list()] == [{}, SLACK]
    ledger.interactions.import_file(path)
    assert len(ledger.interactions.list()) == 2, "the same file adds nothing"


# --- documents -------------------------------------------------------------------------------------------------------


def test_a_document_keeps_it_until_another_is_given(ledger: Ledger) -> None:
    notes = ledger.documents.add("# Tea\n\nGreen tea.", path="tea.md", metadata=SLACK)
    ledger.documents.add("# Coffee\n\nDark roast.", path="coffee.md")
    assert notes.metadata == SLACK and ids(ledger.documents.list(metadata={"note": None})) == [notes.id]
    assert ledger.documents.add("# Tea\n\nGreen tea.", path="tea.md").absorbed
    newer = ledger.documents.add("# Tea\n\nBlack tea.", path="tea.md")
    assert newer.metadata == SLACK
    before = ledger.position
    changed = ledger.documents.add("# Tea\n\nBlack tea.", path="tea.md", metadata={"ticket": 1})
    assert (
        not changed.absorbed and changed.metadata == {"ticket": 1} and not ledger.documents.list(metadata={"vip": True})
    )
    assert ids(ledger.at(before).documents.list(metadata={"vip": True})) == [notes.id]
    assert ledger.documents.add("# Tea\n\nBlack tea.", path="tea.md", metadata={}).metadata == {}
    ledger.undo(ledger.position)
    ledger.undo(changed.position)
    assert ledger.documents.get(notes.id).metadata == SLACK and ledger.proof.verify(full=True).ok


# --- erasure and export ----------------------------------------------------------------------------------------------


def recorded(ledger: Ledger, pairs: dict[str, Any]) -> list[str]:
    """One of each that can have metadata, by their ids."""
    turn = ledger.capture("Which tea?", metadata=pairs)
    ledger.interactions.add_response(turn.id, "Green.", metadata={"more": pairs["word"]})
    notes = ledger.documents.add("# Tea\n\nGreen tea.", path="tea.md", metadata=pairs)
    ledger.documents.add("# Tea\n\nBlack tea.", path="tea.md", metadata=pairs | {"more": 1})
    return [turn.id, notes.id, ledger.remember("The user likes tea.", metadata=pairs).id]


def test_an_erasure_leaves_no_byte_of_it(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        for id in recorded(ledger, {"word": "Zanzibarquux", "n": 20260417, "ключ Zanzibarquux": True}):
            ledger.erase(id, derived="keep", sources="keep", quotes="keep")
        for namespace in (ledger.interactions, ledger.documents, ledger.memories):
            assert not namespace.list(metadata={"n": 20260417})
        assert ledger.proof.verify(full=True).ok
    for file in tmp_path.iterdir():
        assert b"zanzibarquux" not in file.read_bytes().lower() and b"20260417" not in file.read_bytes(), file


def test_it_comes_through_an_export(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "memory.db") as ledger:
        recorded(ledger, {"word": "tea", "float": 1.0, "int": 1, "true": True})
        ledger.maintenance.export_log(tmp_path / "log.jsonl")
        digest, wanted = ledger.proof.digest(), {"float": 1.0, "true": True}
        before = [ids(each.list(metadata=wanted)) for each in (ledger.interactions, ledger.documents, ledger.memories)]
    Ledger.import_log(tmp_path / "log.jsonl", tmp_path / "copy.db")
    with Ledger.open(tmp_path / "copy.db") as copy:
        assert copy.proof.digest() == digest
        found = [ids(each.list(metadata=wanted)) for each in (copy.interactions, copy.documents, copy.memories)]
        assert found == before and all(found)
