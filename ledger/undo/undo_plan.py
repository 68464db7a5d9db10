"""The plan of an undo: the named commands, with the commands that they caused and the commands built on them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ledger.events import AnyEvent, CommandUndone, of, type_names
from ledger.memories.state import MemoryState
from ledger.memories.turned_down import NO, turned_down
from ledger.undo import answers
from ledger.undo.closure import Closure
from ledger.undo.in_effect import is_consequence
from projections.views import control, duplicates

# An undo or a distrust ends by its own redo or trust. A distrust leaves other events: ``origin_plan``.
_NEVER_UNDONE = type_names(of(effect=("lasting", "act")))

_THIS_UNDO = ""  # the undo that is planned has no command id yet


class UndoPlan(Closure):
    """The commands that fall together; if an event falls, its whole command falls, unless the event is a consequence."""

    @property
    def named_commands(self) -> set[str]:
        """Return the commands of the events that the undo names."""
        events = map(self.reader.event, self.named_events)
        return {event.envelope.command_id for event in events if not is_consequence(event)}

    @property
    def commands(self) -> list[str]:
        """Return the commands that fall, in the order of the log.

        A command of which only a consequence falls is not among them, because the command itself stays.
        """
        events = (self.reader.event(position) for position in sorted(self.fallen))
        return list(dict.fromkeys(event.envelope.command_id for event in events if not is_consequence(event)))

    def _may_fall(self, event: AnyEvent) -> bool:
        # A person's refusal of a text holds although an earlier undo made the refusal void together with its memory. The
        # undo of the refusal itself ends that, so a refusal that the undo names falls although the event is void already.
        if event.position in self.named_events and duplicates.outlives(self.reader.connection, event.position):
            return True
        return event.type not in _NEVER_UNDONE and not self._was_undone(event)

    def _is_no_use(self, position: int) -> bool:
        """Return True if an event keeps no project: the event falls, or was undone.

        A redo cannot bring an undone event back into a project before the registration of the project is back.
        """
        return position in self.fallen or self._is_undone(position)

    def dependents(self) -> tuple[answers.Dependent, ...]:
        """Return the commands that fall though the undo does not name them, each with the first reason that is known."""
        first_events: dict[str, answers.Dependent] = {}
        named, outliving = self.named_commands, {refusal.position for refusal in self.turned_down}
        for event in map(self.reader.event, sorted(self.fallen)):
            command = event.envelope.command_id
            if command in named or is_consequence(event) or self.reader.is_void(event.position):
                continue
            if event.position in outliving:
                continue
            if command not in first_events or not first_events[command].why:
                first_events[command] = answers.dependent(event, self.why(event))
        return tuple(first_events.values())

    @cached_property
    def turned_down(self) -> tuple[answers.Dependent, ...]:
        """Return the refusals of people that stay in effect although the refused memories no longer exist."""
        refusals = list[answers.Dependent]()
        for stream in sorted(subject for subject in self.streams if subject[0] == "m"):
            events = [event for event, _ in self.reader.stream(stream)]
            refusal_falls = any(isinstance(event.data, NO) and event.position in self.fallen for event in events)
            if refusal_falls and self.reader.state(stream, self.fallen) is None:
                refused = turned_down(events, self._acts, self._is_distrusted)
                refusals += [self._refusal(*refused)] if refused is not None else []
        return tuple(refusals)

    def _refusal(self, memory: MemoryState, position: int) -> answers.Dependent:
        why = f"stays {'retracted' if memory.status == 'retracted' else 'rejected'}: {memory.content!r:.80}"
        return answers.dependent(self.reader.event(position), why)

    def _acts(self, event: AnyEvent) -> set[str]:
        """Return the command ids of the acts that keep an event void after this undo; "" stands for this undo."""
        this_undo = {_THIS_UNDO} if event.position in self.fallen else set[str]()
        return this_undo | set(control.acts(self.reader.connection, event.position))

    def _is_distrusted(self, event: AnyEvent) -> bool:
        acts = self._acts(event)
        return any(
            distrust.act in acts and control.wrote(distrust, event)
            for distrust in control.distrusted(self.reader.connection)
        )

    def _was_undone(self, event: AnyEvent) -> bool:
        """Return True if an undo of its command made an event void.

        A consequence may have been undone without its command, and does not count as undone then. If its command also
        has events that somebody asked for, one of those has to be undone too.
        """
        if not self._is_undone(event.position):
            return False
        if not is_consequence(event):
            return True
        entries = self.reader.command(event)
        asked_for = [entry.position for entry in entries if not is_consequence(self.reader.event(entry.position))]
        return not asked_for or any(map(self._is_undone, asked_for))

    def _is_undone(self, position: int) -> bool:
        return CommandUndone.__name__ in control.acts(self.reader.connection, position).values()

    def _falling_along(self, event: AnyEvent) -> Iterable[int]:
        yield from (entry.position for entry in self._rest_of_command(event)) if not is_consequence(event) else ()
        for entry in self.reader.caused_by(event):  # an observation that reacted may rest on other sources
            if not entry.subject.startswith("o_") and not self.reader.is_void(entry.position):
                yield entry.position
