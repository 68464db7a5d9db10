"""A value that no fold wrote, in any column of any projection, is told wherever it is shown, and never shown as if it could be.

Whatever a filter does not find is not met by a read, and found by ``verify``.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from random import Random

import msgspec
import pytest
from reads import PAST, PUBLIC, given, opened, prepared, put

from ledger import DamagedError, LedgerError, Page
from projections.core.projector import projections
from projections.core.rows import Table

EVERY = os.environ.get("HYPOTHESIS_PROFILE") == "long"
IMPOSSIBLE = {
    "TEXT": ("x'80ff'", "CAST(x'80ff' AS TEXT)"),
    "INTEGER": ("'none'", "1.5", "x'05'"),
    "BLOB": ("'text'", "5"),
    "REAL": ("'none'", "x'05'"),
}
CASES = [
    (table, column, value)
    for each in projections(b"")
    for table in each.tables
    if isinstance(table, Table)
    for column in table.columns
    for value in (
        *IMPOSSIBLE[column.split()[1]],
        *["NULL"] * column.endswith("NOT NULL"),
        *["'nothing'"] * (column.split()[0] in dict(table.among)),
    )
]


def damaged(path, table, column, value):
    """Whether a row of the table could be made so; what SQLite itself refuses is past its own check, like a flipped bit."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    put(path)
    without = column.replace(" NOT NULL", "")
    change = f"UPDATE OR IGNORE {table.name} SET {column.split()[0]} = {value}"
    if value != "NULL":
        return run(path, change)
    with closing(sqlite3.connect(path)) as connection:
        (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table.name,)).fetchone()
    schema = "UPDATE sqlite_master SET sql = ? WHERE name = ?"
    assert run(path, schema, sql.replace(column, without), table.name)
    found = run(path, change)
    assert run(path, schema, sql, table.name)
    return found


def run(path, sql, *values):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        try:
            return connection.execute(sql, values).rowcount > 0
        except sqlite3.Error:  # a rowid is a number, and a key of a table without one is not null
            return False


def check_types(answer):
    """Raises where an answer holds a value of another type than its field says."""
    if isinstance(answer, Page | list | tuple):
        for each in answer:
            check_types(each)
    elif isinstance(answer, msgspec.Struct):
        msgspec.convert(msgspec.to_builtins(answer, builtin_types=(bytes,)), type(answer))


def wrong_answers(path):
    """(read, what is wrong) for every read that neither tells of damage nor answers as its types say."""
    the = prepared()[1]
    reads = [(name, "") for name in PUBLIC] + [(name, " then") for name in PUBLIC if name in PAST]
    try:
        ledger = opened(path, readonly=True)
    except LedgerError:
        return
    with ledger:
        for name, when in reads:
            try:
                for answer in given(name, ledger.at(the["position"]) if when else ledger, the):
                    check_types(answer)
            except LedgerError:
                continue
            except Exception as error:
                yield name + when, repr(error)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16 if EVERY else 1))
def test_a_value_that_no_fold_wrote_is_never_shown_and_no_other_error_reaches_the_caller(tmp_path, part):
    chosen = CASES[part::16] if EVERY else Random(5).sample(CASES, 6)
    wrong = {}
    for number, (table, column, value) in enumerate(chosen):
        path = tmp_path / str(number) / "memory.db"
        if damaged(path, table, column, value) and (found := list(wrong_answers(path))):
            wrong[table.name, column, value] = found
    assert wrong == {}


SHOWN = {  # a read that shows the column, of tables that are read by hand
    ("audit", "actor"): "history.audit",
    ("audit", "recorded_at"): "history.audit",
    ("distrusted", "recorded_at"): "history.distrusted",
    ("model_calls", "attempts"): "history.model_calls",
    ("refusals", "rule"): "guards.refusals",
    ("quarantine", "finding"): "guards.quarantined",
    ("confidence_steps", "type"): "memories.confidence",
    ("holds", "subject"): "holds.list",
    ("hidden_messages", "why"): "session.messages",
    ("evidence", "source"): "observations.get",
    ("sessions", "name"): "sessions.grep",
    ("edges", "relation"): "graph.neighbors",
    ("mentions", "name"): "graph.neighbors",
    ("project_state", "value"): "projects.state",
    ("memories", "content"): "memories.list",
    ("passages", "text"): "recall",
}


@pytest.mark.parametrize(("where", "read"), SHOWN.items())
def test_a_read_that_shows_an_impossible_value_names_its_table(tmp_path, where, read):
    path = tmp_path / "memory.db"
    (table, column), *_ = [(table, column) for table, column, _ in CASES if (table.name, column.split()[0]) == where]
    assert damaged(path, table, column, IMPOSSIBLE[column.split()[1]][0])
    with opened(path, readonly=True) as ledger, pytest.raises(DamagedError) as told:
        given(read, ledger, prepared()[1])
    assert told.value.table == table.name


CLOSED = {  # columns of words that are a closed set, and a read that shows them
    ("conflicts", "action"): "conflicts.list",
    ("distrusted", "kind"): "history.distrusted",
    ("summaries", "status"): "session.expand",
    ("summaries", "kind"): "session.summaries.list",
    ("summaries", "level"): "session.summaries.list",
}


@pytest.mark.parametrize(("where", "read"), CLOSED.items())
def test_a_word_that_no_fold_writes_is_damage(tmp_path, where, read):
    path = tmp_path / "memory.db"
    (table, column), *_ = [(table, column) for table, column, _ in CASES if (table.name, column.split()[0]) == where]
    assert damaged(path, table, column, "'nothing'")
    with opened(path, readonly=True) as ledger, pytest.raises(DamagedError, match=f"its {where[1]} is none of") as told:
        given(read, ledger, prepared()[1])
    assert told.value.table == table.name
