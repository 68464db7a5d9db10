"""The commands that change what the ledger remembers, spelled like the library's methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ledger.cli.frame import WRITES, command
from ledger.domain.errors import RejectedError
from ledger.types import StateCategory

if TYPE_CHECKING:
    from ledger.api import Ledger
    from ledger.types import WriteOptions

Command = Callable[..., Any]
IMPORT, MEMORIES, PROJECTS = "Take in", "Review and change memories", "Projects and policy"

Id = Annotated[str, typer.Argument(help="A memory's id (m_…), or an unambiguous beginning of it.")]
Either = Annotated[str, typer.Argument(help="The id of a memory (m_…) or an observation (o_…), or its beginning.")]
InteractionId = Annotated[str, typer.Argument(help="An interaction's id (i_…), or an unambiguous beginning of it.")]
Using = Annotated[str | None, typer.Option("--using", help="model or rules; the model where there is one.")]
Since = Annotated[
    int | None, typer.Option("--since", help="Of a session: look again at what came after this position.")
]
Content = Annotated[str, typer.Argument(help='The text, or "-" for standard input.')]
Reason = Annotated[str, typer.Option("--reason", "-r", help="Why, in your words; it is kept.")]
Kind = Annotated[str, typer.Option("--kind", help="knowledge, preference, project, fact, … or a word of your own.")]
Project = Annotated[str | None, typer.Option("--project", "-p", help="A name or alias; a new one is registered.")]
Session = Annotated[str | None, typer.Option("--session", "--session-id", help="The session that it belongs to.")]
Confidence = Annotated[float, typer.Option("--confidence", "-c", help="From 0 to 1.")]
Tags = Annotated[list[str], typer.Option("--tag", help="A tag; may be given again, at most 10.")]
Entities = Annotated[list[str], typer.Option("--entity", help="What it is about; may be given again.")]
Name = Annotated[str, typer.Argument(help="A name.")]
Relation = Annotated[str, typer.Argument(help="How the one stands to the other, like works_at.")]
Sources = Annotated[list[str], typer.Option("--source", help="The id it comes from; may be given again.")]
ValidFrom = Annotated[str | None, typer.Option("--valid-from", metavar="TIME", help="True from this time on.")]
ValidTo = Annotated[str | None, typer.Option("--valid-to", metavar="TIME", help="True until then; a date: through it.")]
Used = Annotated[list[str], typer.Option("--memory-used", help="A memory the model was shown; may be given again.")]
Chunks = Annotated[list[str], typer.Option("--chunk-used", help="A chunk the model was shown; may be given again.")]
Known = Annotated[str, typer.Argument(help="A project's name, alias or id.")]
StateKey = Annotated[str, typer.Argument(help="What the value is called within its category.")]
Category = Annotated[str, typer.Argument(help="status, decision, requirement, contact, milestone, fact or config.")]


def add_to(app: typer.Typer) -> None:
    _add_imports(app)
    _add_review(app)
    _add_changes(app)
    _add_projects(app)


def _add_imports(app: typer.Typer) -> None:
    for function, view in ((capture, "captured"), (remember, "changed"), (propose, "changed")):
        command(app, IMPORT, view=view, options=WRITES, creates=True)(function)
    command(app, IMPORT, view="captured", options=WRITES)(attach_response)
    command(app, IMPORT, view="extraction", options=WRITES)(extract)


def _add_review(app: typer.Typer) -> None:
    for function in (promote, reject):
        command(app, MEMORIES, view="changed", options=WRITES)(function)
    command(app, MEMORIES, view="reinforcement", options=WRITES)(reinforce)


def _add_changes(app: typer.Typer) -> None:
    hides: tuple[Command, ...] = (invalidate, retract, restore)
    changes: tuple[Command, ...] = (revise, supersede, *hides, retag, set_validity, adjust)
    for function in changes:
        view = "observation_showing.changed" if function in (revise, retract, restore) else "changed"
        command(app, MEMORIES, view=view, options=WRITES)(function)
    for tie in (relate, unrelate):
        command(app, MEMORIES, view="related", options=WRITES)(tie)


def _add_projects(app: typer.Typer) -> None:
    command(app, PROJECTS, view="project", options=WRITES, creates=True)(register_project)
    command(app, PROJECTS, view="project", options=WRITES)(add_alias)
    command(app, PROJECTS, view="project", options=WRITES, creates=True)(set_state)
    command(app, PROJECTS, view="project", options=WRITES)(invalidate_state)


# --- take in ---------------------------------------------------------------------------------------------------------


def capture(
    ledger: Ledger,
    by: WriteOptions,
    prompt: Content,
    response: Annotated[str, typer.Argument(help='The answer, or "-"; may come later by attach-response.')] = "",
    summary: Annotated[str, typer.Option("--response-summary", help="The answer in short.")] = "",
    project: Project = None,
    session: Session = None,
    memories_used: Used = [],  # noqa: B006
    chunks_used: Chunks = [],  # noqa: B006
    reinforce: Annotated[bool, typer.Option(help="Let it reinforce the memories that it restates.")] = True,
) -> Any:
    """Record a turn of a conversation; what it restates is reinforced."""
    options: dict[str, Any] = {"summary": summary, "project": project, "session": session, "reinforce": reinforce}
    options |= {"memories_used": memories_used, "chunks_used": chunks_used}
    return ledger.capture(prompt, response, **options, **by)


def attach_response(
    ledger: Ledger,
    by: WriteOptions,
    id: InteractionId,
    response: Annotated[str, typer.Argument(help='The answer, or "-" for standard input.')] = "",
    summary: Annotated[str, typer.Option("--response-summary", help="The answer in short.")] = "",
    memories_used: Used = [],  # noqa: B006
    chunks_used: Chunks = [],  # noqa: B006
) -> Any:
    """Add the answer to a prompt that was captured before."""
    lists = {"memories_used": memories_used, "chunks_used": chunks_used}
    return ledger.interactions.add_response(id, response, summary=summary, **lists, **by)


def remember(
    ledger: Ledger,
    by: WriteOptions,
    content: Content,
    kind: Kind = "knowledge",
    project: Project = None,
    session: Session = None,
    confidence: Confidence = 1.0,
    entity: Entities = [],  # noqa: B006
    tag: Tags = [],  # noqa: B006
    source: Sources = [],  # noqa: B006
    valid_from: ValidFrom = None,
    valid_to: ValidTo = None,
) -> Any:
    """Remember something at once, without review."""
    options: dict[str, Any] = {"project": project, "session": session, "valid_from": valid_from, "valid_to": valid_to}
    options |= {"confidence": confidence, "entities": entity, "tags": tag, "sources": source}
    return ledger.remember(content, kind=kind, **options, **by)


def propose(
    ledger: Ledger,
    by: WriteOptions,
    content: Content,
    kind: Kind = "knowledge",
    project: Project = None,
    session: Session = None,
    confidence: Confidence = 0.5,
    entity: Entities = [],  # noqa: B006
    tag: Tags = [],  # noqa: B006
    source: Sources = [],  # noqa: B006
    valid_from: ValidFrom = None,
    valid_to: ValidTo = None,
) -> Any:
    """Put a candidate into the review queue; it is believed only once promoted."""
    options: dict[str, Any] = {"project": project, "session": session, "valid_from": valid_from, "valid_to": valid_to}
    options |= {"confidence": confidence, "entities": entity, "tags": tag, "sources": source}
    return ledger.propose(content, kind=kind, **options, **by)


def extract(
    ledger: Ledger,
    by: WriteOptions,
    id: Annotated[str, typer.Argument(help="An interaction's id (i_…), or a session's name, alias or id (s_…).")],
    preview: Annotated[bool, typer.Option("--preview", help="Only show what is found in an interaction.")] = False,
    using: Using = None,
    since: Since = None,
) -> Any:
    """Look for candidates in an interaction, or in the messages of a session since the last time; by a model or by rules."""
    asker: dict[str, Any] = {"method": using, "dry_run": preview}
    if (session := ledger.session(id) if not id.startswith("i_") else None) is not None and session.id is not None:
        return session.extract(since=since, **asker, **by)
    if since is not None:
        raise RejectedError("since is a position in a session; an interaction is extracted as a whole")
    return ledger.extract(id, **asker, **by)


# --- review and change -----------------------------------------------------------------------------------------------


def promote(
    ledger: Ledger,
    by: WriteOptions,
    id: Id,
    note: Annotated[str, typer.Option("--note", "--reason", "-r", help="Why, in your words; it is kept.")] = "",
    content: Annotated[str | None, typer.Option("--content", help="A better wording for it, in the same step.")] = None,
) -> Any:
    """Believe a candidate from here on."""
    return ledger.promote(id, content=content, reason=note, **by)


def reject(ledger: Ledger, by: WriteOptions, id: Id, reason: Reason = "") -> Any:
    """Turn a candidate down."""
    return ledger.reject(id, reason=reason, **by)


def relate(
    ledger: Ledger,
    by: WriteOptions,
    id: Id,
    source: Name,
    relation: Relation,
    target: Name,
    valid_from: ValidFrom = None,
    valid_to: ValidTo = None,
) -> Any:
    """Let a memory say that one name stands in a relation to another."""
    return ledger.graph.relate(id, source, relation, target, valid_from=valid_from, valid_to=valid_to, **by)


def unrelate(
    ledger: Ledger, by: WriteOptions, id: Id, source: Name, relation: Relation, target: Name, reason: Reason = ""
) -> Any:
    """Let a memory no longer say so."""
    return ledger.graph.unrelate(id, source, relation, target, reason=reason, **by)


def reinforce(
    ledger: Ledger,
    by: WriteOptions,
    id: Annotated[str, typer.Argument(help="A memory's id; or an interaction's, to look again what it restates.")],
    delta: Annotated[float | None, typer.Option("--delta", help="How much, if not what the policy says.")] = None,
    source: Annotated[str | None, typer.Option("--source", help="The interaction behind it; counts once.")] = None,
) -> Any:
    """One more reason to believe a memory."""
    if id.startswith("i_"):
        if delta is not None or source is not None:
            raise RejectedError(
                "an interaction reinforces by the policy and is its own source: no --delta, no --source"
            )
        return ledger.interactions.reinforce(id, **by)
    return ledger.reinforce(id, amount=delta, source=source, **by)


def revise(ledger: Ledger, by: WriteOptions, id: Either, content: Content, reason: Reason = "") -> Any:
    """Another wording for the same memory or observation."""
    return ledger.revise(id, content, reason=reason, **by)


def supersede(
    ledger: Ledger,
    by: WriteOptions,
    id: Id,
    content: Content,
    reason: Reason = "",
    kind: Annotated[str | None, typer.Option("--kind", help="The old one's, unless given.")] = None,
    confidence: Confidence = 1.0,
    entity: Entities = [],  # noqa: B006
    tag: Tags = [],  # noqa: B006
    source: Sources = [],  # noqa: B006
    valid_from: ValidFrom = None,
    valid_to: ValidTo = None,
) -> Any:
    """Another fact takes this memory's place; the successor is shown."""
    options: dict[str, Any] = {"entities": entity or None, "tags": tag or None, "sources": source, "kind": kind}
    options |= {"confidence": confidence, "valid_from": valid_from, "valid_to": valid_to, "reason": reason}
    return ledger.supersede(id, content, **options, **by)


