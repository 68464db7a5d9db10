"""The matcher substring/1: the beginning of a memory stands in a response unchanged."""

from __future__ import annotations

NAME = "substring/1"

LEAST_CHARS = 12
"""A shorter memory never matches, because it would occur by accident (as in ATOCore)."""

WINDOW_CHARS = 80
"""The number of characters from the beginning of a memory that must occur (as in ATOCore)."""


def shared_chars(content: str, response: str) -> int:
    """Return the number of characters from the beginning of a memory that the response has to hold and holds, or 0."""
    memory_text = lowered(content)
    window = memory_text[:WINDOW_CHARS]
    return len(window) if len(memory_text) >= LEAST_CHARS and window in response else 0


def lowered(text: str) -> str:
    """Return a text in lower case with each run of whitespace as one space."""
    return " ".join(text.lower().split())
