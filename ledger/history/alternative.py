"""The hypothetical state of subjects: without some events, with other events put back, or under another confidence policy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ledger.documents import rules as document
from ledger.domain.ids import message_place
from ledger.events import (
    AnyEvent,
    MemoryReinforced,
    MessageAppended,
    MessagesHidden,
    ReinforcementEvaluated,
    TextQuarantined,
    TextReleased,
)
from ledger.observations import answers
from ledger.observations.queries import observation_answers
from ledger.observations.rules import ObservationState, supports
from ledger.undo.in_effect import Reader
from projections.core.projector import FAMILIES
from projections.views import documents, observations, projects, quarantine

_IGNORED = {"as_of": "", "position": 0}  # fields that make no difference


class Alternative:
    """A fold of the log under other assumptions.

    The ``fallen`` events are left out, the ``restored`` events count although they are void, and ``policy`` gives other gains.
    """

    def __init__(
        self,
        reader: Reader,
        fallen: Collection[int] = (),
        restored: Collection[int] = (),
        policy: Mapping[str, int] | None = None,
    ) -> None:
        self.reader = reader
        self.fallen = fallen
        self._restored = restored
        self._policy = policy
        self._ranks: dict[str, dict[str, int]] = {}
        self._live: dict[str, bool] = {}
        self._texts: dict[str, set[int]] = {}

    def state(self, stream: str) -> Any:
        """Return the state that a subject would have, or None if the subject would not exist."""
        evolve, state = FAMILIES[stream[0]].evolve, None
        for event in self._events_in_effect(stream):
            changed = self._under_policy(event)
            state = evolve(state, changed) if changed is not None else state
        return state

    def observations(
        self, streams: Iterable[str], as_of: str
    ) -> list[tuple[answers.Observation | None, answers.Observation | None]]:
        """Return each observation that would differ, as a pair of the present answer and the other answer.

        The observations among the streams are compared, and the observations that one of the streams ever supported. ``as_of``
        is the time, in stored form, at which trends are computed.
        """
        connection = self.reader.connection
        rows = set[int]()
        for stream in {*streams, *self._quarantined_or_released()}:
            rows |= {self.reader.stream(stream)[0][0].position} if stream[0] == "o" else set()
            sources = (stream, *observations.parts(connection, stream))
            rows |= {row for source in sources for row in observations.ever_supported_by(connection, source)}
        changed = []
        for row in sorted(rows):
            state = observations.get(connection, row)
            now = observation_answers(connection, [state], as_of)[0] if state is not None else None
            then = self._observation(self.reader.event(row).stream, as_of)
            if _comparable(now) != _comparable(then):
                changed.append((now, then))
        return changed

    def _quarantined_or_released(self) -> set[str]:
        """Return the subjects whose texts the fallen and restored events put into quarantine or released."""
        data = (self.reader.event(position).data for position in (*self.fallen, *self._restored))
        return {
            self.reader.event(decision.position).stream
            for decision in data
            if isinstance(decision, TextQuarantined | TextReleased)
        }

    def _observation(self, stream: str, as_of: str) -> answers.Observation | None:
        """Return the answer that an observation would have."""
        state: ObservationState | None = self.state(stream)
        if state is None:
            return None
        events = self._events_in_effect(stream)
        evidence = sorted((support.at, support.source, support.withdrawn) for support, _ in supports(events).values())
        sources = tuple(
            answers.ObservationSource(id=id, at=at, live=not withdrawn and self._is_live(id), withdrawn=withdrawn)
            for at, id, withdrawn in evidence
        )
        alive = {source.id for source in sources if source.live}
        unlisted = set(state.written_from) - {source.id for source in sources}
        alive |= {source for source in unlisted if self._is_live(source)}
        written = (event.position for event in events if getattr(event.data, "content", None) == state.text is not None)
        held = any(not self._is_free(position) for position in written)
        names = projects.names(self.reader.connection, {state.project})
        return answers.observation(state, names, sources, alive, as_of, quarantined=held)

    def _events_in_effect(self, stream: str) -> list[AnyEvent]:
        return self.reader.events_in_effect(stream, self.fallen, self._restored)

    # --- sources -------------------------------------------------------------------------------------------------

    def _is_live(self, source: str) -> bool:
        """Return True if a source would be live, by the same rules as ``observations.live``."""
        if source not in self._live:
            kinds = {"m": self._is_live_memory, "i": self._is_live_interaction, "c": self._is_live_chunk}
            is_live = (kinds | {"s": self._is_live_message}).get(source[0])
            self._live[source] = is_live is not None and is_live(source)
        return self._live[source]

    def _is_live_memory(self, memory: str) -> bool:
        state = self.state(memory)
        return state is not None and state.status == "active" and not state.quarantined and state.user is not None

    def _is_live_interaction(self, interaction: str) -> bool:
        state = self.state(interaction)
        if state is None or state.user is None:
            return False
        positions = [position for position in (state.prompt_at, state.response_at) if position is not None]
        erased = observations.without_a_text(self.reader.connection, positions)
        return not erased and all(map(self._is_free, positions))

    def _is_live_chunk(self, chunk: str) -> bool:
        place = documents.place_of(self.reader.connection, chunk)
        if place is None:
            return False
        added = self.reader.event(place[0])
        if added.stream not in self._texts:
            state = self.state(added.stream)
            is_active = state is not None and state.status == "active"
            events = self._events_in_effect(added.stream) if is_active else []
            self._texts[added.stream] = set(document.text_of(events)) if is_active else set()
        is_current = added.position in self._texts[added.stream] and added.data.content is not None
        return is_current and self._is_free(added.position)

    def _is_live_message(self, message: str) -> bool:
        session, position = message_place(message) or ("", 0)
        state = self.state(session)
        if state is None or state.user is None:
            return False
        events = self._events_in_effect(session)
        data = next((event.data for event in events if event.position == position), None)
        hidden = (span for event in events if isinstance(event.data, MessagesHidden) for span in event.data.ranges)
        if not isinstance(data, MessageAppended) or any(first <= position <= last for first, last in hidden):
            return False
        return data.content is not None and bytes(data.parts) != b"null" and self._is_free(position)

    def _is_free(self, position: int) -> bool:
        """Return True if the text of an event would not be in quarantine: the last decision in effect counts."""
        for decision, held in quarantine.decisions_on(self.reader.connection, position):
            if decision not in self.fallen and (decision in self._restored or not self.reader.is_void(decision)):
                return not held
        return True

    # --- another policy ------------------------------------------------------------------------------------------

    def _under_policy(self, event: AnyEvent) -> AnyEvent | None:
        """Return the event as the other policy would have recorded it, or None if it would not have recorded the event."""
        data = event.data
        if self._policy is None or not isinstance(data, MemoryReinforced) or data.matcher is None:
            return event
        most = self._policy.get("max_matches")
        if most is not None and self._rank(data.interaction or "", event.stream) >= most:
            return None
        gain = self._policy.get("echo_gain" if data.echo else "gain", data.delta)
        return replace(event, envelope=replace(event.envelope, data=replace(data, delta=gain)))

    def _rank(self, interaction: str, memory: str) -> int:
        """Return the rank of a memory among the matches of an interaction; 0 is the best match."""
        if interaction not in self._ranks:
            events = self.reader.stream(interaction)
            evaluations = [event.data for event, _ in events if isinstance(event.data, ReinforcementEvaluated)]
            self._ranks[interaction] = {
                match.memory: place for data in evaluations for place, match in enumerate(data.matches)
            }
        return self._ranks[interaction].get(memory, 0)


def _comparable(observation: answers.Observation | None) -> answers.Observation | None:
    """Return an observation without the fields that make no difference."""
    return None if observation is None else replace(observation, **_IGNORED)
