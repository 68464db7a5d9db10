"""The commands that only ask; they open the ledger for reading, and neither make nor change one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from ledger.cli.frame import BELIEFS, PAST, choices, command, listed
from ledger.types import Corpus

if TYPE_CHECKING:
    from ledger.api import Ledger

LOOK, EXPLAIN = "Look", "Explain"

Id = Annotated[str, typer.Argument(help="An id, or an unambiguous beginning of it.")]
ProjectName = Annotated[str, typer.Argument(help="A project's name, alias or id.")]
Project = Annotated[str | None, typer.Option("--project", "-p", help="A project's name, alias or id.")]
Session = Annotated[str | None, typer.Option("--session", "--session-id", help="Of one session.")]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="From this time on, in ISO 8601.")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Before this time.")]
STATUSES = ("candidate", "active", "superseded", "invalid", "retracted", "erased")
Limit = Annotated[int, typer.Option("--limit", "-n", help="At most so many.")]


def add_to(app: typer.Typer) -> None:
    lists = (memories, review, interactions, graph, projects, refusals)
    for function in (*lists, memory, interaction, project, state):
        command(app, LOOK, view=function.__name__, past=BELIEFS if function in (memories, memory, graph) else PAST)(
            function
        )
    command(app, LOOK, view="pack", past=BELIEFS, writes_with="receipt")(recall)
    for pack in (user_profile, project_context):
        command(app, LOOK, view="pack", past=BELIEFS)(pack)
    command(app, LOOK, view="pack")(reopen)
    command(app, EXPLAIN, view="observation_showing.why", past=PAST)(why)
    for function in (history, confidence, audit):
        command(app, EXPLAIN, view=function.__name__, past=PAST)(function)
    command(app, EXPLAIN, view="diff")(diff)


def memories(
    ledger: Ledger,
    status: Annotated[list[str], typer.Option("--status", help=f"{', '.join(STATUSES)} or all.")] = ["active"],  # noqa: B006
    kind: Annotated[list[str], typer.Option("--kind", help="May be given again.")] = [],  # noqa: B006
    project: Annotated[str | None, typer.Option("--project", "-p", help='A name or alias; "" for global.')] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="With this tag.")] = None,
    min_confidence: Annotated[float, typer.Option("--min-confidence", help="From 0 to 1.")] = 0.0,
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="At most so many.")] = None,
) -> Any:
    """The memories, newest first."""
    options: dict[str, Any] = {
        "kinds": kind,
        "tags": (tag,) if tag is not None else (),
        "min_confidence": min_confidence,
    }
    return listed(ledger.memories.list, limit, statuses=choices(status), project=project, **options)


def memory(ledger: Ledger, id: Id) -> Any:
    """One memory with everything known about it."""
    return ledger.memories.get(id)


def review(ledger: Ledger, project: Project = None, limit: Limit = 500) -> Any:
    """The candidates that wait for promote or reject, oldest first."""
    return listed(ledger.review, limit, project=project)


def interactions(
    ledger: Ledger,
    project: Project = None,
    session: Session = None,
    client: Annotated[str | None, typer.Option("--client", help="Through this program.")] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
) -> Any:
    """The captured turns, newest first."""
    where = {"project": project, "session": session, "client": client, "since": since, "until": until}
    return listed(ledger.interactions.list, limit, **where)


def interaction(ledger: Ledger, id: Id) -> Any:
    """One captured turn with its whole texts."""
    return ledger.interactions.get(id)


def recall(
    ledger: Ledger,
    query: Annotated[str, typer.Argument(help='A question or words, or "-" for standard input.')],
    project: Project = None,
    kind: Annotated[list[str], typer.Option("--kind", help="Memories of this kind only; may be given again.")] = [],  # noqa: B006
    among: Annotated[
        list[str],
        typer.Option("--among", help="memories, chunks, turns or all; may be given again."),
    ] = ["memories", "chunks"],  # noqa: B006
    status: Annotated[list[str], typer.Option("--status", help="Hidden ones too: superseded, … or all.")] = ["active"],  # noqa: B006
    k: Annotated[int, typer.Option("--k", "-k", help="At most so many.")] = 20,
    budget: Annotated[int | None, typer.Option("--budget", help="What the texts may take together.")] = None,
    unit: Annotated[str, typer.Option("--unit", help="What the budget counts: chars or tokens.")] = "chars",
    packing: Annotated[str, typer.Option("--packing", help="prefix, or shares of the budget.")] = "prefix",
    ranking: Annotated[str, typer.Option("--ranking", help="score/1, rrf/1 or rubino/1.")] = "score/1",
    explain: Annotated[
        bool, typer.Option("--explain", help="Every candidate, with what its score is made of.")
    ] = False,
    receipt: Annotated[bool, typer.Option("--receipt", help="Record what was given, for reopen.")] = False,
    observations: Annotated[int, typer.Option("--observations", help="At most so many next to the items.")] = 3,
    embedder: Annotated[
        str | None, typer.Option("--model", help="Search by its vectors too: wordllama or onnx:DIR, as in embed.")
    ] = None,
) -> Any:
    """What answers a question, best first, within a budget."""
    del embedder  # the ledger was opened with it
    options: dict[str, Any] = {"unit": unit, "packing": packing, "ranking": ranking, "statuses": choices(status)}
    options |= {"among": get_args(Corpus) if "all" in among else among, "limit": k, "observations": observations}
    return ledger.recall(query, project=project, kinds=kind, budget=budget, explain=explain, receipt=receipt, **options)


def reopen(ledger: Ledger, receipt: Annotated[str, typer.Argument(help="The receipt of a recorded recall.")]) -> Any:
    """Show a recorded recall as it was delivered, and what changed since."""
    return ledger.reopen(receipt)


def user_profile(
    ledger: Ledger,
    budget: Annotated[int, typer.Option("--budget", help="Characters that the texts may take together.")] = 1375,
) -> Any:
    """What is known of the user: user_profile, identity and preference memories, newest first."""
    return ledger.profile(budget=budget)


def project_context(
    ledger: Ledger,
    project: ProjectName,
    budget: Annotated[int | None, typer.Option("--budget", help="Characters that the texts may take together.")] = None,
) -> Any:
    """What is known of a project: its trusted state, then its ten newest memories of the kinds project and env."""
    return ledger.projects.context(project, budget=budget)


def graph(
    ledger: Ledger,
    name: Annotated[list[str], typer.Argument(help="A name, several, or a question with names in it.")],
    project: Project = None,
    relation: Annotated[str | None, typer.Option("--relation", help="One relation, or co_occurs.")] = None,
    supplied_only: Annotated[
        bool, typer.Option("--supplied-only", help="No names found in texts by their looks.")
    ] = False,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a flowchart for Mermaid.")] = False,
    dot: Annotated[bool, typer.Option("--dot", help="As a digraph for Graphviz.")] = False,
    limit: Limit = 20,
) -> Any:
    """What memories name together with a name, and what they say of the two."""
    if mermaid and dot:
        raise typer.BadParameter("it is either --mermaid or --dot")
    found = ledger.graph.neighbors(
        " ".join(name), project=project, relation=relation, limit=limit, extracted=not supplied_only
    )
    if mermaid or dot:
        from ledger.cli import graphs

        return graphs.mermaid(found) if mermaid else graphs.dot(found)
    return found


def why(ledger: Ledger, id: Id) -> Any:
    """Why a memory is believed: its confidence over time, each step with its reason, sources, predecessors.

    Of an observation its evidence, dated, and every wording that it had.
    """
    return ledger.why(id)


def history(ledger: Ledger, id: Id) -> Any:
    """Every event of a memory, an observation, an interaction, a document, a project or a session."""
    return listed(ledger.history.events, subject=id)


def confidence(ledger: Ledger, id: Id) -> Any:
    """A memory's confidence over time."""
    return list(ledger.memories.confidence(id))


