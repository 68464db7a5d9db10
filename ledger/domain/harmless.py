"""Stored text made harmless: on one line, in a fence, in a label of a picture. What would move or hide it shows as its escape."""

from __future__ import annotations

import re

# Control characters (C0, DEL, C1), what has no shape, bidirectional marks, line separators, tags, surrogates.
# Newline and tab are handled by whoever lays the text out; the joiners U+200C and U+200D stay, for scripts and emoji.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202f"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)
FENCE = 3  # backticks of a fence at least
_BLANK = re.compile(r"[ \t\n]+")
_TICKS = re.compile("`+")
_NOT_PLAIN = re.compile(r"(?<=[^\W_])[-_.](?=[^\W_])|[^\W_]| |(.)", re.DOTALL)


def escape(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")


def one_line(text: str) -> str:
    """The text as one harmless line."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return UNSAFE.sub(escape, _BLANK.sub(" ", text.replace("\r\n", "\n")).strip())


def fenced(lines: list[str], label: str) -> str:
    """Lines as a Markdown code block that none of them can end: its fence is longer than any run of backticks in them."""
    fence = "`" * fence_width(lines)
    return "\n".join([fence + label, *lines, fence])


def fence_width(lines: list[str]) -> int:
    """How many backticks a fence needs that none of the lines can end."""
    longest = max((len(run) for line in lines if "`" in line for run in _TICKS.findall(line)), default=0)
    return max(FENCE, longest + 1)


def mermaid_label(text: str) -> str:
    """A label for Mermaid, in which all but letters, digits, blanks and what is plain between them is a character code."""
    return _NOT_PLAIN.sub(lambda found: f"#{ord(found[1])};" if found[1] else found[0], one_line(text))
