"""The reading of dates in imported files: in a format that the caller names, or in a form that has only one meaning.

A date with day and month as numbers ("03.04.2023") has two meanings, so it is read only in a format that the caller names.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import product

from ledger.domain import times
from ledger.domain.errors import RejectedError
from ledger.domain.text import check_text
from ledger.domain.zones import in_zone, zone_named

EXAMPLE = "%d.%m.%Y, %H:%M:%S"
_YEARS = ("%Y", "%y", "%G", "%c", "%x", "%D", "%F")
_SAMPLE = datetime(2023, 12, 29, 22, 42, 4)
_YEAR_FIRST = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})(?=[T ]|$)", re.ASCII)
_UNIX = re.compile(r"1\d{9}(\.\d{1,9})?|1\d{12}", re.ASCII)
_OFFSET = re.compile(r"(Z|[+-]\d\d(:?\d\d)?|\b(UTC|GMT))$", re.ASCII | re.IGNORECASE)
_DAY = re.compile(r"\d{4}-\d\d(-\d\d)?", re.ASCII)  # a date alone is a day in UTC, and no time
_MILLISECONDS = 10**11  # a number from here on means milliseconds; as seconds it would be in the year 5138
_UNIX_FROM, _UNIX_TO = 10**8, 2 * 10**12
_WITH_NAMES = tuple(
    " ".join(part for part in (weekday, date, clock, zone) if part)
    for weekday, date, clock, zone in product(
        ("", "%a", "%A"),
        ("%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y"),
        ("", "%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p"),
        ("", "%z"),
    )
    if clock or not zone
)
_FORMS = (*_WITH_NAMES, "%I:%M %p on %d %B %Y", "%B-%d-%Y", "%a %b %d %H:%M:%S %Y")


class DateReader:
    """The reading of the times of a file, in a format and a zone that the caller names.

    Attributes:
        dates: The format of times, or None for the forms that have only one meaning.
        doubt: A sentence about the last time that was read, if a clock change makes it doubtful; else "".
    """

    def __init__(self, dates: object = None, zone: object = None) -> None:
        self.dates: str | None = checked(dates)
        self._zone = None if zone is None else zone_named(zone)
        self.doubt: str = ""

    @property
    def is_named(self) -> bool:
        """Return True if the caller named a format or a zone."""
        return self.dates is not None or self._zone is not None

    def read(self, value: object) -> str | None:
        """Return a time as ISO 8601, in the zone if it has no offset, or without a zone in UTC; None if it cannot be read."""
        self.doubt = ""
        found = read(value, self.dates)
        if found is None or self._zone is None or isinstance(value, int | float) or _has_offset(str(value), self.dates):
            return found
        time, self.doubt = in_zone(datetime.fromisoformat(found).replace(tzinfo=None), self._zone)
        return time.isoformat()


def _has_offset(text: str, dates: str | None) -> bool:
    if dates is not None:
        return "%z" in dates or "%Z" in dates
    return bool(_UNIX.fullmatch(text.strip()) or _OFFSET.search(text.strip()) or _DAY.fullmatch(text.strip()))


def checked(dates: object) -> str | None:
    """Return a checked format of dates; None stays None.

    Raises:
        RejectedError: The format cannot be read by ``datetime.strptime``, or has no day, month or year.
    """
    if dates is None:
        return None
    with suppress(ValueError, RejectedError):
        text = check_text("dates", dates)
        has_year = any(sign in text for sign in _YEARS)  # without one, Python 3.13 warns
        if has_year and datetime.strptime(_SAMPLE.strftime(text), text).date() == _SAMPLE.date():
            return text
    raise RejectedError(
        f"dates must be a format of datetime.strptime with day, month and year, such as {EXAMPLE!r}, and {dates!r:.60} is not"
    )


@lru_cache(maxsize=1_000)  # the turns of a session often have the same time, and the forms are slow to parse
def read(value: object, dates: str | None) -> str | None:
    """Return a date as ISO 8601, in UTC if the text has no offset; None if the date cannot be read without guessing.

    Args:
        value: A text, or a number of seconds or milliseconds since 1970.
        dates: The format of texts. None accepts ISO 8601, dates with the year first or with the name of the month, and a number
            of seconds or milliseconds as text.
    """
    if isinstance(value, int | float):
        return _since_1970(value)
    text = str(value).strip()
    if dates is not None:
        with suppress(ValueError):
            return _in_utc(datetime.strptime(text, dates))
        return None
    if _UNIX.fullmatch(text):
        return _since_1970(float(text) if "." in text else int(text))
    plain = re.sub(r",\s*", " ", text)
    year_first = _YEAR_FIRST.sub(lambda date: f"{date[1]}-{date[2]:0>2}-{date[3]:0>2}", plain)
    with suppress(ValueError):
        return times.or_utc(year_first)
    for form in _FORMS if any(map(str.isalpha, plain)) else ():
        with suppress(ValueError):
            return _in_utc(datetime.strptime(plain, form))
    return None


def unreadable(name: str, value: object, dates: str | None) -> str:
    """Return the error message for a date that cannot be read."""
    if dates is not None:
        return f"{name} {value!r:.60} is not in the format dates={dates!r:.60}"
    return f"{name} {value!r:.60} cannot be read without guessing; name its format, such as dates={EXAMPLE!r}"


def _since_1970(number: int | float) -> str | None:
    if isinstance(number, bool) or not _UNIX_FROM <= number < _UNIX_TO:
        return None
    seconds, milliseconds = divmod(number, 1_000) if number >= _MILLISECONDS else (number, 0)
    return datetime.fromtimestamp(seconds + milliseconds / 1_000, UTC).isoformat()


def _in_utc(moment: datetime) -> str:
    return (moment if moment.utcoffset() is not None else moment.replace(tzinfo=UTC)).isoformat()
