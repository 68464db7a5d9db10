"""Merges and conflicts as people read them in a terminal: the texts side by side, for somebody has to choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ledger.answers import Memory
from ledger.cli.pieces import card_of, counted, detailed, listing, short
from ledger.cli.terminal_text import shortened
from ledger.domain.harmless import one_line
from ledger.merges.answers import Conflict, ConflictReport, Merge, MergeReport

_STYLES = {"open": "red", "proposed": "yellow", "resolved": "green", "merged": "green"}


def ids(answer: Any) -> list[str] | None:
    """The ids of what an answer lists, for ``--quiet``."""
    if isinstance(answer, MergeReport):
        return [each.id for each in answer.proposed]
    if isinstance(answer, ConflictReport):
        return [each.id for each in answer.found]
    return [each.id for each in (answer if isinstance(answer, list) else [answer])]


def merges(found: Sequence[Merge]) -> RenderableType:
    return listing("id", "alike", "memories", rows=[_merge_row(each) for each in found], right=["alike"])


def merge(found: Merge) -> RenderableType:
    return merges([found])


def proposed(found: MergeReport) -> RenderableType:
    text = f"{counted(len(found.proposed), 'merge')} proposed, {found.looked_at:,} memories looked at"
    short_of = f"of {found.cut_short:,} not all neighbors, there were too many" if found.cut_short else ""
    notes = [Text(each, style="dim") for each in (text, short_of) if each]
    return Group(*([merges(found.proposed)] if found.proposed else []), *notes)


def _merge_row(found: Merge) -> list[RenderableType]:
    would = f"→ {shortened(found.content, 100)}" if found.content else ""
    became = f"became {found.memory}" if found.memory else ""
    lines = Text("\n").join(_member(each) for each in found.memories)
    alike = f"{found.similarity:.2f}" if found.similarity else ""
    details = (found.status, found.project, found.why, became, would, found.reason)
    return [Text(found.id), Text(alike), detailed(lines, *details)]


def conflicts(found: Sequence[Conflict]) -> RenderableType:
    return listing("id", "attribute", "memories", rows=[_conflict_row(each) for each in found])


def _conflict_row(found: Conflict) -> list[RenderableType]:
    lines = Text("\n").join(_member(each) for each in found.memories)
    kept = f"kept {found.winner}" if found.winner else found.action
    return [
        Text(found.id),
        short(found.attribute, 40),
        detailed(lines, found.status, found.project, kept, found.reason),
    ]


def conflict(found: Conflict) -> RenderableType:
    fields: dict[str, object] = {
        "id": found.id,
        "status": Text(found.status, style=_STYLES.get(found.status, "")),
        "attribute": short(found.attribute),
        "project": found.project,
        "decided": found.action,
        "kept": found.winner,
        "reason": found.reason,
    }
    rows: list[list[RenderableType]] = [
        [Text(each.id), Text(one_line(found.values.get(each.id, ""))), detailed(short(each.content), _state(each))]
        for each in found.memories
    ]
    return Group(card_of(fields), listing("memory", "value", "text", rows=rows))


def found(report: ConflictReport) -> RenderableType:
    entry = Text(f"{counted(len(report.found), 'conflict')} found", style="dim")
    return Group(*([conflicts(report.found)] if report.found else []), entry)


def _member(memory: Memory) -> Text:
    state = _state(memory)
    text = short(memory.content)
    return Text.assemble((memory.id[:9] + " ", "dim"), text, (f"  {state}" if state else "", "dim"))


def _state(memory: Memory) -> str:
    return "quarantined" if memory.quarantined else "" if memory.status == "active" else memory.status
