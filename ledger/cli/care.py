"""The commands that look after the ledger: numbers, rebuild, policies, import, export and the demo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledger.cli.frame import FAILED, OK, PAST, WRITES, command, console, failing_plainly, opened, progress_bar, say
from ledger.cli.terminal_text import as_json
from ledger.cli.writes import IMPORT, PROJECTS

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.maintenance.transfer import Progress
    from ledger.types import WriteOptions

CARE = "Care"


def add_to(app: typer.Typer) -> None:
    command(app, CARE, view="stats", past=PAST)(stats)
    command(app, CARE, past=PAST)(digest)
    for function in (rebuild, run_policies):
        command(app, CARE, view="report", writes=True)(function)
    command(app, CARE, view="report")(export)
    command(app, CARE, view="report", writes=True)(embed)
    command(app, IMPORT, view="imported", options=("actor", "occurred_at"), creates=True, name="import")(import_)
    app.command("demo", rich_help_panel=CARE)(demo)
    policy = typer.Typer(no_args_is_help=True)
    command(policy, PROJECTS, view="report", name="show", past=PAST)(policy_show)
    command(policy, PROJECTS, view="report", name="adopt", options=WRITES, creates=True)(policy_adopt)
    app.add_typer(policy, name="policy", help="How much reinforces, what runs by itself.", rich_help_panel=PROJECTS)


def stats(ledger: Ledger) -> Any:
    """Counts, sizes in bytes, and where each projection stands."""
    return ledger.maintenance.stats()


def digest(
    ledger: Ledger,
    beliefs: Annotated[bool, typer.Option("--beliefs", help="Over what is believed, without ids and times.")] = False,
) -> Any:
    """The hash over all projections, equal after any rebuild; or over what is believed, now or (--as-of) then."""
    return ledger.proof.digest(beliefs=beliefs)


def rebuild(
    ledger: Ledger,
    progress: Progress | None,
    name: Annotated[str | None, typer.Argument(help="Only this projection, and those that read its rows.")] = None,
) -> Any:
    """Compute every projection again from the log."""
    return ledger.maintenance.rebuild(name, progress=progress)


def embed(
    ledger: Ledger,
    context: dict[str, Any],
    progress: Progress | None,
    model: Annotated[
        str | None, typer.Option("--model", help="wordllama, onnx:DIRECTORY or onnx-cls:DIRECTORY (LEDGER_EMBEDDER).")
    ] = None,
    batch: Annotated[int, typer.Option("--batch", help="Texts given to the model at a time.")] = 256,
    limit: Annotated[int | None, typer.Option("--limit", help="At most so many texts, the newest first.")] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Delete the vectors of this model instead.")] = False,
) -> Any:
    """Make the vectors that texts still lack, for search by meaning; nothing is downloaded."""
    model = model if model is not None else context["settings"].embedder
    if model is None:
        raise typer.BadParameter("name a model with --model, or in the settings as embedder")
    if drop:
        from ledger.vectors.embedders import as_embedder

        known = any(each.model == model for each in ledger.vectors.list().all())
        return ledger.vectors.remove(model if known else as_embedder(model).name)
    return ledger.vectors.update(model=model, batch_size=batch, limit=limit, progress=progress)


def run_policies(
    ledger: Ledger,
    progress: Progress | None,
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="TIME", help="Judge fading at this time.")] = None,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="JOB", help="This job, and no others.")] = None,
) -> Any:
    """Do what is pending: reinforcement, extraction, expiry, a look for contradictions and near duplicates, consolidation."""
    jobs: Any = only or ()
    return ledger.jobs.run(jobs=jobs, now=as_of, progress=progress)


def export(
    ledger: Ledger,
    progress: Progress | None,
    path: Annotated[str, typer.Argument(help="A file that is not there yet.")],
) -> Any:
    """Write the whole log as JSONL, row by row; it holds the ledger's secret."""
    return ledger.maintenance.export_log(path, progress=progress)


