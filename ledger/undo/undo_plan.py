"""The plan of an undo: whole commands, with the commands that they caused and those that were built on them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ledger.events import AnyEvent, CommandUndone, of, type_names
from ledger.memories.rules import MemoryState
from ledger.memories.turned_down import NO, turned_down
from ledger.undo import answers
from ledger.undo.closure import Closure
from ledger.undo.in_effect import follows
from projections.views import control, duplicates

_STAYING = type_names(of(effect=("lasting", "act")))  # an undo or a distrust ends by its own redo or trust


class UndoPlan(Closure):
    """The commands that fall together: the named ones, those they caused, and those that make no sense without them."""

    @property
    def named(self) -> set[str]:
        """Return the commands of the events named."""
        events = map(self.reader.event, self.base)
        return {event.envelope.command_id for event in events if not follows(event)}

    @property
    def commands(self) -> list[str]:
        """Return the commands that fall, in the order of the log; an event that only followed names no command."""
        events = (self.reader.event(position) for position in sorted(self.out))
        return list(dict.fromkeys(event.envelope.command_id for event in events if not follows(event)))

    def _falls(self, event: AnyEvent) -> bool:
        if event.position in self.base and duplicates.outlives(self.reader.connection, event.position):
            return True  # the refusal of a person outlives its memory, and is named here itself
        return event.type not in _STAYING and not self._was_undone(event)

    def _is_void(self, position: int) -> bool:
        """Return True if an event falls or was undone; a redo of that event asks for the registration first."""
        return position in self.out or self._is_undone(position)

    def dependents(self) -> tuple[answers.Dependent, ...]:
        """Return the commands that fall though they were not named, each with its first event that gives a reason."""
        first_events: dict[str, answers.Dependent] = {}
        named, outliving = self.named, {refusal.position for refusal in self.turned_down}
        for event in map(self.reader.event, sorted(self.out)):
            command = event.envelope.command_id
            if command in named or follows(event) or self.reader.is_out(event.position):
                continue
            if event.position in outliving:
                continue
            if command not in first_events or not first_events[command].why:
                first_events[command] = answers.dependent(event, self.why(event))
        return tuple(first_events.values())

    @cached_property
    def turned_down(self) -> tuple[answers.Dependent, ...]:
        """Return the refusals of people that hold on although the refused memories go."""
        refusals = list[answers.Dependent]()
        for stream in sorted(subject for subject in self.streams if subject[0] == "m"):
            events = [event for event, _ in self.reader.stream(stream)]
            goes = any(isinstance(event.data, NO) and event.position in self.out for event in events)
            if goes and self.reader.state(stream, self.out) is None:
                refused = turned_down(events, self._acts, self._is_distrusted)
                refusals += [self._refusal(*refused)] if refused is not None else []
        return tuple(refusals)

    def _refusal(self, memory: MemoryState, position: int) -> answers.Dependent:
        why = f"stays {'retracted' if memory.status == 'retracted' else 'rejected'}: {memory.content!r:.80}"
        return answers.dependent(self.reader.event(position), why)

    def _acts(self, event: AnyEvent) -> set[str]:
        own = {""} if event.position in self.out else set[str]()
        return own | set(control.acts(self.reader.connection, event.position))

    def _is_distrusted(self, event: AnyEvent) -> bool:
        acts = self._acts(event)
        return any(
            distrust.act in acts and control.wrote(distrust, event)
            for distrust in control.distrusted(self.reader.connection)
        )

    def _was_undone(self, event: AnyEvent) -> bool:
        """Return True if an undo took out the event, or, if the event only followed, an act of its command."""
        if not self._is_undone(event.position) or not follows(event):
            return self._is_undone(event.position)
        entries = self.reader.command(event)
        acted = [entry.position for entry in entries if not follows(self.reader.event(entry.position))]
        return not acted or any(map(self._is_undone, acted))

    def _is_undone(self, position: int) -> bool:
        return CommandUndone.__name__ in control.acts(self.reader.connection, position).values()

    def _falling_with(self, event: AnyEvent) -> Iterable[int]:
        yield from (entry.position for entry in self._of_command(event)) if not follows(event) else ()
        for entry in self.reader.caused_by(event):  # an observation that reacted may rest on other sources
            if not entry.subject.startswith("o_") and not self.reader.is_out(entry.position):
                yield entry.position
