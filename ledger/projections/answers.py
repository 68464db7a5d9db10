"""What is said of projections of one's own."""

from __future__ import annotations

from ledger.engine.answer import Answer


class OwnProjection(Answer, frozen=True, kw_only=True):
    """Where a projection of your own stands: it has folded the log up to ``position``, and ``behind`` events are missing.

    A ``suspended_at`` says at which position its fold raised, and ``error`` what; ``is_open`` whether this ledger was opened with
    its class (in the version of the file). ``tables`` are its tables in the file with their numbers of rows.
    """

    name: str
    version: int
    position: int
    behind: int
    is_open: bool
    suspended_at: int | None
    error: str | None
    tables: dict[str, int]
