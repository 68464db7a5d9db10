"""The store of LangGraph: its SQLite file, and the rows of PostgreSQL as lines of JSON."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from ledger.importers import import_from

ROWS: list[dict[str, Any]] = [
    {"prefix": "ada.shop", "key": "till", "value": {"colour": "blue", "text": "\ud800 odd"},
     "created_at": "2025-03-01 10:00:00", "updated_at": "2025-03-02 10:00:00", "expires_at": None},
    {"prefix": "ada", "key": "later", "value": {"n": 1}, "created_at": "2025-03-01 10:00:00", "updated_at": None,
     "expires_at": "2999-01-01T00:00:00+00:00"},
    {"prefix": "ada", "key": "over", "value": {"n": 2}, "created_at": "2025-03-01 10:00:00", "updated_at": None,
     "expires_at": "2025-03-03 10:00:00"},
    {"prefix": "", "key": "nowhere", "value": {"n": 3}, "created_at": None, "updated_at": None, "expires_at": None},
]  # fmt: skip


def source(place: Path, form: str, rows: list[dict[str, Any]]) -> Path:
    place.mkdir(exist_ok=True)
    path = place / ("store.db" if form == "sqlite" else "store.jsonl")
    path.unlink(missing_ok=True)
    if form == "rows":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path
    with closing(sqlite3.connect(path)) as database:
        names = ("prefix", "key", "value", "created_at", "updated_at", "expires_at")
        database.execute(f"CREATE TABLE store ({', '.join(names)}, ttl_minutes REAL, PRIMARY KEY (prefix, key))")
        for row in rows:
            values = [json.dumps(row[name]) if name == "value" else row[name] for name in names]
            database.execute("INSERT INTO store VALUES (?, ?, ?, ?, ?, ?, NULL)", values)
        if rows is ROWS:
            database.execute("INSERT INTO store (prefix, key, value) VALUES ('ada', 'broken', '{cut sho')")
        database.commit()
    return path


@pytest.mark.parametrize("form", ["sqlite", "rows"])
def test_the_store_of_langgraph_becomes_values(tmp_path: Path, form: str) -> None:
    path = source(tmp_path / "source", form, ROWS)
    with Ledger.open(tmp_path / "memory.db", user="ada") as ledger:
        report = import_from(ledger, path)
        assert (report.kind, dict(report.taken), report.first) == (
            "langgraph", {"values": 2}, "2025-03-01T10:00:00.000000Z")  # fmt: skip
        assert dict(report.skipped) == {
            "a value that has expired": 1,
            "a row without a namespace, a key or a value in JSON": 2 if form == "sqlite" else 1,
        }  # fmt: skip
        till, later = ledger.values.get(("ada", "shop"), "till"), ledger.values.get(("ada",), "later")
        assert till is not None and till.value["colour"] == "blue"
        assert later is not None and later.expires_at == "2999-01-01T00:00:00.000000Z"
        position = ledger.position
        assert (dict(import_from(ledger, path).taken), ledger.position) == ({}, position)
        ledger.values.put(("ada",), "later", {"n": 7})
        changed = source(tmp_path / "source", form, [{**ROWS[0], "value": {"colour": "red"}}, ROWS[1]])
        assert dict(import_from(ledger, changed).taken) == {"values": 1}
        till, later = ledger.values.get(("ada", "shop"), "till"), ledger.values.get(("ada",), "later")
        assert till is not None and till.value == {"colour": "red"}
        assert later is not None and later.value == {"n": 7}  # what changed here stays
