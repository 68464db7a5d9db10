"""Questions in SQL on the command line, and rows as CSV and JSON Lines of every listing."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path

import pytest
from command_line import answer, run

from ledger import Ledger
from ledger.cli import rows
from ledger.cli.methods import AREAS, of_area

TEXT = 'Says "aye, aye",\nthen =2+2 \x1b[31m and é'


@pytest.fixture
def db(tmp_path: Path) -> str:
    place = tmp_path / "memory.db"
    with Ledger.open(place) as ledger:
        ledger.remember(TEXT, tags=["a", "b"], confidence=0.25)
        ledger.remember("The mast is up.", project="boat")
    return str(place)


def test_a_question_is_answered_as_a_table_without_control_characters(db: str) -> None:
    shown = run("query", 'SELECT content, confidence AS "sure\x1b[1m", NULL AS gone FROM beliefs', db=db)
    assert shown.exit_code == 0 and "\x1b" not in shown.stdout
    assert "Says" in shown.stdout and "0.25" in shown.stdout and "NULL" in shown.stdout


def test_a_table_wider_than_the_terminal_has_one_field_a_line(db: str) -> None:
    lines = run("query", "SELECT * FROM memories ORDER BY row", "--every-user", db=db).stdout.splitlines()
    lines = [line.rstrip() for line in lines]
    ids = [line.split()[1] for line in lines if re.match(r"id +m_", line)]
    assert len(ids) == 2 and all(len(id) == 18 for id in ids) and lines.count("") == 1
    assert any(re.match(r"content +The mast is up\.$", line) for line in lines)
    assert any(re.match(r"superseded_by +NULL$", line) for line in lines)
    narrow = run("query", "SELECT id, content FROM memories", "--every-user", db=db).stdout.splitlines()[0]
    assert narrow.split() == ["id", "content"]


def test_csv_is_what_the_csv_module_reads_back(db: str) -> None:
    shown = run("query", "SELECT id, content, confidence, project, tags FROM beliefs ORDER BY position", "--csv", db=db)
    first, second = csv.DictReader(io.StringIO(shown.stdout, newline=""))
    assert (first["content"], first["confidence"], first["project"]) == (TEXT, "0.25", "")
    assert json.loads(first["tags"]) == ["a", "b"] and second["project"] == "boat"


def test_json_lines_are_objects_and_json_is_items(db: str) -> None:
    sql = "SELECT content, x'00ff' AS bytes FROM beliefs ORDER BY position"
    lines = [json.loads(line) for line in run("query", sql, "--jsonl", db=db).stdout.splitlines()]
    assert lines[0] == {"content": TEXT, "bytes": "AP8="}
    assert answer("query", sql, db=db) == lines


def test_an_infinite_number_is_its_word_in_json_as_in_csv(db: str) -> None:
    sql = "SELECT 1e999 AS most, -1e999 AS least, 0.5 AS half"
    row: dict[str, object] = {"most": "Infinity", "least": "-Infinity", "half": 0.5}
    assert answer("query", sql, db=db) == [row]
    assert json.loads(run("query", sql, "--jsonl", db=db).stdout) == row
    assert run("query", sql, "--csv", db=db).stdout.splitlines()[1] == "Infinity,-Infinity,0.5"


def test_values_past_moments_and_standard_input(db: str) -> None:
    sql = "SELECT count(*) AS n FROM beliefs WHERE confidence < ? AND content <> ?"
    assert answer("query", sql, "--values", "0.9", "--values", "x", db=db) == [{"n": 1}]
    assert answer("query", "SELECT count(*) AS n FROM beliefs", "--as-of", "2", db=db) == [{"n": 1}]
    assert answer("query", "-", db=db, stdin="SELECT 1 AS one\n") == [{"one": 1}]


def test_a_question_is_about_the_user_who_is_named_and_every_user_only_where_none_is(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(db, user="ben") as ledger:
        ledger.remember("The dinghy leaks.")
    sql = "SELECT content FROM beliefs WHERE content LIKE 'The %'"
    assert answer("query", sql, db=db) == [{"content": "The mast is up."}]
    assert answer("query", sql, "--user", "ben", db=db) == [{"content": "The dinghy leaks."}]
    assert len(answer("query", sql, "--every-user", db=db)) == 2
    for words in (("--user", "ben"), ("--user", "")):
        shown = run("query", sql, "--every-user", *words, db=db)
        assert shown.exit_code == 4 and "every_user" in shown.stderr
    monkeypatch.setenv("LEDGER_USER", "ben")
    assert answer("query", sql, db=db) == [{"content": "The dinghy leaks."}]
    assert run("query", sql, "--every-user", db=db).exit_code == 4


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("SELEC 1",), 4, "one SELECT"),
        (("SELECT gone FROM beliefs",), 4, "no such column"),
        (("DELETE FROM memories",), 4, "only reads"),
        (("SELECT 1", "--csv", "--json"), 2, "three forms of an answer"),
        (("SELECT 1", "--valid-at", "2026-01-01"), 4, "valid_from"),
        ((), 2, "SQL"),
    ],
)
def test_an_error_is_printed_in_one_line(db: str, words: tuple[str, ...], code: int, why: str) -> None:
    shown = run("query", *words, db=db)
    assert (shown.exit_code, shown.stdout, shown.stderr.count("\n")) == (code, "", 1) and why in shown.stderr


def test_a_query_without_a_result_prints_no_row(db: str) -> None:
    for form in ("--csv", "--jsonl"):
        shown = run("query", "SELECT 1 WHERE 0", form, db=db)
        assert (shown.exit_code, shown.stdout) == (0, "")


LISTINGS = [
    method for area in AREAS for method in of_area(area) if method.lists and area not in ("session", "summaries")
]


@pytest.mark.parametrize("method", LISTINGS, ids=lambda method: f"{method.area} {method.name}")
def test_every_listing_is_written_as_csv_and_json_lines(db: str, method: object) -> None:
    given = {"events": ["m_"], "chunks": ["d_"], "rows": ["x"], "grep": ["mast"]}
    words = [method.area, method.name.replace("_", "-"), *given.get(method.name, ())]  # type: ignore[attr-defined]
    for form in ("--csv", "--jsonl"):
        shown = run(*words, form, "--all", db=db)
        assert shown.exit_code in (0, 3, 4), shown.stderr
        if form == "--csv" and shown.exit_code == 0 and "grep" not in words:
            assert shown.stdout.partition("\n")[0], "a first row of names"
        if form == "--jsonl":
            assert all(isinstance(json.loads(line), dict | str) for line in shown.stdout.splitlines())


def test_the_audit_trail_is_written_whole(db: str) -> None:
    shown = run("history", "audit", "--csv", "--all", db=db)
    listed = [*csv.DictReader(io.StringIO(shown.stdout, newline=""))]
    assert [each["type"] for each in listed] == [
        "MemoryCaptured",
        "ProjectRegistered",
        "MemoryCaptured",
        "LedgerCreated",
    ]
    assert json.loads(listed[0]["data"])["content"] == "The mast is up." and listed[0]["in_effect"] == "true"
    lines = run("history", "log", "--jsonl", db=db).stdout.splitlines()
    assert [json.loads(line)["position"] for line in lines] == [1, 2, 3, 4]


def test_csv_on_a_terminal_escapes_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", shown := Terminal())
    rows.show([{"text\x1b": "\x1b[2Jgone"}], csv=True, quiet=True)
    assert shown.getvalue() == "text\\x1b\n\\x1b[2Jgone\n"
