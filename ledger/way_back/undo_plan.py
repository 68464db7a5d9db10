"""What an undo takes along: whole commands, with those that they caused and that were built on them."""

from __future__ import annotations

from collections.abc import Iterable

from ledger import answers
from ledger.domain.events import AnyEvent, CommandUndone, EdgeAsserted, ObservationRetired
from ledger.domain.observation import NO_EVIDENCE
from ledger.way_back.closure import Closure
from ledger.way_back.in_force import LASTING
from projections import control

_ACTS = ("CommandUndone", "SourceDistrusted")  # taken back by redo and trust, each by itself


class UndoPlan(Closure):
    """The commands that fall together: those of the events named, what they caused, and what makes no sense without them."""

    @property
    def named(self) -> set[str]:
        """The commands of the events named."""
        events = map(self.reader.event, self.base)
        return {event.envelope.command_id for event in events if not self.follows(event)}

    @property
    def commands(self) -> list[str]:
        """In the order of the log; what only followed is not a command that falls."""
        events = (self.reader.event(position) for position in sorted(self.out))
        return list(dict.fromkeys(event.envelope.command_id for event in events if not self.follows(event)))

    def follows(self, event: AnyEvent) -> bool:
        """Whether an event only followed from what there was, so that it falls without its command: a relation that a merge
        copied, or an observation's retirement for want of evidence, or into another."""
        if isinstance(event.data, ObservationRetired):
            return event.data.why in (NO_EVIDENCE, "merged")
        return isinstance(event.data, EdgeAsserted) and bool(self.reader.members_of(event))

    def _falls(self, event: AnyEvent) -> bool:
        return event.type not in LASTING + _ACTS and not self._is_undone(event.position)

    def _is_void(self, position: int) -> bool:
        """As above; but a redo of what was undone asks for the registration first."""
        return position in self.out or self._is_undone(position)

    def dependents(self) -> tuple[answers.Dependent, ...]:
        """The commands that fall though they were not named, each with the first of its events that says why."""
        found: dict[str, answers.Dependent] = {}
        named = self.named
        for event in map(self.reader.event, sorted(self.out)):
            command = event.envelope.command_id
            if command in named or self.follows(event) or self.reader.is_out(event.position):
                continue
            if command not in found or not found[command].why:
                found[command] = answers.dependent(event, self.why(event))
        return tuple(found.values())

    def _is_undone(self, position: int) -> bool:
        return CommandUndone.__name__ in control.acts(self.reader.connection, position).values()

    def _with(self, event: AnyEvent) -> Iterable[int]:
        yield from (entry.position for entry in self._of_command(event)) if not self.follows(event) else ()
        for entry in self.reader.caused_by(event):  # what reacted of observations may rest on other sources
            if not entry.subject.startswith("o_") and not self.reader.is_out(entry.position):
                yield entry.position
