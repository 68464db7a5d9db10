"""The commands that install this memory for a coding agent and remove it; a person confirms the shown plan."""

from __future__ import annotations

from msgspec.structs import replace

from ledger.cli import asking
from ledger.cli.calling import ShellCall
from ledger.cli.output import Stopped, say, show_once
from ledger.domain.errors import RejectedError
from ledger.types import CodingAgent

LEARN = """\
May the start of a session ask the agent to learn from unread turns, in the background? A reading takes about 10,000 tokens \
of a small model."""


def install(
    call: ShellCall, agent: CodingAgent, *, no_learn: bool = False, dry_run: bool = False, yes: bool = False
) -> object:
    """Give a coding agent this memory: its hooks and the MCP server. Show the changes of files, and ask before writing them.

    Args:
        agent: The coding agent. Its ledger is --db, or LEDGER_PATH, or ~/.memory-ledger/memory.db.
        no_learn: Never let the start of a session ask the agent to learn from unread turns, which costs its tokens.
        dry_run: Only show the changes.
        yes: Do not ask; without a terminal, an installation needs this.
    """
    asks = agent in ("claude", "codex") and not (no_learn or dry_run or yes) and asking.is_at_a_terminal()
    learns = asking.is_confirmed(LEARN) if asks else not no_learn
    return _change_installation(call, agent, dry_run=dry_run, yes=yes, remove=False, learns=learns)


def uninstall(call: ShellCall, agent: CodingAgent, *, dry_run: bool = False, yes: bool = False) -> object:
    """Remove the entries that install wrote for a coding agent, and nothing else. The ledger stays.

    Args:
        agent: The coding agent.
        dry_run: Only show the changes.
        yes: Do not ask; without a terminal, a removal needs this.
    """
    return _change_installation(call, agent, dry_run=dry_run, yes=yes, remove=True)


def _change_installation(
    call: ShellCall, agent: CodingAgent, *, dry_run: bool, yes: bool, remove: bool, learns: bool = True
) -> object:
    from ledger.cli.views import Raw
    from ledger.doors import installing

    settings, quiet = call.settings, bool(call.options["quiet"])
    path = settings.path if "path" in settings.origins else None
    plan = installing.plan(agent, path, settings.user, remove=remove, learns=learns)
    report = plan.report
    if not call.options["json"] and not quiet:
        show_once(Raw("".join(line + "\n" for line in installing.lines(report))))
    if plan.files and not dry_run:
        if not yes and not asking.is_at_a_terminal():
            raise RejectedError("without a terminal this needs --yes; --dry-run only shows what would be written")
        if not yes and not asking.is_confirmed("Take this away?" if remove else "Write this?"):
            raise Stopped("nothing was written")
        installing.apply(plan)
        report = replace(report, written=True)
        say(f"done; {report.hint}", quiet=quiet)
    return report if call.options["json"] else None
