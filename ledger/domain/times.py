"""Times as the log stores them: ISO 8601 in UTC, always with microseconds and a ``Z``, so that text order is time order."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from ledger.domain.errors import Rejected, StorageError

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_OFFSET_WITHOUT_COLON = re.compile(r"([+-]\d{2})(\d{2})$")


def fixed(moment: datetime) -> str:
    """A moment as fixed-width UTC text (``2026-11-21T09:30:00.000000Z``); one without an offset is taken as UTC."""
    try:
        utc = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (OverflowError, ValueError):
        raise Rejected(f"the time {moment.isoformat()} lies outside the years 1 to 9999 in UTC") from None
    return utc.isoformat(timespec="microseconds")[:26] + "Z"


def parse(name: str, value: object) -> datetime:
    """Any ISO form a person may write, as an aware datetime: ``T`` or a space, ``Z``, an offset, a date alone."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, str):
        raise Rejected(f"{name} must be a time in ISO 8601 or a datetime, not {type(value).__name__}")
    try:
        return _from_text(value)
    except ValueError:
        raise Rejected(
            f"{name} must be a time in ISO 8601, like 2026-11-21T09:30:00Z, and {value!r:.60} is not"
        ) from None


@lru_cache(maxsize=1024)  # a line of an import is looked at three times: checked, recorded, folded
def _from_text(value: str) -> datetime:
    moment = datetime.fromisoformat(_colon(value))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _colon(value: str) -> str:
    return _OFFSET_WITHOUT_COLON.sub(r"\1:\2", value.strip()) if ":" in value else value.strip()


def moment(name: str, value: object) -> str:
    """``parse`` and ``fixed`` in one: the stored form of a time that somebody gave."""
    return fixed(parse(name, value))


def instant(name: str, value: object) -> str:
    """``moment`` for a question about then, which in another time zone would quietly be another question.

    So a time without an offset is refused; a date alone is where it begins in UTC.
    """
    found = moment(name, value)
    if _is_naive(value):
        raise Rejected(
            f"{name} says no offset from UTC: {value!s:.60}; write 2026-11-21T09:30:00Z or 2026-11-21T09:30:00+01:00, "
            "a date alone, or give a datetime with a tzinfo"
        )
    return found


def is_time(text: str) -> bool:
    """Whether a text is a time or a date in ISO 8601, with an offset or without."""
    try:
        _from_text(text)
        return True
    except ValueError:
        return False


def _is_naive(value: object) -> bool:
    if isinstance(value, datetime):
        return value.tzinfo is None
    if not isinstance(value, str):
        return False
    try:
        date.fromisoformat(value.strip())
        return False
    except ValueError:
        return datetime.fromisoformat(_colon(value)).tzinfo is None


def with_offset(name: str, value: object) -> str:
    """The stored form of a time of the world, which keeps the offset it was given with."""
    given = parse(name, value)
    fixed(given)
    return given.isoformat(timespec="microseconds").replace("+00:00", "Z")


def until(name: str, value: object) -> str:
    """The end of a half-open interval; a date alone means through that day, so it ends when the next one begins, in UTC."""
    if is_date(value):
        day = parse(name, value)
        try:
            return fixed(day + timedelta(days=1))
        except OverflowError:
            raise Rejected(f"{name} lies beyond the year 9999") from None
    return moment(name, value)


def is_date(value: object) -> bool:
    if isinstance(value, str):
        return _DATE.fullmatch(value.strip()) is not None
    return isinstance(value, date) and not isinstance(value, datetime)


def days_between(start: str, end: str) -> int:
    """Whole days from one stored time to another; never negative, for a clock may jump back."""
    try:
        return max(0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).days)
    except (TypeError, ValueError) as error:  # what was stored is a time
        raise StorageError(
            f"a row of the projections is damaged ({type(error).__name__}): rebuild() folds it again"
        ) from error
