"""The log as a plan reads it: the events in effect, the state without or with some events, and what rests on what."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from ledger.core.log_reading import read_event, read_stream
from ledger.domain.errors import UnknownEventError
from ledger.domain.ids import message_place
from ledger.events import (
    PUT_BACK,
    AnyEvent,
    MemoriesMerged,
    MemoryReinforced,
    ObservationRetracted,
    ReinforcementEvaluated,
    RelationAdded,
    Unknown,
    of,
    type_names,
)
from ledger.history.citations import ATTEMPTS, Citations
from ledger.observations.rules import NO_EVIDENCE, supports
from projections.core.projector import FAMILIES
from projections.core.rows import Connection
from projections.views import audit, confidence, conflicts, control, documents, merges, observations

NAMES = type_names(of(effect="name"))  # stay while others use the name; an unused name harms nobody
LASTING = type_names((*of(effect="lasting"), *PUT_BACK))  # final, or ended only by an act of its own kind
INERT = type_names(of(effect="inert"))
_RESTING = type_names(of(falls_with_cause=False))


class Reader:
    """The log and the events in effect, read through one connection and cached.

    The positions ``back`` count as in effect, whatever keeps them out.
    """

    def __init__(self, connection: Connection, back: Collection[int] = ()) -> None:
        self.connection, self._back = connection, frozenset(back)
        self.citations = Citations(connection)
        self._events: dict[int, AnyEvent] = {}
        self._streams: dict[str, list[tuple[AnyEvent, bool]]] = {}
        self._were_out: dict[str, dict[int, list[tuple[int, int]]]] = {}
        self._found_in: dict[str, dict[int, list[str]]] = {}
        self._commands: dict[str, list[audit.AuditRow]] = {}

    def event(self, position: int) -> AnyEvent:
        if position not in self._events:
            event = read_event(self.connection, position)
            assert event is not None
            self._events[position] = event
        return self._events[position]

    def command(self, event: AnyEvent) -> list[audit.AuditRow]:
        """Return the entries of an event's command, in order."""
        command_id = event.envelope.command_id
        if command_id not in self._commands:
            self._commands[command_id] = audit.command_at(self.connection, event.position)
        return self._commands[command_id]

    def stream(self, stream: str) -> list[tuple[AnyEvent, bool]]:
        """Return the events of a subject, each with True if the event is in effect.

        Raises:
            UnknownEventError: This version cannot read an event of the subject, so nothing is decided about it.
        """
        if stream not in self._streams:
            sql = "SELECT o.position FROM events e CROSS JOIN voided o ON o.position = e.position WHERE e.stream = ?"
            out = {position for (position,) in self.connection.execute(sql, (stream,))} - self._back
            events = read_stream(self.connection, stream, 2**62)
            if any(isinstance(event.data, Unknown) for event in events):
                raise UnknownEventError(
                    f"{stream} has an event of a newer version of memory-ledger, so this version can make none of its"
                    " events void or put them back"
                )
            self._streams[stream] = [(event, event.position not in out) for event in events]
        return self._streams[stream]

    def was_out(self, stream: str) -> dict[int, list[tuple[int, int]]]:
        """Return the positions of a stream that were ever void, each with the spans of the log in which they were."""
        if stream not in self._were_out:
            spans: dict[int, list[tuple[int, int]]] = {}
            for table, until in (("voided", 2**62), ("were_voided", "o.to_position")):
                sql = (
                    f"SELECT o.position, o.from_position, {until} FROM events e"
                    f" CROSS JOIN {table} o ON o.position = e.position WHERE e.stream = ?"
                )
                for position, since, to in self.connection.execute(sql, (stream,)):
                    spans.setdefault(position, []).append((since, to))
            self._were_out[stream] = spans
        return self._were_out[stream]

    def counting(self, stream: str, but: Collection[int] = (), also: Collection[int] = ()) -> list[AnyEvent]:
        """Return the events of a stream that would count without ``but`` and with ``also``."""
        events = self.stream(stream)
        return [event for event, counts in events if (counts or event.position in also) and event.position not in but]

    def state(self, stream: str, but: Collection[int] = (), also: Collection[int] = ()) -> Any:
        """Return the state that the subject would have without ``but`` and with ``also``."""
        family, state = FAMILIES[stream[0]], None
        for event in self.counting(stream, but, also):
            state = family.evolve(state, event)
        return state

    def is_gone(self, subject: str, but: Collection[int] = (), also: Collection[int] = ()) -> bool:
        """Return True if a cited subject would not exist; a subject that this version does not keep counts as there.

        A chunk that a newer text no longer has was read all the same: it goes with the event that added it.
        """
        if subject.startswith("c_") and (place := documents.place_of(self.connection, subject)) is not None:
            added = self.event(place[0])
            events = self.stream(added.stream)
            needed = (events[0], events[added.version - 1])  # the document's first event, and the chunk's addition
            return any(event.position in but or not (counts or event.position in also) for event, counts in needed)
        if (message := message_place(subject)) is not None:
            session, position = message
            appended = [
                (event, counts) for event, counts in self.stream(session) if event.position in (position, event.first)
            ]
            return len(appended) < 2 or any(
                event.position in but or not (counts or event.position in also) for event, counts in appended
            )
        return is_subject(subject) and self.state(subject, but, also) is None

    def stands(
        self, subject: str, but: Collection[int] = (), also: Collection[int] = (), gone: Collection[str] = ()
    ) -> bool:
        """Return True if a cited subject is there and rests, in the end, on something outside itself.

        A memory rests on the sources of any attempt at it, an observation on its supports. Memories and observations
        that cite only each other in a circle rest on nothing.
        """
        seen, waiting = set[str](), [subject]
        while waiting:
            source = waiting.pop()
            if source in seen or source in gone:
                continue
            seen.add(source)
            if source[:2] not in ("m_", "o_"):
                if not self.is_gone(source, but, also):
                    return True
                continue
            for sources in self._underlying(source, but, also):
                if not sources:
                    return True
                waiting += sources
        return False

    def _underlying(self, subject: str, but: Collection[int], also: Collection[int]) -> Iterable[Sequence[str]]:
        """Yield the groups of sources of a memory or an observation; one group is enough.

        An empty group means that the subject stands by itself.
        """
        if subject[0] == "o":
            evidence = [support for support, _ in supports(self.counting(subject, but, also)).values()]
            standing = [support.source for support in evidence if not support.withdrawn]
            counting = standing or [support.source for support in evidence]
            if counting and self.state(subject, but, also) is not None:
                yield counting
            return

        def is_out(position: int) -> bool:
            return position in but or (position not in also and self.is_out(position))

        for event in self.counting(subject, but, also):
            if isinstance(event.data, ATTEMPTS):
                sources: Sequence[str] = event.data.sources
                # the session is no ground if the message in it is void, even if a captured turn has the same text
                if has_lost_its_message(self, event, is_out, lambda turn: True):
                    sources = [source for source in sources if not source.startswith("s_")]
                    if not sources:
                        continue
                yield sources

    def is_unsupported(
        self, attempt: AnyEvent, but: Collection[int] = (), also: Collection[int] = (), gone: Collection[str] = ()
    ) -> bool:
        """Return True if an attempt at a memory has lost its ground.

        That is so if it cites sources and none of them stands, or if the message in which it was found is void and no
        captured turn with the message's text stands.
        """

        def is_out(position: int) -> bool:
            return position in but or (position not in also and self.is_out(position))

        def is_gone(subject: str) -> bool:
            return not self.stands(subject, but, also, gone)

        sources = attempt.data.sources
        return (bool(sources) and all(map(is_gone, sources))) or has_lost_its_message(self, attempt, is_out, is_gone)

    def citing(self, subject: str) -> list[str]:
        """Return the memories that cite a subject or one of its chunks as a source, in effect or not."""
        return [self.event(row).stream for row in documents.dependents(self.connection, subject)]

    def resting_on(self, subject: str) -> list[str]:
        """Return the memories that rest on a subject.

        These are the memories that cite the subject, one of its chunks, or an observation that the subject or one of
        its parts supports.
        """
        memories = dict.fromkeys(self.citing(subject))
        for source in (subject, *observations.parts(self.connection, subject)):
            for row in observations.ever_supported_by(self.connection, source):
                memories |= dict.fromkeys(self.citing(self.event(row).stream))
        return list(memories)

    def found_in(self, session: str) -> dict[int, list[str]]:
        """Return the memories that rest on each message of a session, by the message's position."""
        if session not in self._found_in:
            self._found_in[session] = self.citations.memories(session)
        return self._found_in[session]

    def cause_of(self, event: AnyEvent) -> int | None:
        """Return the position of the event that an event reacted to, if the event falls with that cause."""
        cause = event.envelope.causation_id
        entry = audit.by_event(self.connection, cause) if cause is not None and event.type not in _RESTING else None
        return entry.position if entry is not None and entry.user == event.envelope.user else None

    def caused_by(self, event: AnyEvent) -> list[audit.AuditRow]:
        """Return the entries that reacted to an event, within the memory of the same user.

        The forming and supporting of observations is left out: an observation rests on its sources, and a source that
        is no longer live stops supporting it without any event.
        """
        caused = audit.caused_by(self.connection, event.envelope.event_id)
        return [entry for entry in caused if entry.user == event.envelope.user and entry.type not in _RESTING]

    def reinforced_by(self, interaction: str) -> list[int]:
        """Return the reinforcements that people gave with an interaction as evidence, which fall with it."""
        return confidence.given_for(self.connection, interaction)

    def restated_by(self, interaction: str) -> list[str]:
        """Return the memories that an interaction was found to restate; their reinforcement rests on it."""
        events = (event.data for event, _ in self.stream(interaction))
        evaluations = (data for data in events if isinstance(data, ReinforcementEvaluated))
        return [match.memory for data in evaluations for match in data.matches]

    def joining(self, memory: str) -> list[str]:
        """Return the merges and conflicts that a memory is a member of."""
        rows = (*merges.ever_about(self.connection, memory), *conflicts.ever_about(self.connection, memory))
        return [self.event(row).stream for row in rows]

    def members_of(self, edge: AnyEvent) -> tuple[str, ...]:
        """Return the memories from which a merged memory took over a relation; empty for any other relation."""
        if not follows(edge):
            return ()
        entries = self.command(edge)
        merged = (self.event(entry.position).data for entry in entries if entry.type == MemoriesMerged.__name__)
        return next((data.memories for data in merged if data.memory == edge.stream), ())

    def merged_from(self, memory: str) -> set[str]:
        """Return the memories that this memory was merged into."""
        merged = (event.data for merge in self.joining(memory) for event, _ in self.stream(merge))
        return {data.memory for data in merged if isinstance(data, MemoriesMerged)}

    def is_out(self, position: int) -> bool:
        return position not in self._back and bool(control.voided(self.connection, position, position))


