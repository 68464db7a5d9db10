"""The plan of a distrust: everything that a source recorded and caused, event by event.

An undo takes whole commands. A distrust takes single events, so that what other people did stays as far as it still
fits.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.events import PUT_BACK, AnyEvent, CommandUndone, OriginDistrusted, of, type_names
from ledger.undo.closure import Closure
from projections.views import control

_STAYING = type_names(of(effect=("lasting", "inert")))
_WHOLE = of(whole=True)  # events about several memories: if one of them falls, the whole command falls


class SourcePlan(Closure):
    """The events that fall with a source: ``named_events`` are the events that the source recorded.

    If the source redid or trusted something, the events that came back thereby become void again. If the source undid
    something, the undo falls, and its events are in effect again.
    """

    def changed_subjects(self) -> set[str]:
        """Return the subjects that have other events in effect after the distrust than today."""
        return {
            stream
            for stream in self.streams
            if self._after.events_in_effect(stream) != self.reader.events_in_effect(stream)
        }

    def _may_fall(self, event: AnyEvent) -> bool:
        if isinstance(event.data, PUT_BACK):
            self._let_fall(control.positions(event.data.ranges))
            return False
        if isinstance(event.data, CommandUndone):
            undo = event.envelope.command_id
            self.falling_undos[undo] = None
            if undo not in self._reversed_undos:
                self._reverse(undo)
            return False
        if isinstance(event.data, OriginDistrusted):  # a distrust stays until a trust ends it
            return False
        return event.type not in _STAYING

    def _falling_along(self, event: AnyEvent) -> Iterable[int]:
        if isinstance(event.data, _WHOLE):
            entries = self._rest_of_command(event)
            yield from (entry.position for entry in entries if not self.reader.is_void(entry.position))
        yield from (entry.position for entry in self.reader.caused_by(event))
