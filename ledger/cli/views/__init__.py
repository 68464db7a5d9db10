"""The views of answers in a terminal: a function for the type of the answer, or else a list or a card of its fields."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from ledger.cli.terminal_text import visible
from ledger.domain.ids import message_place
from ledger.domain.text import one_line
from ledger.types import Page

if TYPE_CHECKING:
    from rich.console import RenderableType


class Raw(str):
    """A text that is printed unchanged, because it was made for a file or another program."""


class Exact(Raw):
    """A text that is printed unchanged and without an added line ending."""


ONE = {  # the views of single answers, by the type of the answer
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
    "MoveReport": "reports.moved",
    "Pack": "beliefs.pack",
    "Reinforcement": "reports.reinforcement",
    "Rendered": "sessions.rendered",
    "Stats": "reports.stats",
    "SummaryGraph": "sessions.graph",
    "UndoReport": "changes.undo",
    "VectorReport": "reports.vectors_made",
    "VerifyReport": "reports.verified",
    "WhatIf": "changes.what_if",
    "Why": "beliefs.why",
    "Window": "sessions.window",
    "WithdrawalReport": "reports.withdrawn",
}
MANY = {  # the views of lists of answers, by the type of their entries
    "Candidate": "beliefs.review",
    "Step": "beliefs.history",
}
SUBJECTS = {  # the types that are shown on one line after a write, and as a card after a read
    "Chunk", "Conflict", "Document", "Hold", "Interaction", "Memory", "Merge", "Message", "Observation", "Project",
    "Quarantined", "SessionInfo", "Summary", "Value",
}  # fmt: skip
IDS = {  # the field with the ids that ``--quiet`` prints, by the type of the answer
    "CompactionReport": "created", "DistrustReport": "command_id", "ErasureReport": "command_id", "UndoReport": "command_id",
    "Added": "memories", "ConflictReport": "found", "ExtractionReport": "kept", "Expansion": "messages",
    "HistoryChange": "invalidated", "IngestReport": "documents", "MergeReport": "proposed",
    "Pack": "items", "Window": "entries", "WithdrawalReport": "observations",
}  # fmt: skip


def render(answer: object, *, brief: bool) -> RenderableType | str:
    """Return an answer as an object of rich, or as a text to print unchanged; ``brief`` shows a subject on one line."""
    from ledger.cli.views import tables

    if hasattr(answer, "__rich_console__"):
        return cast("RenderableType", answer)
    name = type(answer).__name__
    if name in ONE:
        return _view(ONE[name])(answer)
    if isinstance(answer, Page | list | tuple) and not hasattr(answer, "_fields"):
        if isinstance(answer[0], str):
            return "".join(f"{one_line(text) or repr(text)}\n" for text in answer)
        if isinstance(answer[0], tuple) and not hasattr(answer[0], "_fields"):  # the namespaces of values
            from ledger.cli.pieces import namespace_path

            return "".join(f"{namespace_path(labels)}\n" for labels in answer)
        if isinstance(answer[0], dict):
            return _view("tables.SqlRows")(answer)
        many = MANY.get(type(answer[0]).__name__)
        return tables.table(answer) if many is None else _view(many)(answer)
    if isinstance(answer, str):
        text = answer if isinstance(answer, Raw) else visible(answer)
        return text if text.endswith("\n") or isinstance(answer, Exact) else text + "\n"
    if name in ("Checkpoint", "Proof"):  # shown as the text that the user has to keep
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
    """Return the ids in an answer for ``--quiet``, or the positions of things without ids; None if there are neither."""
    if (neighbors := getattr(answer, "neighbors", None)) is not None:
        return list(dict.fromkeys(id for neighbor in neighbors for id in neighbor.memories))
    place = IDS.get(type(answer).__name__)
    if place is not None:
        if (receipt := getattr(answer, "receipt", None)) is not None:
            return [receipt]
        if place == "command_id":  # an undo names the act by this id
            return [answer.command_id] if answer.command_id else []  # type: ignore[attr-defined]
        listed = list(getattr(answer, place)) + list(getattr(answer, "observations", ()) if place == "items" else ())
        return [_id(item) or "" for item in listed]
    if isinstance(answer, Page | list | tuple):
        item_ids = [_id(item) for item in answer]
        return None if None in item_ids else [str(id) for id in item_ids]
    if type(answer).__name__ not in SUBJECTS:
        return None
    return [] if getattr(answer, "skipped", "") else [_id(answer) or ""]


def _id(answer: object) -> str | None:
    if isinstance(answer, str):
        return answer
    for place in ("memory", "item"):
        inner = getattr(answer, place, None)
        if inner is not None and not isinstance(inner, str):
            answer = inner
    id = getattr(answer, "id", None)
    if isinstance(id, str) and id and message_place(id) is None:  # commands name a message by its position
        return id
    position = getattr(answer, "position", None)
    return str(position) if position else None
