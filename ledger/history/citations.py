"""The messages of a session from which a memory was written.

An *attempt* is an event that captures a memory; a memory that is captured again has several attempts. If a rule wrote the
attempt, the memory comes from one message. If a model wrote it, the memory comes from the messages that the model cites; if the
model cites none, from every message that the model read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ledger.core.reads import read_event, read_stream
from ledger.events import BY_MODEL, CITES, AnyEvent, MessageAppended, ModelCalled, of
from projections.core.rows import Connection
from projections.views import audit, control

NO_MESSAGES: frozenset[int] = frozenset()
ATTEMPTS = of(begins="memory")  # the types of events that capture a memory; the memory exists while one is in effect


class Citations:
    """The positions of the messages from which memories come; model calls and messages are read once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._calls: dict[str, ModelCalled | None] = {}
        self._messages: dict[int, bool] = {}

    def behind(self, event: AnyEvent) -> frozenset[int]:
        """Return the messages from which an attempt may come."""
        own, call = self._origin(event), self._call_of(event)
        if call is None:
            return own
        cited = self._cited(call, event.stream)
        return frozenset(self._read(call)) if not cited or None in cited else own.union(self._at(cited))

    def named(self, event: AnyEvent) -> frozenset[int]:
        """Return the messages that an attempt names: those that its model call cites, else the message of its origin."""
        call = self._call_of(event)
        return self.behind(event) if call is not None and self._cited(call, event.stream) else self._origin(event)

    def memories(self, session: str) -> dict[int, list[str]]:
        """Return the memories that rest on each message of a session, by the message's position."""
        memories: dict[int, list[str]] = {}
        for row in control.dependents(self._connection, session):
            first = read_event(self._connection, row)
            assert first is not None
            for position in sorted(self.ever_behind(first.stream)):
                memories.setdefault(position, []).append(first.stream)
        return memories

    def ever_behind(self, memory: str) -> frozenset[int]:
        """Return the messages from which any attempt at a memory may come, undone attempts included."""
        return NO_MESSAGES.union(*(self.behind(event) for event in attempts(self._connection, memory)))

    # --- reading the log ---------------------------------------------------------------------------------------------

    @staticmethod
    def _origin(event: AnyEvent) -> frozenset[int]:
        origin = getattr(event.data, "origin", None)
        return frozenset((origin.position,)) if origin is not None and origin.position else NO_MESSAGES

    def _call_of(self, event: AnyEvent) -> ModelCalled | None:
        """Return the model call whose command recorded the attempt, or None if no model wrote it."""
        origin = getattr(event.data, "origin", None)
        if origin is None or not origin.extractor.startswith(BY_MODEL):
            return None
        command = event.envelope.command_id
        if command not in self._calls:
            recorded = audit.of_command(self._connection, command)
            entries = (entry for entry in recorded if entry.type == ModelCalled.__name__)
            events = (read_event(self._connection, entry.position) for entry in entries)
            self._calls[command] = next((e.data for e in events if e and isinstance(e.data, ModelCalled)), None)
        return self._calls[command]

    @staticmethod
    def _cited(call: ModelCalled, memory: str) -> list[str | None]:
        """Return the ids of the events that the call cites for a memory; None for a citation of an unknown event."""
        return [action.target for action in call.actions if action.what == CITES and action.subject == memory]

    def _at(self, cited: Iterable[str | None]) -> Iterator[int]:
        entries = (audit.by_event(self._connection, event_id) for event_id in cited if event_id is not None)
        return (entry.position for entry in entries if entry is not None)

    def _read(self, call: ModelCalled) -> Iterator[int]:
        positions = (position for first, last in call.ranges for position in range(first, last + 1))
        return filter(self._is_message, positions)

    def _is_message(self, position: int) -> bool:
        if position not in self._messages:
            entry = audit.at(self._connection, position)
            self._messages[position] = entry is not None and entry.type == MessageAppended.__name__
        return self._messages[position]


def attempts(connection: Connection, memory: str) -> list[AnyEvent]:
    """Return every event that captured a memory, undone events included."""
    events = read_stream(connection, memory, 2**62)
    return [event for event in events if isinstance(event.data, ATTEMPTS)]
