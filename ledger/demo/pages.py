"""The rest of the demo, ``demo --all``: the ledger page by page, in the words and tables of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from ledger import answers
from ledger.cli.pieces import heading
from ledger.cli.terminal_text import shortened
from ledger.cli.views import render

if TYPE_CHECKING:
    from ledger.api import Ledger

TOP, TRAIL = 2, 6
A_DAY, A_SESSION = "2026-04-01", "easter-rush"  # a moment of the story, and one of its sessions


def rest(ledger: Ledger, span: tuple[str, str], decisions: int, named: Mapping[str, str]) -> list[RenderableType]:
    """Return every page after the story."""
    strongest = max(ledger.memories.list().all(), key=lambda memory: (memory.reference_count, memory.confidence))
    return [
        *_went_in(ledger, span, decisions),
        *_current(ledger),
        *_changed(ledger),
        *_queue(ledger),
        *_believed(ledger, strongest),
        *_trail(ledger, named["oven"]),
        *_then(ledger),
        *_without(ledger),
        *_sound(ledger),
    ]


def _went_in(ledger: Ledger, span: tuple[str, str], decisions: int) -> list[RenderableType]:
    stats, (first, last) = ledger.maintenance.stats(), span
    kept = ", ".join(f"{count} {status}" for status, count in stats.memories.items())
    turns = f"{stats.interactions} turns of a conversation from {first[:10]} to {last[:10]}"
    text = f"{turns}, and {decisions} decisions of its owner, became {stats.position} events. Memories: {kept}."
    clock = "The ledger's clock followed the dates of the conversation."
    return [heading("What went in"), Text(text), Text(clock, style="dim")]


def _current(ledger: Ledger) -> list[RenderableType]:
    pages: list[RenderableType] = [heading("What is believed now: the strongest by project")]
    projects = [project.name for project in reversed(ledger.projects.list())]
    listed = (ledger.memories.list(project=name).all() for name in ("", *projects))
    strongest = [memory for memories in listed for memory in _strongest(memories)]
    return [*pages, render(strongest, brief=False)]


def _strongest(memories: Iterable[answers.Memory]) -> list[answers.Memory]:
    return sorted(memories, key=lambda memory: (-memory.confidence, -memory.reference_count))[:TOP]


def _changed(ledger: Ledger) -> list[RenderableType]:
    pages: list[RenderableType] = [heading("Facts that changed: nothing was overwritten")]
    for old in reversed(ledger.memories.list(statuses=["superseded"])):
        successor = ledger.memories.get(old.superseded_by) if old.superseded_by else None
        steps = ledger.history.events(old.id).all()
        reason = next((step.because for step in steps if step.type == "MemorySuperseded"), "")
        pages.append(
            Text.assemble(
                (shortened(old.content or "", 76), "dim strike"),
                ("\n  → ", "dim"),
                shortened((successor.content if successor else None) or "", 76),
                (f"\n    {shortened(reason, 76)}", "italic"),
            )
        )
    return pages


def _queue(ledger: Ledger) -> list[RenderableType]:
    queue = list(ledger.review().all())
    title = f"Waiting for review: {len(queue)} candidates that the rules found, the first 2"
    return [heading(title), render(queue[:2], brief=False)]


def _believed(ledger: Ledger, memory: answers.Memory) -> list[RenderableType]:
    title = f"Why it is believed: {shortened(memory.content or '', 60)}"
    points = ledger.memories.confidence(memory.id)
    if is_cut := len(points) > 2 * TOP:
        points = (*points[:TOP], *points[-TOP:])
    steps = "first and last steps" if is_cut else "steps"
    text = f"Its {steps}; {memory.reference_count} turns restated it."
    return [
        heading(title),
        render(points, brief=False),
        Text(f"{text} In full: memory-ledger why {memory.id}", style="dim"),
    ]


def _trail(ledger: Ledger, memory: str) -> list[RenderableType]:
    entries = ledger.history.audit(subject=memory, limit=TRAIL)
    return [heading("The audit trail of one memory, newest first"), render(entries, brief=False)]


def _then(ledger: Ledger) -> list[RenderableType]:
    """Return the beliefs of a day of the story that are no longer held."""
    now = {memory.id for memory in ledger.memories.list().all()}
    gone = [memory for memory in ledger.at(A_DAY).memories.list().all() if memory.id not in now]
    title = f"As it was known on {A_DAY}: {len(gone)} beliefs that are no longer held"
    return [heading(title), render(gone[:TOP], brief=False)]


def _without(ledger: Ledger) -> list[RenderableType]:
    """Return the beliefs without one session; nothing is written."""
    report = ledger.history.what_if(without={"session": A_SESSION})
    title = f"What if the session {A_SESSION} had never been"
    counts = f"{len(report.lost)} beliefs fewer, {len(report.gained)} held again, {len(report.changed)} with other confidence"
    pages: list[RenderableType] = [
        heading(title),
        Text(f"{counts}; {report.events} events would be void."),
    ]
    both = [
        (belief.now, belief.would_be)
        for belief in report.changed
        if belief.now is not None and belief.would_be is not None
    ]
    for now, then in both[:TOP]:
        moved = f"{now.confidence:.2f} → {then.confidence:.2f}  "
        pages.append(Text.assemble(moved, (shortened(now.content or "", 60), "dim")))
    return pages


def _sound(ledger: Ledger) -> list[RenderableType]:
    report = ledger.proof.verify()
    text = f"{report.events} events, their chain and every projection: {'sound' if report.ok else 'NOT SOUND'}."
    return [heading("Verified"), Text(text)]


def rebuilt(numbers: Mapping[str, object], *, whole: bool) -> list[RenderableType]:
    """Return the line that compares the ledger with the one that its log alone gives, and what else the demo can do."""
    if not numbers["equal"]:
        text = (
            f"before  {numbers['digest']}\nafter   {numbers['digest_after']}\nComputed again from the log: DIFFERENT."
        )
        return [Text(f"\n{text}", style="bold red")]
    text = f"Everything but the log was dropped and computed again from {numbers['events']} events: the same."
    more = "" if whole else "\nMore: demo --all shows the rest, demo --keep leaves the ledger to try commands on."
    return [Text(f"\n{text}{more}", style="dim")]
