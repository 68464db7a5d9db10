"""The commands that prove: verify a ledger, make a checkpoint to keep elsewhere, prove that an event is in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.cli.frame import command, opened

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.maintenance.transfer import Progress

PROOF = "Proof"


def add_to(app: typer.Typer) -> None:
    command(app, PROOF, view="verified")(verify)
    command(app, PROOF, view="as_text", options=("actor",))(checkpoint)
    command(app, PROOF, view="as_text")(prove)


def verify(
    context: dict[str, Any],
    progress: Progress | None,
    against: Annotated[
        str | None, typer.Option("--against", metavar="FILE", help="A checkpoint kept elsewhere; walks everything.")
    ] = None,
    public_key: Annotated[
        str | None, typer.Option("--public-key", metavar="FILE", help="Whose signature the checkpoint must have.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Also what a checkpoint sealed in the log covers.")] = False,
    projections: Annotated[bool, typer.Option(help="Fold the log again and compare, which takes longest.")] = True,
) -> Any:
    """Check the file, the log, its chain and the projections; exit code 1 when something is wrong. It only reads."""
    from ledger.proof.proving import verify_file

    return verify_file(
        context["db"], against=against, public_key=public_key, full=full, projections=projections, progress=progress
    )


def checkpoint(
    context: dict[str, Any],
    progress: Progress | None,
    sign: Annotated[
        str | None, typer.Option("--sign", metavar="FILE", help="An Ed25519 private key, PEM or OpenSSH.")
    ] = None,
    seal: Annotated[bool, typer.Option(help="Keep it in the log too; without, the ledger is only read.")] = True,
) -> Any:
    """Print the log's size, Merkle root and head as a small text: keep it where the ledger's file is not."""
    with opened(context, readonly=not seal, creates=False) as ledger:
        return ledger.proof.checkpoint(signing_key=sign, progress=progress)


def prove(
    ledger: Ledger,
    position: Annotated[int, typer.Argument(help="The event's position, as audit shows it.")],
    against: Annotated[
        str | None, typer.Option("--against", metavar="FILE", help="The checkpoint that the proof is for.")
    ] = None,
    size: Annotated[int | None, typer.Option("--size", metavar="N", help="For the log of the first N events.")] = None,
    state: Annotated[bool, typer.Option("--state", help="Put in what the event says.")] = False,
) -> Any:
    """Print the proof that an event is in the log, for tools/check_proof.py and somebody who has a checkpoint."""
    return ledger.proof.prove(position, size=size, against=against, include_state=state)
