"""The stem of a word as the text index makes it: asked of SQLite itself, so that there is one stemmer and not two."""

from __future__ import annotations

import sqlite3
import threading
from functools import lru_cache

from projections.core.sqlite import TOKENIZER


class _Scratch:
    """An index in memory that a word is put in to see what becomes of it."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.connection.execute(f"CREATE VIRTUAL TABLE words USING fts5(word, tokenize='{TOKENIZER}')")
        self.connection.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(words, row)")

    def __del__(self) -> None:
        self.connection.close()  # its thread has ended, or the program


_of_thread = threading.local()


def scratch() -> sqlite3.Connection:
    """Return the index in memory of this thread; whoever uses it leaves it empty, or empties it first."""
    if not hasattr(_of_thread, "scratch"):
        _of_thread.scratch = _Scratch()
    connection: sqlite3.Connection = _of_thread.scratch.connection
    return connection


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Of one folded word; a word that the index would not take is its own stem."""
    if not word.isalnum():
        return word
    connection = scratch()
    connection.execute("DELETE FROM words")
    connection.execute("INSERT INTO words VALUES (?)", (word,))
    found = connection.execute("SELECT term FROM terms").fetchone()
    return str(found[0]) if found is not None else word
