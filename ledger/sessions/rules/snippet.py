"""The snippet of a text that shows a match: a short piece on one line with most of the matching places."""

from __future__ import annotations

import re

_BLANK = re.compile(r"\s+")

Span = tuple[int, int]


def snippet(text: str, spans: list[Span], chars: int = 160) -> str:
    """Return at most ``chars`` characters of a text on one line, around most of the matching places; … marks a cut.

    The text is cut at white space if possible. Without matching places the snippet is the beginning of the text. A place that is
    longer than the snippet is cut too.
    """
    if len(text) <= chars:
        return " ".join(text.split())
    room = max(chars - 2, 0)  # the two marks of a cut need room too
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
    """Return the span with the most places that has at most ``room`` characters; of equal spans the first."""
    best, most, behind = (0, 0), 0, 0
    for number, (start, end) in enumerate(spans):
        behind = max(behind, number + 1)
        while behind < len(spans) and spans[behind][1] - start <= room:
            behind += 1
        if behind - number > most:
            most, best = behind - number, (start, max(end, spans[behind - 1][1]))
    return best
