"""The forms of stored texts for a terminal: characters that move, colour or reorder text become escapes."""

from __future__ import annotations

import json

from ledger.domain.text import UNSAFE, escape, one_line


def visible(text: str) -> str:
    """Return the text with its lines, and with an escape for every unsafe character, such as U+001B or U+202E."""
    return UNSAFE.sub(escape, text.replace("\r\n", "\n")).expandtabs(4)


def shortened(text: str, chars: int) -> str:
    """Return the text as one harmless line of at most ``chars`` characters; … marks a cut."""
    line = one_line(text[: 8 * chars])
    cut = len(line) > chars or len(text) > 8 * chars
    return line[: chars - 1].rstrip() + "…" if cut else line


def as_json(value: object, *, ascii_only: bool = False, indent: int | None = 2) -> str:
    """Return JSON that is harmless on a terminal: unsafe characters become JSON escapes, which mean the same."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent, allow_nan=False)
    return UNSAFE.sub(lambda match: json.dumps(match.group())[1:-1], text).replace("\x7f", "\\u007f")


def compact(data: object, chars: int = 150) -> str:
    """Return the data of an event as short JSON without blank values."""
    if isinstance(data, dict):
        data = {name: value for name, value in data.items() if value not in (None, "", [], {})}
    return shortened(json.dumps(data, ensure_ascii=False), chars)
