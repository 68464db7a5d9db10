"""The commands that keep a ledger safe: backup, recover and doctor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.cli.frame import command
from ledger.domain.errors import NotFoundError, RejectedError

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.maintenance.transfer import Progress

SAFETY = "Safety"


def add_to(app: typer.Typer) -> None:
    for function in (backup, recover):
        command(app, SAFETY, view="report")(function)
    command(app, SAFETY, view="health")(doctor)


def backup(
    ledger: Ledger,
    progress: Progress | None,
    path: Annotated[str, typer.Argument(help="A file that is not there yet.")],
) -> Any:
    """Copy the whole ledger while others read and write it, and check the copy; it holds the ledger's secret."""
    return ledger.maintenance.backup(path, progress=progress)


def recover(
    context: dict[str, Any],
    progress: Progress | None,
    backup: Annotated[str, typer.Argument(help="The backup; it is only read.")],
    certificate: Annotated[
        list[str] | None,
        typer.Option(
            "--certificate", metavar="FILE", help="Certificates of erasures to do again, one a line; may be repeated."
        ),
    ] = None,
) -> Any:
    """Make a ledger at a new --db from a backup: verified, folded again, compared, and what was erased is erased again."""
    from ledger.api import Ledger

    certificates = [line for name in certificate or () for line in _lines(name)]
    return Ledger.recover(backup, context["db"], certificates=certificates, progress=progress)


def _lines(name: str) -> list[str]:
    try:
        text = Path(name).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {name} with certificates") from None
    except UnicodeDecodeError:
        raise RejectedError(f"{name} holds no certificates: it is no UTF-8 text") from None
    return [line for line in text.splitlines() if line.strip()]


def doctor(
    context: dict[str, Any],
    progress: Progress | None,
) -> Any:
    """Look at everything that may be wrong with the ledger's file, and say what to do; exit code 1 with a problem."""
    from ledger.api import Ledger

    return Ledger.doctor(context["db"], progress=progress)
