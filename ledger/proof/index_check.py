"""The comparison of a text index with an index made from the log: the same words at the same places of the same rows.

The structures that lead to the words are checked too. FTS5 scores by sums over all its texts, and finds a word through
a table of the first words of its pages. With damage there, a recall finds fewer rows or ranks them differently,
although every word is still in the index.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import zip_longest

from projections.core import sqlite
from projections.core.rows import TextIndex
from projections.search.text_hits import averages

# Each word with its count and with sums over its rows, columns and offsets: one pass that sorts nothing.
_WORDS = (
    "SELECT term, count(*), sum(doc), sum(unicode(col) * (doc % 9973) * (offset + 1)) FROM temp.index_words"
    " GROUP BY term ORDER BY term"
)
# A word that a search finds less often than the index holds it. Each word is looked up by itself, as a search does.
_LOST = (
    "SELECT 1 FROM temp.index_words word LEFT JOIN temp.index_words lookup ON lookup.term = word.term"
    " WHERE (lookup.doc, lookup.cnt) IS NOT (word.doc, word.cnt) LIMIT 1"
)


def difference(live: sqlite3.Connection, fresh: sqlite3.Connection, index: TextIndex) -> str | None:
    """Return the first problem of the index or of the texts that wait for the index, or None.

    ``fresh`` holds a fold of the log; the comparison changes it.
    """
    sqlite.fill_index(fresh, index)
    remove = sqlite._unindex(index, "")
    for row, *kept in live.execute(f"SELECT * FROM main.{index.waiting.name}"):
        fresh.execute(remove, ("delete", row, *index.expand(tuple(kept))))
    lengths = f"SELECT id, sz FROM main.{index.name}_docsize ORDER BY id"
    for length, expected in zip_longest(live.execute(lengths), fresh.execute(lengths)):
        if length != expected:
            row = min(entry[0] for entry in (length, expected) if entry is not None)
            return f"the text index {index.name} and the texts that wait for it do not hold row {row} as the log has it"
    with _words(live, index) as live_words, _words(fresh, index) as log_words:
        if any(word != expected for word, expected in zip_longest(live_words, log_words)):
            return f"the text index {index.name} holds other words than the log gives"
    if averages(live, index, "main") != averages(fresh, index, "main"):
        return f"the text index {index.name} states another number of texts or of words than it holds"
    if _settings(live, index) != _settings(fresh, index):
        return f"the text index {index.name} has other settings than the index of a ledger"
    with _vocabulary(live, index, "row"):
        if live.execute(_LOST).fetchone() is not None:
            return f"the text index {index.name} does not find every word that it holds"
    return None


def _settings(connection: sqlite3.Connection, index: TextIndex) -> list[str]:
    """Return the names of the settings; the only setting is the version, whose value FTS5 checks itself."""
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
