"""The calls that import from another program and export for another program: ``import_from`` and ``export_to``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from ledger.core.area import callback
from ledger.core.steps import Stopping
from ledger.domain.errors import RejectedError
from ledger.importers import leaving, moving
from ledger.importers.answers import LeaveReport, MoveReport

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.log.paths import StrPath
    from ledger.types import Cancel, Channel, Since


def import_from(
    ledger: Ledger,
    path: StrPath,
    *,
    kind: str | None = None,
    project: str | None = None,
    since: Since | None = None,
    limit: int | None = None,
    zone: str | None = None,
    channel: Channel | None = None,
    dry_run: bool = False,
    timeout: float | None = None,
    cancel: Cancel | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> MoveReport:
    """Import conversations and memories from the files of another program; importing them again adds nothing.

    The page "moving-in" lists the kinds, and what comes along of each. What the hooks recorded of a session is known.
    Nothing is learned from the turns here: ``jobs.run`` does so afterwards. Everything is recorded through the client
    "import:KIND".

    Args:
        ledger: An open ledger.
        path: A file, a folder or a ZIP archive.
        kind: The kind of the source, such as "claude-code"; None tells it by the content.
        project: The project of everything; None for the projects that the source names.
        since: Only records from then on; a record without a time is then left out.
        limit: The most new records, from 1; the same call then continues. None for all.
        zone: The time zone of times without an offset, such as "Europe/Brussels"; without a zone such a time is refused.
        channel: The channel of everything; None for the channels that the source tells: "user" for what a person typed, "agent"
            for the words of a program, "file" for what may be pasted.
        dry_run: Record nothing, and count what would be new. Each chunk of records is recorded and taken back, so that the report
            tells what rules of the ledger would refuse; only a budget of characters is not added up over the chunks.
        timeout: Seconds after which the import stops between two commits. What was recorded stays, ``stopped`` has the reason,
            and the same call continues.
        cancel: An event or a function that stops the import in the same way.
        progress: A function that is called with (bytes read, bytes).

    Raises:
        NotFoundError: There is nothing at the path.
        RejectedError: The kind is unknown or cannot be told; a time has no offset and no zone was named; or a file cannot be
            read; or the importer is distrusted.
        ConflictError: The call is inside a batch.
    """
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise RejectedError(f"limit is a number from 1, or None for all, and {limit!r:.40} is neither")
    request = moving.MoveRequest(
        path=path, kind=kind, project=project, since=since, limit=limit, zone=zone, channel=channel, dry_run=dry_run
    )
    return moving.move(ledger, request, Stopping(timeout, cancel), callback(progress))


def export_to(
    ledger: Ledger, path: StrPath, *, format: Literal["jsonl", "markdown"] = "jsonl", project: str | None = None
) -> LeaveReport:
    """Write the user's memories to a file that other programs can read, without the secret of the ledger.

    The file has what is believed, what waits for review, and what is superseded or refuted; erased memories and turns are left
    out. ``import_from`` reads both formats again.

    Args:
        ledger: An open ledger; its user is the user of the export.
        path: A file that is not there yet.
        format: "jsonl" for a JSON object on each line, "markdown" for a note.
        project: Only memories of this project; "" for memories without a project, None for all.

    Raises:
        RejectedError: There is no such format, or the file is there already.
    """
    return leaving.write(ledger, path, format, project)
