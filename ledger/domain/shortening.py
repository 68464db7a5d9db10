"""A tool's result cut to its beginning, for a window that cannot hold all of it. The message stays whole in the log.

A window's receipt stores the rule by name and how many characters were kept, so that the same text comes out again.
"""

from __future__ import annotations

RULE = "head/1"


def shortened(text: str, chars: int, position: int) -> str:
    """The first ``chars`` characters, and a mark of how many more the message at ``position`` has; short texts as they are."""
    left = len(text) - chars
    return f"{text[:chars]}\n{mark(left, position)}" if left > 0 else text


def mark(left: int, position: int) -> str:
    """What stands for the rest of a shortened text."""
    return f"[shortened: {left:,} more characters in message {position}]"
