"""The commands of the guards: what is in quarantine, and the scan of everything stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.cli.frame import PAST, WRITES, command, listed
from ledger.cli.writes import MEMORIES, Reason

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.maintenance.transfer import Progress
    from ledger.types import WriteOptions

GUARDS = "Guards"
What = Annotated[str, typer.Argument(help="An id (m_…, i_…, c_…, y_…), or the position of a text.")]


def add_to(app: typer.Typer) -> None:
    for function in (quarantine, release):
        command(app, MEMORIES, view="guard_showing.held", options=WRITES)(function)
    command(app, GUARDS, view="guard_showing.listed", past=PAST)(quarantined)
    command(app, GUARDS, view="guard_showing.rescanned", writes=True)(rescan)


def quarantine(ledger: Ledger, by: WriteOptions, id: What, reason: Reason = "") -> Any:
    """Keep a memory or a text out of recall, reinforcement and extraction until release."""
    return ledger.guards.quarantine(id, reason=reason, **by)


def release(ledger: Ledger, by: WriteOptions, id: What, reason: Reason = "") -> Any:
    """End the quarantine of a memory or a text; no later scan begins it again."""
    return ledger.guards.release(id, reason=reason, **by)


def quarantined(
    ledger: Ledger, limit: Annotated[int, typer.Option("--limit", help="At most so many, up to 500.")] = 50
) -> Any:
    """What is kept out of recall, newest first: what a scanner found, or nothing where somebody put it there."""
    return listed(ledger.guards.quarantined, limit)


def rescan(
    ledger: Ledger,
    progress: Progress | None,
    since: Annotated[int | None, typer.Option("--since", metavar="POSITION", help="Only what came after it.")] = None,
) -> Any:
    """Run the scanners of today over everything stored, and report secrets that were recorded before they were known."""
    return ledger.guards.scan(since=None if since is None else since + 1, progress=progress)