def has_lost_its_message(
    reader: Reader, event: AnyEvent, is_out: Callable[[int], bool], is_gone: Callable[[str], bool]
) -> bool:
    """Return True if a memory rests on a void message whose text no captured turn has either."""
    for position in reader.citations.behind(event):
        if is_out(position):
            turn = getattr(reader.event(position).data, "interaction", None)
            if turn is None or is_gone(turn):
                return True
    return False


def use_of(reader: Reader, registered: AnyEvent, is_out: Callable[[int], bool]) -> AnyEvent | None:
    """Return an event that uses a registered project and would not fall, or None.

    A use is in the project, is about it, or cites it. While there is one, the name stands, whoever registered it.
    """
    project, idle = registered.stream, INERT + LASTING
    sql = "SELECT position, type FROM audit WHERE project = ? ORDER BY position"
    used = [position for position, type_ in reader.connection.execute(sql, (project,)) if type_ not in idle]
    cited = (event for memory in reader.citing(project) for event, _ in reader.stream(memory))
    used += [event.position for event in cited if isinstance(event.data, ATTEMPTS) and project in event.data.sources]
    position = next((used_at for used_at in used if used_at != registered.position and not is_out(used_at)), None)
    return reader.event(position) if position is not None else None


def follows(event: AnyEvent) -> bool:
    """Return True if an event was no act, but only followed from others.

    Such an event goes and returns without its command: a relation that a merge copied; an observation that was retired
    for want of evidence or into another; and the reinforcement of a memory that a response restates, because each of
    these memories has it independently.
    """
    if isinstance(event.data, MemoryReinforced):
        return event.data.matcher is not None
    if isinstance(event.data, ObservationRetracted):
        return event.data.why in (NO_EVIDENCE, "merged")
    return isinstance(event.data, RelationAdded) and event.envelope.command in ("merges.apply", "merges.combine")


def is_subject(stream: str) -> bool:
    return stream[1:2] == "_" and stream[0] in FAMILIES


class _Everything(frozenset[int]):
    """A set that contains every position."""

    def __contains__(self, position: object) -> bool:
        return True


EVERYTHING = _Everything()
