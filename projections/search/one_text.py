"""FTS5 over one text, in memory: whether all of it matches an expression, and where; so there is one matcher and not two."""

from __future__ import annotations

import re
import sqlite3

from ledger.domain.grep import Span
from ledger.domain.question import indexed, spaced
from projections.search.stems import scratch

_START, _END, _APART = "\x02", "\x03", "\x1f"
_SIGN = re.compile(r"[\W_]")
_HIGHLIGHTED = f"highlight(words, 0, '{_START}', '{_END}')"


def why_unreadable(expression: str) -> str:
    """Return FTS5's complaint about an expression, "" without any."""
    try:
        scratch().execute("SELECT rowid FROM words WHERE words MATCH ?", (expression,)).fetchall()
    except sqlite3.OperationalError as error:
        return str(error)
    return ""


def matches(expression: str, text: str) -> bool:
    """Return True if a whole text matches, as the index would have it in one row."""
    return _selected("1", expression, indexed(text)) is not None


def spans(expression: str, text: str) -> list[Span]:
    """Return where a text has what an expression asks for, in characters of it, in order."""
    # As long as the text but for the marks that set characters of a script without spaces apart.
    highlighted = _selected(_HIGHLIGHTED, expression, spaced(_SIGN.sub(" ", text), _APART))
    found, at, start = list[Span](), 0, 0
    for character in highlighted or "":
        if character == _START:
            start = at
        elif character == _END:
            found.append((start, at))
        elif character != _APART:
            at += 1
    return found


def _selected(what: str, expression: str, text: str) -> str | None:
    connection = scratch()
    connection.execute("DELETE FROM words")
    connection.execute("INSERT INTO words VALUES (?)", (text,))
    try:
        row = connection.execute(f"SELECT {what} FROM words WHERE words MATCH ?", (expression,)).fetchone()
    finally:
        connection.execute("DELETE FROM words")
    return None if row is None else str(row[0])
