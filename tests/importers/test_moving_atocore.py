"""The database of ATOCore: documents, memories in their states, trusted state and interactions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moved_stores import assert_comes_again, assert_recalled, database, memory, states, twice

from ledger import Ledger
from ledger.importers import import_from

DDL = """
CREATE TABLE source_documents (id TEXT PRIMARY KEY, file_path TEXT UNIQUE NOT NULL, file_hash TEXT NOT NULL, title TEXT,
    doc_type TEXT DEFAULT 'markdown', tags TEXT DEFAULT '[]', ingested_at DATETIME DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE source_chunks (id TEXT PRIMARY KEY, document_id TEXT NOT NULL REFERENCES source_documents(id) ON DELETE CASCADE,
    chunk_index INTEGER NOT NULL, content TEXT NOT NULL, heading_path TEXT DEFAULT '', char_count INTEGER NOT NULL,
    metadata TEXT DEFAULT '{}', created_at DATETIME DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE memories (id TEXT PRIMARY KEY, memory_type TEXT NOT NULL, content TEXT, project TEXT DEFAULT '',
    source_chunk_id TEXT REFERENCES source_chunks(id), confidence REAL DEFAULT 1.0, status TEXT DEFAULT 'active',
    last_referenced_at DATETIME, reference_count INTEGER DEFAULT 0, created_at DATETIME, updated_at DATETIME,
    domain_tags TEXT DEFAULT '[]', valid_until TEXT);
CREATE TABLE projects (id TEXT PRIMARY KEY, name TEXT UNIQUE NOT NULL, description TEXT DEFAULT '',
    status TEXT DEFAULT 'active', created_at DATETIME, updated_at DATETIME);
CREATE TABLE project_state (id TEXT PRIMARY KEY, project_id TEXT NOT NULL REFERENCES projects(id), category TEXT NOT NULL,
    key TEXT NOT NULL, value TEXT NOT NULL, source TEXT DEFAULT '', confidence REAL DEFAULT 1.0, status TEXT DEFAULT 'active',
    created_at DATETIME, updated_at DATETIME);
CREATE TABLE interactions (id TEXT PRIMARY KEY, prompt TEXT NOT NULL, context_pack TEXT DEFAULT '{}',
    response_summary TEXT DEFAULT '', response TEXT DEFAULT '', memories_used TEXT DEFAULT '[]', chunks_used TEXT DEFAULT '[]',
    client TEXT DEFAULT '', session_id TEXT DEFAULT '', project TEXT DEFAULT '', project_id TEXT, created_at DATETIME);
CREATE TABLE memory_audit (id TEXT PRIMARY KEY, memory_id TEXT, action TEXT, actor TEXT, before_json TEXT, after_json TEXT);
CREATE TABLE entities (id TEXT PRIMARY KEY, name TEXT);
"""
TURN = "4d3a1f0e-1111-4aaa-8aaa-000000000001"
ROWS: dict[str, list[dict[str, Any]]] = {
    "source_documents": [
        {"id": "d1", "file_path": "notes/till.md", "file_hash": "h1", "title": "Till", "tags": '["shop"]',
         "ingested_at": "2025-02-01 08:00:00", "updated_at": None},
        {"id": "d2", "file_path": "notes/empty.md", "file_hash": "h2", "title": None, "tags": "{cut sho",
         "ingested_at": None, "updated_at": None},
    ],
    "source_chunks": [
        {"id": "c2", "document_id": "d1", "chunk_index": 1, "content": "The till opens at nine.", "heading_path": "Hours",
         "char_count": 23, "metadata": None},
        {"id": "c1", "document_id": "d1", "chunk_index": 0, "content": "The till is blue.", "char_count": 17,
         "metadata": '{"page": 1}'},
        {"id": "c3", "document_id": "d2", "chunk_index": 0, "content": " ", "char_count": 1, "metadata": "{}"},
    ],
    "projects": [{"id": "p1", "name": "shop", "description": "The shop in Porto", "created_at": "2025-01-01 08:00:00"}],
    "memories": [
        {"id": "m1", "memory_type": "preference", "content": "The user prefers oat milk", "confidence": 0.84,
         "reference_count": 7, "last_referenced_at": "2025-05-01 09:00:00", "created_at": "2025-03-01 10:00:00",
         "updated_at": "2025-03-01 10:00:00", "domain_tags": '["food", "food"]'},
        {"id": "m2", "memory_type": "project", "content": "The till is blue", "project": "shop", "source_chunk_id": "c1",
         "created_at": "2025-03-02 10:00:00", "valid_until": "2099-12-31"},
        {"id": "m3", "memory_type": "knowledge", "content": "The harbour closes at noon", "status": "superseded",
         "created_at": "2025-03-03 10:00:00", "updated_at": "2025-04-01 10:00:00", "reference_count": None},
        {"id": "m4", "memory_type": "knowledge", "content": "The lighthouse is open", "status": "invalid",
         "created_at": "2025-03-04 10:00:00", "updated_at": "2025-04-02 10:00:00"},
        {"id": "m5", "memory_type": "adaptation", "content": "Store events only", "status": "candidate", "confidence": 0.55,
         "created_at": None, "updated_at": None},
        {"id": "m6", "memory_type": "episodic", "content": "Ada sold the boat", "status": "graduated", "confidence": None,
         "created_at": "2025-03-06 10:00:00", "updated_at": "2025-04-03 10:00:00", "domain_tags": None},
        {"id": "m7", "memory_type": "knowledge", "content": "", "created_at": "2025-03-07 10:00:00"},
        {"id": "m8", "memory_type": "knowledge", "content": None},
        {"id": "m9", "memory_type": "knowledge", "content": "Odd", "status": "marmalade"},
    ],
    "project_state": [
        {"id": "s1", "project_id": "p1", "category": "decision", "key": "database", "value": "SQLite", "source": "ADR 7",
         "updated_at": "2025-03-05 10:00:00"},
        {"id": "s2", "project_id": "p1", "category": "decision", "key": "queue", "value": "None", "status": "superseded"},
        {"id": "s3", "project_id": "p1", "category": "jam", "key": "plum", "value": "yes"},
    ],
    "interactions": [
        {"id": TURN, "prompt": "Which milk does the cafe use?", "response": "Oat milk in every cup.",
         "response_summary": "Oat milk.", "session_id": "s-1", "project": "shop", "client": "codex",
         "memories_used": '["m1"]', "created_at": "2025-05-01 09:00:00"},
        {"id": "i2", "prompt": "Is it late?", "created_at": "2025-05-02 09:00:00", "context_pack": "{cut sho"},
    ],
    "memory_audit": [{"id": "a1", "memory_id": "m1", "action": "promoted"}],
    "entities": [{"id": "e1", "name": "Till"}],
}  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ada") as opened:
        yield opened


def test_the_database_of_atocore_comes_with_states_confidence_counts_sources_and_times(
    ledger: Ledger, tmp_path: Path
) -> None:
    report = twice(ledger, database(tmp_path / "atocore.db", DDL, ROWS))
    assert (report.kind, dict(report.taken)) == (
        "atocore",
        {"projects": 1, "documents": 1, "statements": 6, "values of trusted state": 1, "turns": 2},
    )
    assert dict(report.unknown) == {"status marmalade": 1, "category jam": 1, "table entities": 1}
    assert dict(report.skipped) == {
        "a chunk without words": 1, "a document without a path or words": 1, "a statement without words": 1,
        "a memory without a content": 1, "a value of trusted state that is over": 1,
        "a line of the audit, which has no decay": 1,
    }  # fmt: skip
    assert states(ledger) == {
        "The user prefers oat milk": "active", "The till is blue": "active", "The harbour closes at noon": "superseded",
        "The lighthouse is open": "invalid", "Store events only": "candidate", "Ada sold the boat": "superseded",
    }  # fmt: skip
    milk, till, harbour = (memory(ledger, text) for text in ("The user prefers oat milk", "The till is blue",
                                                             "The harbour closes at noon"))  # fmt: skip
    assert (milk.confidence, milk.reference_count, milk.last_referenced_at, milk.tags) == (
        0.84, 7, "2025-05-01T09:00:00.000000Z", ("food",))  # fmt: skip
    assert (milk.valid_from, milk.kind, milk.metadata["atocore"]) == ("2025-03-01T10:00:00.000000Z", "preference", "m1")
    (document,) = ledger.documents.list()
    chunk = ledger.documents.get(document.id).chunks[0]
    assert (till.project, till.sources, till.valid_to) == ("shop", (chunk.id,), "2100-01-01T00:00:00.000000Z")
    assert (document.path, document.tags, chunk.metadata) == ("notes/till.md", ("shop",), {"page": 1})
    assert (harbour.valid_from, harbour.valid_to) == ("2025-03-03T10:00:00.000000Z", "2025-04-01T10:00:00.000000Z")
    assert ledger.projects.get("shop").description == "The shop in Porto"
    assert [(each.category, each.name, each.value, each.source) for each in ledger.projects.state("shop")] == [
        ("decision", "database", "SQLite", "ADR 7")]  # fmt: skip
    late, cafe = ledger.interactions.list()
    assert (cafe.summary, cafe.session, cafe.project, cafe.occurred_at) == (
        "Oat milk.", "s-1", "shop", "2025-05-01T09:00:00.000000Z")  # fmt: skip
    assert (late.prompt, cafe.metadata["client"], cafe.extraction) == ("Is it late?", "codex", "off")
    assert_recalled(ledger)
    assert "nine" in ledger.recall("When does the till open?", among=["chunks"], limit=1).items[0].content


def test_trusted_state_that_was_set_here_stays(ledger: Ledger, tmp_path: Path) -> None:
    ledger.projects.set_state("shop", "decision", "database", "PostgreSQL")
    report = import_from(ledger, database(tmp_path / "atocore.db", DDL, ROWS))
    assert report.skipped["a value of trusted state that was set here"] == 1
    assert [each.value for each in ledger.projects.state("shop")] == ["PostgreSQL"]


def test_a_memory_that_atocore_ends_later_ends_here_too(ledger: Ledger, tmp_path: Path) -> None:
    import_from(ledger, database(tmp_path / "old.db", DDL, {"memories": ROWS["memories"][:1]}))
    gone = ROWS["memories"][0] | {"status": "superseded", "updated_at": "2025-06-01 10:00:00"}
    assert dict(import_from(ledger, database(tmp_path / "new.db", DDL, {"memories": [gone]})).taken) == {"changes": 1}
    assert (states(ledger), memory(ledger, gone["content"]).valid_to) == (
        {gone["content"]: "superseded"}, "2025-06-01T10:00:00.000000Z")  # fmt: skip


def test_a_database_of_atocore_with_bytes_that_are_no_text_is_read(ledger: Ledger, tmp_path: Path) -> None:
    odd = b"Plays the oboe \xed\xa0\x80".decode("utf-8", "surrogateescape")
    path = database(tmp_path / "odd.db", DDL, {"memories": [{"id": "m1", "memory_type": "knowledge", "content": "x"}]})
    import sqlite3

    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE memories SET content = CAST(? AS TEXT)", (odd.encode("utf-8", "surrogateescape"),))
    connection.close()
    twice(ledger, path)
    assert "Plays the oboe" in next(iter(states(ledger)))
    assert json.dumps(states(ledger)).isascii()


def test_what_came_from_atocore_can_be_taken_back_and_come_again(ledger: Ledger, tmp_path: Path) -> None:
    assert_comes_again(ledger, database(tmp_path / "atocore.db", DDL, ROWS))
