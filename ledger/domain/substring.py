"""substring/1: the beginning of a memory stands in a response as it is."""

from __future__ import annotations

NAME = "substring/1"

LEAST_CHARS = 12
"""A shorter memory never matches, for it would occur by accident (ATOCore, SEEDS 1b)."""

WINDOW_CHARS = 80
"""So many characters from the beginning of a memory must occur (ATOCore, SEEDS 1b)."""


def shared_chars(content: str, response: str) -> int:
    """Return how many characters from the beginning of a memory the response has to hold and holds, or 0."""
    wanted = lowered(content)
    window = wanted[:WINDOW_CHARS]
    return len(window) if len(wanted) >= LEAST_CHARS and window in response else 0


def lowered(text: str) -> str:
    """Return a text in lower case with each run of whitespace as one space."""
    return " ".join(text.lower().split())
