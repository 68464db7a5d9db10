"""A tool's result cut to its beginning, for a window that cannot hold all of the result.

The message stays whole in the log. A window's receipt stores the name of the rule and the number of characters kept, so that
the same text can be made again.
"""

from __future__ import annotations

RULE = "head/1"


def shortened(text: str, chars: int, position: int) -> str:
    """Return the first ``chars`` characters of a text, and a mark of how many more the message at ``position`` has.

    A text that is not longer is returned as it is.
    """
    left = len(text) - chars
    return f"{text[:chars]}\n{mark(left, position)}" if left > 0 else text


def mark(left: int, position: int) -> str:
    """Return the mark that stands for the rest of a shortened text."""
    return f"[shortened: {left:,} more characters in message {position}]"
