"""The command line ``memory-ledger``: the library's verbs, spelled the same; it only translates.

The modules next to it hold the commands, each those of some panels of the help, ``frame`` what they share, and ``showing``
how answers look. Data goes to stdout, messages to stderr. Exit codes: 0 done, 1 a check failed, 2 wrong usage,
3 not found, 4 conflict or rejected.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ledger import __version__
from ledger.cli import (
    back,
    care,
    config,
    documents,
    erasure,
    guards,
    merging,
    observations,
    proof,
    reads,
    rescue,
    sessions,
    work,
    writes,
)
from ledger.cli.frame import INTERRUPTED, failing_plainly

EXIT_CODES = "Exit codes: 0 done, 1 a check failed, 2 wrong usage, 3 not found, 4 conflict or rejected."

app = typer.Typer(
    name="memory-ledger",
    help="A memory for LLM agents that can account for itself: every change is an event in one file.",
    epilog=f"The ledger is --db, or LEDGER_PATH, or memory.db here; see config. {EXIT_CODES}",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"memory-ledger {__version__}")
        raise typer.Exit()


@app.callback()
def _all(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,
) -> None:
    pass


for part in (
    writes,
    guards,
    merging,
    observations,
    sessions,
    documents,
    back,
    reads,
    config,
    care,
    erasure,
    proof,
    rescue,
    work,
):
    part.add_to(app)


def main() -> None:
    """The entry point; whatever happens, no traceback."""
    _prepare_streams()
    try:
        with failing_plainly():
            app()
    except typer.Exit as leaving:
        sys.exit(leaving.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _prepare_streams() -> None:
    """What a stream's encoding lacks is written as an escape; what is said to a closed stream is lost."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (for as long as we run)
        else:
            getattr(sys, name).reconfigure(errors="backslashreplace")
