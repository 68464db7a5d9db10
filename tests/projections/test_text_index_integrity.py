"""SQLite's own check of a file, asked so that every version of SQLite answers for the file as it is."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from projections.core.sqlite import integrity_problems


def test_an_index_that_another_connection_merged_is_sound(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as writer,
        closing(sqlite3.connect(path, isolation_level=None)) as reader,
    ):
        writer.execute("PRAGMA journal_mode = WAL").fetchone()
        writer.execute("""CREATE VIRTUAL TABLE "a ""search" USING fts5(content, content='')""")
        for row in (1, 2, 3):
            writer.execute("""INSERT INTO "a ""search" (rowid, content) VALUES (?, ?)""", (row, f"tea number{row}"))
        assert list(integrity_problems(reader, 100)) == []
        writer.execute(
            """INSERT INTO "a ""search" ("a ""search", rowid, content) VALUES ('delete', 1, 'tea number1')"""
        )
        writer.execute("""INSERT INTO "a ""search" ("a ""search") VALUES ('optimize')""")
        assert list(integrity_problems(reader, 100)) == []
        assert list(integrity_problems(reader, 1, quick=True)) == []


def test_a_broken_file_has_problems(tmp_path: Path) -> None:
    path = tmp_path / "broken.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE words (word TEXT)")
        connection.execute("CREATE INDEX by_word ON words (word)")
        connection.executemany("INSERT INTO words VALUES (?)", [(f"word {number}",) for number in range(500)])
    content = path.read_bytes()
    found = []
    for place in re.finditer(b"word 250", content):  # the table's, the index's, and what a split of a page left behind
        path.write_bytes(content[: place.start()] + b"word 25x" + content[place.end() :])
        with closing(sqlite3.connect(path)) as connection:
            found.append(bool(list(integrity_problems(connection, 100))))
    assert found.count(True) == 2, found
