"""The shortening of a tool's result to its beginning, for a window that cannot hold the whole result.

The message stays whole in the log. The receipt of a window has the name of this rule and the number of characters that stay, so
that the same text can be made again.
"""

from __future__ import annotations

RULE = "head/1"


def shortened(text: str, chars: int, position: int) -> str:
    """Return the first ``chars`` characters of a text and a mark that names the message with the whole text.

    A text that is not longer is returned unchanged.
    """
    cut_chars = len(text) - chars
    return f"{text[:chars]}\n{mark(cut_chars, position)}" if cut_chars > 0 else text


def mark(cut_chars: int, position: int) -> str:
    """Return the mark at the end of a shortened text."""
    return f"[shortened: {cut_chars:,} more characters in message {position}]"
