"""The database of astrocyte: memories, and observations with their evidence, from SQLite and from rows of PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from moved_stores import assert_comes_again, assert_recalled, database, memory, states, twice

from ledger import Ledger
from ledger.importers import import_from

DDL = """
CREATE TABLE astrocyte_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE astrocyte_vectors (pk INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, bank_id TEXT NOT NULL, embedding BLOB NOT NULL,
    text TEXT NOT NULL, metadata TEXT, tags TEXT, fact_type TEXT, occurred_at INTEGER, memory_layer TEXT,
    retained_at INTEGER NOT NULL, forgotten_at INTEGER, chunk_id TEXT, changed_at INTEGER);
CREATE TABLE astrocyte_tombstones (id TEXT PRIMARY KEY, bank_id TEXT NOT NULL, changed_at INTEGER NOT NULL);
CREATE VIRTUAL TABLE astrocyte_vectors_fts USING fts5(text, content='astrocyte_vectors', content_rowid='pk');
"""
DAYS = {"m1": "2024-01-10T10:00:00+00:00", "m2": "2025-03-01T10:00:00+00:00", "late": "2025-04-01T10:00:00+00:00"}


def seen(sources: object, confidence: object = "0.85", scope: str = "bank:home") -> dict[str, object]:
    named = json.dumps(sources) if isinstance(sources, list) else sources
    return {
        "_obs_proof_count": 9, "_obs_source_ids": named, "_obs_source_timestamps": "[]", "_obs_confidence": confidence,
        "_obs_updated_at": DAYS["late"], "_obs_scope": scope, "_obs_freshness": "fresh", "_created_at": DAYS["late"],
    }  # fmt: skip


ITEMS: list[dict[str, Any]] = [
    {"id": "m1", "text": "Ada drinks oat milk at home", "metadata": {"mood": "calm", "_created_at": "x"}, "tags": ["food"],
     "fact_type": "world", "occurred_at": DAYS["m1"], "retained_at": DAYS["late"]},
    {"id": "m2", "text": "Ada ordered oat milk in Porto", "metadata": None, "tags": None, "fact_type": "experience",
     "retained_at": DAYS["m2"]},
    {"id": "m3", "text": "Ada hates milk", "fact_type": "world", "retained_at": DAYS["m2"], "forgotten_at": DAYS["late"]},
    {"id": "m4", "text": "", "retained_at": DAYS["m2"]},
    {"id": "o1", "text": "Ada prefers oat milk everywhere", "metadata": seen(["m1", "m2", "m1", "gone"]),
     "fact_type": "observation", "retained_at": DAYS["late"]},
    {"id": "o2", "text": "Ada may like the river", "metadata": seen(["m2"], "0.01", "food|home"), "fact_type": "observation",
     "retained_at": DAYS["late"]},
    {"id": "o3", "text": "Ada is certain of milk", "metadata": seen(["m1"], "7.0"), "fact_type": "observation",
     "retained_at": DAYS["late"]},
    {"id": "o4", "text": "Ada hates dairy", "metadata": seen(["m3"]), "fact_type": "observation", "retained_at": DAYS["late"]},
    {"id": "o5", "text": "Ada is old", "metadata": seen(["m1"]), "fact_type": "observation", "retained_at": DAYS["late"],
     "forgotten_at": DAYS["late"]},
    {"id": "o6", "text": "Ada is here", "metadata": seen("{cut sho", None), "fact_type": "observation",
     "retained_at": DAYS["late"]},
]  # fmt: skip


def micros(time: str | None) -> int | None:
    return None if time is None else int(datetime.fromisoformat(time).astimezone(UTC).timestamp()) * 1_000_000


def sqlite_file(path: Path) -> Path:
    rows = []
    for number, item in enumerate(reversed(ITEMS)):  # observations before what they rest on
        row = {name: micros(item.get(name)) for name in ("occurred_at", "retained_at", "forgotten_at")}
        row |= {name: json.dumps(item[name]) if item.get(name) is not None else None for name in ("metadata", "tags")}
        row |= {"id": item["id"], "text": item["text"], "fact_type": item.get("fact_type"), "embedding": b"\0\0\x80?"}
        rows.append({**row, "pk": number, "bank_id": "home::obs" if item["id"][0] == "o" else "home"})
    gone = [{"id": "gone", "bank_id": "home", "changed_at": 1}]
    return database(path, DDL, {"astrocyte_vectors": rows, "astrocyte_tombstones": gone})


def lines(path: Path) -> Path:
    names = ("id", "bank_id", "text", "metadata", "tags", "fact_type", "occurred_at", "retained_at", "forgotten_at")
    rows = [{**dict.fromkeys(names), "bank_id": "home", **item} for item in reversed(ITEMS)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text + '{"id": "cut sho', encoding="utf-8-sig")
    return path


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ada") as opened:
        yield opened


@pytest.mark.parametrize("form", ["sqlite", "rows"])
def test_the_memories_and_observations_of_astrocyte_come_with_evidence_and_times(
    ledger: Ledger, tmp_path: Path, form: str
) -> None:
    path = sqlite_file(tmp_path / "astrocyte.db") if form == "sqlite" else lines(tmp_path / "rows.jsonl")
    report = twice(ledger, path)
    assert (report.kind, dict(report.taken)) == ("astrocyte", {"statements": 3, "observations": 3})
    only = {"a memory that was erased there": 1, "a vector, which does not say of which model it is": 10}
    assert dict(report.skipped) == {
        "a statement without words": 1, "an observation that was forgotten there": 1,
        "an observation none of whose sources came along and is in use": 2,
        **(only if form == "sqlite" else {"a line that is no JSON object": 1}),
    }  # fmt: skip
    assert states(ledger) == {
        "Ada drinks oat milk at home": "active", "Ada ordered oat milk in Porto": "active", "Ada hates milk": "retracted",
    }  # fmt: skip
    home, order = memory(ledger, "Ada drinks oat milk at home"), memory(ledger, "Ada ordered oat milk in Porto")
    assert (home.valid_from, home.tags, home.metadata["mood"], home.metadata["bank"]) == (
        "2024-01-10T10:00:00.000000Z", ("food",), "calm", "home")  # fmt: skip
    assert (order.kind, order.valid_from) == ("episodic", "2025-03-01T10:00:00.000000Z")
    seen_here = {each.content: each for each in ledger.observations.list()}
    oat, river, certain = (seen_here[text] for text in (
        "Ada prefers oat milk everywhere", "Ada may like the river", "Ada is certain of milk"))  # fmt: skip
    assert ({source.id for source in oat.sources}, oat.proof_count, oat.confidence) == (
        {home.id, order.id},
        2,
        0.85,
    )
    assert (river.confidence, set(river.tags), certain.confidence) == (0.01, {"food", "home"}, 1.0)
    assert oat.trend == "dormant"  # by when its sources were true, and not by when they were imported
    assert_recalled(ledger)


def test_an_observation_is_found_by_its_own_words(ledger: Ledger, tmp_path: Path) -> None:
    import_from(ledger, sqlite_file(tmp_path / "astrocyte.db"))
    found = ledger.recall("Ada prefers oat milk everywhere", observations=3)
    assert found.observations[0].content == "Ada prefers oat milk everywhere"


def test_what_came_from_astrocyte_can_be_taken_back_and_come_again(ledger: Ledger, tmp_path: Path) -> None:
    assert_comes_again(ledger, sqlite_file(tmp_path / "astrocyte.db"))
