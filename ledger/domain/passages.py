"""A long text as passages: pieces of a size at which a score tells about the words around a match."""

from __future__ import annotations

from datetime import date
from functools import lru_cache

from ledger.domain.late import late

PASSAGE_CHARS = 800
"""A passage has at most this many characters, and at least half of them unless the text ends."""

_BREAKS = tuple(map(late, (r"\n\s*\n", r"[.!?…。！？]['\")\]]*\s|\n", r"\s", r"[\W_]")))  # better places first


MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


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
    for breaks in _BREAKS:
        ends = [match.end() for match in breaks.finditer(text, least, most)]
        if ends:
            return ends[-1]
    return most


def day_words(time: str) -> str:
    """Return the words by which people ask for a date, ``2023 may 8 monday``; "" if the text is not a date."""
    return _called(time[:10])


@lru_cache(maxsize=256)
def _called(iso: str) -> str:
    try:
        day = date.fromisoformat(iso)
    except ValueError:
        return ""
    return f"{day.year} {MONTHS[day.month - 1]} {day.day} {WEEKDAYS[day.weekday()]}"


_SPEAKER = late(r"\s*([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,2}):\s+")
PEOPLE, ASSISTANTS = ("user", "human"), ("assistant", "ai", "bot", "system")


def speaker(text: str) -> tuple[str, str]:
    """Return the name and the text of a text such as ``Ana: I moved to Porto.``; "" and the whole text without a name."""
    head = text[:120]
    match = _SPEAKER.match(head) if ":" in head else None
    return (match.group(1), text[match.end() :]) if match is not None else ("", text)
