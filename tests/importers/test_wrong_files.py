"""A file that is not of the kind that the caller named is refused, and one within a folder is left out and told."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from command_line import run

from ledger import Ledger, RejectedError
from ledger.importers import import_from
from ledger.importers.moving import KINDS


def database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE boats (name)")
        connection.execute("INSERT INTO boats VALUES ('Ada')")
        connection.commit()


WRONG: dict[str, Callable[[Path], object]] = {
    "object.json": lambda path: path.write_text('{"a": 1}', encoding="utf-8"),
    "list.json": lambda path: path.write_text('[{"a": 1}]', encoding="utf-8"),
    "lines.jsonl": lambda path: path.write_text('{"a": 1}\n{"b": 2}\n', encoding="utf-8"),
    "words.txt": lambda path: path.write_text("The sea is salty.\n", encoding="utf-8"),
    "empty.json": lambda path: path.write_bytes(b""),
    "bytes.bin": lambda path: path.write_bytes(bytes(range(256)) * 20),
    "other.db": database,
}
OF_TEXTS = ("summary", "markdown")  # which take any text that has a letter
TEXTS = ("object.json", "list.json", "lines.jsonl", "words.txt")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRONG)
def test_a_file_of_another_kind_is_refused_and_nothing_is_recorded(
    ledger: Ledger, tmp_path: Path, name: str, kind: str
) -> None:
    if kind in OF_TEXTS and name in TEXTS:
        return
    WRONG[name](tmp_path / name)
    before = ledger.position
    for dry_run in (True, False):
        with pytest.raises(RejectedError) as refused:
            import_from(ledger, tmp_path / name, kind=kind, dry_run=dry_run)
        assert name in str(refused.value) and refused.value.rule == "kind"
    assert ledger.position == before


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"interactions"}))  # which takes one file
def test_a_file_of_another_kind_in_a_folder_is_left_out_and_told(ledger: Ledger, tmp_path: Path, kind: str) -> None:
    (tmp_path / "folder").mkdir()
    for name, write in WRONG.items():
        write(tmp_path / "folder" / name)
        WRONG["bytes.bin"](tmp_path / "folder" / f"bytes.{name.partition('.')[2]}")
    report = import_from(ledger, tmp_path / "folder", kind=kind)
    assert report.skipped or report.unknown


def test_a_shell_ends_with_an_error_for_a_file_of_another_kind(tmp_path: Path) -> None:
    WRONG["words.txt"](tmp_path / "words.txt")
    refused = run("import", str(tmp_path / "words.txt"), "--kind", "claude-code", db=tmp_path / "memory.db")
    assert refused.exit_code == 4 and refused.stdout == ""
    assert "words.txt is no source of the kind 'claude-code': a line that is no JSON object (1)" in refused.stderr


def test_a_file_of_the_kind_without_anything_to_take_is_reported(ledger: Ledger, tmp_path: Path) -> None:
    line = '{"type": "user", "sessionId": "s", "isSidechain": true, "uuid": "u", "timestamp": "2026-01-01T00:00:00Z",'
    line += ' "message": {"role": "user", "content": "Look."}}\n'
    (tmp_path / "talk.jsonl").write_text(line, encoding="utf-8")
    report = import_from(ledger, tmp_path / "talk.jsonl", kind="claude-code")
    assert report.taken == {} and report.skipped == {"a line of a subagent": 1}
