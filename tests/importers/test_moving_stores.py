"""The memories of other stores: mem0, the reference server of MCP and mcp-memory-service, with what breaks importers of them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from moved_stores import assert_recalled, memory, states, twice

from ledger import Ledger, RejectedError, StorageError
from ledger.importers import import_from


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "memory.db", user="ada") as opened:
        yield opened


# --- mem0 ------------------------------------------------------------------------------------------------------------

MILK = "0d8a5a5e-7f0b-4c1e-9d53-3f6d3a0e9b01"
MEM0: list[dict[str, Any]] = [
    {
        "id": MILK, "memory": "Drinks oat milk", "hash": "5f", "user_id": "ada", "run_id": "kitchen",
        "metadata": {"mood": "calm", "deep": {"a": 1}, "none": None, "long": "x" * 5_000}, "categories": ["food", "Drinks"],
        "created_at": "2025-03-02T01:00:00.5-08:00", "updated_at": "2025-04-02T10:00:00+00:00",
    },
    {"id": "b", "memory": "Plays the oboe \ud800", "hash": "6f", "metadata": None, "created_at": None, "updated_at": None},
    {"id": "c", "memory": "Rents a van", "user_id": "ada", "expiration_date": "2024-05-01", "created_at": "2024-01-01"},
    {"id": "d", "memory": "", "user_id": "ada"},
    {"id": "e", "memory": None},
    {"id": "f", "memory": "Likes figs", "user_id": "ben"},
]  # fmt: skip


@pytest.mark.parametrize("form", ["list", "results", "page", "byte order mark"])
def test_what_mem0_lists_comes_with_times_tags_and_metadata(ledger: Ledger, tmp_path: Path, form: str) -> None:
    path = tmp_path / "all.json"
    page: dict[str, Any] = {"results": MEM0, "relations": [{"source": "ada", "target": "milk"}]}
    if form == "page":
        page |= {"count": 300, "next": "https://example.com/?page=2", "previous": None}
    is_list = form in ("list", "byte order mark")
    path.write_text(json.dumps(MEM0 if is_list else page), encoding="utf-8-sig" if "byte" in form else "utf-8")
    report = twice(ledger, path)
    assert (report.kind, dict(report.taken)) == ("mem0", {"statements": 4})
    assert report.skipped["a statement without words"] == 1 and report.skipped["a memory without an id or a text"] == 1
    assert ("ben" in dict(report.notes)) and (("all.json" in dict(report.notes)) == (form == "page"))
    milk = memory(ledger, "Drinks oat milk")
    assert (milk.valid_from, set(milk.tags)) == ("2025-04-02T10:00:00.000000Z", {"drinks", "food"})
    assert milk.confidence == 0.6
    assert dict(milk.metadata) == {
        "mem0": MILK, "user_id": "ada", "run_id": "kitchen", "mood": "calm", "deep": '{"a": 1}',
        "import": milk.metadata["import"],
    }  # fmt: skip
    assert memory(ledger, "Rents a van").valid_to == "2024-05-01T00:00:00.000000Z"
    for words in ("Drinks oat milk", "Plays the oboe", "Likes figs"):
        assert words in str(ledger.recall(words, limit=1).items[0].content)


def history(path: Path, *rows: tuple[Any, ...]) -> Path:
    """Write a database as mem0 keeps its history: (memory, old, new, event, created, updated)."""
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT,"
            " created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT)"
        )
        for number, (memory_id, old, new, event, created, updated) in enumerate(rows):
            values = (f"h{number}", memory_id, old, new, event, created, updated, int(event == "DELETE"), None, "user")
            database.execute("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        database.commit()
    return path


HISTORY = (
    (MILK, None, "Drinks cow milk", "ADD", "2025-03-01T10:00:00+00:00", None),
    ("v", None, "Owns a van", "ADD", "2025-03-01T10:00:00+00:00", None),
    (MILK, "Drinks cow milk", "Drinks oat milk", "UPDATE", "2025-03-01T10:00:00+00:00", "2025-04-02T10:00:00+00:00"),
    (MILK, "Drinks oat milk", "Drinks oat milk", "UPDATE", "2025-03-01T10:00:00+00:00", "2025-04-03T10:00:00+00:00"),
    ("v", "Owns a van", None, "DELETE", None, "2025-05-01T10:00:00+00:00"),
    ("w", "Sings bass", None, "DELETE", None, None),
    ("x", "Sails a sloop", "Sails a ketch", "UPDATE", None, "2025-06-01T10:00:00+00:00"),
    ("y", None, None, "NONE", None, None),
    ("z", None, "Swaps hats", "SWAP", None, None),
)


def test_the_history_of_mem0_supersedes_and_retracts_at_its_times(ledger: Ledger, tmp_path: Path) -> None:
    report = twice(ledger, history(tmp_path / "history.db", *HISTORY))
    assert (report.kind, dict(report.unknown)) == ("mem0", {"event SWAP": 1})
    assert dict(report.skipped) == {"a change that changed nothing": 2}
    assert states(ledger) == {
        "Drinks cow milk": "superseded", "Drinks oat milk": "active", "Owns a van": "retracted", "Sings bass": "retracted",
        "Sails a sloop": "superseded", "Sails a ketch": "active",
    }  # fmt: skip
    cow, oat = memory(ledger, "Drinks cow milk"), memory(ledger, "Drinks oat milk")
    assert (cow.valid_from, cow.valid_to) == ("2025-03-01T10:00:00.000000Z", "2025-04-02T10:00:00.000000Z")
    assert (oat.supersedes, oat.valid_from) == (cow.id, cow.valid_to)
    assert_recalled(ledger)


@pytest.mark.parametrize("first", ["history.db", "all.json"])
def test_the_list_and_the_history_of_mem0_meet(ledger: Ledger, tmp_path: Path, first: str) -> None:
    (tmp_path / "mem0").mkdir()
    history(tmp_path / "mem0" / "history.db", *HISTORY[:3])
    (tmp_path / "mem0" / "all.json").write_text(json.dumps(MEM0[:1]), encoding="utf-8")
    import_from(ledger, tmp_path / "mem0" / first)
    twice(ledger, tmp_path / "mem0")
    assert states(ledger) == {
        "Drinks cow milk": "superseded", "Drinks oat milk": "active", "Owns a van": "active",
    }  # fmt: skip


def listed(path: Path, *entries: tuple[str, str]) -> Path:
    """Write what ``get_all`` returns of one memory, and of another one that stays, at different days."""
    stays = {"id": "s", "memory": "Owns a van", "user_id": "ada", "updated_at": "2025-01-01T10:00:00+00:00"}
    changed = [{"id": MILK, "memory": text, "user_id": "ada", "updated_at": at} for text, at in entries]
    path.write_text(json.dumps([stays, *changed]), encoding="utf-8")
    return path


def test_a_later_list_of_mem0_replaces_the_text_that_a_memory_had_in_an_earlier_one(
    ledger: Ledger, tmp_path: Path
) -> None:
    cow, oat = ("Drinks cow milk", "2025-03-01T10:00:00+00:00"), ("Drinks oat milk", "2025-04-02T10:00:00+00:00")
    first, second = listed(tmp_path / "march.json", cow), listed(tmp_path / "april.json", oat)
    import_from(ledger, first)
    assert dict(twice(ledger, second).taken) == {"statements": 1}
    assert states(ledger) == {"Owns a van": "active", "Drinks cow milk": "superseded", "Drinks oat milk": "active"}
    assert memory(ledger, "Drinks cow milk").superseded_by == memory(ledger, "Drinks oat milk").id
    assert import_from(ledger, first).known == 2  # the older list changes nothing


def test_an_older_list_of_mem0_after_a_newer_one_brings_a_text_that_is_over(ledger: Ledger, tmp_path: Path) -> None:
    import_from(ledger, listed(tmp_path / "april.json", ("Drinks oat milk", "2025-04-02T10:00:00+00:00")))
    twice(ledger, listed(tmp_path / "march.json", ("Drinks cow milk", "2025-03-01T10:00:00+00:00")))
    assert states(ledger)["Drinks oat milk"] == "active"
    assert (memory(ledger, "Drinks cow milk").status, memory(ledger, "Drinks cow milk").valid_to) == (
        "superseded", "2025-04-02T10:00:00.000000Z")  # fmt: skip


def test_a_text_of_mem0_that_comes_back_is_active_again(ledger: Ledger, tmp_path: Path) -> None:
    back = (MILK, "Drinks oat milk", "Drinks cow milk", "UPDATE", None, "2025-06-02T10:00:00+00:00")
    twice(ledger, history(tmp_path / "history.db", HISTORY[0], HISTORY[2], back))
    found = [(each.content, each.status) for each in ledger.memories.list(statuses=(), order="occurred")]
    assert sorted(found) == [
        ("Drinks cow milk", "active"), ("Drinks cow milk", "superseded"), ("Drinks oat milk", "superseded"),
    ]  # fmt: skip


def test_what_this_ledger_refuted_does_not_come_back_from_mem0(ledger: Ledger, tmp_path: Path) -> None:
    ledger.retract(ledger.remember("Drinks oat milk").id)
    (tmp_path / "all.json").write_text(json.dumps(MEM0[:1]), encoding="utf-8")
    report = import_from(ledger, tmp_path / "all.json")
    assert dict(report.skipped) == {"a statement that this ledger has refuted": 1}
    assert states(ledger) == {"Drinks oat milk": "retracted"}


def test_a_history_as_mem0_returns_it_is_read_too(ledger: Ledger, tmp_path: Path) -> None:
    names = ("memory_id", "old_memory", "new_memory", "event", "created_at", "updated_at")
    rows = [dict(zip(names, row, strict=True)) for row in HISTORY[:3]]
    (tmp_path / "history.json").write_text(json.dumps(rows), encoding="utf-8")
    assert twice(ledger, tmp_path / "history.json").kind == "mem0"
    assert states(ledger)["Drinks cow milk"] == "superseded"


def test_a_database_that_is_written_meanwhile_is_read_with_its_log(ledger: Ledger, tmp_path: Path) -> None:
    path = history(tmp_path / "history.db")
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(
            "INSERT INTO history (id, memory_id, new_memory, event) VALUES ('1', 'm', 'Likes rain', 'ADD')"
        )
        database.commit()
        import_from(ledger, path)
    assert states(ledger) == {"Likes rain": "active"}


def test_a_damaged_database_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    path = history(tmp_path / "history.db", *HISTORY)
    path.write_bytes(path.read_bytes()[:4_096] + b"\xff" * 8_192)
    with pytest.raises(StorageError, match=r"history\.db cannot be read as an SQLite database"):
        import_from(ledger, path, kind="mem0")


def test_a_file_without_memories_is_of_no_kind(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"id": 1}', encoding="utf-8")
    with pytest.raises(RejectedError, match="cannot be told by its content"):
        import_from(ledger, tmp_path / "other.json")


# --- the reference server of MCP -------------------------------------------------------------------------------------


def test_the_graph_of_the_reference_server_comes_as_statements(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    entity, relation = {"type": "entity"}, {"type": "relation"}
    lines: list[object] = [
        entity
        | {"name": "Ada_Byron", "entityType": "person", "observations": ["Plays the oboe", "Ada Byron is 36", 7]},
        relation | {"from": "Ada_Byron", "to": "Lisbon", "relationType": "lives_in"},
        entity | {"name": "Lisbon", "entityType": "city", "observations": []},
        entity | {"name": "", "entityType": "city", "observations": []},
        relation | {"from": "Ada_Byron", "to": "Nowhere"},
        {"type": "marmalade"},
        [1],
    ]
    text = "\n\n".join(map(json.dumps, lines))
    path.write_text(text + '\n{"type": "entity", "name": "cut sho', encoding="utf-8-sig")
    report = twice(ledger, path)
    assert (report.kind, dict(report.taken), dict(report.unknown)) == (
        "mcp", {"statements": 4}, {"type marmalade": 1})  # fmt: skip
    assert dict(report.skipped) == {
        "a line that is no JSON object": 2, "an observation that is no text": 1,
        "an entity or a relation without its names": 2,
    }  # fmt: skip
    assert set(states(ledger)) == {
        "Ada_Byron: Plays the oboe", "Ada Byron is 36", "Ada_Byron lives in Lisbon", "Lisbon is of the type city.",
    }  # fmt: skip
    lives = memory(ledger, "Ada_Byron lives in Lisbon")
    assert [(each.subject, each.relation, each.object) for each in lives.relations] == [
        ("Ada_Byron", "lives_in", "Lisbon")
    ]
    assert memory(ledger, "Ada Byron is 36").entities == ("Ada_Byron",)
    assert_recalled(ledger)


# --- mcp-memory-service ----------------------------------------------------------------------------------------------

SERVICE: list[dict[str, Any]] = [
    {"content_hash": "h1", "content": "Ada lives in Porto", "tags": "home, place,,home", "memory_type": "fact",
     "metadata": '{"source": "chat", "deep": [1, 2]}', "created_at": 1740823200.5, "superseded_by": "h2"},
    {"content_hash": "h2", "content": "Ada lives in Lisbon", "tags": "", "memory_type": None, "metadata": None,
     "created_at": 1743500000.0, "superseded_by": None},
    {"content_hash": "h3", "content": "Owns a van", "tags": None, "memory_type": "note", "metadata": "{cut sho",
     "created_at": 1740823300.0, "deleted_at": 1743600000.0},
    {"content_hash": "h4", "content": "Sails a ketch", "tags": '["boat"]', "memory_type": "preference", "metadata": "",
     "created_at": None, "created_at_iso": "2025-03-01T10:00:00Z", "superseded_by": "gone"},
    {"content_hash": "h5", "content": "Keeps bees in Braga", "created_at": 1740823400.0, "superseded_by": "h2"},
]  # fmt: skip
COLUMNS = (
    *("content_hash", "content", "tags", "memory_type", "metadata", "created_at", "updated_at"),
    *("created_at_iso", "deleted_at", "superseded_by"),
)


def service_database(path: Path, columns: tuple[str, ...] = COLUMNS) -> Path:
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"CREATE TABLE memories (id INTEGER PRIMARY KEY, {', '.join(columns)})")
        names, places = ", ".join(columns), ", ".join("?" * len(columns))
        for row in SERVICE:
            database.execute(f"INSERT INTO memories ({names}) VALUES ({places})", [row.get(name) for name in columns])
        database.commit()
    return path


def service_export(path: Path) -> Path:
    path.write_text(
        json.dumps({"export_metadata": {"source_machine": "boat"}, "memories": [*SERVICE[::-1], 5]}), encoding="utf-8"
    )
    return path


@pytest.mark.parametrize("form", ["database", "export"])
def test_the_memories_of_mcp_memory_service_come_in_their_states(ledger: Ledger, tmp_path: Path, form: str) -> None:
    path = (
        service_database(tmp_path / "sqlite_vec.db") if form == "database" else service_export(tmp_path / "export.json")
    )
    report = twice(ledger, path)
    assert (report.kind, report.taken["statements"]) == ("mcp-memory-service", 5)
    assert [where for where, _ in report.notes] == ["h3"]  # its metadata is cut short
    assert states(ledger) == {
        "Ada lives in Porto": "superseded", "Ada lives in Lisbon": "active", "Owns a van": "retracted",
        "Sails a ketch": "superseded", "Keeps bees in Braga": "superseded",
    }  # fmt: skip
    porto, lisbon = memory(ledger, "Ada lives in Porto"), memory(ledger, "Ada lives in Lisbon")
    assert (porto.kind, set(porto.tags), porto.superseded_by) == ("fact", {"home", "place"}, lisbon.id)
    assert (porto.valid_from, porto.valid_to) == ("2025-03-01T10:00:00.500000Z", lisbon.valid_from)
    assert (porto.metadata["source"], porto.metadata["deep"], porto.metadata["content_hash"]) == (
        "chat",
        "[1, 2]",
        "h1",
    )
    assert_recalled(ledger)


def test_a_database_of_an_older_service_has_no_states(ledger: Ledger, tmp_path: Path) -> None:
    assert twice(ledger, service_database(tmp_path / "old.db", COLUMNS[:7])).kind == "mcp-memory-service"
    assert set(states(ledger).values()) == {"active"}
    assert_recalled(ledger)


def test_the_export_after_the_database_of_the_service_brings_the_deletion(ledger: Ledger, tmp_path: Path) -> None:
    import_from(ledger, service_database(tmp_path / "old.db", COLUMNS[:7]))
    assert dict(import_from(ledger, service_export(tmp_path / "export.json")).taken) == {"changes": 4}
    assert states(ledger)["Owns a van"] == "retracted"
    assert memory(ledger, "Ada lives in Porto").status == "superseded"
