"""What others did in a place, or with a part of a conversation, that would have been another without the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ledger.domain.events import (
    AnyEvent,
    ExtractionCursorMoved,
    MessageAppended,
    MessagesHidden,
    SummaryCreated,
    of,
)
from ledger.history.in_effect import INERT, LASTING, NAMES
from ledger.history.source_plan import SourcePlan

_NAMING = {  # and the column of the trail that it decides
    kind.__name__: kind.traits.governs for kind in of(governs=("project", "session"))
}
Found = tuple[AnyEvent, str]


def named(plan: SourcePlan, user: str) -> Iterator[Found]:
    """What others recorded under a project or session after the source had given that a name: by which name is not told."""
    since: dict[tuple[str, str], int] = {}
    for event in (plan.reader.event(position) for position in plan.out):
        if (column := _NAMING.get(event.type)) is not None:
            for place in {event.stream, getattr(event.data, "to", None) or event.stream}:
                since[column, place] = min(event.position, since.get((column, place), event.position))
    for (column, place), first in sorted(since.items()):
        sql = f"SELECT position FROM audit WHERE {column} = ? AND position > ? AND user = ? ORDER BY position"
        commands = set[str]()
        for (position,) in plan.reader.connection.execute(sql, (place, first, user)).fetchall():
            written = plan.reader.event(position)
            is_known = position in plan.out or written.type in (*NAMES, *INERT, *LASTING)
            if not is_known and written.envelope.command_id not in commands:
                commands.add(written.envelope.command_id)
                yield written, f"it may have been asked for by a name that the source gave this {column}"


def in_conversations(plan: SourcePlan) -> Iterator[Found]:
    """Of conversations: what others hid, read or summed up of messages some of which the source said."""
    for stream in sorted(each for each in plan.streams if each[0] == "s"):
        events = plan.reader.stream(stream)
        fell = [e.position for e, _ in events if e.position in plan.out and isinstance(e.data, MessageAppended)]
        if not fell:
            continue
        others = {event.position for event, counts in events if counts and not _is_base(plan, event)}
        for event, _ in events:
            if event.position in others and (why := _why(event, fell)):
                yield event, why


def _is_base(plan: SourcePlan, event: AnyEvent) -> bool:
    """Whether an event falls because the source recorded it, and not for what it was made of."""
    return event.position in plan.base


def _why(event: AnyEvent, fell: Sequence[int]) -> str:
    data = event.data
    if isinstance(data, MessagesHidden) and data.why != "clear" and fell[0] < event.position:
        return "which messages it was about followed from how many there were"
    if isinstance(data, SummaryCreated) and any(_within(span, fell) for span in data.ranges):
        return "it would have been written from the other messages alone"
    if isinstance(data, ExtractionCursorMoved) and _within((data.since + 1, data.to), fell):
        return "it looked at messages of the source among others"
    return ""


def _within(span: tuple[int, int], positions: Sequence[int]) -> bool:
    return any(span[0] <= position <= span[1] for position in positions)
