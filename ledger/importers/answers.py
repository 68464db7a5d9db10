"""The reports of an import from another program and of an export of memories."""

from __future__ import annotations

from collections.abc import Mapping

from ledger.core.call import Answer


class MoveReport(Answer, frozen=True, kw_only=True):
    """The result of an import from another program, or the expected result (``dry_run``).

    Attributes:
        path: The file or folder.
        kind: The kind of the source, given or told by its content.
        taken: The numbers of new records, by what they are, such as "turns", "responses", "statements", "changes" and "messages".
        known: The number of records that the ledger had already.
        skipped: The number of records and lines that were left out, by reason.
        unknown: The number of records of kinds that this version does not know, by the name that the source gives them.
        notes: Pairs of a place in the source and a text, the first 1,000: what was refused, and times that had to be guessed.
        note_count: The number of all notes.
        first: The earliest time of a new record, or None.
        last: The latest time of a new record, or None.
        client: The client of all that was recorded, for ``history.distrust``.
        correlation_id: The id of this run, for ``history.undo_all``; None if nothing was recorded.
        dry_run: True for an expected result.
        stopped: "limit", "timeout" or "cancelled" if the import ended before the end of the source; the same call continues.
        seconds: The seconds that the import took.
    """

    path: str
    kind: str
    taken: Mapping[str, int]
    known: int
    skipped: Mapping[str, int]
    unknown: Mapping[str, int]
    notes: tuple[tuple[str, str], ...] = ()
    note_count: int = 0
    first: str | None = None
    last: str | None = None
    client: str
    correlation_id: str | None = None
    dry_run: bool = False
    stopped: str = ""
    seconds: float = 0.0


class LeaveReport(Answer, frozen=True, kw_only=True):
    """The result of an export of memories: the file, its format, and the number of memories in it."""

    path: str
    format: str
    memories: int
