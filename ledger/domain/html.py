"""Answers as plain HTML for a notebook: every text is escaped, and nothing but a table and preformatted text is drawn."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.domain.text import UNSAFE
from ledger.domain.text import escape as spell_out

TEXT_CHARS = 2_000  # of a text in a notebook
_SIGNS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


def escaped(value: object) -> str:
    """Return a value as text of HTML; a long text ends with the number of its characters."""
    text = "(erased)" if value is None else str(value)
    more = f" … ({len(text):,} characters)" if len(text) > TEXT_CHARS else ""
    return UNSAFE.sub(spell_out, text[:TEXT_CHARS]).translate(_SIGNS) + more


def table(caption: object, head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table with a caption and a row of names."""
    names = "".join(f"<th>{escaped(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{escaped(caption)}</caption><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def preformatted(text: str) -> str:
    """Return a text whose lines stay as they are."""
    return f"<pre>{escaped(text)}</pre>"
