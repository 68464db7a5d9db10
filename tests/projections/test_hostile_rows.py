"""A hostile value in any cell of the projections: a read answers or tells of damage, and a rebuild makes the row again."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import probe
import pytest
from hostile import CELLS
from reads import READS, answers, opened, prepared, put

from ledger import DamagedError, LedgerError
from projections.core import damage
from projections.core.projector import projections
from projections.core.rows import Table

EVERY = os.environ.get("HYPOTHESIS_PROFILE") == "long"
CASES = [
    (table.name, column.split()[0], value)
    for each in projections(b"")
    for table in each.tables
    if isinstance(table, Table)
    for column in table.columns
    for value in CELLS
]


def spoil(path: Path, table: str, column: str, value: str) -> bool:
    """Whether there was a row to spoil; what the schema itself refuses cannot be."""
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    put(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        try:
            return connection.execute(f"UPDATE OR IGNORE {table} SET {column} = {value}").rowcount > 0
        except sqlite3.Error:
            return False


def untyped(path: Path) -> Iterator[tuple[str, str]]:
    """(read, error) of every read that raises what is none of our errors, or says of a stored value that it was asked for."""
    names = prepared()[1]
    try:
        ledger = opened(path, readonly=True)
    except LedgerError:
        return
    with ledger:
        for name, read in READS.items():
            try:
                read(ledger, names)
            except LedgerError as error:
                if "a text or a number that cannot be stored" in str(error):
                    yield name, repr(error)
            except Exception as error:
                yield name, repr(error)[:200]


def hostile(path: Path, cases: list[tuple[str, str, str]]) -> dict[tuple[str, str, str], list[tuple[str, str]]]:
    return {case: found for case in cases if spoil(path, *case) and (found := list(untyped(path)))}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(64 if EVERY else 1))
def test_whatever_stands_in_a_row_no_error_of_python_reaches_the_caller(tmp_path: Path, part: int) -> None:
    chosen = CASES[part::64] if EVERY else Random(7).sample(CASES, 6)
    assert hostile(tmp_path / "memory.db", chosen) == {}


def test_in_a_sound_ledger_no_row_is_taken_for_damaged(tmp_path: Path) -> None:
    with closing(sqlite3.connect(put(tmp_path / "memory.db"))) as connection:
        assert damage.find(connection) is None


FOUND: dict[tuple[str, str, str], str] = {  # what the corpus met once, with the read that showed it
    ("messages", "metadata", "'[1'"): "session.messages now",
    ("memories", "metadata", "'none'"): "recall now",
    ("audit", "event_id", "''"): "history.explain now",
    ("audit", "command_id", "'none'"): "session.reopen",
    ("evidence", "source", "''"): "why now",
    ("observations", "rule", "'[]'"): "why now",
    ("dependents", "memory", "char(0)"): "erase, dry",
}


@pytest.mark.parametrize(
    ("cell", "read"), FOUND.items(), ids=lambda each: each if isinstance(each, str) else " ".join(each)
)
def test_a_row_that_cannot_be_decoded_is_named_and_a_rebuild_repairs_it(
    tmp_path: Path, cell: tuple[str, str, str], read: str
) -> None:
    path, names = tmp_path / "memory.db", prepared()[1]
    assert spoil(path, *cell)
    with opened(path, readonly=True) as ledger:
        with pytest.raises(DamagedError, match="rebuild") as told:
            READS[read](ledger, names)
        assert told.value.table == cell[0]
        assert told.value.row is not None
    assert_rebuilt(path, read)


def assert_rebuilt(path: Path, read: str) -> None:
    with opened(path) as ledger:
        probe.rebuild(ledger)
        found: Any = repr(READS[read](ledger, prepared()[1]))
        assert found == answers()[read]


@pytest.mark.parametrize("read", ["history.blame now", "reopen", "why then"])
def test_an_audit_entry_that_is_missing_is_a_damaged_row(tmp_path: Path, read: str) -> None:
    path = put(tmp_path / "memory.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"DELETE FROM audit WHERE {'position % 2' if read == 'reopen' else 1}")
    with opened(path, readonly=True) as ledger, pytest.raises(DamagedError, match="rebuild") as told:
        READS[read](ledger, prepared()[1])
    assert told.value.table == "audit"
    assert_rebuilt(path, read)
