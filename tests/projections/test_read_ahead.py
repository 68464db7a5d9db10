"""Many subjects folded again at once: what of their rows is asked, is asked in few questions, and answered as one by one."""

from __future__ import annotations

import sqlite3

import pytest
from soundness import assert_sound

from ledger import Ledger
from projections.core import sqlite
from projections.core.sqlite import SQLiteRows
from projections.search.memory_hits import SEARCH
from projections.views.control import DEPENDENTS
from projections.views.quarantine import QUARANTINE

MANY = 300


@pytest.fixture
def asked():
    """A database with some tables, and the questions that it was asked."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for table in (DEPENDENTS, QUARANTINE, SEARCH, SEARCH.waiting):
        sqlite.create(connection, table)
    connection.executemany(
        "INSERT INTO dependents VALUES (?, ?, ?)",
        [(f"i_{source}", each, each) for each in range(1, MANY + 1, 2) for source in (2, 1)],
    )
    connection.execute("INSERT INTO quarantine VALUES (4, 9, '', 'm_4', 'secret', 'patterns', '')")
    questions = list[str]()
    connection.set_trace_callback(questions.append)
    yield connection, questions
    connection.close()


def test_what_was_read_ahead_of_many_subjects_is_not_asked_again(asked):
    connection, questions = asked
    rows, each = SQLiteRows(connection), range(1, MANY + 1)
    one_by_one = [rows.find(DEPENDENTS, ("memory",), (memory,)) for memory in each]
    questions.clear()
    rows.read_ahead(DEPENDENTS, each)
    rows.read_ahead(QUARANTINE, each)
    assert [rows.find(DEPENDENTS, ("memory",), (memory,)) for memory in each] == one_by_one
    assert one_by_one[0] == [("i_1", 1, 1), ("i_2", 1, 1)]
    assert one_by_one[1] == []
    assert rows.get(QUARANTINE, (4,))[:2] == (4, 9)
    assert rows.get(QUARANTINE, (5,)) is None
    assert len(questions) == 4


def test_what_is_put_or_removed_after_it_was_read_ahead_is_seen(asked):
    rows = SQLiteRows(asked[0])
    rows.read_ahead(DEPENDENTS, [1, 2])
    rows.read_ahead(QUARANTINE, [4])
    rows.remove(DEPENDENTS, ("i_1", 1))
    rows.put(DEPENDENTS, ("i_3", 2), ("i_3", 2, 9))
    rows.remove(QUARANTINE, (4,))
    for _ in range(2):  # kept, and then written
        assert rows.find(DEPENDENTS, ("memory",), (1,)) == [("i_2", 1, 1)]
        assert rows.find(DEPENDENTS, ("memory",), (2,)) == [("i_3", 2, 9)]
        assert rows.get(QUARANTINE, (4,)) is None
        rows.flush()


def test_which_of_many_texts_wait_for_the_index_is_asked_in_few_questions(asked):
    connection, questions = asked
    rows, each = SQLiteRows(connection), range(MANY)
    for row in each:
        rows.index(SEARCH, row, None, (f"tea {row}", ""))
    rows.flush()
    for row in range(MANY, MANY + 10):
        rows.index(SEARCH, row, None, (f"tea {row}", ""))
    rows.flush()
    questions.clear()
    for row in (*each, MANY + 3):
        rows.index(SEARCH, row, (f"tea {row}", ""), None)
    rows.flush()
    assert len([sql for sql in questions if "search_waiting" in sql]) == 3
    assert connection.execute("SELECT count(*) FROM search WHERE search MATCH 'tea'").fetchone() == (0,)
    waiting = connection.execute("SELECT row FROM search_waiting").fetchall()
    assert waiting == [(row,) for row in range(MANY, MANY + 10) if row != MANY + 3]


def test_an_undo_of_many_asks_for_their_rows_at_once(tmp_path, monkeypatch):
    found, singly = SQLiteRows.find, list[str]()

    def find(rows, table, columns, key):
        if table.ahead and key not in rows._ahead.get(table, {}):
            singly.append(table.name)
        return found(rows, table, columns, key)

    with Ledger.open(tmp_path / "memory.db") as ledger:
        crawler = ledger.bind(actor="crawler")
        with ledger.batch():
            made = [crawler.remember(f"Fact number {number}.") for number in range(MANY)]
            for memory in made[:5]:
                ledger.reinforce(memory.id)
        monkeypatch.setattr(SQLiteRows, "find", find)
        assert ledger.history.undo_all(by="crawler", cascade=True).events >= MANY
        assert not singly
        assert ledger.redo(ledger.position).events >= MANY
        assert not singly
    with Ledger.open(tmp_path / "memory.db") as ledger:
        assert_sound(ledger)
