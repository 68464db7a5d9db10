"""Keyed values in a shell, and the cost of their pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import answer, run

from ledger import Ledger
from projections.views import values


@pytest.fixture
def db(tmp_path: Path) -> str:
    return str(tmp_path / "memory.db")


def test_a_shell_puts_reads_lists_moves_removes_and_restores(db: str) -> None:
    put = answer("values", "put", "ada/notes", "todo", "- Buy milk", db=db)
    assert (put["namespace"], put["key"], put["value"], put["type"]) == (["ada", "notes"], "todo", "- Buy milk", "text")
    answer("values", "put", "ada", "theme", '{"color": "dark", "n": 3}', "--type", "json", "--no-index", db=db)
    answer("values", "put", '["a/b"]', "k", "-", db=db, stdin="from a pipe\n")
    answer("values", "put", "/", "root", "1", db=db)
    assert answer("values", "get", "ada", "theme", db=db)["value"] == {"color": "dark", "n": 3}
    assert answer("values", "get", '["a/b"]', "k", db=db)["value"] == "from a pipe\n"
    assert answer("values", "namespaces", db=db) == [[], ["a/b"], ["ada"], ["ada", "notes"]]
    for labels in ("ada/notes", '["a/b"]', "/"):
        assert labels in run("values", "list", labels, db=db).stdout.split()
        assert labels in run("values", "namespaces", db=db).stdout.split()
    assert run("values", "get", "ada/notes", "todo", db=db).stdout.splitlines()[1].split() == ["namespace", "ada/notes"]
    assert '["a/b"]' in run("values", "get", '["a/b"]', "k", db=db).stdout
    assert run("values", "get", "/", "root", db=db).stdout.splitlines()[1].split() == ["namespace", "/"]
    for labels in ("ada/notes", '["a/b"]', "/"):
        for words in (("get",), ("remove",), ("restore",)):
            absent = run("values", *words, labels, "nothing", db=db)
            assert absent.exit_code == 3 and absent.stderr.strip().endswith(f"in the namespace {labels}")
    assert [item["key"] for item in answer("values", "list", "ada", db=db)] == ["theme", "todo"]
    assert [item["key"] for item in answer("values", "list", "--where", '{"n": {"$gt": 2}}', db=db)] == ["theme"]
    assert [item["key"] for item in answer("values", "list", "--question", "milk", db=db)] == ["todo"]
    assert answer("values", "move", "ada/notes", "todo", "ada/old", "todo-1", db=db)["id"] == put["id"]
    assert answer("values", "remove", "ada/old", "todo-1", "--reason", "done", db=db)["status"] == "removed"
    assert answer("values", "restore", "ada/old", "todo-1", db=db)["status"] == "active"
    then = str(put["position"])
    assert answer("values", "get", "ada/notes", "todo", "--as-of", then, db=db)["value"] == "- Buy milk"
    steps = [step["type"] for step in answer("history", "events", put["id"], db=db)]
    assert steps == ["ValuePut", "ValueMoved", "ValueRemoved", "ValueRestored"]


def test_a_shell_shows_a_value_as_a_line_and_says_what_is_wrong(db: str) -> None:
    run("values", "put", "ada", "theme", '{"color": "dark"}', "--type", "json", db=db)
    run("values", "put", "/", "root", "text", db=db)
    shown = run("values", "list", db=db).stdout
    assert '{"color": "dark"}' in shown and "ada" in shown and "/" in shown
    assert run("values", "namespaces", db=db).stdout == "/\nada\n"
    rows = [json.loads(line) for line in run("values", "list", "--jsonl", db=db).stdout.splitlines()]
    assert [row["key"] for row in rows] == ["root", "theme"]
    assert run("values", "put", "ada", "x", "{", "--type", "json", db=db).exit_code == 2
    assert run("values", "put", "[1", "x", "y", db=db).exit_code == 2
    assert run("values", "get", "ada", "nothing", db=db).exit_code == 3
    assert run("values", "put", "ada", "theme", "x", "--expected", "0", db=db).exit_code == 4


@pytest.mark.parametrize("text", ["- milk\n", "a\r\n", "\n\n", "no end", "", "tab\tand \x1b[1m and 🌍\n"])
def test_a_shell_keeps_a_text_from_standard_input_and_prints_it_raw_to_the_last_byte(db: str, text: str) -> None:
    answer("values", "put", "n", "f", "-", db=db, stdin=text)
    assert answer("values", "get", "n", "f", db=db)["value"] == text
    assert run("values", "get", "n", "f", "--raw", db=db).stdout == text
    assert json.loads(run("values", "get", "n", "f", "--raw", "--json", db=db).stdout) == text


def test_a_shell_prints_json_raw_and_tells_a_text_that_looks_like_it(db: str) -> None:
    run("values", "put", "n", "a", "-", "--type", "json", db=db, stdin='\ufeff{"n": 1}\n')
    run("values", "put", "n", "b", '{"n": 2}', db=db)
    run("values", "put", "n", "c", "a text", db=db)
    assert json.loads(run("values", "get", "n", "a", "--raw", db=db).stdout) == {"n": 1}
    assert run("values", "get", "n", "b", "--raw", db=db).stdout == '{"n": 2}'
    shown = run("values", "list", "n", db=db).stdout
    assert '(text) {"n": 2}' in shown and '(text) {"n": 1}' not in shown and "(text) a text" not in shown


def test_a_page_of_values_or_namespaces_reads_no_more_than_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, from_row = list[object](), values.from_row

    def row(shown: Any) -> Any:
        read.append(shown)
        return from_row(shown)

    with Ledger.open(tmp_path / "memory.db") as ledger:
        with ledger.batch():
            for number in range(300):
                ledger.values.put((f"n{number % 3}", f"{number:03}"), "key", number)
        monkeypatch.setattr(values, "from_row", row)
        page = ledger.values.list(limit=1)
        assert len(page) == 1 and page.next is not None and len(read) == 2
        assert len(ledger.values.list(("n2",), limit=1, after=None)) == 1 and len(read) == 4
        assert list(ledger.values.namespaces(max_depth=1)) == [("n0",), ("n1",), ("n2",)]
        assert len(ledger.values.namespaces(limit=1)) == 1 and len(read) == 4


def test_no_read_of_values_goes_through_the_whole_table(tmp_path: Path) -> None:
    import sqlite3
    from contextlib import closing

    Ledger.open(tmp_path / "memory.db").close()
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        asked: list[str] = []
        connection.set_trace_callback(asked.append)
        values.last_change(connection, "ada", '"n",', "a")
        values.listing(connection, user="ada", now="2026", place='"n",', after=('"n",', "a", "v_1"), limit=5)
        values.listing(connection, user="ada", now="2026", statuses=("removed", "expired", "active"), limit=5)
        list(values.places(connection, "ada", "2026", depth=1))
        values.expired(connection, "2026")
        connection.set_trace_callback(None)
        plans = [line for sql in asked for *_, line in connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
        assert not [line for line in plans if line.startswith("SCAN k") or line == "USE TEMP B-TREE FOR ORDER BY"], (
            plans
        )
