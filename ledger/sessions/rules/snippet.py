"""A short piece of a text on one line, for showing a match: the piece in which most of the matching places lie."""

from __future__ import annotations

import re

_BLANK = re.compile(r"\s+")

Span = tuple[int, int]


def snippet(text: str, spans: list[Span], chars: int = 160) -> str:
    """Return at most ``chars`` characters of a text, on one line, around the most matching places; … marks a cut.

    The text is cut at white space if there is any. Without matching places the piece is the beginning. A place that is longer
    than the piece is cut itself.
    """
    if len(text) <= chars:
        return " ".join(text.split())
    room = max(chars - 2, 0)  # two for the signs that it was cut
    first, last = _densest(spans, room)
    start = max(0, min(first - max(room - (last - first), 0) // 2, len(text) - room))
    end = min(start + room, len(text))
    if start and (gap := _BLANK.search(text, start, first)):
        start = gap.end()
    if end < len(text) and (gaps := list(_BLANK.finditer(text, min(max(last, start), end), end + 1))):
        end = gaps[-1].start()
    inner = " ".join(text[start:end].split())
    return ("…" * (start > 0) + inner + "…" * (end < len(text)))[: max(chars, 0)]


def _densest(spans: list[Span], room: int) -> Span:
    """Return the span of the most places that fit into so many characters; of equals the first."""
    best, most, behind = (0, 0), 0, 0
    for number, (start, end) in enumerate(spans):
        behind = max(behind, number + 1)
        while behind < len(spans) and spans[behind][1] - start <= room:
            behind += 1
        if behind - number > most:
            most, best = behind - number, (start, max(end, spans[behind - 1][1]))
    return best
