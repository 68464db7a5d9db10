"""The stem of a word as the text index makes it. SQLite itself is asked, so that there is only one stemmer."""

from __future__ import annotations

import sqlite3
import threading
from functools import lru_cache

from projections.core.sqlite import TOKENIZER


class _Scratch:
    """An index in memory that shows the stem of a word."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.connection.execute(f"CREATE VIRTUAL TABLE words USING fts5(word, tokenize='{TOKENIZER}')")
        self.connection.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(words, row)")

    def __del__(self) -> None:
        self.connection.close()  # here its thread, or the program, has ended


_of_thread = threading.local()


def scratch() -> sqlite3.Connection:
    """Return this thread's index in memory. Each user empties the index before or after use."""
    if not hasattr(_of_thread, "scratch"):
        _of_thread.scratch = _Scratch()
    connection: sqlite3.Connection = _of_thread.scratch.connection
    return connection


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem of a folded word. A word that the index would not take is its own stem."""
    if not word.isalnum():
        return word
    connection = scratch()
    connection.execute("DELETE FROM words")
    connection.execute("INSERT INTO words VALUES (?)", (word,))
    row = connection.execute("SELECT term FROM terms").fetchone()
    return str(row[0]) if row is not None else word
