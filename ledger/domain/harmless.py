"""Stored text made harmless for a line, a fence or a picture's label: characters that would move or hide text are escaped."""

from __future__ import annotations

import re

# Control characters (C0, DEL, C1), shapeless characters, bidirectional marks, line separators, tags, surrogates.
# The caller handles newline and tab; the joiners U+200C and U+200D stay, because scripts and emoji need them.
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202f"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)
MARK_BEGINS = "[redacted:"  # the beginning of the mark of a secret that was taken out
FENCE = 3  # the least backticks of a fence
_BLANK = re.compile(r"[ \t\n]+")
_TICKS = re.compile("`+")
_NOT_PLAIN = re.compile(r"(?<=[^\W_])[-_.](?=[^\W_])|[^\W_]| |(.)", re.DOTALL)


def escape(unsafe: re.Match[str]) -> str:
    return unsafe.group().encode("unicode_escape").decode("ascii")


def one_line(text: str) -> str:
    """Return the text as one harmless line."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return UNSAFE.sub(escape, _BLANK.sub(" ", text.replace("\r\n", "\n")).strip())


def fenced(lines: list[str], label: str) -> str:
    """Return lines as a Markdown code block that no line can end: its fence is longer than any run of backticks in the lines."""
    fence = "`" * fence_width(lines)
    return "\n".join([fence + label, *lines, fence])


def fence_width(lines: list[str]) -> int:
    """Return the number of backticks of a fence that none of the lines can end."""
    longest = max((len(run) for line in lines if "`" in line for run in _TICKS.findall(line)), default=0)
    return max(FENCE, longest + 1)


def mermaid_label(text: str) -> str:
    """Return a label for Mermaid: letters, digits, blanks and - _ . between letters stay, all else is a character code."""
    return _NOT_PLAIN.sub(lambda character: f"#{ord(character[1])};" if character[1] else character[0], one_line(text))