def audit(
    ledger: Ledger,
    subject: Annotated[str | None, typer.Option("--subject", help="An id.")] = None,
    actor: Annotated[str | None, typer.Option("--actor", help="Done by.")] = None,
    project: Project = None,
    session: Session = None,
    type: Annotated[str | None, typer.Option("--type", help="A type of event, like MemoryReinforced.")] = None,
    command: Annotated[str | None, typer.Option("--command", help="A verb, like remember.")] = None,
    command_id: Annotated[str | None, typer.Option("--command-id", help="One command.")] = None,
    correlation_id: Annotated[str | None, typer.Option("--correlation-id", help="One run or import.")] = None,
    since: Since = None,
    until: Until = None,
    before: Annotated[int | None, typer.Option("--before", help="Before this position, to go on from a page.")] = None,
    limit: Limit = 50,
) -> Any:
    """What happened, newest first: the trail of events."""
    options = {"subject": subject, "actor": actor, "project": project, "session": session, "type": type}
    options |= {"command": command, "command_id": command_id, "correlation_id": correlation_id}
    return listed(ledger.history.audit, limit, behind=before, since=since, until=until, **options)


def diff(
    ledger: Ledger,
    start: Annotated[str, typer.Argument(metavar="FROM", help="A position, a time with offset, a date, an event id.")],
    end: Annotated[str | None, typer.Argument(metavar="TO", help="Likewise; without it, now.")] = None,
    project: Annotated[str | None, typer.Option("--project", "-p", help='A name or alias; "" for global.')] = None,
) -> Any:
    """What came to be believed, and no longer is, between two moments."""
    return ledger.history.diff(start, end, project=project)


def refusals(ledger: Ledger, limit: Limit = 50) -> Any:
    """What rules refused, newest first: labels and numbers, never a text."""
    return listed(ledger.guards.refusals, limit)


def projects(ledger: Ledger) -> Any:
    """The projects."""
    return listed(ledger.projects.list)


def project(ledger: Ledger, name: ProjectName) -> Any:
    """One project with its trusted state."""
    return ledger.projects.get(name)


def state(
    ledger: Ledger,
    project: ProjectName,
    category: Annotated[str | None, typer.Option("--category", help="Of one category.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Of one key.")] = None,
    history: Annotated[bool, typer.Option("--history", help="Every value it had, oldest first.")] = False,
) -> Any:
    """The trusted state of a project."""
    options: dict[str, Any] = {"category": category, "name": key}
    return list(ledger.projects.state(project, history=history, **options))
