"""Times without an offset, which are read in a time zone that somebody names."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from ledger.domain.errors import RejectedError


def zone_named(name: object) -> ZoneInfo:
    """Return a time zone by its name.

    Raises:
        RejectedError: There is no such zone on this machine.
    """
    try:
        return ZoneInfo(name)  # type: ignore[arg-type]
    except (ValueError, TypeError, OSError, KeyError):
        raise RejectedError(
            f"zone is the name of a time zone such as Europe/Brussels, and {name!r:.60} is none that this machine knows"
        ) from None


def in_zone(naive: datetime, zone: tzinfo) -> tuple[datetime, str]:
    """Return a time without an offset as a time of a zone, with a sentence if a clock change makes the time doubtful.

    Of a time that the clock shows twice the first is taken. A time that the clock leaves out counts as if the clock had not yet
    changed.
    """
    time = naive.replace(tzinfo=zone, fold=0)
    if time.utcoffset() == time.replace(fold=1).utcoffset():
        return time, ""
    back = time.astimezone(UTC).astimezone(zone).replace(tzinfo=None)
    if back == naive:
        return time, f"{naive.isoformat(' ')} comes twice in {zone} at a clock change, and the first is taken"
    return time.astimezone(UTC).astimezone(zone), (
        f"{naive.isoformat(' ')} is missing in {zone} at a clock change, and {back.isoformat(' ')} is taken"
    )
