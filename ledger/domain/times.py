"""Times as the log stores them: ISO 8601 in UTC, always with microseconds and a ``Z``, so that text order is time order."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from ledger.domain.errors import RejectedError

_OFFSET_WITHOUT_COLON = re.compile(r"([+-]\d{2})(\d{2})$")
_LOWER_Z = re.compile(r"(?<=\d)z$")
_MONTH = re.compile(r"\d{4}-\d{2}", re.ASCII)
_WEEK = re.compile(r"\d{4}-?W\d{2}", re.ASCII)
_ORDINAL = re.compile(r"(\d{4})-?(\d{3})(?=[Tt ]|$)", re.ASCII)
_END_OF_DAY = re.compile(r"(?<=[Tt ])24(?=(:?00){0,2}([.,]0+)?(Z|[+-][\d:]+)?$)", re.ASCII)
_DURATION = re.compile(r"\s*(\d{1,9})(min|h|d|w|mo|m)\s*", re.ASCII)
_MINUTES = {"min": 1, "h": 60, "d": 1_440, "w": 10_080, "mo": 43_200}  # a month has 30 days
_DAYS = {"day": 1, "week": 7, "month": 31}  # the longest month; until() cuts the rest


def fixed(moment: datetime) -> str:
    """Return a moment with an offset as fixed-width UTC text (``2026-11-21T09:30:00.000000Z``)."""
    try:
        utc = moment.astimezone(UTC)
    except (OverflowError, ValueError):
        raise RejectedError(f"the time {moment.isoformat()} lies outside the years 1 to 9999 in UTC") from None
    return utc.isoformat(timespec="microseconds")[:26] + "Z"


def parse(name: str, value: object) -> datetime:
    """Return any ISO form of a time as an aware datetime: ``T`` or a space, ``Z``, an offset, a date alone.

    Allowed are forms with dashes and colons or without (20260102T0930Z), a month, week or day of the year (2026-01, 2026-W05,
    2026-002), and 24:00. A date, month or week alone stands for its beginning in UTC. A time without an offset is refused,
    because read in another time zone it would silently be another time.
    """
    if isinstance(value, datetime):
        moment, alone = value, ""
    elif isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    elif isinstance(value, str):
        try:
            moment, alone = _read(value)
        except ValueError:
            raise RejectedError(
                f"{name} must be a time in ISO 8601 like 2026-11-21T09:30:00Z or a date like 2026-11-21, "
                f"and {value!r:.60} is not"
            ) from None
    else:
        raise RejectedError(f"{name} must be a time in ISO 8601, a datetime or a date, not {type(value).__name__}")
    if moment.utcoffset() is not None:
        return moment
    if not alone:
        plain = moment.isoformat()
        raise RejectedError(
            f"{name} says no offset from UTC: {value!s:.60}; write {plain}Z or {plain}+01:00, a date alone, or give a "
            "datetime with a tzinfo"
        )
    return moment.replace(tzinfo=UTC)


@lru_cache(maxsize=1024)  # a line of an import is read three times: checked, recorded, folded
def _read(value: str) -> tuple[datetime, str]:
    """Return the moment of a text, with an offset or without, and its unit if it is a date alone: "day", "week", "month".

    ``fromisoformat`` reads neither days of the year nor months, no 24:00 and no z.
    """
    text = _LOWER_Z.sub("Z", value.strip())
    if _MONTH.fullmatch(text):
        return datetime.fromisoformat(f"{text}-01"), "month"
    if ordinal := _ORDINAL.match(text):
        text = _day_of_year(*map(int, ordinal.groups())).isoformat() + text[ordinal.end() :]
    text, ends_it = _END_OF_DAY.subn("00", text)
    text = _OFFSET_WITHOUT_COLON.sub(r"\1:\2", text) if ":" in text else text
    moment = datetime.fromisoformat(text)
    try:
        return moment + timedelta(days=ends_it), _date_alone(text)
    except OverflowError:
        raise ValueError(f"{text} ends the last day there is") from None


def _day_of_year(year: int, number: int) -> date:
    first = date(year, 1, 1)
    if not 1 <= number <= (date(year, 12, 31) - first).days + 1:
        raise ValueError(f"{year} has no day {number}")
    return first + timedelta(days=number - 1)


def _date_alone(text: str) -> str:
    try:
        date.fromisoformat(text)
    except ValueError:
        return ""
    return "week" if _WEEK.fullmatch(text) else "day"


def moment(name: str, value: object) -> str:
    """Return the stored form of a time that a caller gave: ``parse`` and ``fixed`` in one."""
    return fixed(parse(name, value))


def since(name: str, value: object, now: str) -> str:
    """Return the stored form of a time, or of a duration back from now: "30min", "12h", "7d", "2w", "3mo" (of 30 days each)."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return moment(name, value)
    if not int(match[1]):
        raise RejectedError(
            f"{name} is a duration back from now, and {value!s:.60} has no length: a duration starts at 1"
        )
    if match[2] == "m":
        raise RejectedError(
            f"{name} is {value!s:.60}, and m may mean minutes or months: write {match[1]}min or {match[1]}mo"
        )
    try:
        return fixed(parse("now", now) - timedelta(minutes=int(match[1]) * _MINUTES[match[2]]))
    except OverflowError:
        raise RejectedError(f"{name} lies before the year 1: {value!s:.60}") from None


def validity(valid_from: object, valid_to: object) -> tuple[str | None, str | None]:
    """Return the stored bounds of the time in which a statement is true in the world; None for an open bound."""
    start = moment("valid_from", valid_from) if valid_from is not None else None
    end = until("valid_to", valid_to) if valid_to is not None else None
    if start is not None and end is not None and end <= start:
        raise RejectedError(f"a memory's validity must end after it begins: {start} to {end} is empty")
    return start, end


def is_time(text: str) -> bool:
    """Return True if a text is a time or a date in ISO 8601, with an offset or without."""
    try:
        _read(text)
        return True
    except ValueError:
        return False


def or_utc(text: str) -> str:
    """Return a time in ISO 8601 with its offset, or in UTC if it has none; raise ``ValueError`` for any other text."""
    time = _read(text)[0]
    return (time if time.utcoffset() is not None else time.replace(tzinfo=UTC)).isoformat()


def with_offset(name: str, value: object) -> str:
    """Return the stored form of a time of the world, which keeps its offset."""
    time = parse(name, value)
    fixed(time)
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def until(name: str, value: object) -> str:
    """Return the end of a half-open interval. A date, week or month alone includes its last day, in UTC."""
    if not (alone := _alone(value)):
        return moment(name, value)
    first = parse(name, value)
    try:
        after = first + timedelta(days=_DAYS[alone])
    except OverflowError:
        raise RejectedError(f"{name} lies beyond the year 9999") from None
    return fixed(after.replace(day=1) if alone == "month" else after)


def _alone(value: object) -> str:
    if isinstance(value, str):
        try:
            return _read(value)[1]
        except ValueError:
            return ""
    return "day" if isinstance(value, date) and not isinstance(value, datetime) else ""


def day_of(time: str) -> date | None:
    """Return the day of a stored time."""
    try:
        return date.fromisoformat(time[:10])
    except ValueError:
        return None


def days_between(start: str, end: str) -> int:
    """Return the whole days from one stored time to another. The number is never negative, though a clock may jump back."""
    return max(0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).days)
