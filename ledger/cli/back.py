"""The commands of the way back: undo and redo, distrust and trust a source, and what if something had never been."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.cli.frame import PAST, WRITES, Exclusive, command, listed
from ledger.domain.errors import RejectedError

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.types import WriteOptions

BACK = "Take back"

Target = Annotated[str, typer.Argument(help="A command's, event's or correlation's id, or a position in the log.")]
OfTarget = Annotated[
    str | None, typer.Argument(help="A command's, event's or correlation's id, or a position; or name a group.")
]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why, in your words; it is kept.")]
Source = Annotated[str, typer.Argument(help="An interaction's, document's or session's id, or with --kind a name.")]
Kind = Annotated[str | None, typer.Option("--kind", help="actor, client, agent, session, interaction or document.")]
Since = Annotated[str | None, typer.Option("--since", help="Only from this position or time on.")]
Until = Annotated[str | None, typer.Option("--until", help="Only before this position or time; later writes count.")]
Cascade = Annotated[bool, typer.Option("--cascade", help="Take what was built on it along.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only list what it would concern.")]


def add_to(app: typer.Typer) -> None:
    for function in (undo, redo):
        command(app, BACK, view="undo", options=WRITES)(function)
    for act in (distrust, trust):
        command(app, BACK, view="distrust", options=WRITES)(act)
    command(app, BACK, view="distrusted", past=PAST)(distrusted)
    command(app, BACK, view="what_if")(what_if)


def undo(
    ledger: Ledger,
    by: WriteOptions,
    target: OfTarget = None,
    reason: Reason = "",
    session: Annotated[str | None, typer.Option("--of-session", help="Everything done in this session.")] = None,
    command: Annotated[str | None, typer.Option("--of-command", help="Only this verb, like extract.")] = None,
    cascade: Cascade = False,
    exclusive: Exclusive = False,
    dry_run: DryRun = False,
) -> Any:
    """Void a command, as if it had not been given, or a group: an import, all that a session extracted."""
    options: dict[str, Any] = {"cascade": cascade, "exclusive": exclusive, "dry_run": dry_run, "reason": reason, **by}
    if (target is None) == (session is None and command is None):
        raise RejectedError("an undo names a command, or else a group by --of-session and --of-command, and not both")
    if target is not None:
        return ledger.undo(_target(target), **options)
    if "correlation_id" in by:
        raise typer.BadParameter("a group is undone under no correlation id; one that is to be undone is the TARGET")
    return ledger.history.undo_all(session=session, command=command, **options)


def redo(ledger: Ledger, by: WriteOptions, target: Target, reason: Reason = "", exclusive: Exclusive = False) -> Any:
    """Put back what an undo took out."""
    return ledger.redo(_target(target), exclusive=exclusive, reason=reason, **by)


def distrust(
    ledger: Ledger,
    by: WriteOptions,
    source: Source,
    kind: Kind = None,
    since: Since = None,
    until: Until = None,
    reason: Reason = "",
    exclusive: Exclusive = False,
    dry_run: DryRun = False,
) -> Any:
    """Void everything an origin wrote or caused, and refuse its future writes."""
    how: dict[str, Any] = {"kind": kind, "since": _moment(since), "until": _moment(until), "exclusive": exclusive}
    return ledger.history.distrust(source, dry_run=dry_run, reason=reason, **how, **by)


def trust(
    ledger: Ledger,
    by: WriteOptions,
    source: Source,
    kind: Kind = None,
    reason: Reason = "",
    cascade: Cascade = False,
    exclusive: Exclusive = False,
    dry_run: DryRun = False,
) -> Any:
    """Put back what a distrust took out; SOURCE may also be the distrust's command id."""
    how: dict[str, Any] = {"kind": kind, "cascade": cascade, "exclusive": exclusive, "dry_run": dry_run}
    return ledger.history.trust(source, reason=reason, **how, **by)


def distrusted(ledger: Ledger) -> Any:
    """List the origins that are distrusted."""
    return listed(ledger.history.distrusted)


def what_if(
    ledger: Ledger,
    without: Annotated[
        str | None,
        typer.Option("--without", help="A command, event, position or correlation; or a source's id or name."),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="What --without names, if a source: actor, client, …")
    ] = None,
    since: Since = None,
    until: Until = None,
    gain: Annotated[float | None, typer.Option("--gain", help="What a confirmation would have added.")] = None,
    echo_gain: Annotated[float | None, typer.Option("--echo-gain", help="What repeating a shown memory would.")] = None,
    max_matches: Annotated[
        int | None, typer.Option("--matches-a-turn", help="How many memories one turn would have confirmed.")
    ] = None,
) -> Any:
    """Show what would be believed without something, or under another confidence policy; nothing is written."""
    doubts = {"gain": gain, "echo_gain": echo_gain, "max_matches": max_matches}
    policy = {name: value for name, value in doubts.items() if value is not None}
    what: Any = None if without is None else {kind: without} if kind is not None else _target(without)
    return ledger.history.what_if(without=what, since=_moment(since), until=_moment(until), policy=policy or None)


def _moment(given: str | None) -> str | int | None:
    return _target(given) if given is not None else None


def _target(given: str) -> str | int:
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else given
