"""The plan of a distrust: everything that an origin recorded and caused, event by event.

An undo takes whole commands. A distrust takes single events, so that what other people did stays as far as it still
fits.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.events import PUT_BACK, WAYS_BACK, AnyEvent, CommandUndone, of, type_names
from ledger.undo import answers
from ledger.undo.closure import Closure
from ledger.undo.in_effect import is_consequence
from projections.views import control

_NEVER_DISTRUSTED = type_names(of(effect=("lasting", "inert")))  # an undo leaves other events: ``undo_plan``
_WHOLE = of(whole=True)  # events about several memories: if one of them falls, the whole command falls


class OriginPlan(Closure):
    """The events that fall with an origin: ``named_events`` are the events that the origin recorded.

    An act of the origin stays in the log as it is, and its effect is reversed. If the origin redid or trusted something,
    the events that came back thereby become void again. If the origin undid something, the events of the undo are in
    effect again. A distrust by the origin is not reversed: it stays until a trust ends it.
    """

    def changed_subjects(self) -> set[str]:
        """Return the subjects that have other events in effect after the distrust than today."""
        return {
            stream
            for stream in self.streams
            if self._after.events_in_effect(stream) != self.reader.events_in_effect(stream)
        }

    def decisions_of_others(self) -> tuple[answers.Dependent, ...]:
        """Return the commands of others that fall because they do not fit any more what stays of their subjects.

        What rests on the origin, or was caused by it, is not among them.
        """
        unfit = (pair for position, pair in sorted(self.unfit.items()) if position not in self.named_events)
        return tuple(
            answers.dependent(event, self.why(event))
            for event, state in unfit
            if (state is not None or event.stream not in self.gone)
            and not is_consequence(event)
            and not self.reader.is_void(event.position)
        )

    def _may_fall(self, event: AnyEvent) -> bool:
        return not isinstance(event.data, WAYS_BACK) and event.type not in _NEVER_DISTRUSTED

    def _reverse_act(self, event: AnyEvent) -> None:
        if isinstance(event.data, PUT_BACK):
            self._let_fall(control.positions(event.data.ranges))
        if isinstance(event.data, CommandUndone):
            undo = event.envelope.command_id
            self.falling_undos[undo] = None
            if undo not in self._reversed_undos:
                self._reverse(undo)

    def _falling_along(self, event: AnyEvent) -> Iterable[int]:
        if isinstance(event.data, _WHOLE):
            entries = self._rest_of_command(event)
            yield from (entry.position for entry in entries if not self.reader.is_void(entry.position))
        yield from (entry.position for entry in self.reader.caused_by(event))