def invalidate(ledger: Ledger, by: WriteOptions, id: Id, reason: Reason = "") -> Any:
    """Say that a memory was wrong."""
    return ledger.invalidate(id, reason=reason, **by)


def retract(ledger: Ledger, by: WriteOptions, id: Either, reason: Reason = "") -> Any:
    """Take a memory or an observation out of use without a judgement."""
    return ledger.retract(id, reason=reason, **by)


def restore(
    ledger: Ledger,
    by: WriteOptions,
    id: Annotated[str, typer.Argument(help="A memory, an observation, or a source that was withdrawn, by its id.")],
    reason: Reason = "",
) -> Any:
    """Bring a hidden memory or a retracted observation back, and a source that was withdrawn."""
    return ledger.restore(id, reason=reason, **by)


def retag(
    ledger: Ledger,
    by: WriteOptions,
    id: Id,
    add: Annotated[list[str], typer.Option("--add", help="A tag to add; may be given again.")] = [],  # noqa: B006
    remove: Annotated[list[str], typer.Option("--remove", help="A tag to remove; may be given again.")] = [],  # noqa: B006
) -> Any:
    """Add and remove tags."""
    return ledger.memories.tag(id, add=add, remove=remove, **by)


def set_validity(
    ledger: Ledger,
    by: WriteOptions,
    id: Id,
    valid_from: ValidFrom = None,
    valid_to: ValidTo = None,
    reason: Reason = "",
) -> Any:
    """Say when the fact was true in the world."""
    return ledger.memories.set_validity(id, valid_from=valid_from, valid_to=valid_to, reason=reason, **by)


