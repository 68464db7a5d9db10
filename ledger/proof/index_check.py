"""A text index of the ledger against one that is made of the log: the same words at the same places of the same rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest

from projections import sqlite
from projections.rows import TextIndex

# Of every word: how often, in which rows, in which columns and where, as sums, in one pass that sorts nothing.
_WORDS = (
    "SELECT term, count(*), sum(doc), sum(unicode(col) * (doc % 9973) * (offset + 1)) FROM temp.index_words"
    " GROUP BY term ORDER BY term"
)


def difference(live: sqlite3.Connection, beside: sqlite3.Connection, index: TextIndex) -> str | None:
    """What is wrong with the index, or with the texts that wait for it. ``beside`` holds a fold of the log, which is used up."""
    sqlite.take_in(beside, index)
    remove = sqlite._unindex(index, "")
    for row, *kept in live.execute(f"SELECT * FROM main.{index.waiting.name}"):
        beside.execute(remove, ("delete", row, *index.expand(tuple(kept))))
    lengths = f"SELECT id, sz FROM main.{index.name}_docsize ORDER BY id"
    for found, wanted in zip_longest(live.execute(lengths), beside.execute(lengths)):
        if found != wanted:
            row = min(each[0] for each in (found, wanted) if each is not None)
            return f"the text index {index.name} and the texts that wait for it do not hold row {row} as the log has it"
    with _words(live, index) as found_words, _words(beside, index) as wanted_words:
        if any(found != wanted for found, wanted in zip_longest(found_words, wanted_words)):
            return f"the text index {index.name} holds other words than the log"
    return None


@contextmanager
def _words(connection: sqlite3.Connection, index: TextIndex) -> Iterator[Iterator[tuple[object, ...]]]:
    connection.execute(f"CREATE VIRTUAL TABLE temp.index_words USING fts5vocab(main, {index.name}, instance)")
    cursor = connection.execute(_WORDS)
    try:
        yield cursor
    finally:
        cursor.close()
        connection.execute("DROP TABLE temp.index_words")
