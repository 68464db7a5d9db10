"""Stored texts made harmless for a terminal: what would move, colour or reorder it is shown as its escape."""

from __future__ import annotations

import json
import re
from typing import Any

# Control characters (C0, DEL, C1), what has no shape, bidirectional marks, line separators, tags, surrogates.
# Newline and tab are handled by whoever lays the text out; the joiners U+200C and U+200D stay, for scripts and emoji.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202f"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)
_BLANK = re.compile(r"[ \t\n]+")


def visible(text: str) -> str:
    """The text over its lines, every unsafe character replaced by its escape (``\\x1b``, ``\\u202e``)."""
    return _UNSAFE.sub(_escape, text.replace("\r\n", "\n")).expandtabs(4)


def one_line(text: str) -> str:
    """The text as one harmless line."""
    return _UNSAFE.sub(_escape, _BLANK.sub(" ", text.replace("\r\n", "\n")).strip())


def shortened(text: str, chars: int) -> str:
    """One harmless line of at most ``chars`` characters, with … where something is missing."""
    line = one_line(text[: 8 * chars])
    cut = len(line) > chars or len(text) > 8 * chars
    return line[: chars - 1].rstrip() + "…" if cut else line


def as_json(value: Any, *, ascii_only: bool = False) -> str:
    """JSON that a terminal shows harmlessly; the unsafe characters are JSON escapes, so that it means the same."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=2, allow_nan=False)
    return _UNSAFE.sub(lambda found: json.dumps(found.group())[1:-1], text).replace("\x7f", "\\u007f")


def _escape(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")
