"""Stored texts made harmless for a terminal: what would move, colour or reorder it is shown as its escape."""

from __future__ import annotations

import json

from ledger.domain.harmless import UNSAFE, escape, one_line


def visible(text: str) -> str:
    """The text over its lines, every unsafe character replaced by its escape (``\\x1b``, ``\\u202e``)."""
    return UNSAFE.sub(escape, text.replace("\r\n", "\n")).expandtabs(4)


def shortened(text: str, chars: int) -> str:
    """One harmless line of at most ``chars`` characters, with … where something is missing."""
    line = one_line(text[: 8 * chars])
    cut = len(line) > chars or len(text) > 8 * chars
    return line[: chars - 1].rstrip() + "…" if cut else line


def as_json(value: object, *, ascii_only: bool = False, indent: int | None = 2) -> str:
    """JSON that a terminal shows harmlessly; the unsafe characters are JSON escapes, so that it means the same."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent, allow_nan=False)
    return UNSAFE.sub(lambda found: json.dumps(found.group())[1:-1], text).replace("\x7f", "\\u007f")


def compact(data: object, chars: int = 150) -> str:
    """What an event recorded, as short JSON without its blanks."""
    if isinstance(data, dict):
        data = {name: value for name, value in data.items() if value not in (None, "", [], {})}
    return shortened(json.dumps(data, ensure_ascii=False), chars)
