"""What falls with a source: all that it recorded and caused, event by event; other people's acts stay where they still fit."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.domain.events import PUT_BACK, AnyEvent, CommandUndone, OriginDistrusted, of, type_names
from ledger.history.closure import Closure
from ledger.history.conversations import ON_SUMMARIES
from ledger.history.in_effect import follows
from projections.views import control

_STAYING = type_names(of(effect=("lasting", "inert")))
_WHOLE = of(whole=True)  # acts on several memories: without one of them the whole command falls


class SourcePlan(Closure):
    """``base`` is what the source recorded, ``acts`` are the undos of the source that are taken back.

    Of others ``senseless`` are the events that do not fit what their subject would be, and ``groundless`` those on a subject
    that would not be there: they would change nothing, and are void so that nobody takes them for what was built on it.
    """

    @property
    def senseless(self) -> list[AnyEvent]:
        found = (event for event, state in self.unfit.values() if state is not None and not follows(event))
        return [event for event in found if event.stream[0] != "s" or isinstance(event.data, ON_SUMMARIES)]

    @property
    def groundless(self) -> dict[int, AnyEvent]:
        return {position: event for position, (event, state) in self.unfit.items() if state is None}

    def changed(self) -> set[str]:
        """The subjects that count other events then than they do."""
        return {stream for stream in self.streams if self._now.counting(stream) != self.reader.counting(stream)}

    def _falls(self, event: AnyEvent) -> bool:
        if isinstance(event.data, PUT_BACK):  # what the source put back falls again
            self._take(control.positions(event.data.ranges))
        elif isinstance(event.data, CommandUndone):
            self.acts[event.envelope.command_id] = None
            if event.envelope.command_id not in self._given_back:
                self._count_again(event.envelope.command_id)
        elif not isinstance(event.data, OriginDistrusted):  # which is judged by itself
            return event.type not in _STAYING
        return False

    def _with(self, event: AnyEvent) -> Iterable[int]:
        if isinstance(event.data, _WHOLE):
            yield from (e.position for e in self._of_command(event) if not self.reader.is_out(e.position))
        yield from (entry.position for entry in self.reader.caused_by(event))
