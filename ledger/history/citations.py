"""From which messages of a session a memory was written: what a rule found lies in one, and a model says what it cites.

Where a call does not say what was cited, whatever it read may have come into what it wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ledger.domain.events import AnyEvent, MessageAppended, ModelCalled, of
from ledger.engine.log_reading import read_event, read_stream
from ledger.policies.turns import CITES, MODEL_EXTRACTOR
from projections.core.rows import Connection
from projections.views import audit, control

NOWHERE: frozenset[int] = frozenset()
ATTEMPTS = of(begins="memory")  # each is enough for a memory to be there


class Citations:
    """The messages behind memories, by their positions; what was read once is kept."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._calls: dict[str, ModelCalled | None] = {}
        self._stated: dict[int, bool] = {}

    def behind(self, event: AnyEvent) -> frozenset[int]:
        """The messages that an attempt at a memory may have come from."""
        own, call = self._origin(event), self._call_of(event)
        if call is None:
            return own
        cited = self._cited(call, event.stream)
        return frozenset(self._read(call)) if not cited or None in cited else own.union(self._at(cited))

    def named(self, event: AnyEvent) -> frozenset[int]:
        """Those that it names: where nothing says what was cited, the one that it was found in."""
        call = self._call_of(event)
        return self.behind(event) if call is not None and self._cited(call, event.stream) else self._origin(event)

    def memories(self, session: str) -> dict[int, list[str]]:
        """The memories that rest on each message of a session, by its position."""
        found: dict[int, list[str]] = {}
        for row in control.dependents(self._connection, session):
            first = read_event(self._connection, row)
            assert first is not None
            for position in sorted(self.ever_behind(first.stream)):
                found.setdefault(position, []).append(first.stream)
        return found

    def ever_behind(self, memory: str) -> frozenset[int]:
        """The messages that any attempt at a memory may have come from, in effect or not."""
        return NOWHERE.union(*(self.behind(event) for event in attempts(self._connection, memory)))

    # --- what the log says -------------------------------------------------------------------------------------------

    @staticmethod
    def _origin(event: AnyEvent) -> frozenset[int]:
        origin = getattr(event.data, "origin", None)
        return frozenset((origin.position,)) if origin is not None and origin.position else NOWHERE

    def _call_of(self, event: AnyEvent) -> ModelCalled | None:
        """The call that wrote it, where a model read a session."""
        origin = getattr(event.data, "origin", None)
        if origin is None or origin.extractor != MODEL_EXTRACTOR:
            return None
        command = event.envelope.command_id
        if command not in self._calls:
            entries = (
                each for each in audit.of_command(self._connection, command) if each.type == ModelCalled.__name__
            )
            events = (read_event(self._connection, each.position) for each in entries)
            self._calls[command] = next((e.data for e in events if e and isinstance(e.data, ModelCalled)), None)
        return self._calls[command]

    @staticmethod
    def _cited(call: ModelCalled, memory: str) -> list[str | None]:
        """The ids of the messages' events; None for what cites nothing that there is."""
        return [each.target for each in call.actions if each.what == CITES and each.subject == memory]

    def _at(self, cited: Iterable[str | None]) -> Iterator[int]:
        entries = (audit.by_event(self._connection, each) for each in cited if each is not None)
        return (entry.position for entry in entries if entry is not None)

    def _read(self, call: ModelCalled) -> Iterator[int]:
        return (each for first, last in call.ranges for each in range(first, last + 1) if self._is_message(each))

    def _is_message(self, position: int) -> bool:
        if position not in self._stated:
            entry = audit.at(self._connection, position)
            self._stated[position] = entry is not None and entry.type == MessageAppended.__name__
        return self._stated[position]


def attempts(connection: Connection, memory: str) -> list[AnyEvent]:
    """Every time that a memory was captured, in effect or not."""
    events = read_stream(connection, memory, 2**62)
    return [event for event in events if isinstance(event.data, ATTEMPTS)]
