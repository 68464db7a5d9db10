"""A text index of the ledger against one that is made of the log: the same words at the same places of the same rows.

What only leads to the words is looked at too. FTS5 scores by sums that it keeps of all its texts, and finds a word through
a table of the first words of its pages: with one of these damaged a recall finds less or ranks otherwise, although every
word is still there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import zip_longest

from projections.core import sqlite
from projections.core.rows import TextIndex
from projections.search.text_hits import averages

# Of every word: how often, in which rows, in which columns and where, as sums, in one pass that sorts nothing.
_WORDS = (
    "SELECT term, count(*), sum(doc), sum(unicode(col) * (doc % 9973) * (offset + 1)) FROM temp.index_words"
    " GROUP BY term ORDER BY term"
)
# The words, each looked up by itself as a search does, that are not found as often as they are there.
_LOST = (
    "SELECT 1 FROM temp.index_words each LEFT JOIN temp.index_words found ON found.term = each.term"
    " WHERE (found.doc, found.cnt) IS NOT (each.doc, each.cnt) LIMIT 1"
)


def difference(live: sqlite3.Connection, fresh: sqlite3.Connection, index: TextIndex) -> str | None:
    """What is wrong with the index, or with the texts that wait for it. ``fresh`` holds a fold of the log, which is used up."""
    sqlite.fill_index(fresh, index)
    remove = sqlite._unindex(index, "")
    for row, *kept in live.execute(f"SELECT * FROM main.{index.waiting.name}"):
        fresh.execute(remove, ("delete", row, *index.expand(tuple(kept))))
    lengths = f"SELECT id, sz FROM main.{index.name}_docsize ORDER BY id"
    for found, wanted in zip_longest(live.execute(lengths), fresh.execute(lengths)):
        if found != wanted:
            row = min(each[0] for each in (found, wanted) if each is not None)
            return f"the text index {index.name} and the texts that wait for it do not hold row {row} as the log has it"
    with _words(live, index) as found_words, _words(fresh, index) as wanted_words:
        if any(found != wanted for found, wanted in zip_longest(found_words, wanted_words)):
            return f"the text index {index.name} holds other words than the log"
    if averages(live, index, "main") != averages(fresh, index, "main"):
        return f"the text index {index.name} says another number of texts or of words than it holds"
    if _settings(live, index) != _settings(fresh, index):
        return f"the text index {index.name} has other settings than a ledger's"
    with _vocabulary(live, index, "row"):
        if live.execute(_LOST).fetchone() is not None:
            return f"the text index {index.name} does not find every word that it holds"
    return None


def _settings(connection: sqlite3.Connection, index: TextIndex) -> list[str]:
    """Their names; there is but the version, whose value FTS5 checks itself."""
    return [name for (name,) in connection.execute(f"SELECT k FROM main.{index.name}_config ORDER BY k")]


@contextmanager
def _words(connection: sqlite3.Connection, index: TextIndex) -> Iterator[Iterator[tuple[object, ...]]]:
    with _vocabulary(connection, index, "instance"), closing(connection.execute(_WORDS)) as cursor:
        yield cursor


@contextmanager
def _vocabulary(connection: sqlite3.Connection, index: TextIndex, kind: str) -> Iterator[None]:
    connection.execute(f"CREATE VIRTUAL TABLE temp.index_words USING fts5vocab(main, {index.name}, {kind})")
    try:
        yield
    finally:
        connection.execute("DROP TABLE temp.index_words")
