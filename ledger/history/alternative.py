"""How subjects would stand without some events, with others put back, or under another confidence policy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from ledger.domain import document
from ledger.domain.events import (
    AnyEvent,
    MemoryReinforced,
    MessageAppended,
    MessagesHidden,
    ReinforcementEvaluated,
    TextQuarantined,
    TextReleased,
)
from ledger.domain.ids import message_place
from ledger.domain.observation import Observation, supports
from ledger.history.in_effect import Reader
from ledger.observations import answers
from ledger.observations.queries import observation_answers
from projections.core.projector import FAMILIES
from projections.views import documents, observations, projects, quarantine

_ASIDE = {"as_of": "", "position": 0}


class Alternative:
    """The fold under other assumptions: without some events, with others again, and with other gains."""

    def __init__(
        self,
        reader: Reader,
        out: Collection[int] = (),
        again: Collection[int] = (),
        policy: Mapping[str, int] | None = None,
    ) -> None:
        self.reader, self.out, self._again, self._policy = reader, out, again, policy
        self._ranks: dict[str, dict[str, int]] = {}
        self._live: dict[str, bool] = {}
        self._texts: dict[str, set[int]] = {}

    def state(self, stream: str) -> Any:
        """What the subject would be; None where it would not be there."""
        evolve, state = FAMILIES[stream[0]].evolve, None
        for event in self._counting(stream):
            under = self._under(event)
            state = evolve(state, under) if under is not None else state
        return state

    def observations(
        self, streams: Iterable[str], as_of: str
    ) -> list[tuple[answers.Observation | None, answers.Observation | None]]:
        """The observations among these subjects, and those that any of them ever bore out, that would stand otherwise: each as
        it is and as it would be, with its trend at ``as_of`` (stored form)."""
        connection = self.reader.connection
        rows = set[int]()
        for stream in {*streams, *self._held_or_released()}:
            rows |= {self.reader.stream(stream)[0][0].position} if stream[0] == "o" else set()
            sources = (stream, *observations.parts(connection, stream))
            rows |= {row for source in sources for row in observations.ever_supported_by(connection, source)}
        found = []
        for row in sorted(rows):
            state = observations.get(connection, row)
            now = observation_answers(connection, [state], as_of)[0] if state is not None else None
            then = self._observation(self.reader.event(row).stream, as_of)
            if _comparable(now) != _comparable(then):
                found.append((now, then))
        return found

    def _held_or_released(self) -> set[str]:
        """The subjects of the texts that some of these events put into quarantine or let out."""
        written = (self.reader.event(position).data for position in (*self.out, *self._again))
        return {
            self.reader.event(each.position).stream
            for each in written
            if isinstance(each, TextQuarantined | TextReleased)
        }

    def _observation(self, stream: str, as_of: str) -> answers.Observation | None:
        state: Observation | None = self.state(stream)
        if state is None:
            return None
        events = self._counting(stream)
        evidence = sorted((each.at, each.source, each.withdrawn) for each, _ in supports(events).values())
        sources = tuple(
            answers.ObservationSource(id=id, at=at, live=not gone and self._is_live(id), withdrawn=gone)
            for at, id, gone in evidence
        )
        alive = {each.id for each in sources if each.live}
        alive |= {each for each in set(state.written_from) - {source.id for source in sources} if self._is_live(each)}
        written = (event.position for event in events if getattr(event.data, "content", None) == state.text is not None)
        held = any(not self._is_free(position) for position in written)
        names = projects.names(self.reader.connection, {state.project})
        return answers.observation(state, names, sources, alive, as_of, quarantined=held)

    def _counting(self, stream: str) -> list[AnyEvent]:
        return self.reader.counting(stream, self.out, self._again)

    # --- sources -------------------------------------------------------------------------------------------------

    def _is_live(self, source: str) -> bool:
        """Whether a source would count as proof, by the same rules as ``observations.live``."""
        if source not in self._live:
            kinds = {"m": self._is_live_memory, "i": self._is_live_interaction, "c": self._is_live_chunk}
            found = (kinds | {"s": self._is_live_message}).get(source[0])
            self._live[source] = found is not None and found(source)
        return self._live[source]

    def _is_live_memory(self, memory: str) -> bool:
        state = self.state(memory)
        return state is not None and state.status == "active" and not state.quarantined and state.user is not None

    def _is_live_interaction(self, interaction: str) -> bool:
        state = self.state(interaction)
        if state is None or state.user is None:
            return False
        positions = [each for each in (state.prompt_at, state.response_at) if each is not None]
        erased = observations.without_a_text(self.reader.connection, positions)
        return not erased and all(map(self._is_free, positions))

    def _is_live_chunk(self, chunk: str) -> bool:
        place = documents.place_of(self.reader.connection, chunk)
        if place is None:
            return False
        added = self.reader.event(place[0])
        if added.stream not in self._texts:
            state = self.state(added.stream)
            there = state is not None and state.status == "active"
            self._texts[added.stream] = set(document.text_of(self._counting(added.stream))) if there else set()
        is_there = added.position in self._texts[added.stream] and added.data.content is not None
        return is_there and self._is_free(added.position)

    def _is_live_message(self, message: str) -> bool:
        session, position = message_place(message) or ("", 0)
        state = self.state(session)
        if state is None or state.user is None:
            return False
        events = self._counting(session)
        data = next((event.data for event in events if event.position == position), None)
        hidden = (each for event in events if isinstance(event.data, MessagesHidden) for each in event.data.ranges)
        if not isinstance(data, MessageAppended) or any(first <= position <= last for first, last in hidden):
            return False
        return data.content is not None and bytes(data.parts) != b"null" and self._is_free(position)

    def _is_free(self, position: int) -> bool:
        """Whether the last word that would count on the text of an event is not that it is in quarantine."""
        for at, held in quarantine.decisions_on(self.reader.connection, position):
            if at not in self.out and (at in self._again or not self.reader.is_out(at)):
                return not held
        return True

    # --- another policy ------------------------------------------------------------------------------------------

    def _under(self, event: AnyEvent) -> AnyEvent | None:
        """The event as the other policy would have it; None where it would not have been."""
        data = event.data
        if self._policy is None or not isinstance(data, MemoryReinforced) or data.matcher is None:
            return event
        most = self._policy.get("max_matches")
        if most is not None and self._rank(data.interaction or "", event.stream) >= most:
            return None
        gain = self._policy.get("echo_gain" if data.echo else "gain", data.delta)
        return replace(event, envelope=replace(event.envelope, data=replace(data, delta=gain)))

    def _rank(self, interaction: str, memory: str) -> int:
        """The place of a memory among the matches of an interaction, best first."""
        if interaction not in self._ranks:
            events = self.reader.stream(interaction)
            found = [event.data for event, _ in events if isinstance(event.data, ReinforcementEvaluated)]
            self._ranks[interaction] = {
                match.memory: place for data in found for place, match in enumerate(data.matches)
            }
        return self._ranks[interaction].get(memory, 0)


def _comparable(found: answers.Observation | None) -> answers.Observation | None:
    """All that is told of an observation but where it is in the log, and the moment of the answer."""
    return None if found is None else replace(found, **_ASIDE)
