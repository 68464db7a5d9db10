"""The commands about settings and the language model: what is in effect and where it comes from, and which calls there were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.cli.frame import PAST, command, listed
from ledger.cli.reads import EXPLAIN, Limit

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.maintenance.transfer import Progress


def add_to(app: typer.Typer) -> None:
    command(app, EXPLAIN, view="config_showing.config")(config)
    command(app, EXPLAIN, view="config_showing.calls", past=PAST)(calls)


def config(context: dict[str, Any], progress: Progress | None) -> Any:
    """Each setting with its origin: argument, LEDGER_* variable, ledger.toml, default. A secret is only set or not."""
    del progress  # it is done at once
    return context["settings"].shown


def calls(
    ledger: Ledger,
    purpose: Annotated[str | None, typer.Option("--purpose", help="extraction, summary, … only.")] = None,
    limit: Limit = 50,
) -> Any:
    """The calls of a language model, newest first: what each took, and what became of its actions."""
    return listed(ledger.history.model_calls, limit, purpose=purpose)