def adjust(
    ledger: Ledger,
    by: WriteOptions,
    id: Id,
    confidence: Annotated[float, typer.Argument(help="From 0 to 1.")],
    reason: Reason = "",
) -> Any:
    """Set the confidence by hand."""
    return ledger.memories.set_confidence(id, confidence, reason=reason, **by)


# --- projects --------------------------------------------------------------------------------------------------------


def register_project(
    ledger: Ledger,
    by: WriteOptions,
    name: Annotated[str, typer.Argument(help="What it is called.")],
    description: Annotated[str, typer.Argument(help="What it is about.")] = "",
) -> Any:
    """Make a project known; commands that name a new one do so by themselves."""
    return ledger.projects.add(name, description=description, **by)


def add_alias(
    ledger: Ledger, by: WriteOptions, project: Known, alias: Annotated[str, typer.Argument(help="The other name.")]
) -> Any:
    """Give a project another name."""
    return ledger.projects.add_alias(project, alias, **by)


def set_state(
    ledger: Ledger,
    by: WriteOptions,
    project: Annotated[str, typer.Argument(help="A name or alias; a new one is registered.")],
    category: Category,
    key: StateKey,
    value: Content,
    source: Annotated[str, typer.Option("--source", help="Where it comes from, in your words.")] = "",
) -> Any:
    """Set a value of a project's trusted state, which only a person does."""
    return ledger.projects.set_state(project, cast(StateCategory, category), key, value, source=source, **by)


def invalidate_state(
    ledger: Ledger, by: WriteOptions, project: Known, category: Category, key: StateKey, reason: Reason = ""
) -> Any:
    """Take a value of trusted state out of use; it stays in the history."""
    return ledger.projects.remove_state(project, cast(StateCategory, category), key, reason=reason, **by)
