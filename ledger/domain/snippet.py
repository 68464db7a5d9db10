"""What is shown of a text in which something was found: a short piece on one line, where most of the places lie."""

from __future__ import annotations

import re

_BLANK = re.compile(r"\s+")

Span = tuple[int, int]


def snippet(text: str, spans: list[Span], chars: int = 160) -> str:
    """At most ``chars`` characters of a text, on one line, where most of the places lie together, with … where it was cut.

    Cut at white space where there is some. Without places it is the beginning; a place that is longer is cut itself.
    """
    if len(text) <= chars:
        return " ".join(text.split())
    room = max(chars - 2, 0)  # two for the signs that it was cut
    first, last = _densest(spans, room)
    start = max(0, min(first - max(room - (last - first), 0) // 2, len(text) - room))
    end = min(start + room, len(text))
    if start and (found := _BLANK.search(text, start, first)):
        start = found.end()
    if end < len(text) and (gaps := list(_BLANK.finditer(text, min(max(last, start), end), end + 1))):
        end = gaps[-1].start()
    inner = " ".join(text[start:end].split())
    return ("…" * (start > 0) + inner + "…" * (end < len(text)))[: max(chars, 0)]


def _densest(spans: list[Span], room: int) -> Span:
    """From where to where the most of the places lie that go into so many characters; of equals the first."""
    best, found, behind = (0, 0), 0, 0
    for number, (start, end) in enumerate(spans):
        behind = max(behind, number + 1)
        while behind < len(spans) and spans[behind][1] - start <= room:
            behind += 1
        if behind - number > found:
            found, best = behind - number, (start, max(end, spans[behind - 1][1]))
    return best
