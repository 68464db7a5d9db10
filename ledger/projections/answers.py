"""Answers about projections that users define."""

from __future__ import annotations

from ledger.core.call import Answer


class OwnProjection(Answer, frozen=True, kw_only=True):
    """The state of a projection of your own.

    The projection has folded the log up to ``position``; ``behind`` events are missing. ``suspended_at`` is the
    position at which its fold raised, and ``error`` is that error. ``is_open`` says that this ledger was opened with
    the projection's class, in the version of the file. ``tables`` are its tables in the file, each with its number of
    rows.
    """

    name: str
    version: int
    position: int
    behind: int
    is_open: bool
    suspended_at: int | None
    error: str | None
    tables: dict[str, int]
