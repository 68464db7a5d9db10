"""The shortening of a tool's result to its beginning, and of another text to its weightiest sentences, to fit a window.

The message stays whole in the log. The receipt of a window has the names of the rules and the number of characters that stay, so
that the same text can be made again.
"""

from __future__ import annotations

from ledger.sessions.rules import excerpts

RULE = f"head/1 {excerpts.RULE}"


def shortened(text: str, chars: int, position: int) -> str:
    """Return the first ``chars`` characters of a text and a mark that names the message with the whole text.

    A text that is not longer is returned unchanged.
    """
    cut_chars = len(text) - chars
    return f"{text[:chars]}\n{mark(cut_chars, position)}" if cut_chars > 0 else text


def excerpted(text: str, chars: int, position: int) -> str:
    """Return the weightiest sentences of a text, at most ``chars`` characters, and a mark that names the whole message."""
    if len(text) <= chars:
        return text
    part = excerpts.part(text, chars)
    return f"{part}\n{mark(len(text) - len(part), position)}"


def mark(cut_chars: int, position: int) -> str:
    """Return the mark at the end of a shortened text."""
    return f"[shortened: {cut_chars:,} more characters in message {position}]"