def import_(
    context: dict[str, Any],
    progress: Progress | None,
    path: Annotated[str, typer.Argument(help="JSONL, a JSON list of conversations, or with --log an export.")],
    project: Annotated[str | None, typer.Option("--project", "-p", help="For lines that name none.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="With a bad line nothing is written (exit code 4).")] = False,
    log: Annotated[bool, typer.Option("--log", help="Make the ledger of an export, at a new --db.")] = False,
) -> Any:
    """Capture the interactions of a file; bad lines are listed and skipped, and twice the same file adds nothing."""
    if log:
        return _import_log(path, context, progress, project=project, strict=strict)
    with opened(context, readonly=False, creates=True) as ledger:
        return ledger.interactions.import_file(
            path, project=project, strict=strict, occurred_at=context["occurred_at"], progress=progress
        )


def _import_log(
    path: str, context: dict[str, Any], progress: Progress | None, *, project: str | None, strict: bool
) -> Any:
    from ledger.api import Ledger

    if strict or project is not None or context["actor"] or context["occurred_at"]:
        raise typer.BadParameter(
            "--log takes every row as it is, without --strict, --project, --actor or --occurred-at"
        )
    Ledger.import_log(path, context["db"], progress=progress)
    with opened(context, readonly=True, creates=False) as ledger:
        return ledger.maintenance.stats()


def policy_show(ledger: Ledger) -> Any:
    """Show the policy in effect."""
    return ledger.policy.get()


def policy_adopt(
    ledger: Ledger,
    by: WriteOptions,
    matcher: Annotated[str | None, typer.Option("--matcher", help="The matcher's name and version.")] = None,
    gain: Annotated[float | None, typer.Option("--gain", help="What a confirmation adds, like 0.02.")] = None,
    echo_gain: Annotated[float | None, typer.Option("--echo-gain", help="What repeating a shown memory adds.")] = None,
    max_matches: Annotated[int | None, typer.Option("--matches-a-turn", help="Memories one turn may confirm.")] = None,
    extract: Annotated[bool | None, typer.Option(help="Extract by itself in run-policies.")] = None,
    expire: Annotated[bool | None, typer.Option(help="Supersede what has faded in run-policies.")] = None,
    merge: Annotated[bool | None, typer.Option(help="Propose merges in run-policies.")] = None,
    conflicts: Annotated[bool | None, typer.Option(help="Look for conflicts in run-policies.")] = None,
    consolidate: Annotated[bool | None, typer.Option(help="Form observations in run-policies.")] = None,
    threats: Annotated[
        str | None, typer.Option("--threats", help="What happens to a flagged memory: refuse, quarantine or off.")
    ] = None,
    secrets: Annotated[
        str | None, typer.Option("--secrets", help="What happens to a key or password: redact, refuse or off.")
    ] = None,
    extracted: Annotated[
        str | None, typer.Option("--extracted", help="What a model extracts becomes: candidate or active.")
    ] = None,
    claim_confidence: Annotated[
        float | None, typer.Option("--claim-confidence", help="At most this for what an assistant said itself.")
    ] = None,
    user_chars: Annotated[
        int | None, typer.Option("--user-chars", help="Characters that user_profile memories may take; 0: no bound.")
    ] = None,
    memory_chars: Annotated[
        int | None, typer.Option("--memory-chars", help="Characters that all others may take; 0: no bound.")
    ] = None,
) -> Any:
    """Change the policy from here on; what is not given stays."""
    given = {name: value for name, value in locals().items() if name not in ("ledger", "by")}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise typer.BadParameter("name at least one parameter to change; see policy adopt --help")
    return ledger.policy.set(**changes, **by)


def demo(
    db: Annotated[str | None, typer.Option("--db", metavar="PATH", help="Keep the ledger at this new place.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary ledger and say where it is.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The numbers as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No messages.")] = False,
) -> None:
    """Ten weeks of a conversation, what is believed after them and why, and all of it again from the log alone."""
    with failing_plainly():
        from ledger.demo.play import rehearse

        with progress_bar("playing ten weeks", quiet=quiet) as progress:
            numbers, pages = rehearse(db, keep=keep, progress=progress)
        if json:
            print(as_json(numbers))
        else:
            console().print(pages)
        if "path" in numbers:
            say(f"the ledger is kept at {numbers['path']}", quiet=quiet)
        raise typer.Exit(OK if numbers["equal"] else FAILED)
