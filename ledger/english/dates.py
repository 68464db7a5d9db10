"""English dates: the names of months and weekdays, the dates that a text names, and the words for a date."""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache

from ledger.domain.late import late

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

SURE_DATES = (*WEEKDAYS, *(month for month in MONTHS if month != "may"))
"""The names that are no other word in a text without capitals: "may" is mostly a verb."""

Days = tuple[int | None, int, int | None]  # year, month, day

_MONTHS = tuple(month[:3] for month in MONTHS)
_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in MONTHS).replace("(?:tember)", "t?(?:ember)")
_NAMED = late(
    rf"\b(?:(\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?[\s-]+)?({_MONTH})\b\.?"
    r"(?:[\s-]+(\d{1,2})(?:st|nd|rd|th)?\b(?!\d))?(?:,?[\s-]+(?:of\s+)?(\d{4}))?",
    re.IGNORECASE,
)
_ISO = late(r"\b(\d{4})-(\d{2})-(\d{2})\b", re.ASCII)
_MAY = late(r"\b(?:in|of|during|since|by|until|last|this|early|late|mid) May\b")


def days(text: str) -> list[Days]:
    """Return the days and months that a text names: 8 May 2023, May 8th, in June 2023, 2023-05-08.

    The bare words "may" and "mar" are months only after a preposition.
    """
    named_days: list[Days] = []
    for before, month, after, year in _NAMED.findall(text):
        bare = not (before or after or year)
        if bare and (month.lower() == "mar" or (month.lower() == "may" and not _MAY.search(text))):
            continue
        day = int(before or after) if before or after else None
        named_days.append((int(year) if year else None, _MONTHS.index(month.lower()[:3]) + 1, day))
    named_days += [
        (int(year), int(month), int(day)) for year, month, day in _ISO.findall(text) if 1 <= int(month) <= 12
    ]
    return named_days


_NUMERIC = late(
    r"(?<![\d./-])(?:(\d{1,2})([./])(\d{1,2})\2(\d{4})|(\d{4})[/-](\d{1,2})[/-](\d{1,2}))(?!\d|[./-]\d)", re.ASCII
)


def numeric_days(text: str) -> tuple[list[Days], dict[str, tuple[str, ...]]]:
    """Return the days that a text names by numbers (08.05.2023, 05/08/2023, 2023/05/08), and other names of their numbers.

    With points the day comes first, with slashes the month; if that cannot be a date, the other way round.
    """
    named_days: list[Days] = []
    called: dict[str, tuple[str, ...]] = {}
    for first, sign, second, late_year, early_year, month, day in _NUMERIC.findall(text):
        if sign:
            day, month = (first, second) if sign == "." else (second, first)
            if int(month) > 12:
                day, month = month, day
        try:
            named = date(int(late_year or early_year), int(month), int(day))
        except ValueError:
            continue
        named_days.append((named.year, named.month, named.day))
        for number, name in ((day, str(named.day)), (month, MONTHS[named.month - 1])):
            called[number] = tuple(dict.fromkeys((*called.get(number, ()), *({name} - {number}))))
    return named_days, called


def nearness(named: Days, day: date, *, before: int, after: int) -> float:
    """Return 1 on the named days, falling to 0 ``before`` days ahead of them and ``after`` days behind.

    People mostly talk about things shortly after they happened.
    """
    year, month, number = named
    best = 0.0
    for candidate_year in (year,) if year is not None else (day.year - 1, day.year, day.year + 1):
        try:
            first = date(candidate_year, month, number or 1)
            last = first if number else date(candidate_year + (month == 12), month % 12 + 1, 1) - timedelta(1)
        except (ValueError, OverflowError):
            continue
        if first <= day <= last:
            return 1.0
        gap = (day - last).days / after if day > last else (first - day).days / before
        best = max(best, 1.0 - gap)
    return best


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
