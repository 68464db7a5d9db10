"""FTS5 over one text, in memory, so that a single text is matched by the same rules as the index."""

from __future__ import annotations

import re
import sqlite3
import threading

from ledger.english.words import indexed, spaced
from ledger.sessions.rules.grep import Span
from projections.core.sqlite import TOKENIZER

_START, _END, _APART = "\x02", "\x03", "\x1f"
_SIGN = re.compile(r"[\W_]")
_HIGHLIGHTED = f"highlight(words, 0, '{_START}', '{_END}')"


class _Scratch:
    """An index in memory for one text."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.connection.execute(f"CREATE VIRTUAL TABLE words USING fts5(word, tokenize='{TOKENIZER}')")

    def __del__(self) -> None:
        self.connection.close()  # here its thread, or the program, has ended


_of_thread = threading.local()


def _scratch() -> sqlite3.Connection:
    """Return this thread's index in memory, which is empty."""
    if not hasattr(_of_thread, "scratch"):
        _of_thread.scratch = _Scratch()
    connection: sqlite3.Connection = _of_thread.scratch.connection
    return connection


def why_unreadable(expression: str) -> str:
    """Return FTS5's complaint about an expression, or ""."""
    try:
        _scratch().execute("SELECT rowid FROM words WHERE words MATCH ?", (expression,)).fetchall()
    except sqlite3.OperationalError as error:
        return str(error)
    return ""


def matches(expression: str, text: str) -> bool:
    """Return True if a whole text matches, as it would as one row of the index."""
    return _selected("1", expression, indexed(text)) is not None


def spans(expression: str, text: str) -> list[Span]:
    """Return the spans of a text that an expression matches, in characters, in order."""
    # The spaced text is as long as the text, except for the marks between characters of scripts without spaces.
    highlighted = _selected(_HIGHLIGHTED, expression, spaced(_SIGN.sub(" ", text), _APART))
    places, at, start = list[Span](), 0, 0
    for character in highlighted or "":
        if character == _START:
            start = at
        elif character == _END:
            places.append((start, at))
        elif character != _APART:
            at += 1
    return places


def _selected(column: str, expression: str, text: str) -> str | None:
    connection = _scratch()
    connection.execute("INSERT INTO words VALUES (?)", (text,))
    try:
        row = connection.execute(f"SELECT {column} FROM words WHERE words MATCH ?", (expression,)).fetchone()
    finally:
        connection.execute("DELETE FROM words")
    return None if row is None else str(row[0])
