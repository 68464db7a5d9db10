"""The commands that look after the ledger: numbers, rebuild, policies, import, export and the demo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.cli_frame import OK, FAILED, WRITES, command, console, failing_plainly, progress_bar
from ledger.cli_writes import PROJECTS, TAKE_IN
from ledger.domain.errors import Rejected
from ledger.terminal_text import as_json

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.memory_writes import By
    from ledger.transfer import Progress

CARE = "Care"


def add_to(app: typer.Typer) -> None:
    command(app, CARE, view="stats")(stats)
    command(app, CARE)(digest)
    for function in (rebuild, run_policies, export):
        command(app, CARE, view="report")(function)
    command(app, TAKE_IN, view="imported", options=("actor", "occurred_at"), creates=True, name="import")(import_)
    app.command("demo", rich_help_panel=CARE)(demo)
    policy = typer.Typer(no_args_is_help=True)
    command(policy, PROJECTS, view="report", name="show")(policy_show)
    command(policy, PROJECTS, view="report", name="adopt", options=WRITES, creates=True)(policy_adopt)
    app.add_typer(policy, name="policy", help="How much reinforces, what runs by itself.", rich_help_panel=PROJECTS)


def stats(ledger: Ledger) -> Any:
    """Counts, sizes in bytes, and where each projection stands."""
    return ledger.stats()


def digest(ledger: Ledger) -> Any:
    """The hash over all projections, equal after any rebuild."""
    return ledger.digest()


def rebuild(ledger: Ledger, progress: Progress | None) -> Any:
    """Fold every projection again from the log."""
    return ledger.rebuild(progress=progress)


def run_policies(
    ledger: Ledger,
    progress: Progress | None,
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="TIME", help="Judge fading at this time.")] = None,
) -> Any:
    """Do what is pending: reinforcement, extraction, and the expiry of what has faded."""
    return ledger.run_policies(as_of=as_of, progress=progress)


def export(ledger: Ledger, progress: Progress | None, path: Annotated[str, typer.Argument(help="A file that is not there yet.")]) -> Any:
    """Write the whole log as JSONL, row by row; it holds the ledger's secret."""
    return ledger.export_file(path, progress=progress)
