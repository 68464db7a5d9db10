"""Refusals that may not have been any: what stood in the way stood so because of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ledger.domain.events import AnyEvent, WriteRefused
from ledger.domain.memory import Memory
from ledger.history.source_plan import SourcePlan
from ledger.policies import admission

State = Memory | None
Moved = Iterable[tuple[str, State, State]]  # (memory, how it stood, how it would have stood), just before an event
_LASTING = ("undo", "history.undo_all", "redo")  # what they refuse can never be undone, whatever else is so
_SOURCES = ("i", "d", "s")


def may_not_have_been(plan: SourcePlan, event: AnyEvent, moved: Callable[[], Moved]) -> bool:
    """Whether a refusal could have been none; ``moved`` gives the memories that would have stood otherwise then."""
    data: WriteRefused = event.data
    subject, touched = data.subject or "", plan.streams | plan.gone
    match data.rule.partition(":")[0]:
        case "duplicate":
            return True
        case "transition" if subject[:1] == "m":
            return any(stream == subject and _status(was) != _status(would) for stream, was, would in moved())
        case "transition" if subject:
            return subject in touched
        case "transition":
            return event.envelope.command not in _LASTING and any(stream[0] in _SOURCES for stream in touched)
        case "evidence" | "merge":  # which ones were asked for is not told
            changed = any(stream[0] in "di" for stream in plan.streams - plan.gone)
            return changed or any(_is_used(would) and not _is_used(was) for _, was, would in moved())
        case "obsolete" | "conflict":
            return subject in touched or _is_about_one_of(plan, subject, moved())
        case "budget":
            return _would_fit(data, moved())
        case _:
            return False


def _status(state: State) -> str | None:
    return state.status if state is not None else None


def _is_used(state: State) -> bool:
    return state is not None and state.status == "active" and not state.quarantined


def _is_about_one_of(plan: SourcePlan, subject: str, moved: Moved) -> bool:
    """Whether a proposal or a conflict is about one that was in use and would not have been, or said something else."""
    state = plan.reader.state(subject) if subject else None
    members = getattr(state, "memories", ()) or getattr(state, "members", ())
    return any(stream in members and _use(was) != _use(would) for stream, was, would in moved)


def _use(state: State) -> object:
    return (state.status, state.quarantined, state.content) if state is not None else None


def _would_fit(data: WriteRefused, moved: Moved) -> bool:
    group = data.rule.partition(":")[2]
    room = sum(_chars(was, group) - _chars(would, group) for _, was, would in moved)
    if room <= 0 or data.limit is None or data.current is None or data.requested is None:
        return room > 0
    return data.current - room + data.requested <= data.limit


def _chars(state: State, group: str) -> int:
    if state is None or state.status != "active" or admission.group_of(state.kind) != group:
        return 0
    return len(state.content or "")
