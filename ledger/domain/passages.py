"""A long text as passages: pieces of a size at which a score says something about the words around a match."""

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
    """Where the passages begin and end, in characters: end to end, so that nothing of the text is left out.

    Cut after a blank line, else after a sentence or line, else after white space, else between words, in the second half of
    what fits; where there is none of them, anywhere.
    """
    found, start = [], 0
    while len(text) - start > size:
        end = _cut(text, start + size // 2, start + size)
        found.append((start, end))
        start = end
    if start < len(text):
        found.append((start, len(text)))
    return found


def _cut(text: str, least: int, most: int) -> int:
    for breaks in _BREAKS:
        ends = [match.end() for match in breaks.finditer(text, least, most)]
        if ends:
            return ends[-1]
    return most


def day_words(time: str) -> str:
    """What a date is called by who asks for it: ``2023 may 8 monday``; "" for what is no date."""
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
    """Who is said to speak, as in ``Ana: I moved to Porto.``, and what; without a name "" and the text as it is."""
    head = text[:120]
    match = _SPEAKER.match(head) if ":" in head else None
    return (match.group(1), text[match.end() :]) if match is not None else ("", text)
