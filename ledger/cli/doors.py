"""The commands of the doors: the MCP server, tokens for a network, and the installation into coding agents."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

from msgspec.structs import replace

from ledger.cli import output
from ledger.cli.calling import ShellCall
from ledger.cli.output import Stopped, Usage, say, show_once
from ledger.domain.errors import RejectedError
from ledger.types import CodingAgent


def mcp(
    call: ShellCall,
    *,
    project: str | None = None,
    read_only: bool = False,
    reviewer: bool = False,
    http: list[str] | None = None,
    without_token: bool = False,
) -> object:
    """Serve the memory to agents over the Model Context Protocol, on standard input and output or over HTTP.

    Args:
        project: Where new memories belong; over stdio the name of the working directory if left out, "" for no project.
        read_only: Offer no tool that writes.
        reviewer: Also offer promote, reject, undo, erase and distrust, each after a question to the person.
        http: Listen on HOST:PORT (127.0.0.1:8765 if left out) for requests with a token, instead of standard input.
        without_token: Serve everybody on this machine as --user; only with --http on a loopback address.
    """
    try:
        from ledger.doors.mcp.serving import address, serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "uvicorn", "starlette"):
            raise
        raise RejectedError(
            f'the MCP server needs the package {error.name}: pip install "belief-ledger[mcp]" installs it', rule="extra"
        ) from None
    settings = call.settings
    if project is None:
        project = (
            settings.project if settings.project is not None or http is not None else os.path.basename(os.getcwd())
        )
    if http is not None:
        host, port = address("".join(http))
        say(f"listening on http://{host}:{port}/mcp", quiet=call.around["quiet"])
    serve(
        settings,
        project=project or None,
        read_only=read_only,
        reviewer=reviewer,
        http=None if http is None else "".join(http),
        without_token=without_token,
    )
    return None


def token(call: ShellCall, action: Literal["make", "list", "revoke"], name: str | None = None) -> object:
    """Make, list or revoke tokens, which open one user's memory to a program over HTTP.

    Args:
        action: make prints a token for --user once; list shows names and users; revoke ends a token at once.
        name: The name of the token, such as the program that sends it.
    """
    from ledger.doors.tokens import TokenFile

    file = TokenFile(call.settings.path)
    if action == "list":
        if name is not None:
            raise Usage("list takes no name")
        return [{"name": info.name, "user": info.user, "made_at": info.made_at} for info in file.list()]
    if name is None:
        raise Usage(f"{action} needs the name of a token")
    if action == "revoke":
        revoked = file.revoke(name)
        return {"revoked": revoked.name, "user": revoked.user}
    if not call.settings.names_user:
        raise Usage("make needs the user whose memory the token opens: --user (or LEDGER_USER)")
    made = file.make(name, call.settings.user)
    return {"name": made.name, "user": made.user, "token": made.token}


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
        if not yes and not output.is_at_a_terminal():
            raise RejectedError("without a terminal this needs --yes; --dry-run only shows what would be written")
        if not yes and not output.is_confirmed("Take this away?" if remove else "Write this?"):
            raise Stopped("nothing was written")
        installing.apply(planned)
        report = replace(report, written=True)
        say(f"done; {report.hint}", quiet=quiet)
    return report if call.around["json"] else None


DOORS: dict[str, Callable[..., object]] = {
    "mcp": mcp, "token": token, "install": install, "uninstall": uninstall,
}  # fmt: skip
