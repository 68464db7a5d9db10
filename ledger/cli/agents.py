"""The commands that give a coding agent this memory, and take it away: the plan is shown, and a person agrees."""

from __future__ import annotations

from msgspec.structs import replace

from ledger.cli import asking
from ledger.cli.calling import ShellCall
from ledger.cli.output import Stopped, say, show_once
from ledger.domain.errors import RejectedError
from ledger.types import CodingAgent


def install(call: ShellCall, agent: CodingAgent, *, dry_run: bool = False, yes: bool = False) -> object:
    """Give a coding agent this memory: its hooks, and the MCP server. Show what would be written and where, and ask first.

    Args:
        agent: The coding agent. Its ledger is --db, or LEDGER_PATH, or ~/.memory-ledger/memory.db.
        dry_run: Only show what would be written.
        yes: Do not ask; without a terminal, an installation needs this.
    """
    return _installed(call, agent, dry_run=dry_run, yes=yes, remove=False)


def uninstall(call: ShellCall, agent: CodingAgent, *, dry_run: bool = False, yes: bool = False) -> object:
    """Take away what install wrote for a coding agent, and nothing else. The ledger stays.

    Args:
        agent: The coding agent.
        dry_run: Only show what would be taken away.
        yes: Do not ask; without a terminal, a removal needs this.
    """
    return _installed(call, agent, dry_run=dry_run, yes=yes, remove=True)


def _installed(call: ShellCall, agent: CodingAgent, *, dry_run: bool, yes: bool, remove: bool) -> object:
    from ledger.cli.views import Raw
    from ledger.doors import installing

    settings, quiet = call.settings, bool(call.around["quiet"])
    named = settings.path if "path" in settings.origins else None
    planned = installing.plan(agent, named, settings.user, remove=remove)
    report = planned.report
    if not call.around["json"] and not quiet:
        show_once(Raw("".join(line + "\n" for line in installing.lines(report))))
    if planned.files and not dry_run:
        if not yes and not asking.is_at_a_terminal():
            raise RejectedError("without a terminal this needs --yes; --dry-run only shows what would be written")
        if not yes and not asking.is_confirmed("Take this away?" if remove else "Write this?"):
            raise Stopped("nothing was written")
        installing.apply(planned)
        report = replace(report, written=True)
        say(f"done; {report.hint}", quiet=quiet)
    return report if call.around["json"] else None
