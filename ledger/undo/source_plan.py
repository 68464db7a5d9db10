"""The plan of a distrust: everything that a source recorded and caused, event by event.

Acts of other people stay where they still fit.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger.events import PUT_BACK, AnyEvent, CommandUndone, OriginDistrusted, of, type_names
from ledger.undo.closure import Closure
from projections.views import control

_STAYING = type_names(of(effect=("lasting", "inert")))
_WHOLE = of(whole=True)  # acts on several memories: if one of their events falls, the whole command falls


class SourcePlan(Closure):
    """The events that fall with a source.

    ``base`` is what the source recorded; ``acts`` are the undos of the source that are taken back. Events of others
    that no longer fit their subject would change nothing, and become void too.
    """

    def changed(self) -> set[str]:
        """Return the subjects for which other events count in the plan than now."""
        return {stream for stream in self.streams if self._now.counting(stream) != self.reader.counting(stream)}

    def _falls(self, event: AnyEvent) -> bool:
        if isinstance(event.data, PUT_BACK):  # the events that the source put back become void again
            self._take(control.positions(event.data.ranges))
        elif isinstance(event.data, CommandUndone):
            self.acts[event.envelope.command_id] = None
            if event.envelope.command_id not in self._given_back:
                self._count_again(event.envelope.command_id)
        elif not isinstance(event.data, OriginDistrusted):  # a distrust stays until a trust ends it
            return event.type not in _STAYING
        return False

    def _falling_with(self, event: AnyEvent) -> Iterable[int]:
        if isinstance(event.data, _WHOLE):
            yield from (entry.position for entry in self._of_command(event) if not self.reader.is_out(entry.position))
        yield from (entry.position for entry in self.reader.caused_by(event))
