"""A long text as passages: pieces of a size at which a score tells about the words around a match."""

from __future__ import annotations

from ledger.domain.late import late

PASSAGE_CHARS = 800
"""A passage has at most this many characters, and at least half of them unless the text ends."""

# Better places first. The greedy beginning finds the last place by going back from the end of the room.
_BREAKS = tuple(late(f"(?s:.*)(?:{place})") for place in (r"\n\s*\n", r"[.!?…。！？]['\")\]]*\s|\n", r"\s", r"[\W_]"))


def split(text: str, size: int = PASSAGE_CHARS) -> list[tuple[int, int]]:
    """Return the beginning and end of each passage, in characters, end to end, so that the passages are the whole text.

    A cut comes after a blank line, else after a sentence or line, else after white space, else between words, in the second
    half of the room; without any of these places, anywhere.
    """
    spans, start = [], 0
    while len(text) - start > size:
        end = _cut(text, start + size // 2, start + size)
        spans.append((start, end))
        start = end
    if start < len(text):
        spans.append((start, len(text)))
    return spans


def _cut(text: str, least: int, most: int) -> int:
    has_lines = text.find("\n", least, most) >= 0
    for breaks in _BREAKS:
        if (has_lines or breaks is not _BREAKS[0]) and (match := breaks.match(text, least, most)) is not None:
            return match.end()
    return most


_SPEAKER = late(r"\s*([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,2}):\s+")
PEOPLE, ASSISTANTS = ("user", "human"), ("assistant", "ai", "bot", "system")


def speaker(text: str) -> tuple[str, str]:
    """Return the name and the text of a text such as ``Ana: I moved to Porto.``; "" and the whole text without a name."""
    head = text[:120]
    match = _SPEAKER.match(head) if ":" in head else None
    return (match.group(1), text[match.end() :]) if match is not None else ("", text)
