"""Helpers of the tests of importers: a second import, the states, the moments between, and recall."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from ledger import Ledger, Memory
from ledger.importers import import_from
from ledger.types import MemoryStatus

OVER: tuple[MemoryStatus, ...] = ("superseded", "invalid", "retracted")


def twice(ledger: Ledger, path: Path, **options: Any) -> Any:
    """Import a source two times, and return the first report; the second adds nothing, and what is over was never active."""
    before, here = ledger.position, {memory.id for memory in ledger.memories.list(statuses=(), limit=1_000)}
    preview = import_from(ledger, path, dry_run=True, **options)
    assert ledger.position == before
    report = import_from(ledger, path, **options)
    assert (dict(preview.taken), dict(preview.skipped)) == (dict(report.taken), dict(report.skipped))
    position = ledger.position
    again = import_from(ledger, path, **options)
    assert (dict(again.taken), ledger.position) == ({}, position)
    assert_never_active(ledger, before + 1, here)
    return report


def assert_never_active(ledger: Ledger, first: int, before: set[str]) -> None:
    """Check that no memory that came and is over was active at a position from the first on."""
    over = {memory.id for memory in ledger.memories.list(statuses=OVER, limit=1_000)} - before
    for position in range(first, ledger.position + 1) if over else ():
        active = {memory.id for memory in ledger.at(position).memories.list(limit=1_000)}
        assert not over & active, position


def states(ledger: Ledger) -> dict[str, str]:
    return {str(memory.content): memory.status for memory in ledger.memories.list(statuses=(), limit=1_000)}


def memory(ledger: Ledger, content: str) -> Memory:
    (found,) = [each for each in ledger.memories.list(statuses=(), limit=1_000) if each.content == content]
    return found


def assert_recalled(ledger: Ledger) -> None:
    """Check that each active memory is the best for its own words, and each turn and message is found by its words."""
    for each in ledger.memories.list():
        assert ledger.recall(each.content or "", among=["memories"], limit=1).items[0].content == each.content
    for turn in ledger.interactions.list(limit=1_000):
        for words in filter(None, (turn.prompt, turn.response)):
            assert words in (ledger.recall(words, among=["turns"], limit=1).items[0].content or "")


def database(path: Path, ddl: str, rows: Mapping[str, Iterable[Mapping[str, object]]]) -> Path:
    """Write an SQLite database with tables and rows."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(ddl)
        for table, entries in rows.items():
            for row in entries:
                places = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", list(row.values()))
        connection.commit()
    return path


def assert_comes_again(ledger: Ledger, path: Path) -> None:
    """Check that an import that was taken back as a whole leaves no memory, and comes again."""
    report = import_from(ledger, path)
    ledger.history.undo_all(correlation_id=report.correlation_id, cascade=True)
    assert not ledger.memories.list(statuses=()) and not ledger.interactions.list() and not ledger.observations.list()
    again = import_from(ledger, path)
    assert dict(again.taken) == {what: count for what, count in report.taken.items() if what != "projects"}
    assert dict(again.skipped) == dict(report.skipped)
