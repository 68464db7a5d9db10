"""How answers look in a terminal: by the type of the answer, a view of its own, or else a list or a card of its fields."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from ledger.cli.terminal_text import visible
from ledger.domain.harmless import one_line
from ledger.domain.ids import message_place
from ledger.types import Page

if TYPE_CHECKING:
    from rich.console import RenderableType


class Raw(str):
    """A text that was made to be printed or kept as it is."""


ONE = {  # the view of an answer of a type
    "Added": "reports.messages_added",
    "Bisection": "reports.bisection",
    "Blame": "beliefs.blame",
    "CompactionReport": "sessions.compaction",
    "ConflictReport": "reports.conflicts_found",
    "Diff": "changes.diff",
    "DistrustReport": "changes.distrust",
    "DoctorReport": "reports.health",
    "ErasureReport": "changes.erasure",
    "Explanation": "reports.explanation",
    "Expansion": "sessions.expansion",
    "ExtractionReport": "reports.extraction",
    "Graph": "graphs.tree",
    "Hits": "sessions.hits",
    "HistoryChange": "sessions.change",
    "ImportReport": "reports.imported",
    "IngestReport": "reports.added",
    "MergeReport": "reports.merges_proposed",
    "Pack": "beliefs.pack",
    "Reinforcement": "reports.reinforcement",
    "Rendered": "sessions.rendered",
    "Stats": "reports.stats",
    "SummaryGraph": "sessions.graph",
    "UndoReport": "changes.undo",
    "VerifyReport": "reports.verified",
    "WhatIf": "changes.what_if",
    "Why": "beliefs.why",
    "Window": "sessions.window",
    "WithdrawalReport": "reports.withdrawn",
}
MANY = {  # ... of a list of them
    "Candidate": "beliefs.review",
    "Step": "beliefs.history",
}
SUBJECTS = {  # what a write answers with a line, and a read with a card
    "Chunk", "Conflict", "Document", "Hold", "Interaction", "Memory", "Merge", "Message", "Observation", "Project",
    "Quarantined", "SessionInfo", "Summary",
}  # fmt: skip
IDS = {  # answers that list others: where the ids stand that ``--quiet`` prints
    "CompactionReport": "created", "DistrustReport": "command_id", "ErasureReport": "command_id", "UndoReport": "command_id",
    "Added": "memories", "ConflictReport": "found", "ExtractionReport": "kept", "Expansion": "messages",
    "HistoryChange": "invalidated", "IngestReport": "documents", "MergeReport": "proposed",
    "Pack": "items", "Window": "entries", "WithdrawalReport": "observations",
}  # fmt: skip


def render(answer: object, *, brief: bool) -> RenderableType | str:
    """What rich prints; a text is printed as it is. ``brief`` shows a subject on one line."""
    from ledger.cli.views import tables

    if hasattr(answer, "__rich_console__"):
        return cast("RenderableType", answer)
    name = type(answer).__name__
    if name in ONE:
        return _view(ONE[name])(answer)
    if isinstance(answer, Page | list | tuple) and not hasattr(answer, "_fields"):
        if isinstance(answer[0], str):
            return "".join(f"{one_line(each) or repr(each)}\n" for each in answer)
        if isinstance(answer[0], dict):
            return _view("tables.Rows")(answer)
        many = MANY.get(type(answer[0]).__name__)
        return tables.table(answer) if many is None else _view(many)(answer)
    if isinstance(answer, str):
        text = answer if isinstance(answer, Raw) else visible(answer)
        return text if text.endswith("\n") else text + "\n"
    if name in ("Checkpoint", "Proof"):  # the text that is made to be kept
        return str(getattr(answer, "text", None) or answer.as_text())  # type: ignore[attr-defined]
    if name in SUBJECTS:
        if why := getattr(answer, "skipped", ""):
            return _view("sessions.not_stored")(why)
        return tables.table([answer]) if brief else tables.card(answer)
    return tables.numbers(answer)


def _view(name: str) -> Callable[[object], RenderableType]:
    module, _, function = name.partition(".")
    view: Callable[[object], RenderableType] = getattr(import_module(f"ledger.cli.views.{module}"), function)
    return view


def ids(answer: object) -> list[str] | None:
    """What an answer lists, for ``--quiet``: ids, or positions where there are none; None where it is no list of subjects."""
    if (neighbors := getattr(answer, "neighbors", None)) is not None:
        return list(dict.fromkeys(id for each in neighbors for id in each.memories))
    place = IDS.get(type(answer).__name__)
    if place is not None:
        if (receipt := getattr(answer, "receipt", None)) is not None:
            return [receipt]
        if place == "command_id":  # by which the act is named that takes it back
            return [answer.command_id] if answer.command_id else []  # type: ignore[attr-defined]
        listed = list(getattr(answer, place)) + list(getattr(answer, "observations", ()) if place == "items" else ())
        return [_id(each) or "" for each in listed]
    if isinstance(answer, Page | list | tuple):
        found = [_id(each) for each in answer]
        return None if None in found else [str(each) for each in found]
    if type(answer).__name__ not in SUBJECTS:
        return None
    return [] if getattr(answer, "skipped", "") else [_id(answer) or ""]


def _id(found: object) -> str | None:
    if isinstance(found, str):
        return found
    for place in ("memory", "item"):
        inner = getattr(found, place, None)
        if inner is not None and not isinstance(inner, str):
            found = inner
    id = getattr(found, "id", None)
    if isinstance(id, str) and id and message_place(id) is None:  # a message is named by its position
        return id
    position = getattr(found, "position", None)
    return str(position) if position else None
