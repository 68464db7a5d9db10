"""The importer of the kind "interactions": a file for ``interactions.import_file``, which knows its own lines again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ledger.domain.errors import RejectedError
from ledger.importers.answers import MoveReport
from ledger.importers.moving import MoveRequest, Progress
from ledger.importers.records import Record
from ledger.importers.source import Source

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.core.steps import Stopping

CLIENT = "interactions"


def recognizes(source: Source) -> bool:
    """Return True for a file of lines with a prompt each, or a list of conversations with turns."""
    if source.is_folder or len(source.parts) != 1 or source.parts[0].member:
        return False
    part = source.parts[0]
    if part.name.endswith(".gz") or any(isinstance(each.get("prompt"), str) for each in source.head_objects(part)):
        return True
    head = source.head(part)
    return head.lstrip().startswith(b"[") and b'"turns"' in head and b'"speaker"' in head


def records(source: Source) -> Iterator[Record]:
    """Yield nothing: ``move`` imports the file."""
    yield from ()


def move(
    ledger: Ledger, source: Source, request: MoveRequest, stopping: Stopping, progress: Progress | None
) -> MoveReport:
    """Import a file by ``interactions.import_file``.

    Raises:
        RejectedError: ``since`` or ``limit`` was given, or the source is no single file.
    """
    if request.since is not None or request.limit is not None:
        raise RejectedError("a file of interactions is imported as a whole, without since and limit", rule="kind")
    client = "import:interactions"
    report = ledger.bind(client=client, channel=request.channel or "file").interactions.import_file(
        source.path,
        project=request.project,
        zone=request.zone,
        dry_run=request.dry_run,
        cancel=lambda: bool(stopping.why),
        progress=progress,
    )
    for number, why in (*report.errors, *report.warnings):
        source.note(f"line {number}", why)
    return MoveReport(
        path=source.path,
        kind=CLIENT,
        taken={"turns": report.captured} if report.captured else {},
        known=report.known,
        skipped={"a line that is bad": report.error_count} if report.error_count else {},
        unknown={},
        notes=tuple(source.notes),
        note_count=report.error_count + report.warning_count,
        client=client,
        correlation_id=report.correlation_id,
        dry_run=report.dry_run,
        stopped=report.stopped and stopping.why,
        seconds=report.seconds,
    )
