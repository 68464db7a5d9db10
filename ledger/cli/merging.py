"""The commands on near duplicates and contradictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ledger.cli.frame import PAST, WRITES, command

if TYPE_CHECKING:
    from ledger.core import Core as Ledger
    from ledger.memory_writes import By, Whose

TOGETHER = "Near duplicates and contradictions"

Project = Annotated[str | None, typer.Option("--project", "-p", help='A name or alias; "" for what is of none.')]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why, in your words; it is kept.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", help="At most so many.")]
ConflictId = Annotated[str, typer.Argument(help="A conflict's id (k_…), or an unambiguous beginning of it.")]


def add_to(app: typer.Typer) -> None:
    told = tuple(each for each in WRITES if each != "key")
    command(app, TOGETHER, view="merge_showing.merges", past=PAST)(merges)
    command(app, TOGETHER, view="merge_showing.proposed", options=told)(find_merges)
    command(app, TOGETHER, view="changed", options=WRITES)(merge)
    command(app, TOGETHER, view="merge_showing.merge", options=WRITES)(reject_merge)
    command(app, TOGETHER, view="merge_showing.conflicts", past=PAST)(conflicts)
    command(app, TOGETHER, view="merge_showing.conflict", past=PAST)(conflict)
    command(app, TOGETHER, view="merge_showing.found", options=told)(find_conflicts)
    command(app, TOGETHER, view="merge_showing.conflict", options=WRITES)(resolve)


def merges(
    ledger: Ledger,
    status: Annotated[list[str], typer.Option("--status", help="proposed, obsolete, merged, rejected or all.")] = [  # noqa: B006
        "proposed"
    ],
    project: Project = None,
    limit: Limit = None,
) -> Any:
    """The merges that wait for a decision, newest first."""
    return ledger.merges(status, project=project, limit=limit)


def find_merges(
    ledger: Ledger,
    by: By,
    project: Project = None,
    threshold: Annotated[float, typer.Option("--threshold", help="The least similarity of two, from 0.5 to 1.")] = 0.85,
) -> Any:
    """Propose merges of memories that say nearly the same; nothing else changes."""
    return ledger.find_merges(project=project, threshold=threshold, **cast("Whose", by))


def merge(
    ledger: Ledger,
    by: By,
    memories: Annotated[list[str], typer.Argument(help="A proposal's id (g_…), or the ids of two or more memories.")],
    content: Annotated[str | None, typer.Option("--content", help="How the one memory reads.")] = None,
    reason: Reason = "",
) -> Any:
    """Make one memory of several, which it supersedes."""
    asked = memories[0] if len(memories) == 1 and memories[0].startswith("g_") else memories
    return ledger.merge(asked, content, reason, **by)


def reject_merge(
    ledger: Ledger,
    by: By,
    id: Annotated[str, typer.Argument(help="A proposal's id (g_…), or an unambiguous beginning of it.")],
    reason: Reason = "",
) -> Any:
    """Turn a proposed merge down for good."""
    return ledger.reject_merge(id, reason, **by)


def conflicts(
    ledger: Ledger,
    status: Annotated[list[str], typer.Option("--status", help="open, resolved, lapsed or all.")] = ["open"],  # noqa: B006
    project: Project = None,
    limit: Limit = None,
) -> Any:
    """The contradictions among active memories, newest first."""
    return ledger.conflicts(status, project=project, limit=limit)


def conflict(ledger: Ledger, id: ConflictId) -> Any:
    """One contradiction with its memories."""
    return ledger.conflict(id)


def find_conflicts(ledger: Ledger, by: By, project: Project = None) -> Any:
    """Look for contradictions and record those that are new; nothing else changes."""
    return ledger.find_conflicts(project=project, **cast("Whose", by))


def resolve(
    ledger: Ledger,
    by: By,
    id: ConflictId,
    keep: Annotated[str | None, typer.Option("--keep", help="The memory that is so; it supersedes the others.")] = None,
    both: Annotated[bool, typer.Option("--both", help="They can both be so.")] = False,
    reason: Reason = "",
) -> Any:
    """Decide a contradiction: --keep MEMORY, or --both."""
    return ledger.resolve(id, keep, both=both, reason=reason, **by)
