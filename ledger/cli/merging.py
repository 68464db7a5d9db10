"""The commands on near duplicates and contradictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.cli.frame import PAST, WRITES, choices, command, listed
from ledger.domain.errors import RejectedError

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.types import WriteOptions

TOGETHER = "Near duplicates and contradictions"

Project = Annotated[str | None, typer.Option("--project", "-p", help='A name or alias; "" for what is of none.')]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why, in your words; it is kept.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", help="At most so many.")]
ConflictId = Annotated[str, typer.Argument(help="A conflict's id (k_…), or an unambiguous beginning of it.")]


def add_to(app: typer.Typer) -> None:
    writing = tuple(each for each in WRITES if each != "key")
    command(app, TOGETHER, view="merge_showing.merges", past=PAST)(merges)
    command(app, TOGETHER, view="merge_showing.proposed", options=writing)(find_merges)
    command(app, TOGETHER, view="changed", options=WRITES)(merge)
    command(app, TOGETHER, view="merge_showing.merge", options=WRITES)(reject_merge)
    command(app, TOGETHER, view="merge_showing.conflicts", past=PAST)(conflicts)
    command(app, TOGETHER, view="merge_showing.conflict", past=PAST)(conflict)
    command(app, TOGETHER, view="merge_showing.found", options=writing)(find_conflicts)
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
    return listed(ledger.merges.list, limit, statuses=choices(status), project=project)


def find_merges(
    ledger: Ledger,
    by: WriteOptions,
    project: Project = None,
    threshold: Annotated[float, typer.Option("--threshold", help="The least similarity of two, from 0.5 to 1.")] = 0.85,
) -> Any:
    """Propose merges of memories that say nearly the same; nothing else changes."""
    return ledger.merges.find(project=project, threshold=threshold, **by)


def merge(
    ledger: Ledger,
    by: WriteOptions,
    memories: Annotated[list[str], typer.Argument(help="A proposal's id (g_…), or the ids of two or more memories.")],
    content: Annotated[str | None, typer.Option("--content", help="How the one memory reads.")] = None,
    reason: Reason = "",
) -> Any:
    """Make one memory of several, which it supersedes."""
    if len(memories) == 1 and memories[0].startswith("g_"):
        return ledger.merges.apply(memories[0], content=content, reason=reason, **by)
    return ledger.merges.combine(memories, content=content, reason=reason, **by)


def reject_merge(
    ledger: Ledger,
    by: WriteOptions,
    id: Annotated[str, typer.Argument(help="A proposal's id (g_…), or an unambiguous beginning of it.")],
    reason: Reason = "",
) -> Any:
    """Turn a proposed merge down for good."""
    return ledger.merges.reject(id, reason=reason, **by)


def conflicts(
    ledger: Ledger,
    status: Annotated[list[str], typer.Option("--status", help="open, resolved, lapsed or all.")] = ["open"],  # noqa: B006
    project: Project = None,
    limit: Limit = None,
) -> Any:
    """The contradictions among active memories, newest first."""
    return listed(ledger.conflicts.list, limit, statuses=choices(status), project=project)


def conflict(ledger: Ledger, id: ConflictId) -> Any:
    """One contradiction with its memories."""
    return ledger.conflicts.get(id)


def find_conflicts(ledger: Ledger, by: WriteOptions, project: Project = None) -> Any:
    """Look for contradictions and record those that are new; nothing else changes."""
    return ledger.conflicts.find(project=project, **by)


def resolve(
    ledger: Ledger,
    by: WriteOptions,
    id: ConflictId,
    keep: Annotated[str | None, typer.Option("--keep", help="The memory that is so; it supersedes the others.")] = None,
    both: Annotated[bool, typer.Option("--both", help="They can both be so.")] = False,
    reason: Reason = "",
) -> Any:
    """Decide a contradiction: --keep MEMORY, or --both."""
    if both == (keep is not None):
        raise RejectedError("a resolution is --keep MEMORY, or --both, and one of the two")
    if keep is None:
        return ledger.conflicts.accept(id, reason=reason, **by)
    return ledger.conflicts.resolve(id, keep=keep, reason=reason, **by)
