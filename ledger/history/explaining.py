"""The explanation of a command in sentences: its events, its reason, its cause and its consequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ledger.core.engine import ReadingEngine
from ledger.domain.errors import NotFoundError
from ledger.domain.text import one_line
from ledger.history import answers
from ledger.history.audit import entries_shown
from projections.core.rows import Connection
from projections.views import audit, control
from projections.views.audit import AuditRow

NAMED = 5  # the most events or commands that a sentence lists
QUOTED_CHARS = 80  # the most characters of a quoted text


def explain(engine: ReadingEngine, user: str, position: int) -> answers.Explanation:
    """Return the explanation of the command that recorded an event of this user."""
    with engine.reading() as connection:
        entry = audit.at(connection, position) if 0 < position < 2**63 else None
        if entry is None or entry.user != user:
            raise NotFoundError(f"no event of this user is at position {position if abs(position) < 10**18 else '…'}")
        events = audit.command_at(connection, position)
        cause = audit.by_event(connection, entry.causation_id) if entry.causation_id is not None else None
        cause = cause if cause is not None and cause.user == user else None
        led_to = [reaction for event in events for reaction in _reactions(connection, event)]
        act_ids = dict.fromkeys(act for event in events for act in control.acts(connection, event.position))
        acts = [act for id in act_ids if (act := audit.by_event(connection, id)) is not None]
        shown = entries_shown(connection, [*events, *([cause] if cause is not None else []), *led_to, *acts])
    by_position = {answer.position: answer for answer in shown}
    recorded = [by_position[event.position] for event in events]
    cause_entry = by_position[cause.position] if cause is not None else None
    reactions = [by_position[reaction.position] for reaction in led_to]
    voiding = [by_position[act.position] for act in acts]
    return answers.Explanation(
        position=position,
        command_id=entry.command_id,
        text=" ".join(_sentences(recorded, cause_entry, reactions, voiding)),
        events=tuple(recorded),
        cause=cause_entry,
        led_to=tuple(reactions),
        voided_by=tuple(voiding),
    )


def _reactions(connection: Connection, event: AuditRow) -> Iterable[AuditRow]:
    """Return the entries of other commands of this user that an event caused."""
    caused = audit.trail(connection, user=event.user, causation_id=event.event_id, limit=-1)
    return [entry for entry in reversed(caused) if entry.command_id != event.command_id and entry.user == event.user]


def _sentences(
    recorded: Sequence[answers.AuditEntry],
    cause: answers.AuditEntry | None,
    led_to: Sequence[answers.AuditEntry],
    voiding: Sequence[answers.AuditEntry],
) -> Iterable[str]:
    first = recorded[0]
    through = f" through {one_line(first.client)}" if first.client else ""
    yield f"{_who(first)} called {first.command}{through} on {first.recorded_at[:19].replace('T', ' at ')} UTC."
    yield f"It recorded {_listed([f'{event.type} of {event.subject}{_quoted(event.content)}' for event in recorded])}."
    if reason := next((event.reason for event in recorded if event.reason), ""):
        yield f"The reason given is{_quoted(reason)}."
    if cause is not None:
        yield f"It reacted to {cause.type} at position {cause.position}, which {_who(cause)} recorded by {cause.command}."
    firsts = {entry.command_id: entry for entry in reversed(led_to)}
    if firsts:
        order = sorted(firsts.values(), key=lambda entry: entry.position)
        commands = [f"{entry.command} at position {entry.position} by {_who(entry)}" for entry in order]
        yield f"It led to {_listed(commands)}."
    for act in voiding:
        yield f"It is not in effect since position {act.position}: {_who(act)} called {act.command}{_quoted(act.reason)}."


def _who(entry: answers.AuditEntry) -> str:
    return one_line(entry.actor) if entry.actor else "somebody unnamed"


def _quoted(text: str) -> str:
    line = one_line(text)
    return f" “{line if len(line) <= QUOTED_CHARS else line[: QUOTED_CHARS - 1] + '…'}”" if line else ""


def _listed(parts: Sequence[str]) -> str:
    more = [f"{len(parts) - NAMED:,} more"] if len(parts) > NAMED else []
    *most, last = [*parts[:NAMED], *more]
    return f"{', '.join(most)} and {last}" if most else last
