"""The commands on observations: look at them, write one by hand, and withdraw what supports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import replace

from ledger.cli.frame import PAST, WRITES, Exclusive, choices, command, listed
from ledger.domain.times import moment

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.maintenance.transfer import Progress
    from ledger.observations.answers import Observation
    from ledger.types import WriteOptions

OBSERVATIONS = "Observations"

Id = Annotated[str, typer.Argument(help="An observation's id (o_…), or an unambiguous beginning of it.")]
Sources = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Memories, interactions, chunks or documents, by their ids.")
]
Evidence = Annotated[
    list[str], typer.Option("--source", help="The id of a source that supports it; may be given again.")
]
AsOf = Annotated[str | None, typer.Option("--trend-at", metavar="TIME", help="The trend as of this time, not of now.")]


def add_to(app: typer.Typer) -> None:
    for look in (observations, observation):
        command(app, OBSERVATIONS, view=f"observation_showing.{look.__name__}", past=PAST)(look)
    command(app, OBSERVATIONS, view="observation_showing.changed", options=WRITES)(observe)
    command(app, OBSERVATIONS, view="observation_showing.withdrawn", options=WRITES)(withdraw_source)
    command(app, OBSERVATIONS, view="report", options=tuple(each for each in WRITES if each != "key"))(consolidate)


def observations(
    ledger: Ledger,
    project: Annotated[
        str | None, typer.Option("--project", "-p", help='A name or alias; "" for those of none.')
    ] = None,
    tag: Annotated[list[str], typer.Option("--tag", help="With this tag; may be given again.")] = [],  # noqa: B006
    trend: Annotated[
        str | None, typer.Option("--trend", help="new, stable, strengthening, weakening or dormant.")
    ] = None,
    status: Annotated[str, typer.Option("--status", help="active, unsupported, retracted, erased or all.")] = "active",
    freshness: Annotated[str | None, typer.Option("--freshness", help="fresh, or stale.")] = None,
    before: Annotated[str | None, typer.Option("--before", metavar="ID", help="Go on after this one.")] = None,
    trend_at: AsOf = None,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = 50,
) -> Any:
    """What several sources have in common, newest first: trend, proof, freshness and confidence."""
    options: dict[str, Any] = {"project": project, "tags": tag, "statuses": choices([status]), "freshness": freshness}
    trends: Any = (trend,) if trend is not None else ()
    if trend_at is None:
        return listed(ledger.observations.list, limit, behind=before, trends=trends, **options)
    ledger.observations.list(trends=trends, limit=0)  # refuses what is no trend
    found = (_at(each, trend_at) for each in listed(ledger.observations.list, behind=before, **options))
    return [each for each in found if trend in (None, each.trend)][:limit]


def observation(ledger: Ledger, id: Id, trend_at: AsOf = None) -> Any:
    """One observation with its sources; why shows what they say, and every wording that it had."""
    found = ledger.observations.get(id)
    return found if trend_at is None else _at(found, trend_at)


def _at(found: Observation, time: str) -> Observation:
    """With the trend as of another time than now."""
    return replace(found, trend=found.trend_at(time), as_of=moment("--trend-at", time))


def observe(
    ledger: Ledger,
    by: WriteOptions,
    content: Annotated[str, typer.Argument(help='What they have in common, or "-" for standard input.')],
    source: Evidence = [],  # noqa: B006
    confidence: Annotated[float, typer.Option("--confidence", "-c", help="From 0.5 to 1.")] = 0.9,
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="A name or alias; a new one is registered.")
    ] = None,
    tag: Annotated[list[str], typer.Option("--tag", help="A tag; may be given again, at most 10.")] = [],  # noqa: B006
    why: Annotated[str, typer.Option("--why", "--reason", "-r", help="Why, in your words; it is kept.")] = "",
) -> Any:
    """Add an observation by hand, with the sources that support it."""
    return ledger.observations.add(content, source, confidence=confidence, project=project, tags=tag, reason=why, **by)


def withdraw_source(
    ledger: Ledger,
    by: WriteOptions,
    ids: Sources,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why, in your words; it is kept.")] = "",
    exclusive: Exclusive = False,
) -> Any:
    """Withdraw these sources from every observation; restore ID brings one back."""
    return ledger.observations.withdraw(ids, exclusive=exclusive, reason=reason, **by)


def consolidate(
    ledger: Ledger,
    by: WriteOptions,
    progress: Progress | None,
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Only these memories and interactions, by their ids.")
    ] = None,
    over: Annotated[str, typer.Option("--over", help="memories, or interactions.")] = "memories",
    project: Annotated[
        str | None, typer.Option("--project", "-p", help="A name or alias; without it those of none.")
    ] = None,
    tag: Annotated[list[str], typer.Option("--tag", help="Of memories with this tag; may be given again.")] = [],  # noqa: B006
    using: Annotated[str | None, typer.Option("--using", help="grouping (by rules), or model.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="At most so many new sources.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what it would do.")] = False,
) -> Any:
    """Form observations of what new sources have in common, and revise those that went stale."""
    options: dict[str, Any] = {"project": project, "tags": tag, "method": using, "limit": limit, "dry_run": dry_run}
    options["progress"] = progress
    if ids in (["memories"], ["interactions"]):  # as --over has it
        return ledger.consolidate(*ids, **options, **by)
    return ledger.consolidate(ids or over, **options, **by)
